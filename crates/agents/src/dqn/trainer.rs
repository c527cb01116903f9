//! The training loop: act in every environment, remember, and learn from what is remembered.

use std::ops::Range;

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::EpsilonSchedule;
use shardgraph_environments::Actions;
use shardgraph_job::{Checkpoint, Ranks, tags};
use shardgraph_random::KeyedRng;

use super::agent::DqnAgent;
use super::config::DqnConfig;
use super::update::Update;
use crate::advance::Advance;
use crate::agent::Agent;
use crate::checkpoint::{Learner, RunState};
use crate::config::AgentConfig;
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::off_policy::OffPolicyRun;
use crate::rank_trainer::{Place, RankTrainer, Standing};
use crate::rules::Rule;
use crate::run_options::RunOptions;

/// What one step of all environments gave; used again by the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepReport {
    /// Steps so far of all environments together, these included.
    pub step: u64,
    /// How many steps that report is about: one for each environment.
    pub n_environments: u64,
    /// The probability of a random action at these steps.
    pub epsilon: f32,
    /// The episodes that ended, by environment.
    pub episodes: Vec<Episode>,
    /// The last update after these steps that the metrics tell of, otherwise the last; absent where there was none.
    pub update: Option<Update>,
    /// Whether that update is one of those that the metrics tell of: each [`DqnConfig::log_updates`]-th.
    pub is_logged: bool,
}

/// Deep Q-learning in a vector of environments: everything that decides how a run goes on.
///
/// # Determinism
/// Steps, updates and weights have the same bits for any number of ranks up to [`DqnConfig::gradient_blocks`], and whether or not the
/// state went through [`DqnTrainer::to_checkpoint`] in between. Each random number comes from a stream of (seed, purpose, index), where the
/// index is a step, an update or an episode.
///
/// ```
/// use shardgraph_agents::{AgentConfig, DqnTrainer, RunOptions};
/// use shardgraph_collectives::{Comm, Timeout};
///
/// let config = AgentConfig::named("cartpole-dqn").unwrap();
/// let mut trainer = DqnTrainer::new(&config, &RunOptions::default())?;
/// for _ in 0..100 {
///     trainer.advance(&mut Comm::solo(), Timeout::default())?;
/// }
/// assert_eq!(trainer.n_steps(), 100);
/// assert!(trainer.episodes().mean_return().unwrap() < 100.0); // random actions so far
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct DqnTrainer {
    pub(super) run: OffPolicyRun,
    dqn: DqnConfig,
    pub(super) agent: DqnAgent,
    exploration: EpsilonSchedule,
    report: StepReport,
    actions: Vec<u32>,
}

impl DqnTrainer {
    /// A run before its first step.
    ///
    /// # Errors
    /// When a setting cannot be right, or the agent does not fit the environment or the device.
    pub fn new(config: &AgentConfig, options: &RunOptions) -> Result<DqnTrainer, Error> {
        let dqn = config.algorithm.dqn()?;
        let n_environments = config.environment.n_environments;
        Ok(DqnTrainer {
            run: OffPolicyRun::new(config, options, &dqn.replay, (dqn.n_step, dqn.gamma))?,
            agent: DqnAgent::of_config(config, options)?,
            exploration: dqn.exploration.schedule(config.steps),
            report: StepReport {
                n_environments: n_environments as u64,
                ..StepReport::default()
            },
            actions: Vec::with_capacity(n_environments),
            dqn: dqn.clone(),
        })
    }

    /// One step in every environment, and the updates that are due then. All ranks of `comm` call it.
    ///
    /// # Errors
    /// When training has diverged, or a rank or a device is lost.
    pub fn advance(&mut self, comm: &mut Comm, deadline: Timeout) -> Result<&StepReport, Error> {
        let n_steps = self.run.n_steps;
        self.report.epsilon = self.exploration.at(n_steps);
        self.report.episodes.clear();
        self.report.update = None;
        self.report.is_logged = false;
        let mut stream = KeyedRng::new(self.run.config.seed, "exploration", n_steps);
        let (seen, epsilon) = (self.run.experience.seen(), self.report.epsilon);
        self.agent
            .act(seen, epsilon, &mut stream, &mut self.actions)?;
        let actions = Actions::Discrete(&self.actions);
        let steps = self.run.step(actions, &mut self.report.episodes)?;
        self.report.step = self.run.n_steps;
        self.learn(steps, comm, deadline)?;
        Ok(&self.report)
    }

