//! `shardgraph agent train`: an agent from its settings, with metrics and checkpoints where a folder is named.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_agents::{RunOptions, Start, TrainOutcome, TrainProgress, train, train_as_rank};
use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::{Device, DeviceKind, Timer};

use crate::agent::settings;
use crate::agent_topology;
use crate::deadline;
use crate::exit::BadInput;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::world::{World, WorldArgs, settle};

const EXAMPLE: &str = "\
Examples:
  shardgraph agent train cartpole-dqn --out my-agent
  shardgraph agent train settings.toml --steps 20000 --seed 3 --format json
  shardgraph agent train --resume my-agent --steps 600000

CONFIG is a .toml or .json file, or a name of `shardgraph agent list`. Without --out nothing is written. A folder gets metrics.jsonl, the
same as a TensorBoard event file, checkpoints, and weights.safetensors for `shardgraph agent eval`.

Ranks share the blocks of each batch: at most `gradient_blocks` of the settings can take part. Under mpirun, srun or torchrun each
process is a rank.";

/// Train an agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    /// The settings: a file, or a name
    #[arg(value_name = "CONFIG", required_unless_present = "resume")]
    config: Option<PathBuf>,
    /// Steps of all environments together; with --resume, to go to [default: as the settings say]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The one seed of the run [default: as the settings say]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// The folder to write; it must have no run yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on from the newest checkpoint of a folder, with its settings
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "config", "seed"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    world: WorldArgs,
    /// Where to compute: host, emulated, cuda, cuda:N or auto
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: DeviceKind,
    /// Longest wait for another rank [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = deadline::parse)]
    deadline: Option<Deadline>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    algorithm: &'static str,
    environment: &'static str,
    seed: u64,
    steps: u64,
    episodes: u64,
    updates: u64,
    /// Over the last 100 episodes of the run.
    mean_return: Option<f64>,
    seconds: f64,
    env_steps_per_s: f64,
    ranks: u32,
    device: String,
    weights: Option<String>,
    /// Equal for every number of ranks.
    policy_hash: String,
}

/// What a run starts from; every process reads it for itself.
struct Inputs {
    start: Start,
    options: RunOptions,
}

/// Trains and prints the answer.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let deadline = args.deadline.unwrap_or_default();
    // What is wrong with them is said where all ranks can hear it.
    let topology = start(args).ok().filter(|start| {
        let config = start.config();
        config.is_ok_and(|config| agent_topology::is_topology(&config.algorithm))
    });
    if let Some(start) = topology {
        return run_topology(args, &start);
    }
    match args.world.open(args.world.ranks, deadline)? {
        World::Threads(n_ranks) => {
            let inputs = load(args, (n_ranks, false), &args.report)?;
            let timer = Timer::start(&Device::host());
            let mut show = Show::new(&args.report);
            let outcome = train(&inputs.start, &inputs.options, &mut |report| {
                show.step(report);
            })?;
            drop(show);
            finish(args, &inputs, &outcome, timer.elapsed_s())
        }
        World::Process(mut comm) => run_as_rank(args, &mut comm, deadline),
    }
}

/// Learner, shards and actors, whose numbers are settings.
fn run_topology(args: &TrainArgs, start: &Start) -> anyhow::Result<()> {
    if args.world.ranks.is_some() {
        let text = "--ranks shares the batches of `dqn`: here the settings say how many actors and shards there are";
        return Err(BadInput(text.to_owned()).into());
    }
    let options = RunOptions {
        n_ranks: 1,
        stop_at: args.resume.as_ref().and(args.steps),
        deadline: args.deadline.unwrap_or_default(),
        device: args.world.device(args.device, false, &args.report)?,
    };
    agent_topology::run(start, &options, &args.report)
}

/// Where the run begins.
fn start(args: &TrainArgs) -> anyhow::Result<Start> {
    match (&args.resume, &args.config) {
        (Some(folder), _) => Ok(Start::Resumed {
            folder: folder.clone(),
        }),
        (None, Some(config)) => {
            let mut config = settings(config)?;
            config.steps = args.steps.unwrap_or(config.steps);
            config.seed = args.seed.unwrap_or(config.seed);
            config.check()?;
            Ok(Start::New {
                config,
                folder: args.out.clone(),
            })
        }
        (None, None) => {
            let text = "name the settings: a file, or a name of `shardgraph agent list`";
            Err(BadInput(text.to_owned()).into())
        }
    }
}

