//! A training run from its start or its last checkpoint to its policy file.

use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use shardgraph_collectives::{Comm, Deadline, Op, threads};
use shardgraph_device::Device;
use shardgraph_layers::autodiff::{leave_group, rank_device};
use shardgraph_runs::{Checkpoint, Folder};
use shardgraph_shard::Communication;

use super::checkpoint::{self, FILES, SumsOverRanks};
use super::folder::{RESULTS, RunFolder};
use super::grid::Grid;
use super::trainer::{Stepped, Trainer};
use super::{Preset, TrainConfig};
use crate::agreement::{Fingerprint, check_same, or_tell, version_fact};
use crate::error::ErrorKind;
use crate::exchange::{Exchange, check_wanted};
use crate::problem::{MINIMUM_VERTEX_COVER, Problem, problem_by_name};
use crate::residual::Ranks;
use crate::solve::{check_ranks, collect_ranks};
use crate::{Error, TrainedPolicy};

/// How and where a run is carried out; nothing here but the kind of device, and sums of floats over ranks, changes a bit of what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
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
    pub deadline: Deadline,
    /// Where to compute; each rank has a stream of its own. Kinds of devices differ from each other in the last bits, so a
    /// run goes on only on the kind that it began on.
    pub device: Device,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            n_batch_ranks: 1,
            communication: None,
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
    /// What the answer to another problem than minimum vertex cover is worth, where this step finished one. Of any problem, where several
    /// environments run side by side, the mean over the episodes that this step ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// The number of those episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u32>,
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
        let is_cover = is_alone && trainer.config.problem == MINIMUM_VERTEX_COVER.name();
        let sum: f64 = finished.iter().map(|objective| objective.value()).sum();
        let mean = (!finished.is_empty()).then(|| sum / finished.len() as f64);
        StepReport {
            step: trainer.step,
            loss: stepped.loss,
            epsilon,
            cover: mean.filter(|_| is_cover).map(|size| size as usize),
            objective: mean.filter(|_| !is_cover),
            ended: mean.filter(|_| !is_alone).map(|_| finished.len() as u32),
        }
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct TrainOutcome {
    /// The trained policy.
    pub policy: TrainedPolicy,
    /// The reports of the steps that this call took (after a resume: not those before).
    pub reports: Vec<StepReport>,
    /// What ranks exchanged in the steps that this call took; absent where the model sums nothing over neighbours.
    pub exchange: Option<Exchange>,
    /// The nodes and edges of the largest graph, by nodes, of the episodes that this call began or went on with.
    pub largest_graph: (u32, u64),
    /// Transitions in a batch, by the settings of the run.
    pub batch_size: usize,
}

/// A problem that the caller brings; absent means the known one of the settings' name.
pub(super) type Given = Option<&'static dyn Problem>;

/// The problem of a run with this name in its settings.
pub(super) fn problem_of(given: Given, name: &str) -> Result<&'static dyn Problem, Error> {
    match given {
        None => problem_by_name(name)
            .map_err(|error| Error::input(format!("training settings: `problem`: {error}"))),
        Some(problem) if problem.name() == name => Ok(problem),
        Some(problem) => Err(Error::input(format!(
            "training settings: `problem`: expected {}; found {name}",
            problem.name()
        ))),
    }
}

/// Trains a policy.
///
/// With a folder, writes `metrics.jsonl` (a [`StepReport`] a line), the same values as a TensorBoard event file (tags
/// `charts/epsilon`, `losses/loss` and `charts/cover_size`, of other problems `charts/objective`), a checkpoint every [`TrainConfig::checkpoint_steps`] steps and at
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
    run_threads(None, config, options, progress)
}

/// As [`train`], for a problem of the caller's own; the settings and the checkpoint to resume from have its name.
///
/// # Errors
/// As [`train`], and when the settings or the checkpoint are of another problem.
pub fn train_problem(
    problem: &'static dyn Problem,
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&StepReport) + Send),
) -> Result<TrainOutcome, Error> {
    run_threads(Some(problem), config, options, progress)
}

