//! Ape-X with one actor, one shard and the learner in turn, in one thread: the same bits in every run, and what the ranks are tested by.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks};

use super::actor::{Actor, ActorNumber};
use super::checkpoint::{More, checkpoint_of, restore_parts};
use super::learner::Learner;
use super::shard::Shard;
use crate::advance::Advance;
use crate::agent::Agent;
use crate::checkpoint::{RunState, restore};
use crate::config::AgentConfig;
use crate::dqn::layout_of;
use crate::error::Error;
use crate::rank_trainer::{Place, RankTrainer, Standing, StartTrainer};
use crate::run_options::RunOptions;
use crate::topology::LearnerState;

/// A run in lock step.
#[derive(Debug)]
pub(crate) struct ApexLockStep {
    run: RunState,
    log_updates: u64,
    pub(super) learner: Learner,
    pub(super) shard: Shard,
    actor: Actor,
}

impl StartTrainer for ApexLockStep {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<ApexLockStep, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let apex = config.algorithm.apex()?;
        let (seed, device) = (config.seed, &options.device);
        let (n_environments, alone) = (config.environment.n_environments, ActorNumber::ALONE);
        Ok(ApexLockStep {
            run: RunState::first(config, 1, device),
            log_updates: apex.log_updates,
            learner: Learner::new(apex, &environments, seed, device)?,
            shard: Shard::new(apex, layout_of(environments.spaces())?, seed, 0)?,
            actor: Actor::new(apex, &environments, n_environments, seed, alone, device)?,
        })
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<ApexLockStep, Error> {
        let (
            run,
            More {
                lock_step: counters,
            },
        ) = RunState::of(checkpoint, &options.device)?;
        let counters = counters.ok_or_else(|| Error::lock_step_on_ranks(checkpoint))?;
        let mut lock_step = ApexLockStep::new(&run.config, options, place)?;
        restore(checkpoint, |state| {
            let learner = LearnerState::of_tensors(run.n_updates, state)?;
            lock_step.learner.restore_all(learner)?;
            let (shard, actor) = (&mut lock_step.shard, &mut lock_step.actor);
            restore_parts(shard, actor, run.n_steps, counters, state)
        })?;
        lock_step.run = run;
        Ok(lock_step)
    }
}

impl RankTrainer for ApexLockStep {
    fn to_checkpoint(&self, _: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        checkpoint_of(&self.run, &self.learner, Some((&self.shard, &self.actor))).map(Some)
    }

    /// One block, and the updates that are due then.
    fn advance(&mut self, _: &mut Comm, _: Timeout) -> Result<Advance, Error> {
        if self.actor.wants_weights() {
            self.actor.asked_for_weights();
            self.actor
                .set_weights(self.learner.n_updates, self.learner.agent.weights())?;
        }
        // A last block is whole too: where a run is prolonged it is as any other.
        let (block, progress) = self.actor.collect(u64::MAX)?;
        self.shard.insert(&block)?;
        let mut advance = Advance {
            n_steps: progress.n_steps,
            lag: Some(self.learner.n_updates - progress.version),
            episodes: progress.episodes,
            epsilon: Some(progress.epsilon),
            ..Advance::default()
        };
        while self.shard.limiter.may_sample() {
            self.shard.sample()?;
            let drawn = self.shard.drawn();
            let update = self.learner.update(drawn.rows, drawn.weights)?;
            self.shard.update_drawn(self.learner.agent.td_errors())?;
            if self.learner.n_updates.is_multiple_of(self.log_updates) {
                let line = self.learner.scalars(update, self.actor.n_steps);
                advance.losses.push(line);
            }
        }
        for episode in &advance.episodes {
            self.run.episodes.record(0, episode.episodic_return, true);
        }
        (self.run.n_steps, self.run.n_updates) = (self.actor.n_steps, self.learner.n_updates);
        Ok(advance)
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        self.learner.agent.params()
    }
}
