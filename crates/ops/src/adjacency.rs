//! Adjacency blocks: as slices of the caller, and checked once and kept on a device.
//!
//! An operation that takes an [`Adjacency`] of host slices uploads it for that call where the device is a GPU. What is
//! used again and again is made resident first. The host keeps a copy of its own, so that a resident structure never
//! refers to the caller's memory.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_ops::{Adjacency, ResidentAdjacency, SparseProduct, sparse_product};
//!
//! let device = Device::host();
//! let (row_ptr, columns) = ([0, 1, 3, 4], [1, 0, 2, 1]); // the path 0 - 1 - 2
//! let lists = Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values: None };
//! let path = ResidentAdjacency::upload(&device, lists)?;
//! let x = device.upload(&[1.0, 2.0, 4.0])?;
//! let mut sums = device.zeros(3)?;
//! let adjacency = Adjacency::Resident(&path);
//! let product = SparseProduct { adjacency, n_rows: 3, n_columns: 3, width: 1 };
//! sparse_product(&device, product, &x, &mut sums)?;
//! assert_eq!(device.download(&sums)?, [2.0, 5.0, 2.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

use shardgraph_device::{Buffer, Device, Error, checks};

use crate::sparse::{DeviceBits, DeviceLists, Tiles};

/// What errors about a block name as their operation.
const OP: &str = "sparse_product";

/// A block of an adjacency matrix as the sparse product reads it.
#[derive(Debug, Clone, Copy)]
pub enum Adjacency<'a> {
    /// Own rows as column lists: row `i` is `columns[row_ptr[i]..row_ptr[i + 1]]`.
    Csr {
        /// Where each row starts, and the end of the last.
        row_ptr: &'a [u64],
        /// Column ids, ascending in each row.
        columns: &'a [u32],
        /// One weight for each column id; absent means 1.
        values: Option<&'a [f32]>,
    },
    /// All rows restricted to the own columns, as bits; by symmetry the transpose of the own rows.
    Bits {
        /// `n_columns * words_per_row` words.
        words: &'a [u64],
        /// Words in one row.
        words_per_row: usize,
    },
    /// A block that is on the device already ([`ResidentAdjacency::upload`]).
    Resident(&'a ResidentAdjacency),
}

impl Adjacency<'_> {
    /// The block fits a product of this shape. Column ids of slices are checked where they are used.
    pub(crate) fn check(&self, n_rows: usize, n_columns: usize) -> Result<(), Error> {
        match *self {
            Adjacency::Csr {
                row_ptr,
                columns,
                values,
            } => {
                let wanted = n_rows.saturating_add(1);
                if row_ptr.len() != wanted {
                    return Err(Error::length(OP, "row_ptr", wanted, row_ptr.len()));
                }
                check_lists(row_ptr, columns, values)
            }
            Adjacency::Bits {
                words,
                words_per_row,
            } => check_words(words.len(), words_per_row, n_rows, n_columns),
            Adjacency::Resident(resident) => resident.check(n_rows, n_columns),
        }
    }
}

/// How a GPU multiplies a bit matrix with dense columns; the host knows one way only.
///
/// Tensor cores multiply bf16 numbers, so `x` is split into parts of 8 bits. Products with ones are exact; what a sum is
/// off by comes from the split (given here, times the sum of the neighbours' sizes) and from f32 accumulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BitPath {
    /// Three parts: all 24 bits of `x`, so the split adds no error.
    #[default]
    Exact,
    /// Two parts: at most 2^-17 of the sum of sizes, for two thirds of the work.
    Fast,
    /// Plain f32 units and no split. The only path that reads neighbours alone: on the others an infinite or NaN `x`
    /// reaches every row.
    Portable,
}

/// An adjacency block in a device's memory, checked.
#[derive(Debug)]
pub struct ResidentAdjacency {
    pub(crate) storage: Storage,
    /// One more than the largest column id of lists; the rows of words of a bit matrix.
    n_columns: usize,
    /// Entries of the longest list, or of the fullest row of words.
    max_degree: u32,
}

