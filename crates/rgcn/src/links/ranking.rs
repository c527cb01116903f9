//! How high true links rank among all nodes that could be at their head or tail.

use std::cmp::Ordering;

use pulp::Arch;
use serde::{Deserialize, Serialize};

use super::data::{Known, Side};
use super::decoder::{Decoder, dot, dots};
use crate::Edge;

/// Ranks of true links, in short. A rank is 1 and the number of nodes that score higher, and half of those that score the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankScores {
    /// Ranks: one for each triple and side.
    pub n_ranks: u64,
    /// The mean of 1 / rank.
    pub mrr: f64,
    /// The mean rank.
    pub mean_rank: f64,
    /// The share of ranks of 1.
    pub hits_at_1: f64,
    /// The share of ranks up to 3.
    pub hits_at_3: f64,
    /// The share of ranks up to 10.
    pub hits_at_10: f64,
}

/// How well true links rank.
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

/// Sums of what [`RankScores`] has means of.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    n: u64,
    reciprocals: f64,
    ranks: f64,
    hits: [u64; 3],
}

impl Tally {
    /// Counts a rank, of whole and half numbers.
    fn add(&mut self, rank: f64) {
        self.n += 1;
        self.reciprocals += 1.0 / rank;
        self.ranks += rank;
        for (hits, most) in self.hits.iter_mut().zip([1.0, 3.0, 10.0]) {
            *hits += u64::from(rank <= most);
        }
    }

    fn scores(self) -> RankScores {
        let n = self.n.max(1) as f64;
        let [hits_at_1, hits_at_3, hits_at_10] = self.hits.map(|hits| hits as f64 / n);
        RankScores {
            n_ranks: self.n,
            mrr: self.reciprocals / n,
            mean_rank: self.ranks / n,
            hits_at_1,
            hits_at_3,
            hits_at_10,
        }
    }
}

/// Bytes of scores that exist at a time.
const SCORE_BYTES: usize = 4 << 20;

/// Ranks both ends of each triple among all nodes; `units` has a row for each.
///
/// # Complexity
/// 2 * triples * nodes * width multiplications; memory is a block of at most 64 queries by all nodes, of about 4 MiB.
pub(crate) fn rank(
    decoder: &Decoder,
    units: &[f32],
    triples: &[Edge],
    known: &Known,
) -> LinkScores {
    let n_nodes = units.len() / decoder.width;
    let n_queries = (SCORE_BYTES / 4 / n_nodes.max(1)).clamp(1, 64);
    let (mut raw, mut heads, mut tails) = (Tally::default(), Tally::default(), Tally::default());
    let mut scores = Vec::new();
    for side in [Side::Head, Side::Tail] {
        let filtered = match side {
            Side::Head => &mut heads,
            Side::Tail => &mut tails,
        };
        for block in triples.chunks(n_queries) {
            score_block(decoder, units, (block, side), &mut scores);
            for (&triple, scores) in block.iter().zip(scores.chunks_exact(n_nodes)) {
                let own = side.of(triple);
                let mut counts = Counts::of_all(scores, own);
                raw.add(counts.rank());
                counts.leave_out(known.ends(triple, side), scores, own);
                filtered.add(counts.rank());
            }
        }
    }
    let both = Tally {
        n: heads.n + tails.n,
        reciprocals: heads.reciprocals + tails.reciprocals,
        ranks: heads.ranks + tails.ranks,
        hits: [0, 1, 2].map(|k| heads.hits[k] + tails.hits[k]),
    };
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
    (block, side): (&[Edge], Side),
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
    /// What is not a number counts as higher: a model that makes such scores is not to rank well.
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
