//! The learner: a network, its optimiser, and one program for a batch of trajectories.

use shardgraph_autodiff::{Axis, Ctx, Params, Recorder, Shape, Var};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{
    ActorCritic, ImpalaBatch, LstmState, Optimiser, PolicyAndValue, Reduction, Sequences,
    SoftmaxPolicy,
};
use shardgraph_device::Device;
use shardgraph_job::tags;

use super::config::ImpalaConfig;
use super::trajectory::{Unroll, side_by_side};
use crate::block_update::{BatchShape, BlockUpdate};
use crate::error::{Call, Error, diverged};
use crate::policy_program::build_policy;
use crate::run_environments::Environments;
use crate::topology::{LearnerGroup, LearnerState, Replica};

/// What learns, and its replicas.
#[derive(Debug)]
pub(super) struct Learner {
    pub(super) params: Params,
    pub(super) optimiser: Optimiser,
    pub(super) n_updates: u64,
    network: ActorCritic,
    policy: SoftmaxPolicy,
    blocks: BlockUpdate,
    inputs: Inputs,
    n_steps: usize,
    n_blocks: usize,
    block_trajectories: usize,
    /// What an input is made of.
    values: Vec<f32>,
    /// The actions of a block.
    actions: Vec<u32>,
    group: LearnerGroup<Vec<Unroll>>,
}

/// The inputs of the program.
#[derive(Debug)]
struct Inputs {
    observations: Var,
    /// What masks add to the logits.
    masks: Option<Var>,
    batch: ImpalaBatch,
    memory: Option<[Var; 3]>,
}

/// An update's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Losses {
    pub(super) policy: f32,
    pub(super) baseline: f32,
    pub(super) entropy: f32,
}

impl Losses {
    /// A line of them.
    pub(super) fn scalars(self) -> Vec<(&'static str, f32)> {
        vec![
            (tags::POLICY_LOSS, self.policy),
            (tags::VALUE_LOSS, self.baseline),
            (tags::ENTROPY, self.entropy),
        ]
    }
}

impl Learner {
    pub(super) fn new(
        impala: &ImpalaConfig,
        environments: &Environments,
        seed: u64,
        device: &Device,
    ) -> Result<Learner, Error> {
        let with = |group| {
            let (params, network) = build_policy(environments, &impala.network, seed)?;
            let policy = SoftmaxPolicy::build("policy", environments.spaces().action())?;
            let has_mask = environments.spaces().has_mask();
            let (blocks, inputs) = record(impala, &params, &network, &policy, has_mask, device)?;
            Ok(Learner {
                optimiser: Optimiser::new(impala.optimiser, params.trained_len())?,
                n_updates: 0,
                blocks,
                inputs,
                n_steps: impala.unroll_steps,
                n_blocks: impala.gradient_blocks,
                block_trajectories: impala.block_trajectories(),
                values: Vec::new(),
                actions: Vec::new(),
                params,
                network,
                policy,
                group,
            })
        };
        let replica = || with(LearnerGroup::alone());
        with(LearnerGroup::new(impala.n_learners, replica)?)
    }

    /// One update on unrolls that make up a batch.
    pub(super) fn update(&mut self, unrolls: &[Unroll]) -> Result<Losses, Error> {
        self.check(unrolls)?;
        // Out of the learner for as long as the learner computes.
        let mut group = std::mem::replace(&mut self.group, LearnerGroup::alone());
        let losses = self.update_among(unrolls, group.share(|| unrolls.to_vec()));
        self.group = group;
        losses
    }

    /// Computes this replica's blocks of a batch, and takes the step of all.
    fn update_among(&mut self, unrolls: &[Unroll], comm: &mut Comm) -> Result<Losses, Error> {
        let n_unrolls = unrolls.len() / self.n_blocks;
        for block in self.blocks.begin(comm)? {
            self.set_block(&unrolls[block * n_unrolls..(block + 1) * n_unrolls])?;
            self.blocks
                .run_block(block, &mut self.params, &mut self.optimiser)?;
        }
        let numbers = self.blocks.sum(comm, Timeout::default())?;
        if !numbers[0].is_finite() {
            return Err(diverged("Impala", "update", "the loss"));
        }
        let losses = Losses {
            policy: numbers[1],
            baseline: numbers[2],
            entropy: numbers[3],
        };
        self.blocks.step(&mut self.params, &mut self.optimiser)?;
        self.n_updates += 1;
        Ok(losses)
    }

