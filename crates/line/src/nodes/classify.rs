//! One-vs-rest logistic regression of classes from rows, and its F1.

use serde::Serialize;
use shardgraph_graph::random::Stream;

use super::Classes;
use crate::eval::Logistic;
use crate::{Embedding, Error, ErrorKind};

/// How well classes are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct F1 {
    /// Over all decisions together.
    pub micro: f64,
    /// The mean over the classes that a held-out node has or is given.
    #[serde(rename = "macro")]
    pub mean: f64,
}

/// Fits a regression for each class to a share of the listed nodes, drawn at random, and judges it by the others.
///
/// A node is given as many classes as it has, those of the largest log-odds. Columns are standardised; the weight of squares is
/// 1 / (nodes to fit), as with C = 1 in scikit-learn. A class that no node to fit has is never given.
///
/// ```
/// use shardgraph_line::nodes::{Classes, classify};
/// use shardgraph_line::{Embedding, NodeLabels};
///
/// let labels = NodeLabels::numbers(8);
/// let rows = (0..8).map(|v| if v % 2 == 0 { 1.0 } else { -1.0 }).collect();
/// let text: String = (0..8).map(|v| format!("{v} {}\n", ["even", "odd"][v % 2])).collect();
/// let classes = Classes::parse("parity", &text, &labels)?;
/// let score = classify(&Embedding::new(1, rows, labels)?, &classes, 0.75, 1)?;
/// assert_eq!((score.micro, score.mean), (1.0, 1.0));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Config`] for a share that is not between 0 and 1; [`ErrorKind::Graph`] for fewer than two listed nodes.
///
/// # Source
/// Perozzi et al., "DeepWalk" (2014), section 5: the protocol that LINE's table of node classification follows.
pub fn classify(
    embedding: &Embedding,
    classes: &Classes,
    train_share: f64,
    seed: u64,
) -> Result<F1, Error> {
    judged(embedding, classes, train_share, seed, &mut |_, _| ())
}

/// As [`classify`]; `see` is shown the classes of each held-out node and those that it is given.
pub(super) fn judged(
    embedding: &Embedding,
    classes: &Classes,
    train_share: f64,
    seed: u64,
    see: &mut dyn FnMut(&[u32], &[u32]),
) -> Result<F1, Error> {
    if !(train_share > 0.0 && train_share < 1.0) {
        let expected = "a share between 0 and 1";
        return Err(Error::config("train_share", train_share, expected));
    }
    let n = classes.of_nodes().len();
    if n < 2 {
        let message = format!("{n} nodes with a class: expected 2 or more to split");
        return Err(Error::new(ErrorKind::Graph, message));
    }
    let mut nodes: Vec<&(u32, Vec<u32>)> = classes.of_nodes().iter().collect();
    Stream::new(seed, "line classes", 0).shuffle(&mut nodes);
    let n_fit = ((n as f64 * train_share).round() as usize).clamp(1, n - 1);
    let (to_fit, held_out) = nodes.split_at(n_fit);
    let fitted = fit(embedding, to_fit, classes.names().len());
    let mut counts = vec![Counts::default(); classes.names().len()];
    for (node, own) in held_out {
        let given = largest(&fitted, embedding.row(*node), own.len());
        see(own, &given);
        for &class in &given {
            match own.contains(&class) {
                true => counts[class as usize].right += 1,
                false => counts[class as usize].wrong += 1,
            }
        }
        own.iter()
            .for_each(|&class| counts[class as usize].all += 1);
    }
    Ok(f1(&counts))
}

/// Of one class: decisions for it that are right and wrong, and nodes that have it.
#[derive(Clone, Copy, Default)]
struct Counts {
    right: u64,
    wrong: u64,
    all: u64,
}

impl Counts {
    /// 2 tp / (2 tp + fp + fn).
    fn f1(self) -> f64 {
        match self.right + self.wrong + self.all {
            0 => 0.0,
            n => 2.0 * self.right as f64 / n as f64,
        }
    }
}

fn f1(counts: &[Counts]) -> F1 {
    let mut total = Counts::default();
    for class in counts {
        total.right += class.right;
        total.wrong += class.wrong;
        total.all += class.all;
    }
    let seen = counts.iter().filter(|class| class.wrong + class.all > 0);
    let scores: Vec<f64> = seen.map(|class| class.f1()).collect();
    F1 {
        micro: total.f1(),
        mean: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
    }
}

/// A regression for each class that a node to fit has.
fn fit(
    embedding: &Embedding,
    nodes: &[&(u32, Vec<u32>)],
    n_classes: usize,
) -> Vec<(u32, Logistic)> {
    let rows = nodes.iter().flat_map(|(node, _)| embedding.row(*node));
    let features: Vec<f32> = rows.copied().collect();
    let l2 = 1.0 / nodes.len() as f64;
    let mut fitted = Vec::new();
    for class in 0..n_classes as u32 {
        let has: Vec<bool> = nodes.iter().map(|(_, own)| own.contains(&class)).collect();
        if has.contains(&true) {
            fitted.push((class, Logistic::fit(&features, &has, embedding.dim(), l2)));
        }
    }
    fitted
}

/// The `k` classes of the largest log-odds; equal ones by number.
fn largest(fitted: &[(u32, Logistic)], row: &[f32], k: usize) -> Vec<u32> {
    let score = |(class, logistic): &(u32, Logistic)| (logistic.score(row), *class);
    let mut scores: Vec<(f64, u32)> = fitted.iter().map(score).collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scores.into_iter().take(k).map(|(_, class)| class).collect()
}
