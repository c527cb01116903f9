//! Judge: the pairs of one split, which any number of embeddings and scores are asked about.

use shardgraph_graph::Graph;
use shardgraph_metrics::{Logistic, auc};
use shardgraph_random::KeyedRng;

use super::pairs::{degree_matched_pairs, uniform_pairs};
use super::{Auc, Split};
use crate::{Embedding, Error};

/// Edges that are known, edges that are held out, and pairs without an edge for each.
pub(crate) struct Judge<'s> {
    to_fit: &'s [(u32, u32)],
    held_out: &'s [(u32, u32)],
    uniform: Others,
    degree_matched: Others,
    /// Weight of the squares in the regression.
    l2: f64,
}

/// Pairs without an edge.
struct Others {
    to_fit: Vec<(u32, u32)>,
    to_test: Vec<(u32, u32)>,
}

impl<'s> Judge<'s> {
    /// Draws as many pairs as `n_fitted` edges of the split's first list and all of its second.
    ///
    /// # Errors
    /// [`Error::Graph`] where hardly a pair is without an edge.
    pub(crate) fn new(
        graph: &Graph,
        split: &'s Split,
        n_fitted: usize,
        l2: f64,
        stream: &mut KeyedRng,
    ) -> Result<Judge<'s>, Error> {
        let n_fitted = split.train.len().min(n_fitted);
        // Drawn together, so that no pair is both fitted to and asked for.
        let n = n_fitted + split.test.len();
        let cut = |mut to_fit: Vec<(u32, u32)>| Others {
            to_test: to_fit.split_off(n_fitted),
            to_fit,
        };
        Ok(Judge {
            to_fit: &split.train[..n_fitted],
            held_out: &split.test,
            uniform: cut(uniform_pairs(graph, n, stream)?),
            degree_matched: cut(degree_matched_pairs(graph, n, stream)?),
            l2,
        })
    }

    /// AUC of a score that needs no fit.
    pub(crate) fn score(&self, score: &dyn Fn(u32, u32) -> f64) -> Auc {
        Auc {
            uniform: self.against(&self.uniform, score),
            degree_matched: self.against(&self.degree_matched, score),
        }
    }

    /// AUC of a logistic regression over the products of the columns of two rows.
    pub(crate) fn embedding(&self, rows: &Embedding) -> Auc {
        let of = |others: &Others| {
            let fitted = fit(rows, self.to_fit, &others.to_fit, self.l2);
            self.against(others, &|u, v| fitted.score(&hadamard(rows, u, v)))
        };
        Auc {
            uniform: of(&self.uniform),
            degree_matched: of(&self.degree_matched),
        }
    }

    fn against(&self, others: &Others, score: &dyn Fn(u32, u32) -> f64) -> f64 {
        let scores = |pairs: &[(u32, u32)]| -> Vec<f64> {
            pairs.iter().map(|&(u, v)| score(u, v)).collect()
        };
        auc(&scores(self.held_out), &scores(&others.to_test))
    }
}

/// The products of the columns of two rows: the features of a pair.
fn hadamard(embedding: &Embedding, u: u32, v: u32) -> Vec<f32> {
    let columns = embedding.row(u).iter().zip(embedding.row(v));
    columns.map(|(a, b)| a * b).collect()
}

fn fit(embedding: &Embedding, edges: &[(u32, u32)], others: &[(u32, u32)], l2: f64) -> Logistic {
    let all = edges.iter().chain(others);
    let features: Vec<f32> = all.flat_map(|&(u, v)| hadamard(embedding, u, v)).collect();
    let labels: Vec<bool> = (0..edges.len() + others.len())
        .map(|at| at < edges.len())
        .collect();
    Logistic::fit(&features, &labels, embedding.dim(), l2)
}
