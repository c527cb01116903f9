//! The training loop: act in every environment, remember, and learn from what is remembered.

use shardgraph_collectives::{Comm, Deadline};
use shardgraph_components::EpsilonSchedule;
use shardgraph_device::Device;
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_graph::random::Stream;
use shardgraph_replay::{Cell, Ending, Folded, NStepFolder};

use super::agent::{DqnAgent, Update, not_dqn};
use super::config::DqnConfig;
use super::memory::{Replay, transition_layout};
use crate::config::{AgentConfig, Algorithm, EnvironmentConfig};
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;

/// Where a transition starts: what was seen, and what was done.
pub(super) type Start = ([f32; 4], u32);

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
    /// The last update after these steps, where there was one.
    pub update: Option<Update>,
    /// Whether that update is one of those that the metrics tell of: each [`DqnConfig::log_updates`]-th.
    pub is_logged: bool,
}

/// Deep Q-learning on carts with poles: everything that decides how a run goes on.
///
/// # Determinism
/// Steps, updates and weights have the same bits for any number of ranks up to [`DqnConfig::gradient_blocks`], and whether or not the
/// state went through [`DqnTrainer::to_checkpoint`] in between. Each random number comes from a stream of (seed, purpose, index), where the
/// index is a step, an update or an episode.
///
/// ```
/// use shardgraph_agents::{AgentConfig, DqnTrainer};
/// use shardgraph_collectives::{Comm, Deadline};
/// use shardgraph_device::Device;
///
/// let config = AgentConfig::named("cartpole-dqn").unwrap();
/// let mut trainer = DqnTrainer::new(&config, &Device::host())?;
/// for _ in 0..100 {
///     trainer.advance(&mut Comm::solo(), Deadline::default())?;
/// }
/// assert_eq!(trainer.n_steps(), 100);
/// assert!(trainer.episodes().mean_return().unwrap() < 100.0); // random actions so far
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct DqnTrainer {
    pub(super) config: AgentConfig,
    pub(super) dqn: DqnConfig,
    pub(super) agent: DqnAgent,
    pub(super) carts: CartPoles,
    pub(super) replay: Replay,
    pub(super) folders: Vec<NStepFolder<Start>>,
    pub(super) episodes: EpisodeStatistics,
    pub(super) n_steps: u64,
    pub(super) n_updates: u64,
    exploration: EpsilonSchedule,
    report: StepReport,
    observations: Vec<[f32; 4]>,
    actions: Vec<u32>,
    folded: Vec<Folded<Start>>,
}

impl DqnTrainer {
    /// A run before its first step.
    ///
    /// # Errors
    /// When a setting cannot be right, or the agent does not fit the environment or the device.
    pub fn new(config: &AgentConfig, device: &Device) -> Result<DqnTrainer, Error> {
        config.check()?;
        let EnvironmentConfig::CartPole { n_environments } = config.environment;
        let Algorithm::Dqn(dqn) = &config.algorithm else {
            return Err(not_dqn(config));
        };
        let mut carts = CartPoles::new(n_environments, Autoreset::SameStep)?;
        carts.reset(config.seed);
        let folder = NStepFolder::new(dqn.n_step, dqn.gamma);
        Ok(DqnTrainer {
            agent: DqnAgent::of_config(config, device)?,
            carts,
            replay: Replay::new(&dqn.replay, transition_layout(4)?)?,
            folders: vec![folder; n_environments],
            episodes: EpisodeStatistics::new(n_environments),
            n_steps: 0,
            n_updates: 0,
            exploration: dqn.exploration.schedule(config.steps),
            report: StepReport {
                n_environments: n_environments as u64,
                ..StepReport::default()
            },
            observations: vec![[0.0; 4]; n_environments],
            actions: Vec::with_capacity(n_environments),
            folded: Vec::new(),
            dqn: dqn.clone(),
            config: config.clone(),
        })
    }

    /// One step in every environment, and the updates that are due then. All ranks of `comm` call it.
    ///
    /// # Errors
    /// When training has diverged, or a rank or a device is lost.
    pub fn advance(&mut self, comm: &mut Comm, deadline: Deadline) -> Result<&StepReport, Error> {
        self.report.epsilon = self.exploration.at(self.n_steps);
        self.report.episodes.clear();
        self.report.update = None;
        self.report.is_logged = false;
        self.observations.copy_from_slice(self.carts.observations());
        let mut stream = Stream::new(self.config.seed, "exploration", self.n_steps);
        let (seen, epsilon) = (self.observations.as_flattened(), self.report.epsilon);
        self.agent
            .act(seen, epsilon, &mut stream, &mut self.actions)?;
        self.carts.step(&self.actions)?;
        for idx in 0..self.carts.len() {
            self.remember(idx)?;
        }
        let before = self.n_steps;
        self.n_steps += self.carts.len() as u64;
        self.report.step = self.n_steps;
        if self.n_steps >= self.dqn.learning_starts {
            self.learn(before, comm, deadline)?;
        }
        Ok(&self.report)
    }

    /// Stores what the last step of environment `idx` completed.
    fn remember(&mut self, idx: usize) -> Result<(), Error> {
        let step = self.carts.last_step();
        let (reward, ended) = (step.rewards[idx], step.ended(idx));
        let ending = match (step.terminated[idx], ended) {
            (true, _) => Some(Ending::Terminated),
            (false, true) => Some(Ending::Truncated),
            (false, false) => None,
        };
        let start = (self.observations[idx], self.actions[idx]);
        self.folded.clear();
        self.folders[idx].push(start, reward, ending, &mut self.folded);
        // The carts begin the next episode within the step that ended one: its first observation is not what this one led to.
        let next = self.carts.final_observation(idx);
        let next = next.unwrap_or(&self.carts.observations()[idx]);
        for folded in &self.folded {
            let (observation, action) = &folded.start;
            self.replay.insert(&[
                Cell::F32(observation),
                Cell::U32(&[*action]),
                Cell::F32(&[folded.reward_sum]),
                Cell::F32(next),
                Cell::F32(&[folded.discount]),
            ])?;
        }
        let episode = self.episodes.record(idx, reward, ended);
        self.report.episodes.extend(episode);
        Ok(())
    }

    /// The updates and copies that fell due since step `before`.
    fn learn(&mut self, before: u64, comm: &mut Comm, deadline: Deadline) -> Result<(), Error> {
        let n_due = |every: u64| self.n_steps / every - before / every;
        let (n_updates, n_syncs) = (
            n_due(self.dqn.train_every),
            n_due(self.dqn.target_sync_steps),
        );
        let progress = self.n_steps as f32 / self.config.steps as f32;
        for _ in 0..n_updates {
            let mut stream = Stream::new(self.config.seed, "replay", self.n_updates);
            let batch = self
                .replay
                .sample(self.dqn.batch_size, progress, &mut stream)?;
            let update = self.agent.update(batch, comm, deadline)?;
            self.replay.update(self.agent.td_errors())?;
            self.n_updates += 1;
            self.report.update = Some(update);
            self.report.is_logged |= self.n_updates.is_multiple_of(self.dqn.log_updates);
        }
        if n_syncs > 0 {
            self.agent.sync_target();
        }
        Ok(())
    }

    /// The settings of the run.
    pub fn config(&self) -> &AgentConfig {
        &self.config
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
        self.n_steps
    }

    /// Updates so far.
    pub fn n_updates(&self) -> u64 {
        self.n_updates
    }

    /// Returns of the episodes so far.
    pub fn episodes(&self) -> &EpisodeStatistics {
        &self.episodes
    }
}
