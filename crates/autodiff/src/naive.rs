//! The reference interpreter: every operation in f64, one rank, the plainest loops.

use shardgraph_device::{Binary, Loss, Unary};

use crate::shape_rules::{World, infer};
use crate::{Axis, Ctx, Error, Op, Params, Propagation, RowShard, Shape, Var};

pub(crate) struct Naive {
    /// Parameter values in f64, so that finite differences see steps that f32 would swallow.
    pub(crate) flat: Vec<f64>,
    params: Params,
    nodes: Vec<(Op, Shape, Vec<f64>)>,
}

impl Naive {
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            flat: params.flat().iter().map(|&x| f64::from(x)).collect(),
            params: params.clone(),
            nodes: Vec::new(),
        }
    }

    pub(crate) fn values(&self, var: Var) -> &[f64] {
        &self.nodes[var.index()].2
    }

    fn at(&self, var: Var, row: usize, col: usize) -> f64 {
        let (_, shape, values) = &self.nodes[var.index()];
        values[row * shape.cols + col]
    }

    fn fill(&self, shape: Shape, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..shape.len())
            .map(|i| f(i / shape.cols, i % shape.cols))
            .collect()
    }

    fn compute(&self, op: &Op, shape: Shape) -> Vec<f64> {
        let get = |var: &Var, transpose: bool, i: usize, j: usize| {
            if transpose {
                self.at(*var, j, i)
            } else {
                self.at(*var, i, j)
            }
        };
        match op {
            Op::Input(leaf) => {
                let values = leaf.values.as_host().unwrap();
                values.iter().map(|&x| f64::from(x)).collect()
            }
            Op::Param(id) => self.param_values(*id),
            Op::MatMul {
                a,
                b,
                transpose_a,
                transpose_b,
            } => {
                let a_shape = self.shape(*a);
                let inner = if *transpose_a {
                    a_shape.rows
                } else {
                    a_shape.cols
                };
                self.fill(shape, |i, j| {
                    (0..inner)
                        .map(|k| get(a, *transpose_a, i, k) * get(b, *transpose_b, k, j))
                        .sum()
                })
            }
            Op::ShardMatMul {
                x, w, transpose_w, ..
            } => self.fill(shape, |i, j| {
                (0..self.shape(*x).cols)
                    .map(|k| self.at(*x, i, k) * get(w, *transpose_w, k, j))
                    .sum()
            }),
            Op::ShardOuter { x, y, .. } => self.fill(shape, |i, j| {
                (0..self.shape(*x).rows)
                    .map(|r| self.at(*x, r, i) * self.at(*y, r, j))
                    .sum()
            }),
            Op::Binary { op, a, b } => self.fill(shape, |i, j| {
                binary(*op, self.at(*a, i, j), self.at(*b, i, j))
            }),
            Op::Scale { x, factor } => {
                self.fill(shape, |i, j| f64::from(*factor) * self.at(*x, i, j))
            }
            Op::Relu { x } => self.fill(shape, |i, j| self.at(*x, i, j).max(0.0)),
            Op::Detach { x }
            | Op::AllReduce { x }
            | Op::Enter { x }
            | Op::AllGather { x, .. }
            | Op::ReduceScatter { x, .. } => self.values(*x).to_vec(),
            _ => self.compute_rows(op, shape),
        }
    }

    fn param_values(&self, id: crate::ParamId) -> Vec<f64> {
        let before = self.params.ids().take_while(|&other| other != id);
        let first: usize = before.map(|other| self.params.shape(other).len()).sum();
        self.flat[first..first + self.params.shape(id).len()].to_vec()
    }

    fn compute_rows(&self, op: &Op, shape: Shape) -> Vec<f64> {
        let inside = |i: usize, start: usize, len: usize| i >= start && i < start + len;
        match op {
            Op::Concat { a, b, axis } => {
                let a_shape = self.shape(*a);
                self.fill(shape, |i, j| match axis {
                    Axis::Rows if i < a_shape.rows => self.at(*a, i, j),
                    Axis::Rows => self.at(*b, i - a_shape.rows, j),
                    Axis::Cols if j < a_shape.cols => self.at(*a, i, j),
                    Axis::Cols => self.at(*b, i, j - a_shape.cols),
                })
            }
            Op::Slice { x, axis, start, .. } => self.fill(shape, |i, j| match axis {
                Axis::Rows => self.at(*x, i + start, j),
                Axis::Cols => self.at(*x, i, j + start),
            }),
            Op::Pad { x, axis, start, .. } => {
                let inner = self.shape(*x);
                self.fill(shape, |i, j| match axis {
                    Axis::Rows if inside(i, *start, inner.rows) => self.at(*x, i - start, j),
                    Axis::Cols if inside(j, *start, inner.cols) => self.at(*x, i, j - start),
                    _ => 0.0,
                })
            }
            Op::Gather { x, index } => self.fill(shape, |i, j| match index[i] {
                u32::MAX => 0.0,
                row => self.at(*x, row as usize, j),
            }),
            Op::Scatter { x, index, .. } => self.fill(shape, |i, j| {
                let hits = |&r: &usize| index[r] == i as u32;
                (0..index.len())
                    .filter(hits)
                    .map(|r| self.at(*x, r, j))
                    .sum()
            }),
            Op::SumRows { x } => self.fill(shape, |_, j| {
                (0..self.shape(*x).rows).map(|i| self.at(*x, i, j)).sum()
            }),
            Op::RepeatRow { x, .. } => self.fill(shape, |_, j| self.at(*x, 0, j)),
            Op::StateSum { x, layout } => self.fill(shape, |state, j| {
                let of_state = |&r: &usize| layout.states()[r] as usize == state;
                (0..layout.n_rows())
                    .filter(of_state)
                    .map(|r| self.at(*x, r, j))
                    .sum()
            }),
            Op::StateBroadcast { x, layout } => {
                self.fill(shape, |i, j| self.at(*x, layout.states()[i] as usize, j))
            }
            Op::Propagate { x, graphs } => self.propagate(*x, graphs, shape),
            Op::Loss { loss, pred, target } => {
                let errors = self.errors(*pred, *target);
                let n = errors.len().max(1) as f64;
                vec![errors.iter().map(|&e| value(*loss, e)).sum::<f64>() / n]
            }
            Op::LossGrad {
                loss,
                pred,
                target,
                upstream,
            } => {
                let errors = self.errors(*pred, *target);
                let factor = self.at(*upstream, 0, 0) / errors.len().max(1) as f64;
                errors.iter().map(|&e| factor * slope(*loss, e)).collect()
            }
            _ => self.compute_layer(op, shape),
        }
    }

    fn compute_layer(&self, op: &Op, shape: Shape) -> Vec<f64> {
        match op {
            Op::Unary { op, x } => self.fill(shape, |i, j| unary(*op, self.at(*x, i, j))),
            Op::Linear { x, w, b, relu } => self.fill(shape, |i, j| {
                let term = |k: usize| self.at(*x, i, k) * self.at(*w, k, j);
                let terms = (0..self.shape(*x).cols).map(term);
                let z = terms.sum::<f64>() + self.at(*b, 0, j);
                if *relu { z.max(0.0) } else { z }
            }),
            Op::LogSoftmax { x } => self.fill(shape, |i, j| {
                let row = |k: usize| self.at(*x, i, k);
                let largest = (0..shape.cols).map(row).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = (0..shape.cols).map(|k| (row(k) - largest).exp()).sum();
                row(j) - largest - sum.ln()
            }),
            Op::ArgmaxRows { x } => self.fill(shape, |i, j| {
                let row = |k: usize| self.at(*x, i, k);
                let is_beaten = (0..j).any(|k| row(k) >= row(j));
                f64::from(u8::from(
                    !is_beaten && (j..shape.cols).all(|k| row(k) <= row(j)),
                ))
            }),
            other => unreachable!("{}", other.name()),
        }
    }

    fn errors(&self, pred: Var, target: Var) -> Vec<f64> {
        let pairs = self.values(pred).iter().zip(self.values(target));
        pairs.map(|(p, t)| p - t).collect()
    }

    fn propagate(&self, x: Var, graphs: &Propagation, shape: Shape) -> Vec<f64> {
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
                        let (to, from) =
                            (layout.row(g, v, b).unwrap(), layout.row(g, u, b).unwrap());
                        for j in 0..shape.cols {
                            out[to * shape.cols + j] += factor * self.at(x, from, j);
                        }
                    }
                }
            }
        }
        out
    }
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

