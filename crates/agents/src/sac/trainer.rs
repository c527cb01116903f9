//! The training loop: act in every environment, remember, and learn from what is remembered.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks, tags};
use shardgraph_random::KeyedRng;
use shardgraph_replay::LeafRef;

use super::agent::SacAgent;
use super::config::SacConfig;
use super::update::SacUpdate;
use crate::advance::Advance;
use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::dqn::{Replay, ReplayConfig, check_ranks, layout_of};
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::experience::Experience;
use crate::memory::{Parts, check_room};
use crate::observations::ActionBuffer;
use crate::rank_trainer::{Place, RankTrainer};
use crate::run_options::RunOptions;

const TEMPERATURE: &str = "train/temperature";

/// Soft actor-critic in a vector of environments: everything that decides how a run goes on.
///
/// # Determinism
/// As of DQN: steps, updates and weights have the same bits for any number of ranks up to [`SacConfig::gradient_blocks`], and whether or not
/// the state went through a checkpoint in between.
#[derive(Debug)]
pub(crate) struct SacTrainer {
    pub(super) config: AgentConfig,
    pub(super) sac: SacConfig,
    pub(super) agent: SacAgent,
    pub(super) experience: Experience,
    pub(super) replay: Replay,
    pub(super) n_steps: u64,
    pub(super) n_updates: u64,
    actions: ActionBuffer,
}

impl SacTrainer {
    /// A step in every environment; gives the episodes that ended.
    fn act(&mut self) -> Result<Vec<Episode>, Error> {
        let mut stream = KeyedRng::new(self.config.seed, "sac actions", self.n_steps);
        let (seen, n) = (self.experience.seen(), self.experience.len());
        match self.n_steps < self.sac.learning_starts {
            true => self.agent.act_at_random(n, &mut stream, &mut self.actions),
            false => self
                .agent
                .act_sampled(seen, &mut stream, &mut self.actions)?,
        }
        let mut insert = |cells: &[LeafRef<'_>]| self.replay.insert(cells);
        let mut episodes = Vec::new();
        self.experience
            .step(self.actions.actions(), &mut insert, &mut episodes)?;
        self.n_steps += n as u64;
        Ok(episodes)
    }

    fn update(&mut self, comm: &mut Comm, deadline: Timeout) -> Result<SacUpdate, Error> {
        let (seed, n) = (self.config.seed, self.n_updates);
        let mut draws = KeyedRng::new(seed, "replay", n);
        let (rows, _) = self.replay.sample(self.sac.batch_size, 0.0, &mut draws)?;
        let mut noise = KeyedRng::new(seed, "sac noise", n);
        let update = self.agent.update(rows, &mut noise, comm, deadline)?;
        self.n_updates += 1;
        Ok(update)
    }

    fn scalars(&self, update: SacUpdate) -> Vec<(&'static str, f32)> {
        vec![
            (tags::TD_LOSS, update.critic),
            (tags::POLICY_LOSS, update.policy),
            (tags::ENTROPY, update.entropy),
            (tags::Q_VALUES, update.q_mean),
            (TEMPERATURE, self.agent.temperature()),
        ]
    }
}

impl RankTrainer for SacTrainer {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<SacTrainer, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        check_room(config, &environments, Parts::Together)?;
        let sac = config.algorithm.sac()?;
        let (n_environments, returns) = (config.environment.n_environments, (1, sac.gamma));
        let replay = ReplayConfig {
            capacity: sac.replay.capacity,
            prioritized: None,
        };
        Ok(SacTrainer {
            agent: SacAgent::of_config(config, options)?,
            experience: Experience::new(&environments, n_environments, returns, config.seed)?,
            replay: Replay::new(&replay, layout_of(environments.spaces())?)?,
            n_steps: 0,
            n_updates: 0,
            actions: ActionBuffer::default(),
            sac: sac.clone(),
            config: config.clone(),
        })
    }

    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        check_ranks(config.algorithm.sac()?.gradient_blocks, n_ranks)
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<SacTrainer, Error> {
        SacTrainer::restored(checkpoint, options, place)
    }

    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        match ranks.is_first() {
            true => self.checkpoint().map(Some),
            false => Ok(None),
        }
    }

    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error> {
        let before = self.n_steps;
        let episodes = self.act()?;
        let mut losses = Vec::new();
        // A step of many environments may have begun before learning does.
        for step in (before + 1).max(self.sac.learning_starts)..=self.n_steps {
            if !step.is_multiple_of(self.sac.train_every) {
                continue;
            }
            let update = self.update(comm, timeout)?;
            if self.n_updates.is_multiple_of(self.sac.log_updates) {
                losses = vec![self.scalars(update)];
            }
        }
        Ok(Advance {
            n_steps: self.n_steps - before,
            episodes,
            losses,
            ..Advance::default()
        })
    }

    fn config(&self) -> &AgentConfig {
        &self.config
    }

    fn n_steps(&self) -> u64 {
        self.n_steps
    }

    fn n_updates(&self) -> u64 {
        self.n_updates
    }

    fn episodes(&self) -> &EpisodeStatistics {
        self.experience.episodes()
    }

    fn params(&self) -> &Params {
        self.agent.params()
    }

    fn into_agent(self, _: &RunOptions) -> Result<Box<dyn Agent + Send>, Error> {
        Ok(Box::new(self.agent))
    }
}
