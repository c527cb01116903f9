//! A training run from its start or its newest checkpoint to its last step: the folder, the metrics, and the ranks that share it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;
use shardgraph_collectives::{Comm, CommError, Deadline, Op, threads};
use shardgraph_device::{Device, Timer};
use shardgraph_runs::{Checkpoint, Folder, Metrics, fnv1a64, tags, wall_time};

use crate::checkpoint::{FILES, RUN, RunState};
use crate::config::AgentConfig;
use crate::dqn::{self, DqnAgent, DqnTrainer, StepReport};
use crate::error::Error;
use crate::weights;

/// What a finished run's folder has beside its checkpoints and metrics.
pub(crate) const WEIGHTS: &str = "weights.safetensors";
/// The tag of the probability of a random action.
pub(crate) const EPSILON: &str = "charts/epsilon";
/// Steps between calls of `progress`.
const PROGRESS_STEPS: u64 = 1000;

/// Where a run begins.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one value a run")]
pub enum Start {
    /// At its first step.
    New {
        /// Everything that decides what is computed.
        config: AgentConfig,
        /// Where checkpoints, metrics and weights go; absent means nowhere.
        folder: Option<PathBuf>,
    },
    /// At the newest checkpoint of a folder, with its settings.
    Resumed {
        /// The folder.
        folder: PathBuf,
    },
}

impl Start {
    /// The run's folder, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Start::New { folder, .. } => folder.as_deref(),
            Start::Resumed { folder } => Some(folder),
        }
    }

    /// The run's settings: a new one's own, or those in the newest checkpoint.
    ///
    /// # Errors
    /// When there is no checkpoint with settings, or it is of another version.
    pub fn config(&self) -> Result<AgentConfig, Error> {
        match self {
            Start::New { config, .. } => Ok(config.clone()),
            Start::Resumed { folder } => {
                let newest = Checkpoint::newest_files(folder, &[RUN])?; // the rest may be large
                let none = || {
                    Error::input(format!(
                        "{}: there is no complete checkpoint to resume from",
                        folder.display()
                    ))
                };
                RunState::config_of(&newest.ok_or_else(none)?)
            }
        }
    }

    /// What `new` makes of the settings of a new run, or `old` of the checkpoint of one that goes on; and the folder, held. A new run gets
    /// its folder only once it has been made.
    pub(crate) fn open<T>(
        &self,
        new: impl FnOnce(&AgentConfig) -> Result<T, Error>,
        old: impl FnOnce(&Checkpoint) -> Result<T, Error>,
    ) -> Result<(T, Option<Folder>), Error> {
        match self {
            Start::New { config, folder } => {
                let made = new(config)?;
                let folder = folder
                    .as_deref()
                    .map(|path| Folder::of_new_run(path, FILES, &[WEIGHTS]));
                Ok((made, folder.transpose()?))
            }
            Start::Resumed { folder } => {
                let (folder, checkpoint) = Folder::of_old_run(folder, FILES)?;
                Ok((old(&checkpoint)?, Some(folder)))
            }
        }
    }
}

/// How a run is carried out; nothing here but the kind of device changes a bit of what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Ranks that share each batch, at most its `gradient_blocks`; threads of this process.
    pub n_ranks: u32,
    /// The step to stop at, if not that of the settings, which keep deciding how exploration falls.
    pub stop_at: Option<u64>,
    /// The longest wait for another rank.
    pub deadline: Deadline,
    /// Where to compute. Kinds of devices differ from each other in the last bits, so a run goes on only on the kind that it began on.
    pub device: Device,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            stop_at: None,
            deadline: Deadline::default(),
            device: Device::host(),
        }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainProgress {
    /// Steps so far.
    pub step: u64,
    /// The step that it goes to.
    pub stop_at: u64,
    /// The mean return of the last episodes.
    pub mean_return: Option<f64>,
}

/// A finished run. Counts are of the steps that this call took: after a resume, not of those before.
#[derive(Debug)]
pub struct TrainOutcome {
    /// The settings.
    pub config: AgentConfig,
    /// The trained agent.
    pub agent: DqnAgent,
    /// Steps of all environments together.
    pub n_steps: u64,
    /// Episodes that ended.
    pub n_episodes: u64,
    /// Updates.
    pub n_updates: u64,
    /// The mean return of the run's last episodes ([`crate::N_RECENT_EPISODES`]); `None` where none has ended.
    pub mean_return: Option<f64>,
}