fn value(loss: Loss, e: f64) -> f64 {
    match loss {
        Loss::Mse => e * e,
        Loss::Huber { delta } if e.abs() <= f64::from(delta) => 0.5 * e * e,
        Loss::Huber { delta } => f64::from(delta) * (e.abs() - 0.5 * f64::from(delta)),
    }
}

fn binary(op: Binary, a: f64, b: f64) -> f64 {
    let is_kept = match op {
        Binary::Add => return a + b,
        Binary::Sub => return a - b,
        Binary::Mul => return a * b,
        Binary::Div => return a / b,
        Binary::WherePositive => b > 0.0,
        Binary::WhereInside { low, high } => f64::from(low) <= b && b <= f64::from(high),
    };
    if is_kept { a } else { 0.0 }
}

fn unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Clamp { low, high } => x.clamp(f64::from(low), f64::from(high)),
    }
}

fn slope(loss: Loss, e: f64) -> f64 {
    match loss {
        Loss::Mse => 2.0 * e,
        Loss::Huber { delta } => e.clamp(-f64::from(delta), f64::from(delta)),
    }
}

impl Ctx for Naive {
    fn apply(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Param(id) = op {
            let is_it = |node: &(Op, Shape, Vec<f64>)| matches!(node.0, Op::Param(p) if p == id);
            if let Some(i) = self.nodes.iter().position(is_it) {
                return Ok(Var(i as u32));
            }
        }
        let params = &self.params;
        let world = World { rank: 0, size: 1 };
        let shape = infer(&op, |var| self.shape(var), |id| params.shape(id), world)?;
        let values = self.compute(&op, shape);
        self.nodes.push((op, shape, values));
        Ok(Var(self.nodes.len() as u32 - 1))
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        let values = shardgraph_device::Device::host().upload(values)?;
        self.apply(Op::Input(crate::Leaf {
            shape,
            values: std::sync::Arc::new(values),
        }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].1
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].0
    }
}
