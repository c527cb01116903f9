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
mod host_graph;
mod model;
mod ranks;
mod rules;
mod states;

#[cfg(test)]
mod tests;

use shardgraph_device::{Device, Error};
use shardgraph_ops::ResidentAdjacency;

use gpu::GpuEpisode;
use host::HostEpisode;

pub(crate) use device_episode::{Look, PickRules};
pub(crate) use model::{ModelEpisode, ModelRows};
pub(crate) use ranks::SharedEpisode;
pub use rules::{Progress, Rules, Scale, ScorePieces, Select};
pub(crate) use states::{MAX_STATES, RowPlace, StateCounter};

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

    /// How far the episode has come.
    pub fn progress(&self) -> Progress {
        match &self.run {
            Run::Host(run) => run.progress(),
            Run::Gpu(run) => run.progress(),
        }
    }

    /// Lets the first step pass over the best candidates, so many of them, but for the last of all.
    ///
    /// # Errors
    /// The driver's error.
    pub fn pass_over(&mut self, n_nodes: u32) -> Result<(), Error> {
        match &mut self.run {
            Run::Host(run) => {
                run.pass_over(n_nodes);
                Ok(())
            }
            Run::Gpu(run) => run.pass_over(n_nodes),
        }
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
