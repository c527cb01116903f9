//! Log-softmax and argmax of rows.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::functions::{exp, log};
use crate::launch::{BLOCK, WARP};
use crate::shape::Rows;
use crate::simd::arch;

/// The logarithm of each row's softmax; each row's largest value is taken off first, so that no sum overflows.
///
/// A row with NaN or plus infinity, or with nothing but minus infinity, gives NaN; beside a finite number minus infinity stays.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
/// # Determinism
/// A row's result depends on that row alone. On the host the same bits on every machine; a GPU sums in another order.
pub fn log_softmax(device: &Device, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "log_softmax";
    check(OP, rows, x, out)?;
    if !device.is_host() {
        return launch(device, "log_softmax_fwd", rows, x, out);
    }
    let width = rows.width.max(1);
    let moved = (x.on_host(OP)?, out.on_host_mut(OP)?);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (x, out) = moved;
            for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                log_softmax_of(x, out);
            }
        },
    );
    Ok(())
}

/// 1 at each row's largest value, 0 elsewhere.
///
/// Of equal values the lowest column is taken. NaN is never taken, unless a row has nothing else: then it is column 0.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
pub fn argmax_rows(device: &Device, rows: Rows, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "argmax_rows";
    check(OP, rows, x, out)?;
    if !device.is_host() {
        return launch(device, "argmax_rows_fwd", rows, x, out);
    }
    let (x, out) = (x.on_host(OP)?, out.on_host_mut(OP)?);
    out.fill(0.0);
    let width = rows.width.max(1);
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        out[argmax(x)] = 1.0;
    }
    Ok(())
}

fn check(op: &'static str, rows: Rows, x: &Buffer, out: &Buffer) -> Result<(), Error> {
    checks::len(op, "x", rows.n_elements(), x)?;
    checks::len(op, "out", rows.n_elements(), out)
}

/// A kernel with a warp for each row.
fn launch(
    device: &Device,
    kernel: &str,
    rows: Rows,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    if out.is_empty() {
        return Ok(());
    }
    let args = [
        Arg::read(x),
        Arg::write(out),
        Arg::u64(rows.n_rows as u64),
        Arg::u64(rows.width as u64),
    ];
    let shape = Launch::threads(checks::elements(&[rows.n_rows, WARP]), BLOCK);
    // SAFETY: both buffers have n_rows rows of `width` elements.
    unsafe { device.launch(kernel, shape, &args) }
}

#[inline(always)]
fn log_softmax_of(x: &[f32], out: &mut [f32]) {
    let largest = x
        .iter()
        .fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m });
    for (out, &x) in out.iter_mut().zip(x) {
        *out = exp(x - largest);
    }
    let log_sum = log(out.iter().sum());
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - largest) - log_sum;
    }
}

/// The first column with the largest value; numbers go before NaN.
fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        if x > row[best] || (row[best].is_nan() && !x.is_nan()) {
            best = i;
        }
    }
    best
}
