//! The operations between replicated and sharded values, and their short names for any interpreter.

use std::borrow::Cow;
use std::sync::Arc;

use shardgraph_autodiff::device::DeviceKind;
use shardgraph_autodiff::operations::MatMul;
use shardgraph_autodiff::ops;
use shardgraph_autodiff::ops::MatMul as Dims;
use shardgraph_autodiff::{
    Adjoint, Ctx, Error, Operation, Payload, Role, RowNumbers, Run, Shape, Var, World,
};

use super::propagation::{Gathered, MaskOperands};
use super::{BatchLayout, Propagation};

/// Sharded rows times a replicated matrix, in products whose shapes do not depend on the number of ranks.
///
/// # Shapes
/// Sharded `[layout.n_rows, a]`, replicated `[a, b]` (or `[b, a]` transposed) to sharded `[layout.n_rows, b]`.
#[derive(Debug, Clone)]
pub struct ShardMatMul {
    /// Transpose the matrix.
    pub transpose_w: bool,
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
}

/// `x^T y` of sharded rows, summed exactly over all row blocks of all ranks: replicated `[a, b]`.
#[derive(Debug, Clone)]
pub struct ShardOuter {
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
}

/// For each state the exact sum of its rows over all ranks: sharded `[n_rows, k]` to replicated `[n_states, k]`.
#[derive(Debug, Clone)]
pub struct StateSum {
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
}

/// For each own row its state's row: replicated `[n_states, k]` to sharded `[n_rows, k]`.
#[derive(Debug, Clone)]
pub struct StateBroadcast {
    /// The rows of this rank.
    pub layout: Arc<BatchLayout>,
}

/// The masked, scaled sum over neighbours of sharded rows.
///
/// Rows of other ranks come by an all-gather, or as the shards' exchange plans say.
///
/// # Shapes
/// Sharded `[n_rows, k]` to the same; where masks are [`super::MaskInputs`], these are two more operands.
#[derive(Debug, Clone)]
pub struct Propagate {
    /// The graphs, masks and scales.
    pub graphs: Arc<Propagation>,
}

/// Short names for the operations of this module, for every interpreter.
#[expect(
    clippy::missing_errors_doc,
    reason = "every method has the one error that the documentation of Ctx states"
)]
pub trait ShardedOps: Ctx {
    /// Sharded rows times a replicated matrix (transposed if `w.1`).
    fn shard_matmul(
        &mut self,
        x: Var,
        w: (Var, bool),
        layout: &Arc<BatchLayout>,
    ) -> Result<Var, Error> {
        let operation = ShardMatMul {
            transpose_w: w.1,
            layout: Arc::clone(layout),
        };
        self.apply(Arc::new(operation), &[x, w.0])
    }

    /// `x^T y`, summed exactly over all ranks.
    fn shard_outer(&mut self, x: Var, y: Var, layout: &Arc<BatchLayout>) -> Result<Var, Error> {
        let layout = Arc::clone(layout);
        self.apply(Arc::new(ShardOuter { layout }), &[x, y])
    }

    /// The exact sum of each state's rows over all ranks.
    fn state_sum(&mut self, x: Var, layout: &Arc<BatchLayout>) -> Result<Var, Error> {
        let layout = Arc::clone(layout);
        self.apply(Arc::new(StateSum { layout }), &[x])
    }

    /// Each own row's state row.
    fn state_broadcast(&mut self, x: Var, layout: &Arc<BatchLayout>) -> Result<Var, Error> {
        let layout = Arc::clone(layout);
        self.apply(Arc::new(StateBroadcast { layout }), &[x])
    }

    /// The masked sum over neighbours.
    fn propagate(&mut self, x: Var, graphs: &Arc<Propagation>) -> Result<Var, Error> {
        let masks = graphs.mask_inputs();
        let graphs = Arc::clone(graphs);
        let operation = Arc::new(Propagate { graphs });
        match masks {
            None => self.apply(operation, &[x]),
            Some(masks) => self.apply(operation, &[x, masks.keep, masks.scale]),
        }
    }
}

impl<C: Ctx + ?Sized> ShardedOps for C {}

fn sharded(x: Shape, layout: &BatchLayout) -> Result<Shape, String> {
    match x.rows == layout.n_rows() {
        true => Ok(x),
        false => Err(format!(
            "this rank has {} rows of the batch",
            layout.n_rows()
        )),
    }
}

/// The payload of an operation that has it alone, by the field's name.
macro_rules! payload {
    ($field:ident) => {
        fn payload(&self) -> Option<Payload> {
            Some(Payload::new(&self.$field))
        }

        fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
            let $field = Arc::clone(payload.get()?);
            Some(Arc::new(Self { $field }))
        }
    };
}

impl ShardMatMul {
    fn product(&self) -> MatMul {
        MatMul {
            transpose_a: false,
            transpose_b: self.transpose_w,
        }
    }
}

impl Operation for ShardMatMul {
    fn name(&self) -> &'static str {
        "shard_matmul"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let x = sharded(operands[0], &self.layout)?;
        self.product().shape_of(x, operands[1])
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (x, w) = (run.operands[0], run.operands[1]);
        let dims = self.product().dims(x.shape, run.out.shape);
        let (device, bounds, out) = (run.device(), self.layout.bounds(), &mut *run.out.values);
        Ok(ops::block_matmul(
            device, dims, bounds, x.values, w.values, out,
        )?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let [x, w] = [at.operands[0], at.operands[1]];
        let mut terms = vec![None, None];
        if at.wants(0) {
            terms[0] = Some(ctx.shard_matmul(at.dy, (w, !self.transpose_w), &self.layout)?);
        }
        if at.wants(1) {
            let (left, right) = match self.transpose_w {
                true => (at.dy, x),
                false => (x, at.dy),
            };
            terms[1] = Some(ctx.shard_outer(left, right, &self.layout)?);
        }
        Ok(terms)
    }

