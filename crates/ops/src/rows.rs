//! Operations on whole rows: gather, scatter, scale, sums, and copies of rectangles.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::launch::{BLOCK, WARP, vector};
use crate::shape::Rows;
use crate::simd;
use crate::sparse::{DeviceLists, FusedProduct};

/// A copy of a rectangle of elements between two row-major matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy2d {
    /// Rows to copy.
    pub rows: usize,
    /// Elements to copy in each row.
    pub width: usize,
    /// Index of the first element in the source.
    pub source_first: usize,
    /// Elements between two rows of the source.
    pub source_stride: usize,
    /// Index of the first element in the target.
    pub target_first: usize,
    /// Elements between two rows of the target.
    pub target_stride: usize,
}

impl Copy2d {
    /// The index behind the last element that a rectangle of this size touches.
    fn end(&self, first: usize, stride: usize) -> usize {
        match self.rows {
            0 => 0,
            // An end that no index can name is past every buffer.
            rows => first
                .saturating_add((rows - 1).saturating_mul(stride))
                .saturating_add(self.width),
        }
    }
}

/// Row numbers for gathers and scatters in a device's memory, checked against the table that they index; `u32::MAX` names
/// no row.
#[derive(Debug)]
pub struct RowIndex {
    index: Buffer<u32>,
    /// For each row of the table the positions of the index that name it, ascending; on a GPU only.
    positions: Option<Box<DeviceLists>>,
    n_rows: usize,
}

impl RowIndex {
    /// Checks row numbers of a table of `n_rows` rows and keeps them on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Index`](shardgraph_device::ErrorKind::Index);
    /// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for more than 2^32 - 1 row numbers; the error of the
    /// upload.
    /// # Complexity
    /// Two passes over the index; on a GPU 8 B a row number and 8 B a row of the table.
    pub fn upload(
        device: &Device,
        n_rows: usize,
        index: impl Into<Vec<u32>>,
    ) -> Result<RowIndex, Error> {
        const OP: &str = "row_index";
        let index = index.into();
        checks::index(OP, &index, n_rows)?;
        if u32::try_from(index.len()).is_err() {
            let why = format!("{} row numbers, at most 2^32 - 1 are possible", index.len());
            return Err(Error::invalid(OP, why));
        }
        if device.is_host() {
            return Ok(RowIndex {
                index: index.into(),
                positions: None,
                n_rows,
            });
        }
        let (row_ptr, columns) = positions(n_rows, &index);
        let positions = DeviceLists::upload(device, &row_ptr, &columns, None)?;
        Ok(RowIndex {
            index: device.upload(&index)?,
            positions: Some(Box::new(positions)),
            n_rows,
        })
    }

    /// Makes the row numbers of another stream of the device this stream's, as [`Device::adopt`] does with a buffer.
    ///
    /// # Errors
    /// Those of [`Device::adopt`].
    pub fn adopt(&mut self, stream: &Device) -> Result<(), Error> {
        stream.adopt(&mut self.index)?;
        match &mut self.positions {
            Some(positions) => positions.adopt(stream),
            None => Ok(()),
        }
    }

    /// The number of row numbers.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Rows of the table that they index.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }
}

/// For each of `n_rows` rows the positions of a checked index that name it, as lists.
fn positions(n_rows: usize, index: &[u32]) -> (Vec<u64>, Vec<u32>) {
    let mut row_ptr = vec![0u64; n_rows + 1];
    for &row in index.iter().filter(|&&row| row != u32::MAX) {
        row_ptr[row as usize + 1] += 1;
    }
    for row in 0..n_rows {
        row_ptr[row + 1] += row_ptr[row];
    }
    let mut next = row_ptr.clone();
    let mut positions = vec![0; row_ptr[n_rows] as usize];
    for (position, &row) in (0u32..).zip(index).filter(|&(_, &row)| row != u32::MAX) {
        let slot = &mut next[row as usize];
        positions[*slot as usize] = position;
        *slot += 1;
    }
    (row_ptr, positions)
}

