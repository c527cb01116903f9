//! Replay memories. [`UniformMemory`] and [`PrioritizedMemory`] keep rows of any [`ColumnLayout`]
//! as a structure of arrays; [`EpisodeMemory`] is for graph problems: a transition is an episode
//! and a step, and a state is the prefix of the episode's picks. [`NStepAssembler`] makes n-step
//! transitions of single steps.
//!
//! A memory of whole states takes N numbers a transition. Here a state after t steps of an episode
//! is its first t picks, so a transition takes 8 B (reward and target) and its pick 4 B, whatever
//! N; the state is rebuilt from its picks when it is sampled.
//!
//! ```text
//! ColumnLayout (Space leaves) ── Rows ── UniformMemory      a ring of rows, each as likely as the next
//!                                     └─ PrioritizedMemory  by TD error: SumTree, importance weights
//! NStepAssembler ── steps of one environment ──> NStepTransition, a row's contents
//! EpisodeMemory ── picks of graph problems ──> Transition, NStep
//! ItemId, generation: the use of a slot that is meant; stale ones are refused
//! ```
//!
//! ```
//! use shardgraph_replay::{Ending, EpisodeMemory};
//!
//! let mut memory = EpisodeMemory::new(50_000);
//! let episode = memory.begin_episode(7); // on graph 7
//! for pick in [4, 0, 2] {
//!     memory.record(pick, -1.0, None)?;
//! }
//! memory.end_episode(Ending::Terminated)?;
//!
//! let mut coin = 0;
//! let batch = memory.sample(2, &mut |n| { coin += 1; coin % n }); // any unbiased source of numbers below n
//! let transition = batch[0];
//! assert_eq!((transition.episode, transition.step), (episode, 1));
//! assert_eq!(memory.prefix(&transition), Some(&[4][..])); // the state
//! let two_steps = memory.n_step(&transition, 2, 0.5).unwrap();
//! assert_eq!((two_steps.reward_sum, two_steps.bootstrap_step), (-1.5, None)); // the episode ended
//! # Ok::<(), shardgraph_replay::Error>(())
//! ```
#![forbid(unsafe_code)]

mod codec;
mod episode_bytes;
mod episode_memory;
mod error;
mod layout;
mod n_step;
mod n_step_assembler;
mod prioritized_memory;
mod ring;
mod rows;
mod rows_bytes;
mod sum_tree;
mod uniform_memory;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use episode_memory::{Ending, EpisodeId, EpisodeMemory, Transition};
pub use error::Error;
pub use layout::{Column, ColumnLayout};
pub use n_step::NStep;
pub use n_step_assembler::{NStepAssembler, NStepTransition};
pub use prioritized_memory::{Prioritization, PrioritizedBatch, PrioritizedMemory};
pub use ring::ItemId;
pub use rows::Rows;
pub use shardgraph_environments::space::{ElementKind, LeafRef};
pub use uniform_memory::UniformMemory;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
