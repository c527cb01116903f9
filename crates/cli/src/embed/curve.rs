//! Curves of a run as SVG: AUC of the held-back edges of each trial, and loss and length of rows
//! of the training, by epochs.

use shardgraph_line::{Component, Order, PassReport, Selection, Trial};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};

/// Kinds of tables that have epochs, each a line of its own colour.
const KINDS: [&str; 3] = ["order 1", "order 2", "softmax"];

/// Picture of all trials of a single table, where there was a choice, and of the training's passes.
pub(super) fn svg(selection: Option<&Selection>, passes: &[PassReport]) -> String {
    let mut panels = Vec::new();
    if let Some(selection) = selection {
        panels.extend(of_trials(selection));
    }
    if !passes.is_empty() {
        panels.extend(of_passes(passes));
    }
    let description = "AUC of the held-back edges, loss and length of rows by epochs, a line for each kind of table.";
    let figure = Figure::new("Training of an embedding", description);
    panels.into_iter().fold(figure, Figure::panel).svg()
}

fn panel(title: &str, y: &str) -> Panel {
    Panel::new(Axis::log("epochs"), Axis::linear(y))
        .titled(title)
        .sized(560.0, 220.0)
}

fn of_trials(selection: &Selection) -> [Panel; 3] {
    let mut uniform = panel("held-back edges against uniform pairs", "AUC");
    let mut matched = panel("held-back edges against degree-matched pairs", "AUC");
    let mut norms = panel("rows of the trials", "root mean square of lengths");
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
    [uniform, matched, norms]
}

/// Loss of the passes, and the length of rows where it is known.
fn of_passes(passes: &[PassReport]) -> Vec<Panel> {
    let mut losses = panel("training", "loss before updates");
    let mut norms = panel("rows of the training", "root mean square of lengths");
    for (colour, kind) in KINDS.into_iter().enumerate() {
        let own = || passes.iter().filter(|pass| pass.table() == kind);
        if own().next().is_none() {
            continue;
        }
        let loss = |pass: &PassReport| Some(Point::from((f64::from(pass.epoch), pass.loss?)));
        let norm = |pass: &PassReport| Some(Point::from((f64::from(pass.epoch), pass.row_norm?)));
        losses = losses.with(Series::line(kind, own().filter_map(loss)).coloured(colour));
        norms = norms.with(Series::line(kind, own().filter_map(norm)).coloured(colour));
    }
    let has_norms = passes.iter().any(|pass| pass.row_norm.is_some());
    let norms = has_norms.then_some(norms);
    std::iter::once(losses).chain(norms).collect()
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
