//! Deep Q-learning as an agent of the off-policy loop: exploration, draws by priority, and copies into the target network.

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::tags;
use shardgraph_random::KeyedRng;

use super::agent::DqnAgent;
use crate::checkpoint::Learner;
use crate::config::AgentConfig;
use crate::error::Error;
use crate::observations::ActionBuffer;
use crate::off_policy::{OffPolicyAgent, OffPolicyRun, OffPolicyTrainer, Scalars, Transitions};
use crate::rank_trainer::{Place, RankTrainer, StartTrainer};
use crate::rules::BatchSettings;
use crate::run_options::RunOptions;

/// Deep Q-learning in a vector of environments, from one step to the next.
///
/// ```
/// use shardgraph_agents::{AgentConfig, DqnTrainer, RunOptions};
///
/// let config = AgentConfig::named("cartpole-dqn").unwrap();
/// let mut trainer = DqnTrainer::begin(&config, &RunOptions::default())?;
/// trainer.advance_to(100)?;
/// assert!(trainer.n_steps() == 100 && trainer.n_episodes() > 1);
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
pub type DqnTrainer = OffPolicyTrainer<DqnAgent>;

impl DqnTrainer {
    /// A run on one rank before its first step.
    ///
    /// # Errors
    /// When a setting cannot be right, or the agent does not fit the environment or the device.
    pub fn begin(config: &AgentConfig, options: &RunOptions) -> Result<DqnTrainer, Error> {
        StartTrainer::new(config, options, Place::ALONE)
    }

    /// Acts and learns until the environments together have taken as many steps as `step`, or a few more where many take theirs at once.
    ///
    /// # Errors
    /// When training has diverged, or a device is lost.
    pub fn advance_to(&mut self, step: u64) -> Result<(), Error> {
        let (mut comm, timeout) = (Comm::solo(), Timeout::default());
        while self.run.n_steps < step {
            self.advance(&mut comm, timeout)?;
        }
        Ok(())
    }

    /// The agent, to play with.
    pub fn agent_mut(&mut self) -> &mut DqnAgent {
        &mut self.agent
    }

    /// Steps of all environments together.
    pub fn n_steps(&self) -> u64 {
        self.run.n_steps
    }

    /// Episodes that have ended.
    pub fn n_episodes(&self) -> u64 {
        self.run.experience.episodes().n_episodes()
    }
}

impl OffPolicyAgent for DqnAgent {
    fn begin(config: &AgentConfig, options: &RunOptions) -> Result<DqnAgent, Error> {
        DqnAgent::of_config(config, options)
    }

    fn transitions(config: &AgentConfig) -> Result<Transitions, Error> {
        let dqn = config.algorithm.dqn()?;
        Ok(Transitions {
            replay: dqn.replay.clone(),
            n_step: dqn.n_step,
            gamma: dqn.gamma,
        })
    }

    fn batch_settings(config: &AgentConfig) -> Result<BatchSettings, Error> {
        let dqn = config.algorithm.dqn()?;
        Ok(dqn.batch_settings(config.environment.n_environments))
    }

    fn explore(
        &mut self,
        run: &OffPolicyRun,
        actions: &mut ActionBuffer,
    ) -> Result<Option<f32>, Error> {
        let exploration = run.config.algorithm.dqn()?.exploration;
        let epsilon = exploration.schedule(run.config.steps).at(run.n_steps);
        let mut stream = KeyedRng::new(run.config.seed, "exploration", run.n_steps);
        let seen = run.experience.seen();
        self.act(seen, epsilon, &mut stream, actions.discrete())?;
        Ok(Some(epsilon))
    }

    fn learn(
        &mut self,
        run: &mut OffPolicyRun,
        step: u64,
        comm: &mut Comm,
        timeout: Timeout,
    ) -> Result<Scalars, Error> {
        let batch_size = run.config.algorithm.dqn()?.batch_size;
        let progress = step as f32 / run.config.steps as f32;
        let mut stream = KeyedRng::new(run.config.seed, "replay", run.n_updates);
        let batch = run.replay.sample(batch_size, progress, &mut stream)?;
        let update = self.update(batch, comm, timeout)?;
        run.replay.update(self.td_errors())?;
        Ok(vec![
            (tags::TD_LOSS, update.loss),
            (tags::Q_VALUES, update.q_mean),
        ])
    }

    fn pass(&mut self, config: &AgentConfig, step: u64) -> Result<(), Error> {
        if step.is_multiple_of(config.algorithm.dqn()?.target_sync_steps) {
            self.sync_target()?;
        }
        Ok(())
    }

    fn learner(&self) -> Learner<'_> {
        Learner {
            params: self.params(),
            optimiser: self.optimiser(),
            device: self.device(),
        }
    }

    fn restore(&mut self, all_weights: &[f32], optimiser: &[u8]) -> Result<(), Error> {
        DqnAgent::restore(self, all_weights, optimiser)
    }
}
