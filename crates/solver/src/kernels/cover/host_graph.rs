//! A resident graph in host memory, as loops over neighbours read it.

use shardgraph_device::Error;
use shardgraph_ops::{Block, ResidentAdjacency};

/// A graph in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostGraph<'a> {
    Lists {
        row_ptr: &'a [u64],
        columns: &'a [u32],
    },
    Bits {
        words: &'a [u64],
        words_per_row: usize,
    },
}

impl<'a> HostGraph<'a> {
    pub(super) fn new(graph: &'a ResidentAdjacency) -> Result<Self, Error> {
        Ok(match graph.block()? {
            Block::Lists { row_ptr, columns } => Self::Lists {
                row_ptr: row_ptr.on_host("cover")?,
                columns: columns.on_host("cover")?,
            },
            Block::Bits {
                words,
                words_per_row,
            } => Self::Bits {
                words: words.on_host("cover")?,
                words_per_row,
            },
        })
    }

    /// Calls `f` with each neighbour of `node`, ascending.
    pub(super) fn for_each_neighbor(&self, node: usize, mut f: impl FnMut(usize)) {
        match self {
            Self::Lists { row_ptr, columns } => {
                let row = &columns[row_ptr[node] as usize..row_ptr[node + 1] as usize];
                row.iter().for_each(|&u| f(u as usize));
            }
            Self::Bits {
                words,
                words_per_row,
            } => {
                let row = &words[node * words_per_row..][..*words_per_row];
                for (w, &word) in row.iter().enumerate() {
                    let mut rest = word;
                    while rest != 0 {
                        f(64 * w + rest.trailing_zeros() as usize);
                        rest &= rest - 1;
                    }
                }
            }
        }
    }
}