fn run_threads(
    problem: Given,
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&StepReport) + Send),
) -> Result<TrainOutcome, Error> {
    check_ranks(options.n_ranks)?;
    Grid::new(options.n_ranks, options.n_batch_ranks, 0)?;
    config.check()?;
    if options.n_ranks == 1 {
        return run_process(problem, &mut Comm::solo(), config, options, progress);
    }
    // One trainer for all: its graphs are in memory once.
    let begun = begin(problem, &mut Comm::solo(), config, options)?;
    let (trainer, folder) = (begun.trainer, Mutex::new(begun.folder));
    let progress = Mutex::new(progress);
    let results = threads::run(options.n_ranks, |mut comm| {
        let is_first = comm.rank() == 0;
        let folder = folder.lock().ok().filter(|_| is_first);
        let begun = Begun {
            trainer: trainer.clone(),
            folder: folder.and_then(|mut folder| folder.take()),
        };
        begun.run(&mut comm, options, &mut |report| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(report);
            }
        })
    });
    Ok(collect_ranks(results)?.swap_remove(0))
}

/// As [`train`], as one rank of a world of processes: all call it with the same arguments, and all get the same policy.
///
/// The number of ranks is that of `comm`, not that of `options`. Rank 0 alone touches the folder, which the others only name; to resume, it sends
/// them its checkpoint. Graph files are read by every process. `progress` is called on rank 0.
///
/// # Errors
/// As [`train`]. [`ErrorKind::Input`] on all ranks where one has another version of the program, settings, device, folder or graph files than
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
    progress: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    run_process(None, comm, config, options, progress)
}

/// As [`train_as_rank`], for a problem of the caller's own.
///
/// # Errors
/// As [`train_as_rank`] and [`train_problem`].
pub fn train_problem_as_rank(
    comm: &mut Comm,
    problem: &'static dyn Problem,
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    run_process(Some(problem), comm, config, options, progress)
}

fn run_process(
    problem: Given,
    comm: &mut Comm,
    config: &TrainConfig,
    options: &RunOptions,
    progress: &mut dyn FnMut(&StepReport),
) -> Result<TrainOutcome, Error> {
    let options = &RunOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    check_same(comm, &facts(config, options), options.deadline)?;
    Grid::new(comm.size(), options.n_batch_ranks, comm.rank())?;
    config.check()?;
    let begun = begin(problem, comm, config, options)?;
    let is_first = comm.rank() == 0;
    let outcome = begun.run(comm, options, &mut |report| {
        if is_first {
            progress(report);
        }
    })?;
    // Nobody reports a policy that rank 0 could not write.
    comm.run(Op::Barrier, options.deadline)?;
    Ok(outcome)
}

