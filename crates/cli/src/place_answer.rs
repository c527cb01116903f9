//! What `shardgraph place` prints of a plan, and of a table of plans.

use std::fmt;

use serde::Serialize;
use shardgraph_costgraph::{Graph, Objective, Usage};
use shardgraph_regal::{Comparison, PlaceOptions, Plan, Row};

use crate::place_graph::{CostsAnswer, Loaded};
use crate::place_machine::{LinksAnswer, Machine};
use crate::report::printable;

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
    links: &'a LinksAnswer,
    costs: &'a CostsAnswer,
    /// Weights and whatever else stays on an op's device from start to end, of all ops.
    persistent_bytes: u64,
    /// It counts as memory.
    counts_persistent: bool,
    objective: &'static str,
    #[serde(skip)]
    origin: &'a str,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        index: usize,
        graph: &'a Graph,
        loaded: &'a Loaded,
        machine: &'a Machine,
        options: &PlaceOptions,
    ) -> Self {
        let devices = &machine.devices;
        Self {
            graph: graph.name(),
            index,
            ops: graph.n_ops(),
            tensors: graph.n_tensors(),
            edges: graph.n_uses(),
            devices: devices.len(),
            memory_bytes: devices.devices().first().and_then(|d| d.memory_bytes),
            links: &machine.links,
            costs: &loaded.costs,
            persistent_bytes: (0..graph.n_ops() as u32)
                .map(|op| graph.persistent_bytes(op))
                .sum(),
            counts_persistent: options.model.count_persistent,
            objective: objective_name(options.objective),
            origin: &loaded.origin,
        }
    }

    /// The same for a pipeline.
    pub(crate) fn of_pipeline(self) -> Self {
        Self {
            objective: "throughput",
            ..self
        }
    }

    /// `12 ns` or `12 bytes`.
    fn with_unit(&self, value: u64) -> String {
        match self.objective {
            "memory" => format!("{value} bytes"),
            _ => format!("{value} ns"),
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
        writeln!(f, "links {}", self.links)?;
        writeln!(f, "costs {}", self.costs)?;
        if self.persistent_bytes > 0 {
            let counted = match self.counts_persistent {
                true => "counted from start to end",
                false => "not counted",
            };
            writeln!(
                f,
                "persistent memory {} bytes, {counted}",
                self.persistent_bytes
            )?;
        }
        writeln!(f, "objective {}", self.objective)
    }
}

impl fmt::Display for CostsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.measured > 0 {
            write!(f, "of {} ops measured, others ", self.measured)?;
        }
        match self.card {
            Some(card) if self.estimated > 0 => {
                let estimated = self.estimated;
                write!(f, "estimated by the roofline of {card} ({estimated} ops, ")?;
                write!(f, "{} of them of unknown kinds)", self.unknown_kinds)
            }
            Some(card) => write!(f, "of the graph, times {:.3} for {card}", self.factor),
            None => f.write_str("of the graph"),
        }
    }
}

impl fmt::Display for LinksAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency_us = self.latency_seconds * 1e6;
        match self.bandwidth_gbs {
            Some(gbs) => write!(f, "{} ({gbs} GB/s, {latency_us} us", self.name)?,
            None => write!(f, "{} (unlimited, {latency_us} us", self.name)?,
        }
        let others = if self.pairs_differ {
            "; some pairs differ)"
        } else {
            ")"
        };
        f.write_str(others)
    }
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
    /// The runtime (or peak) of the best single device, divided by the plan's.
    speedup: Option<f64>,
    baselines: Vec<BaselineAnswer>,
    /// The fraction of the runtime in which a device neither runs an op nor transfers, by device.
    idle_shares: Vec<f64>,
    busiest_link: Option<BusiestLink>,
    critical_path: CriticalPathAnswer,
    /// Of `seconds`, those in which a policy was asked.
    proposal_seconds: Option<f64>,
    /// The same as a fraction of the other seconds, those of the searches.
    proposal_share: Option<f64>,
    #[serde(flatten)]
    circumstances: Circumstances,
}

/// A simple way to make a plan, for comparison.
#[derive(Serialize)]
struct BaselineAnswer {
    method: &'static str,
    runtime: u64,
    peak_bytes: u64,
    excess_bytes: u64,
}

/// The directed link that is busy for longest.
#[derive(Serialize)]
struct BusiestLink {
    from: u8,
    to: u8,
    transfers: u64,
    bytes: u64,
    busy_share: f64,
}

/// Steps without a gap up to the end.
#[derive(Serialize)]
struct CriticalPathAnswer {
    steps: usize,
    ops_share: f64,
    transfers_share: f64,
}

impl<'a> Answer<'a> {
    /// `plan` has been verified: there is no other.
    pub(crate) fn new(
        subject: Subject<'a>,
        plan: &Plan,
        usage: &Usage,
        circumstances: Circumstances,
    ) -> Self {
        let runtime = plan.outcome.runtime_ns.max(1) as f64;
        let share = |ns: u64| ns as f64 / runtime;
        let baseline = |of: &shardgraph_regal::Baseline| BaselineAnswer {
            method: of.method.name(),
            runtime: of.outcome.runtime_ns,
            peak_bytes: of.outcome.peak_bytes,
            excess_bytes: of.outcome.excess_bytes,
        };
        let link = |link: shardgraph_costgraph::LinkUsage| BusiestLink {
            from: link.from,
            to: link.to,
            transfers: link.n_transfers,
            bytes: link.bytes,
            busy_share: share(link.busy_ns),
        };
        let path = &usage.critical_path;
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
            speedup: plan.speedup(),
            baselines: plan.baselines.iter().map(baseline).collect(),
            idle_shares: usage
                .devices
                .iter()
                .map(|device| share(device.idle_ns))
                .collect(),
            busiest_link: usage.busiest_link().map(link),
            critical_path: CriticalPathAnswer {
                steps: path.steps.len(),
                ops_share: share(path.ops_ns),
                transfers_share: share(path.transfers_ns),
            },
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
        self.write_comparison(f)?;
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

impl Answer<'_> {
    /// The baselines, and where the time goes.
    fn write_comparison(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(speedup) = self.speedup {
            writeln!(f, "speedup over one device {speedup:.3}")?;
        }
        for baseline in &self.baselines {
            let value = match self.subject.objective {
                "memory" => baseline.peak_bytes,
                _ => baseline.runtime,
            };
            let unfit = if baseline.excess_bytes > 0 {
                " (does not fit)"
            } else {
                ""
            };
            let value = self.subject.with_unit(value);
            writeln!(f, "baseline {} {value}{unfit}", baseline.method)?;
        }
        let idle = self
            .idle_shares
            .iter()
            .map(|share| format!("{:.1} %", 100.0 * share));
        writeln!(f, "idle {}", idle.collect::<Vec<_>>().join(", "))?;
        if let Some(link) = &self.busiest_link {
            writeln!(
                f,
                "busiest link {} -> {}: {} transfers, {} bytes, {:.1} % of the time",
                link.from,
                link.to,
                link.transfers,
                link.bytes,
                100.0 * link.busy_share
            )?;
        }
        let path = &self.critical_path;
        writeln!(
            f,
            "critical path {} steps: {:.1} % ops, {:.1} % transfers",
            path.steps,
            100.0 * path.ops_share,
            100.0 * path.transfers_share
        )
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
