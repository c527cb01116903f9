//! `cargo xtask bench scaling`: with `--job`, a sweep of every system by ranks (`sweep`); without, seconds per step of the jobs for 1 to 6 ranks on this machine, and with `--predict` what the cost model says for 1 to 1024.
//!
//! The jobs, the operations between ranks in one of their steps and the networks stand in `benches/repro/scaling.toml`. A prediction takes the
//! measured step of one rank, leaves its serial share as it is, divides the rest by the ranks (by the processors where ranks share them, and never into
//! more parts than it has pieces) and adds the operations, with the constants that were fitted here to what `threads` and `tcp` take. The serial share
//! is fitted to the measured rows and printed. Measured and predicted rows stand apart, and every predicted one says so.

mod model;
mod share;
mod sweep;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use self::model::{Model, Network};
use self::share::{Cut, Serial, Step};
use self::sweep::{Backend, Wanted};
use super::{fresh_scratch, places};
use crate::answer::{Answer, Metric};
use crate::definition::{Substitutions, number, string, strings, substitute};
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
    /// Pieces that its work can be cut into: the row blocks of a graph.
    n_pieces: u32,
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
    let (mut predicts, mut host, mut job) = (false, None, None);
    let (mut ranks, mut backend, mut is_test) = (None, None, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("predict") => predicts = true,
            Long("host") => host = Some(args.value()?.string()?),
            Long("job") => job = Some(args.value()?.string()?),
            Long("ranks") => ranks = Some(sweep::parse_ranks(&args.value()?.string()?)?),
            Long("backend") => backend = Some(Backend::parse(&args.value()?.string()?)?),
            Long("test") => is_test = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if job.is_some() || ranks.is_some() || backend.is_some() || is_test {
        ensure!(!predicts, "--predict is for the jobs without --job");
        let wanted = Wanted {
            job: job.unwrap_or_else(|| "all".to_owned()),
            ranks: ranks.unwrap_or_else(|| {
                if is_test {
                    vec![1, 2]
                } else {
                    (1..=6).collect()
                }
            }),
            backend: backend.unwrap_or(Backend::Threads),
            test: is_test,
        };
        return sweep::run(&wanted, host.as_deref());
    }
    measure(predicts, host.as_deref())
}

/// Every job of `[[job]]`, measured and, where that is wanted, predicted.
fn measure(predicts: bool, host: Option<&str>) -> Result<ExitCode> {
    let table = toml::read(&project::root().join(DEFINITION))?;
    let command = if predicts { " --predict" } else { "" };
    let command = format!("cargo xtask bench {SCALING}{command}");
    let mut record = Record::new(host, command)?;
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
    let mut measured = Vec::new();
    for n_ranks in MEASURED_RANKS {
        let mut best = f64::INFINITY;
        for run_idx in 0..N_RUNS {
            let seconds = seconds_per_step(shardgraph, &job.command, n_ranks)?;
            best = best.min(seconds);
            let series = format!("{} ranks={n_ranks}", job.name);
            samples.push(sample(&series, run_idx, "seconds_per_step", seconds));
        }
        measured.push((n_ranks, best));
        let best = shown(best);
        text.push_str(&format!(
            "| {n_ranks} | {best} | measured, the shortest of {N_RUNS} |\n"
        ));
    }
    if let (Some(model), Some(&(1, alone))) = (model, measured.first()) {
        let serial = serial(job, model, &measured)?;
        let sentences = serial.sentences(cut(job, model.here()?));
        text.push_str(&format!("\n{sentences}\n"));
        samples.push(Sample {
            series: job.name.clone(),
            run_idx: 0,
            metric: Metric::new("serial_share", serial.share, "1"),
        });
        for network in &model.networks {
            let step = (alone, &serial);
            text.push_str(&predictions(job, (model, network), step, samples)?);
        }
    }
    text.push('\n');
    Ok(text)
}

/// The share of a step that is not divided, from the rows that were measured between threads.
fn serial(job: &Job, model: &Model, measured: &[(u32, f64)]) -> Result<Serial> {
    let here = model.here()?;
    let (mut alone, mut steps) = (0.0, Vec::new());
    for &(n_ranks, seconds) in measured {
        if n_ranks == 1 {
            alone = seconds;
            continue;
        }
        steps.push(Step {
            n_ranks,
            seconds,
            exchanged: model.exchange_seconds(&job.ops, here, n_ranks)?,
        });
    }
    Ok(Serial::fit(alone, &steps, cut(job, here)))
}

fn cut(job: &Job, network: &Network) -> Cut {
    Cut {
        n_pieces: job.n_pieces,
        n_at_once: network.n_at_once,
    }
}

/// The rows that nobody measured: the work of one rank, as far as it is divided, and what the ranks exchange.
fn predictions(
    job: &Job,
    (model, network): (&Model, &Network),
    (alone, serial): (f64, &Serial),
    samples: &mut Vec<Sample>,
) -> Result<String> {
    let mut text = format!(
        "\n| ranks, {} | seconds per step | of them between ranks | |\n|---|---|---|---|\n",
        network.name
    );
    for n_ranks in PREDICTED_RANKS {
        let exchanged = model.exchange_seconds(&job.ops, network, n_ranks)?;
        let seconds = serial.seconds(alone, cut(job, network), n_ranks) + exchanged;
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
            n_pieces: number(row, "pieces")? as u32,
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
    sweep::test(shardgraph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_reads() {
        let table = toml::read(&project::root().join(DEFINITION)).unwrap();
        let jobs = jobs(&table).unwrap();
        assert!(jobs.len() >= 3);
        for job in &jobs {
            assert!(!job.ops.is_empty() && job.why.len() > 20, "{}", job.name);
            // No more than the blocks of rows that there are of any graph.
            assert!((2..=64).contains(&job.n_pieces), "{}", job.name);
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
