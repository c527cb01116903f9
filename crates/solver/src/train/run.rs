//! A training run from its start or its last checkpoint to its policy file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Deadline, threads};
use shardgraph_device::Device;
use shardgraph_graph::write_atomic;

use super::checkpoint;
use super::trainer::Trainer;
use super::{Preset, TrainConfig};
use crate::residual::Ranks;
use crate::solve::{check_ranks, collect_ranks};
use crate::{Error, TrainedPolicy};

const METRICS: &str = "metrics.jsonl";

/// How and where a run is carried out; nothing here but the kind of device changes a bit of what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Ranks that share each batch; threads of this process.
    pub n_ranks: u32,
    /// Where checkpoints, metrics and the policy go; absent means nowhere.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// The longest wait for another rank.
    pub deadline: Deadline,
    /// Where to compute; each rank has a stream of its own. Kinds of devices differ from each other in the last bits, so a
    /// run goes on only on the kind that it began on.
    pub device: Device,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            folder: None,
            resume: false,
            deadline: Deadline::default(),
            device: Device::host(),
        }
    }
}

/// What a step did; one line of `metrics.jsonl`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Steps taken, this one included.
    pub step: u64,
    /// The loss before the last optimiser step; absent while the memory fills up.
    pub loss: Option<f32>,
    /// Probability of a random pick at this step.
    pub epsilon: f32,
    /// The size of the cover, where this step finished one.
    pub cover: Option<usize>,
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct TrainOutcome {
    /// The trained policy.
    pub policy: TrainedPolicy,
    /// The reports of the steps that this call took (after a resume: not those before).
    pub reports: Vec<StepReport>,
}

/// What `policy.json` says of the run that made a policy.
#[derive(Serialize)]
struct Provenance<'a> {
    policy: &'a crate::PolicyConfig,
    train: &'a TrainConfig,
    steps: u64,
}

