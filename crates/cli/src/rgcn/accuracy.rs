//! How well a model classifies, as all commands show it.

use shardgraph_rgcn::Evaluation;

use crate::text;

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

/// Rows are classes, columns what was predicted.
pub(super) fn confusion(evaluation: &Evaluation, classes: &[String]) -> String {
    let header = ["class, predicted as".to_owned()]
        .into_iter()
        .chain(classes.iter().cloned());
    let mut rows = vec![header.collect::<Vec<String>>()];
    for (class, counts) in classes.iter().zip(&evaluation.confusion) {
        let counts = counts.iter().map(u64::to_string);
        rows.push([class.clone()].into_iter().chain(counts).collect());
    }
    let mut text = "confusion\n".to_owned();
    text::table(&rows, 2, &mut text);
    text
}
