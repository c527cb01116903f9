//! A head with one hidden layer over a node's embedding and the mean of its state's.

use std::sync::Arc;

use shardgraph_autodiff::{BatchLayout, Ctx, Error, ParamId, Params, Shape, Var};

/// `score_v = out^T relu(W embed_v + M mean_u embed_u + b)`, the mean over all nodes of the graph.
///
/// What the state adds passes the relu together with the node's part, so that, unlike with [`crate::QHead`], which node is best
/// depends on the state.
#[derive(Debug, Clone, Copy)]
pub struct MlpHead {
    embed_dim: usize,
    node: ParamId,
    mean: ParamId,
    bias: ParamId,
    out: ParamId,
}

impl MlpHead {
    /// Adds the parameters: `mlp.node, mlp.mean [K, K]`, `mlp.bias [1, K]`, `mlp.out [K, 1]`.
    pub fn build(params: &mut Params, embed_dim: usize, init: &mut dyn FnMut() -> f32) -> Self {
        let k = embed_dim;
        Self {
            embed_dim,
            node: params.add("mlp.node", Shape::new(k, k), &mut *init),
            mean: params.add("mlp.mean", Shape::new(k, k), &mut *init),
            bias: params.add("mlp.bias", Shape::new(1, k), &mut *init),
            out: params.add("mlp.out", Shape::new(k, 1), &mut *init),
        }
    }

    pub(crate) fn n_params(embed_dim: usize) -> usize {
        2 * embed_dim * embed_dim + 2 * embed_dim
    }

    /// The hidden layer's part that is the state's: replicated `[n_states, K]`.
    fn of_state(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let sums = ctx.state_sum(embed, layout)?;
        let mut shares = Vec::with_capacity(layout.n_states() * self.embed_dim);
        for group in layout.groups() {
            let share = 1.0 / group.partition.n_rows().max(1) as f32;
            shares.extend(std::iter::repeat_n(share, group.n_states * self.embed_dim));
        }
        let shares = ctx.input(Shape::new(layout.n_states(), self.embed_dim), &shares)?;
        let mean = ctx.mul(sums, shares)?;
        let (weights, bias) = (ctx.param(self.mean)?, ctx.param(self.bias)?);
        let hidden = ctx.matmul(mean, weights)?;
        ctx.add_row(hidden, bias)
    }

    /// As [`crate::Head::scores`].
    pub(crate) fn scores(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let of_state = self.of_state(ctx, embed, layout)?;
        let of_state = ctx.state_broadcast(of_state, layout)?;
        let (node, out) = (ctx.param(self.node)?, ctx.param(self.out)?);
        let hidden = ctx.shard_matmul(embed, (node, false), layout)?;
        let hidden = ctx.add(hidden, of_state)?;
        let hidden = ctx.relu(hidden)?;
        ctx.shard_matmul(hidden, (out, false), layout)
    }

    /// As [`crate::Head::scores_of`].
    pub(crate) fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        let picked = ctx.gather(embed, own_rows)?;
        // One rank has the row, the others add zeros: exact in any order (embeddings have no negative zero).
        let picked = ctx.all_reduce(picked)?;
        let of_state = self.of_state(ctx, embed, layout)?;
        let (node, out) = (ctx.param(self.node)?, ctx.param(self.out)?);
        let hidden = ctx.matmul(picked, node)?;
        let hidden = ctx.add(hidden, of_state)?;
        let hidden = ctx.relu(hidden)?;
        ctx.matmul(hidden, out)
    }
}
