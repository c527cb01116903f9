//! A sweep's results: its runs, their table and curves, and the folder that keeps them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardgraph_agents::{AgentConfig, interquartile_interval, interquartile_mean};
use shardgraph_plot::{Axis, Cell, Figure, Page, Panel, Point, Series, Table};
use shardgraph_storage::{FolderLock, MAX_SETTINGS_BYTES, read_bounded, write_atomic};

use crate::agent_settings::{Chosen, name_of, with_settings};
use crate::exit::BadInput;

/// The file that makes a folder one of a sweep.
const SWEEP: &str = "sweep.json";
/// Points of a curve that a folder keeps, at most.
const MAX_POINTS: usize = 400;
const SCHEMA_VERSION: u32 = 1;

/// Everything that decides what a sweep computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    pub(crate) schema_version: u32,
    /// The settings before they are changed, with the first seed.
    pub(crate) settings: AgentConfig,
    /// Of each combination, the settings that it changes.
    pub(crate) combinations: Vec<Vec<Chosen>>,
    pub(crate) repeats: u64,
    /// Of the score.
    pub(crate) episodes: usize,
    pub(crate) target: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepRun {
    pub(crate) seed: u64,
    pub(crate) score: f64,
    pub(crate) seconds: f64,
    pub(crate) steps_per_s: f64,
    /// Of the points of the curve, before it is thinned.
    pub(crate) steps_to_target: Option<u64>,
    pub(crate) seconds_to_target: Option<f64>,
    /// Steps and the mean return of the last 100 episodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) curve: Vec<(u64, f64)>,
}

/// One combination of values.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) settings: String,
    pub(crate) score_iqm: f64,
    pub(crate) score_low: f64,
    pub(crate) score_high: f64,
    pub(crate) score_min: f64,
    pub(crate) score_max: f64,
    pub(crate) mean_seconds: f64,
    pub(crate) mean_steps_per_s: f64,
    /// Runs that reached the target, of those that were made.
    pub(crate) n_reached: Option<usize>,
    /// The interquartile mean over the runs that did.
    pub(crate) seconds_to_target_iqm: Option<f64>,
    pub(crate) steps_to_target_iqm: Option<f64>,
    pub(crate) runs: Vec<SweepRun>,
}

impl Sweep {
    /// The settings of each combination, with the first seed.
    pub(crate) fn configs(&self) -> anyhow::Result<Vec<AgentConfig>> {
        let all = self.combinations.iter();
        all.map(|chosen| with_settings(&self.settings, chosen))
            .collect()
    }

