//! Training by what is remembered: act in every environment, remember, and learn from draws of the memory. DQN and soft actor-critic are
//! agents of this loop.

use std::ops::Range;

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Device;
use shardgraph_environments::Actions;
use shardgraph_job::{Checkpoint, Ranks, Tensors};
use shardgraph_replay::LeafRef;

use crate::advance::Advance;
use crate::agent::Agent;
use crate::checkpoint::{Learner, NoMore, RunState, restore};
use crate::config::AgentConfig;
use crate::dqn::{Replay, ReplayConfig, layout_of};
use crate::episodes::Episode;
use crate::error::Error;
use crate::experience::Experience;
use crate::memory::{Parts, check_room};
use crate::observations::ActionBuffer;
use crate::rank_trainer::{Place, RankTrainer, Standing, StartTrainer};
use crate::rules::{BatchSettings, Rule};
use crate::run_options::RunOptions;

/// The name of the environments' state.
const ENVIRONMENTS: &str = "environments";

/// A run whose transitions are remembered, but for what learns from them.
#[derive(Debug)]
pub(crate) struct OffPolicyRun {
    pub(crate) config: AgentConfig,
    pub(crate) experience: Experience,
    pub(crate) replay: Replay,
    pub(crate) n_steps: u64,
    pub(crate) n_updates: u64,
}

impl OffPolicyRun {
    /// Before the first step.
    fn new(
        config: &AgentConfig,
        options: &RunOptions,
        transitions: &Transitions,
    ) -> Result<OffPolicyRun, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        check_room(config, &environments, Parts::Together)?;
        let n_environments = config.environment.n_environments;
        let (n_step, gamma, seed) = (transitions.n_step, transitions.gamma, config.seed);
        Ok(OffPolicyRun {
            experience: Experience::new(&environments, n_environments, n_step, gamma, seed)?,
            replay: Replay::new(&transitions.replay, layout_of(environments.spaces())?)?,
            n_steps: 0,
            n_updates: 0,
            config: config.clone(),
        })
    }

    /// Takes a step in every environment and remembers it; gives the numbers of these steps, counted from 1.
    fn step(
        &mut self,
        actions: Actions<'_>,
        episodes: &mut Vec<Episode>,
    ) -> Result<Range<u64>, Error> {
        let mut insert = |cells: &[LeafRef<'_>]| self.replay.insert(cells);
        self.experience.step(actions, &mut insert, episodes)?;
        let first = self.n_steps + 1;
        self.n_steps += self.experience.len() as u64;
        Ok(first..self.n_steps + 1)
    }

    fn standing(&self) -> Standing<'_> {
        Standing {
            config: &self.config,
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.experience.episodes(),
        }
    }

    /// Everything that decides how the run goes on.
    pub(crate) fn to_checkpoint(&self, learner: Learner<'_>) -> Result<Checkpoint, Error> {
        learner.sync()?;
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", learner.params.flat())?;
        tensors.add_u8("optimiser", learner.optimiser.to_bytes())?;
        tensors.add_u8("replay", self.replay.to_bytes())?;
        self.experience.add_to(ENVIRONMENTS, &mut tensors)?;
        let run = RunState {
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.experience.episodes().clone(),
            ..RunState::first(&self.config, 0, learner.device)
        };
        run.to_checkpoint(NoMore {}, &tensors)
    }

    /// Where a checkpoint stood, that this run's settings are of; `learner` takes its weights and the optimiser's state.
    fn restore(
        &mut self,
        checkpoint: &Checkpoint,
        device: &Device,
        learner: impl FnOnce(&[f32], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (run, NoMore {}) = RunState::of(checkpoint, device)?;
        (self.n_steps, self.n_updates) = (run.n_steps, run.n_updates);
        restore(checkpoint, |state| {
            learner(&state.f32s("weights")?, state.u8s("optimiser")?)?;
            self.replay.restore(state.u8s("replay")?)?;
            self.experience.restore(ENVIRONMENTS, state, run.episodes)
        })
    }
}

