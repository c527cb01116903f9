//! A training run from its start or its newest checkpoint to its last step: the folder, the metrics, and the ranks that share it.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::Comm;
use shardgraph_device::Timer;
use shardgraph_job::{
    Checkpoint, CheckpointSchedule, LoopOptions, Ranks, RunPlace, RunRecorder, World, check_until,
    tags, wall_time,
};
use shardgraph_storage::hash;

use crate::advance::Advance;
use crate::agent::Agent;
use crate::checkpoint::{FILES, RUN, RunState};
use crate::config::{AgentConfig, Algorithm};
use crate::error::Error;
use crate::memory::{Parts, check_room};
use crate::rank_trainer::{Place, RankTrainer, Standing, check_alone};
use crate::run_options::RunOptions;
use crate::topology::TopologyRun;
use crate::topology::lag::PolicyLag;
use crate::trainer_kind::TrainerKind;
use crate::weights;

/// What a finished run's folder has beside its checkpoints and metrics.
const WEIGHTS: &str = "weights.safetensors";
/// Steps between calls of `progress`: SAC takes about a second for so many.
const PROGRESS_STEPS: u64 = 100;

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
                        "{}: there is no complete checkpoint to resume from: start a new run",
                        folder.display()
                    ))
                };
                RunState::config_of(&newest.ok_or_else(none)?)
            }
        }
    }

    pub(crate) fn place(&self) -> RunPlace {
        RunPlace {
            folder: self.folder().map(Path::to_owned),
            resume: matches!(self, Start::Resumed { .. }),
            files: FILES,
            results: &[WEIGHTS],
        }
    }
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainProgress {
    /// Steps so far.
    pub step: u64,
    /// The step that it goes to.
    pub stop_at: u64,
    /// The mean return of the last episodes.
    pub mean_return: Option<f64>,
    /// Actors and shards that were lost since the last report: which, why, at what step, and how many
    /// actors are left.
    pub newly_lost: Vec<String>,
}

/// A finished run. Counts are of the steps that this call took: after a resume, not of those before.
#[derive(Debug)]
pub struct TrainOutcome {
    /// The settings.
    pub config: AgentConfig,
    /// The trained agent.
    pub agent: Box<dyn Agent + Send>,
    /// Steps of all environments together.
    pub n_steps: u64,
    /// Episodes that ended.
    pub n_episodes: u64,
    /// Updates.
    pub n_updates: u64,
    /// The mean return of the run's last episodes ([`crate::N_RECENT_EPISODES`]); `None` where none has ended.
    pub mean_return: Option<f64>,
    /// How old the weights were that acted, with Ape-X and IMPALA; always new with the others.
    pub lag: PolicyLag,
    /// The actors and shards that the run went on without: which, and why.
    pub lost: Vec<String>,
    /// What went through the shards of Ape-X that saw the end.
    pub replayed: ReplayTotals,
}

/// Transitions through a replay memory on other ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayTotals {
    /// Those that came in.
    pub n_inserted: u64,
    /// Those that were drawn.
    pub n_sampled: u64,
    /// Priorities that came for transitions which were overwritten meanwhile, and changed nothing.
    pub n_stale: u64,
}

impl AddAssign for ReplayTotals {
    fn add_assign(&mut self, other: ReplayTotals) {
        self.n_inserted += other.n_inserted;
        self.n_sampled += other.n_sampled;
        self.n_stale += other.n_stale;
    }
}

