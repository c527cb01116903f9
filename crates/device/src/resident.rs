//! Graph structure that stays on a device: adjacency blocks and index lists, checked once and uploaded once.
//!
//! An operation that takes an [`Adjacency`] or an index as a host slice uploads it for that call where the device is a
//! GPU. What is used again and again is made resident first. The host keeps a copy of its own, so that a resident
//! structure never refers to the caller's memory.
//!
//! ```
//! use shardgraph_device::{Adjacency, Device, SparseProduct};
//!
//! let device = Device::host();
//! let (row_ptr, columns) = ([0, 1, 3, 4], [1, 0, 2, 1]); // the path 0 - 1 - 2
//! let path = device.resident(Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values: None })?;
//! let x = device.upload(&[1.0, 2.0, 4.0])?;
//! let mut sums = device.zeros(3)?;
//! let adjacency = Adjacency::Resident(&path);
//! device.sparse_product(SparseProduct { adjacency, n_rows: 3, n_columns: 3, width: 1 }, &x, &mut sums)?;
//! assert_eq!(device.download(&sums)?, [2.0, 5.0, 2.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

use crate::device::{BackEnd, check, check_index, elements, length};
use crate::gpu::{GpuBits, GpuLists};
use crate::host::Tiles;
use crate::memory::{on_host, on_host_mut, other_device};
use crate::{Adjacency, Buffer, Device, DeviceKind, Error, ErrorKind, Rows};

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
    pub(crate) form: Form,
    /// One more than the largest column id of lists; the rows of words of a bit matrix.
    pub(crate) n_columns: usize,
}

#[derive(Debug)]
pub(crate) enum Form {
    HostLists {
        row_ptr: Vec<u64>,
        columns: Vec<u32>,
        values: Option<Vec<f32>>,
    },
    HostBits {
        words: Vec<u64>,
        words_per_row: usize,
    },
    HostTiles(Tiles),
    Lists(Box<GpuLists>),
    Bits(GpuBits),
}

impl ResidentAdjacency {
    /// The same block with another way to multiply bits; lists and the host stay as they are.
    #[must_use]
    pub fn with_bit_path(mut self, path: BitPath) -> Self {
        if let Form::Bits(bits) = &mut self.form {
            bits.set_path(path);
        }
        self
    }

    /// Whether the block has this shape: `n_rows` own rows that name columns below `n_columns`.
    pub(crate) fn check(&self, n_rows: usize, n_columns: usize) -> Result<(), Error> {
        const OP: &str = "sparse_product";
        let lists = |given: usize| {
            if given != n_rows {
                return Err(length(OP, "adjacency rows", n_rows, given));
            }
            if self.n_columns > n_columns {
                let index = self.n_columns as u64 - 1;
                let n_rows = n_columns as u64;
                let op = OP;
                return Err(ErrorKind::Index { op, index, n_rows }.into());
            }
            Ok(())
        };
        match &self.form {
            Form::HostLists { row_ptr, .. } => lists(row_ptr.len() - 1),
            Form::HostTiles(tiles) => lists(tiles.n_rows()),
            Form::Lists(on_gpu) => lists(on_gpu.n_rows()),
            Form::HostBits { words_per_row, .. } => check_words(
                self.n_columns * words_per_row,
                *words_per_row,
                n_rows,
                n_columns,
            ),
            Form::Bits(bits) => {
                let words_per_row = bits.words_per_row();
                check_words(
                    self.n_columns * words_per_row,
                    words_per_row,
                    n_rows,
                    n_columns,
                )
            }
        }
    }

    /// The bytes of a block on the host; none on a GPU.
    pub fn host_bytes(&self) -> Option<u64> {
        match &self.form {
            Form::HostLists {
                row_ptr,
                columns,
                values,
            } => {
                let n_values = values.as_ref().map_or(0, Vec::len);
                Some((8 * row_ptr.len() + 4 * columns.len() + 4 * n_values) as u64)
            }
            Form::HostBits { words, .. } => Some(8 * words.len() as u64),
            Form::HostTiles(tiles) => Some(tiles.bytes()),
            Form::Lists(_) | Form::Bits(_) => None,
        }
    }

