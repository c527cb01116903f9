//! DistMult: a triple's score is the sum over units of head * relation * tail; the losses of true
//! and corrupted triples, and their gradients.

use pulp::Arch;
use shardgraph_random::KeyedRng;

use super::config::{LinkConfig, LinkDecoder, LinkLoss};
use super::data::Side;
use crate::Edge;
use crate::layer::coefficients::glorot;
use crate::layer::optimiser::Moments;
use crate::memory::{Array, Memory, Purpose};

/// A vector for each relation.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    pub(crate) width: usize,
    pub(crate) kind: LinkDecoder,
    /// Relations of the data, where heads are asked for by vectors of inverse ones behind them.
    pub(crate) n_reciprocal: Option<u32>,
    /// `width` numbers a relation.
    pub(crate) relations: Array<f32>,
    pub(crate) moments: Moments,
    pub(super) memory: Memory,
}

/// Some true triples and the nodes that corrupt each of them: the first half their tails, the
/// others their heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) triples: &'a [Edge],
    pub(crate) negatives: &'a [u32],
}

/// A loss, and the factor of its gradients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossScale {
    pub(crate) loss: LinkLoss,
    pub(crate) scale: f32,
}

/// Gradients of nodes' units and of the relations' vectors.
#[derive(Debug)]
pub(crate) struct DecoderGradients {
    pub(crate) units: Array<f32>,
    pub(crate) relations: Array<f32>,
}

impl Decoder {
    /// Before the first step: as a matrix of relations by units.
    pub(crate) fn new(config: &LinkConfig, n_relations: u32, memory: &Memory) -> Decoder {
        let (width, encoder) = (config.width, &config.encoder);
        let n_reciprocal = config.reciprocal.then_some(n_relations);
        let n_relations = n_relations as usize * (1 + usize::from(config.reciprocal));
        let mut relations = memory.zeros(Purpose::Parameters, n_relations * width);
        let mut stream = KeyedRng::new(encoder.seed, "rgcn links relations", 0);
        glorot(&mut stream, [n_relations, width], &mut relations);
        Decoder {
            width,
            kind: config.decoder,
            n_reciprocal,
            moments: Moments::new(
                memory,
                Purpose::Parameters,
                encoder.optimiser,
                relations.len(),
            ),
            relations,
            memory: memory.clone(),
        }
    }

    /// The vector whose product with an end's units is the triple's score.
    pub(crate) fn query(&self, units: &[f32], triple: Edge, side: Side, query: &mut [f32]) {
        let given = row(units, side.given(triple), self.width);
        let relation = match (self.n_reciprocal, side) {
            (Some(n), Side::Head) => triple.relation + n,
            _ => triple.relation,
        };
        self.query_of(given, relation, query);
    }

    /// The vector whose product with a tail's units is the score of its triple with a given head.
    pub(crate) fn query_of(&self, given: &[f32], relation: u32, query: &mut [f32]) {
        let relation = row(&self.relations, relation, self.width);
        if self.kind == LinkDecoder::ComplEx {
            return complex_product(given, relation, query);
        }
        for ((query, x), r) in query.iter_mut().zip(given).zip(relation) {
            *query = x * r;
        }
    }

    /// Adds the gradient of a query to those of the two vectors that it is made of.
    #[inline(always)]
    pub(super) fn add_of_query(&self, of_query: &[f32], other: &[f32], sum: &mut [f32]) {
        match self.kind {
            LinkDecoder::DistMult => add_product(of_query, other, sum),
            LinkDecoder::ComplEx => add_conjugate_product(of_query, other, sum),
        }
    }

    /// The sum of the losses of a chunk's triples; adds `scale` times their gradients.
    ///
    /// # Complexity
    /// 3 * triples * negatives * width multiplications; each corrupting node's units are read, and
    /// its gradient written, once a chunk.
    pub(crate) fn chunk(
        &self,
        units: &[f32],
        chunk: Chunk<'_>,
        scale: LossScale,
        gradients: &mut DecoderGradients,
    ) -> f64 {
        let width = self.width;
        let n_numbers = chunk.negatives.len() * width;
        let mut gathered = self.memory.zeros(Purpose::Gradients, n_numbers);
        for (row_of_node, &node) in gathered.chunks_exact_mut(width).zip(chunk.negatives) {
            row_of_node.copy_from_slice(row(units, node, width));
        }
        let mut pass = ChunkPass {
            decoder: self,
            negatives: chunk.negatives,
            n_tails: match self.n_reciprocal {
                Some(_) => chunk.negatives.len(),
                None => chunk.negatives.len().div_ceil(2),
            },
            gradient: self.memory.zeros(Purpose::Gradients, n_numbers),
            gathered,
            scores: Vec::new(),
            work: vec![0.0; 4 * width],
        };
        if self.memory.is_dry() {
            return 0.0;
        }
        let arch = Arch::new();
        let mut sum = 0.0;
        for &triple in chunk.triples {
            sum += arch.dispatch(
                #[inline(always)]
                || pass.triple(units, triple, scale, gradients),
            );
        }
        let rows = pass.gradient.chunks_exact(width);
        for (&node, gradient) in chunk.negatives.iter().zip(rows) {
            add(1.0, gradient, row_mut(&mut gradients.units, node, width));
        }
        sum
    }
}

