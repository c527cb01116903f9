//! OpenGraphGym-MG: train and apply a deep-RL policy for graph problems on graphs cut over P ranks.
//!
//! The way through this crate: an [`Adjacency`](shardgraph_shard::Adjacency) and a [`TrainedPolicy`] go into [`solve`],
//! which cuts the graph, runs the episode on every rank (algorithm 4 of the paper) and checks the cover; [`train`] makes
//! policies (algorithm 5). [`solve`] is for minimum vertex cover; [`solve_problem`] and [`train`] do every [`problem`].
//!
//! Inference keeps the residual degrees and neighbour degrees by integer increments, so that for policies of up to two
//! layers a step costs what the removal changes and not a pass over the graph; other models run through
//! [`shardgraph_layers`].
//!
//! An example is at [`solve`].
#![deny(unsafe_code)]

mod agreement;
mod best;
mod complement;
mod episode_loop;
mod error;
mod evaluation;
mod exchange;
mod kept_scores;
#[expect(unsafe_code, reason = "launches of kernels")]
pub mod kernels;
mod max_tree;
mod memory;
mod model_scorer;
mod on_device;
mod on_ranks;
mod policy;
pub mod problem;
mod reduced;
mod residual;
mod residual_episode;
mod rows;
mod select;
mod share;
mod solve;
mod solve_options;
mod solve_problem;
mod solver;
mod state_episode;
pub mod train;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

pub use best::{Best, BestOptions, Row, RunPolicy, has_classical_search, solve_best};
pub use complement::cover_by_independent_set;
pub use error::{Error, ErrorKind};
pub use exchange::{Exchange, PaperModel};
pub use policy::{AdjacencyScale, PolicyConfig, TrainedPolicy};
pub use reduced::{ReducedSolution, solve_reduced};
pub use select::Select;
pub use shardgraph_layers::{EmbeddingKind, HeadKind, LayerRegistry, Path as EmbeddingPath};
pub use shardgraph_shard::Communication;
pub use solve::{Scores, Solution, check_cover, score_nodes, solve, solve_as_rank};
pub use solve_options::SolveOptions;
pub use solve_problem::{
    solve_problem, solve_problem_as_rank, solve_problems, solve_problems_as_rank,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