    /// The block as slices, where it is in host memory.
    pub(crate) fn on_host(&self) -> Result<Adjacency<'_>, Error> {
        match &self.form {
            Form::HostLists {
                row_ptr,
                columns,
                values,
            } => Ok(Adjacency::Csr {
                row_ptr,
                columns,
                values: values.as_deref(),
            }),
            Form::HostBits {
                words,
                words_per_row,
            } => Ok(Adjacency::Bits {
                words,
                words_per_row: *words_per_row,
            }),
            Form::HostTiles(_) => Err(Error::invalid(
                "resident",
                "the block was made for products alone",
            )),
            Form::Lists(_) | Form::Bits(_) => Err(other_device("sparse_product", DeviceKind::Host)),
        }
    }
}

/// Row numbers for gathers and scatters in a device's memory, checked against the table that they index.
#[derive(Debug)]
pub struct ResidentIndex {
    form: IndexForm,
    n_rows: usize,
    len: usize,
}

#[derive(Debug)]
enum IndexForm {
    Host(Vec<u32>),
    Gpu(Box<GpuIndex>),
}

#[derive(Debug)]
struct GpuIndex {
    index: Buffer<u32>,
    /// For each row of the table the places of the index that name it, ascending.
    places: GpuLists,
}

impl ResidentIndex {
    /// The number of row numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows of the table that they index.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }
}

/// For each of `n_rows` rows the places of a checked index that name it, as lists.
pub(crate) fn places(n_rows: usize, index: &[u32]) -> (Vec<u64>, Vec<u32>) {
    let mut row_ptr = vec![0u64; n_rows + 1];
    for &row in index.iter().filter(|&&row| row != u32::MAX) {
        row_ptr[row as usize + 1] += 1;
    }
    for row in 0..n_rows {
        row_ptr[row + 1] += row_ptr[row];
    }
    let mut next = row_ptr.clone();
    let mut places = vec![0; row_ptr[n_rows] as usize];
    for (place, &row) in index
        .iter()
        .enumerate()
        .filter(|&(_, &row)| row != u32::MAX)
    {
        let slot = &mut next[row as usize];
        places[*slot as usize] = place as u32;
        *slot += 1;
    }
    (row_ptr, places)
}

impl Device {
    /// Checks an adjacency block and keeps it on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] where the parts do not fit each other; [`ErrorKind::Invalid`] for a block that is resident
    /// already; what the upload fails with.
    /// # Complexity
    /// One pass over the block and one copy of it: 8 B a row, 4 B an entry, 4 B a weight; 8 B a word. Rows of more than
    /// 1024 entries take 24 B a thousand entries more on a GPU.
    pub fn resident(&self, adjacency: Adjacency<'_>) -> Result<ResidentAdjacency, Error> {
        match adjacency {
            Adjacency::Csr {
                row_ptr,
                columns,
                values,
            } => {
                check_lists(row_ptr, columns, values)?;
                Ok(ResidentAdjacency {
                    form: self.resident_lists(row_ptr, columns, values)?,
                    n_columns: columns.iter().max().map_or(0, |&last| last as usize + 1),
                })
            }
            Adjacency::Bits {
                words,
                words_per_row,
            } => {
                let n_columns = words.len().checked_div(words_per_row).unwrap_or(0);
                if n_columns * words_per_row != words.len() {
                    let wanted = n_columns * words_per_row;
                    return Err(length("resident", "words", wanted, words.len()));
                }
                Ok(ResidentAdjacency {
                    form: self.resident_bits(words, words_per_row)?,
                    n_columns,
                })
            }
            Adjacency::Resident(_) => {
                Err(Error::invalid("resident", "the block is resident already"))
            }
        }
    }

