//! A graph under a mask of removed nodes, with every degree kept up to date. The graph itself is
//! shared and never changes.

use std::sync::Arc;

use shardgraph_graph::Graph;

use crate::space::{GraphValue, Space};

/// A shared graph without the nodes that were removed and without their edges.
///
/// # Complexity
/// 9 B per node beside the graph.
///
/// ```
/// use shardgraph_environments::ResidualGraph;
/// use shardgraph_graph::Graph;
///
/// let mut residual = ResidualGraph::new(Graph::from_edges(3, &[(0, 1), (1, 2)])?.into());
/// residual.remove(0);
/// assert_eq!((residual.degrees(), residual.n_edges()), (&[0, 1, 1][..], 1));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResidualGraph {
    graph: Arc<Graph>,
    removed: Vec<bool>,
    removals: Vec<u32>,
    degrees: Vec<u32>,
    n_edges: u64,
    n_present: u32,
}

impl ResidualGraph {
    /// The whole of `graph`.
    pub fn new(graph: Arc<Graph>) -> ResidualGraph {
        ResidualGraph {
            removed: vec![false; graph.n_nodes() as usize],
            removals: Vec::new(),
            degrees: graph.degrees(),
            n_edges: graph.n_edges(),
            n_present: graph.n_nodes(),
            graph,
        }
    }

    /// Removes `v` and its edges; a node that is removed already stays so.
    ///
    /// # Panics
    /// When the graph has no node `v`.
    ///
    /// # Complexity
    /// O(deg v), degree in the whole graph.
    pub fn remove(&mut self, v: u32) {
        if self.removed[v as usize] {
            return;
        }
        self.removed[v as usize] = true;
        self.removals.push(v);
        self.n_present -= 1;
        self.n_edges -= u64::from(self.degrees[v as usize]);
        self.degrees[v as usize] = 0;
        for &u in self.graph.neighbors(v) {
            if !self.removed[u as usize] {
                self.degrees[u as usize] -= 1;
            }
        }
    }

    /// The whole graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// For each node whether it was removed.
    pub fn removed(&self) -> &[bool] {
        &self.removed
    }

    /// The removed nodes in the order in which they left.
    pub fn removals(&self) -> &[u32] {
        &self.removals
    }

    /// True if a node was not removed.
    ///
    /// # Panics
    /// When the graph has no such node.
    pub fn is_present(&self, node: u32) -> bool {
        !self.removed[node as usize]
    }

    /// The number of present neighbours of each node; 0 for a removed node.
    pub fn degrees(&self) -> &[u32] {
        &self.degrees
    }

    /// The number of edges between present nodes.
    pub fn n_edges(&self) -> u64 {
        self.n_edges
    }

    /// The number of nodes that were not removed.
    pub fn n_present(&self) -> u32 {
        self.n_present
    }

    /// The space of [`ResidualGraph::to_value`]: graphs with one float for each node and none for
    /// an edge.
    pub fn space() -> Space {
        Space::graph(1, 0).expect("one feature")
    }

    /// The present edges over the nodes of the whole graph, so that a node keeps its number.
    ///
    /// A node's feature is 1 when it was removed and 0 when not. Each edge is there once, from the
    /// smaller node to the larger.
    ///
    /// # Complexity
    /// O(n + m) and new lists; a policy for large graphs reads the graph and the mask in place.
    pub fn to_value(&self) -> GraphValue {
        let is_removed = |v: u32| self.removed[v as usize];
        let n_nodes = self.graph.n_nodes();
        let mut edges = Vec::with_capacity(self.n_edges as usize);
        for u in (0..n_nodes).filter(|&u| !is_removed(u)) {
            let neighbors = self.graph.neighbors(u).iter().copied();
            let present = neighbors.filter(|&v| u < v && !is_removed(v));
            edges.extend(present.map(|v| [u, v]));
        }
        GraphValue {
            n_nodes,
            edges,
            node_features: self.removed.iter().map(|&gone| f32::from(gone)).collect(),
            edge_features: Vec::new(),
        }
    }
}
