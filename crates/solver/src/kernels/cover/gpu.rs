//! An episode on a device that launches kernels: all state in its memory, many rounds for each call of the host.

use shardgraph_device::{Arg, Buffer, Device, Error, Graph, Launch};
use shardgraph_ops::{Block, ResidentAdjacency};

use super::states::StateCounter;
use super::{Progress, Rules, Scale, Select};

/// Threads of a block, in all of these kernels.
const BLOCK: u32 = 256;
/// Nodes that a round picks at most, as in `cuda/solver/cover_loop.cuh`.
const GROUP: usize = 8;
/// Blocks of a launch over nodes or lists: enough to fill a large GPU, and few enough for the selection's last block,
/// which looks at the offers of all.
const MAX_BLOCKS: usize = 256;
/// Rows of a bit matrix that one block adds, and words of a row, as in `cuda/solver/residual_bits.cu`.
const CHUNK_ROWS: usize = 1024;
const CHUNK_WORDS: usize = 32;
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

/// The words of `state`, as in `cuda/solver/cover_loop.cuh`.
const N_STATE: usize = 9;
const N_CANDIDATES: usize = 1;
const N_LEFT: usize = 2;
const N_COVER: usize = 4;
const N_STEPS: usize = 5;

/// An episode in device memory.
#[derive(Debug)]
pub(super) struct GpuEpisode<'a> {
    device: Device,
    graph: &'a ResidentAdjacency,
    n_nodes: u32,
    rules: FixedRules,
    buffers: Buffers,
    /// Rounds between two looks at the state.
    n_rounds: usize,
    max_blocks: usize,
    /// So many recorded rounds; made by the first call that needs them.
    rounds: Option<Graph>,
    n_rounds_done: u64,
}

/// The rules as the kernels take them.
#[derive(Debug)]
struct FixedRules {
    table: Buffer,
    n_pieces: u32,
    by_largest_degree: u32,
    /// 0 is the adaptive rule.
    select: u32,
    keep_isolated: u32,
}

/// What the kernels read and write; shapes stand in `cuda/solver/score_select.cu`.
#[derive(Debug)]
struct Buffers {
    degree: Buffer<u32>,
    d2: Buffer<u64>,
    keys: Buffer<u64>,
    best: Buffer<u64>,
    alive: Buffer<u32>,
    group: Buffer<u32>,
    cover: Buffer<u32>,
    state: Buffer<u32>,
    /// How many of the round's nodes each node is joined with; for lists.
    marks: Buffer<u32>,
    /// The nodes with marks; for lists.
    list: Buffer<u32>,
}

impl Buffers {
    fn new(device: &Device, graph: &ResidentAdjacency) -> Result<Self, Error> {
        let n_nodes = graph.n_nodes()? as usize;
        let for_lists = match graph.block()? {
            Block::Lists { .. } => n_nodes,
            Block::Bits { .. } => 0,
        };
        Ok(Self {
            degree: device.zeros(n_nodes)?,
            d2: device.zeros(n_nodes)?,
            keys: device.zeros(n_nodes)?,
            best: device.zeros(1 + n_nodes.div_ceil(BLOCK as usize).min(MAX_BLOCKS) * GROUP)?,
            alive: device.zeros(n_nodes.div_ceil(256) * 8)?,
            group: device.zeros(2 * GROUP)?,
            cover: device.zeros(n_nodes)?,
            state: device.zeros(N_STATE)?,
            marks: device.zeros(for_lists)?,
            list: device.zeros(for_lists)?,
        })
    }
}

/// A launch over all nodes.
fn node_blocks(n_nodes: usize, max_blocks: usize) -> Launch {
    Launch::blocks(n_nodes.div_ceil(BLOCK as usize).min(max_blocks), BLOCK)
}

