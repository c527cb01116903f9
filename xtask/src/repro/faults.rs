//! `cargo xtask repro faults`: how long the other ranks live on after one of them is killed or stopped.
//!
//! The jobs stand in `benches/repro/faults.toml`. Every survivor must end by itself with exit code 4 and name the
//! rank. Times are taken from before the signal is sent to when the last survivor's end is seen, so they are upper
//! bounds; those after SIGSTOP are beyond the deadline that the job was given.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::Options;
use super::ranks::{Dice, Ended, Ranks};
use crate::answer::Metric;
use crate::bench::{fresh_scratch, places};
use crate::definition::{Substitutions, number, string, strings, substitute};
use crate::json::Json;
use crate::process::{self, Stopwatch};
use crate::project;
use crate::record::{self, Record, Sample};
use crate::statistics::shown;
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/faults.toml";
const LOST_RANK: i32 = 4;

/// What runs.
struct Definition {
    why: String,
    ranks: Vec<usize>,
    repeat: u32,
    seed: u64,
    /// A fault comes up to so long after a job is ready.
    delay_seconds: f64,
    faults: Vec<Fault>,
    jobs: Vec<Job>,
}

/// What is done to a rank.
struct Fault {
    kind: Kind,
    deadline_seconds: f64,
    /// The aim: the last survivor ends so long after the fault, or after the deadline.
    at_most_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Kill,
    Stop,
}

/// A job that is too long to end by itself.
struct Job {
    name: String,
    command: Vec<String>,
    /// It is under way once this file holds this text.
    ready_file: String,
    ready_text: String,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let definition = Definition::load()?;
    let n_runs = options.runs.unwrap_or(definition.repeat);
    let program = process::build_shardgraph()?;
    let mut record = Record::new(
        options.host.as_deref(),
        format!("cargo xtask repro faults --runs {n_runs}"),
    )?;
    record.report = format!("{}\n\n", definition.why);
    record.samples = definition.measure(&program, n_runs)?;
    let is_reached = |fault: &Fault| {
        let mut own = record.samples.iter().map(|sample| &sample.metric);
        own.all(|metric| metric.name != fault.metric() || metric.value <= fault.at_most_seconds)
    };
    let all_reached = definition.faults.iter().all(is_reached);
    for fault in &definition.faults {
        let section = section(fault, &record.samples);
        println!("{section}");
        record.report.push_str(&section);
    }
    record.details = Json::object([
        ("all_reached", Json::Boolean(all_reached)),
        ("seed", Json::Number(definition.seed as f64)),
    ]);
    println!("faults: written to {}", record.write()?.display());
    Ok(match all_reached {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Seconds from the fault, or from the deadline after it, to the end of the last survivor.
fn one_run(
    program: &Path,
    job: &Job,
    fault: &Fault,
    [n_ranks, victim]: [usize; 2],
    delay_seconds: f64,
) -> Result<f64> {
    let scratch = fresh_scratch("faults")?;
    let deadline = fault.deadline_seconds.to_string();
    let values = places(
        &scratch,
        &Substitutions::from([("deadline".to_owned(), deadline)]),
    );
    let words = substitute(&job.command, &values)?;
    let ready_file = substitute(std::slice::from_ref(&job.ready_file), &values)?;
    let ready_file = ready_file.first().map(PathBuf::from).unwrap_or_default();
    let mut ranks = Ranks::over_tcp(program, &words, &scratch, n_ranks)?;
    ranks.wait_for(&ready_file, &job.ready_text)?;
    std::thread::sleep(Duration::from_secs_f64(delay_seconds));
    let watch = Stopwatch::start();
    match fault.kind {
        Kind::Kill => ensure!(ranks.kill(victim)?, "the job was over too early"),
        Kind::Stop => ranks.stop(victim)?,
    }
    let ended = ranks.survivors(Some(victim))?;
    let seconds = watch.seconds();
    for survivor in &ended {
        fault.check(survivor, victim)?;
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

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Kill => "SIGKILL",
            Kind::Stop => "SIGSTOP",
        }
    }

    fn metric(&self) -> &'static str {
        match self.kind {
            Kind::Kill => "seconds_after_kill",
            Kind::Stop => "seconds_after_deadline",
        }
    }

    fn series(&self, job: &Job, n_ranks: usize) -> String {
        format!("{} {} ranks={n_ranks}", self.name(), job.name)
    }
}

fn section(fault: &Fault, samples: &[Sample]) -> String {
    let own = |sample: &&Sample| sample.metric.name == fault.metric();
    let own: Vec<Sample> = samples.iter().filter(own).cloned().collect();
    let from = match fault.kind {
        Kind::Kill => "the signal".to_owned(),
        Kind::Stop => format!("the deadline of {} s", fault.deadline_seconds),
    };
    let mut text = format!(
        "## {}\n\nSeconds from {from} to the end of the last survivor, over TCP.\n\n\
         | job | runs | lowest | median | highest | aim |\n|---|---|---|---|---|---|\n",
        fault.name()
    );
    for ((series, _), (_, summary)) in record::summaries(&own) {
        let n_runs = own.iter().filter(|sample| sample.series == series).count();
        let verdict = match summary.max <= fault.at_most_seconds {
            true => "reached",
            false => "MISSED",
        };
        text.push_str(&format!(
            "| {series} | {n_runs} | {} | {} | {} | at most {}: {verdict} |\n",
            shown(summary.min),
            shown(summary.median),
            shown(summary.max),
            fault.at_most_seconds
        ));
    }
    text + "\n"
}

impl Definition {
    /// Every fault in every job at every number of ranks, so many times; each rank is the victim in turn.
    fn measure(&self, program: &Path, n_runs: u32) -> Result<Vec<Sample>> {
        let mut dice = Dice::new(self.seed);
        let mut samples = Vec::new();
        for (fault, job, n_ranks) in self.combinations() {
            let series = fault.series(job, n_ranks);
            for run_idx in 0..n_runs {
                let ranks = [n_ranks, run_idx as usize % n_ranks];
                let delay_seconds = dice.fraction() * self.delay_seconds;
                let seconds = one_run(program, job, fault, ranks, delay_seconds)
                    .with_context(|| format!("{series}, run {run_idx}"))?;
                println!("{series}, run {run_idx}: {seconds:.3} s");
                samples.push(Sample {
                    series: series.clone(),
                    run_idx,
                    metric: Metric::new(fault.metric(), seconds, "s"),
                });
            }
        }
        Ok(samples)
    }