/// The scalars of one update, by tag.
pub(crate) type Scalars = Vec<(&'static str, f32)>;

/// What transitions are, and the memory that keeps them.
pub(crate) struct Transitions {
    pub(crate) replay: ReplayConfig,
    /// Rewards of a transition.
    pub(crate) n_step: u32,
    pub(crate) gamma: f32,
}

/// An agent that learns from remembered transitions. Each of its random numbers comes from a stream of (seed, purpose, index), where the
/// index is a step or an update.
pub(crate) trait OffPolicyAgent: Agent + Send + Sized + 'static {
    fn begin(config: &AgentConfig, options: &RunOptions) -> Result<Self, Error>;

    fn transitions(config: &AgentConfig) -> Result<Transitions, Error>;

    fn batch_settings(config: &AgentConfig) -> Result<BatchSettings, Error>;

    /// The actions of the next step, and how likely they are random, where the metrics tell of it.
    fn explore(
        &mut self,
        run: &OffPolicyRun,
        actions: &mut ActionBuffer,
    ) -> Result<Option<f32>, Error>;

    /// One update, as due at `step`.
    fn learn(
        &mut self,
        run: &mut OffPolicyRun,
        step: u64,
        comm: &mut Comm,
        timeout: Timeout,
    ) -> Result<Scalars, Error>;

    /// What else is due at `step`.
    fn pass(&mut self, config: &AgentConfig, step: u64) -> Result<(), Error> {
        let _ = (config, step);
        Ok(())
    }

    fn learner(&self) -> Learner<'_>;

    fn restore(&mut self, all_weights: &[f32], optimiser: &[u8]) -> Result<(), Error>;
}

/// An off-policy agent in a vector of environments: everything that decides how a run goes on.
///
/// # Determinism
/// Steps, updates and weights have the same bits for any number of ranks up to the gradient's blocks, and whether or not the state went
/// through a checkpoint in between.
#[derive(Debug)]
pub struct OffPolicyTrainer<A> {
    pub(crate) run: OffPolicyRun,
    pub(crate) agent: A,
    settings: BatchSettings,
    actions: ActionBuffer,
}

impl<A: OffPolicyAgent> StartTrainer for OffPolicyTrainer<A> {
    fn new(config: &AgentConfig, options: &RunOptions, _: Place) -> Result<Self, Error> {
        Ok(OffPolicyTrainer {
            run: OffPolicyRun::new(config, options, &A::transitions(config)?)?,
            agent: A::begin(config, options)?,
            settings: A::batch_settings(config)?,
            actions: ActionBuffer::default(),
        })
    }

    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        Rule::ranks(n_ranks, A::batch_settings(config)?.gradient_blocks).check()
    }

    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<Self, Error> {
        let mut trainer = Self::new(&RunState::config_of(checkpoint)?, options, place)?;
        let agent = &mut trainer.agent;
        let learner = |weights: &[f32], optimiser: &[u8]| agent.restore(weights, optimiser);
        trainer.run.restore(checkpoint, &options.device, learner)?;
        Ok(trainer)
    }
}

impl<A: OffPolicyAgent> RankTrainer for OffPolicyTrainer<A> {
    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let checkpoint = || self.run.to_checkpoint(self.agent.learner());
        ranks.is_first().then(checkpoint).transpose()
    }

    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error> {
        let mut advance = Advance {
            epsilon: self.agent.explore(&self.run, &mut self.actions)?,
            ..Advance::default()
        };
        let steps = self
            .run
            .step(self.actions.actions(), &mut advance.episodes)?;
        advance.n_steps = steps.end - steps.start;
        // A step of many environments may have begun before learning does.
        for step in steps.start.max(self.settings.learning_starts)..steps.end {
            if step.is_multiple_of(self.settings.train_every) {
                let scalars = self.agent.learn(&mut self.run, step, comm, timeout)?;
                self.run.n_updates += 1;
                if self.run.n_updates.is_multiple_of(self.settings.log_updates) {
                    advance.losses = vec![scalars];
                }
            }
            self.agent.pass(&self.run.config, step)?;
        }
        Ok(advance)
    }

    fn standing(&self) -> Standing<'_> {
        self.run.standing()
    }

    fn params(&self) -> &Params {
        self.agent.learner().params
    }
}
