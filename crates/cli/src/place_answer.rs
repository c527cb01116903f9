//! What `shardgraph place` prints of a plan, and of a table of plans.

use serde::Serialize;
use shardgraph_costgraph::{Graph, Objective, Usage};
use shardgraph_regal::{Comparison, PlaceOptions, Plan, Row};

use crate::place_graph::{CostsAnswer, Loaded};
use crate::place_machine::{LinksAnswer, Machine};
use crate::text::{Layout, Unit, printable, reading};

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

    /// The objective first; bounds have its unit.
    pub(crate) fn layout(&self) -> Layout<'static> {
        let (first, units): (_, &[(&str, Unit)]) = match self.objective {
            "memory" => ("peak_bytes", &[("lower_bound", Unit::Bytes(1.0))]),
            "throughput" => ("period", &[("lower_bound", Unit::Time(1e-9))]),
            _ => ("runtime", &[("lower_bound", Unit::Time(1e-9))]),
        };
        let is_idle = [
            (self.index == 0, "index"),
            (self.costs.is_as_read(), "costs"),
        ];
        let hidden = is_idle.iter().filter(|(is_idle, _)| *is_idle);
        Layout {
            units,
            hidden: hidden.map(|(_, key)| *key).collect(),
            below: reading(Some(&printable(self.origin))),
            ..Layout::first(first)
        }
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
    pub(crate) fn layout(&self) -> Layout<'static> {
        self.subject.layout()
    }

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
    /// The comparison has a table of its own, with what is nearest to the best.
    pub(crate) fn layout(&self, comparison: &Comparison) -> Layout<'static> {
        let layout = self.subject.layout();
        Layout {
            hidden: [layout.hidden, vec!["rows"]].concat(),
            below: format!("{}\n{comparison}", layout.below),
            ..layout
        }
    }

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
        }
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
