//! `shardgraph train`: a policy from random graphs or graph files, with checkpoints.

mod curve;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_solver::train::{
    Evaluation, Preset, RunOptions, StepReport, TrainConfig, TrainOutcome, target_steps,
    train_as_rank,
};
use shardgraph_solver::{EmbeddingKind, HeadKind, PaperModel};

use crate::config_file::ConfigFile;
use crate::exchange_report::ExchangeReport;
use crate::exit::BadInput;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::solve::problem_names;
use crate::text::Layout;
use crate::world::{ExchangeArgs, World, WorldArgs};
use crate::{interrupt, output_file};

const EXAMPLE: &str = "\
Examples:
  shardgraph train --problem mvc --steps 2000 --ranks 2 --seed 1 --run my-policy
  shardgraph train --problem cut --graphs er:20:0.15 --run my-cuts
  shardgraph train --graphs rb:20:11:0.25:2.78 --run my-policy --svg curve.svg
  shardgraph train --graphs er:20:0.15 --valid er:250:0.15 --run my-policy
  shardgraph train --config settings.toml --run my-policy
  shardgraph train --graphs er:20:0.15 --environments 8 --prioritized --run my-policy
  shardgraph train --ranks 6 --batch-ranks 3 --run my-policy
  shardgraph train --run my-policy --resume

Under mpirun, srun or torchrun each process is a rank. The first alone reads and writes the
folder.

