//! Operations element by element: of one buffer, and of two.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::functions::{clamp, exp, log, relu_of, sigmoid, tanh};
use crate::launch::BLOCK;
use crate::shape::Rows;
use crate::simd;

/// An element-wise operation of one buffer.
///
/// # Determinism
/// On the host the results have the same bits on every machine: no function of the platform is called. They are off by at
/// most [`Unary::MAX_ULPS`]; a GPU's own functions may differ from them in the last bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unary {
    /// `e^x`; infinite above 88.72.
    Exp,
    /// The natural logarithm: negative infinity at 0, NaN below.
    Log,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// The square root, rounded to nearest: NaN below 0.
    Sqrt,
    /// `low` below `low`, `high` above `high`, else `x`; NaN stays NaN.
    Clamp {
        /// The smallest result.
        low: f32,
        /// The largest result, at least `low`.
        high: f32,
    },
}

impl Unary {
    /// Largest error of a result on the host, in units in the last place of the exact one.
    pub const MAX_ULPS: f64 = 3.0;
}

/// An element-wise operation of two buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// `a` where `b > 0`, else 0: the adjoint of relu, with `b` its result.
    WherePositive,
    /// `a` where `low <= b <= high`, else 0: the adjoint of a clamp, with `b` its operand.
    WhereInside {
        /// The smallest `b` inside.
        low: f32,
        /// The largest `b` inside.
        high: f32,
    },
}

/// `low <= high`; neither is NaN then.
fn check_ascending(op: &'static str, low: f32, high: f32) -> Result<(), Error> {
    match low <= high {
        true => Ok(()),
        false => {
            let why = format!("the bounds {low} and {high} must ascend");
            Err(Error::invalid(op, why))
        }
    }
}

/// An element-wise operation of two buffers.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) unless all three have one length;
/// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for bounds that do not ascend.
pub fn binary(
    device: &Device,
    op: Binary,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "binary";
    checks::len(OP, "b", a.len(), b)?;
    checks::len(OP, "out", a.len(), out)?;
    if let Binary::WhereInside { low, high } = op {
        check_ascending(OP, low, high)?;
    }
    if device.is_host() {
        binary_on_host(op, a.on_host(OP)?, b.on_host(OP)?, out.on_host_mut(OP)?);
        return Ok(());
    }
    let (kernel, low, high) = match op {
        Binary::Add => ("binary_add_fwd", 0.0, 0.0),
        Binary::Sub => ("binary_sub_fwd", 0.0, 0.0),
        Binary::Mul => ("binary_mul_fwd", 0.0, 0.0),
        Binary::Div => ("binary_div_fwd", 0.0, 0.0),
        Binary::WherePositive => ("binary_where_positive_fwd", 0.0, 0.0),
        Binary::WhereInside { low, high } => ("binary_where_inside_fwd", low, high),
    };
    let n = out.len();
    let args = [
        Arg::read(a),
        Arg::read(b),
        Arg::write(out),
        Arg::u64(n as u64),
        Arg::f32(low),
        Arg::f32(high),
    ];
    // SAFETY: the kernel touches elements below n, which is the length of all three buffers.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

fn binary_on_host(op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    let keep = |kept: bool, x: f32| if kept { x } else { 0.0 };
    match op {
        Binary::Add => simd::zip(a, b, out, |x, y| x + y),
        Binary::Sub => simd::zip(a, b, out, |x, y| x - y),
        Binary::Mul => simd::zip(a, b, out, |x, y| x * y),
        Binary::Div => simd::zip(a, b, out, |x, y| x / y),
        Binary::WherePositive => simd::zip(a, b, out, move |x, y| keep(y > 0.0, x)),
        Binary::WhereInside { low, high } => {
            simd::zip(a, b, out, move |x, y| keep(low <= y && y <= high, x));
        }
    }
}

/// `out[i][j] = x[i][j] op column[i]`: one operand is the same number along each row.
///
/// # Shapes
/// `x` and `out` `[rows.n_rows, rows.width]`, `column [rows.n_rows]`.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length);
/// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for an operation that is none of add, sub, mul and div.
///
/// ```
/// use shardgraph_device::Device;
/// use shardgraph_ops::{Binary, Rows, binary_column};
///
/// let device = Device::host();
/// let (x, column) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.upload(&[10.0, 100.0])?);
/// let mut out = device.zeros(4)?;
/// let rows = Rows { n_rows: 2, width: 2 };
/// binary_column(&device, Binary::Mul, rows, &x, &column, &mut out)?;
/// assert_eq!(device.download(&out)?, [10.0, 20.0, 300.0, 400.0]);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
pub fn binary_column(
    device: &Device,
    op: Binary,
    rows: Rows,
    x: &Buffer,
    column: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "binary_column";
    checks::len(OP, "x", rows.n_elements(), x)?;
    checks::len(OP, "column", rows.n_rows, column)?;
    checks::len(OP, "out", rows.n_elements(), out)?;
    let kernel = match op {
        Binary::Add => "binary_column_add_fwd",
        Binary::Sub => "binary_column_sub_fwd",
        Binary::Mul => "binary_column_mul_fwd",
        Binary::Div => "binary_column_div_fwd",
        Binary::WherePositive | Binary::WhereInside { .. } => {
            let why = format!("{op:?} is none of Add, Sub, Mul and Div");
            return Err(Error::invalid(OP, why));
        }
    };
    if device.is_host() {
        let (x, column) = (x.on_host(OP)?, column.on_host(OP)?);
        column_on_host(op, rows.width, x, column, out.on_host_mut(OP)?);
        return Ok(());
    }
    let n = out.len();
    let args = [
        Arg::read(x),
        Arg::read(column),
        Arg::write(out),
        Arg::u64(n as u64),
        Arg::u64(rows.width as u64),
    ];
    // SAFETY: x and out have n = n_rows * width elements, column has n_rows.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

fn column_on_host(op: Binary, width: usize, x: &[f32], column: &[f32], out: &mut [f32]) {
    match op {
        Binary::Add => zip_column(width, x, column, out, |x, c| x + c),
        Binary::Sub => zip_column(width, x, column, out, |x, c| x - c),
        Binary::Mul => zip_column(width, x, column, out, |x, c| x * c),
        _ => zip_column(width, x, column, out, |x, c| x / c),
    }
}

/// `out[i][j] = f(x[i][j], column[i])`.
fn zip_column(
    width: usize,
    x: &[f32],
    column: &[f32],
    out: &mut [f32],
    f: impl Fn(f32, f32) -> f32,
) {
    let moved = (x, out, f);
    simd::arch().dispatch(
        #[inline(always)]
        move || {
            let (x, out, f) = moved;
            let rows = x
                .chunks_exact(width.max(1))
                .zip(out.chunks_exact_mut(width.max(1)));
            for ((x, out), &c) in rows.zip(column) {
                out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x, c));
            }
        },
    );
}

