//! Softmax cross entropy over labelled nodes, summed in the order of the nodes.

use std::ops::Range;

use shardgraph_collectives::Op;

use super::comm::RankComm;
use super::layout::Layout;
use super::nodes::NodeSet;
use crate::{ClassWeights, Error};

/// The labelled nodes of one rank in what the last layer makes.
pub(crate) struct Targets {
    /// (row among the rank's, class), in the order of the nodes.
    own: Vec<(usize, u32)>,
    /// The number of each rank's.
    counts: Vec<usize>,
    /// Weight of each class in the loss; empty: each is 1.
    weights: Vec<f64>,
}

/// A labelled node of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelledRow {
    /// Its row among the rank's outputs.
    pub(crate) row: usize,
    pub(crate) class: u32,
    /// Its weight in the loss.
    pub(crate) weight: f64,
}

/// Loss and predictions of labelled nodes, the same on all ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scores {
    /// The mean cross entropy, each by the weight of its class.
    pub(crate) loss: f64,
    /// The likeliest class of each, in the order of the nodes.
    pub(crate) predicted: Vec<u32>,
}

impl Layout<'_> {
    /// The places of labels, in ascending order of nodes, on a rank.
    pub(crate) fn targets(&self, rank: usize, labels: &[(u32, u32)]) -> Targets {
        let set = &self.sets[self.n_layers()];
        Targets::new(labels, set, &self.output_places(), rank)
    }
}

impl Targets {
    /// `labels` in ascending order of nodes; `places` are each rank's in the set of the last layer.
    pub(crate) fn new(
        labels: &[(u32, u32)],
        set: &NodeSet,
        places: &[Range<usize>],
        rank: usize,
    ) -> Targets {
        let found = labels
            .iter()
            .filter_map(|&(node, class)| Some((set.place(node)?, class)));
        let found: Vec<(usize, u32)> = found.collect();
        let count = |places: &Range<usize>| {
            let is_own = |(place, _): &&(usize, u32)| places.contains(place);
            found.iter().filter(is_own).count()
        };
        let own = found
            .iter()
            .filter(|(place, _)| places[rank].contains(place));
        let first = places[rank].start;
        Targets {
            own: own.map(|&(place, class)| (place - first, class)).collect(),
            counts: places.iter().map(count).collect(),
            weights: Vec::new(),
        }
    }

    /// The same with weights of the classes of `labels`, all those that are learnt from.
    ///
    /// # Source
    /// scikit-learn's "balanced" heuristic, after King and Zeng, "Logistic regression in rare events
    /// data" (2001): n / (classes * n of a class). Classes without a node do not count.
    pub(crate) fn weighted(
        mut self,
        weights: ClassWeights,
        labels: &[(u32, u32)],
        n_classes: u32,
    ) -> Targets {
        if weights == ClassWeights::None {
            return self;
        }
        let mut counts = vec![0u32; n_classes as usize];
        for &(_, class) in labels {
            counts[class as usize] += 1;
        }
        let n_present = counts.iter().filter(|&&count| count > 0).count();
        let mean = labels.len() as f64 / n_present.max(1) as f64;
        let weight = |&count: &u32| mean / f64::from(count.max(1));
        self.weights = counts.iter().map(weight).collect();
        self
    }

