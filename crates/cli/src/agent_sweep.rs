//! `shardgraph agent sweep`: the same training over seeds and settings, as a table with intervals and as curves.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_agents::{AgentConfig, Choice, Evaluation, RunOptions, Start, TrainProgress, train};
use shardgraph_device::{Device, Timer};

use crate::agent_settings::{SettingsArgs, combinations, name_of, settings};
use crate::device_choice::{DeviceArgs, open_device};
use crate::exit::BadInput;
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::sweep_folder::{Row, Sweep, SweepFolder, SweepRun, thinned};
use crate::text::Layout;
use crate::world::refuse_processes;

const EXAMPLE: &str = "\
Examples:
  shardgraph agent sweep cartpole-ppo --repeats 10
  shardgraph agent sweep cartpole-dqn --set algorithm.double=true,false --svg curves.svg
  shardgraph agent sweep cartpole-ppo --run my-sweep && shardgraph report my-sweep
  shardgraph agent sweep my.toml --set algorithm.gamma=0.95,0.99 --set algorithm.n_step=1,3

Each combination of the values of --set is trained with each seed. Its score is the mean return of
greedy episodes after training; the table has the interquartile mean of the scores over the seeds,
with a bootstrap interval of 95 % (Agarwal et al. 2021).";

/// Steps between the points of a run's curve, for every algorithm alike.
const CURVE_STEPS: u64 = 1000;
/// More runs than this are a mistake.
const MAX_RUNS: usize = 10_000;

/// Train over seeds and settings, and compare them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    settings: SettingsArgs,
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
    #[command(flatten)]
    device: DeviceArgs,
    /// The run's folder: of the sweep, which keeps each run that ended; `shardgraph report` draws it [default: nothing is written]
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on from the newest checkpoint of --run, with its settings
    #[arg(
        help_heading = "Output", long, requires = "run",
        conflicts_with_all = ["config", "seed", "repeats", "steps", "episodes", "target"]
    )]
    resume: bool,
    /// Draw a picture: the mean return by step, of each setting
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
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
    if let Some(svg) = &args.svg {
        output_file::check(svg, args.settings.config.as_deref())?;
    }
    let (sweep, folder) = match (&args.run, &args.settings.config) {
        (Some(path), None) => {
            let (folder, sweep) = SweepFolder::resume(path)?;
            (sweep, Some(folder))
        }
        (path, Some(config)) => {
            let sweep = new_sweep(config, args)?;
            let open = |path| SweepFolder::create(path, &sweep);
            let folder = path.as_deref().map(open).transpose()?;
            (sweep, folder)
        }
        (None, None) => {
            return Err(BadInput("expected CONFIG, or --run with --resume".into()).into());
        }
    };
    let options = RunOptions {
        n_ranks: args.ranks,
        device: open_device(args.device.kind, &args.report)?,
        ..RunOptions::default()
    };
    let mut rows = train_all(&sweep, folder.as_ref(), &options, &args.report)?;
    if let Some(path) = &args.svg {
        let svg = sweep.curves(&rows).svg();
        output_file::write(path, |out| out.write_all(svg.as_bytes()))
            .map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    }
    // The answer has the numbers alone.
    for run in rows.iter_mut().flat_map(|row| &mut row.runs) {
        run.curve.clear();
    }
    args.report.answer(
        &Answer {
            algorithm: sweep.settings.algorithm.name(),
            environment: sweep.settings.environment.name.clone(),
            seed: sweep.settings.seed,
            steps: sweep.settings.steps,
            repeats: sweep.repeats,
            episodes: sweep.episodes,
            ranks: args.ranks,
            target: sweep.target,
            rows,
        },
        &Layout::first("rows"),
    )
}

/// What the flags ask for; what is wrong with any of its settings is said before the first run begins.
fn new_sweep(config: &Path, args: &SweepArgs) -> anyhow::Result<Sweep> {
    let mut base = settings(config, args.settings.environment.as_deref())?;
    base.steps = args.steps.unwrap_or(base.steps);
    base.seed = args.seed.unwrap_or(base.seed);
    let sweep = Sweep {
        repeats: args.repeats,
        episodes: args.episodes,
        target: args.target,
        ..Sweep::new(base, combinations(&args.settings.sets)?)
    };
    let n_runs = sweep
        .combinations
        .len()
        .saturating_mul(args.repeats as usize);
    if n_runs > MAX_RUNS {
        let text = format!("{n_runs} runs: expected at most {MAX_RUNS}");
        return Err(BadInput(text).into());
    }
    let seed = sweep.settings.seed;
    if seed.checked_add(args.repeats - 1).is_none() {
        let text =
            format!("--seed {seed}: expected a smaller one, as each of --repeats has the next");
        return Err(BadInput(text).into());
    }
    if sweep.configs()?.iter().any(|config| config.seed != seed) {
        let text = "--set seed: give the first seed by --seed, and how many by --repeats";
        return Err(BadInput(text.to_owned()).into());
    }
    Ok(sweep)
}

