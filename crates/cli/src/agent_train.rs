//! `shardgraph agent train`: an agent from its settings, with metrics and checkpoints where a folder is named.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use shardgraph_agents::{
    AgentConfig, RunOptions, Start, TrainOutcome, TrainProgress, check_processes, train_as_rank,
};
use shardgraph_collectives::Timeout;
use shardgraph_device::{Device, Timer};

use crate::agent_answer::{Head, Tail};
use crate::agent_settings::{SettingsArgs, settings, with_one_of_each};
use crate::agent_topology;
use crate::device_choice::DeviceArgs;
use crate::exit::BadInput;
use crate::interrupt;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::text::Layout;
use crate::world::{World, WorldArgs};

const EXAMPLE: &str = "\
Examples:
  shardgraph agent train cartpole-dqn --run my-agent
  shardgraph agent train settings.toml --steps 20000 --seed 3 --format json
  shardgraph agent train ppo --environment clique --set environment.options.graphs=\"'er:12:0.3'\"
  shardgraph agent train --run my-agent --resume --steps 600000

CONFIG is a .toml or .json file, a name of `shardgraph agent list`, or an algorithm with
--environment. Without --run nothing is written. A folder gets metrics.jsonl, the same as a
TensorBoard event file, checkpoints, and weights.safetensors for `shardgraph agent eval`.

Ranks share the blocks of each batch: at most `gradient_blocks` of the settings can take part.
Under mpirun, srun or torchrun each process is a rank.";

/// Train an agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Steps of training: of all environments together; with --resume, to go to [default: of the settings]
    #[arg(help_heading = "Method", long, value_name = "N")]
    steps: Option<u64>,
    /// Seed of all that is random [default: of the settings]
    #[arg(help_heading = "Method", long, value_name = "SEED")]
    seed: Option<u64>,
    /// The run's folder; without --resume it must have no run yet [default: nothing is written]
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on from the newest checkpoint of --run, with its settings
    #[arg(help_heading = "Output", long, requires = "run", conflicts_with_all = ["config", "seed"])]
    resume: bool,
    #[command(flatten)]
    world: WorldArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    head: Head,
    ranks: u32,
    /// Its hash is equal for every number of ranks.
    #[serde(flatten)]
    tail: Tail,
}

/// What a run starts from.
struct Inputs {
    start: Start,
    options: RunOptions,
}

/// Trains and prints the answer; of several processes the first alone prints. Where one fails, the others lose a rank.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let deadline = args.world.timeout.unwrap_or_default();
    let (start, config) = match start(args) {
        Ok(begun) => begun,
        Err(error) => return Err(told(args, error, deadline)),
    };
    if agent_topology::is_topology(&config.algorithm) {
        return run_topology(args, &start, &config);
    }
    let mut world = args.world.open(args.world.ranks, deadline)?;
    let report = args.report.of_rank(world.comm.rank());
    let inputs = load(args, start, &world, &report);
    let inputs = world.settle(inputs)?;
    let comm = &mut world.comm;
    let timer = Timer::start(&Device::host());
    let mut show = Show::new(&report);
    let outcome = train_as_rank(comm, &inputs.start, &inputs.options, &mut |report| {
        show.step(report);
    });
    drop(show);
    let outcome = world.settle(outcome.map_err(anyhow::Error::from))?;
    world.on_first(|| finish(args, &inputs, &outcome, timer.elapsed_s()))
}

/// What is wrong with the settings of one process of several: said where the others can hear it, for some seconds.
fn told(args: &TrainArgs, error: anyhow::Error, deadline: Timeout) -> anyhow::Error {
    if args.world.decline(&error, deadline) {
        return error;
    }
    let patience = Timeout::after(deadline.duration().min(Duration::from_secs(10)));
    match args.world.open(args.world.ranks, patience) {
        Ok(mut world) if world.rank.is_some() => {
            let settled = world.settle(Err::<(), _>(error));
            let said = || anyhow::anyhow!("the ranks disagree on what is wrong");
            settled.err().unwrap_or_else(said)
        }
        _ => error,
    }
}

