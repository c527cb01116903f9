//! The policy model: embedding and action evaluation together.

use shardgraph_autodiff::{Error, ErrorKind, Params};

use crate::{Embedding, EmbeddingKind, Head, HeadKind};

/// The layers of a policy and their sizes; by default structure2vec with K = 32, L = 2, and the Q head.
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
    /// Trained numbers in a policy of this shape; with the default layers `4 K^2 + (4 + features) K`.
    pub fn n_params(&self) -> usize {
        self.embedding.n_params(*self) + self.head.n_params(self.embed_dim)
    }
}

/// An embedding and a head over one set of parameters.
///
/// An example is at the crate root.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The sizes.
    pub shape: PolicyShape,
    /// The embedding model (EM).
    pub embedding: Embedding,
    /// The action-evaluation model (Q).
    pub head: Head,
}

impl Policy {
    /// Adds the parameters (`theta1` to `theta7` with the default layers) and gives the model over them.
    ///
    /// # Errors
    /// When the width or the number of layers is 0.
    pub fn build(
        params: &mut Params,
        shape: PolicyShape,
        init: &mut dyn FnMut() -> f32,
    ) -> Result<Self, Error> {
        if shape.embed_dim == 0 || shape.n_layers == 0 {
            let text = format!(
                "a policy needs at least one layer and one embedding column, not L = {}, K = {}",
                shape.n_layers, shape.embed_dim
            );
            return Err(ErrorKind::Usage(text).into());
        }
        Ok(Self {
            shape,
            embedding: Embedding::build(params, shape, init),
            head: Head::build(params, shape.head, shape.embed_dim, init),
        })
    }
}
