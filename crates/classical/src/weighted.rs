//! Maximum weight independent set: reductions with weights, iterated local search, branch and bound.

use std::cmp::Reverse;

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::independent_set::check_independent_set;
use crate::searches::best_of;
use crate::solution::{Options, Solution, Stage};
use crate::vertex_cover::{Component, components, indicator};
use crate::{Error, ErrorKind};

mod branch_and_bound;
mod iterated_search;
#[cfg(test)]
mod naive;
mod reduce;

use branch_and_bound::{WeightedBranchAndBound, clique_bound};
use iterated_search::IteratedSearch;
use reduce::{WeightedReduction, reduce};

/// Perturbations of the local search for each node of the kernel, where neither steps nor a time limit are given.
const STEPS_PER_NODE: u64 = 200;
/// Branches for all small components, before the local search and after it.
const BRANCHES: [u64; 2] = [2_000, 200_000];
/// The largest components for branch and bound.
const MOST_NODES: u32 = 400;
/// Shares of the time that is left, for the reductions, for the local search, and for branch and bound after it.
const REDUCTION_SHARE: f64 = 0.3;
const SEARCH_SHARE: f64 = 0.6;

/// As [`crate::independent_set::solve_weighted`].
pub(crate) fn solve(
    graph: &Graph,
    weights: &[u32],
    options: &Options<'_>,
    budget: &Budget<'_>,
) -> Result<Solution, Error> {
    let n_nodes = graph.n_nodes();
    if weights.len() != n_nodes as usize {
        let n_weights = weights.len();
        return Err(ErrorKind::Weights { n_weights, n_nodes }.into());
    }
    for start in options.starts {
        check_independent_set(graph, start)?;
    }
    let stopwatch = Stopwatch::begin(budget);
    let reduction = reduce(graph, weights, &stopwatch.share(REDUCTION_SHARE));
    let mut search = KernelSearch::new(weights, &reduction, stopwatch);
    search.end_stage("reductions");
    search.start(options.starts);
    search.branch_and_bound(BRANCHES[0]);
    if options.steps != Some(0) {
        search.local_search(options, 0)?;
        search.branch_and_bound(BRANCHES[1]);
        if options.steps.is_none() && search.is_timed() {
            search.local_search(options, 1)?;
        }
    }
    let (nodes, bound, stages) = (search.best, search.bound, search.stages);
    check_independent_set(graph, &nodes)?;
    let objective = weight_of(weights, &nodes);
    Ok(Solution {
        objective: objective as f64,
        bound: Some(bound as f64),
        is_optimal: objective >= bound,
        nodes,
        stages,
    })
}

pub(crate) fn weight_of(weights: &[u32], nodes: &[u32]) -> u64 {
    nodes.iter().map(|&v| u64::from(weights[v as usize])).sum()
}

/// One component of the kernel.
struct Part {
    /// The kernel's nodes, ascending.
    nodes: Vec<u32>,
    graph: Graph,
    weights: Vec<u32>,
    /// The best set, in the ids of the part.
    best: Vec<u32>,
    /// No set weighs more.
    bound: u64,
}

impl Part {
    fn is_solved(&self) -> bool {
        weight_of(&self.weights, &self.best) >= self.bound
    }
}

/// The best answer so far, on the components of the kernel and on the graph.
struct KernelSearch<'a> {
    weights: &'a [u32],
    reduction: &'a WeightedReduction,
    stopwatch: Stopwatch<'a>,
    seconds_before: f64,
    parts: Vec<Part>,
    best: Vec<u32>,
    bound: u64,
    stages: Vec<Stage>,
}

