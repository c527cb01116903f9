//! The embedding seam: which model makes a row of numbers out of each node and its surroundings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{Ctx, Error, ErrorKind, Params, Var};

use crate::{GraphSage, Path, PolicyShape, StateBatch, Structure2Vec};

/// The embeddings by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EmbeddingKind {
    /// [`Structure2Vec`].
    #[default]
    #[serde(rename = "s2v")]
    Structure2Vec,
    /// [`GraphSage`].
    #[serde(rename = "sage")]
    GraphSage,
}

impl EmbeddingKind {
    /// Trained numbers of an embedding of these sizes.
    pub(crate) fn n_params(self, shape: PolicyShape) -> usize {
        match self {
            Self::Structure2Vec => Structure2Vec::n_params(shape),
            Self::GraphSage => GraphSage::n_params(shape),
        }
    }
}

impl fmt::Display for EmbeddingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Structure2Vec => "s2v",
            Self::GraphSage => "sage",
        })
    }
}

impl FromStr for EmbeddingKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "s2v" => Ok(Self::Structure2Vec),
            "sage" => Ok(Self::GraphSage),
            _ => {
                let text = format!("`{text}` is no embedding: expected s2v or sage");
                Err(ErrorKind::Usage(text).into())
            }
        }
    }
}

/// An embedding over its parameters.
#[derive(Debug, Clone)]
pub enum Embedding {
    /// The paper's.
    Structure2Vec(Structure2Vec),
    /// Means over neighbours, with weights of its own in each layer.
    GraphSage(GraphSage),
}

impl Embedding {
    /// Adds the parameters of the kind that the shape names.
    pub fn build(params: &mut Params, shape: PolicyShape, init: &mut dyn FnMut() -> f32) -> Self {
        match shape.embedding {
            EmbeddingKind::Structure2Vec => {
                Self::Structure2Vec(Structure2Vec::build(params, shape, init))
            }
            EmbeddingKind::GraphSage => Self::GraphSage(GraphSage::build(params, shape, init)),
        }
    }

    /// The embeddings of the own rows, none below zero.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]`.
    /// # Errors
    /// Where the batch does not fit the model, or lacks what the path needs, or the model does not have the path.
    pub fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, path: Path) -> Result<Var, Error> {
        match self {
            Self::Structure2Vec(model) => model.embed(ctx, batch, path),
            Self::GraphSage(model) => model.embed(ctx, batch, path),
        }
    }
}