/// `out[i] = x[index[i]]` by rows; `u32::MAX` gives a row of zeros.
///
/// # Shapes
/// `x [index.n_rows(), width]`, `out [index.len(), width]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length),
/// [`ErrorKind::OtherDevice`](shardgraph_device::ErrorKind::OtherDevice).
pub fn gather_rows(
    device: &Device,
    index: &RowIndex,
    width: usize,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "gather_rows";
    checks::len(OP, "x", checks::elements(&[index.n_rows, width]), x)?;
    checks::len(OP, "out", checks::elements(&[index.len(), width]), out)?;
    if device.is_host() {
        let (numbers, x) = (index.index.on_host(OP)?, x.on_host(OP)?);
        let rows = out.on_host_mut(OP)?.chunks_exact_mut(width.max(1));
        for (&i, row) in numbers.iter().zip(rows) {
            match i {
                u32::MAX => row.fill(0.0),
                i => row.copy_from_slice(&x[i as usize * width..][..width]),
            }
        }
        return Ok(());
    }
    let vec = vector(&[width]);
    let args = [
        Arg::read(&index.index),
        Arg::read(x),
        Arg::write(out),
        Arg::u64(index.len() as u64),
        Arg::u64(width as u64),
        Arg::u32(vec as u32),
    ];
    let shape = Launch::threads(checks::elements(&[index.len(), width]) / vec, BLOCK);
    // SAFETY: out has index.len() rows of `width`, and every index is a row of x or the mark of none.
    unsafe { device.launch("gather_rows_fwd", shape, &args) }
}

/// `out[index[i]] += x[i]` by rows from zeros, in order of `i`; `u32::MAX` is left out. The adjoint of a gather.
///
/// # Shapes
/// `x [index.len(), width]`, `out [index.n_rows(), width]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length),
/// [`ErrorKind::OtherDevice`](shardgraph_device::ErrorKind::OtherDevice).
/// # Determinism
/// A row's sum depends on the positions that name it alone; on a GPU it is made as a row of a sparse product is.
pub fn scatter_rows(
    device: &Device,
    index: &RowIndex,
    width: usize,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "scatter_rows";
    checks::len(OP, "x", checks::elements(&[index.len(), width]), x)?;
    checks::len(OP, "out", checks::elements(&[index.n_rows, width]), out)?;
    if device.is_host() {
        let moved = (
            index.index.on_host(OP)?,
            x.on_host(OP)?,
            out.on_host_mut(OP)?,
        );
        simd::arch().dispatch(
            #[inline(always)]
            move || {
                let (index, x, out) = moved;
                if out.len() == width && index.iter().all(|&i| i == 0) {
                    return sum_rows(x, out);
                }
                out.fill(0.0);
                for (&i, row) in index.iter().zip(x.chunks_exact(width.max(1))) {
                    if i != u32::MAX {
                        add_assign(&mut out[i as usize * width..][..width], row);
                    }
                }
            },
        );
        return Ok(());
    }
    // The positions of each row are its list in a matrix of ones.
    let Some(positions) = &index.positions else {
        return Err(Error::other_device(OP, device.kind()));
    };
    let product = FusedProduct::plain(index.n_rows, index.len(), width);
    positions.product(device, &product, x, out)
}

/// The sum of all rows, whose parts stay in registers: the bits of sums that are written row by row.
#[inline(always)]
fn sum_rows(x: &[f32], out: &mut [f32]) {
    let mut first = 0;
    while first < out.len() {
        first += match out.len() - first {
            64.. => sum_columns::<64>(x, out, first),
            16.. => sum_columns::<16>(x, out, first),
            8.. => sum_columns::<8>(x, out, first),
            _ => sum_columns::<1>(x, out, first),
        };
    }
}

/// The same of `N` columns; gives their number.
#[inline(always)]
fn sum_columns<const N: usize>(x: &[f32], out: &mut [f32], first: usize) -> usize {
    let mut sums = [0.0; N];
    for row in x.chunks_exact(out.len()) {
        for (sum, &value) in sums.iter_mut().zip(&row[first..first + N]) {
            *sum += value;
        }
    }
    out[first..first + N].copy_from_slice(&sums);
    N
}

/// In steps of a vector: the compiler's own are longer than most rows.
#[inline(always)]
fn add_assign(target: &mut [f32], row: &[f32]) {
    let (vectors, rest) = target.as_chunks_mut::<8>();
    let (row_vectors, row_rest) = row.as_chunks::<8>();
    for (target, row) in vectors.iter_mut().zip(row_vectors) {
        for (t, &v) in target.iter_mut().zip(row) {
            *t += v;
        }
    }
    for (t, &v) in rest.iter_mut().zip(row_rest) {
        *t += v;
    }
}

