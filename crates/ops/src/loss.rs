//! Losses that are averaged over the elements, and their derivatives.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::launch::BLOCK;

/// Elements whose losses one block adds (`PER_BLOCK` of `cuda/ops/loss.cu`).
const LOSS_BLOCK: usize = 4096;

/// A loss that is averaged over the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// `mean((pred - target)^2)`.
    Mse,
    /// The mean Huber loss: quadratic (`e^2 / 2`) up to `delta`, linear beyond.
    Huber {
        /// Where the loss turns linear: above 0.
        delta: f32,
    },
}

impl Loss {
    /// A delta that is not above 0 bounds nothing: the slope would be clamped between bounds that do not ascend.
    fn check(self, op: &'static str) -> Result<(), Error> {
        match self {
            Loss::Huber { delta } if delta.is_nan() || delta <= 0.0 => {
                let why = format!("the delta {delta} of a Huber loss must be above 0");
                Err(Error::invalid(op, why))
            }
            _ => Ok(()),
        }
    }

    /// The loss as the kernels take it: where it turns linear, and whether it does.
    fn args<'a>(self) -> [Arg<'a>; 2] {
        match self {
            Loss::Mse => [Arg::f32(0.0), Arg::u32(0)],
            Loss::Huber { delta } => [Arg::f32(delta), Arg::u32(1)],
        }
    }
}

/// The averaged loss of a prediction, as one element.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length);
/// [`ErrorKind::Invalid`](shardgraph_device::ErrorKind::Invalid) for a delta that is not above 0.
/// # Determinism
/// Summed in index order in f64.
pub fn loss(device: &Device, loss: Loss, pred: &Buffer, target: &Buffer) -> Result<Buffer, Error> {
    const OP: &str = "loss";
    loss.check(OP)?;
    checks::len(OP, "target", pred.len(), target)?;
    if device.is_host() {
        let value = loss_on_host(loss, pred.on_host(OP)?, target.on_host(OP)?);
        return Ok(vec![value].into());
    }
    let n = pred.len();
    let n_blocks = n.div_ceil(LOSS_BLOCK).max(1);
    let mut partials = device.allocate::<u64>(n_blocks)?;
    let mut out = device.allocate::<f32>(1)?;
    let [delta, is_huber] = loss.args();
    let args = [
        Arg::read(pred),
        Arg::read(target),
        Arg::write(&mut partials),
        Arg::write(&mut out),
        Arg::u64(n as u64),
        delta,
        is_huber,
    ];
    // SAFETY: both inputs have n elements; a block writes one of the n_blocks partials, or the one element of out.
    unsafe { device.launch("loss_fwd", Launch::blocks(n_blocks, BLOCK), &args)? };
    if n_blocks > 1 {
        let args = [
            Arg::read(&partials),
            Arg::write(&mut out),
            Arg::u64(n_blocks as u64),
            Arg::u64(n as u64),
        ];
        // SAFETY: the kernel reads n_blocks partials and writes the one element of out.
        unsafe { device.launch("loss_sum_fwd", Launch::blocks(1, BLOCK), &args)? };
    }
    Ok(out)
}

fn loss_on_host(loss: Loss, pred: &[f32], target: &[f32]) -> f32 {
    let errors = pred.iter().zip(target).map(|(&p, &t)| f64::from(p - t));
    let sum: f64 = match loss {
        Loss::Mse => errors.map(|e| e * e).sum(),
        Loss::Huber { delta } => errors.map(|e| huber(e, f64::from(delta))).sum(),
    };
    (sum / pred.len().max(1) as f64) as f32
}

fn huber(error: f64, delta: f64) -> f64 {
    let size = error.abs();
    if size <= delta {
        0.5 * error * error
    } else {
        delta * (size - 0.5 * delta)
    }
}

/// The derivative of [`loss()`] by the prediction, times `upstream` (one element).
///
/// # Errors
/// As [`loss()`].
pub fn loss_grad(
    device: &Device,
    loss: Loss,
    pred: &Buffer,
    target: &Buffer,
    upstream: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    const OP: &str = "loss_grad";
    loss.check(OP)?;
    checks::len(OP, "target", pred.len(), target)?;
    checks::len(OP, "upstream", 1, upstream)?;
    checks::len(OP, "out", pred.len(), out)?;
    if device.is_host() {
        let (pred, target) = (pred.on_host(OP)?, target.on_host(OP)?);
        let factor = upstream.on_host(OP)?[0] / pred.len().max(1) as f32;
        let out = out.on_host_mut(OP)?;
        for ((out, &p), &t) in out.iter_mut().zip(pred).zip(target) {
            let slope = match loss {
                Loss::Mse => 2.0 * (p - t),
                Loss::Huber { delta } => (p - t).clamp(-delta, delta),
            };
            *out = factor * slope;
        }
        return Ok(());
    }
    let n = out.len();
    let [delta, is_huber] = loss.args();
    let args = [
        Arg::read(pred),
        Arg::read(target),
        Arg::read(upstream),
        Arg::write(out),
        Arg::u64(n as u64),
        delta,
        is_huber,
    ];
    // SAFETY: pred, target and out have n elements, upstream has one.
    unsafe { device.launch("loss_bwd", Launch::threads(n.div_ceil(4), BLOCK), &args) }
}
