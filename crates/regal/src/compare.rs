//! Several methods on the same graph, and on many graphs, in one table.

use std::fmt;

use serde::Serialize;
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Objective};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::place::{Plan, place_timed, ratio};

/// One method's plan in a [`Comparison`]. Fractions are fractions: a gap of 0.05 is 5 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// How the plan was made.
    pub method: Method,
    /// How chromosomes became schedules; absent where there were none.
    pub decoder: Option<DecoderKind>,
    /// When the last op ends.
    pub runtime_ns: u64,
    /// The largest memory in use on any device.
    pub peak_bytes: u64,
    /// By how much the worst device exceeds its memory.
    pub excess_bytes: u64,
    /// How far the objective is above its lower bound.
    pub gap: f64,
    /// How far it is above the best of the table, among the plans that exceed memories as little as the best does.
    pub gap_to_best: f64,
    /// By how much it is below that of the genetic algorithm with the paper's decoder; absent without that row.
    pub improvement: Option<f64>,
    /// Schedules that were evaluated.
    pub evaluations: u64,
    /// What the clock said about making the plan; its verification is no part of that.
    pub seconds: f64,
}

/// Several methods on one graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The graph's name.
    pub graph: String,
    /// What was minimised.
    pub objective: Objective,
    /// What no plan can beat.
    pub lower_bound: u64,
    /// One row for each method and decoder, in the order asked for.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// What the table of a `--compare` holds: the genetic algorithms with the paper's decoder and the strong one, and everything
    /// else.
    #[must_use]
    pub fn usual() -> Vec<(Method, DecoderKind)> {
        let mut candidates = DecoderKind::ALL.map(|kind| (Method::Brkga, kind)).to_vec();
        candidates.push((Method::TunedBrkga, DecoderKind::Paper));
        for method in [Method::SeededBrkga, Method::Random] {
            candidates.extend([(method, DecoderKind::Paper), (method, DecoderKind::List)]);
        }
        let others = Method::ALL.into_iter().filter(|method| !method.decodes());
        candidates.extend(others.map(|method| (method, DecoderKind::Paper)));
        candidates
    }

    /// A table of plans of one graph, each with the seconds that it took, in this order.
    #[must_use]
    pub fn of(graph: &str, objective: Objective, plans: &[(Plan, f64)]) -> Comparison {
        let key = |plan: &Plan| (plan.outcome.excess_bytes, plan.value());
        let best = plans
            .iter()
            .map(|(plan, _)| key(plan))
            .min()
            .unwrap_or_default();
        let is_reference =
            |plan: &Plan| plan.method == Method::Brkga && plan.decoder == Some(DecoderKind::Paper);
        let reference = plans.iter().find(|(plan, _)| is_reference(plan));
        let reference = reference.map(|(plan, _)| plan.value());
        let row = |(plan, seconds): &(Plan, f64)| Row {
            method: plan.method,
            decoder: plan.decoder,
            runtime_ns: plan.outcome.runtime_ns,
            peak_bytes: plan.outcome.peak_bytes,
            excess_bytes: plan.outcome.excess_bytes,
            gap: plan.gap(),
            gap_to_best: ratio(plan.value(), best.1) - 1.0,
            improvement: reference.map(|reference| 1.0 - ratio(plan.value(), reference)),
            evaluations: plan.evaluations,
            seconds: *seconds,
        };
        Comparison {
            graph: graph.to_owned(),
            objective,
            lower_bound: plans.first().map_or(0, |(plan, _)| plan.lower_bound()),
            rows: plans.iter().map(row).collect(),
        }
    }
}

