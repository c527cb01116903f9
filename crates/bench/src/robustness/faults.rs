//! How long the other ranks live on after one of them is killed or stopped.
//!
//! Every survivor must end by itself with exit code 4 and name the rank. Times are taken from before the signal is sent
//! to when the last survivor's end is seen, so they are upper bounds; those after SIGSTOP are beyond the deadline that
//! the job was given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ranks::{Dice, Ended, Ranks};
use crate::launch;
use crate::measure::{Context, parsed};
use crate::paths;
use crate::process::Stopwatch;
use crate::report::{Failure, Report};

const LOST_RANK: i32 = 4;

/// A job and what happens to one of its ranks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Numbers of ranks.
    ranks: Vec<usize>,
    runs: u32,
    seed: u64,
    /// The longest between readiness and fault.
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
    /// A rank's file that says that the job is under way.
    ready_file: String,
    ready_text: String,
}

/// Ranks of one run, and which of them the fault hits.
#[derive(Clone, Copy)]
struct World {
    n_ranks: usize,
    victim: usize,
    delay_seconds: f64,
}

/// A row for each number of ranks.
pub(super) fn run(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    let request: Request = parsed(request)?;
    let n_runs = context.options.runs.unwrap_or(request.runs);
    let mut dice = Dice::new(request.seed);
    let Request { fault, job, .. } = &request;
    for &n_ranks in &request.ranks {
        let mut seconds = Vec::new();
        for run_idx in 0..n_runs as usize {
            let world = World {
                n_ranks,
                victim: run_idx % n_ranks,
                delay_seconds: dice.fraction() * request.delay_seconds,
            };
            let one = one_run(&context.program, job, fault, world)?;
            out.progress(&format!(
                "{}, {n_ranks} ranks, run {run_idx}: {one:.3} s",
                job.name
            ));
            seconds.push(one);
        }
        let worst = seconds.iter().copied().fold(0.0, f64::max);
        let verdict = if worst <= fault.at_most_seconds {
            "reached"
        } else {
            "MISSED"
        };
        let note = format!("aim: at most {} s: {verdict}", fault.at_most_seconds);
        let mut line = json!({"job": job.name, "x": n_ranks, "note": note});
        line[fault.metric()] = json!(seconds);
        out.row(line);
    }
    Ok(())
}

/// Seconds from the fault, or from the deadline after it, to the end of the last survivor.
fn one_run(program: &Path, job: &Job, fault: &Fault, world: World) -> Result<f64> {
    let scratch = paths::fresh_scratch("faults")?;
    let deadline = fault.deadline_seconds.to_string();
    let mut values = launch::places(&scratch);
    values.insert("deadline".to_owned(), deadline);
    let words = launch::substitute(&job.command, &values)?;
    let ready_file = launch::substitute(std::slice::from_ref(&job.ready_file), &values)?;
    let ready_file = ready_file.first().map(PathBuf::from).unwrap_or_default();
    let mut ranks = Ranks::over_tcp(program, &words, &scratch, world.n_ranks)?;
    ranks.wait_for(&ready_file, &job.ready_text)?;
    std::thread::sleep(Duration::from_secs_f64(world.delay_seconds));
    let watch = Stopwatch::start();
    match fault.kind {
        Kind::Kill => ensure!(ranks.kill(world.victim)?, "the job was over too early"),
        Kind::Stop => ranks.stop(world.victim)?,
    }
    let ended = ranks.survivors(Some(world.victim))?;
    let seconds = watch.seconds();
    for survivor in &ended {
        fault.check(survivor, world.victim)?;
    }
    Ok(match fault.kind {
        Kind::Kill => seconds,
        Kind::Stop => seconds - fault.deadline_seconds,
    })
}

impl Fault {
    /// Whether a survivor ended as it should and names the victim.
    fn check(&self, survivor: &Ended, victim: usize) -> Result<()> {
        let words = match self.kind {
            Kind::Kill => format!("rank {victim} was lost"),
            Kind::Stop => format!("ranks [{victim}] did not arrive"),
        };
        ensure!(
            survivor.exit_code == Some(LOST_RANK) && survivor.stderr.contains(&words),
            "rank {}: expected exit code {LOST_RANK} and `{words}`: {survivor:?}",
            survivor.rank
        );
        Ok(())
    }

    fn metric(&self) -> &'static str {
        match self.kind {
            Kind::Kill => "seconds_after_kill",
            Kind::Stop => "seconds_after_deadline",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_that_end_otherwise_are_found() {
        let fault = |kind| Fault {
            kind,
            deadline_seconds: 3.0,
            at_most_seconds: 1.0,
        };
        let ended = |exit_code, stderr: &str| Ended {
            rank: 0,
            exit_code,
            stderr: stderr.to_owned(),
        };
        let lost = "error: rank 1 was lost (its connection broke) before #7 barrier";
        let kill = fault(Kind::Kill);
        assert!(kill.check(&ended(Some(4), lost), 1).is_ok());
        assert!(kill.check(&ended(Some(4), lost), 2).is_err());
        assert!(kill.check(&ended(Some(2), lost), 1).is_err());
        assert!(kill.check(&ended(None, lost), 1).is_err());
        let late = "error: #7 barrier timed out after 3s: ranks [1] did not arrive";
        let stop = fault(Kind::Stop);
        assert!(stop.check(&ended(Some(4), late), 1).is_ok());
        assert!(stop.check(&ended(Some(4), late), 0).is_err());
    }
}