    /// The row of a combination of values.
    pub(crate) fn row(&self, combination: usize, runs: Vec<SweepRun>) -> Row {
        let all = |value: fn(&SweepRun) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
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
            settings: name_of(&self.combinations[combination]),
            score_iqm: of.value,
            score_low: of.low,
            score_high: of.high,
            score_min: scores.iter().copied().fold(f64::INFINITY, f64::min),
            score_max: scores.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean_seconds: mean(all(|run| run.seconds)),
            mean_steps_per_s: mean(all(|run| run.steps_per_s)),
            n_reached: self.target.map(|_| reached.len()),
            seconds_to_target_iqm: iqm(&reached),
            steps_to_target_iqm: iqm(&steps),
            runs,
        }
    }

    fn title(&self) -> String {
        let settings = &self.settings;
        format!(
            "{} on {}",
            settings.algorithm.name(),
            settings.environment.name
        )
    }

    /// Mean returns by step: of each combination a faint curve for each run, and the interquartile mean over them.
    pub(crate) fn curves(&self, rows: &[Row]) -> Figure {
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
            let curves = row.runs.iter().map(|run| &run.curve);
            let longest = curves.max_by_key(|curve| curve.len());
            let middle = longest.into_iter().flatten().map(|&(step, _)| {
                let at = row.runs.iter().filter_map(|run| value_at(&run.curve, step));
                Point::from((step as f64, interquartile_mean(&at.collect::<Vec<f64>>())))
            });
            let name = match row.settings.as_str() {
                "" => self.settings.algorithm.name(),
                settings => settings,
            };
            panel = panel.with(Series::curve(name, middle).coloured(idx));
        }
        let description = "Mean return of the last 100 episodes by step: of each run, and the interquartile mean over the seeds.";
        Figure::new(self.title(), description).panel(panel)
    }

    /// The whole sweep as one page: the table of scores with their intervals, the curves, and the settings.
    pub(crate) fn page(&self, rows: &[Row]) -> anyhow::Result<String> {
        let mut page = Page::new(format!("Sweep: {}", self.title()));
        let n_runs: usize = rows.iter().map(|row| row.runs.len()).sum();
        let n_all = self.combinations.len() as u64 * self.repeats;
        page.paragraph(&format!(
            "{n_runs} runs of {} steps. A score is the mean return of {} greedy episodes after training; IQM is the interquartile mean over \
             the seeds, with a bootstrap interval of 95 %.",
            self.settings.steps, self.episodes
        ));
        if (n_runs as u64) < n_all {
            page.warning(&format!(
                "The sweep is not finished: {n_runs} of {n_all} runs."
            ));
        }
        page.table(&self.scores(rows));
        page.figure(&self.curves(rows));
        page.heading("Runs");
        page.table(&runs_table(rows));
        page.heading("Settings");
        page.code(&self.settings.to_documented_toml()?);
        Ok(page.html())
    }

    fn scores(&self, rows: &[Row]) -> Table {
        let heads = [
            "settings", "seeds", "IQM", "2.5 %", "97.5 %", "smallest", "largest", "seconds",
            "steps/s",
        ];
        let more = match self.target {
            None => Vec::new(),
            Some(target) => vec![format!("reached {target}"), "s to it, IQM".to_owned()],
        };
        let heads = heads.map(str::to_owned);
        let mut table = Table::new(heads.into_iter().chain(more));
        for row in rows {
            let name = if row.settings.is_empty() {
                "as they are"
            } else {
                &row.settings
            };
            let scores = [
                row.score_iqm,
                row.score_low,
                row.score_high,
                row.score_min,
                row.score_max,
            ];
            let mut cells = vec![Cell::text(name), Cell::number(row.runs.len().to_string())];
            cells.extend(scores.map(|score| Cell::number(format!("{score:.2}"))));
            cells.push(Cell::number(format!("{:.3}", row.mean_seconds)));
            cells.push(Cell::number(format!("{:.0}", row.mean_steps_per_s)));
            if let Some(n_reached) = row.n_reached {
                cells.push(Cell::number(format!("{n_reached} of {}", row.runs.len())));
                let seconds = row.seconds_to_target_iqm;
                let seconds = seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.3}"));
                cells.push(Cell::number(seconds));
            }
            table.row(cells);
        }
        table
    }
}

fn runs_table(rows: &[Row]) -> Table {
    let mut table = Table::new(["settings", "seed", "score", "seconds", "steps/s"]);
    for row in rows {
        for run in &row.runs {
            table.row([
                Cell::text(&row.settings),
                Cell::number(run.seed.to_string()),
                Cell::number(format!("{:.2}", run.score)),
                Cell::number(format!("{:.3}", run.seconds)),
                Cell::number(format!("{:.0}", run.steps_per_s)),
            ]);
        }
    }
    table
}

/// What a curve had come to at a step.
fn value_at(curve: &[(u64, f64)], step: u64) -> Option<f64> {
    let n_before = curve.partition_point(|&(at, _)| at <= step);
    curve[..n_before].last().map(|&(_, y)| y)
}

/// The folder of a sweep, held: `sweep.json`, and a file for each run that ended.
#[derive(Debug)]
pub(crate) struct SweepFolder {
    path: PathBuf,
    _lock: FolderLock,
}

