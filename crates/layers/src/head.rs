//! The interface of heads: models that make a score out of each node's embedding and its state's.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::BatchLayout;
use shardgraph_autodiff::{Ctx, Error, Var};

/// A head over its parameters.
pub trait Head: Any + fmt::Debug + Send + Sync {
    /// The scores of all own rows.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to sharded `[n_rows, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    fn scores(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error>;

    /// The score of one node of each state. `own_rows[state]` is its own row, or `u32::MAX` where
    /// another rank has it.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to replicated `[n_states, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error>;

    /// True if [`Head::node_values`] reads a node's own embedding alone, and sums nothing over the rows of a state. By default false.
    fn reads_nodes_alone(&self) -> bool {
        false
    }

    /// Numbers that rank the nodes of one state as their scores do; those of different states are
    /// not comparable. By default the scores.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to sharded `[n_rows, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    fn node_values(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        self.scores(ctx, embed, layout)
    }
}
