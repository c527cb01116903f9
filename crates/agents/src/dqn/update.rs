//! One update's gradient: a recorded program over a block of the batch, and the exact sum over the blocks of all ranks.

use std::fmt::Display;

use shardgraph_autodiff::{Ctx, Params, Program, Recorder};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{DqnBatch, QNetwork};
use shardgraph_device::Device;
use shardgraph_replay::{ColumnLayout, Rows};

use super::config::DqnConfig;
use super::memory::{column, layout_of};
use crate::block_sum::BlockSum;
use crate::error::{Call, Error};
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

/// The program of one block, and what the blocks of a batch add up to.
#[derive(Debug)]
pub(super) struct UpdateProgram {
    program: Program,
    inputs: DqnBatch,
    layout: ColumnLayout,
    n_blocks: usize,
    block_rows: usize,
    n_actions: usize,
    solo: Comm,
    /// Gradient, loss, mean value, and the TD errors of the batch, 0 outside of the block.
    sum: BlockSum,
    one_hot: Vec<f32>,
    penalties: Vec<f32>,
}

/// The gradient of a batch, and what is told of it.
pub(super) struct Gradient<'a> {
    pub(super) gradient: &'a mut [f32],
    pub(super) update: Update,
}

const LOSS: &str = "loss";
const Q_MEAN: &str = "mean value";
const TD_ERRORS: &str = "TD errors";

impl UpdateProgram {
    /// Records the program of a block of the settings' batch.
    pub(super) fn new(
        config: &DqnConfig,
        params: &Params,
        (online, target): (&QNetwork, &QNetwork),
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
        record.output(LOSS, loss);
        record.output(Q_MEAN, q_mean);
        record.output(TD_ERRORS, output.td_errors);
        record.output_param_gradient(loss)?;
        let width = params.trained_len() + 2 + config.batch_size;
        Ok(UpdateProgram {
            program: record.plan().load(device)?,
            inputs,
            layout: layout_of(spaces)?,
            n_blocks,
            block_rows,
            n_actions: online.n_actions(),
            solo: Comm::solo(),
            sum: BlockSum::new(n_blocks, width),
            one_hot: vec![0.0; block_rows * online.n_actions()],
            penalties: Vec::new(),
        })
    }

    /// The gradient of the batch's loss by the online weights.
    pub(super) fn gradient(
        &mut self,
        params: &Params,
        (rows, weights): (&Rows, Option<&[f32]>),
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<Gradient<'_>, Error> {
        self.check(rows, weights)?;
        for block in self.sum.begin(comm)? {
            self.run_block(params, (rows, weights), block)?;
        }
        self.sum.sum(comm, deadline)?;
        let n_params = params.trained_len();
        let (gradient, rest) = self.sum.total.split_at_mut(n_params);
        let update = Update {
            loss: rest[0],
            q_mean: rest[1],
        };
        Ok(Gradient { gradient, update })
    }

    /// The columns of a batch.
    pub(super) fn layout(&self) -> &ColumnLayout {
        &self.layout
    }

    /// The TD errors of the last batch.
    pub(super) fn td_errors(&self) -> &[f32] {
        let n_rows = self.n_blocks * self.block_rows;
        &self.sum.total[self.sum.total.len() - n_rows..]
    }

    fn run_block(
        &mut self,
        params: &Params,
        (rows, weights): (&Rows, Option<&[f32]>),
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
        let inputs = &self.inputs;
        self.program
            .set_input(inputs.observations, part(column::OBSERVATION))?;
        self.program.set_input(inputs.actions, &self.one_hot)?;
        self.program
            .set_input(inputs.rewards, part(column::REWARD))?;
        self.program
            .set_input(inputs.discounts, part(column::DISCOUNT))?;
        self.program
            .set_input(inputs.next_observations, part(column::NEXT_OBSERVATION))?;
        if let (Some(input), Some(weights)) = (inputs.weights, weights) {
            self.program.set_input(input, &weights[first..first + n])?;
        }
        if let Some(input) = inputs.next_mask {
            let of_block = first * self.n_actions..(first + n) * self.n_actions;
            let flags = &rows.u8s(column::NEXT_MASK)[of_block];
            self.penalties.clear();
            self.penalties
                .extend(penalties(flags.iter().map(|&flag| flag != 0)));
            self.program.set_input(input, &self.penalties)?;
        }
        self.program.run(&mut self.solo, params)?;
        let partials = &mut self.sum.partials;
        self.program.append_param_gradient(partials)?;
        partials.extend(self.program.read(LOSS)?);
        partials.extend(self.program.read(Q_MEAN)?);
        let behind = partials.len() + self.n_blocks * n;
        partials.resize(partials.len() + first, 0.0);
        partials.extend(self.program.read(TD_ERRORS)?);
        partials.resize(behind, 0.0);
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
