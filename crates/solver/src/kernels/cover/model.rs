//! An episode whose scores a model computes on the same device: what a step launches before and behind the model.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};
use shardgraph_ops::{Block, ResidentAdjacency};

use super::device_episode::{BLOCK, DeviceEpisode, Look, PickRules, node_blocks};

/// A model's input in device memory, one row a node; what the model does not read is absent.
///
/// `node` and `edge` are 0 and `keep` is 1 everywhere when an episode begins; the kernels write what changes.
#[derive(Debug, Default)]
pub(crate) struct ModelRows<'b> {
    /// `[n_nodes]`: membership in the cover.
    pub(crate) node: Option<&'b mut Buffer>,
    /// `[n_nodes, 2]`: scaled degree, 0; with weights of edges the scaled sums of the positive ones and of the negative ones' sizes.
    pub(crate) edge: Option<&'b mut Buffer>,
    /// `[n_nodes]`: the scaled sum of neighbours' degrees.
    pub(crate) neighbor_degree: Option<&'b mut Buffer>,
    /// `[n_nodes]`: 1 outside the cover.
    pub(crate) keep: Option<&'b mut Buffer>,
    /// `[1]`: the scale.
    pub(crate) scale: Option<&'b mut Buffer>,
}

/// One run of the greedy algorithm with scores of a model, on a device that launches kernels.
///
/// A step is the launches of [`ModelEpisode::write_rows`], of the model, and of [`ModelEpisode::pick`], in this order. Their
/// arguments never change, so they are recorded once; a step behind the end changes nothing.
#[derive(Debug)]
pub(crate) struct ModelEpisode<'a> {
    state: DeviceEpisode<'a>,
}

impl<'a> ModelEpisode<'a> {
    /// The state before the first pick.
    ///
    /// # Errors
    /// As [`super::Episode::start`].
    pub(crate) fn start(
        device: &Device,
        graph: &'a ResidentAdjacency,
        rules: PickRules,
    ) -> Result<Self, Error> {
        let state = DeviceEpisode::start(device, graph, rules)?;
        Ok(Self { state })
    }

    /// Lets the first step pass over the best candidates, so many of them, but for the last of all.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn pass_over(&mut self, n_nodes: u32) -> Result<(), Error> {
        self.state.pass_over(n_nodes)
    }

    /// Launches the rounds of one step: the best nodes by these scores are picked and removed.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`] unless there is a score a node; the driver's error.
    pub(crate) fn pick(&mut self, scores: &Buffer) -> Result<(), Error> {
        self.state.launch_step(scores)
    }

    /// As [`ModelEpisode::pick`], for a step that passes over candidates; copies the state to the host after each round.
    ///
    /// # Errors
    /// As [`ModelEpisode::pick`].
    pub(crate) fn pick_first(&mut self, scores: &Buffer) -> Result<(), Error> {
        self.state.launch_first_step(scores)
    }

    /// The state after the launches so far; copies it to the host.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn look(&self) -> Result<Look, Error> {
        self.state.progress()
    }

    /// The picked nodes in the order in which they were picked.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn cover(&self) -> Result<Vec<u32>, Error> {
        self.state.cover()
    }

    /// Writes the rows of a model's input for the present state.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Length`]; the driver's error.
    pub(crate) fn write_rows(&mut self, rows: ModelRows<'_>) -> Result<(), Error> {
        let state = &self.state;
        let n_nodes = state.n_nodes() as usize;
        rows.check(n_nodes, n_nodes)?;
        let shape = node_blocks(n_nodes, state.max_blocks);
        let (device, buffers) = (&state.device, &state.buffers);
        let by_largest_degree = state.rules.by_largest_degree;
        if let (Some(node), Some(edge)) = (rows.node, rows.edge) {
            let args = [
                Arg::read(&buffers.degree),
                Arg::read(&buffers.cover),
                Arg::u32(state.n_nodes()),
                Arg::u32(by_largest_degree),
                Arg::read(&buffers.state),
                Arg::write(node),
                Arg::write(edge),
            ];
            // SAFETY: the lengths were checked above, and those of `buffers` are of `Buffers::new`; the cover has nodes of the
            // graph.
            unsafe { device.launch("cover_rows", shape, &args)? };
            let sums = WeightSums {
                graph: state.graph,
                degree: &buffers.degree,
                first: 0,
                state: &buffers.state,
                by_largest_degree,
            };
            sums.write(device, edge, state.max_blocks)?;
        }
        let source = RowSource {
            device,
            degree: &buffers.degree,
            d2: &buffers.d2,
            cover: &buffers.cover,
            state: &buffers.state,
            n_rows: state.n_nodes(),
            by_largest_degree,
        };
        if let Some(neighbor_degree) = rows.neighbor_degree {
            source.write_neighbor_degree(neighbor_degree, shape)?;
        }
        match (rows.keep, rows.scale) {
            (Some(keep), Some(scale)) => source.write_mask(keep, scale, shape),
            _ => Ok(()),
        }
    }
}

