//! `shardgraph agent sweep`: the same training over seeds and settings, as a table with intervals and as curves.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_agents::{
    Agent, AgentConfig, Choice, Evaluation, RunOptions, Start, TrainProgress,
    interquartile_interval, interquartile_mean, train, train_topology,
};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};

use crate::agent_settings::{Chosen, combinations, name_of, settings, with_settings};
use crate::agent_topology::is_topology;
use crate::device_choice::open_device;
use crate::exit::BadInput;
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::world::refuse_processes;

const EXAMPLE: &str = "\
Examples:
  shardgraph agent sweep cartpole-ppo --repeats 10
  shardgraph agent sweep cartpole-dqn --repeats 5 --steps 100000 --set algorithm.double=true,false --svg curves.svg
  shardgraph agent sweep my.toml --set algorithm.gamma=0.95,0.99 --set algorithm.optimiser.learning_rate=1e-3,3e-3

Each combination of the values of --set is trained with each seed. Its score is the mean return of greedy episodes after training; the table has
the interquartile mean of the scores over the seeds, with a bootstrap interval of 95 % (Agarwal et al. 2021).";

/// More runs than this are a mistake.
const MAX_RUNS: usize = 10_000;

/// Train over seeds and settings, and compare them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SweepArgs {
    /// The settings: a file, or a name
    #[arg(help_heading = "Input", value_name = "CONFIG")]
    config: PathBuf,
    /// The environment of an algorithm's settings, where CONFIG is its name
    #[arg(help_heading = "Input", long, value_name = "NAME")]
    environment: Option<String>,
    /// A setting and its value, as TOML writes it; several, with commas between, are compared; may be given again
    #[arg(
        help_heading = "Method",
        long = "set",
        value_name = "SETTING=V1,V2,..."
    )]
    sets: Vec<String>,
    /// Seed of all that is random: the first one of --repeats [default: of the settings]
    #[arg(help_heading = "Method", long, value_name = "SEED")]
    seed: Option<u64>,
    /// Repeats: runs of each combination, each with the next seed
    #[arg(help_heading = "Method", long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeats: u64,
    /// Steps of training: of all environments together, in each run [default: of the settings]
    #[arg(help_heading = "Method", long, value_name = "N")]
    steps: Option<u64>,
    /// How many episodes to play: greedily, for the score of a run
    #[arg(help_heading = "Method", long, value_name = "N", default_value_t = 100)]
    episodes: usize,
    /// Also tell when the mean return of the last 100 episodes of training first reached this
    #[arg(
        help_heading = "Method",
        long,
        value_name = "RETURN",
        allow_negative_numbers = true
    )]
    target: Option<f64>,
    /// Ranks that share the work, as threads: at most `gradient_blocks` of the settings
    #[arg(
        help_heading = "Ranks and devices",
        long,
        value_name = "P",
        default_value_t = 1
    )]
    ranks: u32,
    /// Where to compute: host, emulated, cuda, cuda:N or auto (the first GPU if there is one)
    #[arg(
        help_heading = "Ranks and devices",
        long,
        value_name = "DEVICE",
        default_value = "host"
    )]
    device: DeviceKind,
    /// Draw a picture: the mean return by step, of each setting
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// One run.
#[derive(Serialize)]
struct Run {
    seed: u64,
    score: f64,
    seconds: f64,
    steps_per_s: f64,
    /// Of the steps at which progress was told.
    steps_to_target: Option<u64>,
    seconds_to_target: Option<f64>,
    #[serde(skip)]
    curve: Vec<(u64, f64)>,
}

/// One combination of values.
#[derive(Serialize)]
struct Row {
    settings: String,
    score_iqm: f64,
    score_low: f64,
    score_high: f64,
    score_min: f64,
    score_max: f64,
    mean_seconds: f64,
    mean_steps_per_s: f64,
    /// Runs that reached the target, of those that were made.
    n_reached: Option<usize>,
    /// The interquartile mean over the runs that did.
    seconds_to_target_iqm: Option<f64>,
    steps_to_target_iqm: Option<f64>,
    runs: Vec<Run>,
}

