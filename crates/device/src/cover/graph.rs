//! A whole graph in the memory of a device.

use crate::memory::on_host;
use crate::{Adjacency, Buffer, Device, Error, ErrorKind};

/// A symmetric adjacency matrix without weights that stays on a device.
#[derive(Debug)]
pub struct DeviceGraph {
    n_nodes: u32,
    max_degree: u32,
    form: Form,
}

/// The adjacency in device memory.
#[derive(Debug)]
pub(super) enum Form {
    Lists {
        row_ptr: Buffer<u64>,
        columns: Buffer<u32>,
    },
    Bits {
        words: Buffer<u64>,
        words_per_row: u32,
    },
}

impl DeviceGraph {
    /// Copies a graph to the device. Its weights, if it has any, are left behind.
    ///
    /// # Shapes
    /// Lists: `row_ptr` has `n_nodes + 1` elements, each row ascends. Bits: `n_nodes` rows of `ceil(n_nodes / 64)` words.
    /// # Errors
    /// [`ErrorKind::Length`] and [`ErrorKind::Index`] for lists or words that are no such matrix,
    /// [`ErrorKind::OutOfMemory`], the driver's error.
    /// # Complexity
    /// 4 B an entry and 8 B a row, or `n_nodes / 8` B a row.
    pub fn upload(device: &Device, adjacency: Adjacency<'_>, n_nodes: u32) -> Result<Self, Error> {
        match adjacency {
            Adjacency::Csr {
                row_ptr, columns, ..
            } => Self::upload_lists(device, row_ptr, columns, n_nodes),
            Adjacency::Bits {
                words,
                words_per_row,
            } => Self::upload_bits(device, words, words_per_row, n_nodes),
            Adjacency::Resident(_) => Err(Error::invalid(
                "upload of a graph",
                "the adjacency is resident in the form of the sparse products: give its slices",
            )),
        }
    }

    fn upload_lists(
        device: &Device,
        row_ptr: &[u64],
        columns: &[u32],
        n_nodes: u32,
    ) -> Result<Self, Error> {
        check_lists(row_ptr, columns, n_nodes)?;
        let lengths = row_ptr.windows(2).map(|row| row[1] - row[0]);
        Ok(Self {
            n_nodes,
            max_degree: lengths.max().unwrap_or(0).try_into().unwrap_or(u32::MAX),
            form: Form::Lists {
                row_ptr: device.upload(row_ptr)?,
                columns: device.upload(columns)?,
            },
        })
    }

    fn upload_bits(
        device: &Device,
        words: &[u64],
        words_per_row: usize,
        n_nodes: u32,
    ) -> Result<Self, Error> {
        let n = n_nodes as usize;
        check_length("words_per_row", n.div_ceil(64), words_per_row)?;
        check_length("words", n * words_per_row, words.len())?;
        let row_count = |row: &[u64]| row.iter().map(|word| word.count_ones()).sum::<u32>();
        let counts = words.chunks_exact(words_per_row.max(1)).map(row_count);
        Ok(Self {
            n_nodes,
            max_degree: counts.max().unwrap_or(0),
            form: Form::Bits {
                words: device.upload(words)?,
                words_per_row: words_per_row as u32,
            },
        })
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// The largest number of neighbours of a node.
    pub fn max_degree(&self) -> u32 {
        self.max_degree
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// The form, read in place by the host back end.
    pub(super) fn on_host(&self) -> Result<HostForm<'_>, Error> {
        Ok(match &self.form {
            Form::Lists { row_ptr, columns } => HostForm::Lists {
                row_ptr: on_host("cover", row_ptr)?,
                columns: on_host("cover", columns)?,
            },
            Form::Bits {
                words,
                words_per_row,
            } => HostForm::Bits {
                words: on_host("cover", words)?,
                words_per_row: *words_per_row as usize,
            },
        })
    }
}

/// The adjacency in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostForm<'a> {
    Lists {
        row_ptr: &'a [u64],
        columns: &'a [u32],
    },
    Bits {
        words: &'a [u64],
        words_per_row: usize,
    },
}

impl HostForm<'_> {
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

/// The kernels index by what is in the lists, so nothing in them may lead outside.
fn check_lists(row_ptr: &[u64], columns: &[u32], n_nodes: u32) -> Result<(), Error> {
    check_length("row_ptr", n_nodes as usize + 1, row_ptr.len())?;
    let n_entries = columns.len() as u64;
    check_length("columns", row_ptr[n_nodes as usize] as usize, columns.len())?;
    let index = |index: u64, n_rows: u64| {
        let op = "cover";
        Err(ErrorKind::Index { op, index, n_rows }.into())
    };
    if row_ptr[0] != 0 {
        return index(row_ptr[0], n_entries);
    }
    if let Some(row) = row_ptr.windows(2).find(|row| row[0] > row[1]) {
        return index(row[0], row[1]);
    }
    match columns.iter().find(|&&column| column >= n_nodes) {
        Some(&column) => index(column.into(), n_nodes.into()),
        None => Ok(()),
    }
}

fn check_length(operand: &'static str, wanted: usize, given: usize) -> Result<(), Error> {
    if wanted == given {
        return Ok(());
    }
    let op = "cover";
    Err(ErrorKind::Length {
        op,
        operand,
        wanted,
        given,
    }
    .into())
}
