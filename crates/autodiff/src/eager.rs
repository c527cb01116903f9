//! The interpreter that computes values at once and keeps the tape.

use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::{Buffer, Copy2d, Device, MatMul, Rows};

use crate::ranks::Ranks;
use crate::shape_rules::{World, infer};
use crate::{
    Axis, BatchLayout, Ctx, Error, ErrorKind, Leaf, Op, ParamId, Params, Propagation, Shape, Var,
};

/// Define-by-run: each operation runs on the device when it is added; all results stay until the value is dropped.
///
/// An example is at the crate root.
#[derive(Debug)]
pub struct Eager<'a> {
    device: &'a Device,
    comm: &'a mut Comm,
    deadline: Deadline,
    params: &'a Params,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    op: Op,
    shape: Shape,
    values: Arc<Buffer>,
}

impl<'a> Eager<'a> {
    /// An empty program on a device, as one rank of `comm`, with the default deadline on every wait.
    pub fn new(device: &'a Device, comm: &'a mut Comm, params: &'a Params) -> Self {
        Self {
            device,
            comm,
            deadline: Deadline::default(),
            params,
            nodes: Vec::new(),
        }
    }

    /// The same program with another deadline on every wait for another rank.
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    /// A copy of a value, row-major.
    ///
    /// # Errors
    /// When the copy from the device fails.
    pub fn values(&self, var: Var) -> Result<Vec<f32>, Error> {
        Ok(self.device.download(&self.nodes[var.index()].values)?)
    }

    /// The derivatives of `loss` by all parameters as one flat run, laid out as [`Params::flat`].
    ///
    /// # Errors
    /// As [`crate::gradient`].
    pub fn param_gradient(&mut self, loss: Var) -> Result<Vec<f32>, Error> {
        let params = self.params;
        let used: Vec<Option<Var>> = params.ids().map(|id| self.known_param(id)).collect();
        let wrt: Vec<Var> = used.iter().copied().flatten().collect();
        let mut grads = crate::gradient(self, loss, &wrt)?.into_iter();
        let mut values = Vec::with_capacity(used.len());
        for var in used {
            let grad = var.and_then(|_| grads.next().flatten());
            values.push(grad.map(|grad| self.values(grad)).transpose()?);
        }
        params.flatten(&values)
    }

    /// The variable that already stands for a parameter: all its uses share one, and so one gradient.
    fn known_param(&self, id: ParamId) -> Option<Var> {
        let is_it = |node: &Node| matches!(node.op, Op::Param(other) if other == id);
        self.nodes.iter().position(is_it).map(|i| Var(i as u32))
    }

    fn buffer(&self, var: Var) -> &Buffer {
        &self.nodes[var.index()].values
    }

    fn world(&self) -> World {
        World {
            rank: self.comm.rank(),
            size: self.comm.size(),
        }
    }

    /// Computes one operation whose shapes have been checked.
    fn compute(&mut self, op: &Op, shape: Shape) -> Result<Arc<Buffer>, Error> {
        match op {
            Op::Input(leaf) => Ok(Arc::clone(&leaf.values)),
            Op::Param(id) => Ok(Arc::new(self.params.upload(*id, self.device)?)),
            Op::Enter { x } => Ok(Arc::clone(&self.nodes[x.index()].values)),
            Op::ShardOuter { x, y, layout } => self.shard_outer(*x, *y, layout, shape),
            Op::StateSum { x, layout } => self.state_sum(*x, layout, shape),
            Op::Propagate { x, graphs } => self.propagate(*x, graphs, shape),
            Op::AllReduce { .. } | Op::AllGather { .. } | Op::ReduceScatter { .. } => {
                self.collective(op, shape)
            }
            Op::Loss { loss, pred, target } => Ok(Arc::new(self.device.loss(
                *loss,
                self.buffer(*pred),
                self.buffer(*target),
            )?)),
            _ => {
                let mut out = self.device.zeros(shape.len())?;
                self.local(op, &mut out, shape)?;
                Ok(Arc::new(out))
            }
        }
    }