/// `row[i][..] = factors[i] * row[i][..]`, in place.
///
/// # Shapes
/// `factors [rows.n_rows]`, `x [rows.n_rows, rows.width]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length),
/// [`ErrorKind::OtherDevice`](shardgraph_device::ErrorKind::OtherDevice).
pub fn scale_rows(
    device: &Device,
    rows: Rows,
    factors: &Buffer,
    x: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "scale_rows";
    checks::len(OP, "x", rows.n_elements(), x)?;
    checks::len(OP, "factors", rows.n_rows, factors)?;
    if device.is_host() {
        simd::scale_rows(rows.width, factors.on_host(OP)?, x.on_host_mut(OP)?);
        return Ok(());
    }
    let vec = vector(&[rows.width]);
    let shape = Launch::threads(x.len() / vec, BLOCK);
    let args = [
        Arg::read(factors),
        Arg::write(x),
        Arg::u64(rows.n_rows as u64),
        Arg::u64(rows.width as u64),
        Arg::u32(vec as u32),
    ];
    // SAFETY: x has n_rows rows of `width` elements, factors has n_rows.
    unsafe { device.launch("scale_rows_fwd", shape, &args) }
}

/// Rows that are summed side by side on the host, so that no addition waits for the one before it.
const ROWS_AT_A_TIME: usize = 8;

/// `out[i] = sum_j x[i][j]`.
///
/// # Shapes
/// `x [rows.n_rows, rows.width]`, `out [rows.n_rows]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length),
/// [`ErrorKind::OtherDevice`](shardgraph_device::ErrorKind::OtherDevice).
/// # Determinism
/// A row's sum depends on that row alone. On the host it runs over ascending columns; a GPU adds in another, fixed order.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_ops::{Rows, row_sums};
///
/// let device = Device::host();
/// let x = device.upload(&[1.0, 2.0, 3.0, 4.0])?;
/// let mut sums = device.zeros(2)?;
/// row_sums(&device, Rows { n_rows: 2, width: 2 }, &x, &mut sums)?;
/// assert_eq!(device.download(&sums)?, [3.0, 7.0]);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
pub fn row_sums(device: &Device, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "row_sums";
    checks::len(OP, "x", rows.n_elements(), x)?;
    checks::len(OP, "out", rows.n_rows, out)?;
    if device.is_host() {
        let (x, out) = (x.on_host(OP)?, out.on_host_mut(OP)?);
        out.fill(0.0);
        for (first, sums) in out.chunks_mut(ROWS_AT_A_TIME).enumerate() {
            let x = &x[first * ROWS_AT_A_TIME * rows.width..];
            for j in 0..rows.width {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += x[i * rows.width + j];
                }
            }
        }
        return Ok(());
    }
    let args = [
        Arg::read(x),
        Arg::write(out),
        Arg::u64(rows.n_rows as u64),
        Arg::u64(rows.width as u64),
    ];
    let shape = Launch::threads(checks::elements(&[rows.n_rows, WARP]), BLOCK);
    // SAFETY: x has n_rows rows of `width` elements, out has n_rows elements.
    unsafe { device.launch("row_sums_fwd", shape, &args) }
}

/// Copies a rectangle of elements.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) where the rectangle leaves a buffer.
pub fn copy_2d(
    device: &Device,
    copy: Copy2d,
    source: &Buffer,
    target: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "copy_2d";
    let source_end = copy.end(copy.source_first, copy.source_stride);
    let target_end = copy.end(copy.target_first, copy.target_stride);
    if source_end > source.len() {
        return Err(Error::length(OP, "source", source_end, source.len()));
    }
    if target_end > target.len() {
        return Err(Error::length(OP, "target", target_end, target.len()));
    }
    if device.is_host() {
        let (source, target) = (source.on_host(OP)?, target.on_host_mut(OP)?);
        for row in 0..copy.rows {
            let from = copy.source_first + row * copy.source_stride;
            let to = copy.target_first + row * copy.target_stride;
            target[to..to + copy.width].copy_from_slice(&source[from..from + copy.width]);
        }
        return Ok(());
    }
    if copy.width == 0 {
        return Ok(());
    }
    let offsets = [
        copy.source_first,
        copy.source_stride,
        copy.target_first,
        copy.target_stride,
    ];
    let vec = vector(&offsets).min(vector(&[copy.width]));
    let shape = Launch::threads(checks::elements(&[copy.rows, copy.width / vec]), BLOCK);
    let mut args = vec![
        Arg::read(source),
        Arg::write(target),
        Arg::u64(copy.rows as u64),
        Arg::u64(copy.width as u64),
    ];
    args.extend(offsets.map(|offset| Arg::u64(offset as u64)));
    args.push(Arg::u32(vec as u32));
    // SAFETY: the rectangle lies inside both buffers (checked above).
    unsafe { device.launch("copy_2d_fwd", shape, &args) }
}
