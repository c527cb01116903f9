//! Maximum cut: exact elimination of nodes of low degree, spanning forests, simulated annealing.
//!
//! [`solve`] gives one side of the heaviest cut that a budget allows, for weights of both signs.

mod balance;
mod bound;
mod enumerate;
mod instance;
#[cfg(test)]
mod naive;
mod reduction;
mod search;
#[cfg(test)]
mod tests;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::error::Error;
use crate::searches::{StageLog, check_threads, indicator, listed, run_searches};
use crate::solution::{Options, Solution};
use instance::Instance;
use reduction::Reduction;
use search::Search;

/// Sweeps of each search where neither steps nor a time limit are given.
const DEFAULT_SWEEPS: u64 = 10_000;

/// One side of a cut with as much weight as the budget allows: exact reductions, then simulated annealing on what they leave.
///
/// The time limit holds for all stages together; once it is over, or the call is cancelled, the best answer so far is given. A step of
/// `options.steps` is a sweep over all nodes; none means reductions, one descent and the bound. Node 0 is never listed.
///
/// # Errors
/// `NoNode` or `Twice` for starts that are no sets of nodes, `Option` for no threads, `Thread`.
///
/// # Determinism
/// The same answer for the same graph, starts, seed, threads and steps on every machine, without a time limit. Weights are summed as
/// integers, in units of a power of two; where 52 bits do not hold them, they are rounded and nothing is called optimal.
///
/// # Complexity
/// A sweep: n comparisons, and the degrees of the nodes that move. Memory: about 80 B an edge.
///
/// # Source
/// Myklebust (2015), "Solving maximum cut problems by simulated annealing"; reductions of Dahn, Kriege and Mutzel (2021) and the
/// star-triangle transformation.
///
/// ```
/// use shardgraph_classical::{Budget, Options, cut};
/// use shardgraph_graph::builtin;
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let solution = cut::solve(&petersen, &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.objective, solution.is_optimal), (12.0, true));
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn solve(graph: &Graph, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
    check_threads(options.threads)?;
    let stopwatch = Stopwatch::begin(budget);
    let instance = Instance::from_graph(graph);
    let sides = balance::spanning_sides(&instance);
    let mut stages = Stages {
        cut: instance.cut(&sides),
        bound: instance.positive_weight(),
        instance: &instance,
        sides,
        stopwatch,
        log: StageLog::new(),
    };
    for start in options.starts {
        stages.take(indicator(graph.n_nodes(), start)?);
    }
    stages.end("spanning forest");
    if !stages.is_over() {
        let reduction = Reduction::new(&instance);
        stages.take(reduction.lift(&reduction.restrict(&stages.sides)));
        stages.end("reductions");
        stages.search(&reduction, options, 0)?;
        stages.end("descent");
        stages.bound_by(&reduction);
        stages.end("bound");
        if !stages.is_over() && options.steps != Some(0) {
            let default_sweeps = if budget.time_limit.is_some() {
                u64::MAX
            } else {
                DEFAULT_SWEEPS
            };
            stages.search(&reduction, options, options.steps.unwrap_or(default_sweeps))?;
            stages.end("local search");
        }
    }
    Ok(stages.finish(graph))
}

/// The answer and the bound, in units of the instance.
struct Stages<'a> {
    instance: &'a Instance,
    sides: Vec<bool>,
    cut: i64,
    bound: i64,
    stopwatch: Stopwatch<'a>,
    log: StageLog,
}

impl Stages<'_> {
    fn end(&mut self, name: &'static str) {
        let cut = self.cut as f64 / self.instance.scale;
        self.log.end(name, cut, &self.stopwatch);
    }

    fn is_over(&self) -> bool {
        self.cut >= self.bound || self.stopwatch.is_late()
    }

    fn take(&mut self, sides: Vec<bool>) {
        let cut = self.instance.cut(&sides);
        if cut > self.cut {
            (self.sides, self.cut) = (sides, cut);
        }
    }

    /// The least bound of the graph and of the kernel.
    fn bound_by(&mut self, reduction: &Reduction) {
        let whole = bound::upper_bound(self.instance, &self.stopwatch);
        let kernel = reduction.offset + bound::upper_bound(&reduction.kernel, &self.stopwatch);
        let units = (reduction.kernel.scale / self.instance.scale) as i64;
        self.bound = self.bound.min(whole).min(kernel.div_euclid(units));
    }

    /// Independent searches of so many sweeps from the best cut; 0 for one descent.
    fn search(
        &mut self,
        reduction: &Reduction,
        options: &Options<'_>,
        sweeps: u64,
    ) -> Result<(), Error> {
        let start = reduction.restrict(&self.sides);
        let threads = if sweeps == 0 { 1 } else { options.threads };
        let found = run_searches(threads, |index| {
            let random = KeyedRng::new(options.seed, "cut-search", index);
            let search = Search::new(&reduction.kernel, &start, random, self.stopwatch);
            search.run(sweeps)
        })?;
        for sides in found {
            self.take(reduction.lift(&sides));
        }
        Ok(())
    }

    fn finish(mut self, graph: &Graph) -> Solution {
        if self.sides.first() == Some(&true) {
            self.sides.iter_mut().for_each(|side| *side = !*side);
        }
        let objective = cut_weight(graph, &self.sides);
        Solution {
            nodes: listed(&self.sides),
            objective,
            // Rounded weights may put the bound a little lower than the cut.
            bound: Some((self.bound as f64 / self.instance.scale).max(objective)),
            is_optimal: self.cut >= self.bound && self.instance.is_exact,
            stages: self.log.finish(),
        }
    }
}

/// The weight of the edges between the sides.
fn cut_weight(graph: &Graph, sides: &[bool]) -> f64 {
    let edges = graph.weighted_edges();
    edges
        .filter(|(u, v, _)| sides[*u as usize] != sides[*v as usize])
        .map(|(_, _, weight)| f64::from(weight))
        .sum()
}
