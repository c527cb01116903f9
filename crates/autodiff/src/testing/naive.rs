//! The reference interpreter: every operation in f64, one rank, the plainest loops.

use shardgraph_ops::{Binary, Loss, Unary};

use crate::operations::{
    AllGather, AllReduce, ArgmaxRows, AverageLoss, BroadcastColumn, Concat, CopyToRanks, Detach,
    Elementwise, Function, Gather, Linear, LogSoftmax, LossGrad, MatMul, Pad, ReduceScatter, Relu,
    RepeatRow, RowSums, Scale, Scatter, Slice, SumRows,
};
use crate::shape_rules::infer;
use crate::{Axis, Ctx, Error, Leaf, Op, Operation, ParamId, Params, Shape, Var, World};

/// A value of the reference: row-major elements.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Rows and columns.
    pub shape: Shape,
    /// Elements.
    pub values: &'a [f64],
}

impl Matrix<'_> {
    /// The element of a row and a column.
    pub fn at(&self, row: usize, col: usize) -> f64 {
        self.values[row * self.shape.cols + col]
    }

    fn turned(&self, transpose: bool, row: usize, col: usize) -> f64 {
        match transpose {
            true => self.at(col, row),
            false => self.at(row, col),
        }
    }
}

/// A function for the results of operations that this crate does not have; `None` for others.
pub type Reference = fn(&dyn Operation, &[Matrix<'_>], Shape) -> Option<Vec<f64>>;

/// An interpreter in f64: gradients are checked against its finite differences.
#[derive(Debug)]
pub struct Naive {
    /// Parameter values in f64, so that finite differences see steps that f32 would swallow.
    pub flat: Vec<f64>,
    params: Params,
    nodes: Vec<(Op, Shape, Vec<f64>)>,
    reference: Reference,
}

impl Naive {
    /// An empty program over the operations of this crate.
    pub fn new(params: &Params) -> Self {
        Self::with_reference(params, |_, _, _| None)
    }

    /// An empty program over these and others.
    pub fn with_reference(params: &Params, reference: Reference) -> Self {
        Self {
            flat: params.flat().iter().map(|&x| f64::from(x)).collect(),
            params: params.clone(),
            nodes: Vec::new(),
            reference,
        }
    }

    /// The elements of a value.
    pub fn values(&self, var: Var) -> &[f64] {
        &self.nodes[var.index()].2
    }

    fn param_values(&self, id: ParamId) -> Vec<f64> {
        let before = self.params.ids().take_while(|&other| other != id);
        let first: usize = before.map(|other| self.params.shape(other).len()).sum();
        self.flat[first..first + self.params.shape(id).len()].to_vec()
    }

    fn compute(&self, op: &Op, shape: Shape) -> Vec<f64> {
        match op {
            Op::Input(leaf) => {
                let values = leaf.values.as_host().unwrap_or_default();
                values.iter().map(|&x| f64::from(x)).collect()
            }
            Op::Param(id) => self.param_values(*id),
            Op::Apply { operands, .. } => {
                let matrix = |var: &Var| Matrix {
                    shape: self.shape(*var),
                    values: self.values(*var),
                };
                let operands: Vec<Matrix<'_>> = operands.iter().map(matrix).collect();
                self.apply(op, &operands, shape)
            }
        }
    }

    fn apply(&self, op: &Op, operands: &[Matrix<'_>], shape: Shape) -> Vec<f64> {
        let own = op
            .operation()
            .and_then(|operation| (self.reference)(operation, operands, shape));
        own.or_else(|| products(op, operands, shape))
            .or_else(|| elements(op, operands, shape))
            .or_else(|| rows(op, operands, shape))
            .or_else(|| rectangles(op, operands, shape))
            .or_else(|| losses(op, operands))
            .unwrap_or_else(|| unreachable!("the reference does not know {}", op.name()))
    }
}

/// A matrix by its elements.
pub fn fill(shape: Shape, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let cols = shape.cols;
    (0..shape.len()).map(|i| f(i / cols, i % cols)).collect()
}

fn products(op: &Op, operands: &[Matrix<'_>], shape: Shape) -> Option<Vec<f64>> {
    if let Some(matmul) = op.downcast::<MatMul>() {
        let (a, b) = (operands[0], operands[1]);
        let inner = match matmul.transpose_a {
            true => a.shape.rows,
            false => a.shape.cols,
        };
        let factor_a = |i, k| a.turned(matmul.transpose_a, i, k);
        let factor_b = |k, j| b.turned(matmul.transpose_b, k, j);
        let element = |i, j| (0..inner).map(|k| factor_a(i, k) * factor_b(k, j)).sum();
        return Some(fill(shape, element));
    }
    let linear = op.downcast::<Linear>()?;
    let [x, w, b] = [operands[0], operands[1], operands[2]];
    Some(fill(shape, |i, j| {
        let terms = (0..x.shape.cols).map(|k| x.at(i, k) * w.at(k, j));
        let z = terms.sum::<f64>() + b.at(0, j);
        if linear.relu { z.max(0.0) } else { z }
    }))
}

fn elements(op: &Op, operands: &[Matrix<'_>], shape: Shape) -> Option<Vec<f64>> {
    let x = operands[0];
    let is_same = op.downcast::<Detach>().is_some()
        || op.downcast::<CopyToRanks>().is_some()
        || op.downcast::<AllReduce>().is_some()
        || op.downcast::<AllGather>().is_some()
        || op.downcast::<ReduceScatter>().is_some();
    if is_same {
        return Some(x.values.to_vec());
    }
    if let Some(&Function(function)) = op.downcast() {
        return Some(fill(shape, |i, j| unary(function, x.at(i, j))));
    }
    if let Some(&Elementwise(function)) = op.downcast() {
        let element = |i, j| binary(function, x.at(i, j), operands[1].at(i, j));
        return Some(fill(shape, element));
    }
    if let Some(&Scale { factor }) = op.downcast() {
        return Some(fill(shape, |i, j| f64::from(factor) * x.at(i, j)));
    }
    op.downcast::<Relu>()?;
    Some(fill(shape, |i, j| x.at(i, j).max(0.0)))
}

fn rows(op: &Op, operands: &[Matrix<'_>], shape: Shape) -> Option<Vec<f64>> {
    let x = operands[0];
    let row = |i: usize| (0..x.shape.cols).map(move |k| x.at(i, k));
    if op.downcast::<LogSoftmax>().is_some() {
        return Some(fill(shape, |i, j| {
            let largest = row(i).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row(i).map(|x| (x - largest).exp()).sum();
            x.at(i, j) - largest - sum.ln()
        }));
    }
    if op.downcast::<ArgmaxRows>().is_some() {
        return Some(fill(shape, |i, j| {
            let is_beaten = row(i).take(j).any(|other| other >= x.at(i, j));
            let is_largest = row(i).skip(j).all(|other| other <= x.at(i, j));
            f64::from(u8::from(!is_beaten && is_largest))
        }));
    }
    if op.downcast::<RowSums>().is_some() {
        return Some(fill(shape, |i, _| row(i).sum()));
    }
    if op.downcast::<BroadcastColumn>().is_some() {
        return Some(fill(shape, |i, _| x.at(i, 0)));
    }
    if op.downcast::<SumRows>().is_some() {
        let column = |j: usize| (0..x.shape.rows).map(move |i| x.at(i, j));
        return Some(fill(shape, |_, j| column(j).sum()));
    }
    if op.downcast::<RepeatRow>().is_some() {
        return Some(fill(shape, |_, j| x.at(0, j)));
    }
    if let Some(Gather { index }) = op.downcast() {
        return Some(fill(shape, |i, j| match index[i] {
            u32::MAX => 0.0,
            row => x.at(row as usize, j),
        }));
    }
    let Scatter { index, .. } = op.downcast()?;
    Some(fill(shape, |i, j| {
        let hits = (0..index.len()).filter(|&r| index[r] == i as u32);
        hits.map(|r| x.at(r, j)).sum()
    }))
}

fn rectangles(op: &Op, operands: &[Matrix<'_>], shape: Shape) -> Option<Vec<f64>> {
    let x = operands[0];
    if let Some(Concat { axis }) = op.downcast() {
        let b = operands[1];
        return Some(fill(shape, |i, j| match axis {
            Axis::Rows if i < x.shape.rows => x.at(i, j),
            Axis::Rows => b.at(i - x.shape.rows, j),
            Axis::Cols if j < x.shape.cols => x.at(i, j),
            Axis::Cols => b.at(i, j - x.shape.cols),
        }));
    }
    if let Some(Slice { axis, start, .. }) = op.downcast() {
        return Some(fill(shape, |i, j| match axis {
            Axis::Rows => x.at(i + start, j),
            Axis::Cols => x.at(i, j + start),
        }));
    }
    let Pad { axis, start, .. } = op.downcast()?;
    let inside = |i: usize, len: usize| i >= *start && i < start + len;
    Some(fill(shape, |i, j| match axis {
        Axis::Rows if inside(i, x.shape.rows) => x.at(i - start, j),
        Axis::Cols if inside(j, x.shape.cols) => x.at(i, j - start),
        _ => 0.0,
    }))
}

fn losses(op: &Op, operands: &[Matrix<'_>]) -> Option<Vec<f64>> {
    let pairs = operands[0].values.iter().zip(operands[1].values);
    let errors = pairs.map(|(p, t)| p - t);
    let n = operands[0].values.len().max(1) as f64;
    if let Some(&AverageLoss(loss)) = op.downcast() {
        return Some(vec![errors.map(|e| value(loss, e)).sum::<f64>() / n]);
    }
    let &LossGrad(loss) = op.downcast()?;
    let factor = operands[2].at(0, 0) / n;
    Some(errors.map(|e| factor * slope(loss, e)).collect())
}

fn value(loss: Loss, e: f64) -> f64 {
    match loss {
        Loss::Mse => e * e,
        Loss::Huber { delta } if e.abs() <= f64::from(delta) => 0.5 * e * e,
        Loss::Huber { delta } => f64::from(delta) * (e.abs() - 0.5 * f64::from(delta)),
    }
}

fn slope(loss: Loss, e: f64) -> f64 {
    match loss {
        Loss::Mse => 2.0 * e,
        Loss::Huber { delta } => e.clamp(-f64::from(delta), f64::from(delta)),
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
        Unary::Sqrt => x.sqrt(),
        Unary::Clamp { low, high } => x.clamp(f64::from(low), f64::from(high)),
    }
}

impl Ctx for Naive {
    fn push(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Param(id) = op {
            let is_it = |node: &(Op, Shape, Vec<f64>)| matches!(node.0, Op::Param(p) if p == id);
            if let Some(i) = self.nodes.iter().position(is_it) {
                return Ok(Var(i as u32));
            }
        }
        let world = World { rank: 0, size: 1 };
        let shape = infer(&op, |var| self.shape(var), &self.params, world)?;
        let values = self.compute(&op, shape);
        self.nodes.push((op, shape, values));
        Ok(Var(self.nodes.len() as u32 - 1))
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        let values = shardgraph_device::Device::host().upload(values)?;
        self.push(Op::Input(Leaf {
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
