//! IMPALA with one actor and the learner in turn, in one thread: the same bits in every run, and what the ranks are tested by.

use std::path::Path;

use shardgraph_device::Device;
use shardgraph_runs::Checkpoint;

use super::actor::Actor;
use super::checkpoint::{Run, STATE, checkpoint_of, restore_actor, restore_learner};
use super::config::ImpalaConfig;
use super::learner::{Learner, Losses};
use super::trajectory::Unroll;
use crate::config::{AgentConfig, Algorithm};
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::local::{Advance, Local};
use crate::weights;

/// A run in lock step.
#[derive(Debug)]
pub(crate) struct ImpalaLockStep {
    config: AgentConfig,
    log_updates: u64,
    pub(super) learner: Learner,
    actor: Actor,
    episodes: EpisodeStatistics,
    unroll: Unroll,
}

impl ImpalaLockStep {
    fn of(
        config: &AgentConfig,
        impala: &ImpalaConfig,
        device: &Device,
    ) -> Result<ImpalaLockStep, Error> {
        let n_environments = config.environment.n_environments();
        Ok(ImpalaLockStep {
            config: config.clone(),
            log_updates: impala.log_updates,
            learner: Learner::new(impala, config.seed, device)?,
            actor: Actor::new(impala, n_environments, config.seed, 0, device)?,
            episodes: EpisodeStatistics::new(1),
            unroll: Unroll::default(),
        })
    }
}

/// A line of losses.
pub(super) fn scalars(losses: Losses) -> Vec<(&'static str, f32)> {
    vec![
        ("losses/policy_loss", losses.policy),
        ("losses/value_loss", losses.baseline),
        ("losses/entropy", losses.entropy),
    ]
}

impl Local for ImpalaLockStep {
    fn new(config: &AgentConfig, device: &Device) -> Result<ImpalaLockStep, Error> {
        config.check()?;
        match &config.algorithm {
            Algorithm::Impala(impala) => ImpalaLockStep::of(config, impala, device),
            other => Err(Error::internal(format!("`{}` is not IMPALA", other.name()))),
        }
    }

    fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<ImpalaLockStep, Error> {
        let run = Run::of(checkpoint, device)?;
        let mut lock_step = ImpalaLockStep::of(&run.config, &run.impala()?, device)?;
        let state = checkpoint.tensors(STATE)?;
        restore_learner(&mut lock_step.learner, run.n_updates, &state)?;
        let episodes = run.actor_episodes.ok_or_else(|| {
            Error::input(format!(
                "{}: the run was not in lock step",
                checkpoint.origin()
            ))
        })?;
        let learner = (&lock_step.learner, run.n_steps);
        restore_actor(&mut lock_step.actor, learner, episodes, &state)?;
        lock_step.episodes = run.episodes;
        Ok(lock_step)
    }

    fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let books = (self.actor.n_steps, &self.config, &self.episodes);
        checkpoint_of(&self.learner, books, Some(&self.actor))
    }

    /// An unroll of the actor, which is a batch, and the update.
    fn advance(&mut self) -> Result<Advance, Error> {
        let before = self.actor.n_steps;
        self.actor.collect(&mut self.unroll)?;
        let lag = self.learner.n_updates - self.unroll.version;
        let losses = self.learner.update(std::slice::from_ref(&self.unroll))?;
        self.actor
            .set_weights(self.learner.n_updates, self.learner.params.trained())?;
        for episode in &self.unroll.episodes {
            self.episodes.record(0, episode.episodic_return, true);
        }
        let is_logged = self.learner.n_updates.is_multiple_of(self.log_updates);
        Ok(Advance {
            n_steps: self.actor.n_steps - before,
            lag,
            episodes: self.unroll.episodes.clone(),
            scalars: if is_logged {
                scalars(losses)
            } else {
                Vec::new()
            },
        })
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
        self.learner.params.trained()
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        weights::write(path, &self.learner.params)
    }
}