impl<'a> KernelSearch<'a> {
    fn new(
        weights: &'a [u32],
        reduction: &'a WeightedReduction,
        stopwatch: Stopwatch<'a>,
    ) -> KernelSearch<'a> {
        let part = |Component { nodes, graph }: Component| {
            let weights: Vec<u32> = (nodes.iter())
                .map(|&v| reduction.weights[v as usize])
                .collect();
            Part {
                bound: clique_bound(&graph, &weights),
                best: greedy(&graph, &weights),
                graph,
                weights,
                nodes,
            }
        };
        let mut parts: Vec<Part> = (components(&reduction.kernel).into_iter())
            .map(part)
            .collect();
        parts.sort_by_key(|part| part.nodes.len());
        KernelSearch {
            weights,
            reduction,
            stopwatch,
            seconds_before: 0.0,
            parts,
            best: Vec::new(),
            bound: u64::MAX,
            stages: Vec::new(),
        }
    }

    fn end_stage(&mut self, name: &'static str) {
        let chosen = |part: &Part| -> Vec<u32> {
            (part.best.iter())
                .map(|&id| part.nodes[id as usize])
                .collect()
        };
        let of_kernel: Vec<u32> = self.parts.iter().flat_map(chosen).collect();
        let lifted = self.reduction.lift(&of_kernel);
        if weight_of(self.weights, &lifted) > weight_of(self.weights, &self.best) {
            self.best = lifted;
        }
        let of_parts: u64 = self.parts.iter().map(|part| part.bound).sum();
        self.bound = self.bound.min(self.reduction.offset + of_parts);
        let seconds = self.stopwatch.seconds();
        self.stages.push(Stage {
            name,
            objective: weight_of(self.weights, &self.best) as f64,
            seconds: seconds - self.seconds_before,
        });
        self.seconds_before = seconds;
    }

    /// The caller's own answers: each as it is, and what of it is left in the kernel.
    fn start(&mut self, starts: &[&[u32]]) {
        for start in starts {
            if weight_of(self.weights, start) > weight_of(self.weights, &self.best) {
                self.best = start.to_vec();
                self.best.sort_unstable();
            }
            let is_in = indicator(self.weights.len() as u32, start).unwrap_or_default();
            let old_ids = &self.reduction.old_ids;
            for part in &mut self.parts {
                let mut blocked = vec![false; part.nodes.len()];
                let mut set = Vec::new();
                for (id, &v) in (0u32..).zip(&part.nodes) {
                    if is_in[old_ids[v as usize] as usize] && !blocked[id as usize] {
                        set.push(id);
                        part.graph
                            .neighbors(id)
                            .iter()
                            .for_each(|&u| blocked[u as usize] = true);
                    }
                }
                if weight_of(&part.weights, &set) > weight_of(&part.weights, &part.best) {
                    part.best = set;
                }
            }
        }
        self.end_stage("greedy");
    }

    fn is_over(&self) -> bool {
        weight_of(self.weights, &self.best) >= self.bound || self.stopwatch.is_late()
    }

    fn is_timed(&self) -> bool {
        self.stopwatch.rest().time_limit.is_some()
    }

    /// Nodes of the smallest component that is not solved.
    fn smallest_open(&self) -> usize {
        let open = self.parts.iter().filter(|part| !part.is_solved());
        open.map(|part| part.nodes.len()).min().unwrap_or(0)
    }

    fn branch_and_bound(&mut self, branches: u64) {
        if self.is_over() {
            return;
        }
        let mut branches = branches;
        let small = |part: &&mut Part| !part.is_solved() && part.graph.n_nodes() <= MOST_NODES;
        for part in self.parts.iter_mut().filter(small) {
            let least = weight_of(&part.weights, &part.best);
            let mut search =
                WeightedBranchAndBound::new(&part.graph, &part.weights, branches, &self.stopwatch);
            if let Some(better) = search.heavier_than(least) {
                part.best = better;
            }
            if !search.is_given_up() {
                part.bound = weight_of(&part.weights, &part.best);
            }
            branches = search.branches_left();
        }
        self.end_stage("branch and bound");
    }

    /// Each component that is not solved has a part of the steps or of the time by its nodes.
    /// `round` counts these stages: the last one has all the time that is left.
    fn local_search(&mut self, options: &Options<'_>, round: u64) -> Result<(), Error> {
        if self.is_over() {
            return Ok(());
        }
        let open = self.parts.iter().filter(|part| !part.is_solved());
        let mut n_left: u64 = open.map(|part| part.nodes.len() as u64).sum();
        let is_last = round > 0 || self.smallest_open() > MOST_NODES as usize;
        let share = if is_last { 1.0 } else { SEARCH_SHARE };
        let stage = Stopwatch::begin(&self.stopwatch.share(share));
        for part in self.parts.iter_mut().filter(|part| !part.is_solved()) {
            let n_nodes = part.nodes.len() as u64;
            let share = n_nodes as f64 / n_left as f64;
            n_left -= n_nodes;
            let stopwatch = Stopwatch::begin(&stage.share(share));
            let is_timed = stopwatch.rest().time_limit.is_some();
            let steps = match (options.steps, is_timed) {
                (Some(steps), _) => steps,
                (None, true) => u64::MAX,
                (None, false) => STEPS_PER_NODE * n_nodes,
            };
            let search = |index: u64| {
                let (graph, weights) = (&part.graph, &part.weights);
                let index = (round << 32) + index;
                let mut search =
                    IteratedSearch::new(graph, weights, &part.best, options.seed, index);
                search.run(steps, part.bound, &stopwatch);
                Ok(search.best().to_vec())
            };
            let cost = |set: &Vec<u32>| Reverse(weight_of(&part.weights, set));
            part.best = best_of(options.threads, search, cost)?;
        }
        self.end_stage("local search");
        Ok(())
    }
}

