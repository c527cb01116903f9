//! Adjacency blocks in a device's memory and the launches of the sparse product kernels.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::adjacency::BitPath;
use crate::launch::{BLOCK, grid, vector};

/// Entries of the longest row that one warp sums alone. Longer rows are cut into equal chunks: a hub's row does not hold
/// up the grid, and a dense graph's few rows fill a GPU.
const LONG_ROW: usize = 1024;

/// Columns of a bit matrix that one block sums; a multiple of 64. Smaller values fill a GPU better and write more
/// partial sums (4 * width B a row and split, twice).
const BIT_SPLIT: usize = 2048;

/// Rows of a block of the tensor and of the portable bit kernel.
const TENSOR_ROWS: usize = 512;
const PORTABLE_ROWS: usize = 256;

/// Warps of a block.
const WARPS: usize = 8;

const WEIGHTED: u32 = 1;
const MASKED: u32 = 2;
const SCALED: u32 = 4;
const BIAS: u32 = 8;
const RELU: u32 = 16;

/// Rows as column lists.
#[derive(Debug)]
pub(crate) struct DeviceLists {
    pub(crate) row_ptr: Buffer<u64>,
    pub(crate) columns: Buffer<u32>,
    pub(crate) values: Option<Buffer>,
    /// Rows that several warps share; on a GPU only.
    long: Option<LongRows>,
    long_row: u32,
}

/// Rows of more than `LONG_ROW` entries and their chunks.
#[derive(Debug)]
struct LongRows {
    rows: Buffer<u32>,
    /// The first chunk of each long row, and the end.
    first: Buffer<u32>,
    /// First and last entry of each chunk.
    chunk_bounds: Buffer<u64>,
    chunk_rows: Buffer<u32>,
    /// Whether there are no other rows.
    all: bool,
}

/// A bit matrix.
#[derive(Debug)]
pub(crate) struct DeviceBits {
    pub(crate) words: Buffer<u64>,
    pub(crate) words_per_row: usize,
    /// Columns that one block sums: a multiple of 64.
    pub(crate) split: usize,
    pub(crate) path: BitPath,
}

/// A checked sparse product with everything that is done to its sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FusedProduct<'a> {
    pub(crate) n_rows: usize,
    pub(crate) n_columns: usize,
    /// Elements of a row of all states.
    pub(crate) width: usize,
    pub(crate) n_states: usize,
    pub(crate) first_row: usize,
    pub(crate) keep: Option<&'a Buffer>,
    pub(crate) scale: Option<&'a Buffer>,
    pub(crate) bias: Option<&'a Buffer>,
    pub(crate) relu: bool,
}

/// A product's parameters as the kernels take them.
struct Params<'a> {
    keep: &'a Buffer,
    scale: &'a Buffer,
    bias: &'a Buffer,
    n_rows: u32,
    width: u32,
    state_width: u32,
    n_states: u32,
    first_row: u32,
    flags: u32,
}

impl<'a> FusedProduct<'a> {
    /// The bare sums.
    pub(crate) fn plain(n_rows: usize, n_columns: usize, width: usize) -> Self {
        Self {
            n_rows,
            n_columns,
            width,
            n_states: 1,
            first_row: 0,
            keep: None,
            scale: None,
            bias: None,
            relu: false,
        }
    }

