//! Ranks of true links among all nodes that could be at their head or tail.

use std::cmp::Ordering;

use pulp::Arch;
use serde::{Deserialize, Serialize};
use shardgraph_metrics::{RankScores, RankSums};

use super::data::{Known, Side};
use super::decoder::{Decoder, dot, dots};
use crate::Edge;

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
const SCORE_BYTES: usize = 4 << 20;

/// Ranks both ends of each triple among all nodes; `units` has a row for each.
///
/// # Complexity
/// 2 * triples * nodes * width multiplications; memory is a block of at most 64 queries by all
/// nodes, of about 4 MiB.
pub(crate) fn rank(
    decoder: &Decoder,
    units: &[f32],
    triples: &[Edge],
    known: &Known,
) -> LinkScores {
    let n_nodes = units.len() / decoder.width;
    let n_queries = (SCORE_BYTES / 4 / n_nodes.max(1)).clamp(1, 64);
    let (mut raw, mut heads, mut tails) = (
        RankSums::default(),
        RankSums::default(),
        RankSums::default(),
    );
    let mut scores = Vec::new();
    for side in [Side::Head, Side::Tail] {
        let filtered = match side {
            Side::Head => &mut heads,
            Side::Tail => &mut tails,
        };
        for block in triples.chunks(n_queries) {
            score_block(decoder, units, block, side, &mut scores);
            for (&triple, scores) in block.iter().zip(scores.chunks_exact(n_nodes)) {
                let own = side.of(triple);
                let mut counts = Counts::of_all(scores, own);
                raw.add(counts.rank());
                counts.leave_out(known.ends(triple, side), scores, own);
                filtered.add(counts.rank());
            }
        }
    }
    let both = heads.merged(tails);
    LinkScores {
        filtered: both.scores(),
        raw: raw.scores(),
        filtered_heads: heads.scores(),
        filtered_tails: tails.scores(),
    }
}

/// Queries that are scored together against a node.
const GROUP: usize = 4;

/// The scores of all nodes for each triple of a block, a triple after the other.
pub(crate) fn score_block(
    decoder: &Decoder,
    units: &[f32],
    block: &[Edge],
    side: Side,
    scores: &mut Vec<f32>,
) {
    let width = decoder.width;
    let n_nodes = units.len() / width;
    let mut queries = vec![0.0; block.len() * width];
    for (&triple, query) in block.iter().zip(queries.chunks_exact_mut(width)) {
        decoder.query(units, triple, side, query);
    }
    scores.clear();
    scores.resize(block.len() * n_nodes, 0.0);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (node, units) in units.chunks_exact(width).enumerate() {
                let groups = queries.chunks_exact(GROUP * width);
                let others = groups.remainder().chunks_exact(width);
                let mut places = scores[node..].iter_mut().step_by(n_nodes);
                for group in groups {
                    let query = |idx: usize| &group[idx * width..][..width];
                    let found = dots([query(0), query(1), query(2), query(3)], units);
                    let places = found.into_iter().zip(&mut places);
                    places.for_each(|(found, place)| *place = found);
                }
                for query in others {
                    if let Some(place) = places.next() {
                        *place = dot(query, units);
                    }
                }
            }
        },
    );
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
        for &score in scores {
            let (higher, equal) = counts.kind(score);
            counts.higher += higher;
            counts.equal += equal;
        }
        counts.equal -= 1; // the true end itself
        counts
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
