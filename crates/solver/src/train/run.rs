//! A training run from its start or its last checkpoint to its policy file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::Device;
use shardgraph_job::{
    Checkpoint, CheckpointSchedule, LoopOptions, Ranks, RunPlace, RunRecorder, World,
    run as run_steps,
};
use shardgraph_layers::autodiff::{leave_group, rank_device};
use shardgraph_shard::Communication;

use super::checkpoint::{self, FILES};
use super::config::problem_of;
use super::folder::{self, RESULTS};
use super::grid::{Grid, SumsOverRanks};
use super::trainer::{Stepped, Trainer};
use super::validation::Evaluation;
use super::{Preset, TrainConfig};
use crate::agreement::Fingerprint;
use crate::exchange::{Exchange, check_wanted};
use crate::problem::{MINIMUM_VERTEX_COVER, Problem};
use crate::solve_options::check_ranks;
use crate::{Error, TrainedPolicy};

/// How and where a run is carried out; nothing here but the kind of device, and sums of floats over ranks, changes a bit of what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Problem of the caller's own, whose name the settings have; absent means the known problem of that name.
    pub problem: Option<&'static Problem>,
    /// Ranks that share each batch; threads of this process.
    pub n_ranks: u32,
    /// Rows of the grid of ranks, a divisor of their number: the graphs of a batch are spread over the rows, and the nodes of each graph over
    /// the ranks of a row. With 1, every rank has nodes of every graph.
    pub n_batch_ranks: u32,
    /// How ranks share the sums over neighbours; absent means by gathering all rows. Refused where the model has none. The bits do not depend
    /// on the ranks where [`Communication::is_exact`].
    pub communication: Option<Communication>,
    /// Where checkpoints, metrics and the policy go; absent means nowhere.
    pub folder: Option<PathBuf>,
    /// Go on from the folder's newest checkpoint.
    pub resume: bool,
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// Where to compute; each rank has a stream of its own. Kinds of devices differ from each other in the last bits, so a
    /// run goes on only on the kind that it began on.
    pub device: Device,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            problem: None,
            n_ranks: 1,
            n_batch_ranks: 1,
            communication: None,
            folder: None,
            resume: false,
            deadline: Timeout::default(),
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
    /// What the answer to another problem than minimum vertex cover is worth, where this step finished one. Of any problem, where several
    /// environments run side by side, the mean over the episodes that this step ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// The number of those episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u32>,
    /// The policy after this step on the held-back graphs, where it was tried on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval: Option<Evaluation>,
}

impl StepReport {
    /// Whether this step ended an episode.
    pub fn ended_episode(&self) -> bool {
        self.cover.is_some() || self.objective.is_some()
    }

    /// How many episodes this step ended.
    pub fn n_ended(&self) -> u32 {
        self.ended.unwrap_or(u32::from(self.ended_episode()))
    }

