//! Judge: the pairs of one split, which any number of embeddings and scores are asked about.

use shardgraph_graph::Graph;
use shardgraph_metrics::{Logistic, auc};
use shardgraph_random::KeyedRng;

use super::pairs::{degree_matched_pairs, uniform_pairs};
use super::{Auc, Operators, Split};
use crate::train::WorkerPool;
use crate::{Embedding, Error};

/// Edges that are known, edges that are held out, and pairs without an edge for each.
pub(crate) struct Judge<'s> {
    to_fit: &'s [(u32, u32)],
    held_out: &'s [(u32, u32)],
    uniform: Others,
    degree_matched: Others,
    /// Weight of the squares in the regression.
    l2: f64,
    pool: WorkerPool,
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
            pool: WorkerPool { n_threads: 1 },
        })
    }

    /// The same, with threads for its two regressions; they change no bit.
    pub(crate) fn with_threads(self, n_threads: usize) -> Judge<'s> {
        Judge {
            pool: WorkerPool { n_threads },
            ..self
        }
    }

    /// AUC of a score that needs no fit.
    pub(crate) fn score(&self, score: &dyn Fn(u32, u32) -> f64) -> Auc {
        Auc {
            uniform: self.against(&self.uniform, score),
            degree_matched: self.against(&self.degree_matched, score),
        }
    }

    /// AUC of a logistic regression over the products of the columns of two rows.
    ///
    /// # Errors
    /// What starting a thread fails with.
    pub(crate) fn embedding(&self, rows: &Embedding) -> Result<Auc, Error> {
        self.by_regression(rows, |a, b| a * b)
    }

    /// AUC of other scores of the same rows.
    ///
    /// # Errors
    /// As [`Judge::embedding`].
    ///
    /// # Source
    /// The weighted L2 operator of Grover and Leskovec, "node2vec" (2016), table 1.
    pub(crate) fn operators(&self, rows: &Embedding) -> Result<Operators, Error> {
        let dot = |u: u32, v: u32| -> f64 {
            let pairs = rows.row(u).iter().zip(rows.row(v));
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let cosine = |u: u32, v: u32| match dot(u, u) * dot(v, v) {
            squares if squares > 0.0 => dot(u, v) / squares.sqrt(),
            _ => 0.0,
        };
        Ok(Operators {
            dot: self.score(&dot),
            cosine: self.score(&cosine),
            weighted_l2: self.by_regression(rows, |a, b| (a - b) * (a - b))?,
        })
    }

    /// AUC of a logistic regression over columns that an operator makes of those of two rows.
    fn by_regression(&self, rows: &Embedding, operator: Operator) -> Result<Auc, Error> {
        let of = |others: &Others| {
            let fitted = fit(rows, operator, [self.to_fit, &others.to_fit], self.l2);
            let score = |u, v| fitted.score(&features(rows, operator, [u, v]));
            Ok(self.against(others, &score))
        };
        let aucs = self.pool.map(&[&self.uniform, &self.degree_matched], of)?;
        Ok(Auc {
            uniform: aucs[0],
            degree_matched: aucs[1],
        })
    }

    fn against(&self, others: &Others, score: &dyn Fn(u32, u32) -> f64) -> f64 {
        let scores = |pairs: &[(u32, u32)]| -> Vec<f64> {
            pairs.iter().map(|&(u, v)| score(u, v)).collect()
        };
        auc(&scores(self.held_out), &scores(&others.to_test))
    }
}

/// Makes a column of a pair from those of two rows.
type Operator = fn(f32, f32) -> f32;

/// The columns of a pair.
fn features(embedding: &Embedding, operator: Operator, pair: [u32; 2]) -> Vec<f32> {
    let [u, v] = pair.map(|node| embedding.row(node));
    u.iter().zip(v).map(|(&a, &b)| operator(a, b)).collect()
}

fn fit(
    embedding: &Embedding,
    operator: Operator,
    [edges, others]: [&[(u32, u32)]; 2],
    l2: f64,
) -> Logistic {
    let all = edges.iter().chain(others);
    let columns = |&(u, v): &(u32, u32)| features(embedding, operator, [u, v]);
    let features: Vec<f32> = all.flat_map(columns).collect();
    let labels: Vec<bool> = (0..edges.len() + others.len())
        .map(|at| at < edges.len())
        .collect();
    Logistic::fit(&features, &labels, embedding.dim(), l2)
}