    /// Absent operands are stood in for by `x`, which the flags keep from being read as them.
    fn params(&self, x: &'a Buffer, weighted: bool) -> Result<Params<'a>, Error> {
        let on = |present: bool, flag: u32| if present { flag } else { 0 };
        Ok(Params {
            keep: self.keep.unwrap_or(x),
            scale: self.scale.unwrap_or(x),
            bias: self.bias.unwrap_or(x),
            n_rows: dimension("rows", self.n_rows)?,
            width: dimension("columns of x", self.width)?,
            state_width: dimension("columns of a state", self.width / self.n_states)?,
            n_states: dimension("states", self.n_states)?,
            first_row: dimension("first row", self.first_row)?,
            flags: on(weighted, WEIGHTED)
                | on(self.keep.is_some(), MASKED)
                | on(self.scale.is_some(), SCALED)
                | on(self.bias.is_some(), BIAS)
                | on(self.relu, RELU),
        })
    }
}

/// Dimensions of sparse kernels are u32, as node ids are.
fn dimension(name: &str, n: usize) -> Result<u32, Error> {
    u32::try_from(n).map_err(|_| {
        Error::invalid(
            "sparse_product",
            format!("{n} {name}, at most 2^32 - 1 are possible"),
        )
    })
}

/// The kernels for one way in which a warp shares the columns of a row.
#[derive(Debug)]
struct ListKernels {
    /// Adjacent columns of a lane.
    vec: usize,
    /// Lanes that hold the columns.
    lanes: usize,
    /// For whole rows, by kind of factor: none, one an entry, one an entry and state.
    rows: [&'static str; 3],
    /// For chunks of long rows.
    chunks: [&'static str; 3],
}

macro_rules! list_kernels {
    ($($vec:literal x $lanes:literal),*) => {
        [$(ListKernels {
            vec: $vec,
            lanes: $lanes,
            rows: list_kernels!("sparse_csr_", $vec, $lanes),
            chunks: list_kernels!("sparse_csr_chunks_", $vec, $lanes),
        }),*]
    };
    ($start:literal, $vec:literal, $lanes:literal) => {
        [
            concat!($start, $vec, "x", $lanes, "_unit_fwd"),
            concat!($start, $vec, "x", $lanes, "_entry_fwd"),
            concat!($start, $vec, "x", $lanes, "_state_fwd"),
        ]
    };
}

/// The instances of `cuda/ops/sparse_csr.cu`, wider ones later.
const LIST_KERNELS: [ListKernels; 7] =
    list_kernels![1 x 1, 1 x 4, 1 x 32, 4 x 2, 4 x 8, 4 x 16, 4 x 32];

impl ListKernels {
    fn for_product(product: &FusedProduct<'_>) -> &'static Self {
        let vec = vector(&[product.width / product.n_states]);
        let is_enough = |k: &&Self| k.vec == vec && k.tile() >= product.width;
        let widest = |k: &&Self| k.vec == vec && k.lanes == 32;
        let found = LIST_KERNELS.iter().find(is_enough);
        found
            .or_else(|| LIST_KERNELS.iter().find(widest))
            .expect("lanes of one and of four columns fill a warp")
    }

    /// Columns of a warp.
    fn tile(&self) -> usize {
        self.vec * self.lanes
    }
}

impl DeviceLists {
    /// Puts checked lists on the device.
    pub(crate) fn upload(
        device: &Device,
        row_ptr: &[u64],
        columns: &[u32],
        values: Option<&[f32]>,
    ) -> Result<Self, Error> {
        Self::upload_cut_at(LONG_ROW, device, row_ptr, columns, values)
    }

    /// The same with another bound between short and long rows, for tests.
    pub(crate) fn upload_cut_at(
        long_row: usize,
        device: &Device,
        row_ptr: &[u64],
        columns: &[u32],
        values: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let long = match device.is_host() {
            true => None,
            false => LongRows::upload(device, long_row as u64, row_ptr)?,
        };
        Ok(Self {
            row_ptr: device.upload(row_ptr)?,
            columns: device.upload(columns)?,
            values: values.map(|values| device.upload(values)).transpose()?,
            long,
            long_row: long_row as u32,
        })
    }

    /// See [`crate::ResidentAdjacency::adopt`].
    pub(crate) fn adopt(&mut self, stream: &Device) -> Result<(), Error> {
        stream.adopt(&mut self.row_ptr)?;
        stream.adopt(&mut self.columns)?;
        if let Some(values) = &mut self.values {
            stream.adopt(values)?;
        }
        if let Some(long) = &mut self.long {
            stream.adopt(&mut long.rows)?;
            stream.adopt(&mut long.first)?;
            stream.adopt(&mut long.chunk_bounds)?;
            stream.adopt(&mut long.chunk_rows)?;
        }
        Ok(())
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.row_ptr.len() - 1
    }

    /// The product with self. `x` has `n_columns` rows, `out` has `n_rows`, and every column id is below `n_columns`.
    pub(crate) fn product(
        &self,
        device: &Device,
        product: &FusedProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let params = product.params(x, self.values.is_some())?;
        if self.long.as_ref().is_none_or(|long| !long.all) {
            self.short_rows(device, product, &params, x, out)?;
        }
        match &self.long {
            Some(long) => self.long_rows(device, long, product, &params, x, out),
            None => Ok(()),
        }
    }

    /// Of the three kernels the one for an entry's factor.
    fn factor_kind(&self, product: &FusedProduct<'_>) -> usize {
        match product.keep {
            Some(_) if product.n_states > 1 => 2,
            Some(_) => 1,
            None => self.values.is_some().into(),
        }
    }

    fn short_rows(
        &self,
        device: &Device,
        product: &FusedProduct<'_>,
        params: &Params<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let kernels = ListKernels::for_product(product);
        let args = [
            Arg::read(&self.row_ptr),
            Arg::read(&self.columns),
            Arg::read(self.values.as_ref().unwrap_or(x)),
            Arg::read(x),
            Arg::read(params.keep),
            Arg::read(params.scale),
            Arg::read(params.bias),
            Arg::write(out),
            Arg::u32(params.n_rows),
            Arg::u32(params.width),
            Arg::u32(params.state_width),
            Arg::u32(params.n_states),
            Arg::u32(params.first_row),
            Arg::u32(self.long_row),
            Arg::u32(params.flags),
        ];
        let launch = grid(
            product.n_rows.div_ceil(WARPS),
            product.width.div_ceil(kernels.tile()),
            1,
        );
        // SAFETY: row_ptr has n_rows + 1 ascending elements that end at the number of columns (and values); every column
        // id is a row of x; keep, scale, bias and out have the lengths that `sparse_product` checks, and absent ones are not read.
        unsafe { device.launch(kernels.rows[self.factor_kind(product)], launch, &args) }
    }

    fn long_rows(
        &self,
        device: &Device,
        long: &LongRows,
        product: &FusedProduct<'_>,
        params: &Params<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let partials = self.chunk_sums(device, long, product, params, x)?;
        let args = [
            Arg::read(&long.rows),
            Arg::read(&long.first),
            Arg::read(&partials),
            Arg::read(params.keep),
            Arg::read(params.scale),
            Arg::read(params.bias),
            Arg::write(out),
            Arg::u32(long.rows.len() as u32),
            Arg::u32(params.width),
            Arg::u32(params.state_width),
            Arg::u32(params.n_states),
            Arg::u32(params.first_row),
            Arg::u32(params.flags),
        ];
        let launch = Launch::threads(checks::elements(&[long.rows.len(), product.width]), BLOCK);
        // SAFETY: `first` ascends to the number of chunks, and long rows are rows of out.
        unsafe { device.launch("sparse_csr_sum_fwd", launch, &args) }
    }

    /// The bare sum of each chunk of the long rows.
    fn chunk_sums(
        &self,
        device: &Device,
        long: &LongRows,
        product: &FusedProduct<'_>,
        params: &Params<'_>,
        x: &Buffer,
    ) -> Result<Buffer, Error> {
        let n_chunks = long.chunk_rows.len();
        let mut partials: Buffer = device.allocate(checks::elements(&[n_chunks, product.width]))?;
        let kernels = ListKernels::for_product(product);
        let n_tiles = product.width.div_ceil(kernels.tile());
        let args = [
            Arg::read(&long.chunk_bounds),
            Arg::read(&long.chunk_rows),
            Arg::read(&self.columns),
            Arg::read(self.values.as_ref().unwrap_or(x)),
            Arg::read(x),
            Arg::read(params.keep),
            Arg::write(&mut partials),
            Arg::u32(n_chunks as u32), // a u32 when the chunks were made
            Arg::u32(params.width),
            Arg::u32(params.state_width),
            Arg::u32(params.n_states),
            Arg::u32(params.first_row),
            Arg::u32(params.flags),
        ];
        let launch = grid(n_chunks.div_ceil(WARPS), n_tiles, 1);
        // SAFETY: chunks lie inside their rows' entries, partials has a row for each chunk; the rest as for short rows.
        unsafe { device.launch(kernels.chunks[self.factor_kind(product)], launch, &args)? };
        Ok(partials)
    }
}

impl LongRows {
    fn upload(device: &Device, long_row: u64, row_ptr: &[u64]) -> Result<Option<Self>, Error> {
        let (mut rows, mut first) = (Vec::new(), vec![0]);
        let (mut chunk_bounds, mut chunk_rows) = (Vec::new(), Vec::new());
        for (row, ends) in row_ptr.windows(2).enumerate() {
            let len = ends[1] - ends[0];
            if len <= long_row {
                continue;
            }
            // Equal chunks, each a whole number of a warp's reads: a function of the row's length alone.
            let chunk = len.div_ceil(len.div_ceil(long_row)).next_multiple_of(32);
            for start in (ends[0]..ends[1]).step_by(chunk as usize) {
                chunk_bounds.extend([start, ends[1].min(start + chunk)]);
                chunk_rows.push(row as u32);
            }
            rows.push(row as u32);
            first.push(dimension("chunks of rows", chunk_rows.len())?);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            all: rows.len() + 1 == row_ptr.len(),
            rows: device.upload(&rows)?,
            first: device.upload(&first)?,
            chunk_bounds: device.upload(&chunk_bounds)?,
            chunk_rows: device.upload(&chunk_rows)?,
        }))
    }
}

/// The instances of `cuda/ops/sparse_bits.cu` for so many columns a block: exact, fast, portable.
macro_rules! bit_kernels {
    ($tile:literal) => {
        [
            concat!("sparse_bits_", $tile, "_exact_fwd"),
            concat!("sparse_bits_", $tile, "_fast_fwd"),
            concat!("sparse_bits_", $tile, "_portable_fwd"),
        ]
    };
}

impl DeviceBits {
    /// Puts a checked bit matrix on the device.
    pub(crate) fn upload(
        device: &Device,
        words: &[u64],
        words_per_row: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            words: device.upload(words)?,
            words_per_row,
            split: BIT_SPLIT,
            path: BitPath::default(),
        })
    }

