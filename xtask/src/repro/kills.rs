//! `cargo xtask repro kills`: a training job is killed at random moments, over and over, and resumed to the same bytes.
//!
//! What runs stands in `benches/repro/kills.toml`. After each kill every file of the folder must be whole; the run goes
//! on in another world than the one it was killed in, and must end with the files of the uninterrupted run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::ranks::{Dice, Ended, LIMIT_S, Ranks};
use super::run_folder;
use crate::answer::Metric;
use crate::bench::{fresh_scratch, places};
use crate::definition::{Substitutions, number, string, strings, substitute};
use crate::json::Json;
use crate::process::{self, Stopwatch};
use crate::project;
use crate::record::{Record, Sample};
use crate::toml;

const DEFINITION: &str = "benches/repro/kills.toml";
const SAME: [&str; 3] = ["policy.safetensors", "metrics.jsonl", "policy.json"];

/// What runs.
struct Definition {
    why: String,
    begin: Vec<String>,
    resume: Vec<String>,
    runs: u32,
    seed: u64,
}

/// Who trains: threads of one process, or processes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum World {
    Threads(usize),
    Tcp(usize),
}

const WORLDS: [World; 3] = [World::Threads(1), World::Threads(2), World::Tcp(3)];

/// The program, the commands and the folder that they write.
struct Scenario {
    program: PathBuf,
    scratch: PathBuf,
    begin: Vec<String>,
    resume: Vec<String>,
}

/// What came of one kill.
struct Outcome {
    world: World,
    victim: Option<usize>,
    delay_seconds: f64,
    /// Whether somebody was killed, and not all over before.
    has_hit: bool,
    /// Lines of the metrics at the kill.
    n_steps: usize,
    had_checkpoint: bool,
    resume_seconds: f64,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let definition = Definition::load()?;
    let n_kills = options.runs.unwrap_or(definition.runs);
    let scenario = Scenario::new(&definition)?;
    let mut record = Record::new(
        options.host.as_deref(),
        format!("cargo xtask repro kills --runs {n_kills}"),
    )?;
    println!("kills: seed {}", definition.seed);
    let outcomes = scenario.outcomes(n_kills, definition.seed)?;
    record.report = report(&definition, &outcomes);
    println!("{}", record.report);
    record.samples = (0..)
        .zip(&outcomes)
        .flat_map(|(i, o)| o.samples(i))
        .collect();
    record.details = Json::object([
        ("kills", Json::Number(f64::from(n_kills))),
        ("broken_files", Json::Number(0.0)),
        ("hangs", Json::Number(0.0)),
        ("seed", Json::Number(definition.seed as f64)),
    ]);
    println!("kills: written to {}", record.write()?.display());
    Ok(ExitCode::SUCCESS)
}

impl Definition {
    fn load() -> Result<Definition> {
        let table = toml::read(&project::root().join(DEFINITION))?;
        Ok(Definition {
            why: string(&table, "why")?,
            begin: strings(&table, "begin")?,
            resume: strings(&table, "resume")?,
            runs: number(&table, "runs")? as u32,
            seed: number(&table, "seed")? as u64,
        })
    }
}

impl Scenario {
    fn new(definition: &Definition) -> Result<Scenario> {
        let program = process::build_shardgraph()?;
        let scratch = fresh_scratch("kills")?;
        let values = places(&scratch, &Substitutions::new());
        Ok(Scenario {
            begin: substitute(&definition.begin, &values)?,
            resume: substitute(&definition.resume, &values)?,
            program,
            scratch,
        })
    }

    fn folder(&self) -> PathBuf {
        self.scratch.join("run")
    }

    fn clear(&self) -> Result<()> {
        match self.folder().exists() {
            true => Ok(fs::remove_dir_all(self.folder())?),
            false => Ok(()),
        }
    }

    fn start(&self, world: World, words: &[String]) -> Result<Ranks> {
        match world {
            World::Threads(n_ranks) => {
                let ranks = ["--ranks".to_owned(), n_ranks.to_string()];
                let words = [words, &ranks].concat();
                Ranks::alone(&self.program, &words, &self.scratch)
            }
            World::Tcp(n_ranks) => Ranks::over_tcp(&self.program, words, &self.scratch, n_ranks),
        }
    }

