//! [`optimum`]: a smallest cover of a small graph, by branching on what the reductions leave.

use serde::{Deserialize, Serialize};
use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::greedy::edge_greedy;
use crate::vertex_cover::local_search::{SearchOptions, improve};
use crate::vertex_cover::lower_bound::clique_cover_bound;
use crate::vertex_cover::reduce::reduce;
use crate::vertex_cover::rules::Rules;

/// Steps of the local search that finds the first cover, for each node.
const STEPS_PER_NODE: u64 = 100;
/// Branches that are open at once: beyond, the stack might end before the search does.
const MAX_DEPTH: u32 = 2000;

/// When a search for an optimum is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Branches that are looked at.
    pub branches: u64,
    /// Bytes that the graphs of open branches take together; what a single reduction takes for itself comes on top.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            branches: 1_000_000,
            bytes: 2 << 30,
        }
    }
}

/// A smallest cover, ascending; `None` when the limits or the budget's time limit came first.
///
/// # Complexity
/// Exponential in the worst case. Random graphs of 100 to 200 nodes, and much larger graphs that the reductions take apart.
///
/// # Determinism
/// The same cover for the same graph and limits, without a time limit.
///
/// # Source
/// Akiba and Iwata (2016): reductions, components, bounds by cliques and by the linear program, branching on a node of largest degree.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::{Limits, optimum};
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let cover = optimum(&petersen, &Limits::default(), &Budget::unlimited());
/// assert_eq!(cover.map(|cover| cover.len()), Some(6));
/// let none = Limits { branches: 0, ..Limits::default() };
/// assert_eq!(optimum(&petersen, &none, &Budget::unlimited()), None);
/// ```
#[must_use]
pub fn optimum(graph: &Graph, limits: &Limits, budget: &Budget<'_>) -> Option<Vec<u32>> {
    let stopwatch = Stopwatch::begin(budget);
    let mut search = Search {
        stopwatch: &stopwatch,
        branches_left: limits.branches,
        bytes_left: limits.bytes,
        is_given_up: false,
    };
    let start = good_cover(graph, &stopwatch);
    let better = search.below(graph, start.len() as u32, 0);
    match search.is_given_up {
        true => None,
        false => Some(better.unwrap_or(start)),
    }
}

/// A cover to be better than.
fn good_cover(graph: &Graph, stopwatch: &Stopwatch<'_>) -> Vec<u32> {
    let start = edge_greedy(graph);
    let options = SearchOptions {
        steps: STEPS_PER_NODE * u64::from(graph.n_nodes()),
        ..SearchOptions::default()
    };
    // What is too large for the search is left as it is.
    match improve(graph, &start, &options, &stopwatch.rest()) {
        Ok(found) => found.cover,
        Err(_) => start,
    }
}

struct Search<'a> {
    stopwatch: &'a Stopwatch<'a>,
    branches_left: u64,
    bytes_left: u64,
    is_given_up: bool,
}

/// What the lists of a graph take.
fn bytes_of(graph: &Graph) -> u64 {
    8 * graph.n_edges() + 8 * (u64::from(graph.n_nodes()) + 1)
}

