//! `shardgraph agent eval`: episodes with trained weights.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_agents::{Agent, AgentConfig, Choice, Evaluation, RunOptions};
use shardgraph_device::{Device, Timer};

use crate::agent_settings::{run_config, settings};
use crate::device_choice::{DeviceArgs, open_device};
use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;
use crate::text::Layout;
use crate::world::refuse_processes;

const EXAMPLE: &str = "\
Examples:
  shardgraph agent eval my-agent
  shardgraph agent eval --model my-agent --sampled --episodes 1000
  shardgraph agent eval settings.toml --model my-agent/weights.safetensors --episodes 1000

CONFIG is the folder of a run, which has its settings and weights; or what the agent was trained
with: a .toml or .json file, or a name of `shardgraph agent list`, with --model.";

/// Play episodes with trained weights
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct EvalArgs {
    /// The folder of a run, or the settings: a file, or a name
    #[arg(value_name = "CONFIG", required_unless_present = "model")]
    config: Option<PathBuf>,
    /// A trained model: the weights or the run folder of `agent train` [default: CONFIG, where that is one]
    #[arg(help_heading = "Method", long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Draw actions as training does at its end, in place of the best ones
    #[arg(help_heading = "Method", long)]
    sampled: bool,
    /// How many episodes to play
    #[arg(help_heading = "Method", long, value_name = "N", default_value_t = 100)]
    episodes: usize,
    /// Seed of all that is random: of the episodes' first states [default: of the settings]
    #[arg(help_heading = "Method", long, value_name = "SEED")]
    seed: Option<u64>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    algorithm: &'static str,
    environment: String,
    seed: u64,
    episodes: usize,
    actions: &'static str,
    steps: u64,
    mean_return: f64,
    min_return: f32,
    max_return: f32,
    seconds: f64,
    env_steps_per_s: f64,
    device: String,
    weights: String,
    policy_hash: String,
}

/// Evaluates and prints the answer.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    refuse_processes("agent eval", None)?;
    let (config, model) = config_and_model(args)?;
    let options = RunOptions {
        device: open_device(args.device.kind, &args.report)?,
        ..RunOptions::default()
    };
    let environments = options.environments_of(&config)?;
    let mut agent = config.agent(&options)?;
    agent.import(&output_file::model_file(&model, "weights.safetensors"))?;
    let seed = args.seed.unwrap_or(config.seed);
    let choice = match args.sampled {
        true => Choice::Sampled,
        false => Choice::Greedy,
    };
    let timer = Timer::start(&Device::host());
    let evaluation = Evaluation::play(agent.as_mut(), &environments, args.episodes, choice, seed)?;
    let seconds = timer.elapsed_s();
    args.report.answer(
        &answer(args, &model, &config, agent.as_ref(), &evaluation, seconds),
        &Layout::first("mean_return"),
    )
}

/// Of a run's folder both, whether it stands as CONFIG or as `--model`; else the settings, and what `--model` names.
fn config_and_model(args: &EvalArgs) -> anyhow::Result<(AgentConfig, PathBuf)> {
    if let (Some(config), Some(model)) = (&args.config, &args.model) {
        return Ok((settings(config, None)?, model.clone()));
    }
    let given = args.config.as_ref().or(args.model.as_ref());
    let given = given.ok_or_else(|| BadInput("name the folder of a run".to_owned()))?;
    if let Some(config) = run_config(given)? {
        return Ok((config, given.clone()));
    }
    let folder = given.display();
    let why = match (given.is_dir(), args.model.is_some()) {
        (true, _) => format!(
            "{folder}: this folder has no weights: a run leaves them at its end (`shardgraph agent train --run {folder} --resume`)"
        ),
        (false, true) => format!(
            "{folder}: weights alone do not say what the agent is: name its settings too, or the run's folder"
        ),
        (false, false) => {
            settings(given, None)?;
            "name the weights: --model with a run's folder or a file, or that folder in place of the settings".to_owned()
        }
    };
    Err(BadInput(why).into())
}

fn answer(
    args: &EvalArgs,
    model: &Path,
    config: &AgentConfig,
    agent: &dyn Agent,
    evaluation: &Evaluation,
    seconds: f64,
) -> Answer {
    Answer {
        algorithm: config.algorithm.name(),
        environment: config.environment.name.clone(),
        seed: args.seed.unwrap_or(config.seed),
        episodes: evaluation.returns.len(),
        actions: if args.sampled { "sampled" } else { "greedy" },
        steps: evaluation.n_steps,
        mean_return: evaluation.mean_return(),
        min_return: evaluation.min_return(),
        max_return: evaluation.max_return(),
        seconds,
        env_steps_per_s: evaluation.n_steps as f64 / seconds.max(1e-9),
        device: args.device.kind.to_string(),
        weights: model.display().to_string(),
        policy_hash: format!("{:016x}", agent.weights_hash()),
    }
}
