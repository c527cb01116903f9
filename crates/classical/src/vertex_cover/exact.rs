//! [`optimum`]: a smallest cover, by branch and reduce on the components of what the reductions leave.

use serde::{Deserialize, Serialize};
use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::greedy::edge_greedy;
use crate::vertex_cover::local_search::{SearchOptions, improve};
use crate::vertex_cover::parts::Parts;
use crate::vertex_cover::reduce::reduce;
use crate::vertex_cover::rules::Rules;

/// Steps of the local search that finds the first cover, for each node.
const STEPS_PER_NODE: u64 = 100;

/// When a search for an optimum is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Branches that are looked at.
    pub branches: u64,
    /// Bytes of the bit rows of a component, n^2 / 8.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            branches: 1_000_000,
            bytes: 1 << 30,
        }
    }
}

/// A smallest cover, ascending; `None` when the limits or the budget's time limit came first.
///
/// # Complexity
/// Exponential in the worst case. Random graphs of 100 to 200 nodes, and much larger graphs that the reductions take apart.
///
/// # Determinism
/// The same cover for the same graph and limits, without a time limit.
///
/// # Source
/// Akiba and Iwata (2016): reductions, components, mirrors, branching on a node of largest degree; bounds by cliques and unit
/// propagation: Li and Quan (2010).
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{Limits, optimum};
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let cover = optimum(&petersen, &Limits::default(), &Budget::unlimited());
/// assert_eq!(cover.map(|cover| cover.len()), Some(6));
/// let none = Limits { branches: 0, ..Limits::default() };
/// let random = "er:100:0.2".parse::<shardgraph_graph::generate::GeneratorSpec>()?.graph(1)?;
/// assert_eq!(optimum(&random, &none, &Budget::unlimited()), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn optimum(graph: &Graph, limits: &Limits, budget: &Budget<'_>) -> Option<Vec<u32>> {
    let stopwatch = Stopwatch::begin(budget);
    let reduction = reduce(graph, &Rules::all(), &stopwatch.rest());
    let kernel = reduction.kernel();
    let mut parts = Parts::new(kernel, &good_cover(kernel, &stopwatch));
    let mut branches = limits.branches;
    parts.solve(&mut branches, most_nodes(limits.bytes), &stopwatch);
    match parts.is_solved() && !stopwatch.is_late() {
        true => reduction.lift(&parts.cover()).ok(),
        false => None,
    }
}

/// The nodes of the largest component whose bit rows take no more bytes.
fn most_nodes(bytes: u64) -> u32 {
    let root = bytes.saturating_mul(8).isqrt();
    u32::try_from(root).unwrap_or(u32::MAX)
}

/// A cover to be better than.
fn good_cover(graph: &Graph, stopwatch: &Stopwatch<'_>) -> Vec<u32> {
    let start = edge_greedy(graph);
    let options = SearchOptions {
        steps: STEPS_PER_NODE * u64::from(graph.n_nodes()),
        ..SearchOptions::default()
    };
    // What is too large for the search is left as it is.
    match improve(graph, &start, &options, &stopwatch.rest()) {
        Ok(found) => found.cover,
        Err(_) => start,
    }
}
