//! Scores of a model on labelled nodes: accuracies with intervals, and the confusion table.

use serde::Serialize;
use shardgraph_metrics::{confusion_matrix, wilson_interval};

use crate::Labels;

/// Scores of a model on the labelled nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Of the nodes that it learnt from.
    pub train: SetScores,
    /// Of the nodes to choose settings by, where there are any.
    pub valid: Option<SetScores>,
    /// Of the nodes to test on, where there are any.
    pub test: Option<SetScores>,
    /// Of the test nodes (without any, of the training nodes): `confusion[class][predicted]`.
    pub confusion: Vec<Vec<u64>>,
}

/// The scores of one set of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SetScores {
    /// Nodes in the set.
    pub n_nodes: u64,
    /// Those whose predicted class is right.
    pub n_right: u64,
    /// Their share.
    pub accuracy: f64,
    /// The 95 % interval of the share of right answers: its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl SetScores {
    /// Scores of counts, with the Wilson interval.
    #[must_use]
    pub fn new(n_right: u64, n_nodes: u64) -> SetScores {
        let (low, high) = wilson_interval(n_right, n_nodes);
        SetScores {
            n_nodes,
            n_right,
            accuracy: n_right as f64 / n_nodes.max(1) as f64,
            low,
            high,
        }
    }
}

/// All labelled nodes in ascending order.
pub(super) fn labelled(labels: &Labels) -> Vec<u32> {
    let sets = [labels.train(), labels.valid(), labels.test()];
    let mut nodes: Vec<u32> = sets.into_iter().flatten().map(|&(node, _)| node).collect();
    nodes.sort_unstable();
    nodes
}

/// The labelled nodes that are none to learn from, in ascending order.
pub(super) fn held_out(labels: &Labels) -> Vec<u32> {
    let sets = [labels.valid(), labels.test()];
    let mut nodes: Vec<u32> = sets.into_iter().flatten().map(|&(node, _)| node).collect();
    nodes.sort_unstable();
    nodes
}

impl Evaluation {
    /// Of predictions for `nodes`, which ascend and have all labelled ones among them.
    pub(super) fn new(labels: &Labels, nodes: &[u32], predicted: &[u32]) -> Evaluation {
        let predicted_of = |node: u32| nodes.binary_search(&node).map(|at| predicted[at]).ok();
        let score = |set: &[(u32, u32)]| {
            let is_right = |&&(node, class): &&(u32, u32)| predicted_of(node) == Some(class);
            SetScores::new(set.iter().filter(is_right).count() as u64, set.len() as u64)
        };
        let some = |set: &[(u32, u32)]| (!set.is_empty()).then(|| score(set));
        let shown = match labels.test().is_empty() {
            true => labels.train(),
            false => labels.test(),
        };
        let predictions = shown
            .iter()
            .filter_map(|&(node, class)| Some((class, predicted_of(node)?)));
        Evaluation {
            train: score(labels.train()),
            valid: some(labels.valid()),
            test: some(labels.test()),
            confusion: confusion_matrix(labels.n_classes(), predictions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_confusions_count_the_same_nodes() {
        let labels = Labels::new(
            2,
            vec![(5, 0), (1, 1)],
            vec![(3, 1), (2, 0), (0, 0)],
            vec![],
        )
        .unwrap();
        let nodes = labelled(&labels);
        assert_eq!(nodes, [0, 1, 2, 3, 5]);
        let evaluation = Evaluation::new(&labels, &nodes, &[1, 1, 0, 1, 1]);
        assert_eq!((evaluation.train.n_right, evaluation.train.n_nodes), (1, 2));
        assert_eq!(evaluation.test.unwrap().n_right, 2);
        assert_eq!(evaluation.confusion, [[1, 1], [0, 1]]);
        assert!(evaluation.valid.is_none());
    }
}