    fn numbers(&self) -> Vec<u64> {
        vec![self.transpose_w.into()]
    }

    fn payload(&self) -> Option<Payload> {
        Some(Payload::new(&self.layout))
    }

    fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
        let (layout, transpose_w) = (Arc::clone(payload.get()?), self.transpose_w);
        Some(Arc::new(Self {
            transpose_w,
            layout,
        }))
    }
}

impl Operation for ShardOuter {
    fn name(&self) -> &'static str {
        "shard_outer"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let x = sharded(operands[0], &self.layout)?;
        let y = sharded(operands[1], &self.layout)?;
        Ok(Shape::new(x.cols, y.cols))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (device, layout, shape) = (run.device(), &self.layout, run.out.shape);
        let dims = Dims {
            rows: shape.rows,
            inner: layout.n_rows(),
            cols: shape.cols,
            transpose_a: true,
            transpose_b: false,
        };
        let mut blocks = device.zeros(layout.n_blocks() * shape.len())?;
        let (x, y) = (run.operands[0].values, run.operands[1].values);
        ops::block_outer(device, dims, layout.bounds(), x, y, &mut blocks)?;
        run.comm.exact_sum(&Arc::new(blocks), run.out.values)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let [x, y] = [at.operands[0], at.operands[1]];
        let mut terms = vec![None, None];
        if at.wants(0) {
            terms[0] = Some(ctx.shard_matmul(y, (at.dy, true), &self.layout)?);
        }
        if at.wants(1) {
            terms[1] = Some(ctx.shard_matmul(x, (at.dy, false), &self.layout)?);
        }
        Ok(terms)
    }

    payload!(layout);

    fn role(&self) -> Role {
        Role::Exchange
    }
}

impl Operation for StateSum {
    fn name(&self) -> &'static str {
        "state_sum"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let x = sharded(operands[0], &self.layout)?;
        Ok(Shape::new(self.layout.n_states(), x.cols))
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (device, width) = (run.device(), run.out.shape.cols);
        let slots = self.layout.partials_on(device)?;
        let mut blocks = device.zeros(slots.n_rows() * width)?;
        ops::scatter_rows(device, slots, width, run.operands[0].values, &mut blocks)?;
        run.comm.exact_sum(&Arc::new(blocks), run.out.values)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.state_broadcast(at.dy, &self.layout)?)])
    }

    payload!(layout);

    fn role(&self) -> Role {
        Role::Exchange
    }
}

impl Operation for StateBroadcast {
    fn name(&self) -> &'static str {
        "state_broadcast"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let n_states = self.layout.n_states();
        match operands[0].rows == n_states {
            true => Ok(Shape::new(self.layout.n_rows(), operands[0].cols)),
            false => Err(format!("{n_states} rows, one a state, are expected")),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.gather_rows(self)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.state_sum(at.dy, &self.layout)?)])
    }

    payload!(layout);

    fn row_numbers(&self, operands: &[Shape], _shape: Shape) -> Option<RowNumbers<'_>> {
        Some(RowNumbers {
            n_rows: operands[0].rows,
            numbers: Cow::Borrowed(self.layout.states()),
        })
    }
}

impl Operation for Propagate {
    fn name(&self) -> &'static str {
        "propagate"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        self.graphs.check_masks(&operands[1..])?;
        sharded(operands[0], self.graphs.layout())
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (graphs, x, device) = (&self.graphs, run.operands[0], run.device());
        if graphs.has_blocks() {
            return graphs.apply_blocks(&mut run.comm, x, run.out.values);
        }
        let width = x.shape.cols;
        let masks = match run.operands {
            [_, keep, scale] => Some(MaskOperands {
                keep: keep.values,
                scale: scale.values,
            }),
            _ => None,
        };
        if run.comm.size() == 1 {
            let gathered = Gathered {
                rows: x.values,
                width,
                masks,
            };
            return graphs.apply(device, gathered, run.out.values);
        }
        let counts = graphs.layout().counts();
        let counts: Vec<usize> = counts.iter().map(|rows| rows * width).collect();
        let n_gathered = counts.iter().sum();
        let mut gathered = match device.kind() {
            DeviceKind::Host => {
                let mut kept = std::mem::take(run.scratch);
                kept.resize(n_gathered, 0.0);
                kept.into()
            }
            _ => device.zeros(n_gathered)?,
        };
        run.comm.all_gather(x.values, &counts, &mut gathered)?;
        let rows = Gathered {
            rows: &gathered,
            width,
            masks,
        };
        graphs.apply(device, rows, run.out.values)?;
        if let Some(kept) = gathered.into_host() {
            *run.scratch = kept;
        }
        Ok(())
    }

    /// The adjacency is symmetric and the scale one number a state: the operator is its own adjoint.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let mut terms = vec![None; at.operands.len()];
        terms[0] = Some(ctx.propagate(at.dy, &self.graphs)?);
        Ok(terms)
    }

    payload!(graphs);

    /// The rows of all ranks.
    fn scratch_len(&self, operands: &[Shape], world: World) -> usize {
        match world.size > 1 && !self.graphs.has_blocks() {
            true => self.graphs.layout().counts().iter().sum::<usize>() * operands[0].cols,
            false => 0,
        }
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}