    /// The updates and copies that fall due at these steps, in their order.
    fn learn(
        &mut self,
        steps: Range<u64>,
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<(), Error> {
        // A step of many environments may have begun before learning does.
        for step in steps.start.max(self.dqn.learning_starts)..steps.end {
            if step.is_multiple_of(self.dqn.train_every) {
                self.update(step, comm, deadline)?;
            }
            if step.is_multiple_of(self.dqn.target_sync_steps) {
                self.agent.sync_target();
            }
        }
        Ok(())
    }

    /// The update that is due at `step`.
    pub(super) fn update(
        &mut self,
        step: u64,
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<(), Error> {
        let run = &mut self.run;
        let progress = step as f32 / run.config.steps as f32;
        let mut stream = KeyedRng::new(run.config.seed, "replay", run.n_updates);
        let batch = run
            .replay
            .sample(self.dqn.batch_size, progress, &mut stream)?;
        let update = self.agent.update(batch, comm, deadline)?;
        run.replay.update(self.agent.td_errors())?;
        run.n_updates += 1;
        let is_logged = run.n_updates.is_multiple_of(self.dqn.log_updates);
        if is_logged || !self.report.is_logged {
            self.report.update = Some(update);
        }
        self.report.is_logged |= is_logged;
        Ok(())
    }

    /// Everything that decides how the run goes on.
    ///
    /// # Errors
    /// When the state has no form as files, which is a defect of the program.
    pub fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        self.run.to_checkpoint(Learner {
            params: self.agent.params(),
            optimiser: self.agent.optimiser(),
            device: self.agent.device(),
        })
    }

    /// The run that a checkpoint was made of, to go on as if it had never stopped.
    ///
    /// # Errors
    /// When the checkpoint is of another version or kind of device, or its parts do not belong together.
    pub fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
    ) -> Result<DqnTrainer, Error> {
        let mut trainer = DqnTrainer::new(&RunState::config_of(checkpoint)?, options)?;
        let agent = &mut trainer.agent;
        let learner = |weights: &[f32], optimiser: &[u8]| agent.restore(weights, optimiser);
        trainer.run.restore(checkpoint, &options.device, learner)?;
        Ok(trainer)
    }

    /// The settings of the run.
    pub fn config(&self) -> &AgentConfig {
        &self.run.config
    }

    /// The agent, for acting and for new weights.
    pub fn agent_mut(&mut self) -> &mut DqnAgent {
        &mut self.agent
    }

    /// The agent as it is now.
    pub fn agent(&self) -> &DqnAgent {
        &self.agent
    }

    /// The agent alone, when the run has ended.
    pub fn into_agent(self) -> DqnAgent {
        self.agent
    }

    /// Steps so far of all environments together.
    pub fn n_steps(&self) -> u64 {
        self.run.n_steps
    }

    /// Updates so far.
    pub fn n_updates(&self) -> u64 {
        self.run.n_updates
    }

    /// Returns of the episodes so far.
    pub fn episodes(&self) -> &EpisodeStatistics {
        self.run.experience.episodes()
    }
}

impl RankTrainer for DqnTrainer {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<DqnTrainer, Error> {
        DqnTrainer::new(config, options)
    }

    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        Rule::ranks(n_ranks, config.algorithm.dqn()?.gradient_blocks).check()
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        _: Place,
    ) -> Result<DqnTrainer, Error> {
        DqnTrainer::of_checkpoint(checkpoint, options)
    }

    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        match ranks.is_first() {
            true => DqnTrainer::to_checkpoint(self).map(Some),
            false => Ok(None),
        }
    }

    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error> {
        let report = DqnTrainer::advance(self, comm, timeout)?;
        let logged = report.update.filter(|_| report.is_logged);
        let losses = logged.map(|update| {
            vec![
                (tags::TD_LOSS, update.loss),
                (tags::Q_VALUES, update.q_mean),
            ]
        });
        Ok(Advance {
            n_steps: report.n_environments,
            episodes: report.episodes.clone(),
            epsilon: Some(report.epsilon),
            losses: losses.into_iter().collect(),
            ..Advance::default()
        })
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        self.agent.params()
    }

    fn into_agent(self, _: &RunOptions) -> Result<Box<dyn Agent + Send>, Error> {
        Ok(Box::new(self.agent))
    }
}