/// Trains an agent. With Ape-X and IMPALA, but for their lock step, learner, shards and actors are threads of this process.
///
/// With a folder, writes `metrics.jsonl` and a TensorBoard event file, a checkpoint every [`AgentConfig::checkpoint_steps`] steps and at the
/// end, and at last `weights.safetensors`. `progress` is called about every hundred steps.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, training diverges, or a rank is lost. Of several
/// actors or shards a single one that is lost is named in [`TrainOutcome::lost`] instead.
/// # Determinism
/// The same weights and metrics, bit for bit, for every number of ranks, and whether or not the run was stopped and resumed. In the metrics
/// the keys `time/steps_per_second` and `wall_time` are excepted, which a clock decides. What Ape-X and IMPALA learn outside of lock step depends
/// on how their ranks overtake each other.
///
/// An example is at the crate root.
pub fn train(
    start: &Start,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<TrainOutcome, Error> {
    train_as_rank(&mut Comm::solo(), start, options, progress)
}

/// As [`train`], as one rank of a world: all call it with the same arguments, and all get the same agent.
///
/// Several processes are the ranks; one alone has those of `options`, as threads. Rank 0 alone touches the folder and calls `progress`; to resume, it sends the
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
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<TrainOutcome, Error> {
    if comm.size() > 1 {
        let mut ranks = Ranks::new(comm, options.deadline);
        return ranks.fail_together(|ranks| run(ranks, start, options, progress));
    }
    let config = start.config()?;
    let environments = options.environments_of(&config)?;
    config.check_on(&environments)?;
    if options.n_ranks == 0 {
        return Err(Error::input("ranks: expected at least 1, given 0"));
    }
    check_room(&config, &environments, Parts::Together)?;
    match &config.algorithm {
        Algorithm::Apex(settings) if !settings.lock_step => {
            check_alone(options.n_ranks)?;
            return TopologyRun::new(&config, settings, start, options).on_threads(progress);
        }
        Algorithm::Impala(settings) if !settings.lock_step => {
            check_alone(options.n_ranks)?;
            return TopologyRun::new(&config, settings, start, options).on_threads(progress);
        }
        _ => (TrainerKind::of(&config).check_ranks)(&config, options.n_ranks)?,
    }
    let progress = Mutex::new(progress);
    World::Threads(options.n_ranks).run(options.deadline, |ranks| {
        run(ranks, start, options, &mut |report| {
            if let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    })
}

fn run(
    ranks: &mut Ranks<'_>,
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TrainOutcome, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let family = options.device.kind().family();
    let arguments = format!("{version} {start:?} {:?} {family}", options.stop_at);
    ranks.agree(&[("version or set of arguments", hash(arguments.as_bytes()))])?;
    let (mut trainer, mut recorder) = begin(ranks, start, options)?;
    train_to_end(
        trainer.as_mut(),
        ranks,
        recorder.as_mut(),
        start,
        options,
        progress,
    )
}

/// Takes a trainer to the last step of its run; the outcome names no rank that was lost.
pub(crate) fn train_to_end(
    trainer: &mut dyn RankTrainer,
    ranks: &mut Ranks<'_>,
    recorder: Option<&mut RunRecorder>,
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TrainOutcome, Error> {
    let Standing {
        config,
        n_steps,
        n_updates,
        episodes,
    } = trainer.standing();
    let (n_episodes, every) = (episodes.n_episodes(), config.checkpoint_steps);
    let until = last_step(config, n_steps, options.stop_at)?;
    let schedule = start
        .folder()
        .map(|_| CheckpointSchedule::every_steps(every));
    let steps = LoopOptions { until, schedule };
    let mut training = Training {
        trainer,
        until,
        pace: Pace::start(),
        lag: PolicyLag::default(),
    };
    let is_first = ranks.is_first();
    shardgraph_job::run(&mut training, ranks, recorder, steps, &mut |report| {
        if let Some(report) = report.progress.as_ref().filter(|_| is_first) {
            progress(report);
        }
    })?;
    let lag = training.lag;
    let ended = trainer.standing();
    let mut agent = ended.config.agent(options)?;
    agent.set_weights(trainer.params().trained())?;
    Ok(TrainOutcome {
        n_steps: ended.n_steps - n_steps,
        n_episodes: ended.episodes.n_episodes() - n_episodes,
        n_updates: ended.n_updates - n_updates,
        mean_return: ended.episodes.mean_return(),
        config: ended.config.clone(),
        agent,
        lag,
        lost: Vec::new(),
        replayed: ReplayTotals::default(),
    })
}

/// The run before its next step, and the folder on rank 0.
fn begin(
    ranks: &mut Ranks<'_>,
    start: &Start,
    options: &RunOptions,
) -> Result<(Box<dyn RankTrainer>, Option<RunRecorder>), Error> {
    let place = start.place();
    let of = Place {
        rank: ranks.rank(),
        n_ranks: ranks.size(),
    };
    let new = |_: &mut Ranks<'_>| {
        let config = start.config()?;
        (TrainerKind::of(&config).new)(&config, options, of)
    };
    let (trainer, taken) = place.load(ranks, new, |_, newest| {
        (TrainerKind::of(&RunState::config_of(newest)?).of_checkpoint)(newest, options, of)
    })?;
    let config = trainer.standing().config;
    (TrainerKind::of(config).check_ranks)(config, ranks.size())?;
    let recorder = place.open(ranks, taken)?;
    Ok((trainer, recorder))
}

/// A trainer on its way to a step.
struct Training<'t> {
    trainer: &'t mut dyn RankTrainer,
    until: u64,
    pace: Pace,
    lag: PolicyLag,
}

/// One advance of [`Training`].
struct Advanced {
    step: u64,
    report: Advance,
    /// About every [`PROGRESS_STEPS`] steps.
    progress: Option<TrainProgress>,
}

impl shardgraph_job::Trainer for Training<'_> {
    type Report = Advanced;
    type Error = Error;

    fn step(&self) -> u64 {
        self.trainer.standing().n_steps
    }

    fn is_over(&self, until: u64) -> bool {
        self.trainer.is_over(until)
    }

    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<Advanced, Error> {
        let before = self.trainer.standing().n_steps;
        let report = self.trainer.advance(ranks.comm, ranks.timeout)?;
        if let Some(lag) = report.lag {
            self.lag.record(lag);
        }
        let Standing {
            n_steps: step,
            episodes,
            ..
        } = self.trainer.standing();
        let is_told = step / PROGRESS_STEPS > before / PROGRESS_STEPS || !report.lost.is_empty();
        let progress = is_told.then(|| TrainProgress {
            step,
            stop_at: self.until,
            mean_return: episodes.mean_return(),
            newly_lost: report.lost.clone(),
        });
        Ok(Advanced {
            step,
            report,
            progress,
        })
    }

    fn record(&mut self, advanced: &Advanced, recorder: &mut RunRecorder) -> Result<(), Error> {
        let report = &advanced.report;
        self.pace.n_steps += report.n_steps;
        for episode in &report.episodes {
            append_line(recorder, advanced.step, &episode.scalars(report.epsilon))?;
        }
        for losses in &report.losses {
            let mut scalars = losses.clone();
            scalars.push((tags::STEPS_PER_SECOND, self.pace.steps_per_s()));
            scalars.extend(self.lag.scalars().into_iter().flatten());
            append_line(recorder, advanced.step, &scalars)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        self.trainer.to_checkpoint(ranks)
    }

    fn end(&mut self, _: &mut Ranks<'_>) -> Result<(), Error> {
        self.trainer.params().sync()?;
        weights::check_learned(self.trainer.params().trained())
    }

    fn params_hash(&self) -> Option<u64> {
        Some(weights::hash_of(self.trainer.params().trained()))
    }

    fn write_results(&self, folder: &Path) -> Result<(), Error> {
        weights::write(&folder.join(WEIGHTS), self.trainer.params())
    }
}

/// Steps a second since this process began its part of a run.
struct Pace {
    timer: Timer,
    n_steps: u64,
}

impl Pace {
    fn start() -> Pace {
        Pace {
            timer: Timer::wall(),
            n_steps: 0,
        }
    }

    fn steps_per_s(&self) -> f32 {
        (self.n_steps as f64 / self.timer.elapsed_s()) as f32
    }
}

/// A line of the metrics.
#[derive(Serialize)]
struct Line<'a> {
    step: u64,
    wall_time: f64,
    #[serde(flatten)]
    scalars: BTreeMap<&'a str, f32>,
}

fn append_line(
    recorder: &mut RunRecorder,
    step: u64,
    scalars: &[(&str, f32)],
) -> Result<(), Error> {
    let line = Line {
        step,
        wall_time: wall_time(),
        scalars: scalars.iter().copied().collect(),
    };
    Ok(recorder.append_at(line.wall_time, &line, scalars)?)
}

/// The step to stop at of a run that stands at `n_steps`. The settings' own is never wrong: a run may have gone beyond it by the last steps of
/// its environments, and is finished then.
pub(crate) fn last_step(
    config: &AgentConfig,
    n_steps: u64,
    stop_at: Option<u64>,
) -> Result<u64, Error> {
    let until = stop_at.unwrap_or(config.steps);
    if until != config.steps {
        check_until(n_steps, until)?;
    }
    Ok(until)
}
