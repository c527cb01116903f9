//! The loss of questions over all nodes: scores of a batch of questions by all nodes as one dense
//! product, the cross entropy of the true ends, and its gradients by two more.
//!
//! Nodes are cut into [`N_BLOCKS`] blocks, whatever the number of ranks. A rank computes the
//! products of its blocks, and sums over blocks are taken in the blocks' order: so any number of
//! ranks makes the same bits.

use std::ops::Range;

use pulp::Arch;
use shardgraph_collectives::Op;
use shardgraph_ops::{MatMul, matmul_of_slices};
use shardgraph_random::KeyedRng;

use super::decoder::{Decoder, dot, row};
use super::questions::Asked;
use crate::Error;
use crate::memory::{Array, Memory, Purpose};
use crate::model::comm::RankComm;

/// Blocks of nodes: the most ranks that share a step.
pub(crate) const N_BLOCKS: usize = 16;

/// The cut of the nodes into blocks, and of the blocks over ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeBlocks {
    n_nodes: usize,
    rank: usize,
    n_ranks: usize,
}

impl NodeBlocks {
    pub(crate) fn new(n_nodes: u32, rank: u32, n_ranks: u32) -> NodeBlocks {
        NodeBlocks {
            n_nodes: n_nodes as usize,
            rank: rank as usize,
            n_ranks: n_ranks as usize,
        }
    }

    fn blocks_of(&self, rank: usize) -> Range<usize> {
        rank * N_BLOCKS / self.n_ranks..(rank + 1) * N_BLOCKS / self.n_ranks
    }

    fn nodes_of(&self, blocks: Range<usize>) -> Range<usize> {
        let begin = |block: usize| block * self.n_nodes / N_BLOCKS;
        begin(blocks.start)..begin(blocks.end)
    }

    fn own_blocks(&self) -> Range<usize> {
        self.blocks_of(self.rank)
    }

    /// The nodes of this rank.
    pub(crate) fn own_nodes(&self) -> Range<usize> {
        self.nodes_of(self.own_blocks())
    }

    /// Numbers of each rank's nodes, `width` a node.
    pub(crate) fn counts(&self, width: usize) -> Vec<usize> {
        let count = |rank| self.nodes_of(self.blocks_of(rank)).len() * width;
        (0..self.n_ranks).map(count).collect()
    }

    /// The rows of all nodes from each rank's own.
    pub(crate) fn gather_rows(
        &self,
        own: &[f32],
        width: usize,
        ranks: &mut RankComm<'_>,
        memory: &Memory,
    ) -> Result<Array<f32>, Error> {
        gather(own, &self.counts(width), ranks, memory)
    }

    /// Numbers of all blocks, `len` a block.
    fn gather_blocks(
        &self,
        own: Array<f32>,
        len: usize,
        ranks: &mut RankComm<'_>,
        memory: &Memory,
    ) -> Result<Array<f32>, Error> {
        if self.n_ranks == 1 {
            return Ok(own);
        }
        let counts: Vec<usize> = (0..self.n_ranks)
            .map(|rank| self.blocks_of(rank).len() * len)
            .collect();
        gather(&own, &counts, ranks, memory)
    }
}

fn gather(
    own: &[f32],
    counts: &[usize],
    ranks: &mut RankComm<'_>,
    memory: &Memory,
) -> Result<Array<f32>, Error> {
    let mut all = memory.zeros(Purpose::Gradients, counts.iter().sum());
    ranks.run(Op::AllGatherV {
        send: own.into(),
        recv: (&mut all[..]).into(),
        counts,
    })?;
    Ok(all)
}

/// Gradients of a step: of this rank's nodes, and of all relations.
#[derive(Debug)]
pub(crate) struct OwnGradients {
    pub(crate) units: Array<f32>,
    pub(crate) relations: Array<f32>,
}

/// Buffers of steps over all nodes, kept from one to the next.
pub(crate) struct KvsAll {
    pub(crate) blocks: NodeBlocks,
    memory: Memory,
    /// `[questions, width]`.
    queries: Array<f32>,
    /// Of each own block: `[questions, nodes]`.
    scores: Vec<Array<f32>>,
    /// The factor of each number of the queries; empty without dropout.
    masks: Array<f32>,
}

/// The factor of a step's gradients, and the part of its queries that is dropped.
#[derive(Clone, Copy)]
pub(crate) struct StepScale {
    pub(crate) scale: f32,
    /// The share of a query's numbers that are zero, the others scaled so that the mean stays.
    pub(crate) dropout: f32,
    /// The seed and the step that the dropped ones are drawn by.
    pub(crate) seed: u64,
    pub(crate) step: u64,
}

