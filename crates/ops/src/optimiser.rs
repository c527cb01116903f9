//! Optimiser steps over flat arrays of parameters, in place.

use shardgraph_device::{Arg, Buffer, Device, Error, Launch, checks};

use crate::launch::BLOCK;
use crate::simd::arch;
use crate::step_numbers::StepNumbers;

/// The constants of one Adam step (Kingma and Ba 2015, algorithm 1), with its step count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Step size.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// The step number, from 1.
    pub step: u64,
}

impl Adam {
    /// The step on values in host memory: the same bits as [`adam`] with buffers of the host.
    ///
    /// # Errors
    /// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) unless all four have one length.
    pub fn apply(
        &self,
        params: &mut [f32],
        grad: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) -> Result<(), Error> {
        let lengths = [params.len(), first.len(), second.len()];
        of_one_length("adam", grad, ["params", "first", "second"], lengths)?;
        adam_on_host(*self, params, grad, first, second);
        Ok(())
    }

    /// `1 - beta^step` of both moments. Powers in f64: in f32 the correction of beta2 = 0.999 is off by 1e-4 at the first
    /// step.
    pub fn corrections(&self) -> (f32, f32) {
        let correction = |beta: f32| 1.0 - f64::from(beta).powi(self.step.min(1 << 30) as i32);
        (correction(self.beta1) as f32, correction(self.beta2) as f32)
    }
}

