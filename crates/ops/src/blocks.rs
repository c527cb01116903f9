//! Dense products of blocks of rows: results that do not depend on how the blocks are spread over ranks.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, MatMul, checks};

use crate::launch::{BLOCK, grid};
use crate::matmul::{product_on_host, tile};

/// Rows of a block that one part of an outer product sums (counted from the block's start).
const PART_ROWS: usize = 512;

/// One dense product for each block of rows of `x`, all with the same right-hand side.
///
/// # Shapes
/// `x [rows, inner]`, `w [inner, cols]` (or `[cols, inner]` transposed), `out [rows, cols]`; block `i` holds the
/// rows `bounds[i]..bounds[i + 1]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
/// # Determinism
/// A row's result depends on its own block only, so it is the same however the blocks are spread over ranks.
pub fn block_matmul(
    device: &Device,
    shape: MatMul,
    bounds: &[usize],
    x: &Buffer,
    w: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "block_matmul";
    checks::len(OP, "x", checks::elements(&[shape.rows, shape.inner]), x)?;
    checks::len(OP, "w", checks::elements(&[shape.inner, shape.cols]), w)?;
    checks::len(OP, "out", checks::elements(&[shape.rows, shape.cols]), out)?;
    checks::bounds(OP, bounds, shape.rows)?;
    if device.is_host() {
        let (x, w, out) = (x.on_host(OP)?, w.on_host(OP)?, out.on_host_mut(OP)?);
        for block in bounds.windows(2) {
            let rows = block[1] - block[0];
            let x = &x[block[0] * shape.inner..][..rows * shape.inner];
            let out = &mut out[block[0] * shape.cols..][..rows * shape.cols];
            product_on_host(MatMul { rows, ..shape }, x, w, out);
        }
        return Ok(());
    }
    if out.is_empty() {
        return Ok(());
    }
    // The bounds are not needed: the kernel's rows do not depend on each other at all.
    let (height, width) = tile(shape.cols);
    let launch = grid(shape.rows.div_ceil(height), shape.cols.div_ceil(width), 1);
    let mut args = vec![Arg::read(x), Arg::read(w), Arg::write(out)];
    args.extend([shape.rows, shape.inner, shape.cols].map(|n| Arg::u64(n as u64)));
    args.extend([shape.transpose_b, width == 32].map(|on| Arg::u32(on.into())));
    // SAFETY: x, w and out have the elements of the shape (checked above).
    unsafe { device.launch("block_matmul_fwd", launch, &args) }
}

/// The product `x_b^T y_b` of each block of rows.
///
/// # Shapes
/// `x [rows, a]`, `y [rows, b]` with `rows = shape.inner`, `a = shape.rows`, `b = shape.cols`;
/// `out [n_blocks, a * b]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
pub fn block_outer(
    device: &Device,
    shape: MatMul,
    bounds: &[usize],
    x: &Buffer,
    y: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "block_outer";
    let n_blocks = bounds.len().saturating_sub(1);
    let n_results = checks::elements(&[n_blocks, shape.rows, shape.cols]);
    checks::len(OP, "x", checks::elements(&[shape.inner, shape.rows]), x)?;
    checks::len(OP, "y", checks::elements(&[shape.inner, shape.cols]), y)?;
    checks::len(OP, "out", n_results, out)?;
    checks::bounds(OP, bounds, shape.inner)?;
    match device.is_host() {
        true => {
            outer_on_host(
                shape,
                bounds,
                x.on_host(OP)?,
                y.on_host(OP)?,
                out.on_host_mut(OP)?,
            );
            Ok(())
        }
        false => launch_outer(device, shape, bounds, x, y, out),
    }
}

fn outer_on_host(shape: MatMul, bounds: &[usize], x: &[f32], y: &[f32], out: &mut [f32]) {
    let size = checks::elements(&[shape.rows, shape.cols]);
    for (block, out) in bounds.windows(2).zip(out.chunks_exact_mut(size.max(1))) {
        let inner = block[1] - block[0];
        let x = &x[block[0] * shape.rows..][..inner * shape.rows];
        let y = &y[block[0] * shape.cols..][..inner * shape.cols];
        let shape = MatMul {
            inner,
            transpose_a: true,
            transpose_b: false,
            ..shape
        };
        product_on_host(shape, x, y, out);
    }
}

fn launch_outer(
    device: &Device,
    shape: MatMul,
    bounds: &[usize],
    x: &Buffer,
    y: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    if out.is_empty() {
        return Ok(());
    }
    let n_blocks = bounds.len() - 1;
    let longest = bounds.windows(2).map(|block| block[1] - block[0]).max();
    let n_parts = longest.unwrap_or(0).div_ceil(PART_ROWS).max(1);
    let bounds: Vec<u64> = bounds.iter().map(|&row| row as u64).collect();
    let bounds = device.upload(&bounds)?;
    if n_parts == 1 {
        return outer_parts(device, shape, &bounds, 1, x, y, out);
    }
    let n = out.len();
    let mut partials = device.allocate(checks::elements(&[n_parts, n]))?;
    outer_parts(device, shape, &bounds, n_parts, x, y, &mut partials)?;
    let args = [
        Arg::read(&bounds),
        Arg::read(&partials),
        Arg::write(out),
        Arg::u64((shape.rows * shape.cols) as u64),
        Arg::u32(n_blocks as u32),
        Arg::u32(n_parts as u32),
        Arg::u32(PART_ROWS as u32),
    ];
    // SAFETY: out holds n_blocks runs of rows * cols, partials n_parts for each block, bounds n_blocks + 1 elements;
    // a block has at most n_parts parts.
    unsafe { device.launch("block_outer_sum_fwd", Launch::threads(n, BLOCK), &args) }
}

/// The product of each part of each block; parts behind a block's end are zeros.
fn outer_parts(
    device: &Device,
    shape: MatMul,
    bounds: &Buffer<u64>,
    n_parts: usize,
    x: &Buffer,
    y: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let n_blocks = bounds.len() - 1;
    let n_tiles = shape.rows.div_ceil(64) * shape.cols.div_ceil(64);
    let args = [
        Arg::read(bounds),
        Arg::read(x),
        Arg::read(y),
        Arg::write(out),
        Arg::u64(shape.rows as u64),
        Arg::u64(shape.cols as u64),
        Arg::u32(n_parts as u32),
        Arg::u32(PART_ROWS as u32),
    ];
    // SAFETY: bounds ascend from 0 to the rows of x and y (checked by `block_outer`), and out has rows * cols elements
    // for each of the n_blocks * n_parts parts.
    unsafe {
        device.launch(
            "block_outer_fwd",
            grid(checks::elements(&[n_blocks, n_parts]), n_tiles, 1),
            &args,
        )
    }
}
