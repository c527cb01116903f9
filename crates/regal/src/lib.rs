//! Places and schedules computation graphs on devices, after REGAL ("Reinforced genetic algorithm learning for optimizing
//! computation graphs").
//!
//! [`place`] is the job: a graph, devices and [`PlaceOptions`] in, a [`Plan`] out, whose schedule an independent replay has checked.
//! [`compare`](compare()) does it with several [`Method`]s and makes a [`Comparison`]; [`tune`](tune()) picks the genetic
//! algorithm's numbers on a set of graphs; [`search`](search()) is the genetic algorithm on a problem, for those who bring their
//! own proposals. The learned part: [`features`](features()) of a problem are what a [`Policy`] reads to propose distributions for
//! the genetic algorithm's keys, [`place_with_policy`] makes a plan with them, and [`train`](train()) learns a policy by REINFORCE.
//!
//! ```
//! use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec, TensorSpec};
//! use shardgraph_regal::{PlaceOptions, place};
//!
//! let mut builder = GraphBuilder::new("diamond");
//! let [a, b, c, d] = [("a", 5), ("b", 40), ("c", 30), ("d", 5)].map(|(name, cost)| builder.op(OpSpec::new(name, cost)));
//! builder.tensor(TensorSpec::new(a, 16, &[b, c]));
//! builder.tensor(TensorSpec::new(b, 16, &[d]));
//! builder.tensor(TensorSpec::new(c, 16, &[d]));
//! let graph = builder.build()?;
//!
//! let plan = place(&graph, &DeviceSet::uniform(2, None)?, &PlaceOptions::default())?;
//! assert_eq!((plan.outcome.runtime_ns, plan.lower_bound()), (50, 50));
//! assert_ne!(plan.schedule.placement[1], plan.schedule.placement[2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod compare;
mod error;
mod features;
mod learned;
mod method;
mod options;
mod place;
mod plan;
mod policy;
mod portfolio;
mod prefixes;
mod proposals;
mod search;
mod starts;
mod throughput;
mod train;
mod tune;
mod watch;

pub use compare::{Comparison, MethodSummary, Row, compare, decoder_for, summary};
pub use error::{Error, ErrorKind};
pub use features::{FeatureSet, Features, features};
pub use learned::place_with_policy;
pub use method::Method;
pub use options::{GeneticOptions, PlaceOptions};
pub use place::{place, place_watched};
pub use plan::{Baseline, Plan};
pub use policy::{ActionSet, Decisions, EncoderShape, Policy, PolicyConfig, Preset};
pub use prefixes::total_evaluations;
pub use proposals::rank_proposals;
pub use search::{Proposals, search};
pub use throughput::{PipelinePlan, place_pipeline, place_pipeline_watched};
pub use train::{
    StepReport, TrainConfig, TrainOptions, TrainOutcome, Trainer, config_of_run, train,
    train_as_rank,
};
pub use tune::{Grid, Tuned, tune, tune_settings};
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