    /// The operations that one device method does without another rank.
    fn local(&self, op: &Op, out: &mut Buffer, shape: Shape) -> Result<(), Error> {
        let device = self.device;
        match op {
            Op::MatMul { .. } | Op::ShardMatMul { .. } => self.product(op, out, shape)?,
            Op::Binary { op, a, b } => {
                device.binary(*op, self.buffer(*a), self.buffer(*b), out)?;
            }
            Op::Scale { x, factor } => device.scale(*factor, self.buffer(*x), out)?,
            Op::Relu { x } => device.relu(self.buffer(*x), out)?,
            Op::Concat { .. } | Op::Slice { .. } | Op::Pad { .. } => self.cut(op, out, shape)?,
            Op::Gather { x, index } => {
                device.gather_rows(self.rows(*x), index, self.buffer(*x), out)?;
            }
            Op::Scatter { x, index, n_rows } => {
                let rows = Rows {
                    n_rows: *n_rows,
                    width: shape.cols,
                };
                device.scatter_rows(rows, index, self.buffer(*x), out)?;
            }
            Op::SumRows { x } => {
                let index = vec![0; self.shape(*x).rows];
                let rows = Rows {
                    n_rows: 1,
                    width: shape.cols,
                };
                device.scatter_rows(rows, &index, self.buffer(*x), out)?;
            }
            Op::RepeatRow { x, n_rows } => {
                device.gather_rows(self.rows(*x), &vec![0; *n_rows], self.buffer(*x), out)?;
            }
            Op::StateBroadcast { x, layout } => {
                device.gather_rows(self.rows(*x), layout.states(), self.buffer(*x), out)?;
            }
            Op::LossGrad {
                loss,
                pred,
                target,
                upstream,
            } => device.loss_grad(
                *loss,
                (self.buffer(*pred), self.buffer(*target)),
                self.buffer(*upstream),
                out,
            )?,
            other => unreachable!("{} is computed elsewhere", other.name()),
        }
        Ok(())
    }

    fn rows(&self, x: Var) -> Rows {
        let shape = self.shape(x);
        Rows {
            n_rows: shape.rows,
            width: shape.cols,
        }
    }

