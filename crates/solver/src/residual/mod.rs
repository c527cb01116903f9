//! The residual graph of an episode on one rank: degrees and neighbour degrees, kept exact by integer increments.
//!
//! The graph itself is never edited. Every rank knows all residual degrees; the neighbours' degree
//! sums `d2` are kept for own nodes only. Removing `v` takes its residual neighbours `N(v)` from all ranks, after which
//! every update is local: `deg_u -= 1` and `d2_u -= deg_v` for `u` in `N(v)`, and `d2_w -= |N(w) ∩ N(v)|` for all `w`.

mod bits;
mod degree_order;
mod degrees;
mod layers;
mod lists;
mod present;
mod ranking;

#[cfg(test)]
mod tests;

use shardgraph_layers::{Path, ScoreTable};

use crate::Error;
use crate::select::TopD;

pub(crate) use bits::BitsResidual;
pub(crate) use layers::LayerScores;
pub(crate) use lists::{ListsResidual, NeighborLists};
pub(crate) use present::PresentScores;
pub(crate) use shardgraph_job::Ranks;

/// What is counted of each node. The general path reads degrees alone, and a pick then costs its own list instead of its neighbours'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Degrees; every `d2` is given as 0.
    Degrees,
    /// Degrees and neighbour degrees, as the closed form needs them.
    WithNeighborDegrees,
}

impl Counts {
    pub(crate) fn of(path: Path) -> Self {
        match path {
            Path::Collapsed => Self::WithNeighborDegrees,
            Path::General | Path::FreeFirstLayer => Self::Degrees,
        }
    }
}

/// What inference needs of a residual graph; implemented over adjacency lists and over a bit matrix.
pub(crate) trait Residual {
    /// Nodes with a residual edge, on all ranks: the candidates.
    fn n_candidates(&self) -> u32;

    /// The largest residual degree on all ranks.
    fn max_degree(&self) -> u32;

    /// Calls `f(node, degree, d2)` for each own candidate, ascending by node.
    fn for_each_own(&self, f: &mut dyn FnMut(u32, u32, u64));

    /// Offers each own candidate with its score by the table; degrees are scaled by `scale`.
    fn offer(&mut self, table: &ScoreTable, scale: f32, top: &mut TopD);

    /// Removes the picks, candidates all, one after the other and appends the removed ones to `cover`. A pick that earlier ones of this
    /// step have left without an edge is left out, unless `keep_isolated`.
    fn remove(
        &mut self,
        picks: &[u32],
        keep_isolated: bool,
        ranks: &mut Ranks<'_>,
        cover: &mut Vec<u32>,
    ) -> Result<(), Error>;
}

/// Offers all candidates.
#[inline]
pub(crate) fn offer_all(
    candidates: impl Iterator<Item = (u32, u32, u64)>,
    table: &ScoreTable,
    scale: f32,
    top: &mut TopD,
) {
    let scale2 = scale * scale;
    let mut hint = 0;
    for (node, degree, d2) in candidates {
        // d2 < 2^63 on any graph that fits in memory, and the signed conversion is one instruction.
        let (x, y) = (degree as f32 * scale, d2 as i64 as f32 * scale2);
        top.offer(table.score_near(x, y, &mut hint), node);
    }
}

/// Whether the scores of all own candidates are numbers; `values` starts at node `first`.
pub(crate) fn are_finite(residual: &dyn Residual, values: &[f32], first: u32) -> bool {
    let mut all_finite = true;
    residual.for_each_own(&mut |node, _, _| {
        all_finite &= values[(node - first) as usize].is_finite();
    });
    all_finite
}
