//! Ape-X with one actor, one shard and the learner in turn, in one thread: the same bits in every run, and what the ranks are tested by.

use std::path::Path;

use shardgraph_device::Device;
use shardgraph_runs::{Checkpoint, tags};

use super::actor::Actor;
use super::checkpoint::{Run, STATE, checkpoint_of, restore_learner, restore_parts};
use super::config::ApexConfig;
use super::learner::Learner;
use super::shard::Shard;
use crate::config::{AgentConfig, Algorithm};
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::local::{Advance, Local};

/// A run in lock step.
#[derive(Debug)]
pub(crate) struct ApexLockStep {
    config: AgentConfig,
    log_updates: u64,
    pub(super) learner: Learner,
    pub(super) shard: Shard,
    actor: Actor,
    episodes: EpisodeStatistics,
}

impl ApexLockStep {
    fn of(config: &AgentConfig, apex: &ApexConfig, device: &Device) -> Result<ApexLockStep, Error> {
        let n_environments = config.environment.n_environments();
        Ok(ApexLockStep {
            config: config.clone(),
            log_updates: apex.log_updates,
            learner: Learner::new(apex, config.seed, device)?,
            shard: Shard::new(apex, 4, config.seed, 0)?,
            actor: Actor::new(apex, n_environments, config.seed, (0, 1), device)?,
            episodes: EpisodeStatistics::new(1),
        })
    }
}

impl Local for ApexLockStep {
    fn new(config: &AgentConfig, device: &Device) -> Result<ApexLockStep, Error> {
        config.check()?;
        match &config.algorithm {
            Algorithm::Apex(apex) => ApexLockStep::of(config, apex, device),
            other => Err(Error::internal(format!("`{}` is not Ape-X", other.name()))),
        }
    }

    fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<ApexLockStep, Error> {
        let run = Run::of(checkpoint, device)?;
        let mut lock_step = ApexLockStep::of(&run.config, &run.apex()?, device)?;
        let state = checkpoint.tensors(STATE)?;
        restore_learner(&mut lock_step.learner, run.n_updates, &state)?;
        let counters = run.lock_step.ok_or_else(|| {
            Error::input(format!(
                "{}: the run was not in lock step",
                checkpoint.origin()
            ))
        })?;
        let parts = (&mut lock_step.shard, &mut lock_step.actor);
        restore_parts(parts, (run.n_steps, counters), &state)?;
        lock_step.episodes = run.episodes;
        Ok(lock_step)
    }

    fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let books = (self.actor.n_steps, &self.config, &self.episodes);
        checkpoint_of(&self.learner, books, Some((&self.shard, &self.actor)))
    }

    /// One block, and the updates that are due then.
    fn advance(&mut self) -> Result<Advance, Error> {
        if self.actor.wants_weights() {
            self.actor.asked_for_weights();
            self.actor
                .set_weights(self.learner.n_updates, self.learner.agent.weights())?;
        }
        let (block, progress) = self.actor.collect()?;
        self.shard.insert(&block)?;
        let mut advance = Advance {
            n_steps: progress.n_steps,
            lag: self.learner.n_updates - progress.version,
            episodes: progress.episodes,
            scalars: Vec::new(),
        };
        while self.shard.limiter.may_sample() {
            self.shard.sample()?;
            let (_, weights, rows) = self.shard.drawn();
            let update = self.learner.update(rows, weights)?;
            self.shard.update_drawn(self.learner.agent.td_errors())?;
            if self.learner.n_updates.is_multiple_of(self.log_updates) {
                advance.scalars = vec![
                    (tags::TD_LOSS, update.loss),
                    (tags::Q_VALUES, update.q_mean),
                ];
            }
        }
        for episode in &advance.episodes {
            self.episodes.record(0, episode.episodic_return, true);
        }
        Ok(advance)
    }

    fn config(&self) -> &AgentConfig {
        &self.config
    }

    fn n_steps(&self) -> u64 {
        self.actor.n_steps
    }

    fn n_updates(&self) -> u64 {
        self.learner.n_updates
    }

    fn episodes(&self) -> &EpisodeStatistics {
        &self.episodes
    }

    fn weights(&self) -> &[f32] {
        self.learner.agent.weights()
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        self.learner.agent.export(path)
    }
}
