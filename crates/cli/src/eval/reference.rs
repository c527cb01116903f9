//! What an answer can be at best: an optimum that is proved here, or a bound on it.

use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{Limits, optimum};
use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_solver::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Problem};
use shardgraph_solver::{BestOptions, has_classical_search, solve_best};

use super::optima::Optimum;

/// The largest graphs that are searched unasked, and how far.
const SMALL_NODES: u32 = 200;
const SMALL_BRANCHES: u64 = 20_000;
const SMALL_STEPS: u64 = 20_000;

/// What is known of a graph without a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    pub(super) optimum: Option<Optimum>,
    /// No answer is better than this.
    pub(super) bound: Option<f64>,
}

impl Reference {
    fn proved(value: f64) -> Reference {
        Reference {
            optimum: Some(Optimum {
                value,
                proved: true,
                source: "exact",
            }),
            bound: Some(value),
        }
    }

    /// Reductions and bounds on any graph, an exact search on a small one, or on any for so many seconds; nothing for 0 seconds.
    ///
    /// # Errors
    /// An answer that fails its check.
    pub(super) fn of(
        problem: &Problem,
        graph: &Graph,
        seconds: Option<f64>,
    ) -> Result<Reference, shardgraph_solver::Error> {
        if seconds.is_some_and(|seconds| seconds <= 0.0) || !has_classical_search(problem) {
            return Ok(Reference::default());
        }
        let is_small = graph.n_nodes() <= SMALL_NODES;
        if let Some(value) = branch_and_bound(problem, graph, seconds, is_small) {
            return Ok(Reference::proved(value));
        }
        let timer = Timer::wall();
        let clock = || timer.elapsed_s();
        let options = BestOptions {
            steps: match (seconds, is_small) {
                (Some(_), _) => None,
                (None, true) => Some(SMALL_STEPS),
                (None, false) => Some(0),
            },
            seconds_after_reductions: None,
            has_greedy: false,
            ..BestOptions::default()
        };
        let budget = Budget {
            clock: &clock,
            time_limit: seconds,
            ..Budget::unlimited()
        };
        let best = solve_best(problem, graph, &options, &budget, None)?;
        match best.is_optimal {
            true => Ok(Reference::proved(best.objective.value())),
            false => Ok(Reference {
                optimum: None,
                bound: best.bound,
            }),
        }
    }
}

/// The size of a smallest cover, or of the largest independent set that it leaves, where branch and bound ends.
fn branch_and_bound(
    problem: &Problem,
    graph: &Graph,
    seconds: Option<f64>,
    is_small: bool,
) -> Option<f64> {
    let is_cover = problem.name == MINIMUM_VERTEX_COVER.name;
    let is_set = problem.name == MAXIMUM_INDEPENDENT_SET.name;
    if !(is_cover || is_set) || seconds.is_some() || !is_small {
        return None;
    }
    let limits = Limits {
        branches: SMALL_BRANCHES,
        ..Limits::default()
    };
    let n_cover = optimum(graph, &limits, &Budget::unlimited())?.len();
    let n_nodes = graph.n_nodes() as usize;
    Some(if is_cover { n_cover } else { n_nodes - n_cover } as f64)
}
