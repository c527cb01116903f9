//! The program of a block's part of a minibatch, recorded once: its loss, and the gradient by the weights.

use shardgraph_autodiff::{Ctx, Params, Recorder, Shape, Var};
use shardgraph_components::{ActionDistribution, ActorCritic, PpoBatch};
use shardgraph_device::Device;

use super::block::Rollout;
use super::config::PpoConfig;
use crate::block_update::{BatchShape, BlockUpdate};
use crate::error::Error;

/// The means over a minibatch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Losses {
    pub(super) loss: f32,
    pub(super) policy: f32,
    pub(super) value: f32,
    pub(super) entropy: f32,
    pub(super) kl: f32,
}

impl Losses {
    /// How many numbers they are.
    pub(super) const N: usize = 5;

    /// Of the numbers that [`UpdateProgram`] gives of a minibatch.
    pub(super) fn of(numbers: &[f32]) -> Losses {
        Losses {
            loss: numbers[0],
            policy: numbers[1],
            value: numbers[2],
            entropy: numbers[3],
            kl: numbers[4],
        }
    }
}

/// The program and what its inputs are made of.
#[derive(Debug)]
pub(super) struct UpdateProgram {
    pub(super) blocks: BlockUpdate,
    observations: Var,
    batch: PpoBatch,
    n_rows: usize,
    width: usize,
    n_actions: usize,
    values: Vec<f32>,
    actions: Vec<u32>,
}

impl UpdateProgram {
    /// For `n_rows` steps of a block.
    pub(super) fn new(
        ppo: &PpoConfig,
        params: &Params,
        network: &ActorCritic,
        policy: &ActionDistribution,
        has_mask: bool,
        n_rows: usize,
        device: &Device,
    ) -> Result<UpdateProgram, Error> {
        let mut record = Recorder::new(params, 0, 1);
        let shape = Shape::new(n_rows, network.n_inputs());
        let observations = record.input(shape, &vec![0.0; shape.len()])?;
        let batch = PpoBatch::inputs(&mut record, n_rows, policy, has_mask)?;
        let said = network.apply(&mut record, observations)?;
        let out = ppo.loss.apply(&mut record, policy, said, &batch)?;
        // The block's part of the means over the minibatch.
        let share = 1.0 / ppo.gradient_blocks as f32;
        let mut told: [Var; Losses::N] = [out.loss, out.policy, out.value, out.entropy, out.kl];
        for number in &mut told {
            *number = record.scale(*number, share)?;
        }
        let shape = BatchShape {
            n_params: params.trained_len(),
            n_blocks: ppo.gradient_blocks,
            n_numbers: told.len(),
            n_rows: 0,
        };
        Ok(UpdateProgram {
            blocks: BlockUpdate::load(record, told[0], &told, shape, device)?,
            observations,
            batch,
            n_rows,
            width: network.n_inputs(),
            n_actions: network.n_actions(),
            values: Vec::new(),
            actions: Vec::new(),
        })
    }

    /// Sets the inputs to these steps of a rollout, whose advantages are given.
    pub(super) fn set(
        &mut self,
        rollout: &Rollout,
        rows: &[u32],
        advantages: &[f32],
        policy: &ActionDistribution,
    ) -> Result<(), Error> {
        debug_assert_eq!(rows.len(), self.n_rows);
        let batch = self.batch;
        self.set_rows(self.observations, &rollout.observations, self.width, rows)?;
        self.set_rows(batch.behaviour, &rollout.behaviour, 1, rows)?;
        self.set_rows(batch.returns, &rollout.returns, 1, rows)?;
        self.set_rows(batch.old_values, &rollout.values, 1, rows)?;
        if let Some(mask) = batch.mask {
            self.set_rows(mask, &rollout.masks, self.n_actions, rows)?;
        }
        self.blocks.set_input(batch.advantages, advantages)?;
        self.set_actions(rollout, rows, policy)
    }

    fn set_actions(
        &mut self,
        rollout: &Rollout,
        rows: &[u32],
        policy: &ActionDistribution,
    ) -> Result<(), Error> {
        let input = self.batch.actions;
        match policy {
            ActionDistribution::Gaussian(policy) => {
                self.set_rows(input, &rollout.drawn, policy.n_elements(), rows)
            }
            ActionDistribution::Softmax(policy) => {
                let n_parts = policy.n_choices().len();
                self.actions.clear();
                for &row in rows {
                    let first = row as usize * n_parts;
                    self.actions
                        .extend(&rollout.actions[first..first + n_parts]);
                }
                self.values.clear();
                policy.one_hot_into(&self.actions, &mut self.values)?;
                self.blocks.set_input(input, &self.values)
            }
        }
    }

    fn set_rows(
        &mut self,
        input: Var,
        list: &[f32],
        width: usize,
        rows: &[u32],
    ) -> Result<(), Error> {
        let values = self.blocks.input_mut(input)?;
        for (value, &row) in values.chunks_exact_mut(width).zip(rows) {
            let first = row as usize * width;
            value.copy_from_slice(&list[first..first + width]);
        }
        Ok(())
    }
}
