//! An episode of the closed form on a device that launches kernels: many rounds for each call of the host.

use shardgraph_device::{Device, Error, Graph};
use shardgraph_ops::ResidentAdjacency;

use super::device_episode::{DeviceEpisode, PickRules, Scores, Table};
use super::rules::{Progress, Rules};

/// What rounds launch.
const KERNELS: [&str; 5] = [
    "score_select_csr",
    "score_select_bits",
    "residual_mark_csr",
    "residual_spread_csr",
    "residual_remove_bits",
];
/// Rounds of one recorded graph at most: enough that asking for the state costs little beside them.
const MAX_ROUNDS: usize = 256;

/// An episode of the closed form in device memory.
#[derive(Debug)]
pub(super) struct GpuEpisode<'a> {
    state: DeviceEpisode<'a>,
    table: Table,
    /// Rounds between two looks at the state.
    n_rounds: usize,
    /// So many recorded rounds; made by the first call that needs them.
    rounds: Option<Graph>,
    n_rounds_done: u64,
    /// By the last look at the state.
    progress: Progress,
}

impl<'a> GpuEpisode<'a> {
    pub(super) fn start(
        device: &Device,
        graph: &'a ResidentAdjacency,
        rules: Rules<'_>,
    ) -> Result<Self, Error> {
        let score = rules.score;
        let table = [score.starts, score.alpha, score.beta].concat();
        let table = Table {
            pieces: device.upload(&table)?,
            n_pieces: score.starts.len() as u32,
        };
        let picks = PickRules {
            scale: rules.scale,
            select: rules.select,
            keep_isolated: rules.keep_isolated,
        };
        let state = DeviceEpisode::start(device, graph, picks)?;
        Ok(Self {
            // A small graph's episode is short.
            progress: state.progress()?.progress,
            n_rounds: (state.n_nodes() as usize / 8).clamp(1, MAX_ROUNDS),
            state,
            table,
            rounds: None,
            n_rounds_done: 0,
        })
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    pub(super) fn pass_over(&mut self, n_nodes: u32) -> Result<(), Error> {
        self.state.pass_over(n_nodes)
    }

    pub(super) fn advance(&mut self) -> Result<Progress, Error> {
        if self.progress.is_done {
            return Ok(self.progress);
        }
        let n_rounds = self.n_rounds;
        if self.rounds.is_none() {
            let (state, table) = (&mut self.state, &self.table);
            let device = state.device.clone();
            let rounds = device.capture(&KERNELS, || {
                state.launch_rounds(n_rounds, Scores::Table(table))
            })?;
            self.rounds = Some(rounds);
        }
        if let Some(rounds) = &self.rounds {
            rounds.launch()?;
        }
        self.n_rounds_done += n_rounds as u64;
        self.progress = self.state.progress()?.progress;
        // Every round but one a step settles a node or passes over one, and every step settles one.
        let bound = 3 * u64::from(self.state.n_nodes()) + n_rounds as u64;
        match self.progress.is_done || self.n_rounds_done <= bound {
            true => Ok(self.progress),
            false => Err(no_end(self.n_rounds_done)),
        }
    }

    pub(super) fn cover(&self) -> Result<Vec<u32>, Error> {
        self.state.cover()
    }

    /// The same episode with another number of rounds between two looks at the state, and on fewer blocks.
    #[cfg(test)]
    pub(super) fn set_shape(&mut self, n_rounds: usize, max_blocks: usize) {
        self.n_rounds = n_rounds;
        self.state.set_max_blocks(max_blocks);
    }

    /// Residual degrees and neighbour degrees.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<(Vec<u32>, Vec<u64>), Error> {
        let (device, buffers) = (&self.state.device, &self.state.buffers);
        let degree = device.download(&buffers.degree)?;
        Ok((degree, device.download(&buffers.d2)?))
    }
}

/// An episode that does not end, after so many rounds.
pub(super) fn no_end(n_rounds: u64) -> Error {
    Error::driver("cover episode", format!("no end after {n_rounds} rounds"))
}
