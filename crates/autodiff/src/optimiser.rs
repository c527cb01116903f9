//! Optimisers over the trained part of the flat parameter arena.

use shardgraph_device::{Device, DeviceKind};
use shardgraph_ops as ops;

use crate::{Error, Params};

/// Adam with its moments and step count.
///
/// # Source
/// Kingma and Ba, "Adam" (2015), algorithm 1.
///
/// ```
/// use shardgraph_autodiff::{Adam, Params, Shape};
/// use shardgraph_device::Device;
/// let mut params = Params::new();
/// let w = params.add("w", Shape::new(1, 1), || 1.0);
/// let mut adam = Adam::new(0.1, params.trained_len());
/// adam.step(&Device::host(), &mut params, &[3.0])?;
/// assert!((params.values_of(w)[0] - 0.9).abs() < 1e-6); // the first step has the size of the learning rate
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    /// Step size.
    pub learning_rate: f32,
    /// Decay rate of the first moment; 0.9 in the paper.
    pub beta1: f32,
    /// Decay rate of the second moment; 0.999 in the paper.
    pub beta2: f32,
    /// Added to the root of the second moment; 1e-8 in the paper.
    pub epsilon: f32,
    /// Steps taken so far.
    pub n_steps: u64,
    /// First moments, as long as the trained parameters.
    pub first: Vec<f32>,
    /// Second moments, as long as the trained parameters.
    pub second: Vec<f32>,
}

impl Adam {
    /// Adam with the constants of its paper (0.9, 0.999, 1e-8) for `n_params` values ([`Params::trained_len`]).
    pub fn new(learning_rate: f32, n_params: usize) -> Self {
        Self {
            learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            n_steps: 0,
            first: vec![0.0; n_params],
            second: vec![0.0; n_params],
        }
    }

    /// One step of the trained parameters against their gradient.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn step(
        &mut self,
        device: &Device,
        params: &mut Params,
        grad: &[f32],
    ) -> Result<(), Error> {
        let step = ops::Adam {
            learning_rate: self.learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            step: self.n_steps + 1,
        };
        if device.kind() == DeviceKind::Host {
            step.apply(
                params.trained_mut(),
                grad,
                &mut self.first,
                &mut self.second,
            )?;
            self.n_steps += 1;
            return Ok(());
        }
        let mut values = device.upload(params.trained())?;
        let mut first = device.upload(&self.first)?;
        let mut second = device.upload(&self.second)?;
        let grad = device.upload(grad)?;
        ops::adam(device, step, &mut values, &grad, &mut first, &mut second)?;
        params.set_trained(&device.download(&values)?)?;
        self.first = device.download(&first)?;
        self.second = device.download(&second)?;
        self.n_steps += 1;
        Ok(())
    }
}

/// Plain gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// Step size.
    pub learning_rate: f32,
}

impl Sgd {
    /// One step of the trained parameters against their gradient.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn step(&self, params: &mut Params, grad: &[f32]) -> Result<(), Error> {
        if grad.len() != params.trained_len() {
            return params.set_trained(grad); // names both lengths
        }
        for (value, g) in params.trained_mut().iter_mut().zip(grad) {
            *value -= self.learning_rate * g;
        }
        Ok(())
    }
}
