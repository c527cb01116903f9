//! Dense products: one product, and a linear layer.

mod host;
mod microkernel;
mod sparse_rows;

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, MatMul, checks};

use crate::launch::{BLOCK, grid};

pub(crate) use host::product_on_host;

/// Products of more multiplications than this go to the vendor's library, where the device has one.
const VENDOR_WORK: usize = 1 << 20;

/// Inner indices that one block sums, where the result has too few tiles to fill a GPU.
const SPLIT: usize = 1024;

/// Tiles of a result that fill a GPU without a split of the inner dimension.
const ENOUGH_TILES: usize = 256;

/// The tile that `cuda/ops/tile_product.cuh` makes for a number of columns: its height and width.
pub(crate) fn tile(cols: usize) -> (usize, usize) {
    if cols <= 32 { (128, 32) } else { (64, 64) }
}

/// A dense product.
///
/// # Shapes
/// As in [`MatMul`]; all three matrices are row-major and contiguous.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
/// # Complexity
/// `2 * rows * inner * cols` FLOP.
/// On the host, a left factor that is mostly zeros costs what its other elements do.
/// # Determinism
/// Repeatable for equal dimensions; the order of the inner sum may change with them, and on the host beyond 512 terms with
/// the share of zeros.
pub fn matmul(
    device: &Device,
    shape: MatMul,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "matmul";
    shape.check(OP, a, b, out)?;
    if device.is_host() {
        product_on_host(shape, a.on_host(OP)?, b.on_host(OP)?, out.on_host_mut(OP)?);
        return Ok(());
    }
    launch(device, shape, a, b, out)
}

/// The same of rows in host memory that are no buffers.
///
/// # Shapes
/// As in [`MatMul`].
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
/// # Determinism
/// The bits of [`matmul`] on the host.
///
/// ```
/// use shardgraph_ops::{MatMul, matmul_of_slices};
/// let shape = MatMul { rows: 1, inner: 2, cols: 1, transpose_a: false, transpose_b: false };
/// let mut out = [0.0];
/// matmul_of_slices(shape, &[2.0, 3.0], &[5.0, 7.0], &mut out)?;
/// assert_eq!(out, [31.0]);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
pub fn matmul_of_slices(shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let operands = [
        ("a", [shape.rows, shape.inner], a.len()),
        ("b", [shape.inner, shape.cols], b.len()),
        ("out", [shape.rows, shape.cols], out.len()),
    ];
    for (operand, sides, found) in operands {
        let wanted = checks::elements(&sides);
        if found != wanted {
            return Err(Error::length("matmul_of_slices", operand, wanted, found));
        }
    }
    product_on_host(shape, a, b, out);
    Ok(())
}

/// `out = op(x) * op(w) + row`, then `max(., 0)` if `relu`: a layer of a network, with the bits of a product, a sum and
/// a relu one by one.
///
/// # Shapes
/// As in [`MatMul`] for the factors `x` and `w`; `row [cols]` is added to every row of the product.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
/// # Complexity
/// `2 * rows * inner * cols` FLOP; on a GPU, and for large matrices, one more pass over `out`.
/// # Determinism
/// As [`matmul`].
pub fn linear(
    device: &Device,
    shape: MatMul,
    x: &Buffer,
    w: &Buffer,
    row: &Buffer,
    relu: bool,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "linear";
    checks::len(OP, "row", shape.cols, row)?;
    checks::len(OP, "x", checks::elements(&[shape.rows, shape.inner]), x)?;
    checks::len(OP, "w", checks::elements(&[shape.inner, shape.cols]), w)?;
    checks::len(OP, "out", checks::elements(&[shape.rows, shape.cols]), out)?;
    if device.is_host() {
        let (x, w, row) = (x.on_host(OP)?, w.on_host(OP)?, row.on_host(OP)?);
        host::linear_on_host(shape, x, w, row, relu, out.on_host_mut(OP)?);
        return Ok(());
    }
    launch(device, shape, x, w, out)?;
    let n = out.len();
    let args = [
        Arg::read(row),
        Arg::u64(row.len() as u64),
        Arg::u32(relu.into()),
        Arg::write(out),
        Arg::u64(n as u64),
    ];
    // SAFETY: out has n elements, and the kernel reads row below its length.
    unsafe { device.launch("add_row_fwd", Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

/// The vendor's product where it pays, else the project's own.
fn launch(
    device: &Device,
    shape: MatMul,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    if shape.inner == 0 {
        return device.clear(out);
    }
    if out.is_empty() {
        return Ok(());
    }
    let work = checks::elements(&[shape.rows, shape.cols, shape.inner]);
    if work > VENDOR_WORK
        && let Some(done) = device.vendor_matmul(shape, a, b, out)
    {
        return done;
    }
    tiled(device, shape, a, b, out)
}

/// The project's own product, for shapes with elements and an inner dimension.
pub(crate) fn tiled(
    device: &Device,
    shape: MatMul,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let (height, width) = tile(shape.cols);
    let n_tiles = shape.rows.div_ceil(height) * shape.cols.div_ceil(width);
    let n_splits = match n_tiles {
        n if n < ENOUGH_TILES => shape.inner.div_ceil(SPLIT),
        _ => 1,
    };
    if n_splits == 1 {
        return parts(device, shape, shape.inner, a, b, out);
    }
    let n = out.len();
    let mut partials = device.allocate(checks::elements(&[n_splits, n]))?;
    parts(device, shape, SPLIT, a, b, &mut partials)?;
    let args = [
        Arg::read(&partials),
        Arg::write(out),
        Arg::u64(n as u64),
        Arg::u32(n_splits as u32),
    ];
    // SAFETY: partials holds n_splits runs of n elements, out holds one.
    unsafe { device.launch("matmul_sum_fwd", Launch::threads(n, BLOCK), &args) }
}

/// One product for each `split` inner indices, one behind the other in `out`.
fn parts(
    device: &Device,
    shape: MatMul,
    split: usize,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let (height, width) = tile(shape.cols);
    let launch = grid(
        shape.rows.div_ceil(height),
        shape.cols.div_ceil(width),
        shape.inner.div_ceil(split),
    );
    let mut args = vec![Arg::read(a), Arg::read(b), Arg::write(out)];
    args.extend([shape.rows, shape.inner, shape.cols, split].map(|n| Arg::u64(n as u64)));
    args.extend([shape.transpose_a, shape.transpose_b, width == 32].map(|on| Arg::u32(on.into())));
    // SAFETY: a and b have the elements of the shape (checked by the callers), and out has rows * cols elements for each
    // of the inner.div_ceil(split) parts of the grid: the callers allocate it so.
    unsafe { device.launch("matmul_fwd", launch, &args) }
}
