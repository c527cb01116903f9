//! What `shardgraph place` prints of a plan, and of a table of plans.

use std::fmt;

use serde::Serialize;
use shardgraph_costgraph::{DeviceSet, Graph, Objective};
use shardgraph_regal::{Comparison, PlaceOptions, Plan, Row};

/// What every answer says of graph and machine.
#[derive(Serialize)]
pub(crate) struct Subject<'a> {
    graph: &'a str,
    index: usize,
    ops: usize,
    tensors: usize,
    edges: usize,
    devices: usize,
    memory_bytes: Option<u64>,
    objective: Objective,
    #[serde(skip)]
    origin: &'a str,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        (index, graph): (usize, &'a Graph),
        origin: &'a str,
        devices: &DeviceSet,
        options: &PlaceOptions,
    ) -> Self {
        Self {
            graph: graph.name(),
            index,
            ops: graph.n_ops(),
            tensors: graph.n_tensors(),
            edges: graph.n_uses(),
            devices: devices.len(),
            memory_bytes: devices.devices().first().and_then(|d| d.memory_bytes),
            objective: options.objective,
            origin,
        }
    }

    /// `12 ns` or `12 bytes`.
    fn with_unit(&self, value: u64) -> String {
        match self.objective {
            Objective::Runtime => format!("{value} ns"),
            Objective::Memory => format!("{value} bytes"),
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (graph, origin) = (printable(self.graph), printable(self.origin));
        writeln!(f, "graph {graph} ({origin})")?;
        writeln!(f, "ops {}", self.ops)?;
        writeln!(f, "tensors {}", self.tensors)?;
        writeln!(f, "edges {}", self.edges)?;
        match self.memory_bytes {
            Some(bytes) => writeln!(f, "devices {} of {bytes} bytes", self.devices)?,
            None => writeln!(f, "devices {}", self.devices)?,
        }
        writeln!(f, "objective {}", objective_name(self.objective))
    }
}

/// A name from a file as it may stand in a line for a terminal: what ends lines, moves the cursor or turns the direction of writing
/// is escaped.
pub(crate) fn printable(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => text.extend(c.escape_debug()),
            _ if c.is_control() => text.extend(c.escape_debug()),
            _ => text.push(c),
        }
    }
    text
}

fn objective_name(objective: Objective) -> &'static str {
    match objective {
        Objective::Runtime => "runtime",
        Objective::Memory => "memory",
    }
}

/// What every answer ends with.
#[derive(Serialize)]
pub(crate) struct Circumstances {
    pub(crate) verify_seconds: f64,
    pub(crate) load_seconds: f64,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

/// The figures of one plan.
#[derive(Serialize)]
struct Figures {
    method: &'static str,
    decoder: Option<&'static str>,
    /// Nanoseconds.
    runtime: u64,
    peak_bytes: u64,
    excess_bytes: u64,
    lower_bound: u64,
    gap: Option<f64>,
    evaluations: u64,
    evals_per_s: f64,
    seconds: f64,
    verified: bool,
}

impl fmt::Display for Circumstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "verify seconds {:.6}", self.verify_seconds)?;
        writeln!(f, "load seconds {:.6}", self.load_seconds)
    }
}

fn evals_per_s(evaluations: u64, seconds: f64) -> f64 {
    evaluations as f64 / seconds.max(1e-9)
}

/// One plan. The fields are the keys of the JSON object.
#[derive(Serialize)]
pub(crate) struct Answer<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    #[serde(flatten)]
    figures: Figures,
    /// Of `seconds`, those in which a policy was asked.
    proposal_seconds: Option<f64>,
    /// The same as a fraction of the other seconds, those of the searches.
    proposal_share: Option<f64>,
    #[serde(flatten)]
    circumstances: Circumstances,
}

