//! The state of a cover episode in a device's memory, and the launches of a round.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};
use shardgraph_ops::{Block, ResidentAdjacency};

use super::rules::{Progress, Scale, Select};
use super::states::StateCounter;

/// Threads of a block, in all of these kernels.
pub(super) const BLOCK: u32 = 256;
/// Nodes that a round picks at most, as in `cuda/solver/cover_loop.cuh`.
pub(super) const GROUP: usize = 8;
/// Blocks of a launch over nodes or lists: enough to fill a large GPU, and few enough for the selection's last block,
/// which looks at the offers of all.
const MAX_BLOCKS: usize = 256;
/// Rows of a bit matrix that one block adds, and words of a row, as in `cuda/solver/residual_bits.cu`.
const CHUNK_ROWS: usize = 1024;
const CHUNK_WORDS: usize = 32;
/// The words of `state`, as in `cuda/solver/cover_loop.cuh`.
pub(super) const N_STATE: usize = 11;
const N_CANDIDATES: usize = 1;
const N_LEFT: usize = 2;
const N_COVER: usize = 4;
const N_STEPS: usize = 5;
const N_UNBOUNDED: usize = 9;
const N_PASSED: usize = 10;

/// The residual graph and the cover of an episode in device memory, and the launches of a round.
#[derive(Debug)]
pub(super) struct DeviceEpisode<'a> {
    pub(super) device: Device,
    pub(super) graph: &'a ResidentAdjacency,
    n_nodes: u32,
    pub(super) rules: FixedRules,
    pub(super) buffers: Buffers,
    pub(super) max_blocks: usize,
}

/// The rules as the kernels take them.
#[derive(Debug, Clone, Copy)]
pub(super) struct FixedRules {
    pub(super) by_largest_degree: u32,
    /// 0 is the adaptive rule.
    pub(super) select: u32,
    pub(super) keep_isolated: u32,
}

impl FixedRules {
    pub(super) fn new(rules: PickRules) -> Self {
        Self {
            by_largest_degree: u32::from(rules.scale == Scale::LargestDegree),
            select: match rules.select {
                Select::Fixed(d) => d.get(),
                Select::Adaptive => 0,
            },
            keep_isolated: u32::from(rules.keep_isolated),
        }
    }

    /// Rounds that a step of the policy takes at most.
    pub(super) fn rounds_of_step(self) -> usize {
        (self.select as usize).div_ceil(GROUP).max(1)
    }
}

/// The closed form as the kernels take it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) pieces: Buffer,
    pub(super) n_pieces: u32,
}