/// All that decides what a run computes and where it goes, the graph files excepted; ranks may differ in how long they wait.
fn facts(config: &TrainConfig, options: &RunOptions) -> [(&'static str, u64); 6] {
    let RunOptions {
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
        version_fact(),
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
    /// Of rank 0, where the run has one.
    folder: Option<RunFolder>,
}

/// Makes the same trainer on every rank, and takes the folder on rank 0. A new run makes no folder before all know that they can train.
fn begin(
    problem: Given,
    comm: &mut Comm,
    config: &TrainConfig,
    options: &RunOptions,
) -> Result<Begun, Error> {
    let (mut trainer, held) = or_tell(comm, |comm| match options.resume {
        true => resumed(problem, comm, config, options),
        false => {
            let problem = problem_of(problem, &config.problem)?;
            Ok((Trainer::new(problem, config.clone())?, None))
        }
    })?;
    check_graphs(comm, &trainer, options.deadline)?;
    or_tell(comm, |comm| {
        trainer.check_memory(&options.device, comm.size())
    })?;
    trainer.check_grid(options.n_batch_ranks)?;
    check_wanted(options.communication, trainer.has_sums())?;
    let sums = SumsOverRanks::of(
        trainer.has_sums(),
        options.communication.unwrap_or_default(),
        (options.n_ranks, options.n_batch_ranks),
    );
    if options.resume {
        checkpoint::check_sums(&trainer, sums.as_ref())?;
    }
    trainer.sums = sums;
    let folder = options.folder.as_deref().filter(|_| comm.rank() == 0);
    let folder = or_tell(comm, |_| match (held, folder) {
        (Some(held), _) => RunFolder::open(held).map(Some),
        (None, Some(folder)) => {
            RunFolder::open(Folder::of_new_run(folder, &FILES, RESULTS)?).map(Some)
        }
        (None, None) => Ok(None),
    })?;
    Ok(Begun { trainer, folder })
}

/// The run of the folder's newest checkpoint, and the folder on rank 0.
fn resumed(
    problem: Given,
    comm: &mut Comm,
    config: &TrainConfig,
    options: &RunOptions,
) -> Result<(Trainer, Option<Folder>), Error> {
    let nowhere = || Error::input("to resume, name the run's folder");
    let folder = options.folder.as_deref().ok_or_else(nowhere)?;
    let (held, newest) = match comm.rank() {
        0 => Folder::of_old_run(folder, &FILES).map(|(held, newest)| (Some(held), Some(newest)))?,
        _ => (None, None),
    };
    let checkpoint = of_first_rank(comm, newest, options.deadline)?;
    let trainer = checkpoint::trainer(&checkpoint, config.steps, &options.device, problem)?;
    Ok((trainer, held))
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
    let op = Op::Broadcast {
        buf: (&mut n_bytes).into(),
        root: 0,
    };
    comm.run(op, deadline)?;
    let too_long = |_| Error::internal("a checkpoint longer than the memory");
    bytes.resize(usize::try_from(n_bytes[0]).map_err(too_long)?, 0);
    let op = Op::Broadcast {
        buf: (&mut bytes).into(),
        root: 0,
    };
    comm.run(op, deadline)?;
    Ok(Checkpoint::from_bytes(&bytes)?)
}

fn check_graphs(comm: &mut Comm, trainer: &Trainer, deadline: Deadline) -> Result<(), Error> {
    let inputs = format!("{:?}", trainer.inputs());
    let hash = Fingerprint::new().text(&inputs).value();
    check_same(comm, &[("set of graph files", hash)], deadline)
}

impl Begun {
    /// What one rank does, to the last step; all end with the same parameters.
    fn run(
        self,
        comm: &mut Comm,
        options: &RunOptions,
        progress: &mut dyn FnMut(&StepReport),
    ) -> Result<TrainOutcome, Error> {
        let Begun {
            mut trainer,
            mut folder,
        } = self;
        let (reports, exchange) = or_tell(comm, |comm| {
            take_steps(&mut trainer, folder.as_mut(), comm, options, progress)
        })?;
        check_parameters(comm, &trainer, options.deadline)?;
        if let Some(folder) = &folder {
            or_tell(comm, |_| folder.finish(&trainer))?;
        }
        Ok(TrainOutcome {
            policy: trainer.policy,
            largest_graph: trainer.largest_graph,
            batch_size: trainer.config.batch_size,
            reports,
            exchange,
        })
    }
}

fn take_steps(
    trainer: &mut Trainer,
    mut folder: Option<&mut RunFolder>,
    comm: &mut Comm,
    options: &RunOptions,
    progress: &mut dyn FnMut(&StepReport),
) -> Result<(Vec<StepReport>, Option<Exchange>), Error> {
    let before = comm.received_bytes();
    let communication = options.communication.unwrap_or_default();
    trainer.compute_on(
        rank_device(&options.device, comm, options.deadline)?,
        options.n_batch_ranks,
        communication,
    );
    let mut ranks = Ranks {
        comm,
        deadline: options.deadline,
    };
    let mut reports = Vec::new();
    while trainer.step < trainer.config.steps {
        let epsilon = trainer.config.epsilon(trainer.step);
        let stepped = trainer.advance(&mut ranks)?;
        let report = StepReport::of_step(trainer, epsilon, &stepped);
        if let Some(folder) = &mut folder {
            folder.append(&report)?;
        }
        progress(&report);
        reports.push(report);
        let at_end = trainer.step == trainer.config.steps;
        if let Some(folder) = &mut folder
            && (at_end || trainer.step.is_multiple_of(trainer.config.checkpoint_steps))
        {
            folder.checkpoint(trainer)?;
        }
    }
    let exchange = end_sums(trainer, &mut ranks, communication, before)?;
    Ok((reports, exchange))
}

/// Leaves the devices' group, and says what the model's sums cost, where it has any; `before` is what had been received when they began.
fn end_sums(
    trainer: &Trainer,
    ranks: &mut Ranks<'_>,
    communication: Communication,
    before: u64,
) -> Result<Option<Exchange>, Error> {
    leave_group(trainer.device(), ranks.deadline)?;
    if !trainer.has_sums() {
        return Ok(None);
    }
    let counts = (before, trainer.shard_bytes());
    Exchange::of_job(ranks, trainer.device(), communication, counts).map(Some)
}

fn check_parameters(comm: &mut Comm, trainer: &Trainer, deadline: Deadline) -> Result<(), Error> {
    let hash = trainer.policy.params_hash();
    check_same(comm, &[("set of parameters", hash)], deadline).map_err(|error| match error.kind() {
        ErrorKind::Input(_) => Error::internal("the ranks trained different parameters"),
        _ => error,
    })
}

impl Preset {
    /// Whether inference keeps picks that were left without an edge, as the paper's does.
    pub fn keeps_isolated(self) -> bool {
        self == Self::Paper
    }
}
