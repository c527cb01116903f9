//! [`solve`]: the best cover that reductions, local search and exact search find within a budget.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::independent_set::{self, complement};
use crate::solution::{Options, Solution, Stage};
use crate::vertex_cover::Error;
use crate::vertex_cover::check::{check_cover, indicator, listed};
use crate::vertex_cover::greedy::edge_greedy;
use crate::vertex_cover::parts::{Parts, induced};
use crate::vertex_cover::reduce::reduce;
use crate::vertex_cover::reduce_and_peel::reduce_and_peel;
use crate::vertex_cover::reduction::Reduction;
use crate::vertex_cover::restarts::{SearchJob, search_in_parallel};
use crate::vertex_cover::rules::Rules;

/// Steps of local search for each node of the kernel, where neither steps nor a time limit are given.
const STEPS_PER_NODE: u64 = 1000;
/// Branches before the local search, and the largest components for them.
const BRANCHES: u64 = 300;
const SMALL_NODES: u32 = 300;
/// The largest components for branch and reduce.
const MOST_NODES: u32 = 3000;
/// A branch for so many steps of local search.
const STEPS_PER_BRANCH: u64 = 20;
/// Entries for each node of kernels that guesses between reductions are quick on.
const SPARSE: u64 = 40;
/// Entries of the largest kernels on which these guesses use every rule where no time limit ends them.
const ALL_RULES_ENTRIES: u64 = 1 << 16;
/// Shares of the time that is left, for the reductions, the guesses between them and the first branches.
const REDUCTION_SHARE: f64 = 0.3;
const GUESS_SHARE: f64 = 0.1;
const QUICK_SHARE: f64 = 0.05;
/// The same for local search before branch and reduce and for this.
const SHARES: (f64, f64) = (0.08, 0.8);
/// Steps of this local search for each node of the kernel.
const FIRST_STEPS_PER_NODE: u64 = 2000;
/// Where the largest component has more than so many nodes.
const LARGE: u32 = 500;
const LARGE_SHARES: (f64, f64) = (0.8, 1.0);

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
/// [`reduce`], [`crate::vertex_cover::improve`] and [`crate::vertex_cover::optimum`] for each.
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
    Search::new(graph).run(options, budget)
}

/// The search of [`solve`], which can be continued: a later call goes on from the kernel, the
/// solved components and the best cover of the calls before it.
///
/// ```
/// use shardgraph_classical::vertex_cover::Search;
/// use shardgraph_classical::{Budget, Options};
/// use shardgraph_graph::builtin;
///
/// let karate = builtin::by_name("karate").unwrap();
/// let mut search = Search::new(&karate);
/// let within = |steps| Options { steps: Some(steps), ..Options::default() };
/// let reduced = search.run(&within(0), &Budget::unlimited())?;
/// let searched = search.run(&within(1000), &Budget::unlimited())?;
/// assert!(searched.nodes.len() <= reduced.nodes.len());
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Search<'g> {
    graph: &'g Graph,
    /// Absent before the first call.
    found: Option<Found>,
}

impl<'g> Search<'g> {
    /// A search before its first call.
    #[must_use]
    pub fn new(graph: &'g Graph) -> Self {
        let found = None;
        Search { graph, found }
    }

    /// Goes on within a budget of this call alone; the first call reduces the graph.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn run(&mut self, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
        for start in options.starts {
            check_cover(self.graph, start)?;
        }
        let stopwatch = Stopwatch::begin(budget);
        let is_first = self.found.is_none();
        let reduced = || Found::new(self.graph, &stopwatch.share(REDUCTION_SHARE));
        let mut search = KernelSearch {
            found: self.found.get_or_insert_with(reduced),
            stopwatch,
            seconds_before: 0.0,
            stages: Vec::new(),
        };
        if is_first {
            search.end_stage("reductions");
            search.guess();
        }
        search.start(options.starts);
        if is_first {
            search.end_stage("greedy");
            search.exact(BRANCHES, SMALL_NODES, &stopwatch.share(QUICK_SHARE));
        }
        if options.steps != Some(0) {
            search.run(options)?;
        }
        let (stages, found) = (search.stages, search.found);
        check_cover(self.graph, &found.best)?;
        Ok(Solution {
            objective: found.best.len() as f64,
            bound: Some(f64::from(found.lower_bound)),
            is_optimal: found.best.len() as u32 <= found.lower_bound,
            nodes: found.best.clone(),
            stages,
        })
    }
}

