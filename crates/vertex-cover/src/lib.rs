//! Minimum vertex cover of one graph on one core: exact reductions with lifting, local search, branch and reduce.
//!
//! [`reduce`] shrinks a graph to a kernel by rules that keep an optimum; what covers the kernel is lifted back by
//! [`Reduction::lift`]; [`reduce_and_peel`] goes on by guesses to a cover. [`improve`] makes a cover smaller by local search
//! within a budget of steps or seconds. [`optimum`] finds a smallest cover of a small graph, or says that its limits were too low.
//!
//! ```
//! use shardgraph_graph::builtin;
//! use shardgraph_vertex_cover::{Rules, SearchOptions, Watch, check_cover, edge_greedy, improve, reduce};
//!
//! let karate = builtin::by_name("karate").unwrap();
//! let reduction = reduce(&karate, &Rules::all(), &Watch::unlimited());
//! assert_eq!((reduction.kernel().n_nodes(), reduction.offset()), (0, 14));
//! assert_eq!(reduction.lift(&[])?.len(), 14);
//!
//! let start = edge_greedy(&karate);
//! let options = SearchOptions { steps: 1000, ..SearchOptions::default() };
//! let found = improve(&karate, &start, &options, &Watch::unlimited())?;
//! check_cover(&karate, &found.cover)?;
//! assert_eq!(found.cover.len(), 14);
//! # Ok::<(), shardgraph_vertex_cover::Error>(())
//! ```
#![forbid(unsafe_code)]

mod best_cover;
mod check;
mod domination;
mod dynamic;
mod error;
mod exact;
mod funnel;
mod greedy;
mod incidence;
mod linear_program;
mod local_search;
mod lower_bound;
mod marks;
mod matching;
#[cfg(test)]
mod naive;
mod peeling;
mod queue;
mod reduce;
mod reduction;
mod rows;
mod rules;
mod search_state;
mod strong;
mod struction;
#[cfg(test)]
mod tests;
mod unconfined;
mod watch;

pub use check::check_cover;
pub use error::{Error, ErrorKind};
pub use exact::{Limits, optimum};
pub use greedy::edge_greedy;
pub use local_search::{Improved, SearchOptions, improve};
pub use lower_bound::clique_cover_bound;
pub use peeling::Peeling;
pub use reduce::{reduce, reduce_and_peel, reduce_given};
pub use reduction::Reduction;
pub use rules::{RuleCounts, Rules};
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
