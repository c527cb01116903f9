//! Parameters of recurrent cells, with a block of columns for each gate.

use shardgraph_autodiff::{ParamId, Params, Shape};

use crate::error::Call;
use crate::initialiser::add;
use crate::{Error, Initialiser};

/// Widths of a recurrent cell.
#[derive(Clone, Copy)]
pub(crate) struct CellSize {
    pub(crate) n_inputs: usize,
    pub(crate) n_hidden: usize,
    /// Blocks of `n_hidden` columns: gates and candidate.
    pub(crate) n_blocks: usize,
}

/// Adds the parameters of one cell, whose scope is the component of `call`.
pub(crate) struct CellParams<'a> {
    params: &'a mut Params,
    call: Call<'a>,
    size: CellSize,
    initialiser: Initialiser,
}

impl<'a> CellParams<'a> {
    pub(crate) fn new(
        params: &'a mut Params,
        call: Call<'a>,
        size: CellSize,
        initialiser: Initialiser,
    ) -> Result<Self, Error> {
        call.expect_positive("the number of inputs", size.n_inputs)?;
        call.expect_positive("the number of hidden units", size.n_hidden)?;
        initialiser.check(call)?;
        Ok(Self {
            params,
            call,
            size,
            initialiser: initialiser.with_gain_of(|gains| gains.memory),
        })
    }

    /// `scope/w_x [n_inputs, n_blocks * n_hidden]` and `scope/w_h [n_hidden, n_blocks * n_hidden]`.
    pub(crate) fn add_weights(&mut self) -> Result<(ParamId, ParamId), Error> {
        let (n_inputs, n_hidden) = (self.size.n_inputs, self.size.n_hidden);
        Ok((
            self.add_matrix("w_x", n_inputs)?,
            self.add_matrix("w_h", n_hidden)?,
        ))
    }

    fn add_matrix(&mut self, name: &str, n_rows: usize) -> Result<ParamId, Error> {
        let name = format!("{}/{name}", self.call.component);
        let shape = Shape::new(n_rows, self.n_columns());
        let values = self.initialiser.weights(&name, shape, self.size.n_hidden);
        add(self.params, self.call, &name, shape, &values)
    }

    /// `scope/name [1, n_blocks * n_hidden]`, after `adjust`.
    pub(crate) fn add_biases(
        &mut self,
        name: &str,
        adjust: impl FnOnce(&mut [f32]),
    ) -> Result<ParamId, Error> {
        let (name, n) = (format!("{}/{name}", self.call.component), self.n_columns());
        let mut values = self.initialiser.biases(&name, n, self.size.n_hidden);
        adjust(&mut values);
        add(self.params, self.call, &name, Shape::new(1, n), &values)
    }

    fn n_columns(&self) -> usize {
        self.size.n_blocks * self.size.n_hidden
    }
}
