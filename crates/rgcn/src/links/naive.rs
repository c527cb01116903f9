//! DistMult, its losses and its ranks straight from their definitions, in f64. For tests.

use super::config::LinkLoss;
use super::data::{LinkData, Side};
use super::ranking::LinkScores;
use crate::{Edge, RankScores};

/// Units of nodes and vectors of relations, in rows of `width`.
pub(crate) struct Naive<'a> {
    pub(crate) width: usize,
    pub(crate) units: &'a [f64],
    pub(crate) relations: &'a [f64],
}

impl Naive<'_> {
    pub(crate) fn score(&self, triple: Edge) -> f64 {
        let at = |idx: u32, k: usize| idx as usize * self.width + k;
        let term = |k| {
            self.units[at(triple.source, k)]
                * self.relations[at(triple.relation, k)]
                * self.units[at(triple.target, k)]
        };
        (0..self.width).map(term).sum()
    }

    /// The loss of one triple with nodes that corrupt it.
    pub(crate) fn loss(&self, triple: Edge, negatives: &[u32], loss: LinkLoss) -> f64 {
        let n_tails = negatives.len().div_ceil(2);
        let (tails, heads) = negatives.split_at(n_tails);
        let tails = tails.iter().filter(|&&node| node != triple.target);
        let tails = tails.map(|&target| self.score(Edge { target, ..triple }));
        let heads = heads.iter().filter(|&&node| node != triple.source);
        let heads = heads.map(|&source| self.score(Edge { source, ..triple }));
        let (tails, heads): (Vec<f64>, Vec<f64>) = (tails.collect(), heads.collect());
        let truth = self.score(triple);
        match loss {
            LinkLoss::Logistic => {
                let logistic = |x: f64| (1.0 + x.exp()).ln();
                let corrupted = tails.iter().chain(&heads).map(|&score| logistic(score));
                (logistic(-truth) + corrupted.sum::<f64>()) / (1 + negatives.len()) as f64
            }
            LinkLoss::Softmax | LinkLoss::KvsAll => {
                let entropy = |others: &[f64]| {
                    let sum: f64 = others.iter().map(|x| x.exp()).sum();
                    (truth.exp() + sum).ln() - truth
                };
                0.5 * (entropy(&tails) + entropy(&heads))
            }
        }
    }
}

/// The ranks of both ends of triples, a node at a time, from f32 scores as the model makes them.
pub(crate) fn rank(
    data: &LinkData,
    triples: &[Edge],
    score: impl Fn(Edge, Side) -> f32,
) -> LinkScores {
    let known: Vec<Edge> = data.all().collect();
    let (mut raw, mut heads, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    for side in [Side::Head, Side::Tail] {
        for &triple in triples {
            let truth = score(triple, side);
            let (mut all, mut new) = (1.0, 1.0);
            for node in (0..data.n_nodes()).filter(|&node| node != side.of(triple)) {
                let other = match side {
                    Side::Head => Edge {
                        source: node,
                        ..triple
                    },
                    Side::Tail => Edge {
                        target: node,
                        ..triple
                    },
                };
                let found = score(other, side);
                let above = match found.partial_cmp(&truth) {
                    Some(std::cmp::Ordering::Less) => 0.0,
                    Some(std::cmp::Ordering::Equal) => 0.5,
                    _ => 1.0,
                };
                all += above;
                new += if known.contains(&other) { 0.0 } else { above };
            }
            raw.push(all);
            match side {
                Side::Head => heads.push(new),
                Side::Tail => tails.push(new),
            }
        }
    }
    let both: Vec<f64> = heads.iter().chain(&tails).copied().collect();
    LinkScores {
        filtered: scores(&both),
        raw: scores(&raw),
        filtered_heads: scores(&heads),
        filtered_tails: scores(&tails),
    }
}

fn scores(ranks: &[f64]) -> RankScores {
    let n = ranks.len().max(1) as f64;
    let hits = |most: f64| ranks.iter().filter(|&&rank| rank <= most).count() as f64 / n;
    RankScores {
        n_ranks: ranks.len() as u64,
        mrr: ranks.iter().map(|rank| 1.0 / rank).sum::<f64>() / n,
        mean_rank: ranks.iter().sum::<f64>() / n,
        hits_at_1: hits(1.0),
        hits_at_3: hits(3.0),
        hits_at_10: hits(10.0),
    }
}
