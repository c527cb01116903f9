//! `shardgraph place train`: a policy for `shardgraph place --model`, from computation graphs, with metrics and checkpoints.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Map;
use shardgraph_collectives::Comm;
use shardgraph_costgraph::{DecoderKind, Graph};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_regal::{
    Policy, Preset, StepReport, TrainConfig, TrainOptions, TrainOutcome, config_of_run,
    train_as_rank,
};

use crate::device_choice::open_device;
use crate::exit::BadInput;
use crate::interrupt;
use crate::place_graph::load_all;
use crate::place_options::decoder;
use crate::progress::Progress;
use crate::quantity;
use crate::report::ReportArgs;
use crate::settings_file::{SettingsFile, checked};
use crate::text::Layout;
use crate::world::WorldArgs;

/// Steps whose rewards the answer averages.
const LAST_STEPS: usize = 200;

const EXAMPLE: &str = "\
Examples:
  shardgraph place train --run my-policy --steps 20000 --learning-rate 1e-3 --threads 2
  shardgraph place train --preset memory --graphs graphs.jsonl.gz --run my-memory-policy
  shardgraph place train --run my-policy --resume --steps 40000
  shardgraph place costgraph:200 --seed 7 --all --model my-policy/policy.safetensors --format json

The folder gets policy.safetensors for `shardgraph place --model`, metrics.jsonl with one line a
step, the same as events.out.tfevents.* for TensorBoard, and checkpoints. A reward is minus what
the proposals reached, divided by what uniform keys reach in as many evaluations: above -1 they
are worth something. --config takes a TOML or JSON file of the settings that run.json of a
checkpoint lists under `config`, over those of the preset; flags win.";

/// Train a policy that proposes distributions for the genetic algorithm
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    /// Named settings: synthetic (runtime), runtime or memory, as the paper has them [default: synthetic]
    #[arg(help_heading = "Method", long, value_name = "PRESET")]
    preset: Option<Preset>,
    /// Graphs to train on: a file, or costgraph:N; may be repeated [default: costgraph:1000]
    #[arg(help_heading = "Input", long, value_name = "GRAPHS")]
    graphs: Vec<String>,
    /// Seed of a generated graph [default: 1]
    #[arg(help_heading = "Input", long, value_name = "SEED")]
    graph_seed: Option<u64>,
    /// Steps of training; with --resume, to go to [default: 100000]
    #[arg(help_heading = "Method", long, value_name = "N")]
    steps: Option<u64>,
    /// Learning rate: the step size of Adam [default: 1e-4]
    #[arg(help_heading = "Method", long, value_name = "RATE")]
    learning_rate: Option<f32>,
    /// How chromosomes become schedules: as of `shardgraph place` [default: paper]
    #[arg(help_heading = "Method", long, value_name = "DECODER", value_parser = decoder)]
    decoder: Option<DecoderKind>,
    /// Devices: all alike [default: 2]
    #[arg(help_heading = "Method", long, value_name = "N")]
    devices: Option<usize>,
    /// Seed of all that is random [default: 1]
    #[arg(help_heading = "Method", long, value_name = "SEED")]
    seed: Option<u64>,
    /// Settings as TOML or JSON; flags win
    #[arg(help_heading = "Method", long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory of each device: plans beyond it count for more than twice their time [default: no limit]
    #[arg(help_heading = "Method", long, value_name = "SIZE", value_parser = quantity::bytes)]
    device_memory: Option<u64>,
    /// Threads: the policy does not depend on them; a step has one search for each graph and sample of its
    /// batch, 4 by default [default: 1]
    #[arg(help_heading = "Ranks and devices", long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to compute: the networks on host, emulated, cuda, cuda:N or auto (the first GPU if there is one), searches on the host
    #[arg(
        help_heading = "Ranks and devices",
        long,
        value_name = "DEVICE",
        default_value = "host"
    )]
    device: DeviceKind,
    /// Begin with the weights of this policy, one that comes with the program or else a file (./few is a file): one that was trained with the same network for
    /// fewer evaluations, say
    #[arg(help_heading = "Method", long, value_name = "POLICY")]
    start: Option<PathBuf>,
    /// The run's folder; without --resume it must have no run yet
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    run: PathBuf,
    /// Go on from the newest checkpoint of --run, with its settings
    #[arg(
        help_heading = "Output",
        long,
        requires = "steps",
        conflicts_with_all = ["preset", "graphs", "graph_seed", "learning_rate", "decoder", "devices", "seed", "config", "start", "device_memory"]
    )]
    resume: bool,
    #[command(flatten)]
    world: WorldArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    steps: u64,
    steps_taken: usize,
    graphs: usize,
    /// The mean reward of the last steps, as many as `reward_steps`; absent where there was none.
    reward: Option<f64>,
    reward_steps: usize,
    entropy: Option<f32>,
    seconds: f64,
    seconds_per_step: f64,
    threads: usize,
    device: String,
    /// Processes that share the searches.
    ranks: u32,
    policy: String,
    /// Equal for every number of threads.
    policy_hash: String,
}

