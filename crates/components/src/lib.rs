//! Reinforcement-learning components: plain structs over one set of parameters, composed by calling
//! each other.
//!
//! A component is built from `&mut Params`, a scope and its input spaces or widths, so what is
//! built is complete. Its methods take `&mut dyn Ctx`: the same method is checked for shapes, run
//! eagerly, and recorded for a plan. With the feature `testing`, `check` does all of that with
//! example data from the input spaces, and compares.
//!
//! ```text
//! Params, Initialiser (Gains) ── build ──> Linear ─ Mlp ─ DuelingHead ─ QNetwork      rows to action values
//!                                          Lstm (Sequences) ─ ActorCritic             sequences to policies, values
//!                                          Gru ─ EdgeMessagePassing (EdgeBatch)       graphs to rows of nodes
//! what they say ── SoftmaxPolicy, EpsilonSchedule ──> actions
//!               ── DqnLoss, Reinforce, ImpalaLoss (VTrace), PpoLoss, SacLoss ──> loss ── Optimiser ──> next Params
//! SAC's parts: SacPolicy (SquashedGaussian, SoftmaxPolicy), TwinCritic, Temperature
//! settings: QNetworkShape, ActorCriticShape, EdgeMessagePassingShape, OptimiserConfig
//! ```
//!
//! # Source
//! RLgraph, sections 3 and 4: components with API methods, built from spaces, and tested alone.
//!
//! ```
//! use shardgraph_components::autodiff::collectives::Comm;
//! use shardgraph_components::autodiff::device::Device;
//! use shardgraph_components::autodiff::{Ctx, Eager, Params, Shape};
//! use shardgraph_components::environments::space::Space;
//! use shardgraph_components::{EnvironmentSpaces, Initialiser, QNetwork, QNetworkShape};
//!
//! let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
//! let spaces = EnvironmentSpaces::new(&observation, &action);
//! let mut params = Params::new();
//! let network = QNetwork::build(&mut params, "online", spaces, &QNetworkShape::default(), Initialiser::default())?;
//! let (device, mut comm) = (Device::host(), Comm::solo());
//! let mut ctx = Eager::new(&device, &mut comm, &params);
//! let x = ctx.input(Shape::new(1, 4), &[0.1, 0.0, -0.1, 0.0])?;
//! let q = network.q_values(&mut ctx, x)?;
//! assert_eq!(ctx.values(q)?.len(), 2);
//! # Ok::<(), shardgraph_components::Error>(())
//! ```
#![forbid(unsafe_code)]

mod action_distribution;
mod actor_critic;
#[cfg(any(test, feature = "testing"))]
mod check;
mod constant_parameters;
mod dqn_loss;
mod dueling_head;
mod edge_batch;
mod edge_message_passing;
mod epsilon;
mod error;
mod gaussian_policy;
mod gru;
mod initialiser;
mod linear;
mod lstm;
mod mlp;
mod optimiser;
mod optimiser_config;
mod policy_gradient;
mod ppo_loss;
mod q_network;
mod recurrent;
mod rows;
mod sac_loss;
mod sac_policy;
mod sequences;
mod softmax_policy;
mod spaces;
mod squashed_gaussian;
mod temperature;
mod twin_critic;
mod v_trace;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use action_distribution::{ActionDistribution, Evaluated};
pub use actor_critic::{ActorCritic, ActorCriticShape, PolicyAndValue};
#[cfg(any(test, feature = "testing"))]
pub use check::{CheckError, Checked, CheckedRows, check};
pub use dqn_loss::{DqnBatch, DqnLoss, DqnOutput, TdLoss};
pub use dueling_head::DuelingHead;
pub use edge_batch::EdgeBatch;
pub use edge_message_passing::{
    Aggregation, EdgeMessagePassing, EdgeMessagePassingShape, NodeUpdate,
};
pub use epsilon::EpsilonSchedule;
pub use error::Error;
pub use gaussian_policy::GaussianPolicy;
pub use gru::Gru;
pub use initialiser::{Gains, Initialisation, Initialiser};
pub use linear::Linear;
pub use lstm::{Lstm, LstmState};
pub use mlp::Mlp;
pub use optimiser::Optimiser;
pub use optimiser_config::{AdamConstants, OptimiserConfig, OptimiserRule};
pub use policy_gradient::{ImpalaBatch, ImpalaLoss, PolicyLoss, Reduction, Reinforce};
pub use ppo_loss::{PpoBatch, PpoLoss, PpoOutput};
pub use q_network::{QNetwork, QNetworkShape};
pub use sac_loss::{SacBatch, SacLoss, SacNetworks, SacOutput};
pub use sac_policy::{SacDistribution, SacDraw, SacPolicy};
pub use sequences::Sequences;
pub use softmax_policy::SoftmaxPolicy;
pub use spaces::EnvironmentSpaces;
pub use squashed_gaussian::{SquashedDraw, SquashedGaussian};
pub use temperature::Temperature;
pub use twin_critic::TwinCritic;
pub use v_trace::{VTrace, VTraceInputs, VTraceOutput};

pub use shardgraph_autodiff as autodiff;
pub use shardgraph_environments as environments;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
