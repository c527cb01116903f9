//! One-vs-rest logistic regression of classes from rows, and its F1.

use shardgraph_metrics::{F1, F1Counts, OneVsRest};
use shardgraph_random::KeyedRng;

use super::Classes;
use crate::{Embedding, Error};

/// Fits a regression for each class to a share of the listed nodes, drawn at random, and judges it
/// by the others.
///
/// A node is given as many classes as it has, those of the largest log-odds. Columns are
/// standardised; the weight of squares is 1 / (nodes to fit), as with C = 1 in scikit-learn. A
/// class that no node to fit has is never given.
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
/// [`Error::Setting`] for a share that is not between 0 and 1; [`Error::Graph`] for fewer than two
/// listed nodes.
///
/// # Source
/// Perozzi et al., "DeepWalk" (2014), section 5: the protocol that LINE's table of node
/// classification follows.
pub fn classify(
    embedding: &Embedding,
    classes: &Classes,
    train_share: f64,
    seed: u64,
) -> Result<F1, Error> {
    if !(train_share > 0.0 && train_share < 1.0) {
        let expected = "a share between 0 and 1";
        return Err(Error::setting("train_share", train_share, expected));
    }
    let n = classes.of_nodes().len();
    if n < 2 {
        let message = format!("{n} nodes with a class: expected 2 or more to split");
        return Err(Error::graph(message));
    }
    let mut nodes: Vec<&(u32, Vec<u32>)> = classes.of_nodes().iter().collect();
    KeyedRng::new(seed, "line classes", 0).shuffle(&mut nodes);
    let n_fit = ((n as f64 * train_share).round() as usize).clamp(1, n - 1);
    let (to_fit, held_out) = nodes.split_at(n_fit);
    let rows = to_fit.iter().flat_map(|(node, _)| embedding.row(*node));
    let features: Vec<f32> = rows.copied().collect();
    let own: Vec<&[u32]> = to_fit.iter().map(|(_, own)| own.as_slice()).collect();
    let n_classes = classes.names().len();
    let fitted = OneVsRest::fit(&features, &own, n_classes as u32, 1.0 / own.len() as f64);
    let mut counts = F1Counts::new(n_classes);
    for (node, own) in held_out {
        counts.add(own, &fitted.predict(embedding.row(*node), own.len()));
    }
    Ok(counts.f1())
}
