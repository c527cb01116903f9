//! What algorithms that learn from remembered transitions have in common: experience, replay memory, counters, and
//! their form as a checkpoint.

use std::ops::Range;

use shardgraph_device::Device;
use shardgraph_environments::Actions;
use shardgraph_job::{Checkpoint, Tensors};
use shardgraph_replay::LeafRef;

use crate::checkpoint::{Learner, NoMore, RunState, restore};
use crate::config::AgentConfig;
use crate::dqn::{Replay, ReplayConfig, layout_of};
use crate::episodes::Episode;
use crate::error::Error;
use crate::experience::Experience;
use crate::memory::{Parts, check_room};
use crate::rank_trainer::Standing;
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
    /// Before the first step, with transitions of `n` rewards and a discount.
    pub(crate) fn new(
        config: &AgentConfig,
        options: &RunOptions,
        replay: &ReplayConfig,
        returns: (u32, f32),
    ) -> Result<OffPolicyRun, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        check_room(config, &environments, Parts::Together)?;
        let n_environments = config.environment.n_environments;
        Ok(OffPolicyRun {
            experience: Experience::new(&environments, n_environments, returns, config.seed)?,
            replay: Replay::new(replay, layout_of(environments.spaces())?)?,
            n_steps: 0,
            n_updates: 0,
            config: config.clone(),
        })
    }

    /// Takes a step in every environment and remembers it; gives the numbers of these steps, counted from 1.
    pub(crate) fn step(
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

    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing {
            config: &self.config,
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.experience.episodes(),
        }
    }

    /// Everything that decides how the run goes on.
    pub(crate) fn to_checkpoint(&self, learner: Learner<'_>) -> Result<Checkpoint, Error> {
        let (optimiser, replay) = (learner.optimiser.to_bytes(), self.replay.to_bytes());
        let experience = self.experience.to_parts();
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", learner.params.flat())?;
        tensors.add_u8("optimiser", &optimiser)?;
        tensors.add_u8("replay", &replay)?;
        experience.add_to(ENVIRONMENTS, &mut tensors)?;
        let run = RunState {
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.experience.episodes().clone(),
            ..RunState::first(&self.config, 0, learner.device)
        };
        run.to_checkpoint(NoMore {}, &tensors)
    }

    /// Where a checkpoint stood, that this run's settings are of; `learner` takes its weights and the optimiser's state.
    pub(crate) fn restore(
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
