//! The input of a policy: a batch of graph states, on one rank.

use std::sync::Arc;

use crate::{BatchLayout, Propagation};

/// A batch of residual-graph states as one rank sees it.
///
/// The residual graph of a state is the graph without the nodes of its partial solution. With `s`
/// the state's scale (1, or 1 / largest residual degree), every edge of it weighs `s * w`.
///
/// # Shapes
/// Rows as in [`BatchLayout`].
#[derive(Debug, Clone)]
pub struct StateBatch {
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
    /// `[n_rows, 1 + n_node_features]`: membership in the partial solution (0 or 1), then the
    /// node's own features.
    pub node: Vec<f32>,
    /// `[n_rows, 2]`: the scaled sums of positive and of negated negative edge weights to residual
    /// neighbours; without weights that is (scaled degree, 0). Zero for nodes that have left the
    /// residual graph.
    pub edge: Vec<f32>,
    /// `[n_rows, 1]`: the sum over residual neighbours of their scaled degree, times the scale;
    /// what [`crate::Path::Collapsed`] needs for layer 2. May be empty for other paths.
    pub neighbor_degree: Vec<f32>,
    /// The neighbour sums; needed by every path that makes them.
    pub propagation: Option<Arc<Propagation>>,
}
