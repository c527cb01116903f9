//! [`WeightedBranchAndBound`]: a heaviest independent set of a component of some hundred nodes.

use shardgraph_graph::Graph;

use crate::budget::Stopwatch;
use crate::vertex_cover::BitGraph;

/// Branches between two looks at the clock.
const BRANCHES_PER_TICK: u64 = 64;

/// The weight that no independent set is above: of a greedy partition into cliques, heavy nodes first, the first node of each.
///
/// # Complexity
/// O(m + n log n)
pub(super) fn clique_bound(graph: &Graph, weights: &[u32]) -> u64 {
    let mut bound = CliqueBound::new(graph.n_nodes() as usize);
    let nodes = (0..graph.n_nodes()).collect();
    bound.of(nodes, weights, |v| graph.neighbors(v).iter().copied())
}

/// What the bound needs beside the graph, kept between calls.
struct CliqueBound {
    clique_of: Vec<usize>,
    sizes: Vec<u32>,
    n_joined: Vec<u32>,
}

const NONE: usize = usize::MAX;

impl CliqueBound {
    fn new(n_nodes: usize) -> CliqueBound {
        CliqueBound {
            clique_of: vec![NONE; n_nodes],
            sizes: Vec::new(),
            n_joined: vec![0; n_nodes],
        }
    }

    fn of<I: Iterator<Item = u32>>(
        &mut self,
        mut nodes: Vec<u32>,
        weights: &[u32],
        neighbors: impl Fn(u32) -> I,
    ) -> u64 {
        nodes.sort_unstable_by_key(|&v| (std::cmp::Reverse(weights[v as usize]), v));
        for &v in &nodes {
            self.clique_of[v as usize] = NONE;
        }
        self.sizes.clear();
        let mut sum = 0;
        for v in nodes {
            let mut best = NONE;
            let cliques = || neighbors(v).map(|u| u as usize);
            for u in cliques() {
                let c = self.clique_of[u];
                if c == NONE {
                    continue;
                }
                self.n_joined[c] += 1;
                // The oldest clique has the heaviest nodes, but any of them makes this one free.
                if self.n_joined[c] == self.sizes[c]
                    && (best == NONE || self.sizes[c] > self.sizes[best])
                {
                    best = c;
                }
            }
            for u in cliques() {
                if self.clique_of[u] != NONE {
                    self.n_joined[self.clique_of[u]] = 0;
                }
            }
            if best == NONE {
                best = self.sizes.len();
                self.sizes.push(0);
                sum += u64::from(weights[v as usize]);
            }
            self.sizes[best] += 1;
            self.clique_of[v as usize] = best;
        }
        sum
    }
}

/// A branch whose second side is still to come: `node` is not in the set.
struct OpenBranch {
    node: u32,
    trail_len: usize,
    weight: u64,
}

/// Branch and bound without recursion: a node of largest degree is in the set, or it is not; bounded by cliques, with the
/// neighbourhood rule between branches.
///
/// # Source
/// Lamm, Schulz, Strash, Williger and Zhang (2019), section 4, without components.
pub(super) struct WeightedBranchAndBound<'a> {
    graph: BitGraph,
    weights: &'a [u32],
    bound: CliqueBound,
    stopwatch: &'a Stopwatch<'a>,
    branches_left: u64,
    is_given_up: bool,
}

