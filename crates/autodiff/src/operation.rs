//! The trait that an operation implements: everything that the interpreters know of it is in one place.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use shardgraph_device::{Buffer, Device};
use shardgraph_ops as ops;
use shardgraph_ops::{RowIndex, Rows};

use crate::{Ctx, DeviceComm, Error, Shape, Var};

/// An operation on matrices: its name, shape rule, kernel and adjoint.
///
/// Shape check, eager run, plan and [`crate::gradient`] know an operation by this trait alone, so a crate that
/// implements it adds an operation that is equal to those of [`crate::operations`]. Its numbers (factors, axes, row numbers)
/// are its fields; its operands stand beside it in [`crate::Op::Apply`].
///
/// Where an operation does not say otherwise, its operands are all replicated or all sharded alike, and so is its result.
///
/// ```
/// use std::sync::Arc;
/// use shardgraph_autodiff::collectives::Comm;
/// use shardgraph_autodiff::device::Device;
/// use shardgraph_autodiff::{
///     Adjoint, Ctx, Eager, Error, Operation, Params, Run, Shape, Var,
/// };
///
/// /// `x * x`, element by element.
/// #[derive(Debug)]
/// struct Square;
///
/// impl Operation for Square {
///     fn name(&self) -> &'static str {
///         "square"
///     }
///
///     fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
///         let x = run.device().download(run.operands[0].values)?;
///         let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
///         Ok(run.device().write(&squares, run.out.values)?)
///     }
///
///     fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
///         let once = ctx.mul(at.dy, at.operands[0])?;
///         Ok(vec![Some(ctx.scale(once, 2.0)?)])
///     }
/// }
///
/// let (device, mut comm, mut params) = (Device::host(), Comm::solo(), Params::new());
/// let w = params.add("w", Shape::new(1, 1), || 3.0);
/// let mut ctx = Eager::new(&device, &mut comm, &params);
/// let w = ctx.param(w)?;
/// let loss = ctx.apply(Arc::new(Square), &[w])?;
/// assert_eq!(ctx.values(loss)?, [9.0]);
/// assert_eq!(ctx.param_gradient(loss)?, [6.0]);
/// # Ok::<(), Error>(())
/// ```
pub trait Operation: Any + fmt::Debug + Send + Sync {
    /// The operation's name in messages.
    fn name(&self) -> &'static str;

    /// The result's shape, or what would have been right; by default the shape of the first operand.
    ///
    /// # Errors
    /// The end of the sentence "the operands do not fit: ...".
    fn shape(&self, operands: &[Shape], world: World) -> Result<Shape, String> {
        let _ = world;
        Ok(operands[0])
    }

    /// Computes the result into [`Run::out`], whose contents so far do not matter.
    ///
    /// # Errors
    /// The device's and the communicator's.
    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error>;

    /// The derivatives by each operand, or `None` where none flows: in operations, so that it can be recorded.
    ///
    /// # Errors
    /// Those of the operations; [`crate::Error::NoAdjoint`] where the adjoint is not defined.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error>;

    /// The numbers that tell two operations of this type apart, [`Operation::payload`] left out.
    fn numbers(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The data that a program hands over with the operation and may change from run to run.
    ///
    /// A recorded adjoint keeps its numbers, so these must not depend on the payload; its operations may share it.
    fn payload(&self) -> Option<Payload> {
        None
    }

    /// The same operation with another payload, or `None` if it is of another type.
    fn with_payload(&self, payload: &Payload) -> Option<Arc<dyn Operation>> {
        let _ = payload;
        None
    }

    /// The row numbers that the operation gathers or scatters by: a program keeps them on its device.
    fn row_numbers(&self, operands: &[Shape], shape: Shape) -> Option<RowNumbers<'_>> {
        let _ = (operands, shape);
        None
    }

    /// Elements of [`Run::scratch`] that the operation uses on the host.
    fn scratch_len(&self, operands: &[Shape], world: World) -> usize {
        let _ = (operands, world);
        0
    }

    /// The operation's role in a plan.
    fn role(&self) -> Role {
        Role::Local
    }

    /// True if the result is a constant for the gradient.
    fn is_constant(&self) -> bool {
        false
    }
}

/// The role of an operation in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Computed by one rank alone; equal ones are computed once.
    Local,
    /// As [`Role::Local`], but computed anew for each reader: cheaper than the memory to keep the result in.
    Recomputed,
    /// The operand itself: nothing is computed.
    Alias,
    /// Ranks exchange values, so all of them come to it, in one order.
    Exchange,
}

/// The rank's place in the world, for the operations whose shapes depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Number of this rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
}

/// A value that an operation reads.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'b> {
    /// Row-major elements.
    pub values: &'b Arc<Buffer>,
    /// Rows and columns.
    pub shape: Shape,
}

/// The place of an operation's result.
#[derive(Debug)]
pub struct Output<'b> {
    /// Row-major elements, of unspecified contents so far.
    pub values: &'b mut Buffer,
    /// Rows and columns.
    pub shape: Shape,
}

