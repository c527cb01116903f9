//! Minimum vertex cover: exact reductions with lifting, local search, branch and reduce.
//!
//! [`solve()`] is all of them within one budget. [`reduce()`] shrinks a graph to a kernel by rules that keep an optimum; what covers the kernel is lifted back by
//! [`Reduction::lift`]; [`reduce_and_peel`] goes on by guesses to a cover. [`improve`] makes a cover smaller by local search
//! within a budget of steps or seconds. [`optimum`] finds a smallest cover of a small graph, or says that its limits were too low.

#[cfg(test)]
use crate::Budget;
use crate::{Error, ErrorKind};

mod best_cover;
mod bit_graph;
mod bit_rules;
mod branch_and_reduce;
mod check;
mod domination;
mod dynamic;
mod exact;
mod funnel;
mod greedy;
mod incidence;
mod linear_program;
mod local_search;
mod lower_bound;
mod marks;
mod matching;
mod max_sat_bound;
#[cfg(test)]
pub(crate) mod naive;
mod parts;
mod peeling;
mod queue;
mod reduce;
mod reduce_and_peel;
mod reduction;
mod restarts;
mod rows;
mod rules;
mod search_state;
mod solve;
mod strong;
mod struction;
#[cfg(test)]
pub(crate) mod tests;
mod unconfined;
mod waiting;

pub use check::check_cover;
pub use exact::{Limits, optimum};
pub use greedy::edge_greedy;
pub use local_search::{Improved, SearchOptions, improve};
pub use lower_bound::clique_cover_bound;
pub use peeling::Peeling;
pub use reduce::{reduce, reduce_given};
pub use reduce_and_peel::reduce_and_peel;
pub use reduction::Reduction;
pub use rules::{RuleCounts, Rules};
pub use solve::{Search, solve, solve_weighted};

pub(crate) use bit_graph::BitGraph;
pub(crate) use check::{indicator, listed};
pub(crate) use dynamic::Dynamic;
pub(crate) use marks::Marks;
pub(crate) use parts::{Component, components};