impl<'a> WeightedBranchAndBound<'a> {
    pub(super) fn new(
        graph: &Graph,
        weights: &'a [u32],
        branches: u64,
        stopwatch: &'a Stopwatch<'a>,
    ) -> WeightedBranchAndBound<'a> {
        WeightedBranchAndBound {
            graph: BitGraph::new(graph),
            weights,
            bound: CliqueBound::new(graph.n_nodes() as usize),
            stopwatch,
            branches_left: branches,
            is_given_up: false,
        }
    }

    /// Whether the limits came first. What was found is then a set, but maybe not the heaviest.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Branches that are left of those that were given.
    pub(super) fn branches_left(&self) -> u64 {
        self.branches_left
    }

    /// A heaviest independent set, if it weighs more than `least`.
    pub(super) fn heavier_than(&mut self, mut least: u64) -> Option<Vec<u32>> {
        let (mut best, mut open): (_, Vec<OpenBranch>) = (None, Vec::new());
        let mut weight = 0;
        loop {
            weight += self.take_heavy();
            let is_done = self.graph.n_alive() == 0;
            if is_done && weight > least {
                least = weight;
                best = Some(self.graph.set_since(0));
            }
            if !is_done && weight + self.bound() > least {
                let Some(node) = self.next_node() else {
                    break;
                };
                let trail_len = self.graph.trail_len();
                open.push(OpenBranch {
                    node,
                    trail_len,
                    weight,
                });
                self.graph.take(node);
                weight += u64::from(self.weights[node as usize]);
                continue;
            }
            let Some(branch) = open.pop() else {
                break;
            };
            self.graph.undo_to(branch.trail_len);
            weight = branch.weight;
            self.graph.remove(branch.node);
        }
        best
    }

    fn bound(&mut self) -> u64 {
        let graph = &self.graph;
        let nodes = graph.nodes().collect();
        self.bound.of(nodes, self.weights, |v| graph.neighbors(v))
    }

    /// Takes nodes that weigh as much as their neighbours together, and gives their weight.
    fn take_heavy(&mut self) -> u64 {
        let mut weight = 0;
        while let Some(v) = self.graph.pop_touched() {
            if !self.graph.is_alive(v) {
                continue;
            }
            let own = u64::from(self.weights[v as usize]);
            let around = self
                .graph
                .neighbors(v)
                .map(|u| u64::from(self.weights[u as usize]));
            if own >= around.sum() {
                self.graph.take(v);
                weight += own;
            }
        }
        weight
    }

    /// The node of largest degree, of equals the heaviest; none where the limits are reached.
    fn next_node(&mut self) -> Option<u32> {
        let left = self.branches_left.checked_sub(1);
        let is_tick = self.branches_left.is_multiple_of(BRANCHES_PER_TICK);
        if left.is_none() || is_tick && self.stopwatch.is_late() {
            self.is_given_up = true;
            return None;
        }
        self.branches_left = left.unwrap_or(0);
        let rank = |v: &u32| (self.graph.degree(*v), self.weights[*v as usize]);
        self.graph.nodes().max_by_key(rank)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Budget;
    use crate::independent_set::check_independent_set;
    use crate::vertex_cover::tests::{random_graph, small_graph};
    use crate::weighted::naive;
    use crate::weighted::tests::random_weights;
    use crate::weighted::weight_of;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_bound_of_any_graph(graph in small_graph(11), seed in any::<u64>()) {
            let weights = random_weights(graph.n_nodes(), 5, seed);
            let optimum = naive::set_weight(&graph, &weights);
            prop_assert!(clique_bound(&graph, &weights) >= optimum);
            let stopwatch = Stopwatch::begin(&Budget::unlimited());
            for least in 0..optimum + 2 {
                let mut search = WeightedBranchAndBound::new(&graph, &weights, u64::MAX, &stopwatch);
                let found = search.heavier_than(least);
                prop_assert!(!search.is_given_up());
                prop_assert_eq!(found.is_some(), optimum > least);
                if let Some(set) = found {
                    check_independent_set(&graph, &set).unwrap();
                    prop_assert_eq!(weight_of(&weights, &set), optimum);
                }
            }
        }
    }

    #[test]
    fn a_limit_of_branches_gives_up() {
        let graph = random_graph(80, 0.2, 3);
        let weights = random_weights(80, 9, 3);
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        let mut search = WeightedBranchAndBound::new(&graph, &weights, 3, &stopwatch);
        search.heavier_than(0);
        assert!(search.is_given_up() && search.branches_left() == 0);
    }
}
