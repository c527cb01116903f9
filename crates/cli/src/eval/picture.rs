//! The rows as bars: how far each is from the optimum, or from the best row where that is unknown.

use std::fmt::Write as _;

use shardgraph_solver::problem::Sense;

use super::Answer;
use super::rows::Kind;
use super::score::Total;

const LEFT: f64 = 230.0;
const BARS: f64 = 420.0;
const STEP: f64 = 24.0;
const TOP: f64 = 56.0;

/// The picture of all graphs together.
pub(super) fn svg(answer: &Answer) -> String {
    let is_known = answer.totals.iter().all(|total| total.mean_ratio.is_some());
    let values: Vec<f64> = answer
        .totals
        .iter()
        .map(|total| distance(answer, total, is_known))
        .collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let scale = if largest > 0.0 { BARS / largest } else { 0.0 };
    let (width, height) = (LEFT + BARS + 90.0, TOP + STEP * values.len() as f64 + 16.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    let reference = if is_known { "optimum" } else { "best row" };
    let title = format!(
        "{}: mean distance from the {reference}, {} graphs, policy {}",
        answer.problem,
        answer.graphs.len(),
        escaped(&answer.policy)
    );
    let _ = writeln!(svg, r#"<text x="10" y="24" font-size="14">{title}</text>"#);
    for ((i, total), value) in (0u32..).zip(&answer.totals).zip(values) {
        bar(&mut svg, total, (TOP + STEP * f64::from(i), scale, value));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row's name, its bar and its distance in percent.
fn bar(svg: &mut String, total: &Total, (y, scale, value): (f64, f64, f64)) {
    let colour = match total.kind {
        Kind::Policy => "#2471a3",
        Kind::Baseline => "#b0b0b0",
    };
    let (label, length, middle) = (LEFT - 8.0, value * scale, y + 12.0);
    let _ = writeln!(
        svg,
        "<text x=\"{label}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\n<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.2}\" height=\"16\" fill=\"{colour}\"/>\n<text x=\"{:.1}\" y=\"{middle:.1}\">{:.2} %</text>",
        total.name,
        LEFT + length + 6.0,
        100.0 * value,
    );
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