impl ModelRows<'_> {
    /// Refuses other lengths than those of `n_rows` rows in a graph of `n_nodes`.
    pub(super) fn check(&self, n_rows: usize, n_nodes: usize) -> Result<(), Error> {
        let lengths = [
            ("node", self.node.as_deref(), n_rows),
            ("edge", self.edge.as_deref(), 2 * n_rows),
            ("neighbor_degree", self.neighbor_degree.as_deref(), n_rows),
            ("keep", self.keep.as_deref(), n_nodes),
            ("scale", self.scale.as_deref(), 1),
        ];
        for (operand, given, wanted) in lengths {
            if let Some(given) = given {
                checks::len("cover episode", operand, wanted, given)?;
            }
        }
        Ok(())
    }
}

/// The sums of the weights of residual edges, for some rows of a graph; of a graph without weights nothing is written.
pub(super) struct WeightSums<'b> {
    /// The rows from `first` on.
    pub(super) graph: &'b ResidentAdjacency,
    /// `[n_nodes]`: residual degrees of all nodes.
    pub(super) degree: &'b Buffer<u32>,
    pub(super) first: u32,
    pub(super) state: &'b Buffer<u32>,
    pub(super) by_largest_degree: u32,
}

impl WeightSums<'_> {
    /// Writes the edge rows, `[n_rows, 2]`.
    pub(super) fn write(
        &self,
        device: &Device,
        edge: &mut Buffer,
        max_blocks: usize,
    ) -> Result<(), Error> {
        let (Some(weights), Block::Lists { row_ptr, columns }) =
            (self.graph.weights(), self.graph.block()?)
        else {
            return Ok(());
        };
        let n_rows = row_ptr.len() - 1;
        checks::len("cover episode", "edge", 2 * n_rows, edge)?;
        let args = [
            Arg::read(row_ptr),
            Arg::read(columns),
            Arg::read(weights),
            Arg::read(self.degree),
            Arg::u32(self.first),
            Arg::u32(n_rows as u32),
            Arg::u32(self.by_largest_degree),
            Arg::read(self.state),
            Arg::write(edge),
        ];
        // A warp a row; more blocks than others have, as rows differ in length.
        let n_blocks = n_rows.div_ceil(BLOCK as usize / 32).min(8 * max_blocks);
        // SAFETY: the graph's columns are nodes, of which `degree` has one element each, and there is a weight for each.
        unsafe { device.launch("cover_weight_sums", Launch::blocks(n_blocks, BLOCK), &args) }
    }
}

/// State of an episode, as parts of a model's input are made of it.
pub(super) struct RowSource<'b> {
    pub(super) device: &'b Device,
    /// `[n_rows]`.
    pub(super) degree: &'b Buffer<u32>,
    /// `[n_rows]`.
    pub(super) d2: &'b Buffer<u64>,
    pub(super) cover: &'b Buffer<u32>,
    pub(super) state: &'b Buffer<u32>,
    pub(super) n_rows: u32,
    pub(super) by_largest_degree: u32,
}

impl RowSource<'_> {
    /// The scaled sum of neighbours' degrees of each row.
    pub(super) fn write_neighbor_degree(
        &self,
        neighbor_degree: &mut Buffer,
        shape: Launch,
    ) -> Result<(), Error> {
        let args = [
            Arg::read(self.degree),
            Arg::read(self.d2),
            Arg::u32(self.n_rows),
            Arg::u32(self.by_largest_degree),
            Arg::read(self.state),
            Arg::write(neighbor_degree),
        ];
        // SAFETY: the caller has checked the rows' lengths; those of the state are of the episode.
        unsafe { self.device.launch("cover_neighbor_degree", shape, &args) }
    }

    /// The nodes that stay, and the scale.
    pub(super) fn write_mask(
        &self,
        keep: &mut Buffer,
        scale: &mut Buffer,
        shape: Launch,
    ) -> Result<(), Error> {
        let args = [
            Arg::read(self.cover),
            Arg::u32(self.by_largest_degree),
            Arg::read(self.state),
            Arg::write(keep),
            Arg::write(scale),
        ];
        // SAFETY: as for the neighbour degrees; the cover has nodes of the graph.
        unsafe { self.device.launch("cover_mask", shape, &args) }
    }
}
