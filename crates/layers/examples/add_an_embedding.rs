//! An embedding and a head of one's own in one file: a graph convolutional network (GCN), and a
//! score that is linear in the embedding.
//!
//! `cargo run --release -p shardgraph-layers --example add_an_embedding` builds a policy of them,
//! scores the nodes of a graph on one rank and on three, and takes a gradient.
//! `docs/extending/adding-layers.md` goes through this file.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use shardgraph_graph::{Graph, builtin};
use shardgraph_layers::autodiff::collectives::{Comm, threads};
use shardgraph_layers::autodiff::device::Device;
use shardgraph_layers::autodiff::ops::Loss;
use shardgraph_layers::autodiff::{Ctx, Eager, Error, ParamId, Params, Shape, Var};
use shardgraph_layers::shard::{CsrShard, Partition};
use shardgraph_layers::{BatchLayout, Group, Propagation, RowShard, ShardedOps};
use shardgraph_layers::{
    Embedding, EmbeddingKind, Head, HeadKind, Parameter, Path, Policy, PolicyShape, StateBatch,
};

// 1. The embedding: parameters once, then operations on whatever rank has which rows.

/// `h_v = relu(W_l sum_u h_u / sqrt(d_v d_u))` over neighbours and the node itself, from a node's
/// membership and degree; `d` counts both.
///
/// # Source
/// Kipf and Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017,
/// equation 2.
#[derive(Debug)]
struct Gcn {
    width: usize,
    weights: Vec<ParamId>,
}

/// The entry by which settings and policy files name it.
const GCN: EmbeddingKind = EmbeddingKind {
    name: "gcn",
    parameters: |sizes| {
        let n_inputs = |l| if l == 0 { 2 } else { sizes.embed_dim };
        let layer = |l| Parameter::new(format!("gcn.{l}"), n_inputs(l), sizes.embed_dim);
        (0..sizes.n_layers).map(layer).collect()
    },
    build: |sizes, weights| {
        Arc::new(Gcn {
            width: sizes.embed_dim,
            weights: weights.to_vec(),
        })
    },
};

impl Embedding for Gcn {
    fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, _: Path) -> Result<Var, Error> {
        let missing = || Error::Usage("a GCN needs neighbour sums".to_string());
        let graphs = batch.propagation.as_ref().ok_or_else(missing)?;
        let n_rows = batch.layout.n_rows();
        let degrees: Vec<f32> = batch.edge.chunks_exact(2).map(|sums| sums[0]).collect();
        let inputs: Vec<f32> = batch
            .node
            .iter()
            .zip(&degrees)
            .flat_map(|(s, d)| [*s, *d])
            .collect();
        let mut embed = ctx.input(Shape::new(n_rows, 2), &inputs)?;
        let norm: Vec<f32> = degrees.iter().map(|d| 1.0 / (1.0 + d).sqrt()).collect();
        let norm = ctx.input(Shape::new(n_rows, 1), &norm)?;
        for (l, &weights) in self.weights.iter().enumerate() {
            let width = if l == 0 { 2 } else { self.width };
            // One number a row, in every column: a product with a row of ones.
            let ones = ctx.input(Shape::new(1, width), &vec![1.0; width])?;
            let norm = ctx.shard_matmul(norm, (ones, false), &batch.layout)?;
            let scaled = ctx.mul(embed, norm)?;
            let sums = ctx.propagate(scaled, graphs)?;
            let sums = ctx.add(sums, scaled)?;
            let sums = ctx.mul(sums, norm)?;
            let weights = ctx.param(weights)?;
            let sums = ctx.shard_matmul(sums, (weights, false), &batch.layout)?;
            embed = ctx.relu(sums)?;
        }
        Ok(embed)
    }
}

// 2. The head: scores of all own rows, and of one picked node a state.

/// `score_v = w^T h_v`.
#[derive(Debug)]
struct LinearHead {
    weights: ParamId,
}

const LINEAR: HeadKind = HeadKind {
    name: "linear",
    parameters: |sizes| vec![Parameter::new("linear", sizes.embed_dim, 1)],
    build: |_, ids| Arc::new(LinearHead { weights: ids[0] }),
};

impl Head for LinearHead {
    fn scores(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let weights = ctx.param(self.weights)?;
        ctx.shard_matmul(embed, (weights, false), layout)
    }

