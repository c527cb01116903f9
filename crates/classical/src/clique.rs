//! Maximum clique: degeneracy order and cores, bit-parallel branch and bound, tabu search.
//!
//! [`solve`] gives the largest clique that a budget allows, and proves it where it can; [`check_clique`] is the check.

mod bits;
mod check;
mod degeneracy;
mod exact;
mod local_search;
#[cfg(test)]
mod naive;
mod sparse;
#[cfg(test)]
mod tests;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::error::Error;
use crate::searches::{StageLog, check_threads, indicator, run_searches};
use crate::solution::{Options, Solution};
pub use check::check_clique;
use degeneracy::DegeneracyOrder;
use exact::WorkLimit;
use local_search::LocalSearch;
use sparse::SparseSearch;

/// Steps of each local search where neither steps nor a time limit are given.
const DEFAULT_STEPS: u64 = 100_000;
/// Words of bits that the exact search reads before the local search, and after it where steps limit the work.
const FIRST_WORDS: u64 = 20_000_000;
const LAST_WORDS: u64 = 500_000_000;
/// Comparisons of the greedy start.
const GREEDY_LOOKS: u64 = 10_000_000;
/// Nodes of the local search, which holds a bit for each pair.
const MAX_LOCAL_NODES: usize = 1 << 14;
/// Part of the time limit for local search where the exact search is not done.
const LOCAL_PART: f64 = 0.5;

/// A clique with as many nodes as the budget allows: a greedy start, exact search, tabu search, exact search again.
///
/// The time limit holds for all stages together; once it is over, or the call is cancelled, the best answer so far is given. With
/// `options.steps`, or without a time limit, the work is counted and not timed; 0 steps mean greedy and what is proved quickly.
///
/// # Errors
/// `NoNode`, `Twice` or `NotAdjacent` for starts that are no cliques, `Option` for no threads, `Thread`.
///
/// # Determinism
/// The same answer for the same graph, starts, seed, threads and steps on every machine, without a time limit.
///
/// # Complexity
/// Near-linear on sparse graphs of small degeneracy; exponential in the degeneracy at worst. Memory: about 20 B an edge, and at most
/// 32 MiB of adjacency bits.
///
/// # Source
/// Rossi, Gleich, Gebremedhin and Patwary (2014), PMC, for cores and neighbourhoods; San Segundo, Rodríguez-Losada and Jiménez (2011),
/// BBMC, for the exact search; Wu, Hao and Glover (2012), MN/TS, for the local search.
///
/// ```
/// use shardgraph_classical::{Budget, Options, clique};
/// use shardgraph_graph::builtin;
///
/// let karate = builtin::by_name("karate").unwrap();
/// let solution = clique::solve(&karate, &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.nodes.len(), solution.is_optimal), (5, true));
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn solve(graph: &Graph, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
    check_threads(options.threads)?;
    for start in options.starts {
        check_clique(graph, start)?;
    }
    let stopwatch = Stopwatch::begin(budget);
    let order = DegeneracyOrder::new(graph);
    let mut search = SparseSearch::new(&order);
    let mut log = StageLog::new();
    search.greedy(GREEDY_LOOKS);
    let longest = options.starts.iter().max_by_key(|start| start.len());
    if let Some(start) = longest.filter(|start| start.len() > search.best.len()) {
        search.best = ranks_of(&order, start)?;
    }
    log.end("greedy", search.best.len() as f64, &stopwatch);
    let mut work = WorkLimit {
        words_left: FIRST_WORDS,
        stopwatch,
        is_over: stopwatch.is_late(),
    };
    let mut is_optimal = search.run(&mut work);
    log.end("branch and bound", search.best.len() as f64, &stopwatch);
    if !is_optimal && options.steps != Some(0) && !stopwatch.is_late() {
        local_search(&mut search, options, budget, &stopwatch)?;
        log.end("local search", search.best.len() as f64, &stopwatch);
        let is_limited = options.steps.is_some() || budget.time_limit.is_none();
        work = WorkLimit {
            words_left: if is_limited { LAST_WORDS } else { u64::MAX },
            stopwatch,
            is_over: false,
        };
        is_optimal = search.run(&mut work);
        log.end("branch and bound", search.best.len() as f64, &stopwatch);
    }
    let ranks = search.best.iter();
    let mut nodes: Vec<u32> = ranks.map(|&r| order.nodes[r as usize]).collect();
    nodes.sort_unstable();
    check_clique(graph, &nodes)?;
    Ok(Solution {
        objective: nodes.len() as f64,
        bound: Some(search.upper_bound() as f64),
        is_optimal: is_optimal || search.upper_bound() == nodes.len(),
        nodes,
        stages: log.finish(),
    })
}

fn ranks_of(order: &DegeneracyOrder, nodes: &[u32]) -> Result<Vec<u32>, Error> {
    let is_listed = indicator(order.n_nodes() as u32, nodes)?;
    let ranks = (0u32..).zip(&order.nodes);
    let members = ranks.filter(|(_, v)| is_listed[**v as usize]);
    Ok(members.map(|(rank, _)| rank).collect())
}

fn local_search(
    search: &mut SparseSearch<'_>,
    options: &Options<'_>,
    budget: &Budget<'_>,
    stopwatch: &Stopwatch<'_>,
) -> Result<(), Error> {
    let (nodes, rows) = search.kernel(MAX_LOCAL_NODES);
    let is_member = indicator(search.n_nodes() as u32, &search.best)?;
    let start: Vec<usize> = (0..nodes.len())
        .filter(|&i| is_member[nodes[i] as usize])
        .collect();
    let target = search.upper_bound();
    let rest = stopwatch.rest();
    let local_watch = Stopwatch::begin(&Budget {
        time_limit: rest.time_limit.map(|limit| limit * LOCAL_PART),
        ..rest
    });
    let unlimited = if budget.time_limit.is_some() {
        u64::MAX
    } else {
        DEFAULT_STEPS
    };
    let steps = options.steps.unwrap_or(unlimited);
    let found = run_searches(options.threads, |index| {
        let random = KeyedRng::new(options.seed, "clique-search", index);
        LocalSearch::new(&rows, random).run(&start, target, steps, &local_watch)
    })?;
    for clique in found {
        if clique.len() > search.best.len() {
            search.best = clique.iter().map(|&i| nodes[i]).collect();
        }
    }
    Ok(())
}
