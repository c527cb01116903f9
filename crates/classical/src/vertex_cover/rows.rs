//! [`Rows`]: neighbour lists that are never changed, as the linear program and the kernel want them.

use shardgraph_graph::Graph;

/// Compressed sparse rows.
pub(crate) struct Rows {
    offsets: Vec<usize>,
    columns: Vec<u32>,
}

impl Rows {
    pub(crate) fn with_capacity(n_nodes: usize) -> Rows {
        let mut offsets = Vec::with_capacity(n_nodes + 1);
        offsets.push(0);
        Rows {
            offsets,
            columns: Vec::new(),
        }
    }

    /// Adds the row of the next node.
    pub(crate) fn push_row(&mut self, neighbors: impl Iterator<Item = u32>) {
        self.columns.extend(neighbors);
        self.offsets.push(self.columns.len());
    }

    #[cfg(test)]
    pub(crate) fn of(graph: &Graph) -> Rows {
        let mut rows = Rows::with_capacity(graph.n_nodes() as usize);
        for v in 0..graph.n_nodes() {
            rows.push_row(graph.neighbors(v).iter().copied());
        }
        rows
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn neighbors(&self, v: u32) -> &[u32] {
        &self.columns[self.offsets[v as usize]..self.offsets[v as usize + 1]]
    }

    /// The `i`-th neighbour of `v`, if there are more than `i`.
    pub(crate) fn neighbor(&self, v: u32, i: usize) -> Option<u32> {
        self.neighbors(v).get(i).copied()
    }

    /// The same as a graph.
    pub(crate) fn into_graph(self) -> Graph {
        let n_nodes = self.n_nodes() as u32;
        let mut edges = Vec::with_capacity(self.columns.len() / 2);
        for u in 0..n_nodes {
            let above = self.neighbors(u).iter().filter(|&&v| u < v);
            edges.extend(above.map(|&v| (u, v)));
        }
        Graph::from_edges(n_nodes, &edges)
            .unwrap_or_else(|error| unreachable!("ids below the number of nodes: {error}"))
    }
}
