//! `cargo xtask repro model`: the cost model of the collectives against a simulator and against a network of known speed.
//!
//! The simulator is SimGrid's SMPI: a flat cluster, in which a program in C does the same all-reduces with real data. The network is three
//! namespaces of this machine, joined by a bridge and held to 1 Gbit/s, in which the `tcp` back end runs. There a link is also taken down, to see that every
//! rank ends in time. What cannot be had here is a skip, printed and recorded.

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
    /// Whether the aim of 10 % holds for this row.
    counts: bool,
}

impl Row {
    fn error(&self) -> f64 {
        self.predicted_seconds / self.seconds - 1.0
    }

    fn is_good(&self) -> bool {
        !self.counts || self.error().abs() <= MAX_ERROR
    }

    fn line(&self) -> String {
        format!(
            "| {} | {:.1} | {:.1} | {:+.1} % | {} |",
            self.series,
            self.seconds * 1e6,
            self.predicted_seconds * 1e6,
            self.error() * 100.0,
            match (self.counts, self.is_good()) {
                (false, _) => "no aim",
                (true, true) => "yes",
                (true, false) => "NO",
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

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let program = points::build()?;
    let parts = [
        (
            "SimGrid SMPI, a flat cluster",
            simulated::check as fn(&std::path::Path) -> Result<Findings>,
        ),
        ("three namespaces, 1 Gbit/s", shaped::check),
    ];
    let mut record = Record::new(
        options.host.as_deref(),
        "cargo xtask repro model".to_owned(),
    )?;
    let mut n_bad = 0;
    for (title, check) in parts {
        let findings = check(&program)?;
        let bad_rows = findings.rows.iter().filter(|row| !row.is_good()).count();
        let bad_notes = findings
            .notes
            .iter()
            .filter(|note| note.starts_with("FAILED"));
        n_bad += bad_rows + bad_notes.count();
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

    #[test]
    fn a_row_that_is_too_far_off_is_not_good() {
        let row = |predicted_seconds, counts| Row {
            series: "x".to_owned(),
            seconds: 1.0,
            predicted_seconds,
            counts,
        };
        assert!(row(1.09, true).is_good() && row(0.91, true).is_good());
        assert!(!row(1.11, true).is_good() && !row(0.89, true).is_good());
        assert!(row(2.0, false).is_good());
        assert!(row(2.0, true).line().contains("+100.0 % | NO"));
    }
}