/// Trains and prints the answer, which the first of several processes does alone. All end with the same exit code, but for a failure in the
/// midst of training: the process that had it ends with its own code, and the others with that of a lost one.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let deadline = args.world.timeout.unwrap_or_default();
    let device = device(args)?;
    let mut world = args.world.open(args.world.ranks, deadline)?;
    let n_ranks = world.n_ranks;
    if n_ranks != world.comm.size() {
        return Err(BadInput(format!(
            "--ranks {n_ranks}: ranks are processes here, started by mpirun, srun or torchrun; for threads of one process give --threads {n_ranks}"
        ))
        .into());
    }
    let inputs = world.settle(inputs(args, device))?;
    let trained = train_as(args, &inputs, &mut world.comm);
    let answer = world.settle(trained)?;
    world.on_first(|| args.report.answer(&answer, &Layout::first("reward")))
}

/// What a run starts from; every process reads it for itself.
struct Inputs {
    config: TrainConfig,
    graphs: Vec<Graph>,
    options: TrainOptions,
}

/// Where the networks are. NCCL has no part in this: ranks share searches, which are on the host.
fn device(args: &TrainArgs) -> anyhow::Result<Device> {
    args.world.device(DeviceKind::Host, false, &args.report)?;
    Ok(open_device(args.device, &args.report)?)
}

fn inputs(args: &TrainArgs, device: Device) -> anyhow::Result<Inputs> {
    let config = match args.resume {
        true => {
            let config = config_of_run(&args.run)?;
            config.check()?;
            config
        }
        false => config(args)?,
    };
    let graphs = graphs(&config, &args.report)?;
    let options = TrainOptions {
        folder: Some(args.run.clone()),
        resume: args.resume,
        stop_at: args.steps,
        threads: args.threads.map_or(1, usize::from),
        timeout: args.world.timeout.unwrap_or_default(),
        start: args.start.as_deref().map(Policy::named).transpose()?,
        device,
    };
    Ok(Inputs {
        config,
        graphs,
        options,
    })
}

fn train_as(args: &TrainArgs, inputs: &Inputs, comm: &mut Comm) -> anyhow::Result<Answer> {
    let Inputs {
        config,
        graphs,
        options,
    } = inputs;
    let report = args.report.of_rank(comm.rank());
    let timer = Timer::start(&Device::host());
    let length = options.stop_at.unwrap_or(config.steps);
    let folder = args.run.display();
    let command = format!("shardgraph place train --run {folder} --resume --steps {length}");
    interrupt::advise_to_resume(&args.run, &command);
    report.warn_of_damage(Some(&args.run), args.resume);
    let mut progress = Progress::new(&report, length, "steps");
    let outcome = train_as_rank(comm, config, graphs, options, &mut |report: &StepReport| {
        progress.update(report.step, || match report.reward {
            Some(reward) => format!("reward {reward:.4}"),
            None => format!("imitation, loss {:.4}", report.loss),
        });
    });
    drop(progress);
    let (outcome, seconds) = (outcome?, timer.elapsed_s());
    let mut answer = Answer::new(&outcome, options, graphs.len(), seconds);
    answer.ranks = comm.size();
    Ok(answer)
}

/// The preset's settings, then the file's, then the flags', checked.
fn config(args: &TrainArgs) -> anyhow::Result<TrainConfig> {
    let file = args.config.as_deref().map(SettingsFile::read).transpose()?;
    let make = |file: Option<&SettingsFile>| {
        let preset = TrainConfig::preset(args.preset.unwrap_or_default());
        let config = match file {
            None => preset,
            Some(file) => over(preset, file)?,
        };
        Ok(under_flags(config, args))
    };
    checked(file.as_ref(), make, TrainConfig::check)
}

/// Settings under the flags'.
fn under_flags(mut config: TrainConfig, args: &TrainArgs) -> TrainConfig {
    if !args.graphs.is_empty() {
        config.graphs.clone_from(&args.graphs);
    }
    config.graph_seed = args.graph_seed.unwrap_or(config.graph_seed);
    config.steps = args.steps.unwrap_or(config.steps);
    config.seed = args.seed.unwrap_or(config.seed);
    let rate = &mut config.optimiser.learning_rate;
    *rate = args.learning_rate.unwrap_or(*rate);
    config.memory_bytes = args.device_memory.or(config.memory_bytes);
    let policy = &mut config.policy;
    policy.decoder = args.decoder.unwrap_or(policy.decoder);
    policy.n_devices = args.devices.unwrap_or(policy.n_devices);
    config
}

