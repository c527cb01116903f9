//! Reinforcement-learning environments: the [`Environment`] trait, five problems on graphs (minimum vertex cover, maximum independent
//! set, maximum clique, maximum cut and minimum dominating set), their verifiers and the greedy baselines that learning must beat;
//! cart and pole as the known sanity task; vectors of environments; and the spaces ([`space::Space`]) that observations and actions
//! come from.
//!
//! An environment over a graph holds one shared graph that is never edited: its state is a [`ResidualGraph`], the graph under a mask of
//! removed nodes. A past state needs no copy either: [`replay_prefix`] rebuilds it from the list of picks.
//!
//! ```
//! use std::sync::Arc;
//! use shardgraph_environments::{Environment, MinimumVertexCover, verify};
//! use shardgraph_graph::Graph;
//!
//! let path = Arc::new(Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?);
//! let mut episode = MinimumVertexCover::new(path.clone());
//! assert_eq!(episode.candidates(), [0, 1, 2, 3]);
//! assert_eq!(episode.step(1)?.reward, -1.0);
//! assert!(episode.step(2)?.terminated);
//! assert_eq!(verify::uncovered_edge(&path, episode.in_cover()), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod baselines;
mod cart_pole;
mod cart_poles;
mod cart_poles_bytes;
mod environment;
mod error;
mod maximum_clique;
mod maximum_cut;
mod maximum_independent_set;
mod minimum_dominating_set;
mod minimum_vertex_cover;
mod prefix;
mod residual;
pub mod space;
mod vector_environment;
pub mod verify;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use cart_pole::CartPole;
pub use cart_poles::CartPoles;
pub use environment::{Environment, Step};
pub use error::{Error, ErrorKind};
pub use maximum_clique::MaximumClique;
pub use maximum_cut::{Cut, MaximumCut};
pub use maximum_independent_set::MaximumIndependentSet;
pub use minimum_dominating_set::{Domination, MinimumDominatingSet};
pub use minimum_vertex_cover::MinimumVertexCover;
pub use prefix::{PrefixState, replay_prefix};
pub use residual::ResidualGraph;
pub use vector_environment::{Autoreset, VectorEnvironment, VectorStep};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
