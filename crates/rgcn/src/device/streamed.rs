//! Rows of the input that are too many for the device's memory: they stay in the host's with the optimiser's means, and
//! come to the device tile by tile.
//!
//! Three passes over the tiles are a step: the sums of messages, the gradient of the relations' rows, and the step of the rows
//! themselves, which then go back.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardgraph_autodiff::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops as ops;

use super::StepRule;
use super::operations::RelationResult;
use super::prefetch::{TilePass, TileRange, TileRows};
use super::tiles::{Messages, Tile, Tiles};
use crate::kernels::Terms;
use crate::train::state::Part;

/// The rows of a rank's input, and the messages of its first layer.
#[derive(Debug)]
pub(super) struct StreamedInput {
    pub(super) tiles: Arc<Tiles>,
    /// None where the rows are the messages.
    pub(super) terms: Option<Terms>,
    /// Numbers of a row.
    pub(super) row_len: usize,
    /// False for given features.
    pub(super) is_learnt: bool,
    pub(super) rows: Mutex<HostRows>,
}

/// Rows in host memory, with their means by Adam; else these are empty.
#[derive(Debug, Clone, Default)]
pub(super) struct HostRows {
    pub(super) values: Vec<f32>,
    pub(super) means: [Vec<f32>; 2],
}

impl HostRows {
    /// A number of each row's parameters.
    pub(super) fn part(&self, part: Part) -> &[f32] {
        match part {
            Part::Params => &self.values,
            Part::First => &self.means[0],
            Part::Second => &self.means[1],
        }
    }
}

/// The gradient of the first layer's sums, and the relations' rows that these were made with.
pub(super) struct InputGradient {
    pub(super) sums: Arc<Buffer>,
    pub(super) table: Option<Arc<Buffer>>,
}

impl StreamedInput {
    pub(super) fn lock(&self) -> MutexGuard<'_, HostRows> {
        // A pass that panicked ends the run.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of a tile's rows.
    fn numbers(&self, range: &TileRange) -> Range<usize> {
        let rows = match self.terms {
            Some(_) => &range.sources,
            None => &range.pairs,
        };
        rows.start * self.row_len..rows.end * self.row_len
    }

    fn messages<'t>(&self, table: Option<&'t Buffer>) -> Messages<'t> {
        match (self.terms, table) {
            (Some(terms), Some(table)) => Messages::OfRelations { terms, table },
            _ => Messages::Rows,
        }
    }

    /// The sums of the messages as a value of a program; `table` is the relations' rows.
    pub(super) fn sums(
        self: &Arc<Self>,
        ctx: &mut dyn Ctx,
        table: Option<Var>,
    ) -> Result<Var, Error> {
        let sums = StreamedSums {
            input: Arc::clone(self),
            result: RelationResult::Value,
        };
        ctx.apply(Arc::new(sums), table.as_slice())
    }

    /// Steps all learnt rows against the gradient of the sums: tile by tile they come with their means, and go back.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn step(
        &self,
        device: &Device,
        rule: &StepRule,
        decay: f32,
        gradient: &InputGradient,
    ) -> Result<(), device::Error> {
        if !self.is_learnt {
            return Ok(());
        }
        let mut step = RowStep {
            input: self,
            rows: &mut self.lock(),
            rule,
            decay,
            gradient,
        };
        self.tiles.pass(device, &mut step)
    }
}

/// The error of a tile that came with its lists alone.
fn no_rows() -> device::Error {
    device::Error::invalid("streamed_sums", "a tile without its rows".to_string())
}

/// The step of all learnt rows.
struct RowStep<'s> {
    input: &'s StreamedInput,
    rows: &'s mut HostRows,
    rule: &'s StepRule,
    decay: f32,
    gradient: &'s InputGradient,
}