/// The rows of all combinations; a run that the folder has is not made again.
fn train_all(
    sweep: &Sweep,
    folder: Option<&SweepFolder>,
    options: &RunOptions,
    report: &ReportArgs,
) -> anyhow::Result<Vec<Row>> {
    let configs = sweep.configs()?;
    let n_runs = configs.len() as u64 * sweep.repeats;
    let mut bar = Progress::new(report, n_runs, "runs");
    let mut rows = Vec::with_capacity(configs.len());
    for (combination, config) in configs.iter().enumerate() {
        let mut runs = Vec::new();
        for idx in 0..sweep.repeats {
            let mut config = config.clone();
            config.seed += idx;
            let before = folder.map(|folder| folder.run(combination, config.seed));
            runs.push(match before.transpose()?.flatten() {
                Some(run) => run,
                None => {
                    let run = one(&config, sweep, options)?;
                    if let Some(folder) = folder {
                        folder.keep(combination, &run)?;
                    }
                    run
                }
            });
            let n_done = combination as u64 * sweep.repeats + idx + 1;
            bar.update(n_done, || name_of(&sweep.combinations[combination]));
        }
        rows.push(sweep.row(combination, runs));
    }
    Ok(rows)
}

/// Trains and scores one run.
fn one(config: &AgentConfig, sweep: &Sweep, options: &RunOptions) -> anyhow::Result<SweepRun> {
    let timer = Timer::start(&Device::host());
    let mut curve = LearningCurve::new(sweep.target);
    let mut progress = |progress: &TrainProgress| curve.observe(progress, || timer.elapsed_s());
    let start = Start::New {
        config: config.clone(),
        folder: None,
    };
    let mut outcome = train(&start, options, &mut progress)?;
    let seconds = timer.elapsed_s();
    let environments = options.environments_of(config)?;
    let (agent, choice) = (outcome.agent.as_mut(), Choice::Greedy);
    let played = Evaluation::play(agent, &environments, sweep.episodes, choice, config.seed)?;
    Ok(SweepRun {
        seed: config.seed,
        score: played.mean_return(),
        seconds,
        steps_per_s: outcome.n_steps as f64 / seconds.max(1e-9),
        steps_to_target: curve.reached.map(|(step, _)| step),
        seconds_to_target: curve.reached.map(|(_, seconds)| seconds),
        curve: thinned(curve.points),
    })
}

/// Mean returns of a run about every [`CURVE_STEPS`] steps, and where they reach the target.
struct LearningCurve {
    target: Option<f64>,
    /// Step of the last report, whether or not it is a point.
    last_step: u64,
    points: Vec<(u64, f64)>,
    /// Step and seconds of the first point that reaches the target.
    reached: Option<(u64, f64)>,
}

impl LearningCurve {
    fn new(target: Option<f64>) -> LearningCurve {
        LearningCurve {
            target,
            last_step: 0,
            points: Vec::new(),
            reached: None,
        }
    }

    /// Takes a report where the run has crossed a multiple of [`CURVE_STEPS`] since the last one.
    fn observe(&mut self, report: &TrainProgress, elapsed_s: impl FnOnce() -> f64) {
        let before = std::mem::replace(&mut self.last_step, report.step);
        if report.step / CURVE_STEPS == before / CURVE_STEPS {
            return;
        }
        let Some(mean_return) = report.mean_return else {
            return;
        };
        self.points.push((report.step, mean_return));
        let is_reached = self.target.is_some_and(|target| mean_return >= target);
        if is_reached && self.reached.is_none() {
            self.reached = Some((report.step, elapsed_s()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_a_point_each_thousand_steps_however_often_a_run_reports() {
        let mut curve = LearningCurve::new(Some(5.0));
        for step in (40..=4000).step_by(40) {
            let report = TrainProgress {
                step,
                stop_at: 4000,
                mean_return: (step > 1000).then_some(step as f64 / 400.0),
                newly_lost: Vec::new(),
            };
            curve.observe(&report, || step as f64);
        }
        let points = [(2000, 5.0), (3000, 7.5), (4000, 10.0)];
        assert_eq!(curve.points, points);
        assert_eq!(curve.reached, Some((2000, 2000.0)));
    }
}
