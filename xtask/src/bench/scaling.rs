//! `cargo xtask bench scaling`: seconds per step of the jobs for 1 to 6 ranks on this machine, and with `--predict` what the cost model says for 1 to 1024.
//!
//! The jobs, the operations between ranks in one of their steps and the networks stand in `benches/repro/scaling.toml`. A prediction takes the
//! measured step of one rank, divides it by the ranks (by the processors where ranks share them) and adds the operations, with the constants
//! that were fitted here to what `threads` and `tcp` take. Measured and predicted rows stand apart, and every predicted one says so.

mod model;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use self::model::{Model, Network};
use super::{fresh_scratch, places};
use crate::answer::{Answer, Metric};
use crate::definition::{Substitutions, string, strings, substitute};
use crate::process;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::shown;
use crate::toml::{self, Table, Value};

/// The command's name.
pub(crate) const SCALING: &str = "scaling";

const DEFINITION: &str = "benches/repro/scaling.toml";

/// What this machine is measured with.
const MEASURED_RANKS: [u32; 4] = [1, 2, 4, 6];
/// What is predicted, the measured ones among them.
const PREDICTED_RANKS: [u32; 12] = [1, 2, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Runs of each; the shortest counts.
const N_RUNS: u32 = 3;

/// What stands behind each number that nobody measured.
const LABEL: &str = "predicted, not measured";

/// A job, and what its ranks exchange in one step.
struct Job {
    name: String,
    why: String,
    command: Vec<String>,
    test_command: Vec<String>,
    ops: Vec<Exchange>,
}

/// An operation, with the bytes of its longer buffer: so many, and so many more for each rank.
struct Exchange {
    op: String,
    bytes: u64,
    bytes_per_rank: u64,
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    use lexopt::prelude::*;
    let (mut predicts, mut host) = (false, None);
    while let Some(arg) = args.next()? {
        match arg {
            Long("predict") => predicts = true,
            Long("host") => host = Some(args.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let table = toml::read(&project::root().join(DEFINITION))?;
    let command = if predicts { " --predict" } else { "" };
    let command = format!("cargo xtask bench {SCALING}{command}");
    let mut record = Record::new(host.as_deref(), command)?;
    let shardgraph = process::build_shardgraph()?;
    let model = if predicts {
        Some(Model::new(&table)?)
    } else {
        None
    };
    for job in jobs(&table)? {
        let text = section(&job, &shardgraph, model.as_ref(), &mut record.samples)?;
        print!("{text}");
        record.report.push_str(&text);
    }
    println!("bench: written to {}", record.write()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Measures a job, and predicts it.
fn section(
    job: &Job,
    shardgraph: &Path,
    model: Option<&Model>,
    samples: &mut Vec<Sample>,
) -> Result<String> {
    let command = job.command.join(" ");
    let mut text = format!(
        "## {}\n\n{}.\n\n```\nshardgraph {command}\n```\n\n| ranks, as threads here | seconds per step | |\n|---|---|---|\n",
        job.name, job.why
    );
    let mut alone = None;
    for n_ranks in MEASURED_RANKS {
        let mut best = f64::INFINITY;
        for run_idx in 0..N_RUNS {
            let seconds = seconds_per_step(shardgraph, &job.command, n_ranks)?;
            best = best.min(seconds);
            let series = format!("{} ranks={n_ranks}", job.name);
            samples.push(sample(&series, run_idx, "seconds_per_step", seconds));
        }
        alone.get_or_insert(best);
        let best = shown(best);
        text.push_str(&format!(
            "| {n_ranks} | {best} | measured, the shortest of {N_RUNS} |\n"
        ));
    }
    if let (Some(model), Some(alone)) = (model, alone) {
        for network in &model.networks {
            text.push_str(&predictions(job, (model, network), alone, samples)?);
        }
    }
    text.push('\n');
    Ok(text)
}

/// The rows that nobody measured: the work of one rank shared by all, and what they exchange.
fn predictions(
    job: &Job,
    (model, network): (&Model, &Network),
    alone: f64,
    samples: &mut Vec<Sample>,
) -> Result<String> {
    let mut text = format!(
        "\n| ranks, {} | seconds per step | of them between ranks | |\n|---|---|---|---|\n",
        network.name
    );
    for n_ranks in PREDICTED_RANKS {
        let exchanged = model.exchange_seconds(&job.ops, network, n_ranks)?;
        let seconds = alone / f64::from(n_ranks.min(network.n_at_once)) + exchanged;
        let numbers = [seconds, exchanged].map(shown).join(" | ");
        text.push_str(&format!("| {n_ranks} | {numbers} | {LABEL} |\n"));
        let series = format!("{} ranks={n_ranks} on {}", job.name, network.name);
        samples.push(sample(&series, 0, "predicted_seconds_per_step", seconds));
    }
    Ok(text)
}

fn sample(series: &str, run_idx: u32, name: &str, value: f64) -> Sample {
    Sample {
        series: series.to_owned(),
        run_idx,
        metric: Metric::new(name, value, "s"),
    }
}

/// One run of a job.
fn seconds_per_step(shardgraph: &Path, command: &[String], n_ranks: u32) -> Result<f64> {
    let scratch = fresh_scratch(SCALING)?;
    let ranks = Substitutions::from([("ranks".to_owned(), n_ranks.to_string())]);
    let words = substitute(command, &places(&scratch, &ranks))?;
    let stdout = process::stdout_of(process::command(shardgraph).args(&words))?;
    let answer = Answer::parse(&stdout)?;
    let metric = |name: &str| -> Result<f64> {
        let found = answer.metrics.iter().find(|metric| metric.name == name);
        Ok(found
            .with_context(|| format!("the answer has no {name}"))?
            .value)
    };
    Ok(metric("seconds")? / metric("steps")?)
}

fn rows<'t>(table: &'t Table, key: &str) -> Result<Vec<&'t Table>> {
    let rows = table.get(key).and_then(Value::as_array);
    let rows = rows.with_context(|| format!("{DEFINITION} has no [[{key}]]"))?;
    rows.iter()
        .map(|row| {
            row.as_table()
                .with_context(|| format!("`{key}` is to be an array of tables"))
        })
        .collect()
}

fn jobs(table: &Table) -> Result<Vec<Job>> {
    let job = |row: &Table| {
        Ok(Job {
            name: string(row, "name")?,
            why: string(row, "why")?,
            command: strings(row, "command")?,
            test_command: strings(row, "test_command")?,
            ops: strings(row, "ops")?
                .iter()
                .map(|op| exchange(op))
                .collect::<Result<_>>()?,
        })
    };
    rows(table, "job")?.into_iter().map(job).collect()
}

/// `all_gather 0 8`: the operation, its bytes, and the bytes more for each rank.
fn exchange(text: &str) -> Result<Exchange> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [op, bytes, bytes_per_rank] = words[..] else {
        anyhow::bail!("{text:?} is no operation with two numbers of bytes");
    };
    Ok(Exchange {
        op: op.to_owned(),
        bytes: bytes.parse().with_context(|| text.to_owned())?,
        bytes_per_rank: bytes_per_rank.parse().with_context(|| text.to_owned())?,
    })
}

/// The small runs of CI's bench stage: every job has an answer with the fields that are read here.
pub(crate) fn test(shardgraph: &Path) -> Result<()> {
    for job in jobs(&toml::read(&project::root().join(DEFINITION))?)? {
        let seconds = seconds_per_step(shardgraph, &job.test_command, 2)?;
        ensure!(seconds > 0.0, "{}: a step of {seconds} s", job.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::number;

    #[test]
    fn the_definition_reads() {
        let table = toml::read(&project::root().join(DEFINITION)).unwrap();
        let jobs = jobs(&table).unwrap();
        assert!(jobs.len() >= 3);
        for job in &jobs {
            assert!(!job.ops.is_empty() && job.why.len() > 20, "{}", job.name);
            for command in [&job.command, &job.test_command] {
                assert!(command.contains(&"{ranks}".to_owned()), "{}", job.name);
            }
        }
        for network in rows(&table, "network").unwrap() {
            assert!(number(network, "latency").unwrap() > 0.0);
            assert!(number(network, "wire_byte").unwrap() > 0.0);
        }
    }

    #[test]
    fn operations_in_words() {
        let parsed = exchange("all_gather 376 8").unwrap();
        assert_eq!(
            (parsed.op.as_str(), parsed.bytes, parsed.bytes_per_rank),
            ("all_gather", 376, 8)
        );
        assert!(exchange("all_gather 376").is_err() && exchange("barrier x 0").is_err());
    }
}
