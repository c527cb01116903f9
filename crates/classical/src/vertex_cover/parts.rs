//! [`Parts`]: the connected components of a kernel, each with its best cover and bound.

use shardgraph_graph::Graph;

use crate::budget::Stopwatch;
use crate::vertex_cover::bit_graph::BitGraph;
use crate::vertex_cover::branch_and_reduce::{BranchAndReduce, Outcome};
use crate::vertex_cover::check::{indicator, listed};
use crate::vertex_cover::lower_bound::clique_cover_bound;
use crate::vertex_cover::max_sat_bound::MaxSatBound;
use crate::vertex_cover::rows::Rows;

/// Components of more nodes are bounded without unit propagation.
const MOST_PROPAGATED: u32 = 5000;
/// As `MOST_PROPAGATED`, for entries.
const MOST_ENTRIES: u64 = 2_000_000;

/// One component.
#[derive(Clone, Debug)]
struct Part {
    /// The kernel's nodes, ascending.
    nodes: Vec<u32>,
    /// With ids of its own.
    graph: Graph,
    cover: Vec<u32>,
    lower_bound: u32,
}

/// Components are solved apart: a smallest cover of each makes a smallest cover.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    n_nodes: u32,
    parts: Vec<Part>,
}

impl Parts {
    /// The components of a graph with a cover of it.
    pub(crate) fn new(graph: &Graph, cover: &[u32]) -> Parts {
        let part = |Component { nodes, graph }| Part {
            lower_bound: lower_bound(&graph),
            cover: Vec::new(),
            graph,
            nodes,
        };
        let mut parts = Parts {
            n_nodes: graph.n_nodes(),
            parts: components(graph).into_iter().map(part).collect(),
        };
        parts.parts.sort_by_key(|part| part.nodes.len());
        let covers = parts.restricted(cover);
        for (part, cover) in parts.parts.iter_mut().zip(covers) {
            part.cover = cover;
        }
        parts
    }

    /// The part of a cover in each component, in ids of these.
    fn restricted(&self, cover: &[u32]) -> Vec<Vec<u32>> {
        let is_in = indicator(self.n_nodes, cover).unwrap_or_default();
        let of_part = |part: &Part| {
            let ids = (0u32..).zip(&part.nodes);
            let chosen = ids.filter(|(_, v)| is_in[**v as usize]);
            chosen.map(|(id, _)| id).collect()
        };
        self.parts.iter().map(of_part).collect()
    }

    /// Takes from a cover what is smaller than the best of its component.
    pub(crate) fn keep(&mut self, cover: &[u32]) {
        let covers = self.restricted(cover);
        for (part, cover) in self.parts.iter_mut().zip(covers) {
            if cover.len() < part.cover.len() {
                part.cover = cover;
            }
        }
    }

    /// The best cover, ascending.
    pub(crate) fn cover(&self) -> Vec<u32> {
        let mut in_cover = vec![false; self.n_nodes as usize];
        for part in &self.parts {
            for &id in &part.cover {
                in_cover[part.nodes[id as usize] as usize] = true;
            }
        }
        listed(&in_cover)
    }

    /// No cover has fewer nodes.
    pub(crate) fn lower_bound(&self) -> u32 {
        self.parts.iter().map(|part| part.lower_bound).sum()
    }

    pub(crate) fn is_solved(&self) -> bool {
        self.parts.iter().all(Part::is_solved)
    }

    /// Nodes and entries of the largest component that is not solved; zeros where all are.
    pub(crate) fn largest_open(&self) -> (u32, u64) {
        let open = self.parts.iter().filter(|part| !part.is_solved());
        let sizes = open.map(|part| (part.graph.n_nodes(), part.graph.n_entries()));
        sizes.max().unwrap_or_default()
    }

    /// The components that are not solved, as one list of nodes, ascending.
    pub(crate) fn open_nodes(&self) -> Vec<u32> {
        let open = self.parts.iter().filter(|part| !part.is_solved());
        let mut nodes: Vec<u32> = open.flat_map(|part| part.nodes.iter().copied()).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Branch and reduce on each component of up to `most_nodes`, the small ones first, until `branches` are used up or the time is over.
    pub(crate) fn solve(&mut self, branches: &mut u64, most_nodes: u32, stopwatch: &Stopwatch<'_>) {
        for part in self.parts.iter_mut().filter(|part| !part.is_solved()) {
            if part.graph.n_nodes() > most_nodes || stopwatch.is_late() {
                return;
            }
            part.solve(branches, stopwatch);
        }
    }
}

impl Part {
    /// Whether the cover is proved to be a smallest one.
    fn is_solved(&self) -> bool {
        self.cover.len() as u32 <= self.lower_bound
    }

