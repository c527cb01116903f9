//! structure2vec: node embeddings by L rounds of neighbour sums (equation 1, algorithm 2).

use std::sync::Arc;

use crate::ShardedOps;
use shardgraph_autodiff::{Axis, Ctx, Error, ParamId, Var};

use crate::kind::{EmbeddingKind, Parameter, usage};
use crate::{Embedding, Path, Sizes, StateBatch};

/// `embed_v = relu(theta1 x_v + theta4 sum_u w_vu embed_u + theta3 sum_u relu(theta2 w_vu))`, L
/// times from zero.
///
/// Rows are nodes, so `theta1 [1 + features, K]` and `theta3, theta4 [K, K]` stand on the right of
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Structure2Vec {
    sizes: Sizes,
    theta1: ParamId,
    theta2: ParamId,
    theta3: ParamId,
    theta4: ParamId,
}

/// Terms that are the same in each layer.
struct EdgeWeights {
    /// `[2, K]`: what one unit of positive and of negative weight adds.
    rows: Var,
    /// `[1, K]`: its first row.
    positive: Var,
}

impl Structure2Vec {
    /// The name `s2v`, and `theta1` to `theta4`.
    pub(crate) const KIND: EmbeddingKind = EmbeddingKind {
        name: "s2v",
        parameters: |sizes| {
            let k = sizes.embed_dim;
            vec![
                Parameter::new("theta1", 1 + sizes.n_node_features, k),
                Parameter::new("theta2", 1, k),
                Parameter::new("theta3", k, k),
                Parameter::new("theta4", k, k),
            ]
        },
        build: |sizes, ids| {
            Arc::new(Structure2Vec {
                sizes,
                theta1: ids[0],
                theta2: ids[1],
                theta3: ids[2],
                theta4: ids[3],
            })
        },
    };

    pub(crate) fn theta1(&self) -> ParamId {
        self.theta1
    }

    pub(crate) fn theta2_to_4(&self) -> (ParamId, ParamId, ParamId) {
        (self.theta2, self.theta3, self.theta4)
    }

    /// `theta1 x_v + theta3 sum_u relu(theta2 w_vu)`, which no layer changes (algorithm 2, lines 5
    /// to 8).
    fn base(&self, ctx: &mut dyn Ctx, batch: &StateBatch) -> Result<Var, Error> {
        let node = batch.node_input(ctx, self.sizes.n_node_features)?;
        let edge = batch.edge_input(ctx)?;
        let theta1 = ctx.param(self.theta1)?;
        let edge_weights = self.edge_weights(ctx)?;
        let features = ctx.concat(node, edge, Axis::Cols)?;
        let weights = ctx.concat(theta1, edge_weights.rows, Axis::Rows)?;
        ctx.shard_matmul(features, (weights, false), &batch.layout)
    }

    /// `relu(theta2 w)` is `w relu(theta2)` for a positive and `-w relu(-theta2)` for a negative
    /// weight, so the edge term is a combination of two rows: the sums of positive and of negative
    /// weights carry all of it.
    fn edge_weights(&self, ctx: &mut dyn Ctx) -> Result<EdgeWeights, Error> {
        let theta2 = ctx.param(self.theta2)?;
        let theta3 = ctx.param(self.theta3)?;
        let negated = ctx.scale(theta2, -1.0)?;
        let (up, down) = (ctx.relu(theta2)?, ctx.relu(negated)?);
        let (positive, negative) = (ctx.matmul(up, theta3)?, ctx.matmul(down, theta3)?);
        Ok(EdgeWeights {
            rows: ctx.concat(positive, negative, Axis::Rows)?,
            positive,
        })
    }

    /// `n_layers` more rounds of neighbour sums (algorithm 2, lines 9 to 15).
    fn layers(
        &self,
        ctx: &mut dyn Ctx,
        batch: &StateBatch,
        base: Var,
        first: Var,
        n_layers: usize,
    ) -> Result<Var, Error> {
        let mut embed = first;
        if n_layers == 0 {
            return Ok(embed);
        }
        let graphs = batch.propagation.as_ref().ok_or_else(|| {
            usage("this embedding needs neighbour sums: give the batch its propagation")
        })?;
        let theta4 = ctx.param(self.theta4)?;
        for _ in 0..n_layers {
            let sums = ctx.propagate(embed, graphs)?;
            let sums = ctx.shard_matmul(sums, (theta4, false), &batch.layout)?;
            let sums = ctx.add(base, sums)?;
            embed = ctx.relu(sums)?;
        }
        Ok(embed)
    }

    /// Layers 1 and 2 from degrees and neighbour degrees, the others as usual.
    ///
    /// With unit weights, a residual node's first embedding is `deg_v relu(c)`, `c` the positive
    /// edge row, so its neighbours' sum is `d2_v relu(c)` with `d2_v` the neighbours' degree sum:
    /// three numbers a node and three rows of weights give `embed_2`.
    fn embed_collapsed(&self, ctx: &mut dyn Ctx, batch: &StateBatch) -> Result<Var, Error> {
        if self.sizes.n_node_features > 0 {
            let text = "the collapsed path knows no node features: use free-first-layer";
            return Err(usage(text));
        }
        let base = self.base(ctx, batch)?;
        if self.sizes.n_layers == 1 {
            return ctx.relu(base);
        }
        let neighbor_degree = batch.neighbor_degree_input(ctx)?;
        let theta4 = ctx.param(self.theta4)?;
        let positive = self.edge_weights(ctx)?.positive;
        let unit = ctx.relu(positive)?;
        let weights = ctx.matmul(unit, theta4)?;
        let second = ctx.shard_matmul(neighbor_degree, (weights, false), &batch.layout)?;
        let second = ctx.add(base, second)?;
        let second = ctx.relu(second)?;
        self.layers(ctx, batch, base, second, self.sizes.n_layers - 2)
    }
}

impl Embedding for Structure2Vec {
    fn best_path(&self, weighted: bool) -> Path {
        match weighted || self.sizes.n_node_features > 0 {
            true => Path::FreeFirstLayer,
            false => Path::Collapsed,
        }
    }

    fn takes_inputs(&self) -> bool {
        true
    }

    fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, path: Path) -> Result<Var, Error> {
        match path {
            Path::General => {
                let base = self.base(ctx, batch)?;
                let shape = ctx.shape(base);
                let zero = ctx.input(shape, &vec![0.0; shape.len()])?;
                self.layers(ctx, batch, base, zero, self.sizes.n_layers)
            }
            Path::FreeFirstLayer => {
                let base = self.base(ctx, batch)?;
                let first = ctx.relu(base)?;
                self.layers(ctx, batch, base, first, self.sizes.n_layers - 1)
            }
            Path::Collapsed => self.embed_collapsed(ctx, batch),
        }
    }
}
