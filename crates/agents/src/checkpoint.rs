//! What the checkpoints of all algorithms have: the settings, the counters that key all random streams, and tensors.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardgraph_autodiff::Params;
use shardgraph_components::Optimiser;
use shardgraph_device::Device;
use shardgraph_job::{Checkpoint, Tensors};

use crate::config::{AgentConfig, Algorithm};
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::rank_trainer::Standing;

/// The files of each checkpoint.
pub(crate) const FILES: &[&str] = &[STATE, RUN];
const STATE: &str = "state.safetensors";
pub(crate) const RUN: &str = "run.json";
/// Of `run.json` and of the tensors' names.
const VERSION: u32 = 1;

/// Where a run stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub(crate) config: AgentConfig,
    pub(crate) n_steps: u64,
    pub(crate) n_updates: u64,
    pub(crate) episodes: EpisodeStatistics,
    /// The family of devices that the run computes on; others round otherwise.
    pub(crate) device: String,
}

/// What learns, as a checkpoint has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Learner<'a> {
    pub(crate) params: &'a Params,
    pub(crate) optimiser: &'a Optimiser,
    pub(crate) device: &'a Device,
}

impl Learner<'_> {
    /// Copies weights and the optimiser's state to the host, where the device has newer ones.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.params.sync()?;
        Ok(self.optimiser.sync()?)
    }
}

/// `run.json`: the same for all, and what an algorithm adds.
#[derive(Serialize, Deserialize)]
struct File<M> {
    #[serde(flatten)]
    state: RunState,
    #[serde(flatten)]
    more: M,
}

/// Of an algorithm that adds nothing, or where nothing of it is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NoMore {}

impl RunState {
    /// Before the first step, with the returns of so many environments.
    pub(crate) fn first(config: &AgentConfig, n_environments: usize, device: &Device) -> RunState {
        RunState {
            config: config.clone(),
            n_steps: 0,
            n_updates: 0,
            episodes: EpisodeStatistics::new(n_environments),
            device: device.kind().family().to_owned(),
        }
    }

    /// The settings alone.
    pub(crate) fn config_of(checkpoint: &Checkpoint) -> Result<AgentConfig, Error> {
        let state: RunState = checkpoint.json(RUN, VERSION)?;
        Ok(state.config)
    }

    /// Where the run stood, and what its algorithm has added.
    ///
    /// # Errors
    /// When the checkpoint is of another version or kind of device, or its parts do not belong together.
    pub(crate) fn of<M: DeserializeOwned>(
        checkpoint: &Checkpoint,
        device: &Device,
    ) -> Result<(RunState, M), Error> {
        let File { mut state, more } = checkpoint.json::<File<M>>(RUN, VERSION)?;
        checkpoint.check_device(&state.device, device.kind().family())?;
        if state.n_steps != checkpoint.step() {
            return Err(Error::input(format!(
                "{}: {RUN} is of step {}: give the folder back the name that it had",
                checkpoint.origin(),
                state.n_steps
            )));
        }
        // DQN and SAC count by environment; the others, whose environments are elsewhere, count whole episodes.
        let n = match state.config.algorithm {
            Algorithm::Dqn(_) | Algorithm::Sac(_) => state.config.environment.n_environments,
            _ => 1,
        };
        state.episodes = state.episodes.of_environments(n)?;
        Ok((state, more))
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing {
            config: &self.config,
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: &self.episodes,
        }
    }

    /// The checkpoint of this moment.
    pub(crate) fn to_checkpoint<M: Serialize + DeserializeOwned>(
        &self,
        more: M,
        tensors: &Tensors<'_>,
    ) -> Result<Checkpoint, Error> {
        let mut checkpoint = Checkpoint::new(self.n_steps);
        checkpoint.add(STATE, tensors.to_bytes()?)?;
        let state = self.clone();
        checkpoint.add_json(RUN, VERSION, &File { state, more })?;
        Ok(checkpoint)
    }
}

/// Takes over the tensors of a checkpoint; what is wrong with them names it.
pub(crate) fn restore<T>(
    checkpoint: &Checkpoint,
    take: impl FnOnce(&Tensors<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let tensors = checkpoint.tensors(STATE)?;
    take(&tensors).map_err(|error| Error::input(format!("{}: {error}", checkpoint.origin())))
}
