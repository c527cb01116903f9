//! A model's episode on several ranks with a device each: a rank counts and offers its own nodes, and all take the best alike.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_device::{Arg, Buffer, Device, Launch, checks};
use shardgraph_layers::autodiff::DeviceComm;
use shardgraph_ops::{Block, ResidentAdjacency};
use shardgraph_shard::Partition;

use super::device_episode::{
    BLOCK, DeviceEpisode, FixedRules, GROUP, Look, N_STATE, PickRules, Scores, look_at,
    node_blocks, pass_over,
};
use super::model::{ModelRows, RowSource, WeightSums};
use crate::Error;

/// Words of a rank's offer, as in `cuda/solver/cover_ranks.cu`.
const OFFER: usize = 1 + GROUP * (3 + GROUP - 1);
/// Rows of a bit matrix that one block adds, as there.
const CHUNK_ROWS: usize = 1024;
/// Blocks that keep a large GPU busy with a warp for each row.
const MAX_ROW_BLOCKS: usize = 2048;
/// The word of `state` that says whether there are candidates.
const N_CANDIDATES: usize = 1;

/// One rank's part of an episode: its rows of the graph, and what every rank knows of all nodes.
#[derive(Debug)]
pub(crate) struct SharedEpisode<'a> {
    /// The selection among the own nodes, with a state of its own.
    own: DeviceEpisode<'a>,
    block: Block<'a>,
    nodes: Range<u32>,
    partition: Partition,
    rules: FixedRules,
    /// `[n_nodes]`: 1 outside the cover.
    alive: Buffer<u32>,
    /// `[n_nodes]`: residual degrees.
    degree: Buffer<u32>,
    cover: Buffer<u32>,
    state: Buffer<u32>,
    /// `[n_own]`: sums over neighbours.
    sums: Buffer<u64>,
}

impl<'a> SharedEpisode<'a> {
    /// The state before the first pick; `graph` has the rows of the nodes that are this rank's.
    ///
    /// # Errors
    /// The device's, and those of the exchange between ranks (so below).
    pub(crate) fn start(
        graph: &'a ResidentAdjacency,
        partition: &Partition,
        rules: PickRules,
        comm: &mut DeviceComm<'_>,
    ) -> Result<Self, Error> {
        let (device, rank) = (comm.device(), comm.rank());
        let (nodes, n_nodes) = (partition.range(rank), partition.n_rows() as usize);
        // The own selection offers as many as a round can take; which are left out is for all to say.
        let own_rules = FixedRules {
            by_largest_degree: 0,
            select: GROUP as u32,
            keep_isolated: 1,
        };
        let own = DeviceEpisode::uncounted(device, graph, nodes.len() as u32, own_rules)?;
        let mut state = vec![0; N_STATE];
        state[N_CANDIDATES] = 1;
        let mut episode = Self {
            block: graph.block()?,
            sums: device.zeros(nodes.len())?,
            nodes,
            partition: partition.clone(),
            rules: FixedRules::new(rules),
            alive: device.upload(&vec![1u32; n_nodes])?,
            degree: device.zeros(n_nodes)?,
            cover: device.zeros(n_nodes)?,
            state: device.zeros(N_STATE)?,
            own,
        };
        device.write(&state, &mut episode.own.buffers.state)?;
        episode.count(comm)?;
        Ok(episode)
    }

    /// Lets the first step pass over the best candidates of all ranks, so many of them, but for the last of all.
    pub(crate) fn pass_over(&mut self, n_nodes: u32) -> Result<(), Error> {
        Ok(pass_over(&self.own.device, n_nodes, &mut self.state)?)
    }

