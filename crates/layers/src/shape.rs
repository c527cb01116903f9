//! The layers of a policy and their sizes.

use crate::kind::{EmbeddingKind, HeadKind, Sizes};

/// The layers of a policy and their sizes; by default structure2vec with K = 32, L = 2, and the Q
/// head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyShape {
    /// K: the width of an embedding.
    pub embed_dim: usize,
    /// L: the rounds of neighbour sums, at least 1.
    pub n_layers: usize,
    /// Features of a node beside its membership in the partial solution.
    pub n_node_features: usize,
    /// The embedding model.
    pub embedding: EmbeddingKind,
    /// The action-evaluation model.
    pub head: HeadKind,
}

impl Default for PolicyShape {
    fn default() -> Self {
        Self {
            embed_dim: 32,
            n_layers: 2,
            n_node_features: 0,
            embedding: EmbeddingKind::default(),
            head: HeadKind::default(),
        }
    }
}

impl PolicyShape {
    /// The sizes alone.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            embed_dim: self.embed_dim,
            n_layers: self.n_layers,
            n_node_features: self.n_node_features,
        }
    }

    /// Trained numbers in a policy of this shape; with the default layers `4 K^2 + (4 + features)
    /// K`.
    ///
    /// No memory is taken for them.
    pub fn n_params(&self) -> usize {
        let sizes = self.sizes();
        self.embedding.n_params(sizes) + self.head.n_params(sizes)
    }
}
