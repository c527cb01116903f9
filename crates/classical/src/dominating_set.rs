//! Minimum dominating set: exact rules, greedy, weighted local search, dual bound, branch and bound.
//!
//! [`solve`] gives the smallest dominating set that a budget allows, and proves it where it can; [`check_dominating_set`] is the check.
//! Within, the closed neighbourhoods are the sets of a set cover.

mod check;
mod components;
mod dual;
mod exact;
mod greedy;
mod local_search;
#[cfg(test)]
mod naive;
mod reduction;
mod rows;
mod stages;
#[cfg(test)]
mod tests;

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::error::Error;
use crate::searches::{check_threads, indicator};
use crate::solution::{Options, Solution};
pub use check::check_dominating_set;
use rows::{Rows, SetCover};
use stages::Stages;

/// A dominating set with as few nodes as the budget allows: exact rules, a greedy start, a dual bound, exact search, local search.
///
/// The time limit holds for all stages together; once it is over, or the call is cancelled, the best answer so far is given. With
/// `options.steps`, or without a time limit, the work is counted and not timed; 0 steps mean rules, greedy and what proves them quickly.
///
/// # Errors
/// `NoNode`, `Twice` or `Undominated` for starts that dominate not every node, `Option` for no threads, `Thread`.
///
/// # Determinism
/// The same answer for the same graph, starts, seed, threads and steps on every machine, without a time limit.
///
/// # Complexity
/// Rules and greedy are near-linear on sparse graphs; memory is about 40 B an edge.
///
/// # Source
/// Alber, Fellows and Niedermeier (2004), "Polynomial-time data reduction for dominating set"; Beasley (1987, 1990) for set cover;
/// Gao, Weise and Li (2015), RWLS, for the local search.
///
/// ```
/// use shardgraph_classical::{Budget, Options, dominating_set};
/// use shardgraph_graph::builtin;
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let solution = dominating_set::solve(&petersen, &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.nodes.len(), solution.is_optimal), (3, true));
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn solve(graph: &Graph, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
    check_threads(options.threads)?;
    for start in options.starts {
        check_dominating_set(graph, start)?;
    }
    let stopwatch = Stopwatch::begin(budget);
    let cover = neighborhoods(graph);
    let mut stages = Stages::begin(&cover, options, stopwatch);
    for start in options.starts {
        stages.start(&indicator(graph.n_nodes(), start)?);
    }
    stages.end("greedy");
    if !stages.is_over() {
        stages.prove();
        stages.end("branch and bound");
    }
    if !stages.is_over() && options.steps != Some(0) {
        stages.search()?;
        stages.end("local search");
    }
    let solution = stages.finish();
    check_dominating_set(graph, &solution.nodes)?;
    Ok(solution)
}

/// The set cover whose sets are the closed neighbourhoods.
fn neighborhoods(graph: &Graph) -> SetCover {
    let mut rows = Rows::new();
    for v in 0..graph.n_nodes() {
        let row = graph.neighbors(v);
        let (below, above) = row.split_at(row.partition_point(|&u| u < v));
        let closed = below.iter().copied().chain([v]);
        rows.push(closed.chain(above.iter().copied()));
    }
    SetCover::symmetric(rows)
}
