//! One update's gradient: a recorded program over a block of the batch, and the exact sum over the blocks of all ranks.

use shardgraph_autodiff::{Ctx, Params, Program, Recorder};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{SacBatch, SacDistribution, SacLoss, SacNetworks};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;
use shardgraph_replay::Rows;

use super::config::SacConfig;
use crate::block_sum::BlockSum;
use crate::dqn::column;
use crate::error::Error;
use crate::run_environments::Spaces;

/// What an update was like, over the whole batch and before its step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SacUpdate {
    /// Of the critics.
    pub(crate) critic: f32,
    pub(crate) policy: f32,
    /// Of the policy, in nats.
    pub(crate) entropy: f32,
    /// The mean of the first critic's values of the actions that were taken.
    pub(crate) q_mean: f32,
}

/// The names of the numbers of [`SacUpdate`], which follow the gradient.
const NUMBERS: [&str; 4] = ["critic", "policy", "entropy", "mean value"];

/// The program of one block, and what the blocks of a batch add up to.
#[derive(Debug)]
pub(super) struct UpdateProgram {
    program: Program,
    inputs: SacBatch,
    n_blocks: usize,
    block_rows: usize,
    n_action_columns: usize,
    solo: Comm,
    /// Gradient and [`NUMBERS`].
    sum: BlockSum,
    /// Actions of the block, as the critics read them.
    actions: Vec<f32>,
    /// Standard normal numbers of the batch: for its observations, then for the next ones.
    noise: Vec<f32>,
}

impl UpdateProgram {
    /// Records the program of a block of the settings' batch.
    pub(super) fn new(
        config: &SacConfig,
        params: &Params,
        networks: &SacNetworks<'_>,
        spaces: &Spaces,
        device: &Device,
    ) -> Result<UpdateProgram, Error> {
        let n_blocks = config.gradient_blocks;
        let block_rows = config.batch_size / n_blocks;
        let mut record = Recorder::new(params, 0, 1);
        let n_action_columns = spaces.n_action_columns();
        let inputs = SacBatch::inputs(&mut record, block_rows, networks, n_action_columns)?;
        let loss = SacLoss {
            target_entropy: config.target_entropy(spaces),
        };
        let out = loss.of_networks(&mut record, networks, &inputs)?;
        // The block's part of the means over the batch.
        let share = 1.0 / n_blocks as f32;
        for (name, number) in
            NUMBERS
                .into_iter()
                .zip([out.critic, out.policy, out.entropy, out.q_mean])
        {
            let part = record.scale(number, share)?;
            record.output(name, part);
        }
        let loss = record.scale(out.loss, share)?;
        record.output_param_gradient(loss)?;
        let width = params.trained_len() + NUMBERS.len();
        let n_noise = 2 * config.batch_size * networks.policy.n_noise_columns();
        Ok(UpdateProgram {
            program: record.plan().load(device)?,
            inputs,
            n_blocks,
            block_rows,
            n_action_columns,
            solo: Comm::solo(),
            sum: BlockSum::new(n_blocks, width),
            actions: Vec::with_capacity(block_rows * n_action_columns),
            noise: vec![0.0; n_noise],
        })
    }

    /// The gradient of the batch's loss by all trained weights. The noise of the policy's actions is of the stream, for the whole batch on
    /// each rank.
    pub(super) fn gradient(
        &mut self,
        params: &Params,
        distribution: &SacDistribution,
        rows: &Rows,
        stream: &mut KeyedRng,
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<(&mut [f32], SacUpdate), Error> {
        let own = self.sum.begin(comm)?;
        for element in &mut self.noise {
            *element = stream.normal() as f32;
        }
        for block in own {
            self.run_block(params, distribution, rows, block)?;
        }
        self.sum.sum(comm, deadline)?;
        let (gradient, rest) = self.sum.total.split_at_mut(params.trained_len());
        let update = SacUpdate {
            critic: rest[0],
            policy: rest[1],
            entropy: rest[2],
            q_mean: rest[3],
        };
        Ok((gradient, update))
    }

    fn run_block(
        &mut self,
        params: &Params,
        distribution: &SacDistribution,
        rows: &Rows,
        block: usize,
    ) -> Result<(), Error> {
        let (first, n) = (block * self.block_rows, self.block_rows);
        let part = |idx: usize| {
            let width = rows.layout().columns()[idx].width;
            &rows.f32s(idx)[first * width..(first + n) * width]
        };
        self.actions.clear();
        match distribution {
            SacDistribution::Squashed(policy) => {
                policy.drawn_into(part(column::ACTION), &mut self.actions);
            }
            SacDistribution::Softmax(_) => {
                self.actions.resize(n * self.n_action_columns, 0.0);
                let taken = &rows.u32s(column::ACTION)[first..first + n];
                let rows = self.actions.chunks_exact_mut(self.n_action_columns);
                rows.zip(taken)
                    .for_each(|(row, &action)| row[action as usize] = 1.0);
            }
        }
        let inputs = &self.inputs;
        let program = &mut self.program;
        program.set_input(inputs.observations, part(column::OBSERVATION))?;
        program.set_input(inputs.actions, &self.actions)?;
        program.set_input(inputs.rewards, part(column::REWARD))?;
        program.set_input(inputs.discounts, part(column::DISCOUNT))?;
        program.set_input(inputs.next_observations, part(column::NEXT_OBSERVATION))?;
        let (now, next) = self.noise.split_at(self.noise.len() / 2);
        let width = now.len() / (self.n_blocks * n);
        let of_block = first * width..(first + n) * width;
        for (input, noise) in [(inputs.noise, now), (inputs.next_noise, next)] {
            if let Some(input) = input {
                program.set_input(input, &noise[of_block.clone()])?;
            }
        }
        program.run(&mut self.solo, params)?;
        program.append_param_gradient(&mut self.sum.partials)?;
        for name in NUMBERS {
            self.sum.partials.extend(program.read(name)?);
        }
        Ok(())
    }
}
