//! `shardgraph train`: a policy from random graphs or graph files, with checkpoints.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Deadline;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_solver::train::{Preset, RunOptions, StepReport, TrainConfig, TrainOutcome, train};

use crate::config_file::ConfigFile;
use crate::deadline;
use crate::device_choice::open_device;
use crate::exit::BadInput;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::world;

const EXAMPLE: &str = "\
Examples:
  shardgraph train --problem mvc --steps 2000 --ranks 2 --seed 1 --out my-policy
  shardgraph train --config settings.toml --out my-policy
  shardgraph train --resume my-policy --steps 2000

The folder gets policy.safetensors, for `shardgraph solve --policy`, with its settings in policy.json,
metrics.jsonl with one line a step, and checkpoints. --config takes the names of the flags and all
settings that policy.json lists under `train`; flags win.";

/// Train a policy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    /// The problem: mvc, minimum vertex cover [default: mvc]
    #[arg(long, value_name = "mvc")]
    problem: Option<String>,
    /// Steps to take; with --resume, to go to [default: 3000]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Ranks that share each batch, as threads [default: 1]
    #[arg(long, value_name = "P")]
    ranks: Option<u32>,
    /// The one seed of the run [default: 1]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// The folder to write; it must have no run yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on from the newest checkpoint of a folder, with its settings
    #[arg(
        long,
        value_name = "DIR",
        requires = "steps",
        conflicts_with_all = ["out", "config", "problem", "seed", "preset", "graphs"]
    )]
    resume: Option<PathBuf>,
    /// Settings as TOML or JSON
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// paper: the paper's choices to the letter [default: default]
    #[arg(long, value_name = "default|paper")]
    preset: Option<Preset>,
    /// Graphs to train on: a generator or a graph file; may be repeated [default: er:20:0.15 and ba:20:4]
    #[arg(long, value_name = "SPEC")]
    graphs: Vec<String>,
    /// Where to compute: host, emulated, cuda, cuda:N or auto [default: host]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceKind>,
    /// Longest wait for another rank [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = deadline::parse)]
    deadline: Option<Deadline>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed, about the steps that this call took. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    problem: &'a str,
    steps: usize,
    seconds: f64,
    seconds_per_step: f64,
    ranks: u32,
    device: String,
    final_loss: Option<f32>,
    policy: String,
    episodes: usize,
}

/// Trains and prints the answer.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let file = match &args.config {
        Some(path) => ConfigFile::read(path)?,
        None => ConfigFile::default(),
    };
    world::refuse_processes("train")?;
    let kind = args.device.or(file.device).unwrap_or(DeviceKind::Host);
    let device = open_device(kind, &args.report)?;
    let config = config(args, &file)?;
    let folder = folder(args, &file)?;
    let options = RunOptions {
        n_ranks: args.ranks.or(file.ranks).unwrap_or(1),
        folder: Some(folder.to_owned()),
        resume: args.resume.is_some(),
        deadline: args.deadline.or(file.deadline).unwrap_or_default(),
        device,
    };
    let timer = Timer::start(&Device::host());
    let outcome = train_with_progress(args, &config, &options)?;
    let answer = answer(&outcome, &options, folder, timer.elapsed_s());
    args.report.answer(&answer)
}

/// The preset's settings, then the file's, then the flags'.
fn config(args: &TrainArgs, file: &ConfigFile) -> Result<TrainConfig, BadInput> {
    let preset = args.preset.or(file.preset).unwrap_or(Preset::Default);
    let mut config = file.over(TrainConfig::preset(preset))?;
    if let Some(problem) = &args.problem {
        config.problem.clone_from(problem);
    }
    if !args.graphs.is_empty() {
        config.graphs.clone_from(&args.graphs);
    }
    config.steps = args.steps.unwrap_or(config.steps);
    config.seed = args.seed.unwrap_or(config.seed);
    Ok(config)
}

fn folder<'a>(args: &'a TrainArgs, file: &'a ConfigFile) -> Result<&'a Path, BadInput> {
    let named = args.resume.as_ref().or(args.out.as_ref());
    let missing = || BadInput("name the folder to write: --out DIR (or --resume DIR)".into());
    named
        .or(file.out.as_ref())
        .map(PathBuf::as_path)
        .ok_or_else(missing)
}

fn train_with_progress(
    args: &TrainArgs,
    config: &TrainConfig,
    options: &RunOptions,
) -> Result<TrainOutcome, shardgraph_solver::Error> {
    let mut progress = Progress::new(&args.report, config.steps);
    train(config, options, &mut |report: &StepReport| {
        progress.update(report.step, || match report.loss {
            Some(loss) => format!("steps, loss {loss:.4}"),
            None => "steps, filling the memory".to_owned(),
        });
    })
}

fn answer<'a>(
    outcome: &'a TrainOutcome,
    options: &RunOptions,
    folder: &Path,
    seconds: f64,
) -> Answer<'a> {
    let reports = &outcome.reports;
    Answer {
        problem: &outcome.policy.config.problem,
        steps: reports.len(),
        seconds,
        seconds_per_step: seconds / reports.len().max(1) as f64,
        ranks: options.n_ranks,
        device: options.device.kind().to_string(),
        final_loss: reports.iter().rev().find_map(|report| report.loss),
        policy: folder.join("policy.safetensors").display().to_string(),
        episodes: reports.iter().filter(|r| r.cover.is_some()).count(),
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "problem {}", self.problem)?;
        writeln!(f, "steps {}", self.steps)?;
        writeln!(f, "episodes {}", self.episodes)?;
        match self.final_loss {
            Some(loss) => writeln!(f, "final loss {loss}")?,
            None => writeln!(f, "final loss none (the memory never held a batch)")?,
        }
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(f, "seconds per step {:.9}", self.seconds_per_step)?;
        writeln!(f, "ranks {}", self.ranks)?;
        writeln!(f, "device {}", self.device)?;
        writeln!(f, "policy {}", self.policy)
    }
}
