//! Rows as bars: their distance from the optimum, or from the best row where that is unknown.

use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_solver::problem::Sense;

use super::Answer;
use super::rows::Kind;
use super::score::Total;

/// Picture of all graphs together.
pub(super) fn svg(answer: &Answer) -> String {
    let totals = &answer.totals;
    let is_known = totals.iter().all(|total| total.mean_ratio.is_some());
    let reference = if is_known { "optimum" } else { "best row" };
    let bars = |kind: Kind| {
        let own = (0..).map(f64::from).zip(totals);
        let own = own.filter(move |(_, total)| total.kind == kind);
        own.map(move |(row, total)| {
            let percent = 100.0 * distance(answer, total, is_known);
            Point::from((percent, row)).with_text(format!("{percent:.2} %"))
        })
    };
    let names = totals.iter().map(|total| total.name);
    let x = Axis::linear(format!("% from the {reference}")).from_zero();
    let panel = Panel::new(x, Axis::named("", names))
        .sized(420.0, 24.0 * totals.len() as f64)
        .with(Series::bars("policy", bars(Kind::Policy)))
        .with(Series::bars("baseline", bars(Kind::Baseline)).grey());
    let n_graphs = match answer.graphs.len() {
        1 => "1 graph".to_owned(),
        n => format!("{n} graphs"),
    };
    let title = format!(
        "{}: mean distance from the {reference}, {n_graphs}, policy {}",
        answer.problem, answer.policy
    );
    let description = format!("A bar for each row: its mean distance from the {reference}.");
    Figure::new(title, description).panel(panel).svg()
}

/// 0 for the reference, 0.01 for one percent worse; an answer better than the best known one has no bar.
fn distance(answer: &Answer, total: &Total, is_known: bool) -> f64 {
    let ratio = match (is_known, total.mean_ratio) {
        (true, Some(ratio)) => ratio,
        _ => ratio_to_best(answer, total),
    };
    let worse = match answer.sense {
        Sense::Minimise => ratio - 1.0,
        Sense::Maximise => 1.0 - ratio,
    };
    worse.max(0.0)
}

fn ratio_to_best(answer: &Answer, total: &Total) -> f64 {
    let sums = answer.totals.iter().map(|total| total.sum);
    let best = match answer.sense {
        Sense::Minimise => sums.fold(f64::INFINITY, f64::min),
        Sense::Maximise => sums.fold(0.0, f64::max),
    };
    match best == 0.0 {
        true => 1.0,
        false => total.sum / best,
    }
}
