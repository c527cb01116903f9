//! The action-evaluation model: a score for each node of each state (equation 2, algorithm 3).

use std::sync::Arc;

use shardgraph_autodiff::{Axis, BatchLayout, Ctx, Error, ParamId, Params, Shape, Var};

/// `score_v = theta7^T relu([theta5 sum_u embed_u || theta6 embed_v])`.
///
/// relu acts on each half alone, so a score is one number of the state (from `theta5`) plus one of the node (from
/// `theta6`): the best node of a state does not depend on the first.
#[derive(Debug, Clone, Copy)]
pub struct QHead {
    embed_dim: usize,
    theta5: ParamId,
    theta6: ParamId,
    theta7: ParamId,
}

impl QHead {
    /// Adds the layer's parameters: `theta5, theta6 [K, K]`, `theta7 [2 K, 1]`.
    pub fn build(params: &mut Params, embed_dim: usize, init: &mut dyn FnMut() -> f32) -> Self {
        let k = embed_dim;
        Self {
            embed_dim,
            theta5: params.add("theta5", Shape::new(k, k), &mut *init),
            theta6: params.add("theta6", Shape::new(k, k), &mut *init),
            theta7: params.add("theta7", Shape::new(2 * k, 1), &mut *init),
        }
    }

    pub(crate) fn n_params(embed_dim: usize) -> usize {
        2 * embed_dim * embed_dim + 2 * embed_dim
    }

    pub(crate) fn theta6_and_7(&self) -> (ParamId, ParamId) {
        (self.theta6, self.theta7)
    }

    /// The state's part of its scores.
    ///
    /// # Shapes
    /// Sharded `embed [n_rows, K]` to replicated `[n_states, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    pub fn state_values(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let sums = ctx.state_sum(embed, layout)?;
        let theta5 = ctx.param(self.theta5)?;
        let hidden = ctx.matmul(sums, theta5)?;
        let hidden = ctx.relu(hidden)?;
        let half = self.half_of_theta7(ctx, 0)?;
        ctx.matmul(hidden, half)
    }

    /// The node's part of the scores of all own rows: enough to rank the nodes of one state.
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
        let theta6 = ctx.param(self.theta6)?;
        let hidden = ctx.shard_matmul(embed, (theta6, false), layout)?;
        let hidden = ctx.relu(hidden)?;
        let half = self.half_of_theta7(ctx, self.embed_dim)?;
        ctx.shard_matmul(hidden, (half, false), layout)
    }

    /// The full scores of all own rows.
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
        let nodes = self.node_values(ctx, embed, layout)?;
        let states = self.state_values(ctx, embed, layout)?;
        let states = ctx.state_broadcast(states, layout)?;
        ctx.add(nodes, states)
    }

    /// The full score of one node of each state.
    ///
    /// `own_rows[state]` is the picked node's own row, or `u32::MAX` where another rank has it.
    ///
    /// # Shapes
    /// Sharded `[n_rows, K]` to replicated `[n_states, 1]`.
    /// # Errors
    /// Where the shapes do not fit.
    /// # Complexity
    /// Communicates `n_states * K` numbers; all products are of that size.
    pub fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        let picked = ctx.gather(embed, own_rows)?;
        // One rank has the row, the others add zeros: exact in any order (relu leaves no negative zero).
        let picked = ctx.all_reduce(picked)?;
        let theta6 = ctx.param(self.theta6)?;
        let hidden = ctx.matmul(picked, theta6)?;
        let hidden = ctx.relu(hidden)?;
        let half = self.half_of_theta7(ctx, self.embed_dim)?;
        let nodes = ctx.matmul(hidden, half)?;
        let states = self.state_values(ctx, embed, layout)?;
        ctx.add(nodes, states)
    }

    fn half_of_theta7(&self, ctx: &mut dyn Ctx, start: usize) -> Result<Var, Error> {
        let theta7 = ctx.param(self.theta7)?;
        ctx.slice(theta7, Axis::Rows, start, self.embed_dim)
    }
}
