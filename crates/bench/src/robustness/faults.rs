//! How long the other ranks live on after one of them is killed or stopped.
//!
//! Every survivor must end by itself with exit code 4 and name the rank. Times are taken from before the signal is sent
//! to when the last survivor's end is seen, so they are upper bounds; those after SIGSTOP are beyond the deadline that
//! the job was given. A kill while ranks are still joining is seen within a second where the rank had a connection; a
//! rank that never came is only missed at the deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_random::KeyedRng;

use super::ranks::{Ended, Ranks};
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::process::Stopwatch;
use crate::report::{Failure, Report};

const LOST_RANK: i32 = 4;

/// A job and what happens to one of its ranks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Numbers of ranks.
    ranks: Vec<usize>,
    runs: u32,
    seed: u64,
    /// The longest between readiness, or the start, and the fault.
    delay_seconds: f64,
    fault: Fault,
    job: Job,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    kind: Kind,
    deadline_seconds: f64,
    /// What we aim at.
    at_most_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Kill,
    Stop,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    name: String,
    command: Vec<String>,
    /// What says that the job is under way; absent for a fault while its ranks are joining.
    ready: Option<Ready>,
}

/// A file of a rank, and words that it holds once the job is under way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    file: String,
    text: String,
}

/// Ranks of one run, and which of them the fault hits.
#[derive(Clone, Copy)]
struct World {
    n_ranks: usize,
    victim: usize,
    delay_seconds: f64,
}

/// A row for each number of ranks.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let n_runs = context.options.runs.unwrap_or(request.runs);
    let mut dice = KeyedRng::new(request.seed, "faults", 0);
    let Request { fault, job, .. } = request;
    for &n_ranks in &request.ranks {
        let mut lasted = Lasted::default();
        for run_idx in 0..n_runs as usize {
            let world = World {
                n_ranks,
                victim: run_idx % n_ranks,
                delay_seconds: dice.uniform_f64() * request.delay_seconds,
            };
            let survivors = one_run(&context.program, job, fault, world)?;
            out.progress(&format!(
                "{}, {n_ranks} ranks, run {run_idx}: {survivors:?}",
                job.name
            ));
            lasted.add(&survivors, fault);
        }
        out.row(lasted.row(job, fault, n_ranks));
    }
    Ok(())
}

/// How long the last survivors of the runs lived, after the fault or beyond the deadline.
#[derive(Default)]
struct Lasted {
    after_kill: Vec<f64>,
    after_deadline: Vec<f64>,
}

impl Lasted {
    /// Adds a run by the seconds from the fault to the end of each survivor.
    fn add(&mut self, survivors: &[f64], fault: &Fault) {
        let deadline = fault.deadline_seconds;
        let (at_deadline, at_once): (Vec<f64>, Vec<f64>) = survivors
            .iter()
            .partition(|seconds| fault.kind == Kind::Stop || **seconds > deadline / 2.0);
        if let Some(last) = at_once.into_iter().reduce(f64::max) {
            self.after_kill.push(last);
        }
        if let Some(last) = at_deadline.into_iter().reduce(f64::max) {
            self.after_deadline.push(last - deadline);
        }
    }

    fn row(&self, job: &Job, fault: &Fault, n_ranks: usize) -> Value {
        let all = self.after_kill.iter().chain(&self.after_deadline);
        let is_reached = all.copied().fold(0.0, f64::max) <= fault.at_most_seconds;
        let verdict = if is_reached { "reached" } else { "MISSED" };
        let note = format!("aim: at most {} s: {verdict}", fault.at_most_seconds);
        let mut row = json!({"job": job.name, "x": n_ranks, "note": note});
        for (metric, seconds) in [
            ("seconds_after_kill", &self.after_kill),
            ("seconds_after_deadline", &self.after_deadline),
        ] {
            if !seconds.is_empty() {
                row[metric] = json!(seconds);
            }
        }
        row
    }
}