impl SweepFolder {
    /// Of a new sweep.
    pub(crate) fn create(path: &Path, sweep: &Sweep) -> anyhow::Result<SweepFolder> {
        let wrong = |text: &str| BadInput(format!("{}: {text}", path.display()));
        if path.exists() && fs::read_dir(path).map_or(true, |mut inside| inside.next().is_some()) {
            let text = "there is something: name a new folder, or go on with --resume";
            return Err(wrong(text).into());
        }
        fs::create_dir_all(path).map_err(|error| wrong(&error.to_string()))?;
        let lock = FolderLock::take(path)?;
        write(&path.join(SWEEP), sweep)?;
        Ok(SweepFolder {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Of one that goes on.
    pub(crate) fn resume(path: &Path) -> anyhow::Result<(SweepFolder, Sweep)> {
        let Some(sweep) = read_settings(path)? else {
            let text = "there is no sweep to go on with";
            return Err(BadInput(format!("{}: {text}", path.display())).into());
        };
        let folder = SweepFolder {
            _lock: FolderLock::take(path)?,
            path: path.to_owned(),
        };
        Ok((folder, sweep))
    }

    /// A run that ended before.
    pub(crate) fn run(&self, combination: usize, seed: u64) -> anyhow::Result<Option<SweepRun>> {
        saved_run(&self.path, combination, seed)
    }

    /// Keeps a run.
    pub(crate) fn keep(&self, combination: usize, run: &SweepRun) -> anyhow::Result<()> {
        write(&run_file(&self.path, combination, run.seed), run)
    }
}

/// What the sweep of a folder computes; `None` for a folder of another kind.
fn read_settings(folder: &Path) -> anyhow::Result<Option<Sweep>> {
    let file = folder.join(SWEEP);
    if !file.is_file() {
        return Ok(None);
    }
    let sweep: Sweep = read(&file)?;
    if sweep.schema_version != SCHEMA_VERSION {
        let given = sweep.schema_version;
        let text = format!("`schema_version`: expected {SCHEMA_VERSION}, given {given}");
        return Err(BadInput(format!("{}: {text}", file.display())).into());
    }
    Ok(Some(sweep))
}

/// A sweep's folder as it is, with the runs that have ended; `None` for a folder of another kind.
pub(crate) fn read_sweep(folder: &Path) -> anyhow::Result<Option<(Sweep, Vec<Row>)>> {
    let Some(sweep) = read_settings(folder)? else {
        return Ok(None);
    };
    let mut rows = Vec::new();
    for combination in 0..sweep.combinations.len() {
        let seeds = (0..sweep.repeats).map(|idx| sweep.settings.seed.wrapping_add(idx));
        let runs = seeds.map(|seed| saved_run(folder, combination, seed));
        let runs = runs.filter_map(anyhow::Result::transpose);
        let runs = runs.collect::<anyhow::Result<Vec<SweepRun>>>()?;
        if !runs.is_empty() {
            rows.push(sweep.row(combination, runs));
        }
    }
    Ok(Some((sweep, rows)))
}

impl Sweep {
    /// Of these settings, each of which is changed in these ways.
    pub(crate) fn new(settings: AgentConfig, combinations: Vec<Vec<Chosen>>) -> Sweep {
        Sweep {
            schema_version: SCHEMA_VERSION,
            settings,
            combinations,
            repeats: 1,
            episodes: 1,
            target: None,
        }
    }
}

/// Every k-th point, and the last one.
pub(crate) fn thinned(curve: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    let every = curve.len().div_ceil(MAX_POINTS).max(1);
    let last = curve.len().saturating_sub(1);
    let points = curve.into_iter().enumerate();
    points
        .filter(|(idx, _)| idx % every == 0 || *idx == last)
        .map(|(_, point)| point)
        .collect()
}

fn run_file(folder: &Path, combination: usize, seed: u64) -> PathBuf {
    folder.join(format!("run-{combination}-{seed}.json"))
}

fn saved_run(folder: &Path, combination: usize, seed: u64) -> anyhow::Result<Option<SweepRun>> {
    let file = run_file(folder, combination, seed);
    match file.is_file() {
        false => Ok(None),
        true => {
            let run: SweepRun = read(&file)?;
            let is_right = run.seed == seed && run.curve.is_sorted_by_key(|(step, _)| *step);
            match is_right {
                true => Ok(Some(run)),
                false => {
                    let text = format!("expected the run of seed {seed}, steps ascending");
                    Err(BadInput(format!("{}: {text}", file.display())).into())
                }
            }
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> anyhow::Result<T> {
    let bytes = read_bounded(file, MAX_SETTINGS_BYTES)
        .map_err(|error| BadInput(format!("{}: {error}", file.display())))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| BadInput(format!("{}:{}: {error}", file.display(), error.line())).into())
}

fn write(file: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value)?;
    write_atomic(file, |out| out.write_all(text.as_bytes()))
        .map_err(|error| anyhow::anyhow!("{}: cannot write: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep() -> Sweep {
        Sweep {
            repeats: 3,
            target: Some(2.0),
            ..Sweep::new(
                AgentConfig::named("cartpole-ppo").unwrap(),
                vec![
                    vec![("algorithm.gamma".to_owned(), 0.9.into())],
                    vec![("environment.name".to_owned(), "<b>".into())],
                ],
            )
        }
    }

    fn run(seed: u64, score: f64) -> SweepRun {
        SweepRun {
            seed,
            score,
            seconds: 0.5,
            steps_per_s: 1000.0,
            steps_to_target: (score > 2.0).then_some(10),
            seconds_to_target: (score > 2.0).then_some(0.25),
            curve: vec![(10, 1.0), (20, score)],
        }
    }

    #[test]
    fn a_curve_has_its_last_value() {
        let curve = [(10, 1.0), (20, 2.0)];
        let values = [5, 10, 15, 25].map(|step| value_at(&curve, step));
        assert_eq!(values, [None, Some(1.0), Some(1.0), Some(2.0)]);
    }

    #[test]
    fn long_curves_keep_their_ends() {
        let curve: Vec<(u64, f64)> = (0..5003).map(|i| (i, i as f64)).collect();
        let thin = thinned(curve);
        assert!(thin.len() <= MAX_POINTS + 1);
        assert_eq!((thin[0].0, thin[thin.len() - 1].0), (0, 5002));
        assert!(thinned(Vec::new()).is_empty());
    }

    /// What is kept is read again, an unfinished sweep is told as one, and the page has the numbers of the table.
    #[test]
    fn a_folder_keeps_a_sweep_and_its_page_has_the_table() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sweep");
        let folder = SweepFolder::create(&path, &sweep()).unwrap();
        for (seed, score) in [(1, 1.0), (2, 3.0), (3, 5.0)] {
            folder.keep(0, &run(seed, score)).unwrap();
        }
        folder.keep(1, &run(2, 7.125)).unwrap();
        drop(folder);
        let (read, rows) = read_sweep(&path).unwrap().unwrap();
        assert_eq!(read, sweep());
        assert_eq!(rows[0].runs, [run(1, 1.0), run(2, 3.0), run(3, 5.0)]);
        assert_eq!((rows[0].score_iqm, rows[0].n_reached), (3.0, Some(2)));
        assert_eq!(rows[1].runs, [run(2, 7.125)]);
        let page = read.page(&rows).unwrap();
        for part in [
            "4 of 6 runs",
            "7.12",
            "reached 2",
            "2 of 3",
            "&lt;b&gt;",
            "<svg",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let (folder, resumed) = SweepFolder::resume(&path).unwrap();
        assert_eq!(resumed, sweep());
        assert_eq!(folder.run(0, 2).unwrap(), Some(run(2, 3.0)));
        assert_eq!(folder.run(1, 1).unwrap(), None);
    }

    #[test]
    fn wrong_folders_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sweep");
        drop(SweepFolder::create(&path, &sweep()).unwrap());
        let error = SweepFolder::create(&path, &sweep()).unwrap_err();
        assert!(error.to_string().contains("there is something"), "{error}");
        let error = SweepFolder::resume(scratch.path()).unwrap_err();
        assert!(
            error.to_string().contains("no sweep to go on with"),
            "{error}"
        );
        assert!(read_sweep(scratch.path()).unwrap().is_none());
        fs::write(path.join("run-0-2.json"), "{\n\"seed\": 1").unwrap();
        let error = read_sweep(&path).unwrap_err().to_string();
        assert!(error.contains("run-0-2.json:2:"), "{error}");
        fs::write(
            path.join("run-0-2.json"),
            serde_json::to_string(&run(1, 1.0)).unwrap(),
        )
        .unwrap();
        let error = read_sweep(&path).unwrap_err().to_string();
        assert!(error.contains("the run of seed 2"), "{error}");
    }
}