/// A cover that weighs as little as the budget allows: the nodes that [`independent_set::solve_weighted`] leaves out.
///
/// # Errors
/// `Weights` for a list of another length; `NoNode`, `Twice` or `Uncovered` for starts that are no covers; `Option` and `Thread` as
/// [`solve`].
///
/// ```
/// use shardgraph_classical::{Budget, Options, vertex_cover};
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// let solution = vertex_cover::solve_weighted(&path, &[2, 5, 2], &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.nodes, solution.objective, solution.bound), (vec![0, 2], 4.0, Some(4.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve_weighted(
    graph: &Graph,
    weights: &[u32],
    options: &Options<'_>,
    budget: &Budget<'_>,
) -> Result<Solution, Error> {
    let n_nodes = graph.n_nodes();
    let mut sets = Vec::with_capacity(options.starts.len());
    for start in options.starts {
        check_cover(graph, start)?;
        sets.push(complement(n_nodes, start));
    }
    let starts: Vec<&[u32]> = sets.iter().map(Vec::as_slice).collect();
    let options = Options {
        starts: &starts,
        ..*options
    };
    let solution = independent_set::solve_weighted(graph, weights, &options, budget)?;
    let total = weights.iter().map(|&weight| u64::from(weight)).sum::<u64>() as f64;
    let nodes = complement(n_nodes, &solution.nodes);
    check_cover(graph, &nodes)?;
    let stages = solution.stages.into_iter().map(|stage| Stage {
        objective: total - stage.objective,
        ..stage
    });
    Ok(Solution {
        objective: total - solution.objective,
        bound: solution.bound.map(|bound| total - bound),
        is_optimal: solution.is_optimal,
        stages: stages.collect(),
        nodes,
    })
}

/// The kernel, and the best answer so far on its components and on the graph.
#[derive(Clone, Debug)]
struct Found {
    reduction: Reduction,
    parts: Parts,
    best: Vec<u32>,
    lower_bound: u32,
}

impl Found {
    fn new(graph: &Graph, budget: &Budget<'_>) -> Self {
        let reduction = reduce(graph, &Rules::all(), budget);
        let kernel_cover = edge_greedy(reduction.kernel());
        Found {
            best: reduction.grown(&kernel_cover),
            parts: Parts::new(reduction.kernel(), &kernel_cover),
            lower_bound: reduction.lower_bound(),
            reduction,
        }
    }
}

/// One call of a search.
struct KernelSearch<'a> {
    found: &'a mut Found,
    stopwatch: Stopwatch<'a>,
    seconds_before: f64,
    stages: Vec<Stage>,
}