    fn product(&self, op: &Op, out: &mut Buffer, shape: Shape) -> Result<(), Error> {
        let dims = |inner: usize, transpose_a: bool, transpose_b: bool| MatMul {
            rows: shape.rows,
            inner,
            cols: shape.cols,
            transpose_a,
            transpose_b,
        };
        match op {
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
                let dims = dims(inner, *transpose_a, *transpose_b);
                self.device
                    .matmul(dims, self.buffer(*a), self.buffer(*b), out)?;
            }
            Op::ShardMatMul {
                x,
                w,
                transpose_w,
                layout,
            } => {
                let dims = dims(self.shape(*x).cols, false, *transpose_w);
                let (x, w) = (self.buffer(*x), self.buffer(*w));
                self.device.block_matmul(dims, layout.bounds(), x, w, out)?;
            }
            other => unreachable!("{} is no product", other.name()),
        }
        Ok(())
    }

    /// Concatenation, slices and padding are copies of rectangles.
    fn cut(&self, op: &Op, out: &mut Buffer, shape: Shape) -> Result<(), Error> {
        let offset = |axis: Axis, start: usize, stride: usize| match axis {
            Axis::Rows => start * stride,
            Axis::Cols => start,
        };
        let into = |x: Shape, target_first: usize| Copy2d {
            rows: x.rows,
            width: x.cols,
            source_first: 0,
            source_stride: x.cols,
            target_first,
            target_stride: shape.cols,
        };
        match op {
            Op::Concat { a, b, axis } => {
                let (a_shape, b_shape) = (self.shape(*a), self.shape(*b));
                let start = match axis {
                    Axis::Rows => a_shape.rows,
                    Axis::Cols => a_shape.cols,
                };
                let second = into(b_shape, offset(*axis, start, shape.cols));
                self.device
                    .copy_2d(into(a_shape, 0), self.buffer(*a), out)?;
                self.device.copy_2d(second, self.buffer(*b), out)?;
            }
            Op::Pad { x, axis, start, .. } => {
                let copy = into(self.shape(*x), offset(*axis, *start, shape.cols));
                self.device.copy_2d(copy, self.buffer(*x), out)?;
            }
            Op::Slice { x, axis, start, .. } => {
                let source_stride = self.shape(*x).cols;
                let copy = Copy2d {
                    rows: shape.rows,
                    width: shape.cols,
                    source_first: offset(*axis, *start, source_stride),
                    source_stride,
                    target_first: 0,
                    target_stride: shape.cols,
                };
                self.device.copy_2d(copy, self.buffer(*x), out)?;
            }
            other => unreachable!("{} copies no rectangle", other.name()),
        }
        Ok(())
    }

    fn shard_outer(
        &mut self,
        x: Var,
        y: Var,
        layout: &BatchLayout,
        shape: Shape,
    ) -> Result<Arc<Buffer>, Error> {
        let dims = MatMul {
            rows: shape.rows,
            inner: layout.n_rows(),
            cols: shape.cols,
            transpose_a: true,
            transpose_b: false,
        };
        let mut blocks = self.device.zeros(layout.n_blocks() * shape.len())?;
        let (x, y) = (self.buffer(x), self.buffer(y));
        self.device
            .block_outer(dims, layout.bounds(), x, y, &mut blocks)?;
        self.exact_sum(blocks, shape)
    }

    fn state_sum(
        &mut self,
        x: Var,
        layout: &BatchLayout,
        shape: Shape,
    ) -> Result<Arc<Buffer>, Error> {
        let slots = layout.partials_on(self.device)?;
        let mut blocks = self.device.zeros(slots.n_rows() * shape.cols)?;
        let x = self.buffer(x);
        self.device
            .scatter_rows_by(slots, shape.cols, x, &mut blocks)?;
        self.exact_sum(blocks, shape)
    }

    fn exact_sum(&mut self, blocks: Buffer, shape: Shape) -> Result<Arc<Buffer>, Error> {
        let sum = self.ranks().exact_sum(Arc::new(blocks), shape.len())?;
        Ok(Arc::new(sum))
    }

    fn propagate(
        &mut self,
        x: Var,
        graphs: &Propagation,
        shape: Shape,
    ) -> Result<Arc<Buffer>, Error> {
        let values = if self.comm.size() == 1 {
            graphs.apply(self.device, self.buffer(x), shape.cols)?
        } else {
            let gathered = self.gather_rows_of_ranks(x, &graphs.layout().counts(), shape.cols)?;
            graphs.apply(self.device, &gathered, shape.cols)?
        };
        Ok(Arc::new(values))
    }

    fn gather_rows_of_ranks(
        &mut self,
        x: Var,
        counts: &[usize],
        width: usize,
    ) -> Result<Buffer, Error> {
        let elements: Vec<usize> = counts.iter().map(|rows| rows * width).collect();
        let own = Arc::clone(&self.nodes[x.index()].values);
        self.ranks().all_gather(own, &elements)
    }

    fn collective(&mut self, op: &Op, shape: Shape) -> Result<Arc<Buffer>, Error> {
        let own = |x: &Var| Arc::clone(&self.nodes[x.index()].values);
        let values = match op {
            Op::AllReduce { x } => {
                let own = own(x);
                self.ranks().all_reduce(own)?
            }
            Op::AllGather { x, counts } => self.gather_rows_of_ranks(*x, counts, shape.cols)?,
            Op::ReduceScatter { x, counts } => {
                let own = own(x);
                let elements: Vec<usize> = counts.iter().map(|rows| rows * shape.cols).collect();
                self.ranks().reduce_scatter(own, &elements)?
            }
            other => unreachable!("{} is no collective", other.name()),
        };
        Ok(Arc::new(values))
    }

    fn ranks(&mut self) -> Ranks<'_> {
        Ranks {
            device: self.device,
            comm: self.comm,
            deadline: self.deadline,
        }
    }
}

impl Ctx for Eager<'_> {
    fn apply(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Param(id) = op
            && let Some(var) = self.known_param(id)
        {
            return Ok(var);
        }
        let params = self.params;
        let shape = infer(
            &op,
            |var| self.shape(var),
            |id| params.shape(id),
            self.world(),
        )?;
        let values = self.compute(&op, shape)?;
        self.nodes.push(Node { op, shape, values });
        Ok(Var(self.nodes.len() as u32 - 1))
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        if values.len() != shape.len() {
            return Err(ErrorKind::Shape {
                op: "input",
                given: vec![shape],
                expected: format!("{} values were given", values.len()),
            }
            .into());
        }
        let values = Arc::new(self.device.upload(values)?);
        self.apply(Op::Input(Leaf { shape, values }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].shape
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].op
    }
}