impl<'a> GpuEpisode<'a> {
    pub(super) fn start(
        device: &Device,
        graph: &'a ResidentAdjacency,
        rules: Rules<'_>,
    ) -> Result<Self, Error> {
        let score = rules.score;
        let table = [score.starts, score.alpha, score.beta].concat();
        let rules = FixedRules {
            table: device.upload(&table)?,
            n_pieces: score.starts.len() as u32,
            by_largest_degree: u32::from(rules.scale == Scale::LargestDegree),
            select: match rules.select {
                Select::Fixed(d) => d.get(),
                Select::Adaptive => 0,
            },
            keep_isolated: u32::from(rules.keep_isolated),
        };
        let mut buffers = Buffers::new(device, graph)?;
        let nodes = graph.n_nodes()?;
        let n_nodes = nodes as usize;
        let everywhere = device.upload(&vec![1u32; n_nodes])?;
        StateCounter::new(device, graph, 1)?.count(
            &everywhere,
            &mut buffers.degree,
            &mut buffers.d2,
        )?;
        let args = [
            Arg::read(&buffers.degree),
            Arg::u32(nodes),
            Arg::write(&mut buffers.state),
        ];
        let shape = node_blocks(n_nodes, MAX_BLOCKS);
        // SAFETY: `degree` has n_nodes elements and `state` N_STATE.
        unsafe { device.launch("cover_start", shape, &args)? };
        Ok(Self {
            device: device.clone(),
            graph,
            n_nodes: nodes,
            rules,
            buffers,
            // A small graph's episode is short.
            n_rounds: (n_nodes / 8).clamp(1, MAX_ROUNDS),
            max_blocks: MAX_BLOCKS,
            rounds: None,
            n_rounds_done: 0,
        })
    }

    pub(super) fn advance(&mut self) -> Result<Progress, Error> {
        let before = self.progress()?;
        if before.is_done {
            return Ok(before);
        }
        let n_rounds = self.n_rounds;
        let device = self.device.clone();
        if self.rounds.is_none() {
            let rounds = device.capture(&KERNELS, || self.record_rounds(n_rounds))?;
            self.rounds = Some(rounds);
        }
        if let Some(rounds) = &self.rounds {
            rounds.launch()?;
        }
        self.n_rounds_done += n_rounds as u64;
        let after = self.progress()?;
        // Every round but one a step settles a node, and every step settles one.
        let bound = 2 * u64::from(self.n_nodes) + n_rounds as u64;
        match after.is_done || self.n_rounds_done <= bound {
            true => Ok(after),
            false => Err(Error::driver(
                "cover episode",
                format!("no end after {} rounds", self.n_rounds_done),
            )),
        }
    }

    pub(super) fn cover(&self) -> Result<Vec<u32>, Error> {
        let n_cover = self.progress()?.n_cover as usize;
        let mut cover = self.device.download(&self.buffers.cover)?;
        cover.truncate(n_cover);
        Ok(cover)
    }

    /// The same episode with another number of rounds between two looks at the state, and on fewer blocks.
    #[cfg(test)]
    pub(super) fn set_shape(&mut self, n_rounds: usize, max_blocks: usize) {
        (self.n_rounds, self.max_blocks) = (n_rounds, max_blocks.min(MAX_BLOCKS));
    }