/// An element-wise operation of one buffer.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length);
/// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for bounds that do not ascend.
/// # Determinism
/// As [`Unary`] says.
pub fn unary(device: &Device, op: Unary, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "unary";
    checks::len(OP, "out", x.len(), out)?;
    if let Unary::Clamp { low, high } = op {
        check_ascending(OP, low, high)?;
    }
    if device.is_host() {
        let (x, out) = (x.on_host(OP)?, out.on_host_mut(OP)?);
        match op {
            Unary::Exp => simd::map(x, out, exp),
            Unary::Log => simd::map(x, out, log),
            Unary::Tanh => simd::map(x, out, tanh),
            Unary::Sigmoid => simd::map(x, out, sigmoid),
            Unary::Sqrt => simd::map(x, out, f32::sqrt),
            Unary::Clamp { low, high } => simd::map(x, out, move |x| clamp(x, low, high)),
        }
        return Ok(());
    }
    let (kernel, low, high) = match op {
        Unary::Exp => ("unary_exp_fwd", 0.0, 0.0),
        Unary::Log => ("unary_log_fwd", 0.0, 0.0),
        Unary::Tanh => ("unary_tanh_fwd", 0.0, 0.0),
        Unary::Sigmoid => ("unary_sigmoid_fwd", 0.0, 0.0),
        Unary::Sqrt => ("unary_sqrt_fwd", 0.0, 0.0),
        Unary::Clamp { low, high } => ("unary_clamp_fwd", low, high),
    };
    let n = out.len();
    let args = [
        Arg::read(x),
        Arg::write(out),
        Arg::u64(n as u64),
        Arg::f32(low),
        Arg::f32(high),
    ];
    // SAFETY: the kernel touches elements below n, which is the length of both buffers.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

/// `out = factor * x`.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
pub fn scale(device: &Device, factor: f32, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "scale";
    checks::len(OP, "out", x.len(), out)?;
    if device.is_host() {
        simd::map(x.on_host(OP)?, out.on_host_mut(OP)?, move |x| factor * x);
        return Ok(());
    }
    let n = out.len();
    let args = [
        Arg::u64(n as u64),
        Arg::f32(factor),
        Arg::read(x),
        Arg::write(out),
    ];
    // SAFETY: the kernel touches elements below n, which is the length of both buffers.
    unsafe { device.launch("scale_fwd", Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

/// `out = max(x, 0)`; NaN stays NaN, negative zero becomes zero.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length).
pub fn relu(device: &Device, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
    const OP: &str = "relu";
    checks::len(OP, "out", x.len(), out)?;
    if device.is_host() {
        simd::map(x.on_host(OP)?, out.on_host_mut(OP)?, relu_of);
        return Ok(());
    }
    let n = out.len();
    let args = [Arg::read(x), Arg::write(out), Arg::u64(n as u64)];
    // SAFETY: the kernel touches elements below n, which is the length of both buffers.
    unsafe { device.launch("relu_fwd", Launch::threads(n.div_ceil(4), BLOCK), &args) }
}