    /// Writes the own rows of a model's input, and the mask of all nodes, for the present state.
    pub(crate) fn write_rows(&mut self, rows: ModelRows<'_>) -> Result<(), Error> {
        let (n_nodes, n_own) = (self.partition.n_rows() as usize, self.nodes.len());
        rows.check(n_own, n_nodes)?;
        let (device, own) = (&self.own.device, &mut self.own.buffers);
        let shape = node_blocks(n_own, self.own.max_blocks);
        if let (Some(node), Some(edge)) = (rows.node, rows.edge) {
            let args = [
                Arg::read(&own.degree),
                Arg::read(&self.alive),
                Arg::u32(self.nodes.start),
                Arg::u32(n_own as u32),
                Arg::u32(self.rules.by_largest_degree),
                Arg::read(&self.state),
                Arg::write(node),
                Arg::write(edge),
            ];
            // SAFETY: `node` and `edge` are checked; the own nodes are among all, of which `alive` has one each.
            unsafe { device.launch("cover_rank_rows", shape, &args)? };
            let sums = WeightSums {
                graph: self.own.graph,
                degree: &self.degree,
                first: self.nodes.start,
                state: &self.state,
                by_largest_degree: self.rules.by_largest_degree,
            };
            sums.write(device, edge, self.own.max_blocks)?;
        }
        if rows.neighbor_degree.is_some() {
            sum_neighbors(device, self.block, &self.degree, &mut own.d2)?;
        }
        let source = RowSource {
            device,
            degree: &own.degree,
            d2: &own.d2,
            cover: &self.cover,
            state: &self.state,
            n_rows: n_own as u32,
            by_largest_degree: self.rules.by_largest_degree,
        };
        if let Some(neighbor_degree) = rows.neighbor_degree {
            source.write_neighbor_degree(neighbor_degree, shape)?;
        }
        if let (Some(keep), Some(scale)) = (rows.keep, rows.scale) {
            let shape = node_blocks(n_nodes, self.own.max_blocks);
            source.write_mask(keep, scale, shape)?;
        }
        Ok(())
    }

    /// The rounds of one step: all ranks pick the best nodes by these scores of their own nodes, and count what is left.
    pub(crate) fn pick(&mut self, scores: &Buffer, comm: &mut DeviceComm<'_>) -> Result<(), Error> {
        for _ in 0..self.rules.rounds_of_step() {
            self.pick_round(scores, comm)?;
        }
        Ok(())
    }

    /// As [`SharedEpisode::pick`], for a step that passes over candidates; copies the state to the host after each round.
    pub(crate) fn pick_first(
        &mut self,
        scores: &Buffer,
        comm: &mut DeviceComm<'_>,
    ) -> Result<(), Error> {
        loop {
            self.pick_round(scores, comm)?;
            if !self.look()?.is_within_step {
                return Ok(());
            }
        }
    }

    fn pick_round(&mut self, scores: &Buffer, comm: &mut DeviceComm<'_>) -> Result<(), Error> {
        checks::len("cover episode", "scores", self.nodes.len(), scores)?;
        self.own.select(self.block, Scores::Values(scores))?;
        let offers = self.exchange_offers(comm)?;
        self.agree(comm.device(), comm.size(), &offers)?;
        self.count(comm)
    }

    /// The state after the launches so far, the same on every rank; copies it to the host.
    pub(crate) fn look(&self) -> Result<Look, Error> {
        Ok(look_at(&self.own.device, &self.state)?)
    }

    /// The picked nodes in the order in which they were picked.
    pub(crate) fn cover(&self) -> Result<Vec<u32>, Error> {
        let mut cover = self.own.device.download(&self.cover)?;
        cover.truncate(self.look()?.progress.n_cover as usize);
        Ok(cover)
    }

    /// Packs the own selection's nodes and gathers what all ranks offer: `[n_ranks, OFFER]`.
    fn exchange_offers(&self, comm: &mut DeviceComm<'_>) -> Result<Buffer, Error> {
        let (device, own) = (comm.device(), &self.own.buffers);
        let mut offer = device.zeros(OFFER)?;
        let (kernel, mut args) = match self.block {
            Block::Lists { row_ptr, columns } => (
                "cover_offer_csr",
                vec![Arg::read(row_ptr), Arg::read(columns)],
            ),
            Block::Bits {
                words,
                words_per_row,
            } => (
                "cover_offer_bits",
                vec![
                    Arg::read(words),
                    Arg::u32(words_per_row as u32),
                    Arg::u32(self.partition.n_rows()),
                ],
            ),
        };
        args.extend([
            Arg::read(&own.keys),
            Arg::read(&own.group),
            Arg::read(&own.degree),
            Arg::read(&self.alive),
            Arg::read(&own.state),
            Arg::u32(self.nodes.start),
            Arg::write(&mut offer),
        ]);
        // SAFETY: the own selection has own nodes, whose rows are in the block; an offer of GROUP nodes with fewer neighbours each
        // has OFFER words.
        unsafe { device.launch(kernel, Launch::blocks(1, BLOCK), &args)? };
        let counts = vec![OFFER; comm.size() as usize];
        let mut offers = device.allocate(counts.iter().sum())?;
        comm.all_gather(&Arc::new(offer), &counts, &mut offers)?;
        Ok(offers)
    }