/// As one of several processes, of which the first alone prints. Where one fails, the others lose a rank.
fn run_as_rank(args: &TrainArgs, comm: &mut Comm, deadline: Deadline) -> anyhow::Result<()> {
    let report = args.report.of_rank(comm.rank());
    let inputs = load(args, (comm.size(), true), &report);
    let inputs = settle(comm, inputs, deadline)?;
    let timer = Timer::start(&Device::host());
    let mut show = Show::new(&report);
    let outcome = train_as_rank(comm, &inputs.start, &inputs.options, &mut |report| {
        show.step(report);
    });
    drop(show);
    let outcome = settle(comm, outcome.map_err(anyhow::Error::from), deadline)?;
    let finished = match comm.rank() {
        0 => finish(args, &inputs, &outcome, timer.elapsed_s()),
        _ => Ok(()),
    };
    settle(comm, finished, deadline)
}

fn load(
    args: &TrainArgs,
    (n_ranks, is_process): (u32, bool),
    report: &ReportArgs,
) -> anyhow::Result<Inputs> {
    let options = RunOptions {
        n_ranks,
        stop_at: args.resume.as_ref().and(args.steps),
        deadline: args.deadline.unwrap_or_default(),
        device: args.world.device(args.device, is_process, report)?,
    };
    Ok(Inputs {
        start: start(args)?,
        options,
    })
}

/// Progress of a run; the bar's length is known from the first step on.
pub(crate) struct Show<'a> {
    report: &'a ReportArgs,
    bar: Option<Progress>,
}

impl<'a> Show<'a> {
    pub(crate) fn new(report: &'a ReportArgs) -> Self {
        Self { report, bar: None }
    }

    pub(crate) fn step(&mut self, report: &TrainProgress) {
        let bar = self
            .bar
            .get_or_insert_with(|| Progress::new(self.report, report.stop_at));
        bar.update(report.step, || match report.mean_return {
            Some(mean_return) => format!("steps, mean return {mean_return:.1}"),
            None => "steps".to_owned(),
        });
    }
}

fn finish(
    args: &TrainArgs,
    inputs: &Inputs,
    outcome: &TrainOutcome,
    seconds: f64,
) -> anyhow::Result<()> {
    let folder = inputs.start.folder();
    let weights = folder.map(|folder| folder.join("weights.safetensors"));
    args.report.answer(&Answer {
        algorithm: outcome.config.algorithm.name(),
        environment: outcome.config.environment.name(),
        seed: outcome.config.seed,
        steps: outcome.n_steps,
        episodes: outcome.n_episodes,
        updates: outcome.n_updates,
        mean_return: outcome.mean_return,
        seconds,
        env_steps_per_s: outcome.n_steps as f64 / seconds.max(1e-9),
        ranks: inputs.options.n_ranks,
        device: inputs.options.device.kind().to_string(),
        weights: weights.map(|path| path.display().to_string()),
        policy_hash: format!("{:016x}", outcome.agent.weights_hash()),
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "algorithm {}", self.algorithm)?;
        writeln!(f, "environment {}", self.environment)?;
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "steps {}", self.steps)?;
        writeln!(f, "episodes {}", self.episodes)?;
        writeln!(f, "updates {}", self.updates)?;
        match self.mean_return {
            Some(mean_return) => writeln!(f, "mean return {mean_return:.3}")?,
            None => writeln!(f, "mean return none (no episode has ended)")?,
        }
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(
            f,
            "environment steps per second {:.0}",
            self.env_steps_per_s
        )?;
        writeln!(f, "ranks {}", self.ranks)?;
        writeln!(f, "device {}", self.device)?;
        if let Some(weights) = &self.weights {
            writeln!(f, "weights {weights}")?;
        }
        writeln!(f, "policy hash {}", self.policy_hash)
    }
}