    /// Residual degrees and neighbour degrees.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Result<(Vec<u32>, Vec<u64>), Error> {
        let degree = self.device.download(&self.buffers.degree)?;
        Ok((degree, self.device.download(&self.buffers.d2)?))
    }

    fn progress(&self) -> Result<Progress, Error> {
        let state = self.device.download(&self.buffers.state)?;
        Ok(Progress {
            n_candidates: state[N_CANDIDATES],
            n_cover: state[N_COVER],
            n_steps: state[N_STEPS],
            is_done: state[N_CANDIDATES] == 0 && state[N_LEFT] == 0,
        })
    }

    /// Launches rounds with the same arguments each: all that changes is in device memory.
    fn record_rounds(&mut self, n_rounds: usize) -> Result<(), Error> {
        let graph = self.graph;
        for _ in 0..n_rounds {
            match graph.block()? {
                Block::Lists { row_ptr, columns } => {
                    self.select_from_lists(row_ptr, columns)?;
                    self.mark_in_lists(row_ptr, columns)?;
                    self.spread_in_lists(row_ptr, columns)?;
                }
                Block::Bits {
                    words,
                    words_per_row,
                } => {
                    self.select_from_bits(words, words_per_row as u32)?;
                    self.remove_from_bits(words, words_per_row as u32)?;
                }
            }
        }
        Ok(())
    }

    fn select_from_lists(
        &mut self,
        row_ptr: &Buffer<u64>,
        columns: &Buffer<u32>,
    ) -> Result<(), Error> {
        let (rules, buffers) = (&self.rules, &mut self.buffers);
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(&buffers.degree),
            Arg::read(&buffers.d2),
            Arg::u32(self.n_nodes),
            Arg::read(&rules.table),
            Arg::u32(rules.n_pieces),
            Arg::u32(rules.by_largest_degree),
            Arg::u32(rules.select),
            Arg::u32(rules.keep_isolated),
            Arg::write(&mut buffers.keys),
            Arg::write(&mut buffers.best),
            Arg::write(&mut buffers.marks),
            Arg::write(&mut buffers.alive),
            Arg::write(&mut buffers.group),
            Arg::write(&mut buffers.cover),
            Arg::write(&mut buffers.state),
        ];
        let shape = node_blocks(self.n_nodes as usize, self.max_blocks);
        // SAFETY: the lengths are those of `Buffers::new` for this graph, which was checked when it was uploaded; a node
        // is picked once at most, so `cover` holds all picks.
        unsafe { self.device.launch("score_select_csr", shape, &args) }
    }

    fn select_from_bits(&mut self, words: &Buffer<u64>, words_per_row: u32) -> Result<(), Error> {
        let (rules, buffers) = (&self.rules, &mut self.buffers);
        let args = [
            Arg::read(words),
            Arg::u32(words_per_row),
            Arg::read(&buffers.degree),
            Arg::read(&buffers.d2),
            Arg::u32(self.n_nodes),
            Arg::read(&rules.table),
            Arg::u32(rules.n_pieces),
            Arg::u32(rules.by_largest_degree),
            Arg::u32(rules.select),
            Arg::u32(rules.keep_isolated),
            Arg::write(&mut buffers.keys),
            Arg::write(&mut buffers.best),
            Arg::write(&mut buffers.alive),
            Arg::write(&mut buffers.group),
            Arg::write(&mut buffers.cover),
            Arg::write(&mut buffers.state),
        ];
        let shape = node_blocks(self.n_nodes as usize, self.max_blocks);
        // SAFETY: as for lists.
        unsafe { self.device.launch("score_select_bits", shape, &args) }
    }

    fn mark_in_lists(&mut self, row_ptr: &Buffer<u64>, columns: &Buffer<u32>) -> Result<(), Error> {
        let buffers = &mut self.buffers;
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(&buffers.alive),
            Arg::read(&buffers.group),
            Arg::u32(self.n_nodes),
            Arg::write(&mut buffers.d2),
            Arg::write(&mut buffers.marks),
            Arg::write(&mut buffers.list),
            Arg::write(&mut buffers.state),
        ];
        let n_blocks = (self.graph.max_degree() as usize).div_ceil(BLOCK as usize);
        let shape = Launch::blocks(n_blocks.clamp(1, self.max_blocks), BLOCK);
        // SAFETY: as for the selection; each node enters `list` once, when it gets its first mark.
        unsafe { self.device.launch("residual_mark_csr", shape, &args) }
    }

    fn spread_in_lists(
        &mut self,
        row_ptr: &Buffer<u64>,
        columns: &Buffer<u32>,
    ) -> Result<(), Error> {
        let buffers = &mut self.buffers;
        let n_nodes = self.n_nodes as usize;
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(&buffers.alive),
            Arg::read(&buffers.group),
            Arg::read(&buffers.marks),
            Arg::read(&buffers.list),
            Arg::u32(self.n_nodes),
            Arg::write(&mut buffers.degree),
            Arg::write(&mut buffers.d2),
            Arg::write(&mut buffers.state),
        ];
        let shape = Launch::blocks(n_nodes.div_ceil(64).min(self.max_blocks), BLOCK);
        // SAFETY: as for the selection.
        unsafe { self.device.launch("residual_spread_csr", shape, &args) }
    }

    fn remove_from_bits(&mut self, words: &Buffer<u64>, words_per_row: u32) -> Result<(), Error> {
        let buffers = &mut self.buffers;
        let args = [
            Arg::read(words),
            Arg::u32(words_per_row),
            Arg::read(&buffers.alive),
            Arg::read(&buffers.group),
            Arg::u32(self.n_nodes),
            Arg::write(&mut buffers.degree),
            Arg::write(&mut buffers.d2),
            Arg::write(&mut buffers.state),
        ];
        let n_chunks = (self.n_nodes as usize).div_ceil(CHUNK_ROWS);
        let mut shape = Launch::blocks((words_per_row as usize).div_ceil(CHUNK_WORDS), BLOCK);
        shape.grid[1] = n_chunks as u32;
        // SAFETY: as for the selection; bits of columns from n_nodes on are never candidates, so they reach no element.
        unsafe { self.device.launch("residual_remove_bits", shape, &args) }
    }
}