    fn solve(&mut self, branches: &mut u64, stopwatch: &Stopwatch<'_>) {
        let n_nodes = self.graph.n_nodes();
        let mut search = BranchAndReduce::new(&self.graph, *branches, stopwatch);
        match search.larger_than(n_nodes - self.cover.len() as u32) {
            Outcome::GivenUp => {}
            Outcome::None => self.lower_bound = self.cover.len() as u32,
            Outcome::Found(set) => {
                let is_out = indicator(n_nodes, &set).unwrap_or_default();
                self.cover = (0..n_nodes).filter(|&v| !is_out[v as usize]).collect();
                self.lower_bound = self.cover.len() as u32;
            }
        }
        *branches = search.branches_left();
    }
}

/// The bound by cliques, and for what is not too large by unit propagation.
fn lower_bound(part: &Graph) -> u32 {
    let n = part.n_nodes();
    match n <= MOST_PROPAGATED && part.n_entries() <= MOST_ENTRIES {
        false => clique_cover_bound(part),
        true => n - MaxSatBound::new(n as usize).most(&BitGraph::new(part)),
    }
}

/// A connected component.
pub(crate) struct Component {
    /// The nodes of the whole graph, ascending.
    pub(crate) nodes: Vec<u32>,
    /// With ids in their order.
    pub(crate) graph: Graph,
}

/// The connected components.
///
/// # Complexity
/// O(n log n + m)
pub(crate) fn components(graph: &Graph) -> Vec<Component> {
    let n_nodes = graph.n_nodes() as usize;
    let mut is_met = vec![false; n_nodes];
    let mut new_ids = vec![u32::MAX; n_nodes];
    let mut parts = Vec::new();
    for root in 0..graph.n_nodes() {
        if std::mem::replace(&mut is_met[root as usize], true) {
            continue;
        }
        let (mut nodes, mut head) = (vec![root], 0);
        while head < nodes.len() {
            for &u in graph.neighbors(nodes[head]) {
                if !std::mem::replace(&mut is_met[u as usize], true) {
                    nodes.push(u);
                }
            }
            head += 1;
        }
        nodes.sort_unstable();
        let graph = numbered(graph, &nodes, &mut new_ids);
        parts.push(Component { nodes, graph });
    }
    parts
}

/// The part of a graph between the listed nodes, ascending, numbered in their order.
pub(crate) fn induced(graph: &Graph, nodes: &[u32]) -> Graph {
    numbered(graph, nodes, &mut vec![u32::MAX; graph.n_nodes() as usize])
}

/// As [`induced`]; `new_ids` has `u32::MAX` for every node, before and after.
fn numbered(graph: &Graph, nodes: &[u32], new_ids: &mut [u32]) -> Graph {
    for (new, &old) in (0u32..).zip(nodes) {
        new_ids[old as usize] = new;
    }
    let mut rows = Rows::with_capacity(nodes.len());
    for &old in nodes {
        let neighbors = graph.neighbors(old).iter().map(|&u| new_ids[u as usize]);
        rows.push_row(neighbors.filter(|&u| u != u32::MAX));
    }
    for &old in nodes {
        new_ids[old as usize] = u32::MAX;
    }
    rows.into_graph()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Budget;
    use crate::vertex_cover::tests::small_graph;
    use crate::vertex_cover::{check_cover, naive};

    proptest! {
        /// Components hold every node and edge once; a smallest cover of each makes a smallest cover.
        #[test]
        fn components_are_solved_apart(graph in small_graph(13)) {
            let parts = components(&graph);
            let mut nodes: Vec<u32> = parts.iter().flat_map(|part| part.nodes.clone()).collect();
            nodes.sort_unstable();
            prop_assert_eq!(nodes, (0..graph.n_nodes()).collect::<Vec<u32>>());
            for Component { nodes, graph: part } in &parts {
                prop_assert_eq!(&induced(&graph, nodes), part);
            }
            let n_edges: u64 = parts.iter().map(|part| part.graph.n_edges()).sum();
            prop_assert_eq!(n_edges, graph.n_edges());
            let optimum = naive::cover_size(&graph);
            let all: Vec<u32> = (0..graph.n_nodes()).collect();
            let mut parts = Parts::new(&graph, &all);
            prop_assert!(parts.lower_bound() as usize <= optimum);
            let mut branches = u64::MAX;
            parts.solve(&mut branches, u32::MAX, &Stopwatch::begin(&Budget::unlimited()));
            prop_assert!(parts.is_solved() && parts.open_nodes().is_empty());
            check_cover(&graph, &parts.cover()).unwrap();
            prop_assert_eq!((parts.cover().len(), parts.lower_bound() as usize), (optimum, optimum));
        }
    }
}
