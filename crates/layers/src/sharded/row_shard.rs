//! One rank's part of a symmetric adjacency matrix, as lists, bits or a block.

use std::ops::Range;
use std::sync::Arc;

use shardgraph_autodiff::Error;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::ops::{Adjacency, ResidentAdjacency};
use shardgraph_shard::{BitShard, BlockEntries, BlockShard, CsrShard, ExchangePlan};

/// One rank's part of a symmetric adjacency matrix.
#[derive(Debug, Clone)]
pub enum RowShard {
    /// Own rows as column lists ([`CsrShard::by_rows`]).
    Csr(Arc<CsrShard>),
    /// All rows restricted to own columns as bits, by symmetry the own rows.
    Bits(Arc<BitShard>),
    /// A block with columns of its own, for a way of sharing sums other than the all-gather.
    Block(Arc<BlockShard>),
    /// One of them in a device's memory, made by [`RowShard::resident`].
    Resident(Arc<ResidentShard>),
}

/// A shard in the memory of one device.
#[derive(Debug)]
pub struct ResidentShard {
    own_rows: Range<u32>,
    adjacency: ResidentAdjacency,
    wiring: Option<Arc<ExchangePlan>>,
    bytes: u64,
}

impl RowShard {
    /// The same shard in the device's memory and as it multiplies them fastest
    /// (`shardgraph_ops::ResidentAdjacency::for_products`); on the host a sparse shard stays as it is.
    ///
    /// # Errors
    /// The upload's.
    pub fn resident(self, device: &Device) -> Result<Self, Error> {
        if matches!(self, Self::Resident(_)) {
            return Ok(self);
        }
        let rows = self
            .wiring()
            .map_or(self.own_rows(), |wiring| wiring.rows());
        match ResidentAdjacency::for_products(device, self.adjacency(), rows.len())? {
            None => Ok(self),
            Some(adjacency) => Ok(Self::Resident(Arc::new(ResidentShard {
                own_rows: self.own_rows(),
                wiring: self.wiring().cloned(),
                bytes: adjacency.host_bytes().unwrap_or(self.bytes()),
                adjacency,
            }))),
        }
    }

    /// The bytes of the entries' arrays.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Csr(shard) => shard.bytes(),
            Self::Bits(shard) => shard.bytes(),
            Self::Block(shard) => shard.bytes(),
            Self::Resident(shard) => shard.bytes,
        }
    }

    /// True for a block with columns of its own.
    pub fn has_block(&self) -> bool {
        self.wiring().is_some()
    }

    /// The block in a device's memory, once it is [resident](RowShard::resident) there.
    pub fn resident_adjacency(&self) -> Option<&ResidentAdjacency> {
        match self {
            Self::Resident(shard) => Some(&shard.adjacency),
            Self::Csr(_) | Self::Bits(_) | Self::Block(_) => None,
        }
    }

    /// The exchange plan of a block; the others gather all rows.
    pub(super) fn wiring(&self) -> Option<&Arc<ExchangePlan>> {
        match self {
            Self::Csr(_) | Self::Bits(_) => None,
            Self::Block(shard) => Some(shard.exchange()),
            Self::Resident(shard) => shard.wiring.as_ref(),
        }
    }

    pub(super) fn own_rows(&self) -> Range<u32> {
        match self {
            Self::Csr(shard) => shard.rows(),
            Self::Bits(shard) => shard.columns_range(),
            Self::Block(shard) => shard.exchange().own_rows(),
            Self::Resident(shard) => shard.own_rows.clone(),
        }
    }

    pub(super) fn adjacency(&self) -> Adjacency<'_> {
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
            Self::Block(shard) => match shard.entries() {
                BlockEntries::Lists {
                    row_ptr,
                    columns,
                    values,
                } => Adjacency::Csr {
                    row_ptr,
                    columns,
                    values: values.as_deref(),
                },
                BlockEntries::Bits {
                    words,
                    words_per_row,
                } => Adjacency::Bits {
                    words,
                    words_per_row: *words_per_row,
                },
            },
            Self::Resident(shard) => Adjacency::Resident(&shard.adjacency),
        }
    }
}