    fn set_block(&mut self, unrolls: &[Unroll]) -> Result<(), Error> {
        self.set(
            self.inputs.observations,
            unrolls,
            self.n_steps + 1,
            |unroll| &unroll.observations,
        )?;
        let (batch, n_steps) = (self.inputs.batch, self.n_steps);
        self.set(batch.behaviour, unrolls, n_steps, |of| &of.behaviour)?;
        self.set(batch.rewards, unrolls, n_steps, |of| &of.rewards)?;
        self.set(batch.discounts, unrolls, n_steps, |of| &of.discounts)?;
        self.set_actions(batch.actions, unrolls)?;
        if let Some(masks) = self.inputs.masks {
            self.set(masks, unrolls, n_steps, |of| &of.masks)?;
        }
        if let Some([begins, hidden, cell]) = self.inputs.memory {
            self.set(begins, unrolls, self.n_steps + 1, |unroll| &unroll.begins)?;
            self.set(hidden, unrolls, 1, |unroll| &unroll.hidden)?;
            self.set(cell, unrolls, 1, |unroll| &unroll.cell)?;
        }
        Ok(())
    }

    /// Goes on where a checkpoint was made, with all replicas.
    pub(super) fn restore_all(&mut self, state: LearnerState) -> Result<(), Error> {
        self.restore(&state)?;
        self.group.restore(state);
        Ok(())
    }

    fn set<'a>(
        &mut self,
        input: Var,
        unrolls: &'a [Unroll],
        n_times: usize,
        list: impl Fn(&'a Unroll) -> &'a [f32],
    ) -> Result<(), Error> {
        self.values.clear();
        self.values.extend(side_by_side(unrolls, list, n_times));
        self.blocks.set_input(input, &self.values)
    }

    fn set_actions(&mut self, input: Var, unrolls: &[Unroll]) -> Result<(), Error> {
        let actions = side_by_side(unrolls, |unroll| &unroll.actions, self.n_steps);
        self.actions.clear();
        self.actions.extend(actions);
        self.values.clear();
        self.policy.one_hot_into(&self.actions, &mut self.values)?;
        self.blocks.set_input(input, &self.values)
    }

    /// Whether the unrolls are those of this network and batch.
    fn check(&self, unrolls: &[Unroll]) -> Result<(), Error> {
        if !unrolls.len().is_multiple_of(self.n_blocks) {
            let expected = format!("{} blocks of as many each", self.n_blocks);
            return Err(mismatch(expected, format!("{} in all", unrolls.len())));
        }
        let block_unrolls = (unrolls.len() / self.n_blocks).max(1);
        let mut n_trajectories = 0;
        for (idx, unroll) in unrolls.iter().enumerate() {
            let begun = idx / block_unrolls * self.block_trajectories;
            if idx.is_multiple_of(block_unrolls) && n_trajectories != begun {
                let expected = format!("blocks of {} trajectories", self.block_trajectories);
                let given = format!("{n_trajectories} in {} blocks", idx / block_unrolls);
                return Err(mismatch(expected, given));
            }
            let n = unroll.rewards.len() / self.n_steps;
            let (expected, given) = (self.lengths(n), unroll.lengths());
            if given != expected {
                let expected = format!("lists of {expected:?} numbers");
                return Err(mismatch(expected, format!("{given:?}")));
            }
            n_trajectories += n;
        }
        let expected = self.n_blocks * self.block_trajectories;
        match n_trajectories == expected {
            true => Ok(()),
            false => Err(mismatch(
                format!("{expected} trajectories"),
                n_trajectories.to_string(),
            )),
        }
    }

    /// What [`Unroll::lengths`] of `n` trajectories is.
    fn lengths(&self, n: usize) -> [usize; 9] {
        let (now, with_next) = (n * self.n_steps, n * (self.n_steps + 1));
        let of_memory = n * self.network.n_hidden().unwrap_or(0);
        let observations = with_next * self.network.n_inputs();
        let n_actions = self.network.n_actions();
        [
            now * self.policy.n_choices().len(),
            now,
            now,
            now,
            with_next,
            observations,
            of_memory,
            of_memory,
            self.inputs.masks.map_or(0, |_| now * n_actions),
        ]
    }
}

