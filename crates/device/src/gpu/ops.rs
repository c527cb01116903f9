//! Launches of the element-wise, row, loss and optimiser kernels; lengths have been checked by [`crate::Device`].

use super::Gpu;
use crate::{Adam, Arg, Binary, Buffer, Copy2d, Error, Launch, Loss};

/// Threads of a block in every kernel of this back end's operations.
pub(super) const BLOCK: u32 = 256;

/// Elements whose losses one block adds (`PER_BLOCK` of `loss.cu`).
const LOSS_BLOCK: usize = 4096;

/// Elements of a thread: four where all of these divide by four, so that a thread's float4 is aligned.
pub(super) fn vector(sizes: &[usize]) -> usize {
    if sizes.iter().all(|size| size % 4 == 0) {
        4
    } else {
        1
    }
}

impl Gpu {
    pub(crate) fn binary(
        &self,
        op: Binary,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (code, low, high) = match op {
            Binary::Add => (0, 0.0, 0.0),
            Binary::Sub => (1, 0.0, 0.0),
            Binary::Mul => (2, 0.0, 0.0),
            Binary::Div => (3, 0.0, 0.0),
            Binary::WherePositive => (4, 0.0, 0.0),
            Binary::WhereInside { low, high } => (5, low, high),
        };
        let n = out.len();
        let shape = Launch::threads(n.div_ceil(4), BLOCK);
        let args = [
            Arg::read(a),
            Arg::read(b),
            Arg::write(out),
            Arg::u64(n as u64),
            Arg::u32(code),
            Arg::f32(low),
            Arg::f32(high),
        ];
        // SAFETY: the kernel touches elements below n, which is the length of all three buffers.
        unsafe { self.launch("binary_fwd", shape, &args) }
    }

    pub(crate) fn scale(&self, factor: f32, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        let n = out.len();
        let shape = Launch::threads(n.div_ceil(4), BLOCK);
        let args = [
            Arg::u64(n as u64),
            Arg::f32(factor),
            Arg::read(x),
            Arg::write(out),
        ];
        // SAFETY: the kernel touches elements below n, which is the length of both buffers.
        unsafe { self.launch("scale_fwd", shape, &args) }
    }

    pub(crate) fn relu(&self, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        let n = out.len();
        let shape = Launch::threads(n.div_ceil(4), BLOCK);
        let args = [Arg::read(x), Arg::write(out), Arg::u64(n as u64)];
        // SAFETY: the kernel touches elements below n, which is the length of both buffers.
        unsafe { self.launch("relu_fwd", shape, &args) }
    }

    /// With the index on the host: it is uploaded for this call.
    pub(crate) fn gather_rows(
        &self,
        width: usize,
        index: &[u32],
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let index = self.upload(index)?;
        self.gather_rows_by(width, &index, x, out)
    }

    /// With the index on the device; its entries were checked against the rows of `x`.
    pub(crate) fn gather_rows_by(
        &self,
        width: usize,
        index: &Buffer<u32>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let vec = vector(&[width]);
        let shape = Launch::threads(out.len() / vec, BLOCK);
        let args = [
            Arg::read(index),
            Arg::read(x),
            Arg::write(out),
            Arg::u64(index.len() as u64),
            Arg::u64(width as u64),
            Arg::u32(vec as u32),
        ];
        // SAFETY: out has index.len() rows of `width`, and every index is a row of x or the mark of none.
        unsafe { self.launch("gather_rows_fwd", shape, &args) }
    }

    /// With the factors on the host: they are uploaded for this call.
    pub(crate) fn scale_rows(
        &self,
        width: usize,
        factors: &[f32],
        x: &mut Buffer,
    ) -> Result<(), Error> {
        let factors = self.upload(factors)?;
        self.scale_rows_by(width, &factors, x)
    }

    /// With the factors on the device.
    pub(crate) fn scale_rows_by(
        &self,
        width: usize,
        factors: &Buffer,
        x: &mut Buffer,
    ) -> Result<(), Error> {
        if x.is_empty() {
            return Ok(());
        }
        let vec = vector(&[width]);
        let shape = Launch::threads(x.len() / vec, BLOCK);
        let args = [
            Arg::read(factors),
            Arg::write(x),
            Arg::u64(factors.len() as u64),
            Arg::u64(width as u64),
            Arg::u32(vec as u32),
        ];
        // SAFETY: x has factors.len() rows of `width` elements.
        unsafe { self.launch("scale_rows_fwd", shape, &args) }
    }

