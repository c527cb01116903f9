//! The trials of a choice as SVG: AUC of the held-back edges and length of rows by epochs.

use shardgraph_line::{Component, Order, Selection, Trial};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};

/// Kinds of tables that have epochs, each a line of its own colour.
const KINDS: [&str; 3] = ["order 1", "order 2", "softmax"];

/// Picture of all trials of a single table; those without epochs are levels across the panels.
pub(super) fn svg(selection: &Selection) -> String {
    let panel = |title: &str, y: &str| {
        Panel::new(Axis::log("epochs"), Axis::linear(y))
            .titled(title)
            .sized(560.0, 220.0)
    };
    let mut uniform = panel("held-back edges against uniform pairs", "AUC");
    let mut matched = panel("held-back edges against degree-matched pairs", "AUC");
    let mut norms = panel("rows", "root mean square of lengths");
    for (colour, kind) in KINDS.into_iter().enumerate() {
        let trials: Vec<(f64, &Trial)> = (selection.trials.iter())
            .filter_map(|trial| Some((epochs_of(trial, kind)?, trial)))
            .collect();
        if trials.is_empty() {
            continue;
        }
        let line = |value: fn(&Trial) -> f64| {
            let points = trials.iter();
            let points = points.map(|&(epochs, trial)| Point::from((epochs, value(trial))));
            Series::line(kind, points).coloured(colour)
        };
        uniform = uniform.with(line(|trial| trial.auc.uniform));
        matched = matched.with(line(|trial| trial.auc.degree_matched));
        norms = norms.with(line(|trial| trial.row_norm));
    }
    let description =
        "AUC of the held-back edges and length of rows by epochs, a line for each kind of table.";
    Figure::new("Choice of tables and epochs", description)
        .panel(uniform)
        .panel(matched)
        .panel(norms)
        .svg()
}

/// The epochs of a trial of one table of a kind.
fn epochs_of(trial: &Trial, kind: &str) -> Option<f64> {
    let [component] = trial.components[..] else {
        return None;
    };
    let (found, epochs) = match component {
        Component::Line { order, epochs, .. } => match order {
            Order::First => ("order 1", epochs),
            _ => ("order 2", epochs),
        },
        Component::Softmax { epochs, .. } => ("softmax", epochs),
        Component::Spectral { .. } => return None,
    };
    (found == kind).then_some(f64::from(epochs))
}
