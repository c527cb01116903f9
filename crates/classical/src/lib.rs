//! Graph problems without learning: reductions, local search and exact search, on one machine.
//!
//! Each problem has a module with `solve` and a check: [`vertex_cover`], [`independent_set`], [`clique`], [`cut`] and
//! [`dominating_set`]. Calls take a [`Budget`]: the clock is the caller's, so that this crate reads none.
//!
//! ```
//! use shardgraph_graph::builtin;
//! use shardgraph_classical::Budget;
//! use shardgraph_classical::vertex_cover::{Rules, SearchOptions, check_cover, edge_greedy, improve, reduce};
//!
//! let karate = builtin::by_name("karate").unwrap();
//! let reduction = reduce(&karate, &Rules::all(), &Budget::unlimited());
//! assert_eq!((reduction.kernel().n_nodes(), reduction.offset()), (0, 14));
//! assert_eq!(reduction.lift(&[])?.len(), 14);
//!
//! let start = edge_greedy(&karate);
//! let options = SearchOptions { steps: 1000, ..SearchOptions::default() };
//! let found = improve(&karate, &start, &options, &Budget::unlimited())?;
//! check_cover(&karate, &found.cover)?;
//! assert_eq!(found.cover.len(), 14);
//! # Ok::<(), shardgraph_classical::Error>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
pub mod clique;
pub mod cut;
pub mod dominating_set;
mod error;
pub mod independent_set;
mod searches;
mod solution;
#[cfg(test)]
mod tests;
pub mod vertex_cover;
mod weighted;

pub use budget::Budget;
pub use error::{Error, ErrorKind};
pub use solution::{Options, Solution, Stage};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
