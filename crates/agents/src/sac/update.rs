//! One update: a recorded program over a block of the batch, the exact sum over the blocks of all ranks, and the step.

use shardgraph_autodiff::{Ctx, Params, Recorder};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{SacBatch, SacDistribution, SacLoss, SacNetworks};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;
use shardgraph_replay::Rows;

use super::config::SacConfig;
use crate::block_update::{BatchShape, BlockUpdate, Trained};
use crate::dqn::column;
use crate::error::{Error, diverged};
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

/// The program of one block, and what its inputs are made of.
#[derive(Debug)]
pub(super) struct UpdateProgram {
    blocks: BlockUpdate,
    inputs: SacBatch,
    n_blocks: usize,
    block_rows: usize,
    n_action_columns: usize,
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
        let mut told = [out.critic, out.policy, out.entropy, out.q_mean];
        for number in &mut told {
            *number = record.scale(*number, share)?;
        }
        let loss = record.scale(out.loss, share)?;
        let shape = BatchShape {
            n_params: params.trained_len(),
            n_blocks,
            n_numbers: told.len(),
            n_rows: 0,
        };
        let blocks = BlockUpdate::load(record, loss, &told, shape, device)?;
        let n_noise = 2 * config.batch_size * networks.policy.n_noise_columns();
        Ok(UpdateProgram {
            blocks: blocks.with_target_rate(config.tau),
            inputs,
            n_blocks,
            block_rows,
            n_action_columns,
            actions: Vec::with_capacity(block_rows * n_action_columns),
            noise: vec![0.0; n_noise],
        })
    }

    /// One step of the optimiser against the gradient of the batch's loss by all trained weights, and one of the target critics. The
    /// noise of the policy's actions is of the stream, for the whole batch on each rank.
    pub(super) fn step(
        &mut self,
        trained: Trained<'_>,
        distribution: &SacDistribution,
        rows: &Rows,
        stream: &mut KeyedRng,
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<SacUpdate, Error> {
        let Trained { params, optimiser } = trained;
        let own = self.blocks.begin(comm)?;
        for element in &mut self.noise {
            *element = stream.normal() as f32;
        }
        for block in own {
            self.set_block(distribution, rows, block)?;
            self.blocks.run_block(block, params, optimiser)?;
        }
        let told = self.blocks.sum(comm, deadline)?;
        let update = SacUpdate {
            critic: told[0],
            policy: told[1],
            entropy: told[2],
            q_mean: told[3],
        };
        if !(update.critic.is_finite() && update.policy.is_finite()) {
            return Err(diverged("SacAgent", "update", "the loss"));
        }
        self.blocks.step(params, optimiser)?;
        Ok(update)
    }

    fn set_block(
        &mut self,
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
        let (inputs, blocks) = (&self.inputs, &mut self.blocks);
        blocks.set_input(inputs.observations, part(column::OBSERVATION))?;
        blocks.set_input(inputs.actions, &self.actions)?;
        blocks.set_input(inputs.rewards, part(column::REWARD))?;
        blocks.set_input(inputs.discounts, part(column::DISCOUNT))?;
        blocks.set_input(inputs.next_observations, part(column::NEXT_OBSERVATION))?;
        let (now, next) = self.noise.split_at(self.noise.len() / 2);
        let width = now.len() / (self.n_blocks * n);
        let of_block = first * width..(first + n) * width;
        for (input, noise) in [(inputs.noise, now), (inputs.next_noise, next)] {
            if let Some(input) = input {
                blocks.set_input(input, &noise[of_block.clone()])?;
            }
        }
        Ok(())
    }
}
