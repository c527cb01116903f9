//! The training loop's whole state as the files of a checkpoint.

use serde::{Deserialize, Serialize};
use shardgraph_device::{Device, DeviceKind};
use shardgraph_replay::NStepFolder;
use shardgraph_runs::{Checkpoint, Tensors};

use super::trainer::{DqnTrainer, Start};
use crate::config::AgentConfig;
use crate::episodes::EpisodeStatistics;
use crate::error::Error;

/// The files of each checkpoint.
pub(crate) const FILES: &[&str] = &[STATE, RUN];
const STATE: &str = "state.safetensors";
const RUN: &str = "run.json";
/// Of `run.json` and of the tensors' names.
const VERSION: u32 = 1;

/// What `run.json` holds: the settings, and the counters that key all random streams.
#[derive(Serialize, Deserialize)]
struct Run {
    config: AgentConfig,
    n_steps: u64,
    n_updates: u64,
    episodes: EpisodeStatistics,
    /// The kind of device that the run computes on; others round otherwise.
    device: String,
}

impl DqnTrainer {
    /// Everything that decides how the run goes on.
    ///
    /// # Errors
    /// When the state has no form as files, which is a defect of the program.
    pub fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let mut checkpoint = Checkpoint::new(self.n_steps);
        checkpoint.add(STATE, self.state()?)?;
        let run = Run {
            config: self.config.clone(),
            n_steps: self.n_steps,
            n_updates: self.n_updates,
            episodes: self.episodes.clone(),
            device: kind_of(self.agent.device()),
        };
        checkpoint.add_json(RUN, VERSION, &run)?;
        Ok(checkpoint)
    }

    /// The run that a checkpoint was made of, to go on as if it had never stopped.
    ///
    /// # Errors
    /// When the checkpoint is of another version or kind of device, or its parts do not belong together.
    pub fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<DqnTrainer, Error> {
        let run: Run = checkpoint.json(RUN, VERSION)?;
        let wrong = |why: String| Error::input(format!("{}: {why}", checkpoint.origin()));
        if run.device != kind_of(device) {
            return Err(wrong(format!(
                "the run computes on `{0}`, and another kind of device rounds otherwise: resume it with --device {0}",
                run.device
            )));
        }
        let mut trainer = DqnTrainer::new(&run.config, device)?;
        if run.episodes.n_environments() != trainer.episodes.n_environments() {
            return Err(wrong(
                "its episodes are those of another number of environments".to_owned(),
            ));
        }
        trainer.n_steps = run.n_steps;
        trainer.n_updates = run.n_updates;
        trainer.episodes = run.episodes;
        let state = checkpoint.tensors(STATE)?;
        trainer
            .restore(&state)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(trainer)
    }

    fn state(&self) -> Result<Vec<u8>, Error> {
        let (optimiser, replay) = (self.agent.optimiser().to_bytes(), self.replay.to_bytes());
        let environments = self.carts.to_bytes();
        let pending = Pending::of(&self.folders);
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.agent.all_weights())?;
        tensors.add_u8("optimiser", &optimiser)?;
        tensors.add_u8("replay", &replay)?;
        tensors.add_u8("environments", &environments)?;
        pending.add_to(&mut tensors)?;
        Ok(tensors.to_bytes()?)
    }

    fn restore(&mut self, state: &Tensors<'_>) -> Result<(), Error> {
        self.agent
            .restore(&state.f32s("weights")?, state.u8s("optimiser")?)?;
        self.replay.restore(state.u8s("replay")?)?;
        self.carts.restore(state.u8s("environments")?)?;
        Pending::from_tensors(state)?.push_into(&mut self.folders)
    }
}

/// What decides the last bits of a result: `host`, `emulated` or `cuda`, whichever GPU it is.
pub(crate) fn kind_of(device: &Device) -> String {
    match device.kind() {
        DeviceKind::Cuda(_) => "cuda".to_owned(),
        kind => kind.to_string(),
    }
}

/// The steps that wait for the rest of their rewards, environment by environment.
#[derive(Default)]
pub(crate) struct Pending {
    /// How many, by environment.
    n: Vec<u32>,
    observations: Vec<f32>,
    actions: Vec<u32>,
    rewards: Vec<f32>,
}

impl Pending {
    pub(crate) fn of(folders: &[NStepFolder<Start>]) -> Pending {
        let mut pending = Pending::default();
        for folder in folders {
            pending.n.push(folder.pending().count() as u32);
            for ((observation, action), reward) in folder.pending() {
                pending.observations.extend(observation);
                pending.actions.push(*action);
                pending.rewards.push(reward);
            }
        }
        pending
    }

    pub(crate) fn add_to(&self, tensors: &mut Tensors<'_>) -> Result<(), Error> {
        tensors.add_u32("pending/n", &self.n)?;
        tensors.add_f32("pending/observations", &self.observations)?;
        tensors.add_u32("pending/actions", &self.actions)?;
        Ok(tensors.add_f32("pending/rewards", &self.rewards)?)
    }

    pub(crate) fn from_tensors(state: &Tensors<'_>) -> Result<Pending, Error> {
        Ok(Pending {
            n: state.u32s("pending/n")?,
            observations: state.f32s("pending/observations")?,
            actions: state.u32s("pending/actions")?,
            rewards: state.f32s("pending/rewards")?,
        })
    }

    pub(crate) fn push_into(&self, folders: &mut [NStepFolder<Start>]) -> Result<(), Error> {
        let (observations, _) = self.observations.as_chunks::<4>();
        let n_steps = self.n.iter().map(|&n| n as usize).sum::<usize>();
        let lengths = [observations.len(), self.actions.len(), self.rewards.len()];
        if self.n.len() != folders.len() || lengths != [n_steps; 3] {
            return Err(Error::input(
                "the steps that wait for their rewards do not fit the environments",
            ));
        }
        let starts = observations
            .iter()
            .copied()
            .zip(self.actions.iter().copied());
        let mut steps = starts.zip(self.rewards.iter().copied());
        for (folder, &n) in folders.iter_mut().zip(&self.n) {
            let mut completed = Vec::new();
            for (start, reward) in steps.by_ref().take(n as usize) {
                folder.push(start, reward, None, &mut completed);
            }
            if !completed.is_empty() {
                return Err(Error::input(
                    "more steps wait for their rewards than a return has",
                ));
            }
        }
        Ok(())
    }
}