    /// The report of the trainer's last step.
    fn of_step(trainer: &Trainer, epsilon: f32, stepped: &Stepped) -> StepReport {
        let finished = &stepped.finished;
        let is_alone = trainer.config.environments == 1;
        let is_cover = is_alone && trainer.config.problem == MINIMUM_VERTEX_COVER.name;
        let sum: f64 = finished.iter().map(|objective| objective.value()).sum();
        let mean = (!finished.is_empty()).then(|| sum / finished.len() as f64);
        StepReport {
            step: trainer.step,
            loss: stepped.loss,
            epsilon,
            cover: mean.filter(|_| is_cover).map(|size| size as usize),
            objective: mean.filter(|_| !is_cover),
            ended: mean.filter(|_| !is_alone).map(|_| finished.len() as u32),
            eval: stepped.evaluation,
        }
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct TrainOutcome {
    /// The problem of the run: a policy for covers may be one for independent sets.
    pub problem: String,
    /// The trained policy: the best on the held-back graphs, or the last where none was tried on them.
    pub policy: TrainedPolicy,
    /// The step after which that policy was, and what it found on those graphs.
    pub best: Option<(u64, Evaluation)>,
    /// The reports of the steps that this call took (after a resume: not those before).
    pub reports: Vec<StepReport>,
    /// What ranks exchanged in the steps that this call took; absent where the model sums nothing over neighbours.
    pub exchange: Option<Exchange>,
    /// The nodes and edges of the largest graph, by nodes, of the episodes that this call began or went on with.
    pub largest_graph: (u32, u64),
    /// Transitions in a batch, by the settings of the run.
    pub batch_size: usize,
}

/// Trains a policy.
///
/// With a folder, writes `metrics.jsonl` (a [`StepReport`] a line), the same values as a TensorBoard event file (tags
/// `train/epsilon`, `train/loss`, `train/objective`, and of the held-back graphs `eval/objective`, `eval/baseline` and `eval/ratio`), a checkpoint every [`TrainConfig::checkpoint_steps`] steps and at
/// the end, and at last `policy.safetensors` with `policy.json`. When resuming, only [`TrainConfig::steps`] is taken from
/// `config`, the rest from the checkpoint.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, or a rank is lost.
/// # Determinism
/// The same reports and the same policy, bit for bit, for every number and grid of ranks, and whether or not the run was stopped
/// and resumed at a checkpoint. Where ranks add floats (not [`Communication::is_exact`]) the bits depend on the ranks, and a run is resumed
/// on the same ranks in the same way alone.
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
    train_as_rank(&mut Comm::solo(), config, options, progress)
}

/// As [`train`], as one rank of a world of processes: all call it with the same arguments, and all get the same policy.
///
/// Several processes are the ranks; one alone has those of `options`, as threads. Rank 0 alone touches the folder, which the others only name; to resume, it sends
/// them its checkpoint. Graph files are read by every process. `progress` is called on rank 0.
///
/// # Errors
/// As [`train`]. [`crate::ErrorKind::Input`] on all ranks where one has another version of the program, settings, device, folder or graph files than
/// rank 0. Where a rank cannot go on for a reason of its own, the others get that reason at once.
/// # Determinism
/// As [`train`]: the files of the run are those of one process, byte for byte.
///
/// ```
/// use shardgraph_collectives::tcp;
/// use shardgraph_solver::train::{RunOptions, TrainConfig, train, train_as_rank};
///
/// let config = TrainConfig { steps: 20, batch_size: 4, ..TrainConfig::default() };
/// let options = RunOptions::default();
/// let alone = train(&config, &options, &mut |_| ())?.policy.params_hash();
/// for outcome in tcp::run(2, |mut comm| train_as_rank(&mut comm, &config, &options, &mut |_| ())) {
///     assert_eq!(outcome.unwrap()?.policy.params_hash(), alone);
/// }
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn train_as_rank(
    comm: &mut Comm,
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&StepReport) + Send),
) -> Result<TrainOutcome, Error> {
    if comm.size() == 1 && options.n_ranks != 1 {
        return train_on_threads(config, options, progress);
    }
    let options = &RunOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    let ranks = &mut Ranks::new(comm, options.deadline);
    ranks.agree(&facts(config, options))?;
    Grid::new(ranks.size(), options.n_batch_ranks, ranks.rank())?;
    config.check()?;
    let begun = begin(ranks, config, options)?;
    let is_first = ranks.is_first();
    begun.run(ranks, options, &mut |report| {
        if is_first {
            progress(report);
        }
    })
}