/// Nodes by weight over closed neighbourhood, each that is not joined to those before.
fn greedy(graph: &Graph, weights: &[u32]) -> Vec<u32> {
    let rank = |v: u32| f64::from(weights[v as usize]) / (f64::from(graph.degree(v)) + 1.0);
    let mut order: Vec<u32> = (0..graph.n_nodes()).collect();
    order.sort_by(|&u, &v| rank(v).total_cmp(&rank(u)).then(u.cmp(&v)));
    let mut is_blocked = vec![false; order.len()];
    let mut set = Vec::new();
    for v in order {
        if !is_blocked[v as usize] {
            set.push(v);
            graph
                .neighbors(v)
                .iter()
                .for_each(|&u| is_blocked[u as usize] = true);
        }
    }
    set.sort_unstable();
    set
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_random::KeyedRng;

    use super::*;
    use crate::vertex_cover::tests::{random_graph, small_graph};
    use crate::{independent_set, vertex_cover};

    /// Weights of 0 to `most`, which tie often where that is small.
    pub(super) fn random_weights(n_nodes: u32, most: u32, seed: u64) -> Vec<u32> {
        let mut random = KeyedRng::new(seed, "test-weights", 0);
        (0..n_nodes).map(|_| random.below_u32(most + 1)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn small_graphs_are_solved(graph in small_graph(12), seed in any::<u64>(), most in 0..9u32) {
            let weights = random_weights(graph.n_nodes(), most, seed);
            let options = Options { starts: &[&[]], ..Options::default() };
            let budget = Budget::unlimited();
            let set = independent_set::solve_weighted(&graph, &weights, &options, &budget).unwrap();
            check_independent_set(&graph, &set.nodes).unwrap();
            prop_assert_eq!(weight_of(&weights, &set.nodes), naive::set_weight(&graph, &weights));
            prop_assert!(set.is_optimal);
            let options = Options::default();
            let cover = vertex_cover::solve_weighted(&graph, &weights, &options, &budget).unwrap();
            vertex_cover::check_cover(&graph, &cover.nodes).unwrap();
            let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            prop_assert_eq!(weight_of(&weights, &cover.nodes), total - weight_of(&weights, &set.nodes));
            prop_assert!(cover.is_optimal && cover.bound == Some(cover.objective));
        }
    }

    /// The same answer for the same steps and threads; a bound that is no lower than it.
    #[test]
    fn one_seed_one_answer() {
        let graph = random_graph(500, 0.02, 1);
        let weights = random_weights(500, 200, 2);
        for threads in [1, 3] {
            let options = Options {
                steps: Some(300),
                threads,
                ..Options::default()
            };
            let solve = || {
                independent_set::solve_weighted(&graph, &weights, &options, &Budget::unlimited())
            };
            let (first, second) = (solve().unwrap(), solve().unwrap());
            assert_eq!(first.nodes, second.nodes);
            assert!(first.bound.unwrap() >= first.objective);
            let all: Vec<u32> = first.nodes.clone();
            let options = Options {
                steps: Some(0),
                starts: &[&all],
                ..options
            };
            let again =
                independent_set::solve_weighted(&graph, &weights, &options, &Budget::unlimited());
            assert!(again.unwrap().objective >= first.objective);
        }
    }

    #[test]
    fn a_missing_weight_is_refused() {
        let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let error = solve(&path, &[1, 2], &Options::default(), &Budget::unlimited()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 weights for 3 nodes: expected one weight a node"
        );
    }
}