/// Seconds from the fault to the end of each survivor.
fn one_run(program: &Path, job: &Job, fault: &Fault, world: World) -> Result<Vec<f64>> {
    let scratch = paths::fresh_scratch("faults")?;
    let deadline = fault.deadline_seconds.to_string();
    let mut values = launch::places(&scratch);
    values.insert("deadline".to_owned(), deadline);
    let words = launch::substitute(&job.command, &values)?;
    let mut ranks = Ranks::over_tcp(program, &words, &scratch, world.n_ranks)?;
    if let Some(ready) = &job.ready {
        let file = launch::substitute(std::slice::from_ref(&ready.file), &values)?;
        let file = file.first().map(PathBuf::from).unwrap_or_default();
        ranks.wait_for(&file, &ready.text)?;
    }
    std::thread::sleep(Duration::from_secs_f64(world.delay_seconds));
    let watch = Stopwatch::start();
    match fault.kind {
        Kind::Kill => ensure!(ranks.kill(world.victim)?, "the job was over too early"),
        Kind::Stop => ranks.stop(world.victim)?,
    }
    let before = watch.seconds();
    let ended = ranks.survivors(Some(world.victim))?;
    for survivor in &ended {
        fault.check(survivor, job, world.victim)?;
    }
    Ok(ended.iter().map(|one| before + one.seconds).collect())
}

impl Fault {
    /// Whether a survivor ended as it should and names the victim.
    fn check(&self, survivor: &Ended, job: &Job, victim: usize) -> Result<()> {
        let lost = format!("rank {victim} was lost");
        let missed = format!("ranks [{victim}] did not arrive");
        let words = match self.kind {
            Kind::Kill if job.ready.is_none() => vec![lost, missed],
            Kind::Kill => vec![lost],
            Kind::Stop => vec![missed],
        };
        let is_named = words.iter().any(|words| survivor.stderr.contains(words));
        ensure!(
            survivor.exit_code == Some(LOST_RANK) && is_named,
            "rank {}: expected exit code {LOST_RANK} and one of {words:?}: {survivor:?}",
            survivor.rank
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: Kind) -> Fault {
        Fault {
            kind,
            deadline_seconds: 3.0,
            at_most_seconds: 1.0,
        }
    }

    fn job(is_awaited: bool) -> Job {
        Job {
            name: "solve".to_owned(),
            command: Vec::new(),
            ready: is_awaited.then(|| Ready {
                file: "f".to_owned(),
                text: "stored".to_owned(),
            }),
        }
    }

    #[test]
    fn survivors_that_end_otherwise_are_found() {
        let ended = |exit_code, stderr: &str| Ended {
            rank: 0,
            exit_code,
            stderr: stderr.to_owned(),
            seconds: 0.1,
        };
        let lost = "error: rank 1 was lost (its connection broke) before #7 barrier";
        let late = "error: #7 barrier timed out after 3s: ranks [1] did not arrive";
        let (kill, begun) = (fault(Kind::Kill), job(true));
        assert!(kill.check(&ended(Some(4), lost), &begun, 1).is_ok());
        assert!(kill.check(&ended(Some(4), lost), &begun, 2).is_err());
        assert!(kill.check(&ended(Some(2), lost), &begun, 1).is_err());
        assert!(kill.check(&ended(None, lost), &begun, 1).is_err());
        assert!(kill.check(&ended(Some(4), late), &begun, 1).is_err());
        let joining = job(false);
        assert!(kill.check(&ended(Some(4), late), &joining, 1).is_ok());
        assert!(kill.check(&ended(Some(4), late), &joining, 0).is_err());
        let stop = fault(Kind::Stop);
        assert!(stop.check(&ended(Some(4), late), &begun, 1).is_ok());
        assert!(stop.check(&ended(Some(4), late), &begun, 0).is_err());
    }

    #[test]
    fn a_rank_that_never_came_is_missed_at_the_deadline() {
        let fault = fault(Kind::Kill);
        let mut lasted = Lasted::default();
        lasted.add(&[0.25, 3.5], &fault);
        lasted.add(&[0.5, 0.75], &fault);
        let row = lasted.row(&job(false), &fault, 3);
        assert_eq!(row["seconds_after_kill"], json!([0.25, 0.75]));
        assert_eq!(row["seconds_after_deadline"], json!([0.5]));
        assert_eq!(row["note"], "aim: at most 1 s: reached");
        lasted.add(&[1.25], &fault);
        let row = lasted.row(&job(false), &fault, 3);
        assert_eq!(row["note"], "aim: at most 1 s: MISSED");
    }
}