/// Refuses operands in host memory that have not the derivatives' length.
fn of_one_length(
    op: &'static str,
    grad: &[f32],
    operands: [&'static str; 3],
    lengths: [usize; 3],
) -> Result<(), Error> {
    let wrong = lengths.iter().position(|&len| len != grad.len());
    wrong.map_or(Ok(()), |i| {
        Err(Error::length(op, operands[i], grad.len(), lengths[i]))
    })
}

/// One Adam step.
///
/// # Shapes
/// `params`, `grad`, `first` and `second` moments have one length.
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length);
/// [`ErrorKind::Unsupported`](shardgraph_device::ErrorKind::Unsupported) for numbers in memory on the host.
/// # Source
/// Kingma and Ba, "Adam" (2015), algorithm 1.
pub fn adam(
    device: &Device,
    adam: Adam,
    params: &mut Buffer,
    grad: &Buffer,
    first: &mut Buffer,
    second: &mut Buffer,
    numbers: Option<&StepNumbers>,
) -> Result<(), Error> {
    const OP: &str = "adam";
    checks::len(OP, "grad", params.len(), grad)?;
    checks::len(OP, "first", params.len(), first)?;
    checks::len(OP, "second", params.len(), second)?;
    if device.is_host() {
        StepNumbers::refuse(OP, device, numbers)?;
        adam_on_host(
            adam,
            params.on_host_mut(OP)?,
            grad.on_host(OP)?,
            first.on_host_mut(OP)?,
            second.on_host_mut(OP)?,
        );
        return Ok(());
    }
    let n = grad.len();
    let (correction1, correction2) = adam.corrections();
    let mut args = vec![
        Arg::write(params),
        Arg::read(grad),
        Arg::write(first),
        Arg::write(second),
    ];
    args.extend(numbers.map(StepNumbers::args).into_iter().flatten());
    args.push(Arg::u64(n as u64));
    args.extend(numbers.is_none().then(|| Arg::f32(adam.learning_rate)));
    args.extend([adam.beta1, adam.beta2, adam.epsilon].map(Arg::f32));
    if numbers.is_none() {
        args.extend([correction1, correction2].map(Arg::f32));
    }
    let kernel = StepNumbers::kernel(numbers, ["adam_step", "adam_captured_step"]);
    // SAFETY: all four buffers have n elements, those of the numbers 3 and 2.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

fn adam_on_host(
    adam: Adam,
    params: &mut [f32],
    grad: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let moved = (params, first, second);
    let (correction1, correction2) = adam.corrections();
    arch().dispatch(
        #[inline(always)]
        move || {
            let (params, first, second) = moved;
            let moments = (first, second);
            // After some steps the corrections are 1: dividing by them takes time and changes nothing.
            match (correction1 < 1.0, correction2 < 1.0) {
                (false, false) => adam_step(adam, params, grad, moments, |m| m, |v| v),
                (false, true) => {
                    let second = move |v| v / correction2;
                    adam_step(adam, params, grad, moments, |m| m, second);
                }
                (true, _) => {
                    let (first, second) = (move |m| m / correction1, move |v| v / correction2);
                    adam_step(adam, params, grad, moments, first, second);
                }
            }
        },
    );
}

#[inline(always)]
fn adam_step(
    adam: Adam,
    params: &mut [f32],
    grad: &[f32],
    moments: (&mut [f32], &mut [f32]),
    corrected_first: impl Fn(f32) -> f32,
    corrected_second: impl Fn(f32) -> f32,
) {
    let (first, second) = moments;
    for (((p, &g), m), v) in params.iter_mut().zip(grad).zip(first).zip(second) {
        *m = adam.beta1 * *m + (1.0 - adam.beta1) * g;
        *v = adam.beta2 * *v + (1.0 - adam.beta2) * g * g;
        let denominator = corrected_second(*v).sqrt() + adam.epsilon;
        *p -= adam.learning_rate * corrected_first(*m) / denominator;
    }
}

/// The constants of one RMSProp step with momentum.
///
/// # Source
/// Tieleman and Hinton, "Neural networks for machine learning" (2012), lecture 6.5; `epsilon` stands under the root, as in
/// TensorFlow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsProp {
    /// Step size.
    pub learning_rate: f32,
    /// How much of the mean square is kept from step to step.
    pub decay: f32,
    /// How much of the last step is kept.
    pub momentum: f32,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl RmsProp {
    /// The step on values in host memory: the same bits as [`rms_prop`] with buffers of the host.
    ///
    /// # Errors
    /// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length) unless all four have one length; nothing is changed then.
    pub fn apply(
        &self,
        params: &mut [f32],
        grad: &[f32],
        mean_square: &mut [f32],
        velocity: &mut [f32],
    ) -> Result<(), Error> {
        let lengths = [params.len(), mean_square.len(), velocity.len()];
        of_one_length(
            "rms_prop",
            grad,
            ["params", "mean_square", "velocity"],
            lengths,
        )?;
        let moments = mean_square.iter_mut().zip(velocity);
        for ((value, &g), (square, velocity)) in params.iter_mut().zip(grad).zip(moments) {
            *square = self.decay * *square + (1.0 - self.decay) * g * g;
            let step = self.learning_rate * g / (*square + self.epsilon).sqrt();
            *velocity = self.momentum * *velocity + step;
            *value -= *velocity;
        }
        Ok(())
    }
}

/// One RMSProp step: each derivative divided by the root of its running mean square, with momentum over the steps.
///
/// # Shapes
/// `params`, `grad`, `mean_square` and `velocity` have one length.
/// # Errors
/// As [`adam`].
/// # Source
/// That of [`RmsProp`].
pub fn rms_prop(
    device: &Device,
    constants: RmsProp,
    params: &mut Buffer,
    grad: &Buffer,
    mean_square: &mut Buffer,
    velocity: &mut Buffer,
    numbers: Option<&StepNumbers>,
) -> Result<(), Error> {
    const OP: &str = "rms_prop";
    checks::len(OP, "grad", params.len(), grad)?;
    checks::len(OP, "mean_square", params.len(), mean_square)?;
    checks::len(OP, "velocity", params.len(), velocity)?;
    if device.is_host() {
        StepNumbers::refuse(OP, device, numbers)?;
        return constants.apply(
            params.on_host_mut(OP)?,
            grad.on_host(OP)?,
            mean_square.on_host_mut(OP)?,
            velocity.on_host_mut(OP)?,
        );
    }
    let n = grad.len();
    let mut args = vec![
        Arg::write(params),
        Arg::read(grad),
        Arg::write(mean_square),
        Arg::write(velocity),
    ];
    args.extend(numbers.map(StepNumbers::args).into_iter().flatten());
    args.push(Arg::u64(n as u64));
    let RmsProp {
        learning_rate,
        decay,
        momentum,
        epsilon,
    } = constants;
    args.extend(numbers.is_none().then(|| Arg::f32(learning_rate)));
    args.extend([decay, momentum, epsilon].map(Arg::f32));
    let kernel = StepNumbers::kernel(numbers, ["rms_prop_step", "rms_prop_captured_step"]);
    // SAFETY: all four buffers have n elements, those of the numbers 3 and 2.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}

/// One step of gradient descent: `params -= learning_rate * grad`.
///
/// # Errors
/// As [`adam`].
pub fn sgd(
    device: &Device,
    learning_rate: f32,
    params: &mut Buffer,
    grad: &Buffer,
    numbers: Option<&StepNumbers>,
) -> Result<(), Error> {
    const OP: &str = "sgd";
    checks::len(OP, "grad", params.len(), grad)?;
    if device.is_host() {
        StepNumbers::refuse(OP, device, numbers)?;
        let values = params.on_host_mut(OP)?.iter_mut().zip(grad.on_host(OP)?);
        values.for_each(|(value, &g)| *value -= learning_rate * g);
        return Ok(());
    }
    let n = grad.len();
    let mut args = vec![Arg::write(params), Arg::read(grad)];
    args.extend(numbers.map(StepNumbers::args).into_iter().flatten());
    args.push(Arg::u64(n as u64));
    args.extend(numbers.is_none().then(|| Arg::f32(learning_rate)));
    let kernel = StepNumbers::kernel(numbers, ["sgd_step", "sgd_captured_step"]);
    // SAFETY: both buffers have n elements, those of the numbers 3 and 2.
    unsafe { device.launch(kernel, Launch::threads(n.div_ceil(4), BLOCK), &args) }
}
