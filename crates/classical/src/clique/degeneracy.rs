//! [`DegeneracyOrder`]: the order that repeatedly takes a node of least degree, its cores and the rows of later neighbours.

use shardgraph_graph::Graph;

/// The nodes by rank in a degeneracy order, with the later neighbours of each rank.
///
/// # Source
/// Matula and Beck (1983), "Smallest-last ordering and clustering and graph coloring algorithms".
pub(crate) struct DegeneracyOrder {
    /// Node of each rank.
    pub(crate) nodes: Vec<u32>,
    /// Core number of each rank.
    pub(crate) cores: Vec<u32>,
    offsets: Vec<usize>,
    later: Vec<u32>,
}

impl DegeneracyOrder {
    /// # Complexity
    /// O(n + m) time, and O(m log d) to sort the rows of later neighbours.
    pub(crate) fn new(graph: &Graph) -> DegeneracyOrder {
        let (nodes, cores) = smallest_last(graph);
        let n = nodes.len();
        let mut rank = vec![0u32; n];
        for (at, &v) in (0u32..).zip(&nodes) {
            rank[v as usize] = at;
        }
        let mut offsets = Vec::with_capacity(n + 1);
        offsets.push(0);
        let mut later: Vec<u32> = Vec::with_capacity(graph.n_edges() as usize);
        for (at, &v) in (0u32..).zip(&nodes) {
            let begin = later.len();
            let ranks = graph.neighbors(v).iter().map(|&u| rank[u as usize]);
            later.extend(ranks.filter(|&r| r > at));
            later[begin..].sort_unstable();
            offsets.push(later.len());
        }
        DegeneracyOrder {
            nodes,
            cores,
            offsets,
            later,
        }
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Ranks of the neighbours after this rank, ascending: as many as the degeneracy at most.
    pub(crate) fn later(&self, rank: usize) -> &[u32] {
        &self.later[self.offsets[rank]..self.offsets[rank + 1]]
    }

    /// Colours by rank, none shared by neighbours: each rank from the last takes the least free one.
    pub(crate) fn colours(&self) -> Vec<u32> {
        let n = self.n_nodes();
        let mut colours = vec![0u32; n];
        let mut taken_by = vec![usize::MAX; n + 1];
        for rank in (0..n).rev() {
            for &u in self.later(rank) {
                taken_by[colours[u as usize] as usize] = rank;
            }
            let free = (0u32..).find(|&c| taken_by[c as usize] != rank);
            colours[rank] = free.unwrap_or(0);
        }
        colours
    }
}

/// Nodes in smallest-last order and the core number of each, by rank.
fn smallest_last(graph: &Graph) -> (Vec<u32>, Vec<u32>) {
    let n = graph.n_nodes() as usize;
    let mut degrees = graph.degrees();
    let largest = degrees.iter().copied().max().unwrap_or(0) as usize;
    // Nodes sorted by degree; `begins[d]` is the first of degree d or more.
    let mut begins = vec![0usize; largest + 2];
    for &degree in &degrees {
        begins[degree as usize + 1] += 1;
    }
    for d in 0..=largest {
        begins[d + 1] += begins[d];
    }
    let mut next = begins.clone();
    let (mut order, mut position) = (vec![0u32; n], vec![0usize; n]);
    for v in 0..n {
        let at = &mut next[degrees[v] as usize];
        order[*at] = v as u32;
        position[v] = *at;
        *at += 1;
    }
    let mut cores = Vec::with_capacity(n);
    for rank in 0..n {
        let v = order[rank];
        let core = degrees[v as usize];
        cores.push(core);
        for &u in graph.neighbors(v) {
            let degree = degrees[u as usize];
            if degree <= core {
                continue;
            }
            // `u` changes places with the first node of its degree, and that bucket begins one later.
            let first = begins[degree as usize].max(rank + 1);
            let (from, w) = (position[u as usize], order[first]);
            order.swap(from, first);
            position[u as usize] = first;
            position[w as usize] = from;
            begins[degree as usize] = first + 1;
            degrees[u as usize] -= 1;
        }
    }
    (order, cores)
}