The policy is tried on graphs that are held back, beside the best greedy algorithm; the best
policy that was tried is the run's. The folder gets policy.safetensors, for `shardgraph solve
--model`, with its settings in policy.json, metrics.jsonl with one line a step, the same as
events.out.tfevents.* for TensorBoard, and checkpoints. --config takes the names of the flags and
all settings that policy.json lists under `train`; flags win.";

/// Train a policy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    #[arg(help_heading = "Method", long, value_name = "PROBLEM", help = format!("What is looked for: {} [default: mvc]", problem_names()))]
    problem: Option<String>,
    /// Steps of training; with --resume, to go to [default: 3000; with --resume those of the run]
    #[arg(help_heading = "Method", long, value_name = "N")]
    steps: Option<u64>,
    #[command(flatten)]
    world: WorldArgs,
    /// Rows of the grid of ranks, a divisor of their number: rows share the graphs of a batch, the ranks of a row share the nodes of a graph. The
    /// policy is the same [default: 1]
    #[arg(
        help_heading = "Ranks and devices",
        hide_short_help = true,
        long,
        value_name = "N"
    )]
    batch_ranks: Option<u32>,
    #[command(flatten)]
    exchange: ExchangeArgs,
    /// The embedding model: s2v (structure2vec, the paper's) or sage (GraphSAGE) [default: s2v]
    #[arg(help_heading = "Method", long, value_name = "s2v|sage")]
    embedding: Option<EmbeddingKind>,
    /// The model that makes scores of embeddings: q (the paper's) or mlp (a hidden layer over a node's embedding and the mean of all) [default: q]
    #[arg(help_heading = "Method", long, value_name = "q|mlp")]
    head: Option<HeadKind>,
    /// L, the rounds of sums over neighbours [default: 2]
    #[arg(help_heading = "Method", long, value_name = "L")]
    layers: Option<usize>,
    /// Seed of all that is random [default: 1]
    #[arg(help_heading = "Method", long, value_name = "SEED")]
    seed: Option<u64>,
    /// The run's folder; without --resume it must have no run yet
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on from the newest checkpoint of --run, with its settings
    #[arg(
        help_heading = "Output",
        long,
        requires = "run",
        conflicts_with_all = [
            "config", "problem", "seed", "preset", "graphs", "weighted", "environments", "prioritized",
            "embedding", "head", "layers", "valid",
        ]
    )]
    resume: bool,
    /// Settings as TOML or JSON; flags win
    #[arg(help_heading = "Method", long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Named settings: default, or paper (the paper's choices to the letter) [default: default]
    #[arg(help_heading = "Method", long, value_name = "default|paper")]
    preset: Option<Preset>,
    /// Graphs to train on: a generator or a graph file; may be repeated [default: er:20:0.15 and ba:20:4]
    #[arg(help_heading = "Input", long, value_name = "SPEC")]
    graphs: Vec<String>,
    /// Validation data: graphs to try the policy on while it learns, a generator or a file; may be repeated [default: others of the generators of --graphs, and
    /// larger ones of small models]
    #[arg(help_heading = "Input", long, value_name = "SPEC")]
    valid: Vec<String>,
    /// Read edge weights: of an edge list its third column; for a problem that has weights
    #[arg(help_heading = "Input", long)]
    weighted: bool,
    /// Environments that are stepped side by side; a step is a pick in each [default: 1]
    #[arg(
        help_heading = "Method",
        hide_short_help = true,
        long,
        value_name = "E"
    )]
    environments: Option<usize>,
    /// Draw transitions in proportion to their errors; --config changes how
    #[arg(
        help_heading = "Method",
        hide_short_help = true,
        long,
        alias = "prioritised"
    )]
    prioritized: bool,
    /// Draw a picture: the policy beside the best greedy answer on held-back graphs, and each episode's objective
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Where to compute: host, emulated, cuda, cuda:N or auto (the first GPU if there is one) [default:
    /// host]
    #[arg(help_heading = "Ranks and devices", long, value_name = "DEVICE")]
    device: Option<DeviceKind>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    problem: &'a str,
    steps: usize,
    /// Those of earlier calls too.
    seconds: f64,
    seconds_per_step: f64,
    /// The median over the steps that learnt; null without one.
    learning_step_seconds: Option<f64>,
    ranks: u32,
    batch_ranks: u32,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<ExchangeReport>,
    final_loss: Option<f32>,
    policy: String,
    /// The training hash: equal for every number of ranks and every back end.
    policy_hash: String,
    episodes: usize,
    /// The step that the policy is of, where held-back graphs chose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_step: Option<u64>,
    /// What it found on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    eval: Option<Evaluation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<PathBuf>,
}

/// What a run starts from; every process reads it for itself.
struct Inputs {
    config: TrainConfig,
    options: RunOptions,
}

/// Trains and prints the answer. Several processes all end with the same exit code; the first alone prints.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let file = match &args.config {
        Some(path) => ConfigFile::read(path),
        None => Ok(ConfigFile::default()),
    };
    // The other processes are told of a file that cannot be read; without them it would be the first thing to fail.
    let known = file.as_ref().ok();
    let ranks = args.world.ranks.or(known.and_then(|file| file.ranks));
    let deadline = args.world.timeout.or(known.and_then(|file| file.timeout));
    let deadline = deadline.unwrap_or_default();
    let mut world = args.world.open(ranks, deadline)?;
    let report = args.report.of_rank(world.comm.rank());
    let steps = steps_to(args, || world.of_first(|| target(args)))?;
    let inputs = load(args, file, &report, &world, steps);
    let inputs = world.settle(inputs)?;
    let timer = Timer::start(&Device::host());
    let mut show = Show::new(&report, &inputs);
    let outcome = train_as_rank(
        &mut world.comm,
        &inputs.config,
        &inputs.options,
        &mut |report| {
            show.step(report);
        },
    )?;
    let times = show.finish();
    world.on_first(|| finish(args, &inputs, &outcome, timer.elapsed_s(), times))
}

/// The steps of the flags; of a run that goes on without, those that it was to have.
fn steps_to(
    args: &TrainArgs,
    target: impl FnOnce() -> anyhow::Result<u64>,
) -> anyhow::Result<Option<u64>> {
    match args.steps {
        None if args.resume => Ok(Some(target()?).filter(|&steps| steps > 0)),
        steps => Ok(steps),
    }
}

/// The steps that the run in the folder was to have; 0 where there is none, which training says.
fn target(args: &TrainArgs) -> anyhow::Result<u64> {
    let folder = args.run.as_deref().filter(|folder| folder.is_dir());
    let steps = folder.map(target_steps).transpose()?.flatten();
    Ok(steps.unwrap_or(0))
}

fn load(
    args: &TrainArgs,
    file: Result<ConfigFile, BadInput>,
    report: &ReportArgs,
    world: &World,
    steps: Option<u64>,
) -> anyhow::Result<Inputs> {
    let file = file?;
    let kind = args.device.or(file.device).unwrap_or(DeviceKind::Host);
    let device = args.world.device(kind, world.rank.is_some(), report)?;
    let config = config(args, &file, steps)?;
    let folder = folder(args, &file)?;
    if let Some(svg) = &args.svg {
        let inputs = args.graphs.iter().chain(&args.valid).map(Path::new);
        output_file::check(svg, inputs.chain(args.config.as_deref()))?;
        report.leave_output_to(Some(svg));
    }
    let command = format!("shardgraph train --run {} --resume", folder.display());
    interrupt::advise_to_resume(folder, &command);
    report.warn_of_damage(Some(folder), args.resume);
    Ok(Inputs {
        config,
        options: RunOptions {
            problem: None,
            n_ranks: world.n_ranks,
            n_batch_ranks: args.batch_ranks.or(file.batch_ranks).unwrap_or(1),
            communication: args.exchange.communication.or(file.communication),
            folder: Some(folder.to_owned()),
            resume: args.resume,
            deadline: world.timeout,
            device,
        },
    })
}

/// The preset's settings, then the file's, then the flags'.
fn config(args: &TrainArgs, file: &ConfigFile, steps: Option<u64>) -> anyhow::Result<TrainConfig> {
    let preset = args.preset.or(file.preset).unwrap_or(Preset::Default);
    file.over(&TrainConfig::preset(preset), |config| {
        lay_flags(args, config);
        config.steps = steps.unwrap_or(config.steps);
    })
}

/// The flags' settings over others.
fn lay_flags(args: &TrainArgs, config: &mut TrainConfig) {
    if let Some(problem) = &args.problem {
        config.problem.clone_from(problem);
    }
    if !args.graphs.is_empty() {
        config.graphs.clone_from(&args.graphs);
    }
    if !args.valid.is_empty() {
        config.valid.clone_from(&args.valid);
    }
    if args.prioritized {
        config.prioritized.get_or_insert_default();
    }
    config.embedding = args.embedding.unwrap_or(config.embedding);
    config.head = args.head.unwrap_or(config.head);
    config.n_layers = args.layers.unwrap_or(config.n_layers);
    config.weighted |= args.weighted;
    config.environments = args.environments.unwrap_or(config.environments);
    config.seed = args.seed.unwrap_or(config.seed);
}

fn folder<'a>(args: &'a TrainArgs, file: &'a ConfigFile) -> Result<&'a Path, BadInput> {
    let missing = || BadInput("name the folder of the run: --run DIR".into());
    args.run
        .as_ref()
        .or(file.run.as_ref())
        .map(PathBuf::as_path)
        .ok_or_else(missing)
}

/// Progress of a run, and how long its steps took.
struct Show {
    progress: Progress,
    timer: Timer,
    /// When the step before ended.
    before: f64,
    /// Seconds of the steps that learnt.
    times: Vec<f64>,
    /// The last one on held-back graphs.
    eval: Option<Evaluation>,
}

impl Show {
    fn new(report: &ReportArgs, inputs: &Inputs) -> Self {
        Self {
            progress: Progress::new(report, inputs.config.steps, "steps"),
            timer: Timer::wall(),
            before: 0.0,
            times: Vec::new(),
            eval: None,
        }
    }

    fn step(&mut self, report: &StepReport) {
        let now = self.timer.elapsed_s();
        if report.loss.is_some() {
            self.times.push(now - self.before);
        }
        self.before = now;
        self.eval = report.eval.or(self.eval);
        self.progress
            .update(report.step, || match (report.loss, self.eval) {
                (Some(loss), Some(eval)) => format!(
                    "loss {loss:.4}, held back {:.1}, greedy {:.1}",
                    eval.objective, eval.baseline
                ),
                (Some(loss), None) => format!("loss {loss:.4}"),
                (None, _) => "filling the memory".to_owned(),
            });
    }

    /// The median of the steps that learnt.
    fn finish(mut self) -> Option<f64> {
        self.times.sort_by(f64::total_cmp);
        self.times.get(self.times.len() / 2).copied()
    }
}

fn finish(
    args: &TrainArgs,
    inputs: &Inputs,
    outcome: &TrainOutcome,
    seconds: f64,
    learning_step_seconds: Option<f64>,
) -> anyhow::Result<()> {
    let Inputs { config, options } = inputs;
    let (reports, policy) = (&outcome.reports, &outcome.policy);
    let folder = options.folder.clone().unwrap_or_default();
    let n_ended = reports.iter().map(|report| report.n_ended() as usize);
    let n_episodes = n_ended.sum();
    if n_episodes == 0 && reports.len() >= EPISODE_STEPS {
        args.report
            .warning(&no_episode(reports.len(), outcome.largest_graph.0));
    }
    let mut written = Ok(());
    if let Some(svg) = &args.svg {
        written = output_file::write_all(&[(svg, curve::svg(&outcome.problem, outcome))]);
    }
    // Training may have taken hours: the answer is printed although the picture cannot be written.
    args.report.answer(
        &Answer {
            problem: &outcome.problem,
            steps: reports.len(),
            seconds,
            seconds_per_step: seconds / reports.len().max(1) as f64,
            learning_step_seconds,
            ranks: options.n_ranks,
            batch_ranks: options.n_batch_ranks,
            device: options.device.kind().to_string(),
            exchange: exchange(inputs, outcome),
            final_loss: reports.iter().rev().find_map(|report| report.loss),
            policy: folder.join("policy.safetensors").display().to_string(),
            policy_hash: format!("{:016x}", policy.params_hash()),
            episodes: n_episodes,
            best_step: outcome.best.map(|(step, _)| step),
            eval: outcome.best.map(|(_, eval)| eval),
            svg: args.svg.clone().filter(|_| written.is_ok()),
        },
        &Layout {
            headline: Some(format!("trained to step {}", config.steps)),
            ..Layout::first("final_loss")
        },
    )?;
    Ok(written?)
}

/// Fewer steps than this are a trial of the command, which no warning has to explain.
const EPISODE_STEPS: usize = 100;

/// Why a run without an ended episode has learnt little.
fn no_episode(n_steps: usize, n_nodes: u32) -> String {
    format!(
        "no episode has ended in {n_steps} steps, so what a whole answer is worth was never seen: graphs of {n_nodes} nodes take up to as many \
         picks; take more --steps or smaller graphs"
    )
}

/// Beside the paper's formulas for a batch of states of the largest graph.
fn exchange(inputs: &Inputs, outcome: &TrainOutcome) -> Option<ExchangeReport> {
    let shape = outcome.policy.config.shape();
    let options = &inputs.options;
    let is_shared = options.n_ranks > 1 || options.communication.is_some();
    let exchange = outcome.exchange.as_ref().filter(|_| is_shared)?;
    let (n_nodes, n_edges) = outcome.largest_graph;
    let paper = PaperModel {
        n_states: outcome.batch_size as u64,
        ..PaperModel::of_state(options.n_ranks, n_nodes, n_edges, shape)
    };
    let (n_steps, per_step) = (outcome.reports.len() as u64, paper.training_step_bytes());
    Some(ExchangeReport::new(exchange, n_steps, (&paper, per_step)))
}
