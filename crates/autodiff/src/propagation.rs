//! The neighbour sum of a batch of graph states on one rank: adjacency blocks under masks, one pass for all states.

use std::sync::{Arc, OnceLock};

use shardgraph_device::{
    Adjacency, Buffer, Copy2d, Device, DeviceKind, MaskedProduct, ResidentAdjacency,
};
use shardgraph_shard::{BitShard, CsrShard};

use crate::{BatchLayout, Error, ErrorKind};

/// One rank's part of a symmetric adjacency matrix.
#[derive(Debug, Clone)]
pub enum RowShard {
    /// Own rows as column lists ([`CsrShard::by_rows`]).
    Csr(Arc<CsrShard>),
    /// All rows restricted to own columns as bits, by symmetry the own rows.
    Bits(Arc<BitShard>),
    /// Either of them in a device's memory, made by [`RowShard::resident`].
    Resident(Arc<ResidentShard>),
}

/// A shard in the memory of one device.
#[derive(Debug)]
pub struct ResidentShard {
    own_rows: std::ops::Range<u32>,
    adjacency: ResidentAdjacency,
}

impl RowShard {
    /// The same shard in the device's memory, so that products need not upload it; on the host it stays as it is.
    ///
    /// # Errors
    /// What the upload fails with.
    pub fn resident(self, device: &Device) -> Result<Self, Error> {
        if device.kind() == DeviceKind::Host || matches!(self, Self::Resident(_)) {
            return Ok(self);
        }
        Ok(Self::Resident(Arc::new(ResidentShard {
            own_rows: self.own_rows(),
            adjacency: device.resident(self.adjacency())?,
        })))
    }

    fn own_rows(&self) -> std::ops::Range<u32> {
        match self {
            Self::Csr(shard) => shard.rows(),
            Self::Bits(shard) => shard.columns_range(),
            Self::Resident(shard) => shard.own_rows.clone(),
        }
    }

    fn adjacency(&self) -> Adjacency<'_> {
        match self {
            Self::Csr(shard) => Adjacency::Csr {
                row_ptr: shard.row_ptr(),
                columns: shard.cols(),
                values: shard.values(),
            },
            Self::Bits(shard) => Adjacency::Bits {
                words: shard.words(),
                words_per_row: shard.words_per_row(),
            },
            Self::Resident(shard) => Adjacency::Resident(&shard.adjacency),
        }
    }
}

/// The operator `y_b = scale_b * keep_b A keep_b x_b` for each state `b` of each graph of a batch.
///
/// The residual graph is the graph under a mask: `keep_b` is 0 for nodes that have left it. The
/// adjacency is symmetric and `scale_b` is one number a state, so the operator is its own adjoint.
/// Masks and scales stay on the device that applies it first: a propagation, with its clones, is for one device.
#[derive(Debug, Clone)]
pub struct Propagation {
    layout: Arc<BatchLayout>,
    shards: Vec<RowShard>,
    /// For each group `[n_nodes * n_states]`, 1 for nodes in the residual graph.
    keep: Vec<Vec<f32>>,
    /// One factor a state of the batch.
    scale: Vec<f32>,
    /// Masks and factors on the device that applied the operator first.
    on_device: Arc<OnceLock<Vec<Masks>>>,
}

/// The masks and factors of one group.
#[derive(Debug)]
struct Masks {
    keep: Buffer,
    scale: Buffer,
}

impl Propagation {
    /// Puts adjacency blocks, masks and scales together.
    ///
    /// # Shapes
    /// One shard and one `keep [n_nodes, n_states]` (row-major, all nodes of the graph) a group; one scale a state.
    /// # Errors
    /// When a count does not fit the layout, or a shard does not hold the rank's rows.
    pub fn new(
        layout: Arc<BatchLayout>,
        shards: Vec<RowShard>,
        keep: Vec<Vec<f32>>,
        scale: Vec<f32>,
    ) -> Result<Self, Error> {
        let wrong = |text: String| Err(ErrorKind::Usage(text).into());
        let n_groups = layout.groups().len();
        if shards.len() != n_groups || keep.len() != n_groups || scale.len() != layout.n_states() {
            return wrong(format!(
                "propagation of {n_groups} groups and {} states: {} shards, {} masks and {} scales were given",
                layout.n_states(),
                shards.len(),
                keep.len(),
                scale.len()
            ));
        }
        for (i, group) in layout.groups().iter().enumerate() {
            let own = group.partition.range(layout.rank());
            if shards[i].own_rows() != own {
                return wrong(format!(
                    "propagation: the shard of group {i} has rows {:?}, its partition gives this rank {own:?}",
                    shards[i].own_rows()
                ));
            }
            let wanted = group.partition.n_rows() as usize * group.n_states;
            if keep[i].len() != wanted {
                return wrong(format!(
                    "propagation: the mask of group {i} has {} elements, {wanted} are needed",
                    keep[i].len()
                ));
            }
        }
        Ok(Self {
            layout,
            shards,
            keep,
            scale,
            on_device: Arc::default(),
        })
    }