/// A chunk under way.
struct ChunkPass<'a> {
    decoder: &'a Decoder,
    negatives: &'a [u32],
    /// The number of them that corrupt tails.
    n_tails: usize,
    /// The units of the negatives, and their gradients.
    gathered: Array<f32>,
    gradient: Array<f32>,
    /// Of the true triple, then of the corrupted ones; they become their slopes.
    scores: Vec<f32>,
    /// Queries for tails and heads, and the gradients of both.
    work: Vec<f32>,
}

impl ChunkPass<'_> {
    /// A triple's loss; adds its gradients.
    #[inline(always)]
    fn triple(
        &mut self,
        units: &[f32],
        triple: Edge,
        scale: LossScale,
        gradients: &mut DecoderGradients,
    ) -> f64 {
        self.score(units, triple);
        let LossScale { loss, scale } = scale;
        let value = loss.slopes(&mut self.scores, self.n_tails);
        self.scores.iter_mut().for_each(|slope| *slope *= scale);
        self.add_gradients(units, triple, gradients);
        value
    }

    /// The queries of a triple, and all scores.
    #[inline(always)]
    fn score(&mut self, units: &[f32], triple: Edge) {
        let width = self.decoder.width;
        let (for_tails, others) = self.work.split_at_mut(width);
        let for_heads = &mut others[..width];
        self.decoder.query(units, triple, Side::Tail, for_tails);
        if self.decoder.n_reciprocal.is_none() {
            self.decoder.query(units, triple, Side::Head, for_heads);
        }
        self.scores.clear();
        self.scores
            .push(dot(for_tails, row(units, triple.target, width)));
        let rows = self.gathered.chunks_exact(width);
        for (idx, (negative, &node)) in rows.zip(self.negatives).enumerate() {
            let (query, own) = match idx < self.n_tails {
                true => (&*for_tails, triple.target),
                false => (&*for_heads, triple.source),
            };
            // What is no corruption but the triple itself counts for nothing.
            let score = dot(query, negative);
            let is_own = node == own;
            self.scores
                .push(if is_own { f32::NEG_INFINITY } else { score });
        }
    }

    /// Adds what the slopes make of a triple's units, of its negatives' and of its relation.
    #[inline(always)]
    fn add_gradients(&mut self, units: &[f32], triple: Edge, gradients: &mut DecoderGradients) {
        let width = self.decoder.width;
        let (queries, of_queries) = self.work.split_at_mut(2 * width);
        let (for_tails, for_heads) = queries.split_at(width);
        let Edge {
            source,
            relation,
            target,
        } = triple;
        let [head, tail] = [source, target].map(|node| row(units, node, width));
        of_queries.fill(0.0);
        let (of_tails, of_heads) = of_queries.split_at_mut(width);
        add(self.scores[0], tail, of_tails);
        add(
            self.scores[0],
            for_tails,
            row_mut(&mut gradients.units, target, width),
        );
        let rows = self.gathered.chunks_exact(width);
        let rows = rows.zip(self.gradient.chunks_exact_mut(width));
        for (idx, ((negative, gradient), &slope)) in rows.zip(&self.scores[1..]).enumerate() {
            let (query, of_query) = match idx < self.n_tails {
                true => (for_tails, &mut *of_tails),
                false => (for_heads, &mut *of_heads),
            };
            add_both(slope, negative, of_query, query, gradient);
        }
        let vector = row(&self.decoder.relations, relation, width);
        let of_source = row_mut(&mut gradients.units, source, width);
        self.decoder.add_of_query(of_tails, vector, of_source);
        let of_relation = row_mut(&mut gradients.relations, relation, width);
        self.decoder.add_of_query(of_tails, head, of_relation);
        if self.decoder.n_reciprocal.is_none() {
            let of_target = row_mut(&mut gradients.units, target, width);
            add_product(of_heads, vector, of_target);
            add_product(of_heads, tail, of_relation);
        }
    }
}

