//! [`BranchAndReduce`]: a largest independent set of a graph of some hundred nodes.

use shardgraph_graph::Graph;

use crate::budget::Stopwatch;
use crate::vertex_cover::bit_graph::BitGraph;
use crate::vertex_cover::bit_rules::{BitRules, mirrors};
use crate::vertex_cover::max_sat_bound::MaxSatBound;

/// Branches between two looks at the clock.
const BRANCHES_PER_TICK: u64 = 64;

/// A branch whose second side is still to come: `node` is in the independent set.
struct OpenBranch {
    node: u32,
    trail_len: usize,
}

/// Branch and reduce without recursion, but for components: of these all but the largest are solved within, so that calls are
/// log2(n) deep at most.
///
/// # Source
/// Akiba and Iwata (2016) for reductions between branches, components, mirrors and the node of largest degree; [`MaxSatBound`] for
/// the bound.
pub(crate) struct BranchAndReduce<'a> {
    graph: BitGraph,
    rules: BitRules,
    bound: MaxSatBound,
    stopwatch: &'a Stopwatch<'a>,
    branches_left: u64,
    /// Whether the limits came first. What is found then means nothing.
    is_given_up: bool,
}

/// What a search says of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The largest independent set that was asked for.
    Found(Vec<u32>),
    /// There is none that large.
    None,
    /// The limits came first.
    GivenUp,
}