/// What is printed.
#[derive(Serialize)]
struct Answer {
    algorithm: &'static str,
    environment: String,
    seed: u64,
    steps: u64,
    repeats: u64,
    episodes: usize,
    ranks: u32,
    target: Option<f64>,
    rows: Vec<Row>,
}

/// Trains all and prints the table.
pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<()> {
    refuse_processes("agent sweep", None)?;
    let mut base = settings(&args.config, args.environment.as_deref())?;
    base.steps = args.steps.unwrap_or(base.steps);
    base.seed = args.seed.unwrap_or(base.seed);
    let combinations = combinations(&args.sets)?;
    let n_runs = combinations.len().saturating_mul(args.repeats as usize);
    if n_runs > MAX_RUNS {
        let text = format!("{n_runs} runs: expected at most {MAX_RUNS}");
        return Err(BadInput(text).into());
    }
    // What is wrong with any of them is said before the first begins.
    let configs = combinations
        .iter()
        .map(|chosen| with_settings(&base, chosen))
        .collect::<anyhow::Result<Vec<AgentConfig>>>()?;
    let options = RunOptions {
        n_ranks: args.ranks,
        device: open_device(args.device, &args.report)?,
        ..RunOptions::default()
    };
    let mut bar = Progress::new(&args.report, n_runs as u64, "runs");
    let mut rows = Vec::with_capacity(configs.len());
    for (config, chosen) in configs.iter().zip(&combinations) {
        let mut runs = Vec::new();
        for idx in 0..args.repeats {
            let mut config = config.clone();
            config.seed += idx;
            runs.push(one(&config, args, &options)?);
            let n_done = rows.len() as u64 * args.repeats + idx + 1;
            bar.update(n_done, || name_of(chosen));
        }
        rows.push(row(chosen, runs, args.target.is_some()));
    }
    drop(bar);
    if let Some(path) = &args.svg {
        let svg = picture(&base, &rows);
        output_file::write(path, |out| out.write_all(svg.as_bytes()))
            .map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    }
    args.report.answer(&Answer {
        algorithm: base.algorithm.name(),
        environment: base.environment.name.clone(),
        seed: base.seed,
        steps: base.steps,
        repeats: args.repeats,
        episodes: args.episodes,
        ranks: args.ranks,
        target: args.target,
        rows,
    })
}

/// Trains and scores one run.
fn one(config: &AgentConfig, args: &SweepArgs, options: &RunOptions) -> anyhow::Result<Run> {
    let (mut curve, mut reached) = (Vec::new(), None);
    let timer = Timer::start(&Device::host());
    let mut progress = |progress: &TrainProgress| {
        let Some(mean_return) = progress.mean_return else {
            return;
        };
        curve.push((progress.step, mean_return));
        let is_reached = args.target.is_some_and(|target| mean_return >= target);
        if is_reached && reached.is_none() {
            reached = Some((progress.step, timer.elapsed_s()));
        }
    };
    let start = Start::New {
        config: config.clone(),
        folder: None,
    };
    let (mut agent, n_steps): (Box<dyn Agent>, u64) = match is_topology(&config.algorithm) {
        true => {
            let outcome = train_topology(&start, options, &mut progress)?;
            let mut agent = config.agent(options)?;
            agent.set_weights(&outcome.weights)?;
            (agent, outcome.n_steps)
        }
        false => {
            let outcome = train(&start, options, &mut progress)?;
            (outcome.agent, outcome.n_steps)
        }
    };
    let seconds = timer.elapsed_s();
    let environments = options.environments_of(config)?;
    let episodes = (args.episodes, Choice::Greedy);
    let played = Evaluation::play(agent.as_mut(), &environments, episodes, config.seed)?;
    Ok(Run {
        seed: config.seed,
        score: played.mean_return(),
        seconds,
        steps_per_s: n_steps as f64 / seconds.max(1e-9),
        steps_to_target: reached.map(|(step, _)| step),
        seconds_to_target: reached.map(|(_, seconds)| seconds),
        curve,
    })
}

