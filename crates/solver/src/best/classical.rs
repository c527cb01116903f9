//! The classical search of each problem, by the problem's name.

use shardgraph_classical::{Budget, Options, Solution, independent_set, vertex_cover};
use shardgraph_graph::Graph;

use crate::Error;
use crate::problem::Problem;

/// A search of `shardgraph-classical` that begins anew with each call.
type Solve = fn(&Graph, &Options<'_>, &Budget<'_>) -> Result<Solution, shardgraph_classical::Error>;

/// The search for each problem that has one.
const SEARCHES: &[(&str, Solve)] = &[
    ("mvc", vertex_cover::solve),
    ("mis", independent_set::solve),
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

/// The classical search of one problem on one graph.
pub(super) enum Search<'g> {
    /// Goes on from its kernel.
    Covers(vertex_cover::Search<'g>),
    Sets(independent_set::Search<'g>),
    Anew(&'g Graph, Solve),
}

impl<'g> Search<'g> {
    /// Absent for a problem that has none.
    pub(super) fn new(problem: &Problem, graph: &'g Graph) -> Option<Self> {
        let (name, solve) = SEARCHES.iter().find(|(name, _)| *name == problem.name)?;
        Some(match *name {
            "mvc" => Self::Covers(vertex_cover::Search::new(graph)),
            "mis" => Self::Sets(independent_set::Search::new(graph)),
            _ => Self::Anew(graph, *solve),
        })
    }

    /// What the search finds within a budget of this call alone.
    pub(super) fn run(
        &mut self,
        options: &Options<'_>,
        budget: &Budget<'_>,
    ) -> Result<Solution, Error> {
        let found = match self {
            Self::Covers(search) => search.run(options, budget),
            Self::Sets(search) => search.run(options, budget),
            Self::Anew(graph, solve) => solve(graph, options, budget),
        };
        found.map_err(|error| Error::input(error.to_string()))
    }
}
