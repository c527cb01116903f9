//! Rows of the input that are too many for the device's memory: they stay in the host's with the optimiser's means, and
//! come to the device tile by tile.
//!
//! Three passes over the tiles are a step: the sums of messages, the gradient of the relations' rows, and the step of the rows
//! themselves, which then go back. Copies go through the pinned memory of the device's stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardgraph_autodiff::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops as ops;

use super::StepRule;
use super::operations::RelationResult;
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
    fn numbers(&self, tile: &Tile) -> std::ops::Range<usize> {
        let rows = match self.terms {
            Some(_) => &tile.sources,
            None => &tile.pairs,
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
        let messages = self.messages(gradient.table.as_deref());
        let HostRows { values, means } = &mut *self.lock();
        self.tiles.each(device, |tile| {
            let numbers = self.numbers(tile);
            let mut of_rows = tile.source_gradient(device, messages, &gradient.sums)?;
            let mut rows = device.upload(&values[numbers.clone()])?;
            if decay > 0.0 {
                // A step of descent: gradient -= -decay * rows.
                ops::sgd(device, -decay, &mut of_rows, &rows, None)?;
            }
            match rule {
                StepRule::Sgd(sgd) => {
                    ops::sgd(device, sgd.learning_rate, &mut rows, &of_rows, None)?;
                }
                StepRule::Adam(adam) => {
                    let constants = ops::Adam {
                        learning_rate: adam.learning_rate,
                        beta1: adam.beta1,
                        beta2: adam.beta2,
                        epsilon: adam.epsilon,
                        step: adam.n_steps + 1,
                    };
                    let [first, second] = &mut *means;
                    let mut m = device.upload(&first[numbers.clone()])?;
                    let mut v = device.upload(&second[numbers.clone()])?;
                    ops::adam(device, constants, &mut rows, &of_rows, &mut m, &mut v, None)?;
                    first[numbers.clone()].copy_from_slice(&device.download(&m)?);
                    second[numbers.clone()].copy_from_slice(&device.download(&v)?);
                }
            }
            values[numbers].copy_from_slice(&device.download(&rows)?);
            Ok(())
        })
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
        let rows = input.lock();
        let upload = |tile: &Tile| device.upload(&rows.values[input.numbers(tile)]);
        device.clear(out)?;
        match (self.result, input.terms, operand) {
            (RelationResult::RelationGradient, Some(terms), Some(dy)) => {
                input.tiles.each(device, |tile| {
                    tile.add_relation_gradient(device, terms, || upload(tile), dy, out)
                })?;
            }
            _ => input.tiles.each(device, |tile| {
                tile.add_sums(device, upload(tile)?, input.messages(operand), out)
            })?,
        }
        Ok(())
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