/// Trains on several threads of this process. One trainer for all: its graphs are in memory once.
fn train_on_threads(
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&StepReport) + Send),
) -> Result<TrainOutcome, Error> {
    check_ranks(options.n_ranks)?;
    Grid::new(options.n_ranks, options.n_batch_ranks, 0)?;
    config.check()?;
    let mut alone = Comm::solo();
    let ranks = &mut Ranks::new(&mut alone, options.deadline);
    let begun = begin(ranks, config, options)?;
    let (trainer, recorder) = (begun.trainer, Mutex::new(begun.recorder));
    let progress = Mutex::new(progress);
    World::Threads(options.n_ranks).run(options.deadline, |ranks| {
        let is_first = ranks.is_first();
        let recorder = recorder.lock().ok().filter(|_| is_first);
        let begun = Begun {
            trainer: trainer.clone(),
            recorder: recorder.and_then(|mut recorder| recorder.take()),
        };
        begun.run(ranks, options, &mut |report| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    })
}

/// All that decides what a run computes and where it goes, the graph files excepted; ranks may differ in how long they wait.
fn facts(config: &TrainConfig, options: &RunOptions) -> [(&'static str, u64); 6] {
    let RunOptions {
        problem: _,
        n_ranks: _,
        n_batch_ranks,
        communication,
        folder,
        resume,
        deadline: _,
        device,
    } = options;
    let hash = |text: String| Fingerprint::new().text(&text).value();
    [
        Ranks::version_fact(),
        ("set of training settings", hash(format!("{config:?}"))),
        ("number of batch ranks", u64::from(*n_batch_ranks)),
        ("way of communication", hash(format!("{communication:?}"))),
        ("device", hash(device.kind().family().to_string())),
        ("folder", hash(format!("{folder:?} {resume}"))),
    ]
}

/// A run before its next step, on one rank.
struct Begun {
    trainer: Trainer,
    /// Of rank 0, where the run has a folder.
    recorder: Option<RunRecorder>,
}

/// Makes the same trainer on every rank, and takes the folder on rank 0. A new run makes no folder before all know that they can train.
fn begin(
    ranks: &mut Ranks<'_>,
    config: &TrainConfig,
    options: &RunOptions,
) -> Result<Begun, Error> {
    let place = RunPlace {
        folder: options.folder.clone(),
        resume: options.resume,
        files: &FILES,
        results: RESULTS,
    };
    let new = |_: &mut Ranks<'_>| {
        let problem = problem_of(options.problem, &config.problem)?;
        Trainer::new(problem, config.clone())
    };
    let (mut trainer, taken) = place.load(ranks, new, |_, newest| {
        checkpoint::trainer(newest, config.steps, &options.device, options.problem)
    })?;
    let inputs = format!("{:?}", trainer.inputs());
    let hash = Fingerprint::new().text(&inputs).value();
    ranks.agree(&[("set of graph files", hash)])?;
    ranks.fail_together(|ranks| trainer.check_memory(&options.device, ranks.size()))?;
    trainer.check_grid(options.n_batch_ranks)?;
    check_wanted(options.communication, trainer.has_sums())?;
    let sums = SumsOverRanks::of(
        trainer.has_sums(),
        options.communication.unwrap_or_default(),
        options.n_ranks,
        options.n_batch_ranks,
    );
    if options.resume {
        checkpoint::check_sums(&trainer, sums.as_ref())?;
    }
    trainer.sums = sums;
    let recorder = place.open(ranks, taken)?;
    Ok(Begun { trainer, recorder })
}

impl Begun {
    /// The steps of one rank, to the last; all ranks end with the same parameters.
    fn run(
        mut self,
        ranks: &mut Ranks<'_>,
        options: &RunOptions,
        progress: &mut dyn FnMut(&StepReport),
    ) -> Result<TrainOutcome, Error> {
        let config = &self.trainer.config;
        let every = || CheckpointSchedule::every_steps(config.checkpoint_steps);
        let steps = LoopOptions {
            until: config.steps,
            schedule: options.folder.as_ref().map(|_| every()),
        };
        let mut training = Training {
            n_received: ranks.comm.received_bytes(),
            communication: options.communication.unwrap_or_default(),
            exchange: None,
            trainer: self.trainer,
        };
        ranks.fail_together(|ranks| {
            let device = rank_device(&options.device, ranks.comm, ranks.timeout)?;
            let communication = training.communication;
            training
                .trainer
                .compute_on(device, options.n_batch_ranks, communication);
            Ok::<(), Error>(())
        })?;
        let mut reports = Vec::new();
        let recorder = self.recorder.as_mut();
        run_steps(&mut training, ranks, recorder, steps, &mut |report| {
            progress(report);
            reports.push(*report);
        })?;
        let Training {
            trainer, exchange, ..
        } = training;
        Ok(TrainOutcome {
            problem: trainer.config.problem.clone(),
            policy: trainer.chosen_policy()?,
            best: (trainer.best.as_ref()).map(|best| (best.step, best.evaluation)),
            largest_graph: trainer.largest_graph,
            batch_size: trainer.config.batch_size,
            reports,
            exchange,
        })
    }
}

/// A trainer on its device, and the cost of its sums over neighbours.
struct Training {
    trainer: Trainer,
    communication: Communication,
    /// Bytes that the rank had received before the first step.
    n_received: u64,
    exchange: Option<Exchange>,
}

impl shardgraph_job::Trainer for Training {
    type Report = StepReport;
    type Error = Error;

    fn step(&self) -> u64 {
        self.trainer.step
    }

    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<StepReport, Error> {
        let epsilon = self.trainer.config.epsilon(self.trainer.step);
        let stepped = self.trainer.advance(ranks)?;
        Ok(StepReport::of_step(&self.trainer, epsilon, &stepped))
    }

    fn record(&mut self, report: &StepReport, recorder: &mut RunRecorder) -> Result<(), Error> {
        folder::append(recorder, report)
    }

    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        match ranks.is_first() {
            true => checkpoint::of_trainer(&self.trainer).map(Some),
            false => Ok(None),
        }
    }

    fn end(&mut self, ranks: &mut Ranks<'_>) -> Result<(), Error> {
        self.exchange = end_sums(&self.trainer, ranks, self.communication, self.n_received)?;
        Ok(())
    }

    fn params_hash(&self) -> Option<u64> {
        Some(self.trainer.policy.params_hash())
    }

    fn write_results(&self, folder: &Path) -> Result<(), Error> {
        folder::write_results(folder, &self.trainer)
    }
}

/// Leaves the devices' group, and says what the model's sums cost, where it has any; `before` is what had been received when they began.
fn end_sums(
    trainer: &Trainer,
    ranks: &mut Ranks<'_>,
    communication: Communication,
    before: u64,
) -> Result<Option<Exchange>, Error> {
    leave_group(trainer.device(), ranks.timeout)?;
    if !trainer.has_sums() {
        return Ok(None);
    }
    let bytes = trainer.shard_bytes();
    Exchange::of_job(ranks, trainer.device(), communication, before, bytes).map(Some)
}

impl Preset {
    /// Whether inference keeps picks that were left without an edge, as the paper's does.
    pub fn keeps_isolated(self) -> bool {
        self == Self::Paper
    }
}