    /// Keeps a block in the form that the device multiplies fastest, for products alone; none where the given slices are that form already.
    ///
    /// On the host that are tiles of 255 columns, for lists that ascend, name no column of a row twice and have no weights, and for bit matrices, where a row has six entries or more
    /// in a mean tile. Products by them have the bits of those by the slices. On a GPU it is [`Device::resident`].
    ///
    /// # Shapes
    /// `n_rows` own rows, as a product has them.
    /// # Errors
    /// As [`Device::resident`].
    /// # Complexity
    /// Two passes over the block. Tiles take a byte an entry, some hundredths more to make rows of a pair as long as each other, and a byte for each
    /// tile of two rows.
    ///
    /// ```
    /// use shardgraph_device::{Adjacency, Device, SparseProduct};
    ///
    /// let device = Device::host();
    /// let (row_ptr, columns) = ([0, 6, 12], [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6]);
    /// let lists = Adjacency::Csr { row_ptr: &row_ptr, columns: &columns, values: None };
    /// let block = device.resident_for_products(lists, 2)?.expect("six entries a row");
    /// let x = device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])?;
    /// let mut sums = device.zeros(2)?;
    /// let adjacency = Adjacency::Resident(&block);
    /// device.sparse_product(SparseProduct { adjacency, n_rows: 2, n_columns: 7, width: 1 }, &x, &mut sums)?;
    /// assert_eq!(device.download(&sums)?, [21.0, 27.0]);
    /// # Ok::<(), shardgraph_device::Error>(())
    /// ```
    pub fn resident_for_products(
        &self,
        adjacency: Adjacency<'_>,
        n_rows: usize,
    ) -> Result<Option<ResidentAdjacency>, Error> {
        if self.kind() != DeviceKind::Host {
            return self.resident(adjacency).map(Some);
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
        Ok(tiles.map(|tiles| ResidentAdjacency {
            n_columns: tiles.n_columns(),
            form: Form::HostTiles(tiles),
        }))
    }

    fn resident_lists(
        &self,
        row_ptr: &[u64],
        columns: &[u32],
        values: Option<&[f32]>,
    ) -> Result<Form, Error> {
        match &self.back_end {
            BackEnd::Host(_) => Ok(Form::HostLists {
                row_ptr: row_ptr.to_vec(),
                columns: columns.to_vec(),
                values: values.map(<[f32]>::to_vec),
            }),
            BackEnd::Gpu(gpu) => Ok(Form::Lists(Box::new(gpu.lists(row_ptr, columns, values)?))),
        }
    }

    fn resident_bits(&self, words: &[u64], words_per_row: usize) -> Result<Form, Error> {
        match &self.back_end {
            BackEnd::Host(_) => Ok(Form::HostBits {
                words: words.to_vec(),
                words_per_row,
            }),
            BackEnd::Gpu(gpu) => Ok(Form::Bits(gpu.bits(words, words_per_row)?)),
        }
    }

    /// Checks row numbers of a table of `n_rows` rows and keeps them on the device; `u32::MAX` names no row.
    ///
    /// # Errors
    /// [`ErrorKind::Index`]; [`ErrorKind::Invalid`] for more than 2^32 - 1 row numbers; what the upload fails with.
    /// # Complexity
    /// Two passes over the index; on a GPU 8 B a row number and 8 B a row of the table.
    pub fn resident_index(&self, n_rows: usize, index: &[u32]) -> Result<ResidentIndex, Error> {
        check_index("resident_index", index, n_rows)?;
        if u32::try_from(index.len()).is_err() {
            let why = format!("{} row numbers, at most 2^32 - 1 are possible", index.len());
            return Err(Error::invalid("resident_index", why));
        }
        let form = match &self.back_end {
            BackEnd::Host(_) => IndexForm::Host(index.to_vec()),
            BackEnd::Gpu(gpu) => {
                let (row_ptr, columns) = places(n_rows, index);
                IndexForm::Gpu(Box::new(GpuIndex {
                    index: gpu.upload(index)?,
                    places: gpu.lists(&row_ptr, &columns, None)?,
                }))
            }
        };
        let len = index.len();
        Ok(ResidentIndex { form, n_rows, len })
    }

    /// [`Device::gather_rows`] with a resident index.
    ///
    /// # Shapes
    /// `x [index.n_rows(), width]`, `out [index.len(), width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    pub fn gather_rows_by(
        &self,
        index: &ResidentIndex,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("gather_rows_by", "x", elements(&[index.n_rows, width]), x)?;
        check("gather_rows_by", "out", elements(&[index.len, width]), out)?;
        match (&self.back_end, &index.form) {
            (BackEnd::Host(_), IndexForm::Host(numbers)) => {
                let n_rows = index.n_rows;
                self.gather_rows(Rows { n_rows, width }, numbers, x, out)
            }
            (BackEnd::Gpu(gpu), IndexForm::Gpu(on_gpu)) => {
                gpu.gather_rows_by(width, &on_gpu.index, x, out)
            }
            _ => Err(other_device("gather_rows_by", self.kind())),
        }
    }

