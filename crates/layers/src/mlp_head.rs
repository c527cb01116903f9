//! A head with one hidden layer over a node's embedding and the mean of its state's.

use std::sync::Arc;

use crate::{BatchLayout, ShardedOps};
use shardgraph_autodiff::{Ctx, Error, ParamId, Shape, Var};

use crate::Head;
use crate::kind::{HeadKind, Parameter};

/// `score_v = out^T relu(W embed_v + M mean_u embed_u + b)`, the mean over all nodes of the graph.
///
/// The state's part passes the relu together with the node's part, so that, unlike with
/// [`crate::QHead`], the best node depends on the state.
#[derive(Debug, Clone, Copy)]
pub struct MlpHead {
    embed_dim: usize,
    node: ParamId,
    mean: ParamId,
    bias: ParamId,
    out: ParamId,
}

impl MlpHead {
    /// The name `mlp`, and `mlp.node, mlp.mean [K, K]`, `mlp.bias [1, K]`, `mlp.out [K, 1]`.
    pub(crate) const KIND: HeadKind = HeadKind {
        name: "mlp",
        parameters: |sizes| {
            let k = sizes.embed_dim;
            vec![
                Parameter::new("mlp.node", k, k),
                Parameter::new("mlp.mean", k, k),
                Parameter::new("mlp.bias", 1, k),
                Parameter::new("mlp.out", k, 1),
            ]
        },
        build: |sizes, ids| {
            Arc::new(MlpHead {
                embed_dim: sizes.embed_dim,
                node: ids[0],
                mean: ids[1],
                bias: ids[2],
                out: ids[3],
            })
        },
    };

    /// The state's part of the hidden layer: replicated `[n_states, K]`.
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
}

impl Head for MlpHead {
    fn scores(
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

    fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        let picked = ctx.gather(embed, own_rows)?;
        // One rank has the row, the others add zeros: exact in any order (embeddings have no
        // negative zero).
        let picked = ctx.all_reduce(picked)?;
        let of_state = self.of_state(ctx, embed, layout)?;
        let (node, out) = (ctx.param(self.node)?, ctx.param(self.out)?);
        let hidden = ctx.matmul(picked, node)?;
        let hidden = ctx.add(hidden, of_state)?;
        let hidden = ctx.relu(hidden)?;
        ctx.matmul(hidden, out)
    }
}
