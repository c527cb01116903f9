//! The policy model: embedding and action evaluation together.

use shardgraph_autodiff::{Error, ErrorKind, Params};

use crate::{QHead, Structure2Vec};

/// The sizes of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyShape {
    /// K: the width of an embedding.
    pub embed_dim: usize,
    /// L: the rounds of neighbour sums, at least 1.
    pub n_layers: usize,
    /// Features of a node beside its membership in the partial solution.
    pub n_node_features: usize,
}

impl PolicyShape {
    /// Trained numbers in a policy of this shape: `4 K^2 + (4 + features) K`.
    pub fn n_params(&self) -> usize {
        let k = self.embed_dim;
        4 * k * k + (4 + self.n_node_features) * k
    }
}

/// structure2vec and the Q head over one set of parameters.
///
/// An example is at the crate root.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// The sizes.
    pub shape: PolicyShape,
    /// The embedding model (EM).
    pub embedding: Structure2Vec,
    /// The action-evaluation model (Q).
    pub head: QHead,
}

impl Policy {
    /// Adds the parameters `theta1` to `theta7` and gives the model over them.
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
            embedding: Structure2Vec::build(params, shape, init),
            head: QHead::build(params, shape.embed_dim, init),
        })
    }
}