    /// [`Device::scatter_rows`] with a resident index.
    ///
    /// # Shapes
    /// `x [index.len(), width]`, `out [index.n_rows(), width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    /// # Determinism
    /// A row's sum depends on the places that name it alone; on a GPU it is made as a row of a sparse product is.
    pub fn scatter_rows_by(
        &self,
        index: &ResidentIndex,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("scatter_rows_by", "x", elements(&[index.len, width]), x)?;
        check(
            "scatter_rows_by",
            "out",
            elements(&[index.n_rows, width]),
            out,
        )?;
        match (&self.back_end, &index.form) {
            (BackEnd::Host(_), IndexForm::Host(numbers)) => {
                let n_rows = index.n_rows;
                self.scatter_rows(Rows { n_rows, width }, numbers, x, out)
            }
            (BackEnd::Gpu(gpu), IndexForm::Gpu(on_gpu)) => {
                gpu.add_places(&on_gpu.places, index.len, width, x, out)
            }
            _ => Err(other_device("scatter_rows_by", self.kind())),
        }
    }

    /// [`Device::scale_rows`] with the factors on the device.
    ///
    /// # Shapes
    /// `factors [rows.n_rows]`, `x [rows.n_rows, rows.width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    pub fn scale_rows_by(&self, rows: Rows, factors: &Buffer, x: &mut Buffer) -> Result<(), Error> {
        check(
            "scale_rows_by",
            "x",
            elements(&[rows.n_rows, rows.width]),
            x,
        )?;
        check("scale_rows_by", "factors", rows.n_rows, factors)?;
        match &self.back_end {
            BackEnd::Host(host) => {
                let factors = on_host("scale_rows_by", factors)?;
                host.scale_rows(rows.width, factors, on_host_mut("scale_rows_by", x)?);
                Ok(())
            }
            BackEnd::Gpu(gpu) => gpu.scale_rows_by(rows.width, factors, x),
        }
    }
}

/// Whether row starts, column ids and weights fit each other.
pub(crate) fn check_lists(
    row_ptr: &[u64],
    columns: &[u32],
    values: Option<&[f32]>,
) -> Result<(), Error> {
    const OP: &str = "sparse_product";
    let Some(&last) = row_ptr.last() else {
        return Err(length(OP, "row_ptr", 1, 0));
    };
    let in_order = row_ptr[0] == 0 && row_ptr.windows(2).all(|pair| pair[0] <= pair[1]);
    if !in_order || last as usize != columns.len() {
        return Err(length(OP, "columns", last as usize, columns.len()));
    }
    match values {
        Some(values) if values.len() != columns.len() => {
            Err(length(OP, "values", columns.len(), values.len()))
        }
        _ => Ok(()),
    }
}

/// Whether words hold `n_columns` rows of `n_rows` bits.
pub(crate) fn check_words(
    n_words: usize,
    words_per_row: usize,
    n_rows: usize,
    n_columns: usize,
) -> Result<(), Error> {
    const OP: &str = "sparse_product";
    if n_words != n_columns * words_per_row {
        return Err(length(OP, "words", n_columns * words_per_row, n_words));
    }
    if words_per_row * 64 < n_rows {
        return Err(length(
            OP,
            "words_per_row",
            n_rows.div_ceil(64),
            words_per_row,
        ));
    }
    Ok(())
}