    /// One rank has the row, the others add zeros.
    fn scores_of(
        &self,
        ctx: &mut dyn Ctx,
        embed: Var,
        _: &Arc<BatchLayout>,
        own_rows: Arc<[u32]>,
    ) -> Result<Var, Error> {
        let picked = ctx.gather(embed, own_rows)?;
        let picked = ctx.all_reduce(picked)?;
        let weights = ctx.param(self.weights)?;
        ctx.matmul(picked, weights)
    }
}

// 3. That is all: it has gradients, and runs on any number of ranks.

/// One state of a graph, nothing picked, as one rank sees it.
fn state(graph: &Graph, comm: &Comm) -> Result<StateBatch, Error> {
    let partition = Partition::by_rows(graph.n_nodes(), comm.size());
    let own = partition.range(comm.rank());
    let group = Group {
        partition,
        n_states: 1,
    };
    let layout = Arc::new(BatchLayout::new(vec![group], comm.rank()));
    let shard = RowShard::Csr(Arc::new(CsrShard::by_rows(graph, own.clone())));
    let keep = vec![1.0; graph.n_nodes() as usize];
    let graphs = Propagation::new(Arc::clone(&layout), vec![shard], vec![keep], vec![1.0])?;
    let edge = |v| [graph.degree(v) as f32, 0.0];
    Ok(StateBatch {
        inputs: None,
        counted: None,
        node: vec![0.0; own.len()],
        edge: own.flat_map(edge).collect(),
        neighbor_degree: Vec::new(),
        layout,
        propagation: Some(Arc::new(graphs)),
    })
}

/// The scores of the own nodes, and the gradient of a loss on the score of node 0.
fn evaluate(graph: &Graph, comm: &mut Comm) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let mut params = Params::new();
    let mut angle = 0.0f32;
    let mut init = || {
        angle += 1.0;
        0.5 * angle.sin()
    };
    let shape = PolicyShape {
        embed_dim: 8,
        n_layers: 2,
        embedding: GCN,
        head: LINEAR,
        ..PolicyShape::default()
    };
    let Policy {
        embedding, head, ..
    } = Policy::build(&mut params, shape, &mut init)?;
    let batch = state(graph, comm)?;
    let device = Device::host();
    let mut ctx = Eager::new(&device, comm, &params);
    let path = embedding.best_path(false);
    let embed = embedding.embed(&mut ctx, &batch, path)?;
    let scores = head.scores(&mut ctx, embed, &batch.layout)?;
    let row = batch.layout.row(0, 0, 0).map_or(u32::MAX, |row| row as u32);
    let q = head.scores_of(&mut ctx, embed, &batch.layout, [row].into())?;
    let target = ctx.input(Shape::new(1, 1), &[1.0])?;
    let loss = ctx.loss(Loss::Mse, q, target)?;
    let gradient = ctx.param_gradient(loss)?;
    Ok((ctx.values(scores)?, gradient))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let karate = builtin::by_name("karate").ok_or("no such graph")?;
    let (scores, gradient) = evaluate(&karate, &mut Comm::solo())?;
    let mut on_three = Vec::new();
    for part in threads::run(3, |mut comm| evaluate(&karate, &mut comm)) {
        let (part, other) = part??;
        assert_eq!(other, gradient, "ranks change nothing");
        on_three.extend(part);
    }
    assert_eq!(on_three, scores, "ranks change nothing");
    let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    println!("best node {best:?}, {} derivatives", gradient.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    /// Two joined nodes by hand: `norm = 1 / sqrt 2`, so both of a row's halves are halves of the
    /// inputs' sum.
    #[test]
    fn a_layer_is_what_its_formula_says() {
        let pair = Graph::from_edges(2, &[(0, 1)]).unwrap();
        let mut comm = Comm::solo();
        let batch = state(&pair, &comm).unwrap();
        let mut params = Params::new();
        let mut values = [0.0, 0.0, 2.0, -3.0].into_iter();
        let shape = PolicyShape {
            embed_dim: 2,
            n_layers: 1,
            embedding: GCN,
            ..PolicyShape::default()
        };
        let mut init = || values.next().unwrap_or(0.0);
        let gcn = Policy::build(&mut params, shape, &mut init)
            .unwrap()
            .embedding;
        let device = Device::host();
        let mut ctx = Eager::new(&device, &mut comm, &params);
        let embed = gcn.embed(&mut ctx, &batch, Path::General).unwrap();
        for (got, want) in ctx.values(embed).unwrap().iter().zip([2.0, 0.0, 2.0, 0.0]) {
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
    }
}