#[derive(Debug)]
pub(crate) enum Storage {
    Lists(Box<DeviceLists>),
    Bits(DeviceBits),
    /// In host memory only.
    Tiles(Tiles),
}

/// The buffers of a [`ResidentAdjacency`], for kernels of other crates.
#[derive(Debug, Clone, Copy)]
pub enum Block<'a> {
    /// Rows as column lists: row `i` is `columns[row_ptr[i]..row_ptr[i + 1]]`.
    Lists {
        /// Where each row starts, and the end of the last: ascending from 0 to the number of columns.
        row_ptr: &'a Buffer<u64>,
        /// Column ids.
        columns: &'a Buffer<u32>,
    },
    /// Rows as bits.
    Bits {
        /// `n_columns * words_per_row` words.
        words: &'a Buffer<u64>,
        /// Words in one row.
        words_per_row: usize,
    },
}

impl ResidentAdjacency {
    /// Checks an adjacency block and keeps it on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) where the parts do not fit each other;
    /// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for a block that is resident already; the error of the
    /// upload.
    /// # Complexity
    /// One pass over the block and one copy of it: 8 B a row, 4 B an entry, 4 B a weight; 8 B a word. Rows of more than
    /// 1024 entries take 24 B a thousand entries more on a GPU.
    pub fn upload(device: &Device, adjacency: Adjacency<'_>) -> Result<Self, Error> {
        match adjacency {
            Adjacency::Csr {
                row_ptr,
                columns,
                values,
            } => {
                check_lists(row_ptr, columns, values)?;
                let lists = DeviceLists::upload(device, row_ptr, columns, values)?;
                let lengths = row_ptr.windows(2).map(|row| row[1] - row[0]);
                Ok(Self {
                    storage: Storage::Lists(Box::new(lists)),
                    n_columns: columns.iter().max().map_or(0, |&last| last as usize + 1),
                    max_degree: u32::try_from(lengths.max().unwrap_or(0)).unwrap_or(u32::MAX),
                })
            }
            Adjacency::Bits {
                words,
                words_per_row,
            } => {
                let n_columns = words.len().checked_div(words_per_row).unwrap_or(0);
                let wanted = n_columns * words_per_row;
                if wanted != words.len() {
                    return Err(Error::length("resident", "words", wanted, words.len()));
                }
                let count = |row: &[u64]| row.iter().map(|word| word.count_ones()).sum::<u32>();
                let counts = words.chunks_exact(words_per_row.max(1)).map(count);
                Ok(Self {
                    storage: Storage::Bits(DeviceBits::upload(device, words, words_per_row)?),
                    n_columns,
                    max_degree: counts.max().unwrap_or(0),
                })
            }
            Adjacency::Resident(_) => {
                Err(Error::invalid("resident", "the block is resident already"))
            }
        }
    }