/// The model that is asked.
#[derive(Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) decoder: &'a Decoder,
    /// A row for each node, those of other ranks too.
    pub(crate) units: &'a [f32],
}

impl KvsAll {
    pub(crate) fn new(blocks: NodeBlocks, memory: &Memory) -> KvsAll {
        let empty = || memory.zeros(Purpose::Gradients, 0);
        KvsAll {
            blocks,
            queries: empty(),
            scores: blocks.own_blocks().map(|_| empty()).collect(),
            masks: empty(),
            memory: memory.clone(),
        }
    }

    /// The sum of the cross entropies of all true ends among all nodes, and `scale` times its
    /// gradients.
    ///
    /// # Complexity
    /// 6 * questions * nodes * width FLOP, over the ranks; memory is questions * nodes scores.
    /// A rank receives 16 rows of `width` numbers a question.
    /// # Source
    /// Lacroix et al., "Canonical tensor decomposition for knowledge base completion" (2018),
    /// equation 2 with reciprocal relations; questions scored once for all ends as in Dettmers et
    /// al., "Convolutional 2D knowledge graph embeddings" (2018), 1-N scoring.
    pub(crate) fn gradients(
        &mut self,
        model: Model<'_>,
        asked: &[Asked<'_>],
        step: StepScale,
        ranks: &mut RankComm<'_>,
    ) -> Result<(f64, OwnGradients), Error> {
        let (n_questions, width) = (asked.len(), model.decoder.width);
        self.draw_masks(step, n_questions * width);
        self.score(model, asked)?;
        let own = self.exponentials(n_questions);
        let memory = self.memory.clone();
        let blocks = (self.blocks).gather_blocks(own, 2 * n_questions, ranks, &memory)?;
        let _of_sums = memory.hold(Purpose::Gradients, (n_questions * size_of::<Sum>()) as u64);
        let mut loss = 0.0;
        if !memory.is_dry() {
            let sums = block_sums(&blocks, n_questions);
            self.slopes(&sums, asked, step.scale);
            loss = loss_of(model, asked, &self.queries, &sums);
        }
        let (mut of_queries, units) = self.products(model, n_questions, ranks)?;
        let n_relations = model.decoder.relations.len();
        let mut gradients = OwnGradients {
            units,
            relations: memory.zeros(Purpose::Gradients, n_relations),
        };
        mask(&mut of_queries, &self.masks);
        let own = self.blocks.own_nodes();
        for (asked, of_query) in asked.iter().zip(of_queries.chunks_exact(width)) {
            let given = row(model.units, asked.given, width);
            let relation = row(&model.decoder.relations, asked.relation, width);
            let of_relation = &mut gradients.relations[asked.relation as usize * width..][..width];
            model.decoder.add_of_query(of_query, given, of_relation);
            if own.contains(&(asked.given as usize)) {
                let idx = asked.given as usize - own.start;
                let of_given = &mut gradients.units[idx * width..][..width];
                model.decoder.add_of_query(of_query, relation, of_given);
            }
        }
        Ok((loss, gradients))
    }

    /// Adds the gradient of `n3` times the sums of cubes of the triples' vectors.
    ///
    /// # Source
    /// Lacroix et al. (2018), section 4.2.
    pub(crate) fn add_n3(
        &self,
        n3: f32,
        model: Model<'_>,
        asked: &[Asked<'_>],
        gradients: &mut OwnGradients,
    ) {
        let width = model.decoder.width;
        if self.memory.is_dry() {
            return;
        }
        let own = self.blocks.own_nodes();
        let add = |factor: f32, values: &[f32], gradient: &mut [f32]| {
            for (gradient, x) in gradient.iter_mut().zip(values) {
                *gradient += 3.0 * factor * x * x.abs();
            }
        };
        for asked in asked {
            let times = asked.ends.len() as f32;
            let relation = row(&model.decoder.relations, asked.relation, width);
            let of_relation = &mut gradients.relations[asked.relation as usize * width..][..width];
            add(times * n3, relation, of_relation);
            let ends = asked.ends.iter().map(|&end| (1.0, end));
            for (times, node) in [(times, asked.given)].into_iter().chain(ends) {
                if own.contains(&(node as usize)) {
                    let idx = node as usize - own.start;
                    let of_node = &mut gradients.units[idx * width..][..width];
                    add(times * n3, row(model.units, node, width), of_node);
                }
            }
        }
    }

    /// Draws the numbers of the queries that are dropped, the same on all ranks.
    fn draw_masks(&mut self, step: StepScale, len: usize) {
        if step.dropout <= 0.0 {
            return;
        }
        self.masks.resize(len);
        let kept = 1.0 / (1.0 - step.dropout);
        let mut stream = KeyedRng::new(step.seed, "rgcn links dropout", step.step);
        let mut draw = || match stream.uniform_f32() >= step.dropout {
            true => kept,
            false => 0.0,
        };
        self.masks.iter_mut().for_each(|mask| *mask = draw());
    }

    /// Queries, and their scores by all nodes of this rank.
    fn score(&mut self, model: Model<'_>, asked: &[Asked<'_>]) -> Result<(), Error> {
        let width = model.decoder.width;
        self.queries.resize(asked.len() * width);
        for (asked, query) in asked.iter().zip(self.queries.chunks_exact_mut(width)) {
            let given = row(model.units, asked.given, width);
            model.decoder.query_of(given, asked.relation, query);
        }
        mask(&mut self.queries, &self.masks);
        for (block, scores) in self.blocks.own_blocks().zip(&mut self.scores) {
            let nodes = self.blocks.nodes_of(block..block + 1);
            scores.resize(asked.len() * nodes.len());
            if self.memory.is_dry() {
                continue;
            }
            let shape = MatMul {
                rows: asked.len(),
                inner: width,
                cols: nodes.len(),
                transpose_a: false,
                transpose_b: true,
            };
            let units = &model.units[nodes.start * width..nodes.end * width];
            matmul_of_slices(shape, &self.queries, units, scores)?;
        }
        Ok(())
    }

    /// Turns scores into exponentials of their distance to the greatest of their block; these
    /// greatest scores and the sums, a pair a question, block after block.
    fn exponentials(&mut self, n_questions: usize) -> Array<f32> {
        let n_pairs = n_questions * self.scores.len();
        let mut pairs = self.memory.zeros(Purpose::Gradients, 2 * n_pairs);
        let blocks = pairs.chunks_exact_mut(2 * n_questions);
        for (scores, pairs) in self.scores.iter_mut().zip(blocks) {
            let scores = &mut scores[..];
            let n_nodes = scores.len() / n_questions;
            Arch::new().dispatch(
                #[inline(always)]
                || {
                    for (question, pair) in pairs.chunks_exact_mut(2).enumerate() {
                        let scores = &mut scores[question * n_nodes..][..n_nodes];
                        pair.copy_from_slice(&exponentials_of(scores));
                    }
                },
            );
        }
        pairs
    }

    /// Turns the exponentials into the slopes of the loss by the scores.
    fn slopes(&mut self, sums: &[Sum], asked: &[Asked<'_>], scale: f32) {
        for (block, scores) in self.blocks.own_blocks().zip(&mut self.scores) {
            let nodes = self.blocks.nodes_of(block..block + 1);
            if nodes.is_empty() {
                continue;
            }
            let scores = scores.chunks_exact_mut(nodes.len());
            for ((asked, sum), scores) in asked.iter().zip(sums).zip(scores) {
                let factor = scale * asked.ends.len() as f32 * sum.factors[block];
                scores.iter_mut().for_each(|score| *score *= factor);
                for &end in asked.ends {
                    if nodes.contains(&(end as usize)) {
                        scores[end as usize - nodes.start] -= scale;
                    }
                }
            }
        }
    }

    /// The gradients of the queries, of all blocks together, and of this rank's nodes.
    fn products(
        &self,
        model: Model<'_>,
        n_questions: usize,
        ranks: &mut RankComm<'_>,
    ) -> Result<(Array<f32>, Array<f32>), Error> {
        let (memory, width) = (&self.memory, model.decoder.width);
        let (len, own) = (n_questions * width, self.blocks.own_nodes());
        let mut of_queries = memory.zeros(Purpose::Gradients, self.scores.len() * len);
        let mut of_units = memory.zeros(Purpose::Gradients, own.len() * width);
        let blocks = self.blocks.own_blocks().zip(&self.scores);
        for ((block, slopes), of_queries) in blocks.zip(of_queries.chunks_exact_mut(len)) {
            let nodes = self.blocks.nodes_of(block..block + 1);
            let of_query = MatMul {
                rows: n_questions,
                inner: nodes.len(),
                cols: width,
                transpose_a: false,
                transpose_b: false,
            };
            let units = &model.units[nodes.start * width..nodes.end * width];
            matmul_of_slices(of_query, slopes, units, of_queries)?;
            let of_unit = MatMul {
                rows: nodes.len(),
                inner: n_questions,
                cols: width,
                transpose_a: true,
                transpose_b: false,
            };
            let first = (nodes.start - own.start) * width;
            let of_units = &mut of_units[first..][..nodes.len() * width];
            matmul_of_slices(of_unit, slopes, &self.queries, of_units)?;
        }
        let all = self.blocks.gather_blocks(of_queries, len, ranks, memory)?;
        let mut sum = memory.zeros(Purpose::Gradients, len);
        let mut blocks = all.chunks_exact(len);
        if let Some(first) = blocks.next() {
            sum.copy_from_slice(first);
        }
        for block in blocks {
            sum.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
        }
        Ok((sum, of_units))
    }
}

/// Multiplies numbers by their masks, where there are any.
fn mask(numbers: &mut [f32], masks: &[f32]) {
    for (number, mask) in numbers.iter_mut().zip(masks) {
        *number *= mask;
    }
}

/// The softmax of a question over all nodes, in parts.
#[derive(Clone, Debug)]
struct Sum {
    /// The logarithm of the sum of all exponentials of scores.
    log: f64,
    /// Of each block: the factor from its exponentials to probabilities.
    factors: [f32; N_BLOCKS],
}

/// The softmax sums of all questions, from pairs of all blocks.
fn block_sums(pairs: &[f32], n_questions: usize) -> Vec<Sum> {
    let sum_of = |question: usize| {
        let pair = |block: usize| {
            let at = 2 * (block * n_questions + question);
            (pairs[at], pairs[at + 1])
        };
        let largest = (0..N_BLOCKS).map(|block| pair(block).0);
        let largest = largest.fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        let mut factors = [0.0; N_BLOCKS];
        for (block, factor) in factors.iter_mut().enumerate() {
            let (greatest, exponentials) = pair(block);
            *factor = libm::expf(greatest - largest);
            sum += f64::from(*factor) * f64::from(exponentials);
        }
        factors
            .iter_mut()
            .for_each(|factor| *factor = (f64::from(*factor) / sum) as f32);
        Sum {
            log: f64::from(largest) + libm::log(sum),
            factors,
        }
    };
    (0..n_questions).map(sum_of).collect()
}

/// The sum of the cross entropies of all true ends.
fn loss_of(model: Model<'_>, asked: &[Asked<'_>], queries: &[f32], sums: &[Sum]) -> f64 {
    let width = model.decoder.width;
    let mut loss = 0.0;
    for ((asked, query), sum) in asked.iter().zip(queries.chunks_exact(width)).zip(sums) {
        for &end in asked.ends {
            loss += sum.log - f64::from(dot(query, row(model.units, end, width)));
        }
    }
    loss
}

/// Numbers that are summed side by side.
const LANES: usize = 16;

/// Turns scores into exponentials of their distance to the greatest; it, and their sum.
#[inline(always)]
fn exponentials_of(scores: &mut [f32]) -> [f32; 2] {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = scores.chunks_exact(LANES);
    let rest = chunks
        .remainder()
        .iter()
        .copied()
        .fold(f32::NEG_INFINITY, larger);
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    let largest = lanes.into_iter().fold(rest, larger);
    let mut sums = [0.0f32; LANES];
    let mut chunks = scores.chunks_exact_mut(LANES);
    for chunk in &mut chunks {
        for lane in 0..LANES {
            chunk[lane] = exp(chunk[lane] - largest);
            sums[lane] += chunk[lane];
        }
    }
    for (score, sum) in chunks.into_remainder().iter_mut().zip(&mut sums) {
        *score = exp(*score - largest);
        *sum += *score;
    }
    [largest, sums.into_iter().sum()]
}

/// `e^x` for `x` up to 0, to about 2^-23 of itself, without a call; below -87 that of -87. What is
/// no number stays none.
///
/// With `k` the whole number nearest to `x / ln 2`, it is `2^k e^r`; `e^r` is its Taylor sum, whose
/// rest is below `0.35^7 / 7!`.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding it leaves no bit behind the point.
    const TO_WHOLE: f32 = 12_582_912.0;
    /// The first bits of ln 2, so few that a product with `k` is exact, and the rest.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + TO_WHOLE;
    let k = shifted - TO_WHOLE;
    let r = (x - k * LN_2[0]) - k * LN_2[1];
    let tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0));
    let sum = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)));
    let exponent = shifted.to_bits().wrapping_sub(TO_WHOLE.to_bits());
    f32::from_bits(exponent.wrapping_add(127) << 23) * sum
}