impl<'a> Answer<'a> {
    /// `plan` has been verified: there is no other.
    pub(crate) fn new(subject: Subject<'a>, plan: &Plan, circumstances: Circumstances) -> Self {
        let figures = Figures {
            method: plan.method.name(),
            decoder: plan.decoder.map(|decoder| decoder.name()),
            runtime: plan.outcome.runtime_ns,
            peak_bytes: plan.outcome.peak_bytes,
            excess_bytes: plan.outcome.excess_bytes,
            lower_bound: plan.lower_bound(),
            gap: plan.gap(),
            evaluations: plan.evaluations,
            evals_per_s: evals_per_s(plan.evaluations, plan.seconds),
            seconds: plan.seconds,
            verified: true,
        };
        Self {
            subject,
            figures,
            proposal_seconds: plan.proposal_seconds,
            proposal_share: plan
                .proposal_seconds
                .map(|seconds| seconds / (plan.seconds - seconds).max(1e-9)),
            circumstances,
        }
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures {
            method,
            runtime,
            peak_bytes,
            lower_bound,
            gap,
            evaluations,
            ..
        } = self.figures;
        write!(f, "{}", self.subject)?;
        match self.figures.decoder {
            Some(decoder) => writeln!(f, "method {method}, decoder {decoder}")?,
            None => writeln!(f, "method {method}")?,
        }
        writeln!(f, "runtime {runtime} ns")?;
        writeln!(f, "peak memory {peak_bytes} bytes")?;
        if self.figures.excess_bytes > 0 {
            writeln!(f, "beyond the memory {} bytes", self.figures.excess_bytes)?;
        }
        writeln!(f, "verified yes")?;
        writeln!(f, "lower bound {}", self.subject.with_unit(lower_bound))?;
        match gap {
            Some(gap) => writeln!(f, "gap {gap:.6}")?,
            None => writeln!(f, "gap -")?,
        }
        writeln!(f, "evaluations {evaluations}")?;
        writeln!(f, "evaluations per second {:.0}", self.figures.evals_per_s)?;
        writeln!(f, "seconds {:.6}", self.figures.seconds)?;
        if let (Some(seconds), Some(share)) = (self.proposal_seconds, self.proposal_share) {
            let percent = 100.0 * share;
            writeln!(
                f,
                "proposal seconds {seconds:.6} ({percent:.1} % of the searches' seconds)"
            )?;
        }
        write!(f, "{}", self.circumstances)
    }
}

/// All methods on one graph. The fields are the keys of the JSON object.
#[derive(Serialize)]
pub(crate) struct Table<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    lower_bound: u64,
    verified: bool,
    seconds: f64,
    #[serde(flatten)]
    circumstances: Circumstances,
    rows: Vec<TableRow>,
    #[serde(skip)]
    comparison: &'a Comparison,
}

/// A plan among others; fractions of 0 mean as good as.
#[derive(Serialize)]
struct TableRow {
    #[serde(flatten)]
    figures: Figures,
    gap_to_best: Option<f64>,
    improvement: Option<f64>,
}

impl<'a> Table<'a> {
    /// All plans have been verified.
    pub(crate) fn new(
        subject: Subject<'a>,
        comparison: &'a Comparison,
        circumstances: Circumstances,
    ) -> Self {
        let row = |row: &Row| TableRow {
            figures: Figures {
                method: row.method.name(),
                decoder: row.decoder.map(|decoder| decoder.name()),
                runtime: row.runtime_ns,
                peak_bytes: row.peak_bytes,
                excess_bytes: row.excess_bytes,
                lower_bound: comparison.lower_bound,
                gap: row.gap,
                evaluations: row.evaluations,
                evals_per_s: evals_per_s(row.evaluations, row.seconds),
                seconds: row.seconds,
                verified: true,
            },
            gap_to_best: row.gap_to_best,
            improvement: row.improvement,
        };
        Self {
            subject,
            lower_bound: comparison.lower_bound,
            verified: true,
            seconds: comparison.rows.iter().map(|row| row.seconds).sum(),
            circumstances,
            rows: comparison.rows.iter().map(row).collect(),
            comparison,
        }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        let bound = self.subject.with_unit(self.lower_bound);
        writeln!(f, "lower bound {bound}")?;
        writeln!(f, "verified yes")?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        write!(f, "{}\n{}", self.circumstances, self.comparison)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        for (name, expected) in [
            ("conv_1/\"w\" \\ \u{e9}e\u{301} \u{5d0}", None),
            (
                "\u{1b}[31mRED\nverified no\r",
                Some("\\u{1b}[31mRED\\nverified no\\r"),
            ),
            ("\u{9b}2J\u{7f}", Some("\\u{9b}2J\\u{7f}")),
            (
                "a\u{202e}b\u{2028}c\u{2066}",
                Some("a\\u{202e}b\\u{2028}c\\u{2066}"),
            ),
        ] {
            assert_eq!(printable(name), expected.unwrap_or(name));
        }
    }
}
