//! The action-evaluation model: a score for each node of each state (equation 2, algorithm 3).

use std::sync::Arc;

use crate::{BatchLayout, ShardedOps};
use shardgraph_autodiff::{Axis, Ctx, Error, ParamId, Var};

use crate::Head;
use crate::kind::{HeadKind, Parameter};

/// `score_v = theta7^T relu([theta5 sum_u embed_u || theta6 embed_v])`.
///
/// relu acts on each half alone, so a score is one number of the state (from `theta5`) plus one of
/// the node (from `theta6`): the best node of a state does not depend on the first.
#[derive(Debug, Clone, Copy)]
pub struct QHead {
    embed_dim: usize,
    theta5: ParamId,
    theta6: ParamId,
    theta7: ParamId,
}

impl QHead {
    /// The name `q`, and `theta5, theta6 [K, K]`, `theta7 [2 K, 1]`.
    pub(crate) const KIND: HeadKind = HeadKind {
        name: "q",
        parameters: |sizes| {
            let k = sizes.embed_dim;
            vec![
                Parameter::new("theta5", k, k),
                Parameter::new("theta6", k, k),
                Parameter::new("theta7", 2 * k, 1),
            ]
        },
        build: |sizes, ids| {
            Arc::new(QHead {
                embed_dim: sizes.embed_dim,
                theta5: ids[0],
                theta6: ids[1],
                theta7: ids[2],
            })
        },
    };

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

    fn half_of_theta7(&self, ctx: &mut dyn Ctx, start: usize) -> Result<Var, Error> {
        let theta7 = ctx.param(self.theta7)?;
        ctx.slice(theta7, Axis::Rows, start, self.embed_dim)
    }
}

impl Head for QHead {
    fn scores(
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

    /// # Complexity
    /// Communicates `n_states * K` numbers; all products are of that size.
    fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        let picked = ctx.gather(embed, own_rows)?;
        // One rank has the row, the others add zeros: exact in any order (relu leaves no negative
        // zero).
        let picked = ctx.all_reduce(picked)?;
        let theta6 = ctx.param(self.theta6)?;
        let hidden = ctx.matmul(picked, theta6)?;
        let hidden = ctx.relu(hidden)?;
        let half = self.half_of_theta7(ctx, self.embed_dim)?;
        let nodes = ctx.matmul(hidden, half)?;
        let states = self.state_values(ctx, embed, layout)?;
        ctx.add(nodes, states)
    }

    fn reads_nodes_alone(&self) -> bool {
        true
    }

    /// The node's part of the scores alone: enough to rank the nodes of one state.
    fn node_values(
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
}