impl TilePass for RowStep<'_> {
    fn load(
        &self,
        to_device: &Device,
        range: &TileRange,
    ) -> Result<Option<TileRows>, device::Error> {
        let HostRows { values, means } = &*self.rows;
        let numbers = self.input.numbers(range);
        let upload = |values: &[f32]| to_device.upload(&values[numbers.clone()]);
        Ok(Some(TileRows {
            values: upload(values)?,
            means: match self.rule {
                StepRule::Sgd(_) => None,
                StepRule::Adam(_) => Some([upload(&means[0])?, upload(&means[1])?]),
            },
        }))
    }

    fn compute(
        &mut self,
        device: &Device,
        tile: &Tile,
        rows: Option<TileRows>,
    ) -> Result<Option<TileRows>, device::Error> {
        let mut rows = rows.ok_or_else(no_rows)?;
        let InputGradient { sums, table } = self.gradient;
        let messages = self.input.messages(table.as_deref());
        let mut of_rows = tile.source_gradient(device, messages, sums)?;
        let values = &mut rows.values;
        if self.decay > 0.0 {
            // A step of descent: gradient -= -decay * rows.
            ops::sgd(device, -self.decay, &mut of_rows, values, None)?;
        }
        match (self.rule, &mut rows.means) {
            (StepRule::Adam(adam), Some([m, v])) => {
                let constants = ops::Adam {
                    learning_rate: adam.learning_rate,
                    beta1: adam.beta1,
                    beta2: adam.beta2,
                    epsilon: adam.epsilon,
                    step: adam.n_steps + 1,
                };
                ops::adam(device, constants, values, &of_rows, m, v, None)?;
            }
            (StepRule::Sgd(sgd), _) => {
                ops::sgd(device, sgd.learning_rate, values, &of_rows, None)?;
            }
            (StepRule::Adam(_), None) => return Err(no_rows()),
        }
        Ok(Some(rows))
    }

    fn take_back(
        &mut self,
        to_host: &Device,
        range: &TileRange,
        rows: &TileRows,
    ) -> Result<(), device::Error> {
        let HostRows { values, means } = &mut *self.rows;
        let numbers = self.input.numbers(range);
        let download = |buffer: &Buffer, values: &mut [f32]| {
            let mut rest = &mut values[numbers.clone()];
            to_host.download_to(buffer, |piece| {
                let (next, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
                next.copy_from_slice(piece);
                rest = behind;
                Ok::<(), device::Error>(())
            })
        };
        download(&rows.values, values)?;
        for (mean, buffer) in means.iter_mut().zip(rows.means.iter().flatten()) {
            download(buffer, mean)?;
        }
        Ok(())
    }
}

/// The sums of the first layer's messages, or the gradient of its relations' rows.
#[derive(Debug)]
struct StreamedSums {
    input: Arc<StreamedInput>,
    result: RelationResult,
}

impl Operation for StreamedSums {
    fn name(&self) -> &'static str {
        "streamed_sums"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let size = self.input.tiles.size();
        let width = self
            .input
            .terms
            .map_or(self.input.row_len, |terms| terms.width);
        let sums = Shape::new(size.n_targets, width);
        let table = self
            .input
            .terms
            .map(|terms| Shape::new(size.n_relations, terms.relation_len()));
        let (expected, result) = match (self.result, table) {
            (RelationResult::RelationGradient, Some(table)) => (Some(sums), table),
            _ => (table, sums),
        };
        match operands == expected.as_slice() {
            true => Ok(result),
            false => Err(expected.map_or("nothing is expected".to_owned(), |shape| {
                format!("{shape} is expected")
            })),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let (device, input) = (run.device(), &*self.input);
        let operand = run.operands.first().map(|operand| &**operand.values);
        let out = &mut *run.out.values;
        device.clear(out)?;
        let mut pass = ReadPass {
            input,
            rows: &input.lock(),
            result: self.result,
            operand,
            out,
        };
        Ok(input.tiles.pass(device, &mut pass)?)
    }

    /// Of the relations' rows; [`StreamedInput::step`] makes that of the input's.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        if self.result != RelationResult::Value {
            return Err(Error::NoAdjoint(self.name()));
        }
        let mut gradients = Vec::new();
        for operand in 0..at.operands.len() {
            let gradient = StreamedSums {
                input: Arc::clone(&self.input),
                result: RelationResult::RelationGradient,
            };
            gradients.push(match at.wants(operand) {
                true => Some(ctx.apply(Arc::new(gradient), &[at.dy])?),
                false => None,
            });
        }
        Ok(gradients)
    }
}

/// A pass that reads all rows.
struct ReadPass<'p> {
    input: &'p StreamedInput,
    rows: &'p HostRows,
    result: RelationResult,
    /// The relations' rows, or the gradient of the sums.
    operand: Option<&'p Buffer>,
    out: &'p mut Buffer,
}

impl TilePass for ReadPass<'_> {
    fn load(
        &self,
        to_device: &Device,
        range: &TileRange,
    ) -> Result<Option<TileRows>, device::Error> {
        let values = &self.rows.values[self.input.numbers(range)];
        Ok(Some(TileRows {
            values: to_device.upload(values)?,
            means: None,
        }))
    }

    fn compute(
        &mut self,
        device: &Device,
        tile: &Tile,
        rows: Option<TileRows>,
    ) -> Result<Option<TileRows>, device::Error> {
        let TileRows { values, .. } = rows.ok_or_else(no_rows)?;
        match (self.result, self.input.terms, self.operand) {
            (RelationResult::RelationGradient, Some(terms), Some(dy)) => {
                let of_messages = tile.message_gradient(device, dy)?;
                tile.add_relation_gradient(device, terms, &values, &of_messages, self.out)?;
            }
            (_, _, table) => {
                tile.add_sums(device, values, self.input.messages(table), self.out)?;
            }
        }
        Ok(None)
    }

    fn take_back(&mut self, _: &Device, _: &TileRange, _: &TileRows) -> Result<(), device::Error> {
        Ok(())
    }
}
