//! IMPALA with one actor and the learner in turn, in one thread: the same bits in every run, and what the ranks are tested by.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks};

use super::actor::Actor;
use super::checkpoint::{More, checkpoint_of, restore_actor};
use super::learner::Learner;
use super::trajectory::Unroll;
use crate::advance::Advance;
use crate::checkpoint::{RunState, restore};
use crate::config::AgentConfig;
use crate::error::Error;
use crate::rank_trainer::{Place, RankTrainer, Standing, StartTrainer};
use crate::run_options::RunOptions;
use crate::topology::LearnerState;

/// A run in lock step.
#[derive(Debug)]
pub(crate) struct ImpalaLockStep {
    run: RunState,
    log_updates: u64,
    pub(super) learner: Learner,
    actor: Actor,
    unroll: Unroll,
}

impl StartTrainer for ImpalaLockStep {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<ImpalaLockStep, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let impala = config.algorithm.impala()?;
        let (seed, device) = (config.seed, &options.device);
        let n_environments = config.environment.n_environments;
        Ok(ImpalaLockStep {
            run: RunState::first(config, 1, device),
            log_updates: impala.log_updates,
            learner: Learner::new(impala, &environments, seed, device)?,
            actor: Actor::new(impala, &environments, n_environments, seed, 0, device)?,
            unroll: Unroll::default(),
        })
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<ImpalaLockStep, Error> {
        let (run, More { actor_episodes }) = RunState::of(checkpoint, &options.device)?;
        let episodes = actor_episodes.ok_or_else(|| Error::lock_step_on_ranks(checkpoint))?;
        let mut lock_step = ImpalaLockStep::new(&run.config, options, place)?;
        restore(checkpoint, |state| {
            let learner = LearnerState::of_tensors(run.n_updates, state)?;
            lock_step.learner.restore_all(learner)?;
            let (actor, learner) = (&mut lock_step.actor, &lock_step.learner);
            restore_actor(actor, learner, run.n_steps, episodes, state)
        })?;
        lock_step.run = run;
        Ok(lock_step)
    }
}

impl RankTrainer for ImpalaLockStep {
    fn to_checkpoint(&self, _: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        checkpoint_of(&self.run, &self.learner, Some(&self.actor)).map(Some)
    }

    /// An unroll of the actor, which is a batch, and the update.
    fn advance(&mut self, _: &mut Comm, _: Timeout) -> Result<Advance, Error> {
        let before = self.actor.n_steps;
        self.actor.collect(&mut self.unroll)?;
        let lag = self.learner.n_updates - self.unroll.version;
        let losses = self.learner.update(std::slice::from_ref(&self.unroll))?;
        self.actor
            .set_weights(self.learner.n_updates, self.learner.params.trained())?;
        for episode in &self.unroll.episodes {
            self.run.episodes.record(0, episode.episodic_return, true);
        }
        (self.run.n_steps, self.run.n_updates) = (self.actor.n_steps, self.learner.n_updates);
        let is_logged = self.learner.n_updates.is_multiple_of(self.log_updates);
        Ok(Advance {
            n_steps: self.actor.n_steps - before,
            lag: Some(lag),
            episodes: self.unroll.episodes.clone(),
            losses: is_logged.then(|| losses.scalars()).into_iter().collect(),
            ..Advance::default()
        })
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        &self.learner.params
    }
}
