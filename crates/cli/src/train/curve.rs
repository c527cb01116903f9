//! Learning curves as SVG: the policy beside the greedy answer on held-back graphs, and the objectives of its episodes.

use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_solver::train::{Evaluation, StepReport, TrainOutcome};

/// The picture of a run.
pub(super) fn svg(problem: &str, outcome: &TrainOutcome) -> String {
    let panel = |title: &str, y: &str| {
        Panel::new(Axis::linear("step").from_zero(), Axis::linear(y))
            .titled(title)
            .sized(560.0, 220.0)
    };
    let evals = |value: fn(&Evaluation) -> f64| {
        let evals = outcome.reports.iter();
        let point = move |report: &StepReport| {
            let eval = report.eval?;
            Some(Point::from((report.step as f64, value(&eval))))
        };
        evals.filter_map(point).collect::<Vec<_>>()
    };
    let held_back = panel("held-back graphs", "mean objective")
        .with(Series::line("policy", evals(|eval| eval.objective)))
        .with(Series::line("best greedy", evals(|eval| eval.baseline)).grey());
    let ended = outcome.reports.iter().filter_map(|report| {
        let objective = report.objective.or(report.cover.map(|size| size as f64))?;
        Some(Point::from((report.step as f64, objective)))
    });
    let episodes = panel("training graphs", "objective of ended episodes")
        .with(Series::curve("", ended).faint());
    let description = "Mean objective on held-back graphs of the policy and of the best greedy algorithm, and the objective of each \
                       ended episode, by step.";
    Figure::new(format!("{problem}: training"), description)
        .panel(held_back)
        .panel(episodes)
        .svg()
}
