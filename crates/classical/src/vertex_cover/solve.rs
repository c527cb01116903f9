//! [`solve`]: the best cover that reductions, local search and exact search find within a budget.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::solution::{Options, Solution, Stage};
use crate::vertex_cover::Error;
use crate::vertex_cover::check::{check_cover, indicator, listed};
use crate::vertex_cover::exact::{Limits, optimum};
use crate::vertex_cover::greedy::edge_greedy;
use crate::vertex_cover::local_search::{SearchOptions, improve};
use crate::vertex_cover::reduce::{reduce, reduce_and_peel};
use crate::vertex_cover::reduction::Reduction;
use crate::vertex_cover::rules::Rules;

/// Steps of local search for each node of the kernel, where neither steps nor a time limit are given.
const STEPS_PER_NODE: u64 = 1000;
/// Branches of the exact search before the local search.
const BRANCHES: u64 = 300;
/// As `BRANCHES`, where no steps are wanted.
const FEW_BRANCHES: u64 = 20;
/// Kernels of more nodes are left to the local search first.
const SMALL_NODES: u32 = 300;

/// A cover of a graph with as few nodes as the budget allows: exact reductions, a greedy start, local search and exact search on the
/// kernel, lifted to the graph and checked.
///
/// The time limit holds for all stages together; once it is over, or the call is cancelled, the best answer so far is given. With
/// `options.steps`, or without a time limit, the local search makes a fixed number of steps; none of them means reductions, greedy
/// and what proves them quickly.
///
/// # Errors
/// `NoNode`, `Twice` or `Uncovered` for starts that are no covers; `TooLarge` and `TooManyNeighbors` for kernels beyond the local search.
///
/// # Determinism
/// The same answer for the same graph, starts, seed, threads and steps on every machine, without a time limit.
///
/// # Source
/// Lamm, Sanders, Schulz, Strash and Werneck (2017), "Finding near-optimal independent sets at scale", for the order of the stages; see
/// [`reduce`], [`improve`] and [`optimum`] for each.
///
/// ```
/// use shardgraph_classical::{Budget, Options, vertex_cover};
/// use shardgraph_graph::builtin;
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let solution = vertex_cover::solve(&petersen, &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.nodes.len(), solution.is_optimal), (6, true));
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn solve(graph: &Graph, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
    for start in options.starts {
        check_cover(graph, start)?;
    }
    let stopwatch = Stopwatch::begin(budget);
    let reduction = reduce(graph, &Rules::all(), &stopwatch.rest());
    let mut search = KernelSearch {
        reduction: &reduction,
        stopwatch,
        seconds_before: 0.0,
        lower_bound: reduction.lower_bound(),
        best: reduction.grown(&edge_greedy(reduction.kernel())),
        kernel_best: edge_greedy(reduction.kernel()),
        stages: Vec::new(),
    };
    search.end_stage("reductions");
    search.start(options.starts);
    if !search.is_over() && reduction.kernel().n_nodes() <= SMALL_NODES {
        search.exact(if options.steps == Some(0) {
            FEW_BRANCHES
        } else {
            BRANCHES
        });
    }
    if !search.is_over() && options.steps != Some(0) {
        search.local_search(options)?;
    }
    let (nodes, stages) = (search.best, search.stages);
    check_cover(graph, &nodes)?;
    Ok(Solution {
        objective: nodes.len() as f64,
        bound: Some(f64::from(search.lower_bound)),
        is_optimal: nodes.len() as u32 <= search.lower_bound,
        nodes,
        stages,
    })
}

/// The best answer so far, on the kernel and on the graph.
struct KernelSearch<'a> {
    reduction: &'a Reduction,
    stopwatch: Stopwatch<'a>,
    seconds_before: f64,
    lower_bound: u32,
    best: Vec<u32>,
    kernel_best: Vec<u32>,
    stages: Vec<Stage>,
}

