//! The policy model: embedding and action evaluation together.

use std::sync::Arc;

use shardgraph_autodiff::{Error, Params};

use crate::kind::usage;
use crate::{Embedding, Head, PolicyShape};

/// An embedding and a head over one set of parameters.
///
/// An example is at the crate root.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The sizes.
    pub shape: PolicyShape,
    /// The embedding model (EM).
    pub embedding: Arc<dyn Embedding>,
    /// The action-evaluation model (Q).
    pub head: Arc<dyn Head>,
}

impl Policy {
    /// Adds the parameters (`theta1` to `theta7` with the default layers) and gives the model over
    /// them.
    ///
    /// # Errors
    /// When the width or the number of layers is 0.
    pub fn build(
        params: &mut Params,
        shape: PolicyShape,
        init: &mut dyn FnMut() -> f32,
    ) -> Result<Self, Error> {
        if shape.embed_dim == 0 || shape.n_layers == 0 {
            return Err(usage(format!(
                "a policy needs at least one layer and one embedding column, not L = {}, K = {}",
                shape.n_layers, shape.embed_dim
            )));
        }
        let sizes = shape.sizes();
        Ok(Self {
            shape,
            embedding: shape.embedding.add(params, sizes, init),
            head: shape.head.add(params, sizes, init),
        })
    }
}