impl Replica for Learner {
    type Batch = Vec<Unroll>;

    fn learn(&mut self, unrolls: &Vec<Unroll>, comm: &mut Comm) -> Result<(), Error> {
        self.update_among(unrolls, comm).map(drop)
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), Error> {
        self.params.set_flat(&state.weights)?;
        self.optimiser.restore(&state.optimiser)?;
        self.n_updates = state.n_updates;
        Ok(())
    }
}

fn mismatch(expected: String, given: String) -> Error {
    Call::new("Impala", "update").mismatch("the unrolls", expected, given)
}

/// The program of an update, and where its batch goes.
fn record(
    impala: &ImpalaConfig,
    params: &Params,
    network: &ActorCritic,
    policy: &SoftmaxPolicy,
    has_mask: bool,
    device: &Device,
) -> Result<(BlockUpdate, Inputs), Error> {
    let n = impala.block_trajectories();
    let rows = impala.unroll_steps * n;
    let mut record = Recorder::new(params, 0, 1);
    let (observations, memory) = seen(&mut record, network, impala.unroll_steps + 1, n)?;
    let said = match memory {
        None => network.apply(&mut record, observations)?,
        Some([begins, hidden, cell]) => {
            let state = LstmState { hidden, cell };
            let with_next = Sequences::time_major(impala.unroll_steps + 1, n);
            let (said, _) = network.unroll(&mut record, observations, begins, state, with_next)?;
            said
        }
    };
    let mut logits = record.slice(said.logits, Axis::Rows, 0, rows)?;
    let mut masks = None;
    if has_mask {
        let shape = record.shape(logits);
        let added = record.input(shape, &vec![0.0; shape.len()])?;
        logits = record.add(logits, added)?;
        masks = Some(added);
    }
    let outputs = PolicyAndValue {
        logits,
        values: record.slice(said.values, Axis::Rows, 0, rows)?,
    };
    let bootstrap = record.slice(said.values, Axis::Rows, rows, n)?;
    let sequences = Sequences::time_major(impala.unroll_steps, n);
    let batch = ImpalaBatch::inputs(&mut record, sequences, network.n_actions(), bootstrap)?;
    let inputs = Inputs {
        observations,
        masks,
        batch,
        memory,
    };
    let loss = impala.loss.apply(&mut record, policy, outputs, &batch)?;
    let baseline = loss.baseline;
    let baseline = baseline.ok_or_else(|| Error::internal("IMPALA's loss without values"))?;
    // The block's part of what is one number for the batch.
    let share = match impala.loss.reduction {
        Reduction::Mean => 1.0 / impala.gradient_blocks as f32,
        Reduction::Sum => 1.0,
    };
    let of_batch = record.scale(loss.loss, share)?;
    let mut told = [of_batch, loss.policy, baseline, loss.entropy];
    for number in &mut told[1..] {
        *number = record.scale(*number, share)?;
    }
    let shape = BatchShape {
        n_params: params.trained_len(),
        n_blocks: impala.gradient_blocks,
        n_numbers: told.len(),
        n_rows: 0,
    };
    let blocks = BlockUpdate::load(record, of_batch, &told, shape, device)?;
    Ok((blocks, inputs))
}

/// Inputs for what was seen at so many time steps of `n` trajectories, and for the memory of a network that has one.
fn seen(
    record: &mut Recorder<'_>,
    network: &ActorCritic,
    n_steps: usize,
    n: usize,
) -> Result<(Var, Option<[Var; 3]>), Error> {
    let mut zeros = |n_rows: usize, width: usize| {
        let shape = Shape::new(n_rows, width);
        record.input(shape, &vec![0.0; shape.len()])
    };
    let observations = zeros(n_steps * n, network.n_inputs())?;
    let Some(n_hidden) = network.n_hidden() else {
        return Ok((observations, None));
    };
    let begins = zeros(n_steps * n, 1)?;
    let memory = [begins, zeros(n, n_hidden)?, zeros(n, n_hidden)?];
    Ok((observations, Some(memory)))
}