impl Search<'_> {
    /// A smallest cover of `graph` if it has fewer nodes than `bound`. What comes after giving up means nothing.
    fn below(&mut self, graph: &Graph, bound: u32, depth: u32) -> Option<Vec<u32>> {
        if self.is_given_up {
            return None;
        }
        let most = bound.checked_sub(1)?;
        let rules = Rules {
            known_cover: Some(most),
            ..Rules::all()
        };
        let reduction = reduce(graph, &rules, &self.stopwatch.rest());
        if !reduction.is_complete() || self.stopwatch.is_late() {
            self.is_given_up = true;
            return None;
        }
        let room = bound.checked_sub(reduction.offset())?;
        // The kernel, its components, and what lifting reads.
        let kept = 2 * bytes_of(reduction.kernel()) + 5 * u64::from(graph.n_nodes());
        let kernel = reduction.kernel();
        let cover = self.holding(kept, |search| search.of_parts(kernel, room, depth))?;
        reduction.lift(&cover).ok()
    }

    /// Goes on while so many bytes are held, if they are left.
    fn holding(
        &mut self,
        bytes: u64,
        go_on: impl FnOnce(&mut Self) -> Option<Vec<u32>>,
    ) -> Option<Vec<u32>> {
        let Some(left) = self.bytes_left.checked_sub(bytes) else {
            self.is_given_up = true;
            return None;
        };
        self.bytes_left = left;
        let found = go_on(self);
        self.bytes_left += bytes;
        found
    }

    /// As [`Search::below`] for a kernel, component by component.
    fn of_parts(&mut self, kernel: &Graph, bound: u32, depth: u32) -> Option<Vec<u32>> {
        let parts = components(kernel);
        if parts.is_empty() {
            return (bound > 0).then(Vec::new);
        }
        let graphs: Vec<Graph> = parts.iter().map(|part| induced(kernel, part)).collect();
        let lower: Vec<u32> = graphs.iter().map(lower_bound).collect();
        let mut rest: u32 = lower.iter().sum();
        let mut cover = Vec::new();
        for ((part, graph), lower) in parts.iter().zip(&graphs).zip(lower) {
            rest -= lower;
            let bound = bound.checked_sub(cover.len() as u32 + rest)?;
            if lower >= bound {
                return None;
            }
            let found = self.branch(graph, bound, depth)?;
            cover.extend(found.into_iter().map(|v| part[v as usize]));
        }
        Some(cover)
    }

    /// A node of largest degree is in the cover, or its neighbours are.
    fn branch(&mut self, graph: &Graph, bound: u32, depth: u32) -> Option<Vec<u32>> {
        let left = self.branches_left.checked_sub(1);
        if left.is_none() || depth == MAX_DEPTH {
            self.is_given_up = true;
            return None;
        }
        self.branches_left = left.unwrap_or(0);
        let nodes = 0..graph.n_nodes();
        let pick = nodes.clone().rev().max_by_key(|&v| graph.degree(v))?;
        let others: Vec<u32> = nodes.clone().filter(|&v| v != pick).collect();
        let mut best = self.with(graph, &[pick], &others, bound, depth);
        let bound = best.as_ref().map_or(bound, |best| best.len() as u32);
        let neighbors = graph.neighbors(pick);
        let is_far = |v: &u32| *v != pick && neighbors.binary_search(v).is_err();
        let far: Vec<u32> = nodes.filter(is_far).collect();
        if let Some(better) = self.with(graph, neighbors, &far, bound, depth) {
            best = Some(better);
        }
        best
    }

    /// A smallest cover that is `taken` and a cover of the part `left`, if it has fewer nodes than `bound`.
    fn with(
        &mut self,
        graph: &Graph,
        taken: &[u32],
        left: &[u32],
        bound: u32,
        depth: u32,
    ) -> Option<Vec<u32>> {
        let bound = bound.checked_sub(taken.len() as u32)?;
        let part = induced(graph, left);
        let found = self.holding(bytes_of(&part), |search| {
            search.below(&part, bound, depth + 1)
        })?;
        let found = found.into_iter().map(|v| left[v as usize]);
        Some(found.chain(taken.iter().copied()).collect())
    }
}

/// Half the nodes, which all halves of the linear program say of what the reductions leave, or what the cliques say.
fn lower_bound(kernel_part: &Graph) -> u32 {
    kernel_part
        .n_nodes()
        .div_ceil(2)
        .max(clique_cover_bound(kernel_part))
}

/// The nodes of each connected component, ascending.
fn components(graph: &Graph) -> Vec<Vec<u32>> {
    let mut is_met = vec![false; graph.n_nodes() as usize];
    let mut parts = Vec::new();
    for root in 0..graph.n_nodes() {
        if std::mem::replace(&mut is_met[root as usize], true) {
            continue;
        }
        let (mut part, mut head) = (vec![root], 0);
        while head < part.len() {
            for &u in graph.neighbors(part[head]) {
                if !std::mem::replace(&mut is_met[u as usize], true) {
                    part.push(u);
                }
            }
            head += 1;
        }
        part.sort_unstable();
        parts.push(part);
    }
    parts
}