impl KernelSearch<'_> {
    /// Whether the best cover is known to be optimal, or the time is over.
    fn is_over(&self) -> bool {
        self.best.len() as u32 <= self.lower_bound || self.stopwatch.is_late()
    }

    fn end_stage(&mut self, name: &'static str) {
        let seconds = self.stopwatch.seconds();
        self.stages.push(Stage {
            name,
            objective: self.best.len() as f64,
            seconds: seconds - self.seconds_before,
        });
        self.seconds_before = seconds;
    }

    /// Keeps a cover of the kernel, if it is smaller than the best.
    fn keep(&mut self, cover: Vec<u32>) {
        if cover.len() < self.kernel_best.len() {
            let lifted = self.reduction.grown(&cover);
            if lifted.len() < self.best.len() {
                self.best = lifted;
            }
            self.kernel_best = cover;
        }
    }

    /// Guesses between reductions, and the caller's own answers.
    fn start(&mut self, starts: &[&[u32]]) {
        if !self.is_over() {
            let kernel = self.reduction.kernel();
            self.keep(reduce_and_peel(
                kernel,
                &Rules::all(),
                &self.stopwatch.rest(),
            ));
        }
        for start in starts {
            self.keep(projected(self.reduction, start));
            if start.len() < self.best.len() {
                self.best = start.to_vec();
                self.best.sort_unstable();
            }
        }
        self.end_stage("greedy");
    }

    fn exact(&mut self, branches: u64) {
        let limits = Limits {
            branches,
            ..Limits::default()
        };
        let kernel = self.reduction.kernel();
        if let Some(cover) = optimum(kernel, &limits, &self.stopwatch.rest()) {
            self.lower_bound = cover.len() as u32 + self.reduction.offset();
            self.keep(cover);
        }
        self.end_stage("branch and reduce");
    }

    fn local_search(&mut self, options: &Options<'_>) -> Result<(), Error> {
        let kernel = self.reduction.kernel();
        let rest = self.stopwatch.rest();
        let default_steps = STEPS_PER_NODE * u64::from(kernel.n_nodes());
        let steps = match (options.steps, rest.time_limit) {
            (Some(steps), _) => steps,
            (None, Some(_)) => u64::MAX,
            (None, None) => default_steps,
        };
        let search = SearchOptions {
            seed: options.seed,
            steps,
            target: self.lower_bound.saturating_sub(self.reduction.offset()),
            ..SearchOptions::default()
        };
        let found = improve(kernel, &self.kernel_best, &search, &rest)?;
        self.keep(found.cover);
        self.end_stage("local search");
        Ok(())
    }
}

/// A cover of the kernel from a cover of the graph: the nodes of the kernel whose names are in it, and a greedy cover of the rest.
fn projected(reduction: &Reduction, start: &[u32]) -> Vec<u32> {
    let n_nodes = reduction.in_cover.len() as u32;
    let is_in_start = indicator(n_nodes, start).unwrap_or_default();
    let kernel = reduction.kernel();
    let names = reduction.old_ids().iter();
    let mut in_cover: Vec<bool> = names.map(|&name| is_in_start[name as usize]).collect();
    for (u, v) in kernel.edges() {
        if !in_cover[u as usize] && !in_cover[v as usize] {
            in_cover[u as usize] = true;
        }
    }
    listed(&in_cover)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vertex_cover::naive;
    use crate::vertex_cover::tests::{random_graph, small_graph};

    proptest! {
        #[test]
        fn small_graphs_are_solved(graph in small_graph(12)) {
            let all: Vec<u32> = (0..graph.n_nodes()).collect();
            let options = Options { starts: &[&all], ..Options::default() };
            let solution = solve(&graph, &options, &Budget::unlimited()).unwrap();
            check_cover(&graph, &solution.nodes).unwrap();
            let optimum = naive::cover_size(&graph);
            prop_assert_eq!(solution.nodes.len(), optimum);
            prop_assert_eq!(solution.objective, optimum as f64);
            prop_assert_eq!(solution.bound, Some(optimum as f64));
            prop_assert!(solution.is_optimal);
        }
    }

    /// A start that is an optimum is given back at once, and no bound is above it.
    #[test]
    fn a_start_is_never_lost() {
        let graph = random_graph(120, 0.2, 5);
        let options = Options {
            steps: Some(20_000),
            ..Options::default()
        };
        let first = solve(&graph, &options, &Budget::unlimited()).unwrap();
        let options = Options {
            steps: Some(0),
            starts: &[&first.nodes],
            ..options
        };
        let second = solve(&graph, &options, &Budget::unlimited()).unwrap();
        assert!(second.nodes.len() <= first.nodes.len());
        assert!(second.bound.unwrap() <= second.objective);
    }

    #[test]
    fn a_start_that_is_no_cover_is_refused() {
        let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let options = Options {
            starts: &[&[0]],
            ..Options::default()
        };
        assert!(solve(&path, &options, &Budget::unlimited()).is_err());
    }
}