/// Trains an agent.
///
/// With a folder, writes `metrics.jsonl` and a TensorBoard event file, a checkpoint every [`AgentConfig::checkpoint_steps`] steps and at the
/// end, and at last `weights.safetensors`. `progress` is called about every thousand steps.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, training diverges, or a rank is lost.
/// # Determinism
/// The same weights and metrics, bit for bit, for every number of ranks, and whether or not the run was stopped and resumed. In the metrics
/// the keys `charts/SPS` and `wall_time` are excepted, which a clock decides.
///
/// An example is at the crate root.
pub fn train(
    start: &Start,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<TrainOutcome, Error> {
    match start {
        Start::New { config, .. } => {
            config.check()?;
            check_ranks(config, options.n_ranks)?;
        }
        // Its settings are known when its checkpoint is read.
        Start::Resumed { .. } => check_some(options.n_ranks)?,
    }
    if options.n_ranks == 1 {
        return train_as_rank(&mut Comm::solo(), start, options, progress);
    }
    let progress = Mutex::new(progress);
    let results = threads::run(options.n_ranks, |mut comm| {
        train_as_rank(&mut comm, start, options, &mut |report| {
            if let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    });
    first_of(results)
}

/// As [`train`], as one rank of a world: all call it with the same arguments, and all get the same agent.
///
/// The number of ranks is that of `comm`, not that of `options`. Rank 0 alone touches the folder and calls `progress`; to resume, it sends the
/// others its checkpoint.
///
/// # Errors
/// As [`train`]; also where a rank has other arguments than rank 0. Where a rank cannot go on for a reason of its own, the others are told.
/// # Determinism
/// As [`train`].
pub fn train_as_rank(
    comm: &mut Comm,
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TrainOutcome, Error> {
    let result = run(comm, start, options, progress);
    if let Err(error) = &result
        && error.comm_error().is_none()
    {
        comm.abort(&error.to_string()); // so that the others do not wait for the deadline
    }
    result
}

fn run(
    comm: &mut Comm,
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TrainOutcome, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let family = options.device.kind().family();
    let arguments = format!("{version} {start:?} {:?} {family}", options.stop_at);
    check_same(
        comm,
        "version or set of arguments",
        fnv1a64(arguments.bytes()),
        options.deadline,
    )?;
    let (mut trainer, folder) = begin(comm, start, options)?;
    let mut log = folder.map(Log::open).transpose()?;
    let begun_at = (
        trainer.n_steps(),
        trainer.episodes().n_episodes(),
        trainer.n_updates(),
    );
    take_steps(&mut trainer, log.as_mut(), (comm, options), progress)?;
    weights::check_learned(trainer.agent().weights())?;
    let hash = trainer.agent().weights_hash();
    check_same(comm, "set of weights at the end", hash, options.deadline)?;
    if let Some(log) = &log {
        trainer.agent().export(&log.folder.path().join(WEIGHTS))?;
    }
    comm.run(Op::Barrier, options.deadline)?; // nobody reports weights that rank 0 could not write
    Ok(TrainOutcome {
        n_steps: trainer.n_steps() - begun_at.0,
        n_episodes: trainer.episodes().n_episodes() - begun_at.1,
        n_updates: trainer.n_updates() - begun_at.2,
        mean_return: trainer.episodes().mean_return(),
        config: trainer.config().clone(),
        agent: trainer.into_agent(),
    })
}

/// The run before its next step, and the folder on rank 0.
fn begin(
    comm: &mut Comm,
    start: &Start,
    options: &RunOptions,
) -> Result<(DqnTrainer, Option<Folder>), Error> {
    let is_first = comm.rank() == 0;
    let (trainer, folder) = match start {
        Start::New { config, folder } => {
            let trainer = DqnTrainer::new(config, &options.device)?;
            check_ranks(config, comm.size())?;
            comm.run(Op::Barrier, options.deadline)?; // no folder before all know that they can train
            let folder = folder.as_deref().filter(|_| is_first);
            let folder = folder.map(|path| Folder::of_new_run(path, FILES, &[WEIGHTS]));
            (trainer, folder.transpose()?)
        }
        Start::Resumed { folder } => {
            let held = is_first
                .then(|| Folder::of_old_run(folder, FILES))
                .transpose()?;
            let (folder, newest) = held.unzip();
            let checkpoint = of_first_rank(comm, newest, options.deadline)?;
            (
                DqnTrainer::of_checkpoint(&checkpoint, &options.device)?,
                folder,
            )
        }
    };
    check_ranks(trainer.config(), comm.size())?; // of a checkpoint too
    Ok((trainer, folder))
}

fn take_steps(
    trainer: &mut DqnTrainer,
    mut log: Option<&mut Log>,
    (comm, options): (&mut Comm, &RunOptions),
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<(), Error> {
    let stop_at = last_step(trainer.config(), trainer.n_steps(), options.stop_at)?;
    let checkpoint_steps = trainer.config().checkpoint_steps;
    while trainer.n_steps() < stop_at {
        let before = trainer.n_steps();
        let report = trainer.advance(comm, options.deadline)?;
        let step = report.step;
        let has_passed = |every: u64| step / every > before / every;
        if let Some(log) = log.as_deref_mut() {
            log.append(report)?;
            if has_passed(checkpoint_steps) || step >= stop_at {
                log.folder
                    .write_checkpoint(&trainer.to_checkpoint()?, &log.metrics)?;
            }
        }
        if comm.rank() == 0 && has_passed(PROGRESS_STEPS) {
            let mean_return = trainer.episodes().mean_return();
            progress(&TrainProgress {
                step,
                stop_at,
                mean_return,
            });
        }
    }
    Ok(())
}

/// The folder of a run, with what is told of its steps. Rank 0 alone has one.
pub(crate) struct Log {
    folder: Folder,
    metrics: Metrics,
    timer: Timer,
    /// Steps since the timer was started.
    n_steps: u64,
}

/// A line of the metrics.
#[derive(Serialize)]
struct Line<'a> {
    step: u64,
    wall_time: f64,
    #[serde(flatten)]
    scalars: BTreeMap<&'a str, f32>,
}

impl Log {
    pub(crate) fn open(folder: Folder) -> Result<Log, Error> {
        Ok(Log {
            metrics: folder.open_metrics(wall_time())?,
            folder,
            timer: Timer::wall(),
            n_steps: 0,
        })
    }

    fn append(&mut self, report: &StepReport) -> Result<(), Error> {
        self.n_steps += report.n_environments;
        for episode in &report.episodes {
            self.line(
                report.step,
                &[
                    (tags::EPISODIC_RETURN, episode.episodic_return),
                    (tags::EPISODIC_LENGTH, episode.length as f32),
                    (EPSILON, report.epsilon),
                ],
            )?;
        }
        let Some(update) = report.update.filter(|_| report.is_logged) else {
            return Ok(());
        };
        let steps_per_s = self.n_steps as f64 / self.timer.elapsed_s();
        self.line(
            report.step,
            &[
                (tags::TD_LOSS, update.loss),
                (tags::Q_VALUES, update.q_mean),
                (tags::SPS, steps_per_s as f32),
            ],
        )
    }

    pub(crate) fn line(&mut self, step: u64, scalars: &[(&str, f32)]) -> Result<(), Error> {
        let line = Line {
            step,
            wall_time: wall_time(),
            scalars: scalars.iter().copied().collect(),
        };
        Ok(self.metrics.append(line.wall_time, &line, scalars)?)
    }

    /// Counts steps, of which there are so many a second.
    pub(crate) fn count(&mut self, n_steps: u64) {
        self.n_steps += n_steps;
    }

    pub(crate) fn steps_per_s(&self) -> f32 {
        (self.n_steps as f64 / self.timer.elapsed_s()) as f32
    }

    pub(crate) fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        Ok(self.folder.write_checkpoint(checkpoint, &self.metrics)?)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The step to stop at of a run that stands at `n_steps`. The settings' own is never wrong: a run may have gone beyond it by the last steps of
/// its environments, and is finished then.
pub(crate) fn last_step(
    config: &AgentConfig,
    n_steps: u64,
    stop_at: Option<u64>,
) -> Result<u64, Error> {
    match stop_at {
        Some(stop_at) if stop_at < n_steps && stop_at != config.steps => {
            Err(Error::input(format!(
                "the run is at step {n_steps} already: give at least that many steps, not {stop_at}"
            )))
        }
        _ => Ok(stop_at.unwrap_or(config.steps)),
    }
}

fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
    let dqn = config.algorithm.dqn()?;
    check_some(n_ranks)?;
    dqn::check_ranks(dqn.gradient_blocks, n_ranks)
}

fn check_some(n_ranks: u32) -> Result<(), Error> {
    match n_ranks {
        0 => Err(Error::input("ranks: expected at least 1, given 0")),
        _ => Ok(()),
    }
}

/// Rank 0's checkpoint, on all ranks.
fn of_first_rank(
    comm: &mut Comm,
    own: Option<Checkpoint>,
    deadline: Deadline,
) -> Result<Checkpoint, Error> {
    let mut bytes = match own {
        Some(own) if comm.size() == 1 => return Ok(own),
        Some(own) => own.to_bytes(),
        None => Vec::new(),
    };
    let mut n_bytes = [bytes.len() as u64];
    let buf = (&mut n_bytes).into();
    comm.run(Op::Broadcast { buf, root: 0 }, deadline)?;
    bytes.resize(n_bytes[0] as usize, 0);
    let buf = (&mut bytes).into();
    comm.run(Op::Broadcast { buf, root: 0 }, deadline)?;
    Ok(Checkpoint::from_bytes(&bytes)?)
}

/// Refuses to go on where a rank has another value than rank 0.
fn check_same(comm: &mut Comm, what: &str, value: u64, deadline: Deadline) -> Result<(), Error> {
    let (own, mut all) = ([value], vec![0u64; comm.size() as usize]);
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, deadline)?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => Err(Error::input(format!(
            "rank {rank} has another {what} than rank 0: start all ranks with the same program, arguments and files"
        ))),
    }
}

/// Rank 0's result; where ranks failed, the error that explains most.
fn first_of<R>(results: Vec<Result<Result<R, Error>, CommError>>) -> Result<R, Error> {
    let (mut values, mut cause) = (Vec::new(), None::<Error>);
    for result in results {
        match result.map_err(Error::from).and_then(|result| result) {
            Ok(value) => values.push(value),
            Err(error) if cause.is_none() || error.comm_error().is_none() => cause = Some(error),
            Err(_) => {}
        }
    }
    match cause {
        None => Ok(values.swap_remove(0)),
        Some(error) => Err(error),
    }
}
