//! Ranks of true links among all nodes that could be at their head or tail.

use std::cmp::Ordering;

use pulp::Arch;
use serde::{Deserialize, Serialize};
use shardgraph_collectives::Op;
use shardgraph_metrics::{RankScores, RankSums};
use shardgraph_ops::{MatMul, matmul_of_slices};

use super::data::{Known, Side};
use super::decoder::Decoder;
use crate::memory::{Array, Memory, Purpose};
use crate::model::comm::RankComm;
use crate::{Edge, Error};

/// The ranks of true links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkScores {
    /// Among all nodes that do not make another known triple; heads and tails together.
    pub filtered: RankScores,
    /// Among all nodes.
    pub raw: RankScores,
    /// Of heads alone, filtered.
    pub filtered_heads: RankScores,
    /// Of tails alone, filtered.
    pub filtered_tails: RankScores,
}

/// Bytes of scores that exist at a time.
const SCORE_BYTES: usize = 16 << 20;
/// The most queries that are scored together.
const N_QUERIES: usize = 256;

/// The number of queries that are scored together by `n_nodes` nodes.
pub(crate) fn queries_of_product(n_nodes: usize) -> usize {
    (SCORE_BYTES / 4 / n_nodes.max(1)).clamp(1, N_QUERIES)
}

/// A model whose links are ranked.
#[derive(Clone, Copy)]
pub(crate) struct RankedModel<'a> {
    pub(crate) decoder: &'a Decoder,
    pub(crate) n_nodes: usize,
    /// A row for each node.
    pub(crate) units: &'a [f32],
    /// The ends that filtered ranks leave out.
    pub(crate) known: &'a Known,
}

/// The ranks of one side of some triples.
#[derive(Default)]
struct SideRanks {
    raw: Vec<f64>,
    filtered: Vec<f64>,
}

impl RankedModel<'_> {
    /// Ranks both ends of each triple among all nodes; every rank takes a part of the triples.
    ///
    /// # Complexity
    /// 4 * triples * nodes * width FLOP; memory is at most 256 queries by all nodes, of about 16
    /// MiB.
    /// # Determinism
    /// A triple's scores do not depend on those that are scored with it: any number of ranks gives
    /// the same.
    pub(crate) fn rank(
        &self,
        triples: &[Edge],
        ranks: &mut RankComm<'_>,
    ) -> Result<LinkScores, Error> {
        let (rank, n_ranks) = (ranks.comm.rank() as usize, ranks.comm.size() as usize);
        let begin = |rank: usize| rank * triples.len() / n_ranks;
        let own = &triples[begin(rank)..begin(rank + 1)];
        let counts: Vec<usize> = (0..n_ranks)
            .map(|rank| begin(rank + 1) - begin(rank))
            .collect();
        let n_queries = queries_of_product(self.n_nodes);
        let mut scorer = Scorer::new(*self, n_queries, &self.decoder.memory);
        if self.decoder.memory.is_dry() {
            return Ok(LinkScores::default());
        }
        let [heads, tails] = [Side::Head, Side::Tail].map(|side| -> Result<_, Error> {
            let SideRanks { raw, filtered } = self.side_ranks(&mut scorer, own, side)?;
            Ok([
                gather_ranks(&raw, &counts, ranks)?,
                gather_ranks(&filtered, &counts, ranks)?,
            ])
        });
        let ([raw_heads, heads], [raw_tails, tails]) = (heads?, tails?);
        let raw = raw_heads.merged(raw_tails);
        let both = heads.merged(tails);
        Ok(LinkScores {
            filtered: both.scores(),
            raw: raw.scores(),
            filtered_heads: heads.scores(),
            filtered_tails: tails.scores(),
        })
    }

    fn side_ranks(
        &self,
        scorer: &mut Scorer<'_>,
        triples: &[Edge],
        side: Side,
    ) -> Result<SideRanks, Error> {
        let mut ranks = SideRanks::default();
        for block in triples.chunks(scorer.n_queries) {
            let scores = scorer.scores(block, side)?;
            for (&triple, scores) in block.iter().zip(scores.chunks_exact(self.n_nodes)) {
                let own = side.of(triple);
                let mut counts = Counts::of_all(scores, own);
                ranks.raw.push(counts.rank());
                counts.leave_out(self.known.ends(triple, side), scores, own);
                ranks.filtered.push(counts.rank());
            }
        }
        Ok(ranks)
    }
}