    fn combinations(&self) -> impl Iterator<Item = (&Fault, &Job, usize)> {
        self.faults.iter().flat_map(move |fault| {
            let jobs = self.jobs.iter();
            jobs.flat_map(move |job| self.ranks.iter().map(move |&n| (fault, job, n)))
        })
    }

    fn load() -> Result<Definition> {
        let table = toml::read(&project::root().join(DEFINITION))?;
        let ranks = table.get("ranks").and_then(Value::as_array);
        let ranks = ranks.context("`ranks` is to be an array")?;
        Ok(Definition {
            why: string(&table, "why")?,
            ranks: ranks
                .iter()
                .filter_map(|n_ranks| usize::try_from(n_ranks.as_integer()?).ok())
                .collect(),
            repeat: number(&table, "repeat")? as u32,
            seed: number(&table, "seed")? as u64,
            delay_seconds: number(&table, "delay_seconds")?,
            faults: vec![
                fault(&table, "kill", Kind::Kill)?,
                fault(&table, "stop", Kind::Stop)?,
            ],
            jobs: jobs(&table)?,
        })
    }
}

fn fault(table: &Table, name: &str, kind: Kind) -> Result<Fault> {
    let table = table.get(name).and_then(Value::as_table);
    let table = table.with_context(|| format!("no [{name}] in the definition"))?;
    Ok(Fault {
        kind,
        deadline_seconds: number(table, "deadline_seconds")?,
        at_most_seconds: number(table, "at_most_seconds")?,
    })
}

fn jobs(table: &Table) -> Result<Vec<Job>> {
    let rows = table.get("job").and_then(Value::as_array);
    let job = |row: &Value| {
        let row = row
            .as_table()
            .context("`job` is to be an array of tables")?;
        Ok(Job {
            name: string(row, "name")?,
            command: strings(row, "command")?,
            ready_file: string(row, "ready_file")?,
            ready_text: string(row, "ready_text")?,
        })
    };
    let rows = rows.context("no [[job]] in the definition")?;
    rows.iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_reads() {
        let definition = Definition::load().unwrap();
        assert_eq!(definition.ranks, [2, 3, 6]);
        assert!(definition.repeat >= 10);
        for job in definition.jobs {
            assert!(job.command.contains(&"{deadline}".to_owned()));
        }
    }

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

    #[test]
    fn a_missed_aim_says_so() {
        let fault = Fault {
            kind: Kind::Kill,
            deadline_seconds: 60.0,
            at_most_seconds: 1.0,
        };
        let sample = |value| Sample {
            series: "SIGKILL solve ranks=2".to_owned(),
            run_idx: 0,
            metric: Metric::new("seconds_after_kill", value, "s"),
        };
        let text = section(&fault, &[sample(0.5), sample(0.25)]);
        assert!(
            text.contains("| 2 | 0.2500 | 0.3750 | 0.5000 | at most 1: reached |"),
            "{text}"
        );
        assert!(section(&fault, &[sample(1.5)]).contains("MISSED"));
    }
}
