//! The sharded operations in f64, on one rank, in the plainest loops.

use shardgraph_autodiff::testing::{Matrix, Naive, fill};
use shardgraph_autodiff::{Operation, Params, Shape};

use crate::{Propagate, Propagation, RowShard, ShardMatMul, ShardOuter, StateBroadcast, StateSum};

/// An interpreter in f64 that knows the sharded operations.
pub(crate) fn naive(params: &Params) -> Naive {
    Naive::with_reference(params, reference)
}

fn reference(operation: &dyn Operation, operands: &[Matrix<'_>], shape: Shape) -> Option<Vec<f64>> {
    let operation: &dyn std::any::Any = operation;
    if let Some(ShardMatMul { transpose_w, .. }) = operation.downcast_ref() {
        let (x, w) = (operands[0], operands[1]);
        let factor = |k, j| match transpose_w {
            true => w.at(j, k),
            false => w.at(k, j),
        };
        let element = |i, j| (0..x.shape.cols).map(|k| x.at(i, k) * factor(k, j)).sum();
        return Some(fill(shape, element));
    }
    if let Some(ShardOuter { .. }) = operation.downcast_ref() {
        let (x, y) = (operands[0], operands[1]);
        let element = |i, j| (0..x.shape.rows).map(|r| x.at(r, i) * y.at(r, j)).sum();
        return Some(fill(shape, element));
    }
    if let Some(StateSum { layout }) = operation.downcast_ref() {
        return Some(fill(shape, |state, j| {
            let rows = (0..layout.n_rows()).filter(|&r| layout.states()[r] as usize == state);
            rows.map(|r| operands[0].at(r, j)).sum()
        }));
    }
    if let Some(StateBroadcast { layout }) = operation.downcast_ref() {
        let state = |i: usize| layout.states()[i] as usize;
        return Some(fill(shape, |i, j| operands[0].at(state(i), j)));
    }
    let Propagate { graphs } = operation.downcast_ref()?;
    Some(propagate(operands[0], graphs, shape))
}

fn propagate(x: Matrix<'_>, graphs: &Propagation, shape: Shape) -> Vec<f64> {
    let layout = graphs.layout();
    let mut out = vec![0.0; shape.len()];
    for (g, group) in layout.groups().iter().enumerate() {
        let (n, n_states) = (group.partition.n_rows(), group.n_states);
        for v in 0..n {
            for u in 0..n {
                let weight = f64::from(entry(&graphs.shards()[g], v, u));
                for b in 0..n_states {
                    let keep =
                        |node: u32| f64::from(graphs.keep()[g][node as usize * n_states + b]);
                    let scale = f64::from(graphs.scale()[layout.group_states(g).start + b]);
                    let factor = weight * keep(v) * keep(u) * scale;
                    let (to, from) = (layout.row(g, v, b).unwrap(), layout.row(g, u, b).unwrap());
                    for j in 0..shape.cols {
                        out[to * shape.cols + j] += factor * x.at(from, j);
                    }
                }
            }
        }
    }
    out
}

fn entry(shard: &RowShard, v: u32, u: u32) -> f32 {
    match shard {
        RowShard::Csr(shard) => {
            let position = shard.row(v).iter().position(|&w| w == u);
            let weight = |i: usize| shard.row_values(v).map_or(1.0, |values| values[i]);
            position.map_or(0.0, weight)
        }
        RowShard::Bits(shard) => f32::from(shard.contains(u, v)),
        RowShard::Block(_) | RowShard::Resident(_) => {
            unreachable!("the reference reads whole rows on the host")
        }
    }
}
