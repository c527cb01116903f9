//! The learner: an agent, and when its target network follows.

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Device;
use shardgraph_job::tags;
use shardgraph_replay::Rows;

use super::config::ApexConfig;
use crate::dqn::{DqnAgent, Update};
use crate::error::Error;
use crate::run_environments::Environments;
use crate::topology::{LearnerGroup, LearnerState, Replica};

/// The tag of transitions that were learned from, for each step of an environment since the run began.
const SAMPLES_PER_STEP: &str = "train/samples_per_step";

/// The agent that learns, and its replicas.
#[derive(Debug)]
pub(super) struct Learner {
    pub(super) agent: DqnAgent,
    pub(super) n_updates: u64,
    target_sync_updates: u64,
    batch_size: usize,
    group: LearnerGroup<SharedBatch>,
}

/// A batch of transitions with their importance weights.
#[derive(Debug)]
pub(super) struct SharedBatch {
    rows: Rows,
    weights: Vec<f32>,
}

impl Learner {
    pub(super) fn new(
        apex: &ApexConfig,
        environments: &Environments,
        seed: u64,
        device: &Device,
    ) -> Result<Learner, Error> {
        let with = |group| {
            Ok(Learner {
                agent: new_agent(apex, environments, seed, device)?,
                n_updates: 0,
                target_sync_updates: apex.target_sync_updates,
                batch_size: apex.batch_size,
                group,
            })
        };
        let replica = || with(LearnerGroup::alone());
        with(LearnerGroup::new(apex.n_learners, replica)?)
    }

    /// One update; the TD errors are the agent's.
    pub(super) fn update(&mut self, rows: &Rows, weights: &[f32]) -> Result<Update, Error> {
        let comm = self.group.share(|| SharedBatch {
            rows: rows.clone(),
            weights: weights.to_vec(),
        });
        let update = self
            .agent
            .update((rows, Some(weights)), comm, Timeout::default())?;
        self.count_update()?;
        Ok(update)
    }

    fn count_update(&mut self) -> Result<(), Error> {
        self.n_updates += 1;
        match self.n_updates.is_multiple_of(self.target_sync_updates) {
            true => self.agent.sync_target(),
            false => Ok(()),
        }
    }

    /// Goes on where a checkpoint was made, with all replicas.
    pub(super) fn restore_all(&mut self, state: LearnerState) -> Result<(), Error> {
        self.restore(&state)?;
        self.group.restore(state);
        Ok(())
    }

    /// A line of losses, after so many steps of all environments.
    pub(super) fn scalars(&self, update: Update, n_steps: u64) -> Vec<(&'static str, f32)> {
        let n_sampled = self.n_updates as f64 * self.batch_size as f64;
        vec![
            (tags::TD_LOSS, update.loss),
            (tags::Q_VALUES, update.q_mean),
            (SAMPLES_PER_STEP, (n_sampled / n_steps.max(1) as f64) as f32),
        ]
    }
}

impl Replica for Learner {
    type Batch = SharedBatch;

    fn learn(&mut self, batch: &SharedBatch, comm: &mut Comm) -> Result<(), Error> {
        let batch = (&batch.rows, Some(&batch.weights[..]));
        self.agent.update(batch, comm, Timeout::default())?;
        self.count_update()?;
        Ok(())
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), Error> {
        self.n_updates = state.n_updates;
        self.agent.restore(&state.weights, &state.optimiser)
    }
}

/// The agent of the learner, and of every actor before its first weights.
pub(super) fn new_agent(
    apex: &ApexConfig,
    environments: &Environments,
    seed: u64,
    device: &Device,
) -> Result<DqnAgent, Error> {
    DqnAgent::new(&apex.dqn(), environments.spaces(), seed, device)
}
