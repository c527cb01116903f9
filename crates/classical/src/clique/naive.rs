//! What the algorithms are compared with: every subset is tried.

use shardgraph_graph::Graph;

/// The size of a largest clique.
pub(crate) fn clique_size(graph: &Graph) -> usize {
    assert!(graph.n_nodes() < 24);
    let closed = |v: u32| {
        graph
            .neighbors(v)
            .iter()
            .fold(1u32 << v, |set, u| set | 1 << u)
    };
    let masks: Vec<u32> = (0..graph.n_nodes()).map(closed).collect();
    let is_clique = |set: u32| (0..masks.len()).all(|v| set >> v & 1 == 0 || set & !masks[v] == 0);
    let sets = (0..1u32 << graph.n_nodes()).filter(|set| is_clique(*set));
    sets.map(u32::count_ones).max().unwrap_or(0) as usize
}

/// The largest k such that `v` survives the removal of nodes of fewer than k neighbours, one after the other.
pub(crate) fn core_number(graph: &Graph, v: u32) -> usize {
    let survives = |k: usize| {
        let mut is_left = vec![true; graph.n_nodes() as usize];
        let degree = |u: u32, is_left: &[bool]| {
            let row = graph.neighbors(u).iter();
            row.filter(|&&w| is_left[w as usize]).count()
        };
        while let Some(u) =
            (0..graph.n_nodes()).find(|&u| is_left[u as usize] && degree(u, &is_left) < k)
        {
            is_left[u as usize] = false;
        }
        is_left[v as usize]
    };
    (0..).take_while(|&k| survives(k)).last().unwrap_or(0)
}