/// Makes a plan with each of these methods and decoders (which methods without chromosomes ignore); all plans are verified.
///
/// `clock` gives seconds from any start; it is read twice for each method.
///
/// # Errors
/// As [`crate::place`].
pub fn compare(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    candidates: &[(Method, DecoderKind)],
    clock: &mut dyn FnMut() -> f64,
) -> Result<Comparison, Error> {
    let mut plans: Vec<(Plan, f64)> = Vec::new();
    for &(method, decoder) in candidates {
        let options = PlaceOptions {
            method,
            decoder: Some(decoder),
            ..options.clone()
        };
        plans.push(place_timed(graph, devices, &options, clock)?);
    }
    Ok(Comparison::of(graph.name(), options.objective, &plans))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:19} {:16} {:>14} {:>14} {:>9} {:>9} {:>8} {:>11} {:>8}",
            "method",
            "decoder",
            "runtime_ns",
            "peak_bytes",
            "gap",
            "to best",
            "vs brkga",
            "evaluations",
            "seconds"
        )?;
        for row in &self.rows {
            let improvement = row
                .improvement
                .map_or("-".to_owned(), |x| format!("{:+.2}%", 100.0 * x));
            writeln!(
                f,
                "{:19} {:16} {:>14} {:>14} {:>8.2}% {:>8.2}% {:>8} {:>11} {:>8.3}{}",
                row.method.name(),
                row.decoder.map_or("-", DecoderKind::name),
                row.runtime_ns,
                row.peak_bytes,
                100.0 * row.gap,
                100.0 * row.gap_to_best,
                improvement,
                row.evaluations,
                row.seconds,
                if row.excess_bytes == 0 {
                    ""
                } else {
                    "  does not fit"
                },
            )?;
        }
        Ok(())
    }
}

/// One method over many graphs: means of the graphs' own fractions, not of sums.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSummary {
    /// How the plans were made.
    pub method: Method,
    /// How chromosomes became schedules; absent where there were none.
    pub decoder: Option<DecoderKind>,
    /// Graphs.
    pub n_graphs: u64,
    /// Mean of [`Row::gap`].
    pub gap: f64,
    /// Mean of [`Row::gap_to_best`].
    pub gap_to_best: f64,
    /// Mean of [`Row::improvement`] over the graphs that have one.
    pub improvement: f64,
    /// The smallest improvement.
    pub worst_improvement: f64,
    /// Graphs with a positive improvement.
    pub n_wins: u64,
    /// Graphs with an improvement of 0.
    pub n_ties: u64,
    /// Graphs with a negative one.
    pub n_losses: u64,
    /// Graphs whose plan does not fit the memories.
    pub n_unfit: u64,
    /// Mean of [`Row::seconds`].
    pub seconds: f64,
}

/// The rows of many comparisons, method by method in the order of the first; those of other graphs are found by method and
/// decoder.
#[must_use]
pub fn summary(comparisons: &[Comparison]) -> Vec<MethodSummary> {
    let first = comparisons
        .first()
        .map_or(&[][..], |comparison| &comparison.rows);
    let of = |like: &Row| {
        let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
        let is_alike = |row: &&Row| (row.method, row.decoder) == (like.method, like.decoder);
        method_summary(&rows.filter(is_alike).collect::<Vec<_>>())
    };
    first.iter().filter_map(of).collect()
}

fn method_summary(rows: &[&Row]) -> Option<MethodSummary> {
    let first = rows.first()?;
    let improvements: Vec<f64> = rows.iter().filter_map(|row| row.improvement).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (n, sum) = values.fold((0u64, 0.0), |(n, sum), x| (n + 1, sum + x));
        sum / n.max(1) as f64
    };
    let count = |is: fn(f64) -> bool| improvements.iter().filter(|x| is(**x)).count() as u64;
    Some(MethodSummary {
        method: first.method,
        decoder: first.decoder,
        n_graphs: rows.len() as u64,
        gap: mean(&mut rows.iter().map(|row| row.gap)),
        gap_to_best: mean(&mut rows.iter().map(|row| row.gap_to_best)),
        improvement: mean(&mut improvements.iter().copied()),
        worst_improvement: improvements.iter().copied().reduce(f64::min).unwrap_or(0.0),
        n_wins: count(|x| x > 0.0),
        n_ties: improvements.len() as u64 - count(|x| x > 0.0) - count(|x| x < 0.0),
        n_losses: count(|x| x < 0.0),
        n_unfit: rows.iter().filter(|row| row.excess_bytes > 0).count() as u64,
        seconds: mean(&mut rows.iter().map(|row| row.seconds)),
    })
}
