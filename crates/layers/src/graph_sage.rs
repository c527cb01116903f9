//! GraphSAGE: node embeddings by rounds of means over neighbours, with weights of their own in each
//! round.

use std::sync::Arc;

use crate::ShardedOps;
use shardgraph_autodiff::{Axis, Ctx, Error, ParamId, Shape, Var};

use crate::kind::{EmbeddingKind, Parameter, usage};
use crate::{BatchLayout, Embedding, Path, Sizes, StateBatch};

/// `h_v = relu(W_l h_v + M_l mean_u h_u)`, L times from `h_v = relu(W_in [x_v || sums of v's edge
/// weights])`.
///
/// The mean is over residual neighbours, weighted by the edges: `sum_u w_vu h_u / sum_u |w_vu|`, 0
/// without neighbours. A mean forgets how many neighbours there are, so the sums of the positive
/// and of the negative weights (without weights: the degree) are inputs.
///
/// # Source
/// Hamilton, Ying and Leskovec, Inductive representation learning on large graphs, NeurIPS 2017,
/// algorithm 1 with the mean aggregator; neighbours are not sampled and embeddings are not
/// normalised.
#[derive(Debug, Clone)]
pub struct GraphSage {
    sizes: Sizes,
    input: ParamId,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, Copy)]
struct Layer {
    own: ParamId,
    mean: ParamId,
}

impl GraphSage {
    /// The name `sage`, and `sage.input [3 + features, K]`, and `sage.own.l`, `sage.mean.l [K, K]`
    /// for each layer.
    pub(crate) const KIND: EmbeddingKind = EmbeddingKind {
        name: "sage",
        parameters: |sizes| {
            let k = sizes.embed_dim;
            let layer =
                |l| ["own", "mean"].map(|part| Parameter::new(format!("sage.{part}.{l}"), k, k));
            let input = Parameter::new("sage.input", n_inputs(sizes), k);
            let layers = (0..sizes.n_layers).flat_map(layer);
            std::iter::once(input).chain(layers).collect()
        },
        build: |sizes, ids| {
            let layer = |&[own, mean]: &[ParamId; 2]| Layer { own, mean };
            Arc::new(GraphSage {
                sizes,
                input: ids[0],
                layers: ids[1..].as_chunks::<2>().0.iter().map(layer).collect(),
            })
        },
    };

    /// `[n_rows, K]`: 1 / the sum of a row's weights, which makes a sum a mean, in every column.
    ///
    /// A row without weights has a sum of neighbours that is zero, whatever it is multiplied with: the least total keeps
    /// that factor a number.
    fn shares(
        &self,
        ctx: &mut dyn Ctx,
        edge: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let totals = ctx.row_sums(edge)?;
        let totals = ctx.clamp(totals, LEAST_TOTAL, f32::MAX)?;
        let n_rows = layout.n_rows();
        let ones = ctx.input(Shape::new(n_rows, 1), &vec![1.0; n_rows])?;
        let shares = ctx.div(ones, totals)?;
        let k = self.sizes.embed_dim;
        let ones = ctx.input(Shape::new(1, k), &vec![1.0; k])?;
        ctx.shard_matmul(shares, (ones, false), layout)
    }
}

/// The least sum of a row's weights that is told from none.
const LEAST_TOTAL: f32 = 1e-30;

impl Embedding for GraphSage {
    fn takes_inputs(&self) -> bool {
        true
    }

    fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, path: Path) -> Result<Var, Error> {
        let refused = |text: &str| Err(usage(text));
        if path != Path::General {
            return refused("GraphSAGE has the general path alone");
        }
        let Some(graphs) = &batch.propagation else {
            return refused("this embedding needs neighbour sums: give the batch its propagation");
        };
        let node = batch.node_input(ctx, self.sizes.n_node_features)?;
        let edge = batch.edge_input(ctx)?;
        let inputs = ctx.concat(node, edge, Axis::Cols)?;
        let weights = ctx.param(self.input)?;
        let embed = ctx.shard_matmul(inputs, (weights, false), &batch.layout)?;
        let mut embed = ctx.relu(embed)?;
        let shares = self.shares(ctx, edge, &batch.layout)?;
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
}

/// Membership, features, and the two sums of edge weights.
fn n_inputs(sizes: Sizes) -> usize {
    3 + sizes.n_node_features
}
