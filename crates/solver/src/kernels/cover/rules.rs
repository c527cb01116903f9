//! How a cover episode scores and picks, and how far it has come.

use std::num::NonZeroU32;

use shardgraph_device::Error;

/// A score `x g(y / x)` with `g` continuous and linear on each piece: `alpha_i x + beta_i y` on piece `i`.
///
/// `x` is a node's residual degree times the scale, `y` its neighbours' residual degrees times the scale squared; piece
/// `i` is the last one with `starts_i x <= y`.
///
/// # Shapes
/// Three runs of one length, at least 1; `starts` ascends from 0.
#[derive(Debug, Clone, Copy)]
pub struct ScorePieces<'a> {
    /// Where each piece starts on the axis `y / x`.
    pub starts: &'a [f32],
    /// The factor of `x` on each piece.
    pub alpha: &'a [f32],
    /// The factor of `y` on each piece.
    pub beta: &'a [f32],
}

impl ScorePieces<'_> {
    pub(super) fn check(&self) -> Result<(), Error> {
        let n_pieces = self.starts.len();
        let lengths = [
            ("starts", n_pieces, n_pieces.max(1)),
            ("alpha", self.alpha.len(), n_pieces),
            ("beta", self.beta.len(), n_pieces),
        ];
        for (operand, given, wanted) in lengths {
            if given != wanted {
                return Err(Error::length("cover", operand, wanted, given));
            }
        }
        Ok(())
    }
}

/// The scale of degrees in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// 1.
    One,
    /// 1 / the largest residual degree.
    LargestDegree,
}

/// How many nodes a step picks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The same number at each step.
    Fixed(NonZeroU32),
    /// Eight while more than a half of the nodes are candidates, then four, two and one, at a half, a quarter and an
    /// eighth (OpenGraphGym-MG, section 4.5.1).
    Adaptive,
}

impl Select {
    pub(super) fn n_picks(self, n_candidates: u32, n_nodes: u32) -> u32 {
        let (c, n) = (u64::from(n_candidates), u64::from(n_nodes));
        match self {
            Self::Fixed(d) => d.get(),
            Self::Adaptive if 2 * c > n => 8,
            Self::Adaptive if 4 * c > n => 4,
            Self::Adaptive if 8 * c > n => 2,
            Self::Adaptive => 1,
        }
    }
}

/// How an episode picks.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The score of a candidate.
    pub score: ScorePieces<'a>,
    /// What degrees are multiplied with.
    pub scale: Scale,
    /// Nodes for each step.
    pub select: Select,
    /// Keep picks that earlier picks of the same step have left without an edge.
    pub keep_isolated: bool,
}

/// How far an episode has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Nodes with a residual edge.
    pub n_candidates: u32,
    /// Nodes of the cover so far.
    pub n_cover: u32,
    /// Steps so far: evaluations of the score.
    pub n_steps: u32,
    /// Whether the cover is complete.
    pub is_done: bool,
}
