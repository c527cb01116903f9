//! The rows of a network's input: one for each node of one rank and state.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_graph::Graph;
use shardgraph_layers::BatchLayout;
use shardgraph_layers::{Path, ScoreTable, StateBatch};

use crate::AdjacencyScale;
use crate::problem::{Episode, ResidualGraph};

/// A batch with room for the rows of a layout and none yet.
pub(crate) fn without_rows(layout: &Arc<BatchLayout>) -> StateBatch {
    StateBatch {
        inputs: None,
        counted: None,
        layout: Arc::clone(layout),
        node: Vec::with_capacity(layout.n_rows()),
        edge: Vec::with_capacity(2 * layout.n_rows()),
        neighbor_degree: Vec::with_capacity(layout.n_rows()),
        propagation: None,
    }
}

/// One state as the rows of a batch are made from it.
pub(crate) struct StateRows<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) episode: &'a Episode,
    pub(crate) residual: &'a ResidualGraph,
    pub(crate) scale: f32,
    pub(crate) path: Path,
}

impl<'a> StateRows<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        episode: &'a Episode,
        scale: AdjacencyScale,
        path: Path,
    ) -> StateRows<'a> {
        StateRows {
            graph,
            episode,
            residual: episode.state().residual(),
            scale: scale.of_state(episode),
            path,
        }
    }

    /// Appends the row of a node.
    pub(crate) fn push(&self, node: u32, batch: &mut StateBatch) {
        let d2 = match self.path {
            Path::Collapsed => self.d2(node),
            _ => 0,
        };
        self.push_with(node, d2, batch);
    }

    /// As [`StateRows::push`], with [`StateRows::d2`] given; it is read on the collapsed path alone.
    pub(crate) fn push_with(&self, node: u32, d2: u64, batch: &mut StateBatch) {
        let Self { episode, scale, .. } = *self;
        batch
            .node
            .push(f32::from(episode.in_answer()[node as usize]));
        episode.state().push_features(node, scale, &mut batch.node);
        match self.graph.weights_of(node) {
            Some(weights) => batch.edge.extend(self.weight_sums(node, weights)),
            None => {
                let degree = self.residual.degrees()[node as usize];
                batch.edge.extend([degree as f32 * scale, 0.0]);
            }
        }
        if self.path == Path::Collapsed {
            batch.neighbor_degree.push(d2 as f32 * (scale * scale));
        }
    }

    /// The sums of positive and of negated negative weights to present neighbours; zero for a node that is not present.
    fn weight_sums(&self, node: u32, weights: &[f32]) -> [f32; 2] {
        let mut sums = [0.0; 2];
        if !self.residual.is_present(node) {
            return sums;
        }
        for (&u, &weight) in self.graph.neighbors(node).iter().zip(weights) {
            if self.residual.is_present(u) {
                let weight = weight * self.scale;
                sums[usize::from(weight < 0.0)] += weight.abs();
            }
        }
        sums
    }

    /// The sum of degrees over present neighbours; zero for a node that is not present.
    pub(crate) fn d2(&self, node: u32) -> u64 {
        if !self.residual.is_present(node) {
            return 0;
        }
        let degrees = self.residual.degrees();
        let of_neighbors = self.graph.neighbors(node).iter();
        of_neighbors.map(|&u| u64::from(degrees[u as usize])).sum()
    }

    /// The scores of some nodes by the closed form; of candidates alone, the others get 0.
    pub(crate) fn table_scores(&self, table: &ScoreTable, nodes: Range<u32>) -> Vec<f32> {
        let mut hint = 0;
        let score = |node: u32| {
            if !self.episode.is_candidate(node) {
                return 0.0;
            }
            let degree = self.residual.degrees()[node as usize] as f32 * self.scale;
            let d2 = self.d2(node) as f32 * (self.scale * self.scale);
            table.score_near(degree, d2, &mut hint)
        };
        nodes.map(score).collect()
    }

    /// For each node of the graph 1 where it is present, else 0.
    pub(crate) fn keep(&self) -> impl Iterator<Item = f32> + '_ {
        let nodes: Range<u32> = 0..self.graph.n_nodes();
        nodes.map(|node| f32::from(self.residual.is_present(node)))
    }
}
