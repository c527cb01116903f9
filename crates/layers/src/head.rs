//! The head seam: which model makes a score out of each node's embedding and its state's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::{BatchLayout, Ctx, Error, ErrorKind, Params, Var};

use crate::{MlpHead, QHead};

/// The heads by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// [`QHead`].
    #[default]
    Q,
    /// [`MlpHead`].
    Mlp,
}

impl HeadKind {
    /// Trained numbers of a head over embeddings of this width.
    pub(crate) fn n_params(self, embed_dim: usize) -> usize {
        match self {
            Self::Q => QHead::n_params(embed_dim),
            Self::Mlp => MlpHead::n_params(embed_dim),
        }
    }
}

impl fmt::Display for HeadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Q => "q",
            Self::Mlp => "mlp",
        })
    }
}

impl FromStr for HeadKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "q" => Ok(Self::Q),
            "mlp" => Ok(Self::Mlp),
            _ => {
                let text = format!("`{text}` is no head: expected q or mlp");
                Err(ErrorKind::Usage(text).into())
            }
        }
    }
}

/// A head over its parameters.
#[derive(Debug, Clone, Copy)]
pub enum Head {
    /// The paper's.
    Q(QHead),
    /// A hidden layer over a node's embedding and the mean of all.
    Mlp(MlpHead),
}

impl Head {
    /// Adds the parameters of a kind.
    pub fn build(
        params: &mut Params,
        kind: HeadKind,
        embed_dim: usize,
        init: &mut dyn FnMut() -> f32,
    ) -> Self {
        match kind {
            HeadKind::Q => Self::Q(QHead::build(params, embed_dim, init)),
            HeadKind::Mlp => Self::Mlp(MlpHead::build(params, embed_dim, init)),
        }
    }

    /// Numbers that rank the nodes of one state as their scores do; those of different states are not comparable.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to sharded `[n_rows, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn node_values(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        match self {
            Self::Q(head) => head.node_values(ctx, embed, layout),
            Self::Mlp(head) => head.scores(ctx, embed, layout),
        }
    }

    /// The scores of all own rows.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to sharded `[n_rows, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn scores(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        match self {
            Self::Q(head) => head.scores(ctx, embed, layout),
            Self::Mlp(head) => head.scores(ctx, embed, layout),
        }
    }

    /// The score of one node of each state. `own_rows[state]` is its own row, or `u32::MAX` where another rank has it.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to replicated `[n_states, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        match self {
            Self::Q(head) => head.scores_of(ctx, embed, layout, own_rows),
            Self::Mlp(head) => head.scores_of(ctx, embed, layout, own_rows),
        }
    }
}