    /// The product with a bit matrix of `n_columns` rows of words.
    pub(crate) fn product(
        &self,
        device: &Device,
        product: &FusedProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let params = product.params(x, false)?;
        let n_splits = product.n_columns.div_ceil(self.split).max(1);
        if n_splits == 1 {
            return self.parts(device, product, &params, x, out);
        }
        let n = out.len();
        let mut partials: Buffer = device.allocate(checks::elements(&[n_splits, n]))?;
        self.parts(device, product, &params, x, &mut partials)?;
        let args = [
            Arg::read(&partials),
            Arg::read(params.keep),
            Arg::read(params.scale),
            Arg::read(params.bias),
            Arg::write(out),
            Arg::u32(n_splits as u32),
            Arg::u32(params.n_rows),
            Arg::u32(params.width),
            Arg::u32(params.state_width),
            Arg::u32(params.n_states),
            Arg::u32(params.first_row),
            Arg::u32(params.flags),
        ];
        let launch = Launch::threads(n, BLOCK);
        // SAFETY: partials holds n_splits runs of n_rows * width elements, out holds one; masks as checked by `sparse_product`.
        unsafe { device.launch("sparse_bits_sum_fwd", launch, &args) }
    }

    /// The sum over each split of the columns: finished if there is only one.
    fn parts(
        &self,
        device: &Device,
        product: &FusedProduct<'_>,
        params: &Params<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (tile, [exact, fast, portable]) = match product.width <= 8 {
            true => (8, bit_kernels!(8)),
            false => (32, bit_kernels!(32)),
        };
        let (kernel, rows) = match self.path {
            BitPath::Exact => (exact, TENSOR_ROWS),
            BitPath::Fast => (fast, TENSOR_ROWS),
            BitPath::Portable => (portable, PORTABLE_ROWS),
        };
        let args = [
            Arg::read(&self.words),
            Arg::read(x),
            Arg::read(params.keep),
            Arg::read(params.scale),
            Arg::read(params.bias),
            Arg::write(out),
            Arg::u32(dimension("columns", product.n_columns)?),
            Arg::u32(params.n_rows),
            Arg::u32(dimension("words of a row", self.words_per_row)?),
            Arg::u32(params.width),
            Arg::u32(params.state_width),
            Arg::u32(params.n_states),
            Arg::u32(params.first_row),
            Arg::u32(self.split as u32),
            Arg::u32(params.flags),
        ];
        let launch = grid(
            product.n_rows.div_ceil(rows),
            product.width.div_ceil(tile),
            product.n_columns.div_ceil(self.split).max(1),
        );
        // SAFETY: words has n_columns * words_per_row elements and x n_columns * width (checked by `sparse_product`); out has
        // n_rows * width for each split of the grid; absent operands are not read.
        unsafe { device.launch(kernel, launch, &args) }
    }
}