impl KernelSearch<'_> {
    /// Whether the best cover is known to be optimal, or the time is over.
    fn is_over(&self) -> bool {
        self.found.best.len() as u32 <= self.found.lower_bound || self.stopwatch.is_late()
    }

    fn end_stage(&mut self, name: &'static str) {
        self.take_best();
        let seconds = self.stopwatch.seconds();
        self.stages.push(Stage {
            name,
            objective: self.found.best.len() as f64,
            seconds: seconds - self.seconds_before,
        });
        self.seconds_before = seconds;
    }

    /// The best cover and bound of the components, as those of the graph.
    fn take_best(&mut self) {
        let found = &mut *self.found;
        let cover = found.parts.cover();
        let offset = found.reduction.offset();
        if cover.len() + (offset as usize) < found.best.len() {
            found.best = found.reduction.grown(&cover);
        }
        let lower_bound = offset + found.parts.lower_bound();
        found.lower_bound = found.lower_bound.max(lower_bound);
    }

    /// Guesses between reductions, on sparse kernels.
    fn guess(&mut self) {
        let kernel = self.found.reduction.kernel();
        let is_sparse = kernel.n_entries() <= SPARSE * u64::from(kernel.n_nodes());
        if self.is_over() || !is_sparse {
            return;
        }
        let budget = self.stopwatch.share(GUESS_SHARE);
        let is_short = budget.time_limit.is_some() || kernel.n_entries() <= ALL_RULES_ENTRIES;
        let rules = match is_short {
            true => Rules::all(),
            false => Rules::few_neighbors(),
        };
        let cover = reduce_and_peel(kernel, &rules, &budget);
        self.found.parts.keep(&cover);
    }

    /// Takes the caller's own answers.
    fn start(&mut self, starts: &[&[u32]]) {
        for start in starts {
            let cover = projected(&self.found.reduction, start);
            self.found.parts.keep(&cover);
            if start.len() < self.found.best.len() {
                self.found.best = start.to_vec();
                self.found.best.sort_unstable();
            }
        }
        self.take_best();
    }

    /// Local search, many branches, local search.
    fn run(&mut self, options: &Options<'_>) -> Result<(), Error> {
        let is_timed = self.stopwatch.rest().time_limit.is_some();
        let n_nodes = u64::from(self.found.reduction.kernel().n_nodes());
        let steps = match (options.steps, is_timed) {
            (Some(steps), _) => steps,
            (None, true) => u64::MAX,
            (None, false) => STEPS_PER_NODE * n_nodes,
        };
        let (search_share, exact_share) = self.shares();
        let first = self.stopwatch.share(search_share);
        let is_small = self.found.parts.largest_open().0 <= LARGE;
        let first_steps = match options.steps.is_none() && is_small {
            true => steps.min(FIRST_STEPS_PER_NODE * n_nodes),
            false => steps,
        };
        self.local_search(first_steps, options, &first)?;
        let branches = match is_timed && options.steps.is_none() {
            true => u64::MAX,
            false => steps / STEPS_PER_BRANCH,
        };
        let rest = self.stopwatch.share(exact_share);
        self.exact(branches, MOST_NODES, &rest);
        match is_timed && options.steps.is_none() {
            true => self.local_search(steps, options, &self.stopwatch.rest()),
            false => Ok(()),
        }
    }

    /// The shares of local search and of branch and reduce after it, by the hope for a proof.
    fn shares(&self) -> (f64, f64) {
        let (n_nodes, n_entries) = self.found.parts.largest_open();
        match n_nodes {
            0..=LARGE => SHARES,
            _ if n_nodes > MOST_NODES || n_entries > SPARSE * u64::from(n_nodes) => (1.0, 1.0),
            _ => LARGE_SHARES,
        }
    }

    fn exact(&mut self, branches: u64, most_nodes: u32, budget: &Budget<'_>) {
        if self.is_over() {
            return;
        }
        let mut branches_left = branches;
        let stopwatch = Stopwatch::begin(budget);
        let parts = &mut self.found.parts;
        parts.solve(&mut branches_left, most_nodes, &stopwatch);
        self.end_stage("branch and reduce");
    }

    /// On the components that are not solved.
    fn local_search(
        &mut self,
        steps: u64,
        options: &Options<'_>,
        budget: &Budget<'_>,
    ) -> Result<(), Error> {
        if self.is_over() || self.found.parts.is_solved() {
            return Ok(());
        }
        let parts = &mut self.found.parts;
        let nodes = parts.open_nodes();
        let graph = induced(self.found.reduction.kernel(), &nodes);
        let cover = parts.cover();
        let ids = (0u32..).zip(&nodes);
        let start: Vec<u32> = (ids.filter(|(_, v)| cover.binary_search(v).is_ok()))
            .map(|(id, _)| id)
            .collect();
        let n_solved = cover.len() - start.len();
        let n_outside = self.found.reduction.offset() as usize + n_solved;
        let job = SearchJob {
            graph: &graph,
            start: &start,
            steps,
            target: self.found.lower_bound.saturating_sub(n_outside as u32),
        };
        let better = search_in_parallel(&job, options, &Stopwatch::begin(budget))?;
        let mut in_place: Vec<u32> = better.iter().map(|&id| nodes[id as usize]).collect();
        in_place.extend(
            cover
                .into_iter()
                .filter(|v| nodes.binary_search(v).is_err()),
        );
        parts.keep(&in_place);
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
            prop_assert_eq!(Some(solution.objective), solution.bound);
            prop_assert_eq!(solution.bound, Some(optimum as f64));
            prop_assert!(solution.is_optimal);
        }
    }

    /// A later call has no worse answer, no lower bound that is worse, and makes no kernel again.
    #[test]
    fn a_search_goes_on_where_it_ended() {
        let graph = random_graph(150, 0.05, 3);
        let mut search = Search::new(&graph);
        let options = |steps| Options {
            steps: Some(steps),
            ..Options::default()
        };
        let mut sizes = Vec::new();
        for steps in [0, 10, 50_000] {
            let solution = search.run(&options(steps), &Budget::unlimited()).unwrap();
            check_cover(&graph, &solution.nodes).unwrap();
            let is_reduced = solution.stages.iter().any(|s| s.name == "reductions");
            assert_eq!(is_reduced, steps == 0);
            sizes.push((solution.nodes.len(), solution.bound.unwrap()));
        }
        assert!(
            sizes.is_sorted_by(|a, b| a.0 >= b.0 && a.1 <= b.1),
            "{sizes:?}"
        );
        let whole = solve(&graph, &options(50_000), &Budget::unlimited()).unwrap();
        assert!(sizes[2].0 <= whole.nodes.len());
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