    /// The number of nodes of all ranks.
    pub(crate) fn n_nodes(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The nodes of this rank, in their order.
    pub(crate) fn rows(&self) -> Vec<LabelledRow> {
        let rows = self.own.iter().map(|&(row, class)| LabelledRow {
            row,
            class,
            weight: self.weight(class),
        });
        rows.collect()
    }

    fn weight(&self, class: u32) -> f64 {
        self.weights.get(class as usize).copied().unwrap_or(1.0)
    }

    /// The likeliest class and all probabilities of each node of this rank.
    pub(crate) fn probabilities(&self, logits: &[f32], n_classes: usize) -> Vec<(u32, Vec<f64>)> {
        let of = |&(row, _): &(usize, u32)| {
            let logits = &logits[row * n_classes..][..n_classes];
            (likeliest(logits), softmax(logits).0)
        };
        self.own.iter().map(of).collect()
    }

    fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Loss and predictions, and with `gradient`, an array like `logits`, the loss's gradient in
    /// it.
    pub(crate) fn score(
        &self,
        logits: &[f32],
        n_classes: usize,
        mut gradient: Option<&mut [f32]>,
        ranks: &mut RankComm<'_>,
    ) -> Result<Scores, Error> {
        let n = self.len().max(1) as f64;
        if let Some(gradient) = &mut gradient {
            gradient.fill(0.0);
        }
        let (mut losses, mut predicted) = (Vec::new(), Vec::new());
        for &(row, class) in &self.own {
            let range = row * n_classes..(row + 1) * n_classes;
            let logits = &logits[range.clone()];
            let (probabilities, log_sum) = softmax(logits);
            let weight = self.weight(class);
            losses.push((weight * (log_sum - f64::from(logits[class as usize]))).to_bits());
            predicted.push(likeliest(logits));
            if let Some(gradient) = &mut gradient {
                let hit = |c: usize| f64::from(u8::from(c == class as usize));
                for (c, (gradient, p)) in gradient[range].iter_mut().zip(probabilities).enumerate()
                {
                    *gradient = (weight * (p - hit(c)) / n) as f32;
                }
            }
        }
        let mut all_losses = vec![0u64; self.len()];
        let mut all_predicted = vec![0u32; self.len()];
        ranks.run(Op::AllGatherV {
            send: (&losses).into(),
            recv: (&mut all_losses).into(),
            counts: &self.counts,
        })?;
        ranks.run(Op::AllGatherV {
            send: (&predicted).into(),
            recv: (&mut all_predicted).into(),
            counts: &self.counts,
        })?;
        Ok(Scores {
            loss: all_losses
                .iter()
                .map(|&bits| f64::from_bits(bits))
                .sum::<f64>()
                / n,
            predicted: all_predicted,
        })
    }
}

/// Probabilities, and the logarithm of the sum of the exponentials.
fn softmax(logits: &[f32]) -> (Vec<f64>, f64) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials = logits
        .iter()
        .map(|&x| libm::exp(f64::from(x) - f64::from(largest)));
    let exponentials: Vec<f64> = exponentials.collect();
    let sum: f64 = exponentials.iter().sum();
    let probabilities = exponentials.iter().map(|e| e / sum).collect();
    (probabilities, f64::from(largest) + libm::log(sum))
}

/// The first class of the largest logit.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (class, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = class;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_collectives::{Comm, Timeout};

    /// Slopes of the loss by central differences, and the loss itself.
    fn check_gradient(weights: ClassWeights, expected: impl Fn(f64, f64, f64) -> f64) {
        let labels = [(1, 2), (2, 0), (3, 0)];
        let places = std::slice::from_ref(&(0..4));
        let targets = Targets::new(&labels, &NodeSet::All(4), places, 0);
        let targets = targets.weighted(weights, &labels, 3);
        let logits: Vec<f32> = (0..12).map(|i| (i * 5 % 7) as f32 / 3.0).collect();
        let mut comm = Comm::solo();
        let mut ranks = RankComm::new(&mut comm, Timeout::default());
        let mut gradient = vec![7.0; 12];
        let scores = targets
            .score(&logits, 3, Some(&mut gradient), &mut ranks)
            .unwrap();
        for i in 0..12 {
            let mut moved = logits.clone();
            moved[i] += 1e-2;
            let more = targets.score(&moved, 3, None, &mut ranks).unwrap().loss;
            moved[i] -= 2e-2;
            let less = targets.score(&moved, 3, None, &mut ranks).unwrap().loss;
            let slope = (more - less) / 2e-2;
            assert!(
                (slope - f64::from(gradient[i])).abs() < 1e-4,
                "{i}: {slope} {}",
                gradient[i]
            );
        }
        let row = |node: usize| &logits[3 * node..][..3];
        assert_eq!(scores.predicted, [1, 2, 3].map(|node| likeliest(row(node))));
        let entropy = |node: usize, class: usize| {
            let (_, log_sum) = softmax(row(node));
            log_sum - f64::from(row(node)[class])
        };
        let expected = expected(entropy(1, 2), entropy(2, 0), entropy(3, 0));
        assert!(
            (scores.loss - expected).abs() < 1e-12,
            "{} {expected}",
            scores.loss
        );
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        check_gradient(ClassWeights::None, |a, b, c| (a + b + c) / 3.0);
    }

    /// Two classes occur: the one of one node weighs as much as that of two.
    #[test]
    fn balanced_classes_count_as_much_as_one_another() {
        check_gradient(ClassWeights::Balanced, |a, b, c| 0.5 * a + 0.25 * (b + c));
    }
}
