//! Residual degrees and neighbour degrees of many states of one graph at once, from scratch.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};
use shardgraph_ops::{Block, ResidentAdjacency};

use super::host_graph::HostGraph;

/// States of one graph that one pass counts.
pub(crate) const MAX_STATES: u32 = 32;
/// Blocks that keep a large GPU busy with a warp for each row.
const MAX_ROW_BLOCKS: usize = 2048;
const BLOCK: u32 = 256;
const WARPS: usize = 8;

/// Rows of some states of a graph in a batch: node `v` and state `b` have number `first + v * stride + b`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPlace {
    pub(crate) first: usize,
    pub(crate) stride: usize,
}

/// Counts degrees of up to 32 states of a graph, each a set of nodes that are still there; owns the working memory.
#[derive(Debug)]
pub(crate) struct StateCounter<'a> {
    device: Device,
    graph: &'a ResidentAdjacency,
    n_nodes: u32,
    n_states: u32,
    /// `[n_states, words_per_row]`, for a bit matrix.
    masks: Buffer<u64>,
    /// `[n_states, n_planes, words_per_row]`, for a bit matrix.
    planes: Buffer<u64>,
}

impl<'a> StateCounter<'a> {
    /// A counter of `n_states` states of `graph`.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Index`] for no state or more than 32; [`shardgraph_device::ErrorKind::OutOfMemory`].
    /// # Complexity
    /// Memory on a bit matrix: `n_states * (1 + log2 n_nodes) * n_nodes / 8` B; none on lists.
    pub(crate) fn new(
        device: &Device,
        graph: &'a ResidentAdjacency,
        n_states: u32,
    ) -> Result<Self, Error> {
        if n_states == 0 || n_states > MAX_STATES {
            return Err(Error::index(
                "count_states",
                n_states.into(),
                MAX_STATES.into(),
            ));
        }
        let words_per_row = match graph.block()? {
            Block::Bits { words_per_row, .. } if !device.is_host() => words_per_row,
            _ => 0,
        };
        let n_masks = checks::elements(&[words_per_row, n_states as usize]);
        let n_planes = checks::elements(&[n_masks, n_planes(graph) as usize]);
        Ok(Self {
            device: device.clone(),
            graph,
            n_nodes: graph.n_nodes()?,
            n_states,
            masks: device.zeros(n_masks)?,
            planes: device.zeros(n_planes)?,
        })
    }