/// The sums of all ranks' numbers, in their order.
fn gather_ranks(
    own: &[f64],
    counts: &[usize],
    ranks: &mut RankComm<'_>,
) -> Result<RankSums, Error> {
    let own: Vec<u64> = own.iter().map(|rank| rank.to_bits()).collect();
    let mut all = vec![0u64; counts.iter().sum()];
    ranks.run(Op::AllGatherV {
        send: (&own).into(),
        recv: (&mut all).into(),
        counts,
    })?;
    let mut sums = RankSums::default();
    all.into_iter()
        .for_each(|rank| sums.add(f64::from_bits(rank)));
    Ok(sums)
}

/// Scores of queries by all nodes, as dense products of one shape: a score does not depend on the
/// queries beside it.
pub(crate) struct Scorer<'a> {
    model: RankedModel<'a>,
    /// Queries of a product.
    n_queries: usize,
    /// `[queries, width]`, `[queries, nodes]`.
    queries: Array<f32>,
    scores: Array<f32>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(model: RankedModel<'a>, n_queries: usize, memory: &Memory) -> Scorer<'a> {
        let zeros = |len: usize| memory.zeros(Purpose::Gradients, n_queries * len);
        Scorer {
            n_queries,
            queries: zeros(model.decoder.width),
            scores: zeros(model.n_nodes),
            model,
        }
    }

    /// The scores of all nodes for each triple of a block, a triple after the other; those of
    /// earlier blocks behind them.
    pub(crate) fn scores(&mut self, block: &[Edge], side: Side) -> Result<&[f32], Error> {
        let RankedModel { decoder, units, .. } = self.model;
        let width = decoder.width;
        for (&triple, query) in block.iter().zip(self.queries.chunks_exact_mut(width)) {
            decoder.query(units, triple, side, query);
        }
        let shape = MatMul {
            rows: self.n_queries,
            inner: width,
            cols: self.model.n_nodes,
            transpose_a: false,
            transpose_b: true,
        };
        matmul_of_slices(shape, &self.queries, units, &mut self.scores)?;
        Ok(&self.scores)
    }
}

/// Nodes that score higher than a true end, and those that score the same.
struct Counts {
    higher: u64,
    equal: u64,
    score: f32,
}

impl Counts {
    /// A score that is no number counts as higher: a model with such scores must not rank well.
    fn kind(&self, score: f32) -> (u64, u64) {
        let order = match score.to_bits() == self.score.to_bits() {
            true => Some(Ordering::Equal),
            false => score.partial_cmp(&self.score),
        };
        match order {
            Some(Ordering::Less) => (0, 0),
            Some(Ordering::Equal) => (0, 1),
            Some(Ordering::Greater) | None => (1, 0),
        }
    }

    fn of_all(scores: &[f32], own: u32) -> Counts {
        let mut counts = Counts {
            higher: 0,
            equal: 0,
            score: scores[own as usize],
        };
        if counts.score.is_nan() {
            for &score in scores {
                let (higher, equal) = counts.kind(score);
                counts.higher += higher;
                counts.equal += equal;
            }
        } else {
            Arch::new().dispatch(
                #[inline(always)]
                || counts.add_all(scores),
            );
        }
        counts.equal -= 1; // the true end itself
        counts
    }

    /// As [`Counts::kind`] of each, where the true score is a number.
    #[inline(always)]
    fn add_all(&mut self, scores: &[f32]) {
        let truth = self.score;
        // Counts of 32 bits in between, which take the lanes of the scores.
        for scores in scores.chunks(1 << 20) {
            let (mut lower, mut at_most) = (0u32, 0u32);
            for &score in scores {
                lower += u32::from(score < truth);
                at_most += u32::from(score <= truth);
            }
            // A score that is no number is neither.
            self.higher += (scores.len() as u32 - at_most) as u64;
            self.equal += u64::from(at_most - lower);
        }
    }

    fn leave_out(&mut self, ends: impl Iterator<Item = u32>, scores: &[f32], own: u32) {
        for end in ends.filter(|&end| end != own) {
            let (higher, equal) = self.kind(scores[end as usize]);
            self.higher -= higher;
            self.equal -= equal;
        }
    }

    fn rank(&self) -> f64 {
        1.0 + self.higher as f64 + 0.5 * self.equal as f64
    }
}