/// Learner, shards and actors, whose numbers are settings.
fn run_topology(args: &TrainArgs, start: &Start, config: &AgentConfig) -> anyhow::Result<()> {
    if let Some(ranks) = args.world.ranks.filter(|ranks| *ranks > 1) {
        return Err(BadInput(format!(
            "--ranks {ranks} shares the batches of `dqn`, `ppo` and `sac`: here the settings say how many actors and shards there are"
        ))
        .into());
    }
    let launch = args.world.open_messages()?;
    let deadline = args.world.timeout.unwrap_or_default();
    // What one process alone may find is wrong is said to the others.
    let checked = launch.as_ref().map_or(Ok(()), |launch| {
        check_processes(config, &RunOptions::default(), launch.size).map_err(anyhow::Error::from)
    });
    let device = checked.and_then(|()| {
        let is_process = launch.is_some();
        args.world
            .device(args.device.kind, is_process, &args.report)
    });
    let device = device.inspect_err(|error| {
        args.world.decline(error, deadline);
    })?;
    let options = RunOptions {
        n_ranks: 1,
        stop_at: args.steps.filter(|_| args.resume),
        deadline,
        device,
        environments: None,
    };
    agent_topology::run(start, config, launch, &options, &args.report)
}

/// Where the run begins, and its settings.
fn start(args: &TrainArgs) -> anyhow::Result<(Start, AgentConfig)> {
    if let Some(folder) = &args.run {
        let command = format!("shardgraph agent train --run {} --resume", folder.display());
        interrupt::advise_to_resume(folder, &command);
        args.report.warn_of_damage(Some(folder), args.resume);
    }
    match (
        args.run.as_ref().filter(|_| args.resume),
        &args.settings.config,
    ) {
        (Some(folder), _) => {
            let start = Start::Resumed {
                folder: folder.clone(),
            };
            let config = start.config()?;
            Ok((start, config))
        }
        (None, Some(config)) => {
            let mut config = settings(config, args.settings.environment.as_deref())?;
            config = with_one_of_each(&config, &args.settings.sets)?;
            config.steps = args.steps.unwrap_or(config.steps);
            config.seed = args.seed.unwrap_or(config.seed);
            config.check()?;
            let start = Start::New {
                config: config.clone(),
                folder: args.run.clone(),
            };
            Ok((start, config))
        }
        (None, None) => {
            let text = "name the settings: a file, or a name of `shardgraph agent list`";
            Err(BadInput(text.to_owned()).into())
        }
    }
}

fn load(
    args: &TrainArgs,
    start: Start,
    world: &World,
    report: &ReportArgs,
) -> anyhow::Result<Inputs> {
    let is_process = world.rank.is_some();
    let options = RunOptions {
        n_ranks: world.n_ranks,
        stop_at: args.steps.filter(|_| args.resume),
        deadline: world.timeout,
        device: args.world.device(args.device.kind, is_process, report)?,
        environments: None,
    };
    Ok(Inputs { start, options })
}

/// Progress of a run; the bar's length is known from the first step on.
pub(crate) struct Show<'a> {
    report: &'a ReportArgs,
    bar: Option<Progress>,
    /// Lost ranks that were named so far.
    pub(crate) n_lost: usize,
}

impl<'a> Show<'a> {
    pub(crate) fn new(report: &'a ReportArgs) -> Self {
        Self {
            report,
            bar: None,
            n_lost: 0,
        }
    }

    pub(crate) fn step(&mut self, report: &TrainProgress) {
        for lost in &report.newly_lost {
            self.report
                .warning(&format!("lost {lost}; the run goes on without it"));
        }
        self.n_lost += report.newly_lost.len();
        let bar = self
            .bar
            .get_or_insert_with(|| Progress::new(self.report, report.stop_at, "steps"));
        bar.update(report.step, || match report.mean_return {
            Some(mean_return) => format!("mean return {mean_return:.1}"),
            None => String::new(),
        });
    }
}

fn finish(
    args: &TrainArgs,
    inputs: &Inputs,
    outcome: &TrainOutcome,
    seconds: f64,
) -> anyhow::Result<()> {
    let head = Head::new(outcome, seconds, &args.report);
    let hash = outcome.agent.weights_hash();
    args.report.answer(
        &Answer {
            head,
            ranks: inputs.options.n_ranks,
            tail: Tail::new(&inputs.start, &inputs.options, hash),
        },
        &Layout::first("mean_return"),
    )
}
