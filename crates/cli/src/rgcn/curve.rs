//! Learning curves as SVG: loss and training accuracy of each epoch, a line per seed.

use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_rgcn::{EpochReport, Outcome};

/// Picture of all seeds; empty panels where no epoch ran.
pub(super) fn svg(outcomes: &[Outcome]) -> String {
    let n_seeds = outcomes.len();
    let panel = |title: &str, y: Axis| {
        Panel::new(Axis::linear("epoch").from_zero(), y.from_zero())
            .titled(title)
            .sized(560.0, 220.0)
    };
    let mut loss = panel(
        "loss",
        Axis::linear("mean cross entropy of the training nodes"),
    );
    let mut accuracy = panel("training accuracy", Axis::linear("share of nodes"));
    for outcome in outcomes {
        loss = loss.with(curve(outcome, |report| report.loss).coloured(1));
        accuracy = accuracy.with(curve(outcome, |report| report.train_accuracy).coloured(0));
    }
    let description =
        format!("Loss and training accuracy of each epoch; a line for each of {n_seeds} seeds.");
    Figure::new("R-GCN training", description)
        .panel(loss)
        .panel(accuracy)
        .svg()
}

fn curve(outcome: &Outcome, value: fn(&EpochReport) -> f64) -> Series {
    let point = |report: &EpochReport| Point::from((report.step as f64, value(report)));
    Series::curve("", outcome.reports.iter().map(point)).faint()
}
