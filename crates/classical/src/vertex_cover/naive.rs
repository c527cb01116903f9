//! What the algorithms are compared with: every subset is tried.

use shardgraph_graph::Graph;

/// For each node the set of its neighbours, as bits.
fn masks(graph: &Graph) -> Vec<u32> {
    assert!(graph.n_nodes() < 32);
    let bits = |v| graph.neighbors(v).iter().map(|u| 1 << u).sum();
    (0..graph.n_nodes()).map(bits).collect()
}

/// The size of a smallest cover.
pub(crate) fn cover_size(graph: &Graph) -> usize {
    cover_size_with(graph, &[])
}

/// The size of a smallest cover that holds the given nodes.
pub(crate) fn cover_size_with(graph: &Graph, given: &[u32]) -> usize {
    let masks = masks(graph);
    let given: u32 = given.iter().map(|v| 1 << v).sum();
    let all = (1u32 << graph.n_nodes()) - 1;
    let is_cover = |set: u32| (0..masks.len()).all(|v| set >> v & 1 == 1 || masks[v] & !set == 0);
    let sizes = (0..=all)
        .filter(|set| set & given == given && is_cover(*set))
        .map(u32::count_ones);
    sizes.min().unwrap_or(0) as usize
}

/// Twice the least sum of values 0, 1/2 and 1 that cover every edge, and the fewest halves of such an optimum.
pub(crate) fn half_integral(graph: &Graph) -> (u32, usize) {
    let n = graph.n_nodes();
    let mut best = (u32::MAX, usize::MAX);
    for code in 0..3u32.pow(n) {
        let doubled: Vec<u32> = (0..n).map(|v| code / 3u32.pow(v) % 3).collect();
        let covers = |(u, v): (u32, u32)| doubled[u as usize] + doubled[v as usize] >= 2;
        if graph.edges().all(covers) {
            let n_halves = doubled.iter().filter(|value| **value == 1).count();
            best = best.min((doubled.iter().sum(), n_halves));
        }
    }
    best
}