impl LinkLoss {
    /// The loss of a true triple's score among those of corrupted ones, `n_tails` of the tail and
    /// the rest of the head; scores become slopes.
    pub(crate) fn slopes(self, scores: &mut [f32], n_tails: usize) -> f64 {
        match self {
            LinkLoss::Logistic => {
                let (truth, corrupted) = scores.split_at_mut(1);
                let share = 1.0 / (1 + corrupted.len()) as f32;
                let mut loss = 0.0;
                for (sign, scores) in [(-1.0, truth), (1.0, corrupted)] {
                    for score in scores {
                        let x = sign * *score;
                        let exponential = libm::expf(-x.abs());
                        loss += f64::from(x.max(0.0) + libm::log1pf(exponential));
                        let p = if x > 0.0 { 1.0 } else { exponential } / (1.0 + exponential);
                        *score = sign * p * share;
                    }
                }
                loss * f64::from(share)
            }
            // Over all nodes, the corrupted ones are all others.
            LinkLoss::Softmax | LinkLoss::KvsAll => {
                let (truth, corrupted) = scores.split_at_mut(1);
                let (tails, heads) = corrupted.split_at_mut(n_tails);
                let (of_tails, tail_slope) = cross_entropy(truth[0], tails);
                let (of_heads, head_slope) = cross_entropy(truth[0], heads);
                truth[0] = tail_slope + head_slope;
                of_tails + of_heads
            }
        }
    }
}

/// Half the cross entropy of a true score among corrupted ones, which become slopes, and the true
/// one's slope.
#[inline(always)]
fn cross_entropy(truth: f32, corrupted: &mut [f32]) -> (f64, f32) {
    let largest = corrupted.iter().copied().fold(truth, f32::max);
    let mut sum = f64::from(libm::expf(truth - largest));
    for score in corrupted.iter_mut() {
        *score = libm::expf(*score - largest);
        sum += f64::from(*score);
    }
    let factor = (0.5 / sum) as f32;
    corrupted.iter_mut().for_each(|score| *score *= factor);
    let entropy = libm::log(sum) + f64::from(largest) - f64::from(truth);
    (0.5 * entropy, factor * libm::expf(truth - largest) - 0.5)
}

/// The products of complex numbers, real parts first.
#[inline(always)]
fn complex_product(a: &[f32], b: &[f32], product: &mut [f32]) {
    let half = product.len() / 2;
    let (real, imaginary) = product.split_at_mut(half);
    let ((a_re, a_im), (b_re, b_im)) = (a.split_at(half), b.split_at(half));
    for idx in 0..half {
        real[idx] = a_re[idx] * b_re[idx] - a_im[idx] * b_im[idx];
        imaginary[idx] = a_re[idx] * b_im[idx] + a_im[idx] * b_re[idx];
    }
}

/// sum += a * conjugate(b), of complex numbers, real parts first: the gradient of a product's other
/// factor.
#[inline(always)]
fn add_conjugate_product(a: &[f32], b: &[f32], sum: &mut [f32]) {
    let half = sum.len() / 2;
    let (real, imaginary) = sum.split_at_mut(half);
    let ((a_re, a_im), (b_re, b_im)) = (a.split_at(half), b.split_at(half));
    for idx in 0..half {
        real[idx] += a_re[idx] * b_re[idx] + a_im[idx] * b_im[idx];
        imaginary[idx] += a_im[idx] * b_re[idx] - a_re[idx] * b_im[idx];
    }
}

/// The `width` numbers of a node or a relation.
#[inline(always)]
pub(crate) fn row(values: &[f32], idx: u32, width: usize) -> &[f32] {
    &values[idx as usize * width..][..width]
}

#[inline(always)]
fn row_mut(values: &mut [f32], idx: u32, width: usize) -> &mut [f32] {
    &mut values[idx as usize * width..][..width]
}

/// Numbers that are summed side by side: the same on every processor, so that the bits are too.
const LANES: usize = 16;

/// The product of two vectors.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let a = &a[..b.len()];
    let (whole_a, whole_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = whole_a.remainder().iter().zip(whole_b.remainder());
    for (a, b) in whole_a.zip(whole_b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(rest) {
        *lane += a * b;
    }
    tree_sum(lanes)
}

/// The sum of the lanes, halves first.
#[inline(always)]
fn tree_sum(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// sum += factor * values.
#[inline(always)]
fn add(factor: f32, values: &[f32], sum: &mut [f32]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += factor * value;
    }
}

/// Two sums at once: each += factor * its values.
#[inline(always)]
fn add_both(factor: f32, a: &[f32], sum_a: &mut [f32], b: &[f32], sum_b: &mut [f32]) {
    let first = sum_a.iter_mut().zip(a);
    let second = sum_b.iter_mut().zip(b);
    for ((sum_a, a), (sum_b, b)) in first.zip(second) {
        *sum_a += factor * a;
        *sum_b += factor * b;
    }
}

/// sum += a * b, number by number.
#[inline(always)]
fn add_product(a: &[f32], b: &[f32], sum: &mut [f32]) {
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum += a * b;
    }
}
