//! Training jobs killed at random moments: no file is broken, nothing hangs, and the resumed run ends with the bytes of
//! the uninterrupted one.
//!
//! Kills go through the worlds of a request in turn, threads of one process or processes over TCP, and the resume happens
//! in the next one. Of processes, one is killed or all are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_random::KeyedRng;

use super::ranks::{Ended, LIMIT_S, Ranks};
use super::run_folder;
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::process::Stopwatch;
use crate::report::{Failure, Report};

/// A job of a few seconds, with a checkpoint every few steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Name of the job.
    job: String,
    begin: Vec<String>,
    resume: Vec<String>,
    worlds: Vec<World>,
    /// Files that the uninterrupted run and each resumed one have byte for byte, as seen from the run's folder.
    same: Vec<String>,
    /// What the run's folder is.
    #[serde(default)]
    layout: Layout,
    /// Kills that hit a job.
    runs: u32,
    seed: u64,
}

/// Who computes: threads of one process, or processes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct World {
    n: usize,
    /// The flag that takes `n` where they are threads; processes are told by their launcher.
    #[serde(default)]
    threads: Option<String>,
}

/// The form of a run's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Layout {
    /// The folder of `job`: checkpoints with a MANIFEST, metrics, events.
    #[default]
    Run,
    /// LINE's working folder, from which the command that began goes on.
    Work,
}

/// The program, the commands and the folder that they write.
struct Scenario {
    program: PathBuf,
    scratch: PathBuf,
    begin: Vec<String>,
    resume: Vec<String>,
    worlds: Vec<World>,
    same: Vec<String>,
    layout: Layout,
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

/// A row for each world and whom the kills hit.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let n_kills = context.options.runs.unwrap_or(request.runs);
    let scenario = Scenario::new(context, request)?;
    let outcomes = scenario.outcomes(n_kills, request.seed)?;
    let mut groups: Vec<String> = outcomes.iter().map(Outcome::group).collect();
    groups.sort();
    groups.dedup();
    for group in groups {
        let own: Vec<&Outcome> = outcomes.iter().filter(|o| o.group() == group).collect();
        out.row(row(&request.job, &group, &own));
    }
    Ok(())
}

fn row(job: &str, group: &str, own: &[&Outcome]) -> Value {
    let count = |is: &dyn Fn(&Outcome) -> bool| own.iter().filter(|o| is(o)).count();
    let each =
        |number: &dyn Fn(&Outcome) -> f64| -> Vec<f64> { own.iter().map(|o| number(o)).collect() };
    json!({
        "job": job,
        "killed": group,
        "kills": count(&|o| o.has_hit),
        "with_checkpoint": count(&|o| o.has_hit && o.had_checkpoint),
        "over_before": count(&|o| !o.has_hit),
        "delay_seconds": each(&|o| o.delay_seconds),
        "steps_at_kill": each(&|o| o.n_steps as f64),
        "resume_seconds": each(&|o| o.resume_seconds),
        "note": format!("0 broken files, 0 hangs (limit {LIMIT_S} s), every resumed run with the same bytes"),
    })
}

impl Scenario {
    fn new(context: &Context<'_>, request: &Request) -> Result<Scenario> {
        let scratch = paths::fresh_scratch("kills")?;
        let values = launch::places(&scratch);
        Ok(Scenario {
            begin: launch::substitute(&request.begin, &values)?,
            resume: launch::substitute(&request.resume, &values)?,
            worlds: request.worlds.clone(),
            same: request.same.clone(),
            layout: request.layout,
            program: context.program.clone(),
            scratch,
        })
    }

    fn folder(&self) -> PathBuf {
        self.scratch.join("run")
    }

