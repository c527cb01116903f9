//! How well a model classifies, as all commands show it.

use std::fmt;

use shardgraph_rgcn::Evaluation;

/// The set whose accuracy is shown: of the test, where there is one.
pub(super) fn accuracy_of(evaluation: &Evaluation) -> &'static str {
    match evaluation.test {
        Some(_) => "test",
        None => "train",
    }
}

pub(super) fn shown_accuracy(evaluation: &Evaluation) -> f64 {
    evaluation.test.unwrap_or(evaluation.train).accuracy
}

/// Scores and the table of confusions.
pub(super) fn write_evaluation(
    f: &mut fmt::Formatter<'_>,
    evaluation: &Evaluation,
    classes: &[String],
) -> fmt::Result {
    let sets = [
        ("train", Some(evaluation.train)),
        ("valid", evaluation.valid),
        ("test", evaluation.test),
    ];
    for (name, scores) in sets {
        if let Some(s) = scores {
            writeln!(
                f,
                "{name}: {} of {} right, {:.4} (95 % interval {:.4} to {:.4})",
                s.n_right, s.n_nodes, s.accuracy, s.low, s.high
            )?;
        }
    }
    writeln!(f, "class: predicted as each class, in the same order")?;
    for (class, row) in classes.iter().zip(&evaluation.confusion) {
        let counts: Vec<String> = row.iter().map(u64::to_string).collect();
        writeln!(f, "  {class}: {}", counts.join(" "))?;
    }
    Ok(())
}
