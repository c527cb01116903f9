//! Handles, shapes and the nodes that programs are made of.

use std::fmt;
use std::sync::Arc;

use shardgraph_device::{Buffer, checks};

use crate::{Operation, ParamId};

/// A handle to a value of one interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(pub(crate) u32);

impl Var {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Rows and columns of a row-major matrix; every value is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
}

impl Shape {
    /// A shape of `rows` by `cols`.
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        checks::elements(&[self.rows, self.cols])
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows or columns.
    pub fn along(&self, axis: Axis) -> usize {
        match axis {
            Axis::Rows => self.rows,
            Axis::Cols => self.cols,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.rows, self.cols)
    }
}

/// The direction in which two matrices are joined or one is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// One above the other.
    Rows,
    /// Side by side.
    Cols,
}

/// A constant with its values.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Shape of the constant.
    pub shape: Shape,
    /// Its values; of no length where a recorder was not given them.
    pub values: Arc<Buffer>,
}

/// The origin of a value: a constant, a parameter, or an operation on other values.
#[derive(Debug, Clone)]
pub enum Op {
    /// A constant; no gradient flows into it.
    Input(Leaf),
    /// A parameter (replicated).
    Param(ParamId),
    /// An operation with its operands.
    Apply {
        /// The operation.
        operation: Arc<dyn Operation>,
        /// The values that it reads.
        operands: Vec<Var>,
    },
}

impl Op {
    /// The operation's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Param(_) => "param",
            Self::Apply { operation, .. } => operation.name(),
        }
    }

    /// The values that this operation reads.
    pub fn operands(&self) -> &[Var] {
        match self {
            Self::Input(_) | Self::Param(_) => &[],
            Self::Apply { operands, .. } => operands,
        }
    }

    /// The operation, unless this is a constant or a parameter.
    pub fn operation(&self) -> Option<&dyn Operation> {
        match self {
            Self::Input(_) | Self::Param(_) => None,
            Self::Apply { operation, .. } => Some(&**operation),
        }
    }

    /// The operation as its own type, if it has this one.
    ///
    /// ```
    /// use shardgraph_autodiff::operations::Scale;
    /// use shardgraph_autodiff::{Ctx, Params, Recorder, Shape};
    ///
    /// let params = Params::new();
    /// let mut ctx = Recorder::new(&params, 0, 1);
    /// let x = ctx.input(Shape::new(2, 3), &[])?;
    /// let y = ctx.scale(x, 0.5)?;
    /// assert_eq!(ctx.op(y).downcast::<Scale>().unwrap().factor, 0.5);
    /// # Ok::<(), shardgraph_autodiff::Error>(())
    /// ```
    pub fn downcast<T: Operation>(&self) -> Option<&T> {
        let operation: &dyn std::any::Any = self.operation()?;
        operation.downcast_ref()
    }
}
