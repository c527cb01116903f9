//! `cargo xtask repro model`: the cost model of the collectives against a simulator and against a network of known speed.
//!
//! The simulator is SimGrid's SMPI: a flat cluster, in which a program in C does the same all-reduces with real data. The network is three
//! namespaces of this machine, joined by a bridge and held to 1 Gbit/s, in which the `tcp` back end runs. There a link is also taken down, to see that every
//! rank ends in time and names one that it cannot reach. A machine that cannot have one of them (no SimGrid; no root, `ip` or `tc`) is a skip, printed
//! and recorded; anything else that goes wrong is a failure, and the exit code is 1.

mod namespaces;
mod shaped;
mod simulated;

use std::process::ExitCode;

use anyhow::Result;

use super::Options;
use crate::answer::Metric;
use crate::bench::points;
use crate::json::Json;
use crate::record::{Record, Sample};

/// How far a prediction may be off.
const MAX_ERROR: f64 = 0.10;

/// A prediction beside what it predicts.
struct Row {
    series: String,
    seconds: f64,
    predicted_seconds: f64,
    aim: Aim,
}

/// Whether the aim of 10 % holds for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    Holds,
    /// Not, for a reason that the report says.
    None(&'static str),
}

impl Row {
    fn error(&self) -> f64 {
        self.predicted_seconds / self.seconds - 1.0
    }

    fn is_good(&self) -> bool {
        self.aim != Aim::Holds || self.error().abs() <= MAX_ERROR
    }

    fn line(&self) -> String {
        format!(
            "| {} | {:.1} | {:.1} | {:+.1} % | {} |",
            self.series,
            self.seconds * 1e6,
            self.predicted_seconds * 1e6,
            self.error() * 100.0,
            match (self.aim, self.is_good()) {
                (Aim::None(why), _) => format!("no aim: {why}"),
                (Aim::Holds, true) => "yes".to_owned(),
                (Aim::Holds, false) => "NO".to_owned(),
            }
        )
    }

    fn samples(&self) -> [Sample; 2] {
        let sample = |name: &str, value: f64| Sample {
            series: self.series.clone(),
            run_idx: 0,
            metric: Metric::new(name, value, "s"),
        };
        [
            sample("seconds", self.seconds),
            sample("predicted_seconds", self.predicted_seconds),
        ]
    }
}

/// What one of the two checks gave.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    /// Sentences for the report; those of failures begin with `FAILED`.
    notes: Vec<String>,
}

/// Adds to the findings as it goes, so that those before an error are not lost.
type Check = fn(&std::path::Path, &mut Findings) -> Result<()>;

impl Findings {
    /// What a check finds; an error of it is a failure among its notes.
    fn of(check: Check, program: &std::path::Path) -> Findings {
        let mut findings = Findings::default();
        if let Err(error) = check(program, &mut findings) {
            findings.notes.push(format!("FAILED: {error:#}"));
        }
        findings
    }

    fn n_bad(&self) -> usize {
        let bad_rows = self.rows.iter().filter(|row| !row.is_good());
        let bad_notes = self.notes.iter().filter(|note| note.starts_with("FAILED"));
        bad_rows.count() + bad_notes.count()
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let program = points::build()?;
    let parts = [
        ("SimGrid SMPI, a flat cluster", simulated::check as Check),
        ("three namespaces, 1 Gbit/s", shaped::check),
    ];
    let mut record = Record::new(
        options.host.as_deref(),
        "cargo xtask repro model".to_owned(),
    )?;
    let mut n_bad = 0;
    for (title, check) in parts {
        let findings = Findings::of(check, &program);
        n_bad += findings.n_bad();
        let section = section(title, &findings);
        print!("{section}");
        record.report.push_str(&section);
        record
            .samples
            .extend(findings.rows.iter().flat_map(Row::samples));
    }
    record.details = Json::object([("max_error", Json::Number(MAX_ERROR))]);
    println!(
        "model: {n_bad} predictions or checks failed; written to {}",
        record.write()?.display()
    );
    Ok(if n_bad == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn section(title: &str, findings: &Findings) -> String {
    let mut text = format!("## {title}\n\n");
    if !findings.rows.is_empty() {
        text.push_str("| all-reduce | measured or simulated, us | predicted, us | difference | within 10 % |\n|---|---|---|---|---|\n");
    }
    for row in &findings.rows {
        text.push_str(&format!("{}\n", row.line()));
    }
    text.push('\n');
    for note in &findings.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text.push('\n');
    text
}

/// The constants of a network, as the bench program reads them.
struct Constants {
    latency: f64,
    message: f64,
    byte: f64,
    reduced_byte: f64,
    wire_byte: f64,
    ranks_per_node: u32,
    cores_per_node: u32,
}

/// What the model says of all-reduces of (algorithm, bytes, ranks).
fn predict(
    program: &std::path::Path,
    network: &Constants,
    questions: &[(&str, usize, u32)],
) -> Result<Vec<f64>> {
    let Constants {
        latency,
        message,
        byte,
        reduced_byte,
        wire_byte,
        ranks_per_node,
        cores_per_node,
    } = network;
    let mut input = format!(
        "NETWORK latency={latency} message={message} byte={byte} reduced_byte={reduced_byte} wire_byte={wire_byte} \
         ranks_per_node={ranks_per_node} cores_per_node={cores_per_node}\n"
    );
    for (algorithm, bytes, n_ranks) in questions {
        input.push_str(&format!(
            "ASK op=all_reduce algorithm={algorithm} bytes={bytes} ranks={n_ranks}\n"
        ));
    }
    let answers = points::ask(program, &["--predict"], &input)?;
    anyhow::ensure!(
        answers.len() == questions.len(),
        "{} answers",
        answers.len()
    );
    answers
        .iter()
        .map(|answer| points::number(answer, "seconds"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(predicted_seconds: f64, aim: Aim) -> Row {
        Row {
            series: "x".to_owned(),
            seconds: 1.0,
            predicted_seconds,
            aim,
        }
    }

    #[test]
    fn a_row_that_is_too_far_off_is_not_good() {
        assert!(row(1.09, Aim::Holds).is_good() && row(0.91, Aim::Holds).is_good());
        assert!(!row(1.11, Aim::Holds).is_good() && !row(0.89, Aim::Holds).is_good());
        assert!(row(2.0, Aim::Holds).line().contains("+100.0 % | NO"));
        let without = row(2.0, Aim::None("a reason"));
        assert!(without.is_good() && without.line().contains("| no aim: a reason |"));
    }

    #[test]
    fn an_error_is_a_failure_and_what_was_found_before_it_stays() {
        let fails: Check = |_, findings| {
            findings.rows.push(row(1.0, Aim::Holds));
            anyhow::bail!("the bridge fell down")
        };
        let findings = Findings::of(fails, std::path::Path::new("x"));
        assert_eq!((findings.rows.len(), findings.n_bad()), (1, 1));
        let section = section("x", &findings);
        assert!(
            section.contains("FAILED: the bridge fell down"),
            "{section}"
        );
        let skips: Check = |_, findings| {
            findings.notes.push("SKIPPED: x".to_owned());
            Ok(())
        };
        assert_eq!(Findings::of(skips, std::path::Path::new("x")).n_bad(), 0);
    }
}