    /// Keeps a block in the form that the device multiplies fastest, for products alone; `None` where the given slices are
    /// that form already.
    ///
    /// On the host that are tiles of 255 columns, for lists that ascend, name no column of a row twice and have no weights,
    /// and for bit matrices, where a row has six entries or more in a mean tile. Products by them have the bits of those by
    /// the slices. On a GPU it is [`ResidentAdjacency::upload`].
    ///
    /// # Shapes
    /// `n_rows` own rows, as a product has them.
    /// # Errors
    /// As [`ResidentAdjacency::upload`].
    /// # Complexity
    /// Two passes over the block. Tiles take a byte an entry, some hundredths more to make rows of a pair as long as each
    /// other, and a byte for each tile of two rows.
    ///
    /// ```
    /// use shardgraph_device::Device;
    /// use shardgraph_ops::{Adjacency, ResidentAdjacency, SparseProduct, sparse_product};
    ///
    /// let device = Device::host();
    /// let (row_ptr, columns) = ([0, 6, 12], [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6]);
    /// let lists = Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values: None };
    /// let block = ResidentAdjacency::for_products(&device, lists, 2)?.expect("six entries a row");
    /// let x = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])?;
    /// let mut sums = device.zeros(2)?;
    /// let adjacency = Adjacency::Resident(&block);
    /// let product = SparseProduct { adjacency, n_rows: 2, n_columns: 7, width: 1 };
    /// sparse_product(&device, product, &x, &mut sums)?;
    /// assert_eq!(device.download(&sums)?, [21.0, 27.0]);
    /// # Ok::<(), shardgraph_device::Error>(())
    /// ```
    pub fn for_products(
        device: &Device,
        adjacency: Adjacency<'_>,
        n_rows: usize,
    ) -> Result<Option<Self>, Error> {
        if !device.is_host() {
            return Self::upload(device, adjacency).map(Some);
        }
        let tiles = match adjacency {
            Adjacency::Csr {
                row_ptr,
                columns,
                values: None,
            } => {
                check_lists(row_ptr, columns, None)?;
                Tiles::suit_lists(row_ptr, columns).then(|| Tiles::of_lists(row_ptr, columns))
            }
            Adjacency::Bits {
                words,
                words_per_row,
            } => {
                let n_columns = words.len().checked_div(words_per_row).unwrap_or(0);
                check_words(words.len(), words_per_row, n_rows, n_columns)?;
                let suit = Tiles::suit_bits(words, words_per_row, n_rows);
                suit.then(|| Tiles::of_bits(words, words_per_row, n_rows))
            }
            Adjacency::Csr { .. } | Adjacency::Resident(_) => None,
        };
        Ok(tiles.map(|tiles| Self {
            n_columns: tiles.n_columns(),
            max_degree: u32::MAX,
            storage: Storage::Tiles(tiles),
        }))
    }

    /// Makes the lists of another stream of the device this stream's, as [`Device::adopt`] does with a buffer; a bit matrix's
    /// words, too.
    ///
    /// # Errors
    /// Those of [`Device::adopt`].
    pub fn adopt(&mut self, stream: &Device) -> Result<(), Error> {
        match &mut self.storage {
            Storage::Lists(lists) => lists.adopt(stream),
            Storage::Bits(bits) => stream.adopt(&mut bits.words),
            Storage::Tiles(_) => Ok(()),
        }
    }

    /// A block in a form of its own.
    #[cfg(test)]
    pub(crate) fn with_storage(storage: Storage, n_columns: usize) -> Self {
        Self {
            storage,
            n_columns,
            max_degree: 0,
        }
    }

    /// The same block with another way to multiply bits; lists and the host stay as they are.
    #[must_use]
    pub fn with_bit_path(mut self, path: BitPath) -> Self {
        if let Storage::Bits(bits) = &mut self.storage {
            bits.path = path;
        }
        self
    }

    /// The number of nodes of a whole graph: a block whose rows and columns are the same nodes.
    ///
    /// # Errors
    /// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) for a block with more columns than rows, or with more
    /// words in a row than its columns need.
    pub fn n_nodes(&self) -> Result<u32, Error> {
        const OP: &str = "graph";
        let n_nodes = match &self.storage {
            Storage::Lists(lists) => lists.n_rows(),
            Storage::Bits(bits) if bits.words_per_row == self.n_columns.div_ceil(64) => {
                self.n_columns
            }
            Storage::Bits(bits) => {
                let wanted = self.n_columns.div_ceil(64);
                return Err(Error::length(
                    OP,
                    "words_per_row",
                    wanted,
                    bits.words_per_row,
                ));
            }
            Storage::Tiles(tiles) => tiles.n_rows(),
        };
        if self.n_columns > n_nodes {
            return Err(Error::index(OP, self.n_columns as u64 - 1, n_nodes as u64));
        }
        let too_many = |_| Error::invalid(OP, format!("{n_nodes} nodes, at most 2^32 - 1 fit"));
        u32::try_from(n_nodes).map_err(too_many)
    }

