//! Several methods on the same graph, and on many graphs, in one table.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;
use shardgraph_costgraph::{DecoderKind, DeviceSet, Graph, Objective};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::place::place_watched;
use crate::plan::{Plan, ratio};
use crate::watch::Watch;

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
    /// How far the objective is above its lower bound; absent where that is 0 and the objective is not.
    pub gap: Option<f64>,
    /// How far it is above the best of the table; absent where the plan does not fit (or the best is 0, and this is not).
    pub gap_to_best: Option<f64>,
    /// By how much it is below that of the genetic algorithm with the paper's decoder; absent without that row, and where one of the
    /// two plans does not fit.
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
    /// else. [`Method::Portfolio`] takes the options' decoder, none of these.
    #[must_use]
    pub fn usual() -> Vec<(Method, DecoderKind)> {
        let mut candidates = DecoderKind::ALL.map(|kind| (Method::Brkga, kind)).to_vec();
        candidates.push((Method::TunedBrkga, DecoderKind::Paper));
        candidates.push((Method::RankBrkga, DecoderKind::Paper));
        for method in [Method::SeededBrkga, Method::Random] {
            candidates.extend([(method, DecoderKind::Paper), (method, DecoderKind::List)]);
        }
        candidates.push((Method::Portfolio, DecoderKind::List));
        let others = Method::ALL.into_iter().filter(|method| !method.decodes());
        candidates.extend(others.map(|method| (method, DecoderKind::Paper)));
        candidates
    }

    /// A table of plans of one graph, in this order.
    #[must_use]
    pub fn of(graph: &str, objective: Objective, plans: &[Plan]) -> Comparison {
        let fitting = || plans.iter().filter(|plan| plan.fits());
        let best = fitting().map(Plan::value).min();
        let reference = fitting().find(|plan| is_reference(plan.method, plan.decoder));
        let reference = reference.map(Plan::value);
        // Of plans that fit; the others would be compared with what they did not have to keep.
        let of = |plan: &Plan, of: Option<u64>| ratio(plan.value(), of.filter(|_| plan.fits())?);
        let row = |plan: &Plan| Row {
            method: plan.method,
            decoder: plan.decoder,
            runtime_ns: plan.outcome.runtime_ns,
            peak_bytes: plan.outcome.peak_bytes,
            excess_bytes: plan.outcome.excess_bytes,
            gap: plan.gap(),
            gap_to_best: of(plan, best).map(|ratio| ratio - 1.0),
            improvement: of(plan, reference).map(|ratio| 1.0 - ratio),
            evaluations: plan.evaluations,
            seconds: plan.seconds,
        };
        Comparison {
            graph: graph.to_owned(),
            objective,
            lower_bound: plans.first().map_or(0, Plan::lower_bound),
            rows: plans.iter().map(row).collect(),
        }
    }

    /// The row of the genetic algorithm with the paper's decoder.
    fn reference(&self) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| is_reference(row.method, row.decoder))
    }

    /// How a row stands against another: plans that exceed memories less come first, then those of a smaller objective.
    fn order(&self, row: &Row, other: &Row) -> Ordering {
        let key = |row: &Row| match self.objective {
            Objective::Runtime => (row.excess_bytes, row.runtime_ns),
            Objective::Memory => (row.excess_bytes, row.peak_bytes),
        };
        key(row).cmp(&key(other))
    }
}

fn is_reference(method: Method, decoder: Option<DecoderKind>) -> bool {
    method == Method::Brkga && decoder == Some(DecoderKind::Paper)
}

/// Makes a plan with each of these methods and decoders (which methods without chromosomes ignore); all plans are verified.
///
/// The watch is over each of them in turn.
///
/// # Errors
/// As [`crate::place`].
pub fn compare(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    candidates: &[(Method, DecoderKind)],
    watch: &mut Watch<'_>,
) -> Result<Comparison, Error> {
    let mut plans = Vec::new();
    for &(method, decoder) in candidates {
        let options = PlaceOptions {
            decoder: decoder_for(method, decoder, options),
            method,
            ..options.clone()
        };
        plans.push(place_watched(graph, devices, &options, watch)?);
    }
    Ok(Comparison::of(graph.name(), options.objective, &plans))
}

/// The decoder that a candidate is run with.
#[must_use]
pub fn decoder_for(
    method: Method,
    decoder: DecoderKind,
    options: &PlaceOptions,
) -> Option<DecoderKind> {
    match method {
        Method::Portfolio => options.decoder,
        _ => Some(decoder),
    }
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
            writeln!(
                f,
                "{:19} {:16} {:>14} {:>14} {:>9} {:>9} {:>8} {:>11} {:>8.3}{}",
                row.method.name(),
                row.decoder.map_or("-", DecoderKind::name),
                row.runtime_ns,
                row.peak_bytes,
                percent(row.gap, ""),
                percent(row.gap_to_best, ""),
                percent(row.improvement, "+"),
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

/// A fraction as a percentage, with this sign before positive ones; `-` where there is none.
fn percent(fraction: Option<f64>, plus: &str) -> String {
    fraction.map_or("-".to_owned(), |x| {
        let plus = if x.is_sign_negative() { "" } else { plus };
        format!("{plus}{:.2}%", 100.0 * x)
    })
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
    /// Mean of [`Row::gap`] over the graphs whose plan fits and that have one.
    pub gap: Option<f64>,
    /// Mean of [`Row::gap_to_best`] over the graphs that have one.
    pub gap_to_best: Option<f64>,
    /// Mean of [`Row::improvement`] over the graphs that have one.
    pub improvement: Option<f64>,
    /// The smallest improvement.
    pub worst_improvement: Option<f64>,
    /// Graphs where the plan is better than that of the genetic algorithm with the paper's decoder: it exceeds memories less, or as
    /// little with a smaller objective.
    pub n_wins: u64,
    /// Graphs where it is as good.
    pub n_ties: u64,
    /// Graphs where it is worse.
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
        let mut rows = Vec::new();
        for comparison in comparisons {
            let is_alike = |row: &&Row| (row.method, row.decoder) == (like.method, like.decoder);
            for row in comparison.rows.iter().filter(is_alike) {
                let reference = comparison.reference();
                rows.push((
                    row,
                    reference.map(|reference| comparison.order(row, reference)),
                ));
            }
        }
        method_summary(&rows)
    };
    first.iter().filter_map(of).collect()
}

/// From rows, each with how it stands against the reference.
fn method_summary(rows: &[(&Row, Option<Ordering>)]) -> Option<MethodSummary> {
    let (first, _) = rows.first()?;
    let over = |value: fn(&Row) -> Option<f64>| -> Vec<f64> {
        rows.iter().filter_map(|(row, _)| value(row)).collect()
    };
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let count = |is| {
        rows.iter()
            .filter(|(_, standing)| *standing == Some(is))
            .count() as u64
    };
    let improvements = over(|row| row.improvement);
    Some(MethodSummary {
        method: first.method,
        decoder: first.decoder,
        n_graphs: rows.len() as u64,
        gap: mean(&over(|row| row.gap.filter(|_| row.excess_bytes == 0))),
        gap_to_best: mean(&over(|row| row.gap_to_best)),
        improvement: mean(&improvements),
        worst_improvement: improvements.into_iter().reduce(f64::min),
        n_wins: count(Ordering::Less),
        n_ties: count(Ordering::Equal),
        n_losses: count(Ordering::Greater),
        n_unfit: rows.iter().filter(|(row, _)| row.excess_bytes > 0).count() as u64,
        seconds: rows.iter().map(|(row, _)| row.seconds).sum::<f64>() / rows.len() as f64,
    })
}
