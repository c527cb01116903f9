//! The classical search of each problem, by the problem's name.

use shardgraph_classical::{Budget, Options, Solution};
use shardgraph_graph::Graph;

use crate::Error;
use crate::problem::Problem;

/// A search of `shardgraph-classical`.
type Search =
    fn(&Graph, &Options<'_>, &Budget<'_>) -> Result<Solution, shardgraph_classical::Error>;

/// The search for each problem that has one.
const SEARCHES: &[(&str, Search)] = &[
    ("mvc", shardgraph_classical::vertex_cover::solve),
    ("mis", shardgraph_classical::independent_set::solve),
    ("clique", shardgraph_classical::clique::solve),
    ("cut", shardgraph_classical::cut::solve),
    (
        "dominating-set",
        shardgraph_classical::dominating_set::solve,
    ),
];

/// Whether [`solve_best`](crate::solve_best) knows reductions or a search for this problem.
pub fn has_classical_search(problem: &Problem) -> bool {
    SEARCHES.iter().any(|(name, _)| *name == problem.name)
}

/// What the search finds; nothing for a problem that has none.
pub(super) fn solve(
    problem: &Problem,
    graph: &Graph,
    options: &Options<'_>,
    budget: &Budget<'_>,
) -> Result<Option<Solution>, Error> {
    let found = SEARCHES.iter().find(|(name, _)| *name == problem.name);
    let Some((_, search)) = found else {
        return Ok(None);
    };
    let solution = search(graph, options, budget);
    solution
        .map(Some)
        .map_err(|error| Error::input(error.to_string()))
}