impl Operand<'_> {
    /// The shape as the device's row operations take it.
    pub fn rows(&self) -> Rows {
        Rows {
            n_rows: self.shape.rows,
            width: self.shape.cols,
        }
    }
}

/// One step of the backward pass: an operation's operands and result, and the derivative by its result.
#[derive(Debug)]
pub struct Adjoint<'a> {
    /// The values that the operation read.
    pub operands: &'a [Var],
    /// Its result.
    pub y: Var,
    /// The derivative by the result.
    pub dy: Var,
    /// For each operand, true if it needs a derivative.
    pub(crate) wanted: &'a [bool],
}

impl Adjoint<'_> {
    /// True if an operand needs a derivative.
    pub fn wants(&self, operand: usize) -> bool {
        self.wanted[operand]
    }
}

/// The row numbers of a gather (its result's rows) or of a scatter (its operand's rows).
#[derive(Debug, Clone)]
pub struct RowNumbers<'a> {
    /// Rows of the table.
    pub n_rows: usize,
    /// Rows of the table by number; `u32::MAX` is none.
    pub numbers: Cow<'a, [u32]>,
}

/// One computation: what it reads, where its result goes, and its means.
#[derive(Debug)]
pub struct Run<'a> {
    /// The device, and the ranks beyond it.
    pub comm: DeviceComm<'a>,
    /// The values that the operation reads.
    pub operands: &'a [Operand<'a>],
    /// The place of its result.
    pub out: Output<'a>,
    /// The operation's row numbers, where the device has them already.
    pub(crate) index: Option<&'a RowIndex>,
    /// Memory that is kept from run to run, of no specified length; empty after an error.
    pub scratch: &'a mut Vec<f32>,
}

/// A gather or a scatter of rows of a width.
type RowsByIndex =
    fn(&Device, &RowIndex, usize, &Buffer, &mut Buffer) -> Result<(), shardgraph_device::Error>;

impl<'a> Run<'a> {
    /// This rank's device.
    pub fn device(&self) -> &'a Device {
        self.comm.device()
    }

    /// Rows of the first operand by [`Operation::row_numbers`]; `u32::MAX` gives zeros.
    ///
    /// # Errors
    /// The device's.
    pub fn gather_rows(&mut self, operation: &dyn Operation) -> Result<(), Error> {
        self.by_index(operation, ops::gather_rows)
    }

    /// Rows of the first operand added into rows of zeros by [`Operation::row_numbers`]; `u32::MAX` is left out.
    ///
    /// # Errors
    /// The device's.
    pub fn scatter_rows(&mut self, operation: &dyn Operation) -> Result<(), Error> {
        self.by_index(operation, ops::scatter_rows)
    }

    fn by_index(&mut self, operation: &dyn Operation, work: RowsByIndex) -> Result<(), Error> {
        let (device, x) = (self.device(), self.operands[0]);
        let uploaded;
        let index = match self.index {
            Some(index) => index,
            None => {
                let Some(numbers) = operation.row_numbers(&[x.shape], self.out.shape) else {
                    let name = operation.name();
                    return Err(Error::Usage(format!("{name}: it has no row numbers")));
                };
                uploaded = RowIndex::upload(device, numbers.n_rows, numbers.numbers)?;
                &uploaded
            }
        };
        Ok(work(
            device,
            index,
            x.shape.cols,
            x.values,
            self.out.values,
        )?)
    }
}

/// Data that is shared between operations by `Arc`, such as row numbers or a graph.
///
/// Clones of one `Arc` are one payload: a program that is refilled replaces it in all operations that share it.
#[derive(Clone)]
pub struct Payload {
    address: usize,
    shared: Arc<dyn Any + Send + Sync>,
}

impl Payload {
    /// The payload behind an `Arc`.
    pub fn new<T: ?Sized + Send + Sync + 'static>(shared: &Arc<T>) -> Self {
        Self {
            address: Arc::as_ptr(shared).cast::<u8>().addr(),
            shared: Arc::new(Arc::clone(shared)),
        }
    }

    /// The `Arc`, if it is of this type.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        self.shared.downcast_ref()
    }

    /// The same for all clones of one `Arc`, and for nothing else that is alive.
    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:#x})", self.address)
    }
}

/// An operation's type, name, operands and numbers: equal for operations of two recordings of one program.
pub(crate) type Signature = (Option<TypeId>, &'static str, Vec<u64>);

/// [`Signature`] of an operation whose operands have these numbers.
pub(crate) fn signature(op: &crate::Op, operand: impl Fn(Var) -> u32) -> Signature {
    let mut numbers: Vec<u64> = op
        .operands()
        .iter()
        .map(|&var| operand(var).into())
        .collect();
    let type_id = match op {
        crate::Op::Input(_) => None,
        crate::Op::Param(id) => {
            numbers.push(id.0.into());
            None
        }
        crate::Op::Apply { operation, .. } => {
            numbers.extend(operation.numbers());
            let operation: &dyn Any = &**operation;
            Some(operation.type_id())
        }
    };
    (type_id, op.name(), numbers)
}
