//! The errors of this crate: spaces and values that do not fit a component, settings that cannot be
//! right, damaged optimiser states, and diverged training.

use shardgraph_autodiff::{Ctx, Shape, Var};
use shardgraph_error::Class;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something of another form than a component takes.
    #[error("component `{component}`, {method}: {what}: expected {expected}, given {given}")]
    Mismatch {
        /// Scope of the component, as `online/torso`.
        component: String,
        /// Type and method, as `Linear::apply`.
        method: &'static str,
        /// The part that does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// A gradient whose norm is not finite: training has diverged.
    #[error(
        "component `optimiser`, Optimiser::step: the gradient's norm: expected finite, given {norm}; training has \
         diverged: find out where, or try a smaller learning_rate"
    )]
    Diverged {
        /// The norm.
        norm: f32,
    },
    /// Bytes that are no state of this optimiser; the payload is the first broken rule, as a clause
    /// about the bytes.
    #[error(
        "these bytes are no state of this optimiser: {0}; use bytes that the same version wrote for the same \
         settings, whole and unchanged"
    )]
    Malformed(String),
    /// An operation failed.
    #[error(transparent)]
    Autodiff(#[from] shardgraph_autodiff::Error),
    /// A space or a value of it failed.
    #[error(transparent)]
    Environments(#[from] shardgraph_environments::Error),
}

impl Error {
    /// The class of this error: its exit code.
    pub fn class(&self) -> Class {
        match self {
            Error::Mismatch { .. } | Error::Malformed(_) => Class::Input,
            Error::Environments(error) => error.class(),
            Error::Diverged { .. } | Error::Autodiff(_) => Class::NoAnswer,
        }
    }
}

/// The component and the method that were called, for messages.
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
    pub(crate) fn mismatch(
        &self,
        what: impl Into<String>,
        expected: impl Into<String>,
        given: impl ToString,
    ) -> Error {
        Error::Mismatch {
            component: self.component.to_string(),
            method: self.method,
            what: what.into(),
            expected: expected.into(),
            given: given.to_string(),
        }
    }

    /// Checks that `x` has `n_columns` columns.
    pub(crate) fn expect_width(
        &self,
        ctx: &dyn Ctx,
        what: &str,
        x: Var,
        n_columns: usize,
    ) -> Result<(), Error> {
        let given = ctx.shape(x);
        self.expect(
            given.cols == n_columns,
            what,
            format_args!("{n_columns} columns"),
            given,
        )
    }

    /// Checks that `x` has this shape.
    pub(crate) fn expect_shape(
        &self,
        ctx: &dyn Ctx,
        what: &str,
        x: Var,
        shape: Shape,
    ) -> Result<(), Error> {
        let given = ctx.shape(x);
        self.expect(given == shape, what, shape, given)
    }

    /// Checks that a setting is finite and above 0.
    pub(crate) fn expect_above_0(&self, what: &str, x: f32) -> Result<(), Error> {
        self.expect(x.is_finite() && x > 0.0, what, "a number above 0", x)
    }

    /// Checks that a setting is finite and not below 0.
    pub(crate) fn expect_not_negative(&self, what: &str, x: f32) -> Result<(), Error> {
        self.expect(x.is_finite() && x >= 0.0, what, "a number not below 0", x)
    }

    /// Checks that a number is at least 1.
    pub(crate) fn expect_positive(&self, what: &str, n: usize) -> Result<(), Error> {
        self.expect(n > 0, what, "at least 1", n)
    }

    fn expect(
        &self,
        holds: bool,
        what: &str,
        expected: impl ToString,
        given: impl ToString,
    ) -> Result<(), Error> {
        match holds {
            true => Ok(()),
            false => Err(self.mismatch(what, expected.to_string(), given)),
        }
    }
}