fn row(chosen: &[Chosen], runs: Vec<Run>, has_target: bool) -> Row {
    let all = |value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    let scores = all(|run| run.score);
    let of = interquartile_interval(&scores, 1);
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let reached: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.seconds_to_target)
        .collect();
    let steps: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.steps_to_target.map(|steps| steps as f64))
        .collect();
    let iqm = |values: &[f64]| (!values.is_empty()).then(|| interquartile_mean(values));
    Row {
        settings: name_of(chosen),
        score_iqm: of.value,
        score_low: of.low,
        score_high: of.high,
        score_min: scores.iter().copied().fold(f64::INFINITY, f64::min),
        score_max: scores.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mean_seconds: mean(all(|run| run.seconds)),
        mean_steps_per_s: mean(all(|run| run.steps_per_s)),
        n_reached: has_target.then_some(reached.len()),
        seconds_to_target_iqm: iqm(&reached),
        steps_to_target_iqm: iqm(&steps),
        runs,
    }
}

/// Mean returns by step: of each combination a faint curve for each run, and the interquartile mean over them.
fn picture(base: &AgentConfig, rows: &[Row]) -> String {
    let y = Axis::linear("mean return of the last 100 episodes");
    let mut panel = Panel::new(Axis::linear("steps").from_zero(), y).sized(640.0, 360.0);
    for (idx, row) in rows.iter().enumerate() {
        for run in &row.runs {
            let points = run
                .curve
                .iter()
                .map(|&(step, y)| Point::from((step as f64, y)));
            panel = panel.with(Series::curve("", points).coloured(idx).faint());
        }
        let longest = row
            .runs
            .iter()
            .map(|run| &run.curve)
            .max_by_key(|curve| curve.len());
        let middle = longest.into_iter().flatten().map(|&(step, _)| {
            let at = row.runs.iter().filter_map(|run| value_at(&run.curve, step));
            Point::from((step as f64, interquartile_mean(&at.collect::<Vec<f64>>())))
        });
        let name = match row.settings.as_str() {
            "" => base.algorithm.name(),
            settings => settings,
        };
        panel = panel.with(Series::curve(name, middle).coloured(idx));
    }
    let title = format!("{} on {}", base.algorithm.name(), base.environment.name);
    let description = "Mean return of the last 100 episodes by step: of each run, and the interquartile mean over the seeds.";
    Figure::new(title, description).panel(panel).svg()
}

/// What a curve had come to at a step.
fn value_at(curve: &[(u64, f64)], step: u64) -> Option<f64> {
    let n_before = curve.partition_point(|&(at, _)| at <= step);
    curve[..n_before].last().map(|&(_, y)| y)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "algorithm {}", self.algorithm)?;
        writeln!(f, "environment {}", self.environment)?;
        writeln!(
            f,
            "{} seeds, {} steps, score: mean return of {} greedy episodes",
            self.repeats, self.steps, self.episodes
        )?;
        writeln!(
            f,
            "\n{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}  settings",
            "IQM", "2.5 %", "97.5 %", "smallest", "largest", "seconds", "steps/s"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.3} {:>10.0}  {}",
                row.score_iqm,
                row.score_low,
                row.score_high,
                row.score_min,
                row.score_max,
                row.mean_seconds,
                row.mean_steps_per_s,
                row.settings
            )?;
            if let (Some(target), Some(n)) = (self.target, row.n_reached) {
                write!(
                    f,
                    "          reached {target} in training: {n} of {} runs",
                    row.runs.len()
                )?;
                if let (Some(s), Some(steps)) = (row.seconds_to_target_iqm, row.steps_to_target_iqm)
                {
                    write!(f, ", IQM {s:.3} s, {steps:.0} steps")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_its_last_value() {
        let curve = [(10, 1.0), (20, 2.0)];
        let values = [5, 10, 15, 25].map(|step| value_at(&curve, step));
        assert_eq!(values, [None, Some(1.0), Some(1.0), Some(2.0)]);
    }
}
