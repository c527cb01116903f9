//! What can go wrong in this crate: spaces and values that do not fit a component, settings that cannot be right, bytes that are
//! no optimiser, and what a check found.

use std::fmt;

use shardgraph_autodiff::{Ctx, Shape, Var};

/// An error of this crate; [`Error::kind`] says which.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something of another form than a component takes.
    Misfit {
        /// Scope of the component, as `online/torso`.
        component: String,
        /// Type and method, as `Linear::apply`.
        method: &'static str,
        /// What does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// A gradient whose norm is not finite: training has diverged.
    Diverged {
        /// The norm.
        norm: f32,
    },
    /// What [`crate::check`] found.
    Check {
        /// The component's name, as the caller gave it.
        component: String,
        /// The first difference, with its place and both values.
        difference: String,
    },
    /// Bytes that are no state of this optimiser; the payload is the first broken rule, as a clause about the bytes.
    Malformed(String),
    /// An operation failed.
    Autodiff(shardgraph_autodiff::Error),
    /// A space or a value of it failed.
    Environments(shardgraph_environments::Error),
}

impl Error {
    /// Which error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The same, to keep.
    pub fn into_kind(self) -> ErrorKind {
        self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl From<shardgraph_autodiff::Error> for Error {
    fn from(error: shardgraph_autodiff::Error) -> Error {
        ErrorKind::Autodiff(error).into()
    }
}

impl From<shardgraph_environments::Error> for Error {
    fn from(error: shardgraph_environments::Error) -> Error {
        ErrorKind::Environments(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Misfit {
                component,
                method,
                what,
                expected,
                given,
            } => write!(
                f,
                "component `{component}`, {method}: {what}: expected {expected}, given {given}"
            ),
            ErrorKind::Diverged { norm } => write!(
                f,
                "component `optimiser`, Optimiser::step: the gradient's norm: expected finite, given {norm}; training has \
                 diverged: find out where, or try a smaller learning_rate"
            ),
            ErrorKind::Check {
                component,
                difference,
            } => write!(f, "check of `{component}`: {difference}"),
            ErrorKind::Malformed(reason) => write!(
                f,
                "these bytes are no state of this optimiser: {reason}; use bytes that the same version wrote for the same \
                 settings, whole and unchanged"
            ),
            ErrorKind::Autodiff(error) => error.fmt(f),
            ErrorKind::Environments(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Autodiff(error) => Some(error),
            ErrorKind::Environments(error) => Some(error),
            _ => None,
        }
    }
}

/// Which method of which component was called, for its messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) component: &'a str,
    pub(crate) method: &'static str,
}

impl<'a> Call<'a> {
    pub(crate) fn new(component: &'a str, method: &'static str) -> Call<'a> {
        Call { component, method }
    }

    #[cold]
    pub(crate) fn misfit(
        &self,
        what: impl Into<String>,
        expected: impl Into<String>,
        given: impl Into<String>,
    ) -> Error {
        ErrorKind::Misfit {
            component: self.component.to_string(),
            method: self.method,
            what: what.into(),
            expected: expected.into(),
            given: given.into(),
        }
        .into()
    }

    /// Whether `x` has `n_columns` columns.
    pub(crate) fn expect_width(
        &self,
        ctx: &dyn Ctx,
        what: &str,
        x: Var,
        n_columns: usize,
    ) -> Result<(), Error> {
        let given = ctx.shape(x);
        if given.cols == n_columns {
            return Ok(());
        }
        Err(self.misfit(what, format!("{n_columns} columns"), given.to_string()))
    }

    /// Whether `x` has this shape.
    pub(crate) fn expect_shape(
        &self,
        ctx: &dyn Ctx,
        what: &str,
        x: Var,
        shape: Shape,
    ) -> Result<(), Error> {
        let given = ctx.shape(x);
        if given == shape {
            return Ok(());
        }
        Err(self.misfit(what, shape.to_string(), given.to_string()))
    }

    /// Whether a setting is finite and above 0.
    pub(crate) fn expect_above_0(&self, what: &str, x: f32) -> Result<(), Error> {
        if x.is_finite() && x > 0.0 {
            return Ok(());
        }
        Err(self.misfit(what, "a number above 0", x.to_string()))
    }

    /// Whether a setting is finite and not below 0.
    pub(crate) fn expect_not_negative(&self, what: &str, x: f32) -> Result<(), Error> {
        if x.is_finite() && x >= 0.0 {
            return Ok(());
        }
        Err(self.misfit(what, "a number not below 0", x.to_string()))
    }

    /// Whether a number is at least 1.
    pub(crate) fn expect_positive(&self, what: &str, n: usize) -> Result<(), Error> {
        if n > 0 {
            return Ok(());
        }
        Err(self.misfit(what, "at least 1", "0"))
    }
}