    /// Runs to the end; a rank that fails or hangs is an error.
    fn finish(&self, world: World, words: &[String]) -> Result<()> {
        for ended in self.start(world, words)?.survivors(None)? {
            ensure!(ended.exit_code == Some(0), "{world:?}: {ended:?}");
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<Vec<u8>>> {
        let read =
            |name: &&str| fs::read(self.folder().join(name)).with_context(|| (*name).to_owned());
        SAME.iter().map(read).collect()
    }

    /// The files of a run that nobody disturbs.
    fn uninterrupted(&self) -> Result<Vec<Vec<u8>>> {
        self.clear()?;
        self.finish(World::Threads(1), &self.begin)?;
        self.files()
    }

    fn time(&self, world: World) -> Result<f64> {
        self.clear()?;
        let watch = Stopwatch::start();
        self.finish(world, &self.begin)?;
        Ok(watch.seconds())
    }

    /// Runs until so many kills have hit somebody.
    fn outcomes(&self, n_kills: u32, seed: u64) -> Result<Vec<Outcome>> {
        let whole = self.uninterrupted()?;
        // How long a run takes in each world; a kill is to fall anywhere in it.
        let mut lengths = Vec::new();
        for world in WORLDS {
            let seconds = self.time(world)?;
            println!("kills: {world:?} takes {seconds:.2} s");
            lengths.push(seconds);
        }
        let (mut dice, mut outcomes) = (Dice::new(seed), Vec::<Outcome>::new());
        let n_wanted = n_kills as usize;
        while outcomes.iter().filter(|o| o.has_hit).count() < n_wanted {
            let run_idx = outcomes.len();
            ensure!(
                run_idx < 3 * n_wanted + 20,
                "most runs are over before they can be killed"
            );
            let delay = dice.fraction() * lengths[run_idx % WORLDS.len()];
            let outcome = self
                .kill_and_resume(run_idx, delay, &mut dice, &whole)
                .with_context(|| format!("run {run_idx}, killed {delay:.4} s after its start"))?;
            println!("{}", outcome.line(run_idx));
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// One run: killed after `delay` seconds, looked at, and resumed in the next of the worlds.
    fn kill_and_resume(
        &self,
        run_idx: usize,
        delay: f64,
        dice: &mut Dice,
        whole: &[Vec<u8>],
    ) -> Result<Outcome> {
        let world = WORLDS[run_idx % WORLDS.len()];
        let victim = match world {
            // One of the processes, or all of them, in turn.
            World::Tcp(n_ranks) if run_idx % (2 * WORLDS.len()) < WORLDS.len() => {
                Some(dice.below(n_ranks))
            }
            _ => None,
        };
        let has_hit = self.kill(world, victim, delay)?;
        let found = run_folder::check(&self.folder()).context("a broken file")?;
        let n_steps = n_lines(&self.folder().join("metrics.jsonl"));
        let had_checkpoint = found.n_checkpoints > 0;
        let words = match had_checkpoint {
            true => &self.resume,
            false => &self.begin,
        };
        let watch = Stopwatch::start();
        self.finish(WORLDS[(run_idx + 1) % WORLDS.len()], words)?;
        let resume_seconds = watch.seconds();
        self.check_same(whole)?;
        Ok(Outcome {
            world,
            victim,
            delay_seconds: delay,
            has_hit,
            n_steps,
            had_checkpoint,
            resume_seconds,
        })
    }

    /// Begins a run and kills it after `delay` seconds: one process of it, or all; true if that hit one that was running.
    fn kill(&self, world: World, victim: Option<usize>, delay: f64) -> Result<bool> {
        self.clear()?;
        let mut ranks = self.start(world, &self.begin)?;
        std::thread::sleep(Duration::from_secs_f64(delay));
        let Some(victim) = victim else {
            return ranks.kill_all();
        };
        let has_hit = ranks.kill(victim)?;
        for survivor in ranks.survivors(Some(victim))? {
            check_survivor(&survivor, victim, has_hit)?;
        }
        Ok(has_hit)
    }

    /// Whether the folder is whole and has the files of the uninterrupted run.
    fn check_same(&self, whole: &[Vec<u8>]) -> Result<()> {
        run_folder::check(&self.folder()).context("a broken file after the resume")?;
        for ((name, found), expected) in SAME.iter().zip(self.files()?).zip(whole) {
            ensure!(
                found == *expected,
                "{name} differs from the uninterrupted run's"
            );
        }
        Ok(())
    }
}

/// A survivor has lost the victim, or was done before. A rank that had not joined yet is missing instead.
fn check_survivor(survivor: &Ended, victim: usize, has_hit: bool) -> Result<()> {
    let is_told = survivor.stderr.contains(&format!("rank {victim}"))
        || survivor.stderr.contains(&format!("[{victim}]"));
    let is_done = survivor.exit_code == Some(0);
    ensure!(
        is_done || (has_hit && survivor.exit_code == Some(4) && is_told),
        "rank {victim} was killed: {survivor:?}"
    );
    Ok(())
}

fn n_lines(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

impl Outcome {
    fn line(&self, run_idx: usize) -> String {
        let Outcome {
            world,
            delay_seconds,
            n_steps,
            resume_seconds,
            ..
        } = self;
        let whom = match (self.has_hit, self.victim) {
            (false, _) => "nobody: it was over".to_owned(),
            (true, Some(victim)) => format!("rank {victim}"),
            (true, None) => "all".to_owned(),
        };
        let from = match self.had_checkpoint {
            true => "resumed",
            false => "begun again",
        };
        format!(
            "run {run_idx}: {world:?}, killed {whom} after {delay_seconds:.4} s at step {n_steps}, {from} in {resume_seconds:.2} s: same bytes"
        )
    }

    fn samples(&self, run_idx: u32) -> Vec<Sample> {
        let series = match (self.world, self.victim) {
            (World::Threads(n_ranks), _) => format!("threads ranks={n_ranks}"),
            (World::Tcp(n_ranks), None) => format!("tcp ranks={n_ranks} killed=all"),
            (World::Tcp(n_ranks), Some(_)) => format!("tcp ranks={n_ranks} killed=one"),
        };
        let metrics = [
            Metric::new("delay_seconds", self.delay_seconds, "s"),
            Metric::new("has_hit", f64::from(u8::from(self.has_hit)), ""),
            Metric::new("steps_at_kill", self.n_steps as f64, "steps"),
            Metric::new("resume_seconds", self.resume_seconds, "s"),
        ];
        let sample = |metric| Sample {
            series: series.clone(),
            run_idx,
            metric,
        };
        metrics.into_iter().map(sample).collect()
    }
}

/// Only reached where nothing went wrong: a broken file, a hang or another byte ends the command with an error.
fn report(definition: &Definition, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{}\n\nSeed {}; whom the kill hit, and whether there was a checkpoint to go on from:\n\n\
         | world | killed | kills | of them with a checkpoint | runs that were over before |\n|---|---|---|---|---|\n",
        definition.why, definition.seed
    );
    for world in WORLDS {
        for is_one in [false, true] {
            let own = |o: &&Outcome| o.world == world && o.victim.is_some() == is_one;
            let own: Vec<&Outcome> = outcomes.iter().filter(own).collect();
            if own.is_empty() {
                continue;
            }
            let n_hits = own.iter().filter(|o| o.has_hit).count();
            let n_resumed = own.iter().filter(|o| o.has_hit && o.had_checkpoint).count();
            let whom = if is_one { "one process" } else { "all" };
            text.push_str(&format!(
                "| {world:?} | {whom} | {n_hits} | {n_resumed} | {} |\n",
                own.len() - n_hits
            ));
        }
    }
    let n_kills = outcomes.iter().filter(|o| o.has_hit).count();
    text.push_str(&format!(
        "\n{n_kills} kills: 0 broken files, 0 hangs (limit {LIMIT_S} s), {0} of {0} resumed runs with the same {1}.\n",
        outcomes.len(),
        SAME.join(", ")
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_reads() {
        let definition = Definition::load().unwrap();
        assert!(definition.runs >= 200);
        for words in [&definition.begin, &definition.resume] {
            assert!(words.contains(&"{scratch}/run".to_owned()));
        }
    }

    #[test]
    fn survivors_name_the_victim_or_were_done() {
        let ended = |exit_code, stderr: &str| Ended {
            rank: 0,
            exit_code,
            stderr: stderr.to_owned(),
        };
        let lost = "error: rank 2 was lost (its connection broke) before #7 barrier";
        assert!(check_survivor(&ended(Some(4), lost), 2, true).is_ok());
        assert!(check_survivor(&ended(Some(0), ""), 2, true).is_ok());
        assert!(check_survivor(&ended(Some(4), lost), 1, true).is_err());
        assert!(check_survivor(&ended(Some(4), lost), 2, false).is_err());
        assert!(check_survivor(&ended(Some(1), lost), 2, true).is_err());
        assert!(check_survivor(&ended(None, ""), 2, true).is_err());
    }

    #[test]
    fn the_report_counts_what_was_hit() {
        let outcome = |has_hit| Outcome {
            world: World::Tcp(3),
            victim: Some(1),
            delay_seconds: 0.5,
            has_hit,
            n_steps: 10,
            had_checkpoint: true,
            resume_seconds: 1.0,
        };
        let definition = Definition::load().unwrap();
        let text = report(&definition, &[outcome(true), outcome(false), outcome(true)]);
        assert!(
            text.contains("| Tcp(3) | one process | 2 | 2 | 1 |"),
            "{text}"
        );
        assert!(text.contains("2 kills"), "{text}");
    }
}