    /// Entries of the longest row.
    pub fn max_degree(&self) -> u32 {
        self.max_degree
    }

    /// The buffers of the block, without the weights.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for a block of
    /// [`ResidentAdjacency::for_products`] on the host.
    pub fn block(&self) -> Result<Block<'_>, Error> {
        match &self.storage {
            Storage::Lists(lists) => Ok(Block::Lists {
                row_ptr: &lists.row_ptr,
                columns: &lists.columns,
            }),
            Storage::Bits(bits) => Ok(Block::Bits {
                words: &bits.words,
                words_per_row: bits.words_per_row,
            }),
            Storage::Tiles(_) => Err(Error::invalid(
                "resident",
                "the block was made for products alone",
            )),
        }
    }

    /// The weights of the entries of lists, `[n_entries]`; absent where all are 1.
    pub fn weights(&self) -> Option<&Buffer> {
        match &self.storage {
            Storage::Lists(lists) => lists.values.as_ref(),
            Storage::Bits(_) | Storage::Tiles(_) => None,
        }
    }

    /// The bytes of a block on the host; none on a GPU.
    pub fn host_bytes(&self) -> Option<u64> {
        match &self.storage {
            Storage::Lists(lists) => {
                let n_values = lists.values.as_ref().map_or(0, Buffer::len);
                let (n_rows, n_entries) = (lists.row_ptr.as_host()?.len(), lists.columns.len());
                Some((8 * n_rows + 4 * n_entries + 4 * n_values) as u64)
            }
            Storage::Bits(bits) => Some(8 * bits.words.as_host()?.len() as u64),
            Storage::Tiles(tiles) => Some(tiles.bytes()),
        }
    }

    /// The block has this shape: `n_rows` own rows that name columns below `n_columns`.
    pub(crate) fn check(&self, n_rows: usize, n_columns: usize) -> Result<(), Error> {
        let given = match &self.storage {
            Storage::Lists(lists) => lists.n_rows(),
            Storage::Tiles(tiles) => tiles.n_rows(),
            Storage::Bits(bits) => {
                let n_words = bits.words.len();
                return check_words(n_words, bits.words_per_row, n_rows, n_columns);
            }
        };
        if given != n_rows {
            return Err(Error::length(OP, "adjacency rows", n_rows, given));
        }
        if self.n_columns > n_columns {
            return Err(Error::index(
                OP,
                self.n_columns as u64 - 1,
                n_columns as u64,
            ));
        }
        Ok(())
    }
}

/// Row starts, column ids and weights fit each other.
fn check_lists(row_ptr: &[u64], columns: &[u32], values: Option<&[f32]>) -> Result<(), Error> {
    let Some(&last) = row_ptr.last() else {
        return Err(Error::length(OP, "row_ptr", 1, 0));
    };
    let in_order = row_ptr[0] == 0 && row_ptr.windows(2).all(|pair| pair[0] <= pair[1]);
    if !in_order || last as usize != columns.len() {
        return Err(Error::length(OP, "columns", last as usize, columns.len()));
    }
    match values {
        Some(values) if values.len() != columns.len() => {
            Err(Error::length(OP, "values", columns.len(), values.len()))
        }
        _ => Ok(()),
    }
}

/// Words hold `n_columns` rows of `n_rows` bits.
fn check_words(
    n_words: usize,
    words_per_row: usize,
    n_rows: usize,
    n_columns: usize,
) -> Result<(), Error> {
    let wanted = checks::elements(&[n_columns, words_per_row]);
    if n_words != wanted {
        return Err(Error::length(OP, "words", wanted, n_words));
    }
    if words_per_row < n_rows.div_ceil(64) {
        let wanted = n_rows.div_ceil(64);
        return Err(Error::length(OP, "words_per_row", wanted, words_per_row));
    }
    Ok(())
}