/// Scores of the candidates.
#[derive(Clone, Copy)]
pub(super) enum Scores<'b> {
    /// By the closed form.
    Table(&'b Table),
    /// One number a node, which a model has computed.
    Values(&'b Buffer),
}

impl<'b> Scores<'b> {
    /// A selection's arguments between the degrees and the rule of the step.
    fn args(self, d2: &'b Buffer<u64>, n_nodes: u32, by_largest_degree: u32) -> Vec<Arg<'b>> {
        match self {
            Scores::Table(table) => vec![
                Arg::read(d2),
                Arg::u32(n_nodes),
                Arg::read(&table.pieces),
                Arg::u32(table.n_pieces),
                Arg::u32(by_largest_degree),
            ],
            Scores::Values(values) => vec![Arg::read(values), Arg::u32(n_nodes)],
        }
    }
}

/// What the kernels read and write; shapes stand in `cuda/solver/score_select.cu`.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) degree: Buffer<u32>,
    pub(super) d2: Buffer<u64>,
    pub(super) keys: Buffer<u64>,
    pub(super) best: Buffer<u64>,
    alive: Buffer<u32>,
    pub(super) group: Buffer<u32>,
    pub(super) cover: Buffer<u32>,
    pub(super) state: Buffer<u32>,
    /// How many of the round's nodes each node is joined with; for lists.
    marks: Buffer<u32>,
    /// The nodes with marks; for lists.
    list: Buffer<u32>,
}

impl Buffers {
    fn new(device: &Device, block: Block<'_>, n_nodes: usize) -> Result<Self, Error> {
        let for_lists = match block {
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
pub(super) fn node_blocks(n_nodes: usize, max_blocks: usize) -> Launch {
    Launch::blocks(n_nodes.div_ceil(BLOCK as usize).min(max_blocks), BLOCK)
}

/// The state of an episode as a look at it finds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) progress: Progress,
    /// True if a candidate's score was no number.
    pub(crate) is_unbounded: bool,
    /// True if the next round goes on with the step of the last one, by the same scores.
    pub(crate) is_within_step: bool,
}

/// How an episode picks, wherever its scores come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickRules {
    /// The scale of degrees.
    pub(crate) scale: Scale,
    /// Nodes for each step.
    pub(crate) select: Select,
    /// As [`Rules::keep_isolated`].
    pub(crate) keep_isolated: bool,
}

/// Reads a state.
pub(super) fn look_at(device: &Device, state: &Buffer<u32>) -> Result<Look, Error> {
    let state = device.download(state)?;
    Ok(Look {
        progress: Progress {
            n_candidates: state[N_CANDIDATES],
            n_cover: state[N_COVER],
            n_steps: state[N_STEPS],
            is_done: state[N_CANDIDATES] == 0 && state[N_LEFT] == 0,
        },
        is_unbounded: state[N_UNBOUNDED] > 0,
        is_within_step: state[N_LEFT] > 0,
    })
}

/// Lets the next step pass over some of the best candidates, but for the last of all.
pub(super) fn pass_over(
    device: &Device,
    n_nodes: u32,
    state: &mut Buffer<u32>,
) -> Result<(), Error> {
    let mut words = device.download(state)?;
    words[N_PASSED] = n_nodes.min(words[N_CANDIDATES].saturating_sub(1));
    device.write(&words, state)
}

impl<'a> DeviceEpisode<'a> {
    pub(super) fn start(
        device: &Device,
        graph: &'a ResidentAdjacency,
        rules: PickRules,
    ) -> Result<Self, Error> {
        let nodes = graph.n_nodes()?;
        let mut episode = Self::uncounted(device, graph, nodes, FixedRules::new(rules))?;
        let (n_nodes, buffers) = (nodes as usize, &mut episode.buffers);
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
        Ok(episode)
    }

    /// Some nodes with rows of the graph, whose degrees are 0 so far.
    pub(super) fn uncounted(
        device: &Device,
        graph: &'a ResidentAdjacency,
        n_nodes: u32,
        rules: FixedRules,
    ) -> Result<Self, Error> {
        Ok(Self {
            device: device.clone(),
            graph,
            n_nodes,
            rules,
            buffers: Buffers::new(device, graph.block()?, n_nodes as usize)?,
            max_blocks: MAX_BLOCKS,
        })
    }

    /// The same episode on fewer blocks.
    #[cfg(test)]
    pub(super) fn set_max_blocks(&mut self, max_blocks: usize) {
        self.max_blocks = max_blocks.min(MAX_BLOCKS);
    }

    pub(super) fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    pub(super) fn cover(&self) -> Result<Vec<u32>, Error> {
        let n_cover = self.progress()?.progress.n_cover as usize;
        let mut cover = self.device.download(&self.buffers.cover)?;
        cover.truncate(n_cover);
        Ok(cover)
    }

    pub(super) fn progress(&self) -> Result<Look, Error> {
        look_at(&self.device, &self.buffers.state)
    }

    /// As [`super::Episode::pass_over`].
    pub(super) fn pass_over(&mut self, n_nodes: u32) -> Result<(), Error> {
        pass_over(&self.device, n_nodes, &mut self.buffers.state)
    }

    /// Launches the rounds of one step, whose scores a model has computed.
    pub(super) fn launch_step(&mut self, scores: &Buffer) -> Result<(), Error> {
        checks::len("cover episode", "scores", self.n_nodes as usize, scores)?;
        self.launch_rounds(self.rules.rounds_of_step(), Scores::Values(scores))
    }

    /// As [`DeviceEpisode::launch_step`] for a step that passes over candidates: it may have another number of rounds than those
    /// after it, and a round behind its end would begin the next one with old scores. So it looks after each.
    pub(super) fn launch_first_step(&mut self, scores: &Buffer) -> Result<(), Error> {
        checks::len("cover episode", "scores", self.n_nodes as usize, scores)?;
        loop {
            self.launch_rounds(1, Scores::Values(scores))?;
            if !look_at(&self.device, &self.buffers.state)?.is_within_step {
                return Ok(());
            }
        }
    }

    /// Launches rounds with the same arguments each: all that changes is in device memory.
    pub(super) fn launch_rounds(
        &mut self,
        n_rounds: usize,
        scores: Scores<'_>,
    ) -> Result<(), Error> {
        let block = self.graph.block()?;
        for _ in 0..n_rounds {
            self.select(block, scores)?;
            match block {
                Block::Lists { row_ptr, columns } => {
                    self.mark_in_lists(row_ptr, columns)?;
                    self.spread_in_lists(row_ptr, columns)?;
                }
                Block::Bits {
                    words,
                    words_per_row,
                } => self.remove_from_bits(words, words_per_row as u32)?,
            }
        }
        Ok(())
    }

    /// Picks the nodes of a round.
    pub(super) fn select(&mut self, block: Block<'_>, scores: Scores<'_>) -> Result<(), Error> {
        let (rules, buffers) = (&self.rules, &mut self.buffers);
        let kernel = match (&block, scores) {
            (Block::Lists { .. }, Scores::Table(_)) => "score_select_csr",
            (Block::Lists { .. }, Scores::Values(_)) => "score_select_values_csr",
            (Block::Bits { .. }, Scores::Table(_)) => "score_select_bits",
            (Block::Bits { .. }, Scores::Values(_)) => "score_select_values_bits",
        };
        let mut marks = None;
        let mut args = match block {
            Block::Lists { row_ptr, columns } => {
                marks = Some(Arg::write(&mut buffers.marks));
                vec![Arg::read(row_ptr), Arg::read(columns)]
            }
            Block::Bits {
                words,
                words_per_row,
            } => vec![Arg::read(words), Arg::u32(words_per_row as u32)],
        };
        args.push(Arg::read(&buffers.degree));
        args.extend(scores.args(&buffers.d2, self.n_nodes, rules.by_largest_degree));
        args.extend([
            Arg::u32(rules.select),
            Arg::u32(rules.keep_isolated),
            Arg::write(&mut buffers.keys),
            Arg::write(&mut buffers.best),
        ]);
        args.extend(marks);
        args.extend([
            Arg::write(&mut buffers.alive),
            Arg::write(&mut buffers.group),
            Arg::write(&mut buffers.cover),
            Arg::write(&mut buffers.state),
        ]);
        let shape = node_blocks(self.n_nodes as usize, self.max_blocks);
        // SAFETY: the lengths are those of `Buffers::new` for this graph, which was checked when it was uploaded, and a model's
        // scores are checked; a node is picked once at most, so `cover` holds all picks.
        unsafe { self.device.launch(kernel, shape, &args) }
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
