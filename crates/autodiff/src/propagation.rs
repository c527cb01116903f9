//! The neighbour sum of a batch of graph states on one rank: adjacency blocks under masks, one pass for all states.

use std::sync::Arc;

use shardgraph_device::{Adjacency, Device, Rows, SparseProduct};
use shardgraph_shard::{BitShard, CsrShard};

use crate::{BatchLayout, Error, ErrorKind};

/// One rank's part of a symmetric adjacency matrix.
#[derive(Debug, Clone)]
pub enum RowShard {
    /// Own rows as column lists ([`CsrShard::by_rows`]).
    Csr(Arc<CsrShard>),
    /// All rows restricted to own columns as bits, by symmetry the own rows.
    Bits(Arc<BitShard>),
}

impl RowShard {
    fn own_rows(&self) -> std::ops::Range<u32> {
        match self {
            Self::Csr(shard) => shard.rows(),
            Self::Bits(shard) => shard.columns_range(),
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
        }
    }
}

/// The operator `y_b = scale_b * keep_b A keep_b x_b` for each state `b` of each graph of a batch.
///
/// The residual graph is the graph under a mask: `keep_b` is 0 for nodes that have left it. The
/// adjacency is symmetric and `scale_b` is one number a state, so the operator is its own adjoint.
#[derive(Debug, Clone)]
pub struct Propagation {
    layout: Arc<BatchLayout>,
    shards: Vec<RowShard>,
    /// For each group `[n_nodes * n_states]`, 1 for nodes in the residual graph.
    keep: Vec<Vec<f32>>,
    /// One factor a state of the batch.
    scale: Vec<f32>,
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
        gathered: &[f32],
        width: usize,
    ) -> Result<Vec<f32>, Error> {
        let mut out = Vec::with_capacity(self.layout.n_rows() * width);
        for group in 0..self.shards.len() {
            out.extend(self.apply_group(device, gathered, width, group)?);
        }
        Ok(out)
    }

    fn apply_group(
        &self,
        device: &Device,
        gathered: &[f32],
        width: usize,
        group: usize,
    ) -> Result<Vec<f32>, Error> {
        let partition = &self.layout.groups()[group].partition;
        let n_states = self.layout.groups()[group].n_states;
        let n_nodes = partition.n_rows() as usize;
        let own = partition.range(self.layout.rank());
        let whole = self.collect_group(gathered, width, group);
        let keep = &self.keep[group];
        let mut x = device.upload(&whole)?;
        let rows = |n_rows| Rows { n_rows, width };
        device.scale_rows(rows(n_nodes * n_states), keep, &mut x)?;
        let mut y = device.zeros(own.len() * n_states * width)?;
        let product = SparseProduct {
            adjacency: self.shards[group].adjacency(),
            n_rows: own.len(),
            n_columns: n_nodes,
            width: n_states * width,
        };
        device.sparse_product(product, &x, &mut y)?;
        let scale = &self.scale[self.layout.group_states(group)];
        let own_keep = &keep[own.start as usize * n_states..own.end as usize * n_states];
        let factors: Vec<f32> = own_keep
            .iter()
            .enumerate()
            .map(|(i, keep)| keep * scale[i % n_states])
            .collect();
        device.scale_rows(rows(own.len() * n_states), &factors, &mut y)?;
        Ok(device.download(&y)?)
    }

    /// One group's rows of all nodes, in node order, out of the rank-by-rank rows of all groups.
    fn collect_group(&self, gathered: &[f32], width: usize, group: usize) -> Vec<f32> {
        let groups = self.layout.groups();
        let rows_of =
            |i: usize, rank: u32| groups[i].partition.range(rank).len() * groups[i].n_states;
        let mut whole = Vec::new();
        let mut first = 0;
        for rank in 0..groups[group].partition.n_ranks() {
            let before: usize = (0..group).map(|i| rows_of(i, rank)).sum();
            let start = (first + before) * width;
            whole.extend_from_slice(&gathered[start..start + rows_of(group, rank) * width]);
            first += (0..groups.len()).map(|i| rows_of(i, rank)).sum::<usize>();
        }
        whole
    }
}
