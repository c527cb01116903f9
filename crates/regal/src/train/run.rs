//! A training run in its folder: metrics, checkpoints, and at the end the policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_components::autodiff::collectives::{Comm, Timeout};
use shardgraph_components::autodiff::device::{Device, DeviceKind};
use shardgraph_costgraph::Graph;
use shardgraph_job::{Checkpoint, CheckpointSchedule, LoopOptions, Ranks, RunPlace, check_until};

use super::{StepReport, TrainConfig, Trainer};
use crate::error::Error;
use crate::policy::Policy;

/// The files of a checkpoint.
const FILES: &[&str] = &[STATE, RUN];
pub(super) const STATE: &str = "state.safetensors";
pub(super) const RUN: &str = "run.json";
/// Of `run.json`, of what its hash of the graphs is made of, and of the tensors' names.
///
/// Version 1 had no names, cost classes and numbers of consumers in that hash.
pub(super) const VERSION: u32 = 2;
/// The policy's file in the folder of a run.
pub(super) const POLICY: &str = "policy.safetensors";

/// `run.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunFile {
    pub(super) config: TrainConfig,
    pub(super) step: u64,
    pub(super) graphs_hash: String,
    /// The kind of device that the networks are on.
    #[serde(default = "host")]
    pub(super) device: String,
}

/// The device of runs whose file names none.
fn host() -> String {
    DeviceKind::Host.family().to_owned()
}

/// Where a run is kept and how far it goes; nothing of this but `start` and the kind of `device` changes a bit of it.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Its folder; without one, nothing is kept.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// The step to end after, in place of the settings' one.
    pub stop_at: Option<u64>,
    /// Threads that search.
    pub threads: usize,
    /// How long a rank waits for the others at each exchange.
    pub timeout: Timeout,
    /// The policy to begin with, in place of one for which all levels are equally likely: this one does change the run. A resumed run
    /// takes none.
    pub start: Option<Policy>,
    /// Where the networks are; searches are on the host. A run is resumed on the kind of device that it began on.
    pub device: Device,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct TrainOutcome {
    /// The policy after the last step.
    pub policy: Policy,
    /// Steps of the whole run.
    pub n_steps: u64,
    /// Reports of the steps that this call took.
    pub reports: Vec<StepReport>,
}

/// The settings of the run that a folder holds.
///
/// # Errors
/// `Run` or `Options` where it holds no whole checkpoint of such a run.
pub fn config_of_run(folder: &Path) -> Result<TrainConfig, Error> {
    let none = || {
        Error::options(format!(
            "{}: there is no complete checkpoint to resume from",
            folder.display()
        ))
    };
    let checkpoint = Checkpoint::newest(folder, FILES)?.ok_or_else(none)?;
    let file: RunFile = checkpoint.json(RUN, VERSION)?;
    Ok(file.config)
}

/// Trains a policy on these graphs, in a folder where one is named; `on_step` sees each step.
///
/// A run that is resumed has the settings of its checkpoint, and `config` counts for nothing.
///
/// # Errors
/// As [`Trainer::new`] and [`Trainer::step`]; `Options` where the run is beyond the last step already; `Run` where the folder cannot be
/// taken or written. The policy's file is written with each checkpoint.
///
/// # Determinism
/// That of [`Trainer`]: a run that was killed and resumed ends with the bits of one that never stopped.
pub fn train(
    config: &TrainConfig,
    graphs: &[Graph],
    options: &TrainOptions,
    on_step: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    train_as_rank(&mut Comm::solo(), config, graphs, options, on_step)
}

/// As [`train`], as one rank of several: each calls this with the same settings, graphs and options. The ranks share the searches
/// behind features, denominators and rewards; the networks run on every rank. Rank 0 alone reads and writes the folder; it sends the others its checkpoint where a run is resumed.
///
/// # Errors
/// As [`train`]; `Ranks` where another rank is gone, and `Options` where the ranks are not of one mind about settings, graphs and step.
///
/// # Determinism
/// That of [`Trainer::step_on`]: the same bits for any number of ranks.
pub fn train_as_rank(
    comm: &mut Comm,
    config: &TrainConfig,
    graphs: &[Graph],
    options: &TrainOptions,
    on_step: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    let mut ranks = Ranks::new(comm, options.timeout);
    let place = RunPlace {
        folder: options.folder.clone(),
        resume: options.resume,
        files: FILES,
        results: &[POLICY],
    };
    let (mut trainer, taken) = place.load(
        &mut ranks,
        |_| new_trainer(config, graphs, options),
        |_, newest| resumed(newest, graphs, options),
    )?;
    let until = options.stop_at.unwrap_or(trainer.config().steps);
    ranks.fail_together(|ranks| -> Result<(), Error> {
        let inputs = trainer.fingerprint()?;
        let inputs = ("set of settings, graphs and checkpoint", inputs);
        ranks.agree(&[Ranks::version_fact(), inputs])?;
        check_until(trainer.n_steps(), until)?;
        match until {
            0 => Err(Error::options(
                "the last step: expected at least 1, given 0",
            )),
            _ => Ok(()),
        }
    })?;
    let mut recorder = place.open(&mut ranks, taken)?;
    let schedule = CheckpointSchedule::every_steps(trainer.config().checkpoint_steps);
    let steps = LoopOptions {
        until,
        schedule: options.folder.is_some().then_some(schedule),
    };
    let mut reports = Vec::new();
    shardgraph_job::run(
        &mut trainer,
        &mut ranks,
        recorder.as_mut(),
        steps,
        &mut |report| {
            on_step(report);
            reports.push(*report);
        },
    )?;
    Ok(TrainOutcome {
        policy: trainer.policy()?,
        n_steps: trainer.n_steps(),
        reports,
    })
}

fn resumed<'g>(
    checkpoint: &Checkpoint,
    graphs: &'g [Graph],
    options: &TrainOptions,
) -> Result<Trainer<'g>, Error> {
    if options.start.is_some() {
        let message = "a run that is resumed has a policy already: leave out the one to begin with";
        return Err(Error::options(message));
    }
    let file: RunFile = checkpoint.json(RUN, VERSION)?;
    checkpoint.check_device(&file.device, options.device.kind().family())?;
    let trainer = Trainer::of_checkpoint(checkpoint, graphs, options.threads)?;
    Ok(trainer.on_device(&options.device))
}

fn new_trainer<'g>(
    config: &TrainConfig,
    graphs: &'g [Graph],
    options: &TrainOptions,
) -> Result<Trainer<'g>, Error> {
    let trainer = Trainer::new(config, graphs, options.threads)?;
    let mut trainer = trainer.on_device(&options.device);
    if let Some(policy) = &options.start {
        trainer.begin_with(policy)?;
    }
    Ok(trainer)
}