/// The part of a graph between the listed nodes, ascending, numbered in their order.
fn induced(graph: &Graph, nodes: &[u32]) -> Graph {
    let mut new_ids = vec![u32::MAX; graph.n_nodes() as usize];
    for (new, &old) in (0u32..).zip(nodes) {
        new_ids[old as usize] = new;
    }
    let mut rows = crate::vertex_cover::rows::Rows::with_capacity(nodes.len());
    for &old in nodes {
        let neighbors = graph.neighbors(old).iter().map(|&u| new_ids[u as usize]);
        rows.push_row(neighbors.filter(|&u| u != u32::MAX));
    }
    rows.into_graph()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_graph::builtin;
    use shardgraph_random::KeyedRng;

    use super::*;
    use crate::vertex_cover::tests::small_graph;
    use crate::vertex_cover::{check_cover, naive};

    /// What a method of [`Search`] finds below a bound, and the branches that it looked at.
    fn found(method: impl FnOnce(&mut Search<'_>) -> Option<Vec<u32>>) -> (Option<Vec<u32>>, u64) {
        let limits = Limits::default();
        let mut search = Search {
            stopwatch: &Stopwatch::begin(&Budget::unlimited()),
            branches_left: limits.branches,
            bytes_left: limits.bytes,
            is_given_up: false,
        };
        let cover = method(&mut search);
        assert!(!search.is_given_up);
        (cover, limits.branches - search.branches_left)
    }

    type Method = fn(&mut Search<'_>, &Graph, u32) -> Option<Vec<u32>>;
    const BELOW: Method = |search, graph, bound| search.below(graph, bound, 0);
    const OF_PARTS: Method = |search, graph, bound| search.of_parts(graph, bound, 0);
    const BRANCH: Method = |search, graph, bound| search.branch(graph, bound, 0);

    /// A cover is found where the bound is above the optimum, and has its size.
    fn assert_every_bound(method: Method, graph: &Graph, optimum: usize) {
        for bound in 0..=graph.n_nodes() + 1 {
            let (cover, _) = found(|search| method(search, graph, bound));
            let size = cover.as_ref().map(Vec::len);
            let expected = (optimum < bound as usize).then_some(optimum);
            assert_eq!(size, expected, "bound {bound}");
            if let Some(cover) = cover {
                check_cover(graph, &cover).unwrap();
            }
        }
    }

    /// Regular graphs side by side under shuffled ids, and their optimum: all halves solves their linear program, as of a kernel.
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
        let optimum = parts.iter().map(naive::cover_size).sum();
        (Graph::from_edges(n, &edges).unwrap(), optimum)
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
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn every_bound_of_any_graph(graph in small_graph(11)) {
            let optimum = naive::cover_size(&graph);
            assert_every_bound(BELOW, &graph, optimum);
            if graph.n_nodes() > 0 {
                assert_every_bound(BRANCH, &graph, optimum);
            }
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
                circulant(5, &[1, 2]),
                petersen(),
            ];
            let parts: Vec<Graph> = chosen.iter().map(|&i| shapes[i].clone()).collect();
            let (graph, optimum) = side_by_side(&parts, seed);
            assert_every_bound(OF_PARTS, &graph, optimum);
            assert_every_bound(BELOW, &graph, optimum);
        }
    }

    /// Every number of bytes gives the optimum or nothing, and all that was held is given back.
    #[test]
    fn a_limit_of_bytes_gives_up() {
        let (graph, optimum) = side_by_side(&[petersen(), circulant(11, &[1, 3])], 3);
        let mut is_found = Vec::new();
        for bytes in (0..8000).step_by(50) {
            let mut search = Search {
                stopwatch: &Stopwatch::begin(&Budget::unlimited()),
                branches_left: 1000,
                bytes_left: bytes,
                is_given_up: false,
            };
            let cover = search.below(&graph, optimum as u32 + 1, 0);
            assert_eq!(search.bytes_left, bytes);
            assert_eq!(search.is_given_up, cover.is_none(), "{bytes} bytes");
            assert!(cover.as_ref().is_none_or(|cover| cover.len() == optimum));
            is_found.push(cover.is_some());
        }
        assert!(!is_found[0] && is_found[is_found.len() - 1] && is_found.is_sorted());
    }

    /// No rule takes these apart, so that each has branches of its own and the cover is put together.
    #[test]
    fn every_component_of_a_kernel_branches() {
        for seed in 0..10 {
            let (graph, optimum) = side_by_side(&[petersen(), petersen()], seed);
            let kernel = reduce(&graph, &Rules::all(), &Budget::unlimited());
            assert_eq!(components(kernel.kernel()).len(), 2);
            assert_every_bound(BELOW, &graph, optimum);
            let bound = optimum as u32 + 1;
            let (cover, n_branches) = found(|search| BELOW(search, &graph, bound));
            assert_eq!(cover.map(|cover| cover.len()), Some(optimum));
            assert!(n_branches >= 2, "{n_branches}");
        }
    }
}
