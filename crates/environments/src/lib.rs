//! Reinforcement-learning environments: five problems on graphs with their verifiers and greedy
//! baselines, control tasks, small worlds and MinAtar's games by name, vectors of environments of
//! one's own, and the spaces of observations and actions.
//!
//! ```text
//! Environment ── step, candidates, observation, spaces
//!  ├─ CartPole                 CartPoles: many at once (Autoreset, VectorStep)
//!  └─ Episode<S> ── picks, step limit, end of any graph problem
//!        └─ S: ProblemState ── candidates, what a pick changes, features
//!              └─ ResidualGraph ── the shared graph under a mask
//! VectorEnvironment ── steps of many copies in flat rows (Actions, VectorStep, Autoreset)
//!  ├─ CartPoles
//!  ├─ FunctionalVector<E> ── episodes, masks, checkpoint bytes
//!  │     └─ E: FunctionalEnvironment ── initial, transition, observe, mask
//!  │           ├─ GraphEnvironment ── the graph problems, for agents
//!  │           └─ PlacementEnvironment ── placement of computation graphs
//!  └─ ScaledObservations ── another vector with its observations in -1 to 1
//! ENVIRONMENTS, named_environment ── the vectors that come with the program
//! Problem ── one table entry: names, sense, begin, check (verify), baselines;   PROBLEMS, problem_by_name
//! Space ── SpaceKind, Value, LeafRef
//! ```
//!
//! An episode holds one shared graph that is never edited. A past state needs no copy: it follows
//! from the graph and the picks.
//!
//! ```
//! use std::sync::Arc;
//! use shardgraph_environments::{Environment, Episode, MinimumVertexCover, verify};
//! use shardgraph_graph::Graph;
//!
//! let path = Arc::new(Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?);
//! let mut episode = Episode::<MinimumVertexCover>::new(path.clone());
//! assert_eq!(episode.candidates(), [0, 1, 2, 3]);
//! assert_eq!(episode.step(1)?.reward, -1.0);
//! assert!(episode.step(2)?.terminated);
//! assert_eq!(verify::uncovered_edge(&path, episode.in_answer()), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod baselines;
mod cart_pole;
mod cart_poles;
mod cart_poles_bytes;
mod cart_shard;
mod environment;
mod episode;
mod error;
mod functional;
mod functional_shard;
mod functional_vector;
mod graph_environment;
mod named;
mod placement_environment;
mod problem;
mod problems;
mod residual;
mod scaled_observations;
pub mod space;
mod tasks;
mod threads;
mod vector;
mod vector_environment;
pub mod verify;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use cart_pole::CartPole;
pub use cart_poles::CartPoles;
pub use environment::{Environment, Step};
pub use episode::{CloneState, Episode, ProblemState};
pub use error::Error;
pub use functional::{Action, FunctionalEnvironment, Transition};
pub use functional_vector::FunctionalVector;
pub use graph_environment::{GraphEnvironment, GraphSource, GraphState, InvalidActions};
pub use named::{ENVIRONMENTS, EnvironmentOptions, NamedEnvironment, named_environment};
pub use placement_environment::{PlacementEnvironment, PlacementOptions, PlacementState};
pub use problem::{Baseline, Objective, Problem, Sense};
pub use problems::{
    MAXIMUM_CLIQUE, MAXIMUM_CUT, MAXIMUM_INDEPENDENT_SET, MINIMUM_DOMINATING_SET,
    MINIMUM_VERTEX_COVER, MaximumClique, MaximumCut, MaximumIndependentSet, MinimumDominatingSet,
    MinimumVertexCover, PROBLEMS, problem_by_name,
};
pub use residual::ResidualGraph;
pub use scaled_observations::ScaledObservations;
pub use tasks::acrobot::{Acrobot, Links};
pub use tasks::mountain_car::{Car, MountainCar, MountainCarContinuous};
pub use tasks::pendulum::{Pendulum, Swing};
pub use tasks::tabular::{CliffWalking, FrozenLake, FrozenLakeOptions, Taxi, Trip};
pub use threads::Threads;
pub use vector::{Actions, Autoreset, VectorStep};
pub use vector_environment::VectorEnvironment;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