    /// Which rows this rank has.
    pub fn layout(&self) -> &Arc<BatchLayout> {
        &self.layout
    }

    /// The masks, one a group.
    #[cfg(test)]
    pub(crate) fn keep(&self) -> &[Vec<f32>] {
        &self.keep
    }

    /// The scales, one a state.
    #[cfg(test)]
    pub(crate) fn scale(&self) -> &[f32] {
        &self.scale
    }

    /// The shards, one a group.
    #[cfg(test)]
    pub(crate) fn shards(&self) -> &[RowShard] {
        &self.shards
    }

    /// Applies the operator to the rows of all ranks (rank by rank, as an all-gather leaves them), giving own rows.
    pub(crate) fn apply(
        &self,
        device: &Device,
        gathered: &Buffer,
        width: usize,
    ) -> Result<Buffer, Error> {
        if self.layout.n_rows() == 0 {
            return Ok(device.zeros(0)?); // other ranks have all graphs
        }
        if self.shards.len() == 1 {
            return self.apply_group(device, gathered, width, 0);
        }
        let mut out = device.zeros(self.layout.n_rows() * width)?;
        for group in 0..self.shards.len() {
            if self.layout.group_rows(group).is_empty() {
                continue; // other ranks have this graph
            }
            let rows = self.apply_group(device, gathered, width, group)?;
            let first = self.layout.group_rows(group).start * width;
            device.copy_2d(run(rows.len(), 0, first), &rows, &mut out)?;
        }
        Ok(out)
    }

    fn apply_group(
        &self,
        device: &Device,
        gathered: &Buffer,
        width: usize,
        group: usize,
    ) -> Result<Buffer, Error> {
        let partition = &self.layout.groups()[group].partition;
        let n_states = self.layout.groups()[group].n_states;
        let own = partition.range(self.layout.rank());
        let masks = &self.masks(device)?[group];
        let whole;
        let x = match self.shards.len() == 1 && partition.n_ranks() == 1 {
            true => gathered, // in node order already
            false => {
                whole = self.collect_group(device, gathered, width, group)?;
                &whole
            }
        };
        let mut y = device.zeros(own.len() * n_states * width)?;
        let product = MaskedProduct {
            adjacency: self.shards[group].adjacency(),
            n_rows: own.len(),
            n_columns: partition.n_rows() as usize,
            n_states,
            width,
            first_row: own.start as usize,
            keep: Some(&masks.keep),
            scale: Some(&masks.scale),
            bias: None,
            relu: false,
        };
        device.masked_sparse_product(product, x, &mut y)?;
        Ok(y)
    }

    fn masks(&self, device: &Device) -> Result<&[Masks], Error> {
        if let Some(masks) = self.on_device.get() {
            return Ok(masks);
        }
        let mut masks = Vec::with_capacity(self.keep.len());
        for (group, keep) in self.keep.iter().enumerate() {
            masks.push(Masks {
                keep: device.upload(keep)?,
                scale: device.upload(&self.scale[self.layout.group_states(group)])?,
            });
        }
        Ok(self.on_device.get_or_init(|| masks))
    }

    /// One group's rows of all nodes, in node order, out of the rank-by-rank rows of all groups.
    fn collect_group(
        &self,
        device: &Device,
        gathered: &Buffer,
        width: usize,
        group: usize,
    ) -> Result<Buffer, Error> {
        let groups = self.layout.groups();
        let n_nodes = groups[group].partition.n_rows() as usize;
        let mut whole = device.zeros(n_nodes * groups[group].n_states * width)?;
        let rows_of =
            |i: usize, rank: u32| groups[i].partition.range(rank).len() * groups[i].n_states;
        let (mut first, mut filled) = (0, 0);
        for rank in 0..groups[group].partition.n_ranks() {
            let before: usize = (0..group).map(|i| rows_of(i, rank)).sum();
            let len = rows_of(group, rank) * width;
            device.copy_2d(
                run(len, (first + before) * width, filled),
                gathered,
                &mut whole,
            )?;
            filled += len;
            first += (0..groups.len()).map(|i| rows_of(i, rank)).sum::<usize>();
        }
        Ok(whole)
    }
}

/// A copy of `len` adjacent elements.
fn run(len: usize, source_first: usize, target_first: usize) -> Copy2d {
    Copy2d {
        rows: 1,
        width: len,
        source_first,
        source_stride: len,
        target_first,
        target_stride: len,
    }
}
