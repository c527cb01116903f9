//! One update: a recorded program over a block of the batch, the exact sum over the blocks of all ranks, and the step.

use std::fmt::Display;

use shardgraph_autodiff::{Ctx, Params, Recorder};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{DqnBatch, QNetwork};
use shardgraph_device::Device;
use shardgraph_replay::{ColumnLayout, Rows};

use super::config::DqnConfig;
use super::memory::{column, layout_of};
use crate::block_update::{BatchShape, BlockUpdate, Trained};
use crate::error::{Call, Error, diverged};
use crate::observations::penalties;
use crate::run_environments::Spaces;

/// What an update was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// The loss before the step, over the whole batch.
    pub loss: f32,
    /// The mean over the batch of the online network's values of the actions that were taken.
    pub q_mean: f32,
}

/// The program of one block, and what its inputs are made of.
#[derive(Debug)]
pub(super) struct UpdateProgram {
    blocks: BlockUpdate,
    inputs: DqnBatch,
    layout: ColumnLayout,
    n_blocks: usize,
    block_rows: usize,
    n_actions: usize,
    one_hot: Vec<f32>,
    penalties: Vec<f32>,
}

impl UpdateProgram {
    /// Records the program of a block of the settings' batch.
    pub(super) fn new(
        config: &DqnConfig,
        params: &Params,
        online: &QNetwork,
        target: &QNetwork,
        spaces: &Spaces,
        device: &Device,
    ) -> Result<UpdateProgram, Error> {
        let n_blocks = config.gradient_blocks;
        let block_rows = config.batch_size / n_blocks;
        let is_weighted = config.replay.prioritized.is_some();
        let mut record = Recorder::new(params, 0, 1);
        let mut inputs = DqnBatch::inputs(&mut record, block_rows, online, is_weighted)?;
        if spaces.has_mask() {
            inputs = inputs.with_next_mask(&mut record, online)?;
        }
        let output = config
            .loss()
            .of_networks(&mut record, online, target, &inputs)?;
        // The block's part of the means over the batch.
        let share = 1.0 / n_blocks as f32;
        let loss = record.scale(output.loss, share)?;
        let sum = record.sum_rows(output.predictions)?;
        let q_mean = record.scale(sum, share / block_rows as f32)?;
        let told = [loss, q_mean, output.td_errors];
        let shape = BatchShape {
            n_params: params.trained_len(),
            n_blocks,
            n_numbers: 2,
            n_rows: block_rows,
        };
        Ok(UpdateProgram {
            blocks: BlockUpdate::load(record, loss, &told, shape, device)?,
            inputs,
            layout: layout_of(spaces)?,
            n_blocks,
            block_rows,
            n_actions: online.n_actions(),
            one_hot: vec![0.0; block_rows * online.n_actions()],
            penalties: Vec::new(),
        })
    }

    /// One step of the optimiser against the batch's gradient by the online weights.
    pub(super) fn step(
        &mut self,
        trained: Trained<'_>,
        batch: (&Rows, Option<&[f32]>),
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<Update, Error> {
        let Trained { params, optimiser } = trained;
        self.check(batch.0, batch.1)?;
        for block in self.blocks.begin(comm)? {
            self.set_block(batch.0, batch.1, block)?;
            self.blocks.run_block(block, params, optimiser)?;
        }
        let numbers = self.blocks.sum(comm, deadline)?;
        let update = Update {
            loss: numbers[0],
            q_mean: numbers[1],
        };
        if !update.loss.is_finite() {
            return Err(diverged("DqnAgent", "update", "the loss"));
        }
        self.blocks.step(params, optimiser)?;
        Ok(update)
    }

    /// The columns of a batch.
    pub(super) fn layout(&self) -> &ColumnLayout {
        &self.layout
    }

    /// The TD errors of the last batch.
    pub(super) fn td_errors(&self) -> &[f32] {
        self.blocks.rows()
    }

    fn set_block(
        &mut self,
        rows: &Rows,
        weights: Option<&[f32]>,
        block: usize,
    ) -> Result<(), Error> {
        let (first, n) = (block * self.block_rows, self.block_rows);
        let part = |idx: usize| {
            let width = self.layout.columns()[idx].width;
            &rows.f32s(idx)[first * width..(first + n) * width]
        };
        self.one_hot.fill(0.0);
        let actions = &rows.u32s(column::ACTION)[first..first + n];
        for (row, &action) in self.one_hot.chunks_exact_mut(self.n_actions).zip(actions) {
            row[action as usize] = 1.0;
        }
        let (inputs, blocks) = (&self.inputs, &mut self.blocks);
        blocks.set_input(inputs.observations, part(column::OBSERVATION))?;
        blocks.set_input(inputs.actions, &self.one_hot)?;
        blocks.set_input(inputs.rewards, part(column::REWARD))?;
        blocks.set_input(inputs.discounts, part(column::DISCOUNT))?;
        blocks.set_input(inputs.next_observations, part(column::NEXT_OBSERVATION))?;
        if let (Some(input), Some(weights)) = (inputs.weights, weights) {
            blocks.set_input(input, &weights[first..first + n])?;
        }
        if let Some(input) = inputs.next_mask {
            let of_block = first * self.n_actions..(first + n) * self.n_actions;
            let flags = &rows.u8s(column::NEXT_MASK)[of_block];
            self.penalties.clear();
            self.penalties
                .extend(penalties(flags.iter().map(|&flag| flag != 0)));
            blocks.set_input(input, &self.penalties)?;
        }
        Ok(())
    }

    /// Whether the batch is one of this agent's.
    fn check(&self, rows: &Rows, weights: Option<&[f32]>) -> Result<(), Error> {
        let n_rows = self.n_blocks * self.block_rows;
        expect("the layout of the batch", &self.layout, rows.layout())?;
        expect("the rows of the batch", &n_rows, &rows.len())?;
        match (self.inputs.weights, weights) {
            (None, None) => {}
            (Some(_), Some(weights)) => {
                expect("the importance weights", &n_rows, &weights.len())?;
            }
            (Some(_), None) => expect("the importance weights", &n_rows, &0)?,
            (None, Some(weights)) => expect("the importance weights", &0, &weights.len())?,
        }
        let broken = weights.and_then(|weights| weights.iter().find(|x| !x.is_finite()));
        if let Some(weight) = broken {
            return Err(UPDATE.mismatch("an importance weight", "a finite number", weight));
        }
        let largest = rows.u32s(column::ACTION).iter().max();
        match largest.filter(|&&action| action as usize >= self.n_actions) {
            None => Ok(()),
            Some(action) => {
                let expected = format!("0 to {}", self.n_actions - 1);
                Err(UPDATE.mismatch("an action of the batch", expected, action))
            }
        }
    }
}

fn expect<T: PartialEq + Display>(what: &str, expected: &T, given: &T) -> Result<(), Error> {
    match expected == given {
        true => Ok(()),
        false => Err(UPDATE.mismatch(what, expected, given)),
    }
}

const UPDATE: Call = Call {
    component: "DqnAgent",
    method: "update",
};