    pub(crate) fn copy_2d(
        &self,
        copy: Copy2d,
        source: &Buffer,
        target: &mut Buffer,
    ) -> Result<(), Error> {
        if copy.width == 0 {
            return Ok(());
        }
        let places = [
            copy.source_first,
            copy.source_stride,
            copy.target_first,
            copy.target_stride,
        ];
        let vec = vector(&places).min(vector(&[copy.width]));
        let shape = Launch::threads(copy.rows * (copy.width / vec), BLOCK);
        let mut args = vec![
            Arg::read(source),
            Arg::write(target),
            Arg::u64(copy.rows as u64),
            Arg::u64(copy.width as u64),
        ];
        args.extend(places.map(|place| Arg::u64(place as u64)));
        args.push(Arg::u32(vec as u32));
        // SAFETY: the rectangle lies inside both buffers, which `Device::copy_2d` checks through `Copy2d::end`.
        unsafe { self.launch("copy_2d_fwd", shape, &args) }
    }

    pub(crate) fn loss(&self, loss: Loss, pred: &Buffer, target: &Buffer) -> Result<Buffer, Error> {
        let n = pred.len();
        let n_blocks = n.div_ceil(LOSS_BLOCK).max(1);
        let mut partials = self.allocate::<u64>(n_blocks)?;
        let mut out = self.allocate::<f32>(1)?;
        let (delta, huber) = huber(loss);
        let args = [
            Arg::read(pred),
            Arg::read(target),
            Arg::write(&mut partials),
            Arg::write(&mut out),
            Arg::u64(n as u64),
            Arg::f32(delta),
            Arg::u32(huber),
        ];
        // SAFETY: both inputs have n elements; a block writes one of the n_blocks partials, or the one element of out.
        unsafe { self.launch("loss_fwd", Launch::blocks(n_blocks, BLOCK), &args)? };
        if n_blocks > 1 {
            let args = [
                Arg::read(&partials),
                Arg::write(&mut out),
                Arg::u64(n_blocks as u64),
                Arg::u64(n as u64),
            ];
            // SAFETY: the kernel reads n_blocks partials and writes the one element of out.
            unsafe { self.launch("loss_sum_fwd", Launch::blocks(1, BLOCK), &args)? };
        }
        Ok(out)
    }

    pub(crate) fn loss_grad(
        &self,
        loss: Loss,
        (pred, target): (&Buffer, &Buffer),
        upstream: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let n = out.len();
        let (delta, huber) = huber(loss);
        let args = [
            Arg::read(pred),
            Arg::read(target),
            Arg::read(upstream),
            Arg::write(out),
            Arg::u64(n as u64),
            Arg::f32(delta),
            Arg::u32(huber),
        ];
        // SAFETY: pred, target and out have n elements, upstream has one.
        unsafe { self.launch("loss_bwd", Launch::threads(n, BLOCK), &args) }
    }

    pub(crate) fn adam(
        &self,
        adam: Adam,
        params: &mut Buffer,
        grad: &Buffer,
        (first, second): (&mut Buffer, &mut Buffer),
    ) -> Result<(), Error> {
        let n = grad.len();
        let (correction1, correction2) = adam.corrections();
        let args = [
            Arg::write(params),
            Arg::read(grad),
            Arg::write(first),
            Arg::write(second),
            Arg::u64(n as u64),
            Arg::f32(adam.learning_rate),
            Arg::f32(adam.beta1),
            Arg::f32(adam.beta2),
            Arg::f32(adam.epsilon),
            Arg::f32(correction1),
            Arg::f32(correction2),
        ];
        // SAFETY: all four buffers have n elements.
        unsafe { self.launch("adam_step", Launch::threads(n, BLOCK), &args) }
    }
}

/// The loss as the kernels take it: where it turns linear, and whether it does.
fn huber(loss: Loss) -> (f32, u32) {
    match loss {
        Loss::Mse => (0.0, 0),
        Loss::Huber { delta } => (delta, 1),
    }
}