    /// Takes the best of all offers into the cover.
    fn agree(&mut self, device: &Device, n_ranks: u32, offers: &Buffer) -> Result<(), Error> {
        let own = &mut self.own.buffers;
        let args = [
            Arg::read(offers),
            Arg::u32(n_ranks),
            Arg::u32(self.nodes.start),
            Arg::u32(self.nodes.len() as u32),
            Arg::u32(self.partition.n_rows()),
            Arg::u32(self.rules.select),
            Arg::u32(self.rules.keep_isolated),
            Arg::write(&mut self.alive),
            Arg::write(&mut self.cover),
            Arg::write(&mut self.state),
            Arg::write(&mut own.best),
            Arg::write(&mut own.state),
        ];
        // SAFETY: offers are OFFER words of each rank, with nodes of the graph; a node is offered once at most, so `cover` holds all.
        unsafe { device.launch("cover_agree", Launch::blocks(1, BLOCK), &args)? };
        Ok(())
    }

    /// Counts the residual degrees of the own nodes, and learns those of all.
    fn count(&mut self, comm: &mut DeviceComm<'_>) -> Result<(), Error> {
        let (device, own) = (comm.device(), &mut self.own.buffers);
        sum_neighbors(device, self.block, &self.alive, &mut self.sums)?;
        let mut shared = device.allocate(self.nodes.len())?;
        let args = [
            Arg::read(&self.sums),
            Arg::read(&self.alive),
            Arg::u32(self.nodes.start),
            Arg::u32(self.nodes.len() as u32),
            Arg::write(&mut own.degree),
            Arg::write(&mut shared),
        ];
        let shape = node_blocks(self.nodes.len(), self.own.max_blocks);
        // SAFETY: `sums`, `degree` and `shared` have one element for each own node.
        unsafe { device.launch("cover_share", shape, &args)? };
        let n_nodes = self.partition.n_rows();
        let mut all = device.allocate(n_nodes as usize)?;
        comm.all_gather(&Arc::new(shared), &self.partition.counts(), &mut all)?;
        let args = [
            Arg::read(&all),
            Arg::u32(n_nodes),
            Arg::write(&mut self.degree),
            Arg::write(&mut self.state),
        ];
        let shape = node_blocks(n_nodes as usize, self.own.max_blocks);
        // SAFETY: `all` and `degree` have one element for each node.
        unsafe { device.launch("cover_count", shape, &args)? };
        Ok(())
    }
}

/// For each own node the sum of a weight over its neighbours, of which the graph has one a node.
fn sum_neighbors(
    device: &Device,
    block: Block<'_>,
    weight: &Buffer<u32>,
    sums: &mut Buffer<u64>,
) -> Result<(), Error> {
    let n_own = sums.len();
    match block {
        Block::Lists { row_ptr, columns } => {
            let args = [
                Arg::read(row_ptr),
                Arg::read(columns),
                Arg::read(weight),
                Arg::u32(n_own as u32),
                Arg::write(sums),
            ];
            let n_blocks = n_own.div_ceil(BLOCK as usize / 32).min(MAX_ROW_BLOCKS);
            // SAFETY: the block has n_own rows, and its columns are nodes of the graph.
            unsafe { device.launch("cover_sums_csr", Launch::blocks(n_blocks, BLOCK), &args)? };
        }
        Block::Bits {
            words,
            words_per_row,
        } => {
            device.clear(sums)?;
            let n_nodes = weight.len();
            let args = [
                Arg::read(words),
                Arg::u32(words_per_row as u32),
                Arg::read(weight),
                Arg::u32(n_nodes as u32),
                Arg::u32(n_own as u32),
                Arg::write(sums),
            ];
            let shape = Launch::wide(words_per_row, n_nodes.div_ceil(CHUNK_ROWS), BLOCK);
            // SAFETY: the matrix has a row for each node, of words_per_row words for n_own columns.
            unsafe { device.launch("cover_sums_bits", shape, &args)? };
        }
    }
    Ok(())
}
