//! The interpreter that computes values at once and keeps the tape.

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Buffer, Device};

use crate::shape_rules::{check_values, infer};
use crate::{
    BufferPool, Ctx, DeviceComm, DeviceGradient, Error, Gradient, Leaf, Op, Operand, Operation,
    Output, ParamId, Params, Role, Run, Shape, Var, World,
};

/// Define-by-run: each operation runs on the device when it is added; all results stay until the value is dropped.
///
/// An example is at the crate root.
#[derive(Debug)]
pub struct Eager<'a> {
    device: &'a Device,
    comm: &'a mut Comm,
    deadline: Timeout,
    params: &'a Params,
    nodes: Vec<Node>,
    pool: BufferPool,
    scratch: Vec<f32>,
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
            deadline: Timeout::default(),
            params,
            nodes: Vec::new(),
            pool: BufferPool::default(),
            scratch: Vec::new(),
        }
    }

    /// The same program with another deadline on every wait for another rank.
    pub fn with_deadline(mut self, deadline: Timeout) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same program, whose results on the host are written where those of programs before it were.
    ///
    /// ```
    /// use shardgraph_autodiff::collectives::Comm;
    /// use shardgraph_autodiff::device::Device;
    /// use shardgraph_autodiff::{BufferPool, Ctx, Eager, Params, Shape};
    ///
    /// let (device, mut comm, params) = (Device::host(), Comm::solo(), Params::new());
    /// let mut pool = BufferPool::default();
    /// for step in 0..3 {
    ///     let mut ctx = Eager::new(&device, &mut comm, &params).with_pool(pool);
    ///     let x = ctx.input(Shape::new(64, 32), &[step as f32; 2048])?;
    ///     let y = ctx.relu(x)?;
    ///     assert_eq!(ctx.values(y)?, [step as f32; 2048]);
    ///     pool = ctx.into_pool();
    /// }
    /// # Ok::<(), shardgraph_autodiff::Error>(())
    /// ```
    pub fn with_pool(mut self, pool: BufferPool) -> Self {
        self.pool = pool;
        self
    }

    /// Ends the program and gives the memory of its values for another one.
    pub fn into_pool(self) -> BufferPool {
        let (mut pool, nodes) = (self.pool, self.nodes);
        // Values that two nodes share are taken from the second; those that a caller has stay there.
        let values = nodes.into_iter();
        pool.keep(values.filter_map(|node| Arc::into_inner(node.values)));
        pool
    }

    /// A copy of a value, row-major.
    ///
    /// # Errors
    /// When the copy from the device fails.
    pub fn values(&self, var: Var) -> Result<Vec<f32>, Error> {
        Ok(self.device.download(&self.nodes[var.index()].values)?)
    }

    /// Copies of all values so far, in the order in which they were made.
    #[cfg(any(test, feature = "testing"))]
    #[expect(clippy::missing_errors_doc, reason = "for tests")]
    pub fn all_values(&self) -> Result<Vec<(Var, Vec<f32>)>, Error> {
        let vars = (0..self.nodes.len() as u32).map(Var);
        vars.map(|var| Ok((var, self.values(var)?))).collect()
    }

    /// The derivatives of `loss` by all trained parameters as one flat run, laid out as [`Params::trained`].
    ///
    /// # Errors
    /// As [`crate::gradient`].
    pub fn param_gradient(&mut self, loss: Var) -> Result<Vec<f32>, Error> {
        let grads = self.param_gradients(loss, None)?;
        self.flat(grads)
    }

    /// The same derivatives in the device's memory, for a step of an optimiser there.
    ///
    /// # Errors
    /// As [`crate::gradient`].
    pub fn resident_gradient(&mut self, loss: Var) -> Result<Gradient, Error> {
        Ok(self.resident_gradient_by(loss, None)?.0)
    }

    /// The same, and the derivatives by another value of the program, in one pass backward.
    ///
    /// ```
    /// use shardgraph_autodiff::collectives::Comm;
    /// use shardgraph_autodiff::device::Device;
    /// use shardgraph_autodiff::{Ctx, Eager, Gradient, Params, Shape};
    ///
    /// let (device, mut comm, mut params) = (Device::host(), Comm::solo(), Params::new());
    /// let w = params.add("w", Shape::new(1, 1), || 3.0);
    /// let mut ctx = Eager::new(&device, &mut comm, &params);
    /// let w = ctx.param(w)?;
    /// let double = ctx.scale(w, 2.0)?;
    /// let loss = ctx.mul(double, double)?;
    /// let (gradient, by_double) = ctx.resident_gradient_by(loss, Some(double))?;
    /// assert!(matches!(gradient, Gradient::Host(by_w) if by_w == [24.0]));
    /// assert_eq!(device.download(&by_double.unwrap())?, [12.0]);
    /// # Ok::<(), shardgraph_autodiff::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::gradient`].
    pub fn resident_gradient_by(
        &mut self,
        loss: Var,
        other: Option<Var>,
    ) -> Result<(Gradient, Option<Arc<Buffer>>), Error> {
        let mut parts = self.param_gradients(loss, other)?;
        let by_other = other.and_then(|_| parts.pop().flatten());
        let by_other = by_other.map(|grad| self.buffer(grad));
        if self.device.is_host() {
            return Ok((Gradient::Host(self.flat(parts)?), by_other));
        }
        let parts = parts.into_iter();
        let parts = parts.map(|grad| grad.map(|grad| self.buffer(grad)));
        let gradient = DeviceGradient::new(parts.collect());
        Ok((Gradient::Device(gradient), by_other))
    }

    /// The memory of a value, which it shares with the program.
    pub fn buffer(&self, var: Var) -> Arc<Buffer> {
        Arc::clone(&self.nodes[var.index()].values)
    }

    /// Derivatives by all trained parameters in host memory.
    fn flat(&self, grads: Vec<Option<Var>>) -> Result<Vec<f32>, Error> {
        let values = |grad: Option<Var>| grad.map(|grad| self.values(grad)).transpose();
        let values: Result<Vec<_>, Error> = grads.into_iter().map(values).collect();
        self.params.flatten(&values?)
    }

    /// For each trained parameter its derivative, where the loss depends on it, and behind them that of another value.
    fn param_gradients(
        &mut self,
        loss: Var,
        other: Option<Var>,
    ) -> Result<Vec<Option<Var>>, Error> {
        let params = self.params;
        let used = params.trained_ids().map(|id| self.known_param(id));
        let used: Vec<Option<Var>> = used.chain(other.map(Some)).collect();
        let wrt: Vec<Var> = used.iter().copied().flatten().collect();
        let mut grads = crate::gradient(self, loss, &wrt)?.into_iter();
        Ok(used
            .into_iter()
            .map(|var| var.and_then(|_| grads.next().flatten()))
            .collect())
    }

    /// The variable that already stands for a parameter: all its uses share one, and so one gradient.
    fn known_param(&self, id: ParamId) -> Option<Var> {
        let is_it = |node: &Node| matches!(node.op, Op::Param(other) if other == id);
        self.nodes.iter().position(is_it).map(|i| Var(i as u32))
    }

    fn world(&self) -> World {
        World {
            rank: self.comm.rank(),
            size: self.comm.size(),
        }
    }

    /// The values of a node whose shape has been checked.
    fn compute(&mut self, op: &Op, shape: Shape) -> Result<Arc<Buffer>, Error> {
        match op {
            Op::Input(leaf) => Ok(Arc::clone(&leaf.values)),
            Op::Param(id) => self.params.buffer(*id, self.device),
            Op::Apply {
                operation,
                operands,
            } => match operation.role() {
                Role::Alias => Ok(Arc::clone(&self.nodes[operands[0].index()].values)),
                _ => self.apply_now(&**operation, operands, shape),
            },
        }
    }

    fn apply_now(
        &mut self,
        operation: &dyn Operation,
        operands: &[Var],
        shape: Shape,
    ) -> Result<Arc<Buffer>, Error> {
        let mut values = self.pool.take(self.device, shape.len())?;
        let operand = |var: &Var| {
            let node = &self.nodes[var.index()];
            Operand {
                values: &node.values,
                shape: node.shape,
            }
        };
        let operands: Vec<Operand<'_>> = operands.iter().map(operand).collect();
        operation.compute(&mut Run {
            comm: DeviceComm::new(self.device, self.comm, self.deadline),
            operands: &operands,
            out: Output {
                values: &mut values,
                shape,
            },
            index: None,
            scratch: &mut self.scratch,
        })?;
        Ok(Arc::new(values))
    }
}

impl Ctx for Eager<'_> {
    fn push(&mut self, op: Op) -> Result<Var, Error> {
        if let Op::Param(id) = op
            && let Some(var) = self.known_param(id)
        {
            return Ok(var);
        }
        let shape = infer(&op, |var| self.shape(var), self.params, self.world())?;
        let values = self.compute(&op, shape)?;
        self.nodes.push(Node { op, shape, values });
        Ok(Var(self.nodes.len() as u32 - 1))
    }

    fn input(&mut self, shape: Shape, values: &[f32]) -> Result<Var, Error> {
        check_values("input", shape, values.len())?;
        let values = Arc::new(self.device.upload(values)?);
        self.push(Op::Input(Leaf { shape, values }))
    }

    fn shape(&self, var: Var) -> Shape {
        self.nodes[var.index()].shape
    }

    fn op(&self, var: Var) -> &Op {
        &self.nodes[var.index()].op
    }
}
