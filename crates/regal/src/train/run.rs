//! A training run in its folder: metrics, checkpoints, and at the end the policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_components::autodiff::collectives::{Comm, Timeout};
use shardgraph_components::autodiff::device::{Device, DeviceKind};
use shardgraph_costgraph::Graph;
use shardgraph_job::{Checkpoint, Folder, Metrics, Ranks, tags, wall_time};

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
const POLICY: &str = "policy.safetensors";

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
    let checkpoint = Checkpoint::newest(folder, FILES)?.ok_or_else(|| none_in(folder))?;
    let file: RunFile = checkpoint.json(RUN, VERSION)?;
    Ok(file.config)
}

fn none_in(folder: &Path) -> Error {
    let folder = folder.display();
    Error::options(format!(
        "{folder}: there is no complete checkpoint to resume from"
    ))
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
    train_on_ranks(config, graphs, options, &mut Comm::solo(), on_step)
}

/// As [`train`], as one rank of several: each calls this with the same settings, graphs and options. The ranks share the searches
/// behind features, denominators and rewards; the networks run on every rank. Rank 0 alone writes the folder, the others read its checkpoint where a run is resumed.
///
/// # Errors
/// As [`train`]; `Ranks` where another rank is gone, and `Options` where the ranks are not of one mind about settings, graphs and step.
///
/// # Determinism
/// That of [`Trainer::with_comm`]: the same bits for any number of ranks.
pub fn train_on_ranks(
    config: &TrainConfig,
    graphs: &[Graph],
    options: &TrainOptions,
    comm: &mut Comm,
    on_step: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    let mut ranks = Ranks::new(comm, options.timeout);
    let is_first = ranks.is_first();
    let (trainer, place) = ranks.fail_together(|ranks| -> Result<_, Error> {
        let begun = begin(config, graphs, options, is_first)?;
        let (trainer, _) = &begun;
        let inputs = (
            "set of settings, graphs and checkpoint",
            trainer.fingerprint()?,
        );
        ranks.agree(&[Ranks::version_fact(), inputs])?;
        Ok(begun)
    })?;
    // Only now, so that ranks which are not of one mind leave no folder behind.
    let kept = ranks.fail_together(|_| place.map(Place::open).transpose())?;
    let own = std::mem::replace(ranks.comm, Comm::solo());
    let mut trainer = trainer.with_comm(own, options.timeout);
    let outcome = go_on(&mut trainer, kept, options, on_step);
    *ranks.comm = trainer.into_comm();
    ranks.fail_together(|_| outcome)
}

/// Steps to the last, and the policy.
fn go_on(
    trainer: &mut Trainer<'_>,
    mut kept: Option<Kept>,
    options: &TrainOptions,
    on_step: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    let stop_at = options.stop_at.unwrap_or(trainer.config().steps);
    let n_steps = trainer.n_steps();
    if stop_at < n_steps.max(1) {
        return Err(Error::options(format!(
            "the run is at step {n_steps} already: give at least {}, not {stop_at}",
            n_steps.max(1)
        )));
    }
    let mut reports = Vec::new();
    while trainer.n_steps() < stop_at {
        let report = trainer.step()?;
        if let Some(kept) = &mut kept {
            kept.append(&report)?;
            let is_due = report
                .step
                .is_multiple_of(trainer.config().checkpoint_steps);
            if is_due || report.step == stop_at {
                kept.checkpoint(trainer)?;
                trainer.policy()?.write(&kept.folder.path().join(POLICY))?;
            }
        }
        on_step(&report);
        reports.push(report);
    }
    let policy = trainer.policy()?;
    if let Some(kept) = &kept {
        policy.write(&kept.folder.path().join(POLICY))?;
    }
    Ok(TrainOutcome {
        policy,
        n_steps: trainer.n_steps(),
        reports,
    })
}

/// The folder that a run is to be kept in.
enum Place {
    /// That of a run that goes on.
    Old(Folder),
    /// Where a new run's is to be made.
    New(PathBuf),
}

impl Place {
    fn open(self) -> Result<Kept, Error> {
        let folder = match self {
            Place::Old(folder) => folder,
            Place::New(path) => Folder::of_new_run(&path, FILES, &[POLICY])?,
        };
        let metrics = folder.open_metrics(wall_time())?;
        Ok(Kept { folder, metrics })
    }
}

/// A trainer, and where it is to be kept; nothing is made yet.
fn begin<'g>(
    config: &TrainConfig,
    graphs: &'g [Graph],
    options: &TrainOptions,
    writes: bool,
) -> Result<(Trainer<'g>, Option<Place>), Error> {
    let Some(path) = &options.folder else {
        if options.resume {
            return Err(Error::options("name the folder of the run to go on with"));
        }
        return Ok((new_trainer(config, graphs, options)?, None));
    };
    if options.resume {
        if options.start.is_some() {
            let message =
                "a run that is resumed has a policy already: leave out the one to begin with";
            return Err(Error::options(message));
        }
        if !writes {
            let checkpoint = Checkpoint::newest(path, FILES)?.ok_or_else(|| none_in(path))?;
            return Ok((resumed(&checkpoint, graphs, options)?, None));
        }
        let (folder, checkpoint) = Folder::of_old_run(path, FILES)?;
        let trainer = resumed(&checkpoint, graphs, options)?;
        return Ok((trainer, Some(Place::Old(folder))));
    }
    // Settings that cannot be right leave no folder behind.
    let trainer = new_trainer(config, graphs, options)?;
    Ok((trainer, writes.then(|| Place::New(path.clone()))))
}

fn resumed<'g>(
    checkpoint: &Checkpoint,
    graphs: &'g [Graph],
    options: &TrainOptions,
) -> Result<Trainer<'g>, Error> {
    let file: RunFile = checkpoint.json(RUN, VERSION)?;
    let given = options.device.kind().family();
    if file.device != given {
        let origin = checkpoint.origin();
        return Err(Error::options(format!(
            "{origin}: the run began on device `{}`, which `{given}` differs from in the last bits: resume it there",
            file.device
        )));
    }
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

/// The folder of a run that takes steps.
struct Kept {
    folder: Folder,
    metrics: Metrics,
}

impl Kept {
    fn append(&mut self, report: &StepReport) -> Result<(), Error> {
        let mut scalars = vec![
            (tags::LOSS, report.loss),
            (tags::VALUE_LOSS, report.baseline_error),
            (tags::ENTROPY, report.entropy),
            (tags::GRADIENT_NORM, report.gradient_norm),
        ];
        scalars.extend(report.reward.map(|reward| ("train/reward", reward)));
        Ok(self.metrics.append(wall_time(), report, &scalars)?)
    }

    fn checkpoint(&mut self, trainer: &Trainer<'_>) -> Result<(), Error> {
        let checkpoint = trainer.to_checkpoint()?;
        Ok(self.folder.write_checkpoint(&checkpoint, &self.metrics)?)
    }
}