/// Trains a policy.
///
/// With a folder, writes `metrics.jsonl` (a [`StepReport`] a line), a checkpoint every
/// [`TrainConfig::checkpoint_steps`] steps and at the end, and at last `policy.safetensors` with `policy.json`. When
/// resuming, only [`TrainConfig::steps`] is taken from `config`, the rest from the checkpoint.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, or a rank is lost.
/// # Determinism
/// The same reports and the same policy, bit for bit, for every number of ranks, and whether or not the run was stopped
/// and resumed at a checkpoint.
/// # Source
/// OpenGraphGym-MG, algorithm 5.
///
/// ```
/// use shardgraph_solver::train::{RunOptions, TrainConfig, train};
/// let config = TrainConfig { steps: 20, batch_size: 4, ..TrainConfig::default() };
/// let outcome = train(&config, &RunOptions::default(), &mut |_| ())?;
/// assert_eq!(outcome.reports.len(), 20);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn train(
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&StepReport) + Send),
) -> Result<TrainOutcome, Error> {
    check_ranks(options.n_ranks)?;
    config.check()?;
    let (trainer, _lock) = match options.resume {
        true => resume(config, options)?,
        false => begin(config, options)?,
    };
    let metrics = open_metrics(options, trainer.step)?;
    if options.n_ranks == 1 {
        return run_rank(trainer, Comm::solo(), options, metrics, progress);
    }
    let (metrics, progress) = (Mutex::new(Some(metrics)), Mutex::new(progress));
    let results = threads::run(options.n_ranks, |comm| {
        let metrics = match comm.rank() {
            0 => metrics
                .lock()
                .ok()
                .and_then(|mut file| file.take())
                .flatten(),
            _ => None,
        };
        let options = RunOptions {
            folder: options.folder.clone().filter(|_| comm.rank() == 0),
            ..options.clone()
        };
        let is_first = comm.rank() == 0;
        run_rank(trainer.clone(), comm, &options, metrics, &mut |report| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    });
    same_outcome(collect_ranks(results)?)
}

/// The outcome of rank 0, once all ranks' parameters have the same bits.
fn same_outcome(mut outcomes: Vec<TrainOutcome>) -> Result<TrainOutcome, Error> {
    let first = outcomes.swap_remove(0);
    let flat = |outcome: &TrainOutcome| -> Vec<u32> {
        let values = outcome.policy.params.flat();
        values.iter().map(|x| x.to_bits()).collect()
    };
    if outcomes.iter().any(|other| flat(other) != flat(&first)) {
        return Err(Error::internal("the ranks trained different parameters"));
    }
    Ok(first)
}

/// A run from its first step, with its folder held. Nothing is made for settings that cannot be right.
fn begin(config: &TrainConfig, options: &RunOptions) -> Result<(Trainer, Option<fs::File>), Error> {
    let trainer = Trainer::new(config.clone())?;
    let Some(folder) = &options.folder else {
        return Ok((trainer, None));
    };
    fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let lock = lock(folder)?;
    if checkpoint::newest(folder)?.is_some() {
        return Err(Error::input(format!(
            "{}: the folder has a run already: resume it, or choose another folder",
            folder.display()
        )));
    }
    Ok((trainer, lock))
}

/// A run from its folder's newest checkpoint, with the folder held.
fn resume(
    config: &TrainConfig,
    options: &RunOptions,
) -> Result<(Trainer, Option<fs::File>), Error> {
    let Some(folder) = &options.folder else {
        return Err(Error::input("to resume, name the run's folder"));
    };
    let none = || {
        Error::input(format!(
            "{}: there is no complete checkpoint to resume from",
            folder.display()
        ))
    };
    if !folder.is_dir() {
        return Err(none());
    }
    let lock = lock(folder)?;
    let newest = checkpoint::newest(folder)?.ok_or_else(none)?;
    Ok((
        checkpoint::read(&newest, config.steps, &options.device)?,
        lock,
    ))
}

/// Holds a run's folder against other processes, as long as the file that is given back is open.
///
/// The folder itself carries the lock, which systems other than Unix do not have: there nothing is held.
fn lock(folder: &Path) -> Result<Option<fs::File>, Error> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = fs::File::open(folder).map_err(Error::io(folder))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Err(Error::input(format!(
            "{}: another process trains in this folder: wait for it, or choose another folder",
            folder.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(Error::io(folder)(error)),
    }
}

/// Opens the metrics for appending, cut back to the lines up to `step`.
fn open_metrics(options: &RunOptions, step: u64) -> Result<Option<fs::File>, Error> {
    let Some(folder) = &options.folder else {
        return Ok(None);
    };
    let path = folder.join(METRICS);
    let kept = match fs::read(&path) {
        Ok(bytes) => lines_up_to(&bytes, step),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io(&path)(error)),
    };
    write_atomic(&path, |out| out.write_all(&kept)).map_err(Error::io(&path))?;
    let file = fs::OpenOptions::new().append(true).open(&path);
    Ok(Some(file.map_err(Error::io(&path))?))
}

/// A kill can leave lines of steps behind the checkpoint, and a torn last one.
fn lines_up_to(bytes: &[u8], step: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let report: Option<StepReport> = serde_json::from_slice(line).ok();
        if line.ends_with(b"\n") && report.is_some_and(|report| report.step <= step) {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// What one rank does. Ranks without a folder write nothing.
fn run_rank(
    mut trainer: Trainer,
    mut comm: Comm,
    options: &RunOptions,
    mut metrics: Option<fs::File>,
    progress: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    trainer.compute_on(options.device.new_stream()?);
    let mut ranks = Ranks {
        comm: &mut comm,
        deadline: options.deadline,
    };
    let mut reports = Vec::new();
    while trainer.step < trainer.config.steps {
        let epsilon = trainer.config.epsilon(trainer.step);
        let stepped = trainer.advance(&mut ranks)?;
        let report = StepReport {
            step: trainer.step,
            loss: stepped.loss,
            epsilon,
            cover: stepped.finished_cover,
        };
        if let Some(file) = &mut metrics {
            append(file, &report, options)?;
        }
        progress(&report);
        reports.push(report);
        let at_end = trainer.step == trainer.config.steps;
        if let Some(folder) = &options.folder
            && (at_end || trainer.step.is_multiple_of(trainer.config.checkpoint_steps))
        {
            if let Some(file) = &metrics {
                // A checkpoint promises the lines before it.
                file.sync_data().map_err(Error::io(&folder.join(METRICS)))?;
            }
            checkpoint::write(folder, &trainer)?;
        }
    }
    if let Some(folder) = &options.folder {
        write_policy(folder, &trainer)?;
    }
    Ok(TrainOutcome {
        policy: trainer.policy,
        reports,
    })
}

fn append(file: &mut fs::File, report: &StepReport, options: &RunOptions) -> Result<(), Error> {
    let mut line = serde_json::to_string(report)
        .map_err(|e| Error::internal(format!("a report without JSON form: {e}")))?;
    line.push('\n');
    let folder = options.folder.clone().unwrap_or_default();
    file.write_all(line.as_bytes())
        .map_err(Error::io(&folder.join(METRICS)))
}

fn write_policy(folder: &Path, trainer: &Trainer) -> Result<(), Error> {
    trainer.policy.write(&folder.join("policy.safetensors"))?;
    let provenance = checkpoint::to_json(&Provenance {
        policy: &trainer.policy.config,
        train: &trainer.config,
        steps: trainer.step,
    })?;
    let path = folder.join("policy.json");
    write_atomic(&path, |out| writeln!(out, "{provenance}")).map_err(Error::io(&path))
}

impl Preset {
    /// Whether inference keeps picks that were left without an edge, as the paper's does.
    pub fn keeps_isolated(self) -> bool {
        self == Self::Paper
    }
}
