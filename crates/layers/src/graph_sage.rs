//! GraphSAGE: node embeddings by rounds of means over neighbours, with weights of their own in each round.

use shardgraph_autodiff::{Axis, Ctx, Error, ErrorKind, ParamId, Params, Shape, Var};

use crate::{Path, PolicyShape, StateBatch};

/// `h_v = relu(W_l h_v + M_l mean_u h_u)`, L times from `h_v = relu(W_in [x_v || sums of v's edge weights])`.
///
/// The mean is over residual neighbours, weighted by the edges: `sum_u w_vu h_u / sum_u |w_vu|`, 0 without neighbours. A mean forgets how
/// many neighbours there are, so the sums of the positive and of the negative weights (without weights: the degree) are inputs.
///
/// # Source
/// Hamilton, Ying and Leskovec, Inductive representation learning on large graphs, NeurIPS 2017, algorithm 1 with the mean aggregator;
/// neighbours are not sampled and embeddings are not normalised.
#[derive(Debug, Clone)]
pub struct GraphSage {
    shape: PolicyShape,
    input: ParamId,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, Copy)]
struct Layer {
    own: ParamId,
    mean: ParamId,
}

impl GraphSage {
    /// Adds the parameters: `sage.input [3 + features, K]`, and `sage.own.l`, `sage.mean.l [K, K]` for each layer.
    pub fn build(params: &mut Params, shape: PolicyShape, init: &mut dyn FnMut() -> f32) -> Self {
        let k = shape.embed_dim;
        let input = params.add("sage.input", Shape::new(n_inputs(shape), k), &mut *init);
        let layer = |l: usize| Layer {
            own: params.add(&format!("sage.own.{l}"), Shape::new(k, k), &mut *init),
            mean: params.add(&format!("sage.mean.{l}"), Shape::new(k, k), &mut *init),
        };
        Self {
            shape,
            input,
            layers: (0..shape.n_layers).map(layer).collect(),
        }
    }

    pub(crate) fn n_params(shape: PolicyShape) -> usize {
        let k = shape.embed_dim;
        n_inputs(shape) * k + 2 * shape.n_layers * k * k
    }

    /// As [`crate::Embedding::embed`]; the one path is the general one.
    pub(crate) fn embed(
        &self,
        ctx: &mut dyn Ctx,
        batch: &StateBatch,
        path: Path,
    ) -> Result<Var, Error> {
        let refused = |text: &str| Err(Error::from(ErrorKind::Usage(text.to_string())));
        if path != Path::General {
            return refused("GraphSAGE has the general path alone");
        }
        let Some(graphs) = &batch.propagation else {
            return refused("this embedding needs neighbour sums: give the batch its propagation");
        };
        let n_rows = batch.layout.n_rows();
        let node = Shape::new(n_rows, 1 + self.shape.n_node_features);
        let node = ctx.input(node, &batch.node)?;
        let edge = ctx.input(Shape::new(n_rows, 2), &batch.edge)?;
        let inputs = ctx.concat(node, edge, Axis::Cols)?;
        let weights = ctx.param(self.input)?;
        let embed = ctx.shard_matmul(inputs, (weights, false), &batch.layout)?;
        let mut embed = ctx.relu(embed)?;
        let shares = self.shares(ctx, batch)?;
        for layer in &self.layers {
            let sums = ctx.propagate(embed, graphs)?;
            let mean = ctx.mul(sums, shares)?;
            let (own, of_mean) = (ctx.param(layer.own)?, ctx.param(layer.mean)?);
            let own = ctx.shard_matmul(embed, (own, false), &batch.layout)?;
            let mean = ctx.shard_matmul(mean, (of_mean, false), &batch.layout)?;
            let both = ctx.add(own, mean)?;
            embed = ctx.relu(both)?;
        }
        Ok(embed)
    }

    /// `[n_rows, K]`: what makes a row's sum a mean, in every column.
    fn shares(&self, ctx: &mut dyn Ctx, batch: &StateBatch) -> Result<Var, Error> {
        let share = |sums: &[f32]| match sums[0] + sums[1] {
            total if total > 0.0 => 1.0 / total,
            _ => 0.0,
        };
        let shares: Vec<f32> = batch.edge.chunks_exact(2).map(share).collect();
        let column = ctx.input(Shape::new(batch.layout.n_rows(), 1), &shares)?;
        let k = self.shape.embed_dim;
        let ones = ctx.input(Shape::new(1, k), &vec![1.0; k])?;
        ctx.shard_matmul(column, (ones, false), &batch.layout)
    }
}

/// Membership, features, and the two sums of edge weights.
fn n_inputs(shape: PolicyShape) -> usize {
    3 + shape.n_node_features
}