/// The settings of a file over others, each of which it may leave out.
fn over(base: TrainConfig, file: &SettingsFile) -> Result<TrainConfig, BadInput> {
    let mut config = base;
    for (key, value) in file.keys() {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        let with = config.with_settings(alone);
        config = with.map_err(|why| file.wrong(key, &why))?;
    }
    Ok(config)
}

fn graphs(config: &TrainConfig, report: &ReportArgs) -> anyhow::Result<Vec<Graph>> {
    let mut graphs = Vec::new();
    for name in &config.graphs {
        graphs.extend(load_all(name, config.graph_seed, report)?);
    }
    Ok(graphs)
}

impl Answer {
    fn new(outcome: &TrainOutcome, options: &TrainOptions, n_graphs: usize, seconds: f64) -> Self {
        let reports = &outcome.reports;
        let last = &reports[reports.len().saturating_sub(LAST_STEPS)..];
        let rewards = last.iter().filter_map(|report| report.reward);
        let rewards: Vec<f64> = rewards.map(f64::from).collect();
        let sum: f64 = rewards.iter().sum();
        let folder = options.folder.clone().unwrap_or_default();
        Self {
            steps: outcome.n_steps,
            steps_taken: reports.len(),
            graphs: n_graphs,
            reward: (!rewards.is_empty()).then(|| sum / rewards.len() as f64),
            reward_steps: rewards.len(),
            entropy: last.last().map(|report| report.entropy),
            seconds,
            seconds_per_step: seconds / reports.len().max(1) as f64,
            threads: options.threads,
            device: options.device.kind().to_string(),
            ranks: 1,
            policy: folder.join("policy.safetensors").display().to_string(),
            policy_hash: format!("{:016x}", outcome.policy.weights_hash()),
        }
    }
}

#[cfg(test)]
mod tests {
    use shardgraph_regal::EncoderShape;

    use super::*;

    fn read(name: &str, text: &str) -> Result<TrainConfig, BadInput> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        over(
            TrainConfig::preset(Preset::Synthetic),
            &SettingsFile::read(&path)?,
        )
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let toml = "steps = 7\n[policy]\nhead_width = 9\nactions = 'placement'\n[policy.encoder.sequence]\nwidth = 4\n";
        let json = r#"{"steps": 7, "policy": {"head_width": 9, "actions": "placement", "encoder": {"sequence": {"width": 4}}}}"#;
        let found = read("c.toml", toml).unwrap();
        assert_eq!(found, read("c.json", json).unwrap());
        let mut expected = TrainConfig::preset(Preset::Synthetic);
        expected.steps = 7;
        expected.policy.head_width = 9;
        expected.policy.actions = shardgraph_regal::ActionSet::Placement;
        expected.policy.encoder = EncoderShape::Sequence { width: 4 };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_kind_keeps_what_the_preset_says_of_it_and_another_kind_has_none_of_it() {
        let toml = "[policy.encoder.graph-network]\nn_rounds = 3\n[optimiser.rule.rms_prop]\ndecay = 0.9\nmomentum = 0.0\nepsilon = 1e-5\n";
        let found = read("c.toml", toml).unwrap();
        let preset = TrainConfig::preset(Preset::Synthetic);
        let (EncoderShape::GraphNetwork(of_preset), EncoderShape::GraphNetwork(shape)) =
            (&preset.policy.encoder, &found.policy.encoder)
        else {
            panic!("the preset has a graph network");
        };
        let mut expected = of_preset.clone();
        assert_ne!(expected.n_rounds, 3);
        expected.n_rounds = 3;
        assert_eq!(*shape, expected);
        let rule = serde_json::to_value(found.optimiser.rule).unwrap();
        assert!(rule.get("rms_prop").is_some(), "{rule}");
    }

    #[test]
    fn mistakes_are_named() {
        for (name, text, reason) in [
            ("c.toml", "stepss = 1", "stepss"),
            ("c.toml", "steps = 'many'", "invalid type"),
            ("c.toml", "[policy]\nlevels = 3", "unknown field `levels`"),
            ("c.json", "{\"steps\": 1", "c.json:1:11"),
            (
                "c.toml",
                "bandwidth_gbs = nan",
                "c.toml:1: `bandwidth_gbs`: expected a finite",
            ),
            (
                "c.toml",
                "[policy]\ncrossover_levels = inf",
                "c.toml:1: `policy.crossover_levels`: expected a finite",
            ),
        ] {
            let message = read(name, text).unwrap_err().to_string();
            assert!(
                message.contains(reason) && message.contains(name),
                "{message}"
            );
        }
    }
}