    fn clear(&self) -> Result<()> {
        for name in &self.same {
            let file = self.folder().join(name);
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        match self.folder().exists() {
            true => Ok(fs::remove_dir_all(self.folder())?),
            false => Ok(()),
        }
    }

    fn start(&self, world: &World, words: &[String]) -> Result<Ranks> {
        match &world.threads {
            Some(flag) => {
                let threads = [flag.clone(), world.n.to_string()];
                let words = [words, &threads].concat();
                Ranks::alone(&self.program, &words, &self.scratch)
            }
            None => Ranks::over_tcp(&self.program, words, &self.scratch, world.n),
        }
    }

    /// Looks at every file of the folder.
    fn found(&self) -> Result<run_folder::Found> {
        match self.layout {
            Layout::Run => run_folder::check(&self.folder()).context("a broken file"),
            Layout::Work => Ok(run_folder::Found {
                n_checkpoints: usize::from(self.folder().exists()),
                ..run_folder::Found::default()
            }),
        }
    }

    /// Runs to the end; a rank that fails or hangs is an error.
    fn finish(&self, world: &World, words: &[String]) -> Result<()> {
        for ended in self.start(world, words)?.survivors(None)? {
            ensure!(ended.exit_code == Some(0), "{world:?}: {ended:?}");
        }
        let n_left = self.found()?.n_temporary;
        ensure!(n_left == 0, "{world:?}: {n_left} temporary files stay");
        Ok(())
    }

    fn files(&self) -> Result<Vec<Vec<u8>>> {
        let read = |name: &String| fs::read(self.folder().join(name)).with_context(|| name.clone());
        self.same.iter().map(read).collect()
    }

    /// The files of a run that nobody disturbs.
    fn uninterrupted(&self) -> Result<Vec<Vec<u8>>> {
        self.clear()?;
        self.finish(&self.worlds[0], &self.begin)?;
        self.files()
    }

    fn time(&self, world: &World) -> Result<f64> {
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
        for world in &self.worlds {
            let seconds = self.time(world)?;
            println!("kills: {world:?} takes {seconds:.2} s");
            lengths.push(seconds);
        }
        let (mut dice, mut outcomes) = (KeyedRng::new(seed, "kills", 0), Vec::<Outcome>::new());
        let n_wanted = n_kills as usize;
        while outcomes.iter().filter(|o| o.has_hit).count() < n_wanted {
            let run_idx = outcomes.len();
            ensure!(
                run_idx < 3 * n_wanted + 20,
                "most runs are over before they can be killed"
            );
            let delay = dice.uniform_f64() * lengths[run_idx % self.worlds.len()];
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
        dice: &mut KeyedRng,
        whole: &[Vec<u8>],
    ) -> Result<Outcome> {
        let n_worlds = self.worlds.len();
        let world = &self.worlds[run_idx % n_worlds];
        // One of the processes, or all of them, in turn.
        let is_one = world.threads.is_none() && run_idx % (2 * n_worlds) < n_worlds;
        let victim = is_one.then(|| dice.index(world.n));
        let has_hit = self.kill(world, victim, delay)?;
        let found = self.found()?;
        let n_steps = n_lines(&self.folder().join("metrics.jsonl"));
        let had_checkpoint = found.n_checkpoints > 0;
        let words = match had_checkpoint {
            true => &self.resume,
            false => &self.begin,
        };
        let watch = Stopwatch::start();
        self.finish(&self.worlds[(run_idx + 1) % n_worlds], words)?;
        let resume_seconds = watch.seconds();
        self.check_same(whole)?;
        Ok(Outcome {
            world: world.clone(),
            victim,
            delay_seconds: delay,
            has_hit,
            n_steps,
            had_checkpoint,
            resume_seconds,
        })
    }

    /// Begins a run and kills it after `delay` seconds: one process of it, or all; true if that hit one that was running.
    fn kill(&self, world: &World, victim: Option<usize>, delay: f64) -> Result<bool> {
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
        self.found().context("after the resume")?;
        for ((name, found), expected) in self.same.iter().zip(self.files()?).zip(whole) {
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

    /// The row that it counts for.
    fn group(&self) -> String {
        let n = self.world.n;
        match (self.world.threads.is_some(), self.victim) {
            (true, _) => format!("{n} threads, all"),
            (false, None) => format!("{n} processes, all"),
            (false, Some(_)) => format!("{n} processes, one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_name_the_victim_or_were_done() {
        let ended = |exit_code, stderr: &str| Ended {
            rank: 0,
            exit_code,
            stderr: stderr.to_owned(),
            seconds: 0.1,
        };
        let lost = "error: rank 2 was lost (its connection broke) before #7 barrier";
        assert!(check_survivor(&ended(Some(4), lost), 2, true).is_ok());
        assert!(check_survivor(&ended(Some(0), ""), 2, true).is_ok());
        assert!(check_survivor(&ended(Some(4), lost), 1, true).is_err());
        assert!(check_survivor(&ended(Some(4), lost), 2, false).is_err());
        assert!(check_survivor(&ended(None, ""), 2, true).is_err());
    }

    #[test]
    fn a_row_counts_what_was_hit() {
        let outcome = |has_hit| Outcome {
            world: World {
                n: 3,
                threads: None,
            },
            victim: Some(1),
            delay_seconds: 0.5,
            has_hit,
            n_steps: 10,
            had_checkpoint: true,
            resume_seconds: 1.0,
        };
        let all = [outcome(true), outcome(false), outcome(true)];
        let all: Vec<&Outcome> = all.iter().collect();
        let row = row("train", &all[0].group(), &all);
        assert_eq!((&row["kills"], &row["over_before"]), (&json!(2), &json!(1)));
        assert_eq!(row["killed"], "3 processes, one");
    }
}