impl<'a> BranchAndReduce<'a> {
    /// # Complexity
    /// Memory: n^2 / 8 bytes.
    pub(crate) fn new(
        graph: &Graph,
        branches: u64,
        stopwatch: &'a Stopwatch<'a>,
    ) -> BranchAndReduce<'a> {
        let graph = BitGraph::new(graph);
        BranchAndReduce {
            rules: BitRules::new(&graph),
            bound: MaxSatBound::new(graph.n_nodes()),
            graph,
            stopwatch,
            branches_left: branches,
            is_given_up: false,
        }
    }

    /// A largest independent set, if it has more nodes than `most`.
    pub(crate) fn larger_than(&mut self, most: u32) -> Outcome {
        let found = self.search(Some(most));
        match (self.is_given_up, found) {
            (true, _) => Outcome::GivenUp,
            (false, None) => Outcome::None,
            (false, Some(nodes)) => Outcome::Found(nodes),
        }
    }

    /// Branches that are left of those that were given.
    pub(crate) fn branches_left(&self) -> u64 {
        self.branches_left
    }

    /// A largest independent set of what is alive, if it has more nodes than `most`. Leaves the graph as it was.
    fn search(&mut self, mut most: Option<u32>) -> Option<Vec<u32>> {
        let base = self.graph.trail_len();
        let n_before = self.graph.n_taken();
        let (mut best, mut open) = (None, Vec::new());
        while !self.is_given_up {
            if !self.rules.apply(&mut self.graph, self.stopwatch) {
                self.is_given_up = true;
                break;
            }
            let n_taken = self.graph.n_taken() - n_before;
            let is_done = self.graph.n_alive() == 0;
            if is_done && most.is_none_or(|most| n_taken > most) {
                most = Some(n_taken);
                best = Some(self.graph.set_since(base));
            }
            if !is_done && !self.is_bounded(n_taken, most) {
                if self.split() {
                    continue;
                }
                self.branch(&mut open);
                continue;
            }
            let Some(OpenBranch { node, trail_len }) = open.pop() else {
                break;
            };
            self.graph.undo_to(trail_len);
            self.graph.take(node);
        }
        self.graph.undo_to(base);
        best
    }

    /// Whether what is alive cannot make the set larger than `most`.
    fn is_bounded(&mut self, n_taken: u32, most: Option<u32>) -> bool {
        match most.map(|most| most.checked_sub(n_taken)) {
            None => false,
            Some(None) => false,
            Some(Some(room)) => self.bound.is_at_most(&self.graph, room),
        }
    }

    /// Takes a largest independent set of all components but one of the largest; false where there is one only.
    fn split(&mut self) -> bool {
        let mut parts = Vec::new();
        let mut rest = self.graph.alive().to_vec();
        while let Some(place) = rest.iter().position(|word| *word != 0) {
            let first = 64 * place as u32 + rest[place].trailing_zeros();
            let part = self.graph.component(first);
            rest.iter_mut()
                .zip(&part)
                .for_each(|(rest, part)| *rest &= !part);
            parts.push(part);
        }
        if parts.len() <= 1 {
            return false;
        }
        let size = |part: &Vec<u64>| part.iter().map(|word| word.count_ones()).sum::<u32>();
        parts.sort_by_key(size);
        parts.pop();
        for part in parts {
            let n_alive = self.graph.n_alive();
            let whole = self.graph.focus(&part);
            let found = self.search(None);
            self.graph.focus(&whole);
            debug_assert_eq!(self.graph.n_alive(), n_alive);
            for v in found.into_iter().flatten() {
                self.graph.take(v);
            }
        }
        true
    }

    /// First without a node of largest degree, of which one is picked whose neighbours have few edges, and without its mirrors.
    fn branch(&mut self, open: &mut Vec<OpenBranch>) {
        let Some(left) = self.branches_left.checked_sub(1) else {
            self.is_given_up = true;
            return;
        };
        self.branches_left = left;
        if left.is_multiple_of(BRANCHES_PER_TICK) && self.stopwatch.is_late() {
            self.is_given_up = true;
            return;
        }
        let graph = &self.graph;
        let Some(most) = graph.nodes().map(|v| graph.degree(v)).max() else {
            return;
        };
        let n_inner = |v: u32| -> u32 {
            let of_neighbor = |u| {
                let common = graph.living_row(u).zip(graph.row(v));
                common
                    .map(|(row, other)| (row & other).count_ones())
                    .sum::<u32>()
            };
            graph.neighbors(v).map(of_neighbor).sum()
        };
        let of_most = graph.nodes().filter(|&v| graph.degree(v) == most);
        let Some(node) = of_most.min_by_key(|&v| n_inner(v)) else {
            return;
        };
        open.push(OpenBranch {
            node,
            trail_len: graph.trail_len(),
        });
        let mirrors = mirrors(graph, node);
        self.graph.remove(node);
        mirrors.into_iter().for_each(|v| self.graph.remove(v));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_graph::builtin;
    use shardgraph_random::KeyedRng;

    use super::*;
    use crate::Budget;
    use crate::independent_set::check_independent_set;
    use crate::vertex_cover::naive;
    use crate::vertex_cover::tests::{random_graph, small_graph};

    fn larger_than(graph: &Graph, most: u32, branches: u64) -> (Outcome, u64) {
        let stopwatch = Stopwatch::begin(&Budget::unlimited());
        let mut search = BranchAndReduce::new(graph, branches, &stopwatch);
        let outcome = search.larger_than(most);
        (outcome, branches - search.branches_left())
    }

    /// A set is found where the bound is below the optimum, and has its size.
    fn assert_every_bound(graph: &Graph, cover_size: usize) {
        let optimum = graph.n_nodes() as usize - cover_size;
        for most in 0..=graph.n_nodes() {
            match larger_than(graph, most, u64::MAX).0 {
                Outcome::Found(nodes) => {
                    check_independent_set(graph, &nodes).unwrap();
                    assert_eq!(nodes.len(), optimum);
                    assert!(optimum > most as usize);
                }
                Outcome::None => assert!(optimum <= most as usize),
                Outcome::GivenUp => panic!("no limit was given"),
            }
        }
    }

    /// Regular graphs side by side under shuffled ids, and the size of a smallest cover: no rule takes them apart.
    fn side_by_side(parts: &[Graph], seed: u64) -> (Graph, usize) {
        let n = parts.iter().map(Graph::n_nodes).sum();
        let mut ids: Vec<u32> = (0..n).collect();
        let mut random = KeyedRng::new(seed, "test", 0);
        for i in (1..n).rev() {
            ids.swap(i as usize, random.below_u32(i + 1) as usize);
        }
        let (mut edges, mut first) = (Vec::new(), 0);
        for part in parts {
            let id = |v: u32| ids[(first + v) as usize];
            edges.extend(part.edges().map(|(u, v)| (id(u), id(v))));
            first += part.n_nodes();
        }
        let cover_size = parts.iter().map(naive::cover_size).sum();
        (Graph::from_edges(n, &edges).unwrap(), cover_size)
    }

    /// Node v is joined with v + step for each step.
    fn circulant(n: u32, steps: &[u32]) -> Graph {
        let edges = |v: u32| steps.iter().map(move |step| (v, (v + step) % n));
        let edges: Vec<(u32, u32)> = (0..n).flat_map(edges).collect();
        Graph::from_edges(n, &edges).unwrap()
    }

    fn petersen() -> Graph {
        builtin::by_name("petersen").unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_bound_of_any_graph(graph in small_graph(13)) {
            assert_every_bound(&graph, naive::cover_size(&graph));
        }

        #[test]
        fn every_bound_of_several_components(
            chosen in prop::collection::vec(0..6usize, 0..4),
            seed in any::<u64>(),
        ) {
            let shapes = [
                circulant(5, &[1]),
                circulant(7, &[1]),
                circulant(9, &[1, 2]),
                circulant(11, &[1, 3]),
                circulant(13, &[1, 5]),
                petersen(),
            ];
            let parts: Vec<Graph> = chosen.iter().map(|&i| shapes[i].clone()).collect();
            let (graph, cover_size) = side_by_side(&parts, seed);
            assert_every_bound(&graph, cover_size);
        }
    }

    /// More nodes than a word has bits; what is found with a low bound is where a higher one ends.
    #[test]
    fn graphs_of_several_words() {
        for seed in 0..6 {
            let graph = random_graph(90, 0.06, seed);
            let Outcome::Found(nodes) = larger_than(&graph, 0, u64::MAX).0 else {
                panic!("every graph with nodes has an independent set");
            };
            check_independent_set(&graph, &nodes).unwrap();
            let most = nodes.len() as u32;
            assert_eq!(larger_than(&graph, most, u64::MAX).0, Outcome::None);
            let found = larger_than(&graph, most - 1, u64::MAX).0;
            assert!(matches!(found, Outcome::Found(nodes) if nodes.len() as u32 == most));
        }
    }

    /// Every number of branches gives the optimum or gives up.
    #[test]
    fn a_limit_of_branches_gives_up() {
        let graph = random_graph(70, 0.2, 3);
        let (outcome, needed) = larger_than(&graph, 0, u64::MAX);
        assert!(needed > 3);
        for branches in 0..needed {
            assert_eq!(larger_than(&graph, 0, branches).0, Outcome::GivenUp);
        }
        assert_eq!(larger_than(&graph, 0, needed).0, outcome);
    }

    #[test]
    fn a_deadline_gives_up() {
        let graph = random_graph(300, 0.2, 3);
        let budget = Budget {
            clock: &|| 1.0,
            time_limit: Some(0.0),
            ..Budget::unlimited()
        };
        let stopwatch = Stopwatch::begin(&budget);
        let mut search = BranchAndReduce::new(&graph, u64::MAX, &stopwatch);
        assert_eq!(search.larger_than(0), Outcome::GivenUp);
    }
}
