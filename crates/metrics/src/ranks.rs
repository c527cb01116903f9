//! Ranks of true links among candidates: MRR, mean rank, hits.

use serde::{Deserialize, Serialize};

/// Means over ranks. A rank is 1 + the candidates that score higher + half of those that tie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankScores {
    /// Number of ranks: one for each triple and side.
    pub n_ranks: u64,
    /// Mean of 1 / rank.
    pub mrr: f64,
    /// Mean rank.
    pub mean_rank: f64,
    /// Share of ranks of 1.
    pub hits_at_1: f64,
    /// Share of ranks up to 3.
    pub hits_at_3: f64,
    /// Share of ranks up to 10.
    pub hits_at_10: f64,
}

/// Sums behind [`RankScores`].
///
/// ```
/// use shardgraph_metrics::RankSums;
///
/// let mut sums = RankSums::default();
/// [1.0, 2.0].into_iter().for_each(|rank| sums.add(rank));
/// assert_eq!((sums.scores().mrr, sums.scores().hits_at_1), (0.75, 0.5));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RankSums {
    n: u64,
    reciprocals: f64,
    ranks: f64,
    hits: [u64; 3],
}

impl RankSums {
    /// Counts a rank, of whole and half numbers.
    pub fn add(&mut self, rank: f64) {
        self.n += 1;
        self.reciprocals += 1.0 / rank;
        self.ranks += rank;
        for (hits, most) in self.hits.iter_mut().zip([1.0, 3.0, 10.0]) {
            *hits += u64::from(rank <= most);
        }
    }

    /// Sums of both.
    #[must_use]
    pub fn merged(self, other: RankSums) -> RankSums {
        RankSums {
            n: self.n + other.n,
            reciprocals: self.reciprocals + other.reciprocals,
            ranks: self.ranks + other.ranks,
            hits: [0, 1, 2].map(|k| self.hits[k] + other.hits[k]),
        }
    }

    /// Means of what was counted; zeros of nothing.
    #[must_use]
    pub fn scores(self) -> RankScores {
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
