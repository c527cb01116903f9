//! Greedy vertex cover by a closed-form score with everything on the device: graph, state, scores, picks and the loop.
//!
//! An episode repeats: score the candidates (nodes with a residual edge), take the best few, remove them. On a GPU the
//! kernels of `cuda/solver/score_select.cu` and `cuda/solver/residual_*.cu` are recorded once as a graph of many rounds with fixed
//! arguments; the host replays it and asks once a replay whether candidates are left. Rounds behind the end do nothing.
//!
//! Residual degrees and neighbour degrees are integers, and a score is the same sequence of f32 operations on every
//! device, so the cover is the same everywhere, node for node.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_ops::{Adjacency, ResidentAdjacency};
//! use shardgraph_solver::kernels::cover;
//!
//! // The path 0 - 1 - 2 - 3 with the score "residual degree".
//! let (row_ptr, columns) = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2]);
//! let device = Device::host();
//! let lists = Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values: None };
//! let graph = ResidentAdjacency::upload(&device, lists)?;
//! let rules = cover::Rules {
//!     score: cover::ScorePieces { starts: &[0.0], alpha: &[1.0], beta: &[0.0] },
//!     scale: cover::Scale::One,
//!     select: cover::Select::Fixed(std::num::NonZeroU32::MIN),
//!     keep_isolated: false,
//! };
//! let mut episode = cover::Episode::start(&device, &graph, rules)?;
//! while !episode.advance()?.is_done {}
//! assert_eq!(episode.cover()?, [1, 2]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod device_episode;
mod gpu;
mod host;
mod model;
mod states;

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use shardgraph_device::{Device, Error};
use shardgraph_ops::{Block, ResidentAdjacency};

use gpu::GpuEpisode;
use host::HostEpisode;

pub(crate) use device_episode::PickRules;
pub(crate) use model::{ModelEpisode, ModelRows};

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
    fn check(&self) -> Result<(), Error> {
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
    fn n_picks(self, n_candidates: u32, n_nodes: u32) -> u32 {
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

/// One run of the greedy algorithm over a graph on the graph's device.
#[derive(Debug)]
pub struct Episode<'a> {
    run: Run<'a>,
}

#[derive(Debug)]
enum Run<'a> {
    Host(HostEpisode<'a>),
    Gpu(Box<GpuEpisode<'a>>),
}

impl<'a> Episode<'a> {
    /// The state before the first pick.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`] for pieces that do not fit each other, [`shardgraph_device::ErrorKind::OtherDevice`] for a graph of another
    /// stream, [`shardgraph_device::ErrorKind::OutOfMemory`], the driver's error.
    /// # Complexity
    /// Memory `36 n_nodes` B beside the graph. Reads the graph twice.
    pub fn start(
        device: &Device,
        graph: &'a ResidentAdjacency,
        rules: Rules<'_>,
    ) -> Result<Self, Error> {
        rules.score.check()?;
        let run = match device.is_host() {
            true => Run::Host(HostEpisode::start(graph, rules)?),
            false => Run::Gpu(Box::new(GpuEpisode::start(device, graph, rules)?)),
        };
        Ok(Self { run })
    }

    /// Goes on for some steps: one on the host, hundreds on a GPU, where the host only then learns how far it is.
    ///
    /// # Errors
    /// The driver's error.
    /// # Complexity
    /// For each removed node `v` with residual neighbours `N(v)`: lists read the lists of `N(v)`, bits the `|N(v)|` rows
    /// of `n_nodes / 8` B; every step reads `12 n_nodes` B of degrees. Launches: two (bits) or three (lists) for each
    /// step of up to eight nodes.
    /// # Determinism
    /// The same picks on every device.
    pub fn advance(&mut self) -> Result<Progress, Error> {
        match &mut self.run {
            Run::Host(run) => Ok(run.advance()),
            Run::Gpu(run) => run.advance(),
        }
    }

    /// The picked nodes in the order in which they were picked.
    ///
    /// # Errors
    /// The driver's error.
    pub fn cover(&self) -> Result<Vec<u32>, Error> {
        match &self.run {
            Run::Host(run) => Ok(run.cover().to_vec()),
            Run::Gpu(run) => run.cover(),
        }
    }
}

/// A graph in host memory.
#[derive(Debug, Clone, Copy)]
enum HostGraph<'a> {
    Lists {
        row_ptr: &'a [u64],
        columns: &'a [u32],
    },
    Bits {
        words: &'a [u64],
        words_per_row: usize,
    },
}

impl<'a> HostGraph<'a> {
    fn new(graph: &'a ResidentAdjacency) -> Result<Self, Error> {
        Ok(match graph.block()? {
            Block::Lists { row_ptr, columns } => Self::Lists {
                row_ptr: row_ptr.on_host("cover")?,
                columns: columns.on_host("cover")?,
            },
            Block::Bits {
                words,
                words_per_row,
            } => Self::Bits {
                words: words.on_host("cover")?,
                words_per_row,
            },
        })
    }

    /// Calls `f` with each neighbour of `node`, ascending.
    fn for_each_neighbor(&self, node: usize, mut f: impl FnMut(usize)) {
        match self {
            Self::Lists { row_ptr, columns } => {
                let row = &columns[row_ptr[node] as usize..row_ptr[node + 1] as usize];
                row.iter().for_each(|&u| f(u as usize));
            }
            Self::Bits {
                words,
                words_per_row,
            } => {
                let row = &words[node * words_per_row..][..*words_per_row];
                for (w, &word) in row.iter().enumerate() {
                    let mut rest = word;
                    while rest != 0 {
                        f(64 * w + rest.trailing_zeros() as usize);
                        rest &= rest - 1;
                    }
                }
            }
        }
    }
}