    /// Writes the residual degrees and the neighbours' degree sums of all states.
    ///
    /// # Shapes
    /// `alive [n_nodes]`: bit `b` of a node's word says that it is in state `b`. `degree` and `d2` `[n_nodes, n_states]`;
    /// both are 0 for nodes that are not in the state.
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`], [`shardgraph_device::ErrorKind::OtherDevice`], the driver's error.
    /// # Complexity
    /// Two passes over the graph, whatever the number of states (of a bit matrix: for each eight of them).
    /// # Determinism
    /// Exact.
    pub(crate) fn count(
        &mut self,
        alive: &Buffer<u32>,
        degree: &mut Buffer<u32>,
        d2: &mut Buffer<u64>,
    ) -> Result<(), Error> {
        let n_nodes = self.n_nodes as usize;
        let n_counts = checks::elements(&[n_nodes, self.n_states as usize]);
        checks::len("count_states", "alive", n_nodes, alive)?;
        checks::len("count_states", "degree", n_counts, degree)?;
        checks::len("count_states", "d2", n_counts, d2)?;
        if n_nodes == 0 {
            return Ok(());
        }
        match self.graph.block()? {
            _ if self.device.is_host() => self.count_on_host(alive, degree, d2),
            Block::Lists { row_ptr, columns } => {
                self.count_lists(row_ptr, columns, alive, degree, d2)
            }
            Block::Bits {
                words,
                words_per_row,
            } => self.count_bits(words, words_per_row as u32, alive, degree, d2),
        }
    }

    /// Writes the scaled sums of neighbours' degrees of all states into the rows of a batch.
    ///
    /// # Shapes
    /// `d2 [n_nodes, n_states]` as [`StateCounter::count`] leaves it, `scale [n_states]`; the row of node `v` and state `b` is
    /// number `first + v * stride + b` of `rows`.
    /// # Errors
    /// As [`StateCounter::count`]; [`shardgraph_device::ErrorKind::Invalid`] on the host, which reads its counts where they are.
    pub(crate) fn write_rows(
        &self,
        d2: &Buffer<u64>,
        scale: &Buffer,
        place: RowPlace,
        rows: &mut Buffer,
    ) -> Result<(), Error> {
        let (n_nodes, n_states) = (self.n_nodes as usize, self.n_states as usize);
        let n_counts = checks::elements(&[n_nodes, n_states]);
        checks::len("count_states", "d2", n_counts, d2)?;
        checks::len("count_states", "scale", n_states, scale)?;
        let before_last = checks::elements(&[n_nodes.saturating_sub(1), place.stride]);
        let end = place
            .first
            .saturating_add(before_last)
            .saturating_add(n_states);
        if n_states > place.stride || end > rows.len() {
            return Err(Error::index("count_states", end as u64, rows.len() as u64));
        }
        if n_nodes == 0 {
            return Ok(());
        }
        let args = [
            Arg::read(d2),
            Arg::read(scale),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::u32(u32::try_from(place.stride).unwrap_or(u32::MAX)),
            Arg::u64(place.first as u64),
            Arg::write(rows),
        ];
        // SAFETY: the lengths were checked above: the last row is below `end`.
        unsafe {
            self.device
                .launch("state_neighbor_degree", self.row_launch(), &args)
        }
    }

    fn count_on_host(
        &self,
        alive: &Buffer<u32>,
        degree: &mut Buffer<u32>,
        d2: &mut Buffer<u64>,
    ) -> Result<(), Error> {
        let graph = HostGraph::new(self.graph)?;
        let alive = alive.on_host("count_states")?;
        let degree = degree.on_host_mut("count_states")?;
        let n_states = self.n_states as usize;
        sum_neighbors(&graph, alive, n_states, degree, |u, b| alive[u] >> b & 1);
        let d2 = d2.on_host_mut("count_states")?;
        sum_neighbors(&graph, alive, n_states, d2, |u, b| {
            u64::from(degree[u * n_states + b])
        });
        Ok(())
    }

    fn count_lists(
        &self,
        row_ptr: &Buffer<u64>,
        columns: &Buffer<u32>,
        alive: &Buffer<u32>,
        degree: &mut Buffer<u32>,
        d2: &mut Buffer<u64>,
    ) -> Result<(), Error> {
        let rows = self.row_launch();
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(alive),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::write(degree),
        ];
        // SAFETY: the graph was checked when it was uploaded (rows inside `columns`, columns below n_nodes), and `count`
        // checked the lengths of the other buffers.
        unsafe { self.device.launch("residual_degree_csr", rows, &args)? };
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(alive),
            Arg::read(degree),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::write(d2),
        ];
        // SAFETY: as above.
        unsafe { self.device.launch("residual_d2_csr", rows, &args) }
    }

    fn count_bits(
        &mut self,
        words: &Buffer<u64>,
        words_per_row: u32,
        alive: &Buffer<u32>,
        degree: &mut Buffer<u32>,
        d2: &mut Buffer<u64>,
    ) -> Result<(), Error> {
        self.cut_masks(alive, words_per_row)?;
        let args = [
            Arg::read(words),
            Arg::u32(words_per_row),
            Arg::read(&self.masks),
            Arg::read(alive),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::write(degree),
        ];
        let rows = self.row_launch();
        // SAFETY: `upload` checked the matrix, `new` made masks and planes for this graph and number of states, `count`
        // checked the other lengths; so for all four launches.
        unsafe { self.device.launch("residual_degree_bits", rows, &args)? };
        self.cut_planes(degree, words_per_row)?;
        let args = [
            Arg::read(words),
            Arg::u32(words_per_row),
            Arg::read(&self.planes),
            Arg::read(alive),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::u32(n_planes(self.graph)),
            Arg::write(d2),
        ];
        // SAFETY: see the first launch.
        unsafe { self.device.launch("residual_d2_bits", rows, &args) }
    }

    fn cut_masks(&mut self, alive: &Buffer<u32>, words_per_row: u32) -> Result<(), Error> {
        let args = [
            Arg::read(alive),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::u32(words_per_row),
            Arg::write(&mut self.masks),
        ];
        let words = Launch::blocks((words_per_row as usize).div_ceil(WARPS), BLOCK);
        // SAFETY: see `count_bits`.
        unsafe { self.device.launch("residual_masks_bits", words, &args) }
    }

    fn cut_planes(&mut self, degree: &Buffer<u32>, words_per_row: u32) -> Result<(), Error> {
        let args = [
            Arg::read(degree),
            Arg::u32(self.n_nodes),
            Arg::u32(self.n_states),
            Arg::u32(n_planes(self.graph)),
            Arg::u32(words_per_row),
            Arg::write(&mut self.planes),
        ];
        let words = Launch::blocks((words_per_row as usize).div_ceil(WARPS), BLOCK);
        // SAFETY: see `count_bits`.
        unsafe { self.device.launch("residual_planes_bits", words, &args) }
    }

    /// A warp for each row, up to what fills a GPU.
    fn row_launch(&self) -> Launch {
        let n_blocks = (self.n_nodes as usize).div_ceil(WARPS);
        Launch::blocks(n_blocks.min(MAX_ROW_BLOCKS), BLOCK)
    }
}

/// Bits of the largest degree.
fn n_planes(graph: &ResidentAdjacency) -> u32 {
    u32::BITS - graph.max_degree().leading_zeros()
}

/// For each node in a state the sum of `f(neighbour, state)`; 0 for the others.
fn sum_neighbors<T: Copy + Default + std::ops::AddAssign>(
    graph: &HostGraph<'_>,
    alive: &[u32],
    n_states: usize,
    sums: &mut [T],
    f: impl Fn(usize, usize) -> T,
) {
    for (node, sums) in sums.chunks_exact_mut(n_states).enumerate() {
        sums.fill(T::default());
        for (b, sum) in sums.iter_mut().enumerate() {
            if alive[node] >> b & 1 == 1 {
                graph.for_each_neighbor(node, |u| *sum += f(u, b));
            }
        }
    }
}
