//! The state of a vertex cover after some picks, counted from scratch: the oracle of the incremental counts.

use shardgraph_graph::Graph;

/// The residual graph of a cover, with one element per node; 0 and 0 for a picked node.
pub(crate) struct State {
    /// The number of neighbours outside the cover.
    pub(crate) degrees: Vec<u32>,
    /// The sum of `degrees` over the neighbours outside the cover.
    pub(crate) d2: Vec<u64>,
    pub(crate) max_degree: u32,
}

/// The state of `graph` after `picks`, which need not be candidates.
pub(crate) fn state_after(graph: &Graph, picks: &[u32]) -> State {
    let mut is_left = vec![true; graph.n_nodes() as usize];
    picks
        .iter()
        .for_each(|&pick| is_left[pick as usize] = false);
    let left = |v: u32| {
        let own = if is_left[v as usize] {
            graph.neighbors(v)
        } else {
            &[]
        };
        own.iter().copied().filter(|&u| is_left[u as usize])
    };
    let degrees: Vec<u32> = (0..graph.n_nodes())
        .map(|v| left(v).count() as u32)
        .collect();
    let d2 = |v| left(v).map(|u| u64::from(degrees[u as usize])).sum();
    State {
        d2: (0..graph.n_nodes()).map(d2).collect(),
        max_degree: degrees.iter().copied().max().unwrap_or(0),
        degrees,
    }
}
