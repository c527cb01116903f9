//! Optimisers over the trained part of the flat parameter arena.

use shardgraph_device::{Buffer, Device};
use shardgraph_ops::{self as ops, StepNumbers};

use crate::gradient_parts::for_each_trained;
use crate::optimiser_slots::OptimiserSlots;
use crate::{DeviceGradient, Error, Params};

/// Adam with its moments and step count.
///
/// The moments are where the steps are taken: in the host's memory, or a device's.
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
    /// First and second moments, each as long as the trained parameters.
    moments: OptimiserSlots,
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
            moments: OptimiserSlots::new(n_params, [0.0; 2]),
        }
    }

    /// First and second moments, each as long as the trained parameters.
    ///
    /// # Panics
    /// As [`Params::flat`], for [`Adam::sync`].
    pub fn moments(&self) -> [&[f32]; 2] {
        self.moments.host()
    }

    /// The moments for writing.
    ///
    /// # Panics
    /// As [`Adam::moments`].
    pub fn moments_mut(&mut self) -> [&mut [f32]; 2] {
        self.moments.host_mut()
    }

    /// Copies the moments to the host, where a device has newer ones.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&self) -> Result<(), Error> {
        self.moments.sync()
    }

    fn constants(&self) -> ops::Adam {
        ops::Adam {
            learning_rate: self.learning_rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            step: self.n_steps + 1,
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
        if !device.is_host() {
            let gradient = DeviceGradient::upload(device, params, grad)?;
            return self.step_on_device(device, params, &gradient);
        }
        let constants = self.constants();
        let [first, second] = self.moments_mut();
        constants.apply(params.trained_mut(), grad, first, second)?;
        self.n_steps += 1;
        Ok(())
    }

    /// The same on a device that is no host: parameters and moments stay in its memory.
    ///
    /// # Errors
    /// When the lengths differ; the device's.
    pub fn step_on_device(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
    ) -> Result<(), Error> {
        self.launch_step(device, params, gradient, None)?;
        self.n_steps += 1;
        Ok(())
    }

    /// The launches of a step that is not counted.
    pub(crate) fn launch_step(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
        numbers: Option<&StepNumbers>,
    ) -> Result<(), Error> {
        let constants = self.constants();
        let step = |values: &mut Buffer, grad: &Buffer, [first, second]: [&mut Buffer; 2]| {
            ops::adam(device, constants, values, grad, first, second, numbers)
        };
        self.moments.step_on_device(device, params, gradient, step)
    }

    pub(crate) fn slots_mut(&mut self) -> &mut OptimiserSlots {
        &mut self.moments
    }

    /// The corrections of the next step.
    pub(crate) fn corrections(&self) -> (f32, f32) {
        self.constants().corrections()
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

    /// The same on a device that is no host: parameters stay in its memory.
    ///
    /// # Errors
    /// When the lengths differ; the device's.
    pub fn step_on_device(
        &self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
    ) -> Result<(), Error> {
        self.launch_step(device, params, gradient, None)
    }

    /// The launches of a step.
    pub(crate) fn launch_step(
        &self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
        numbers: Option<&StepNumbers>,
    ) -> Result<(), Error> {
        let rate = self.learning_rate;
        for_each_trained(device, params, gradient, |_, values, grad| {
            Ok(ops::sgd(device, rate, values, grad, numbers)?)
        })
    }
}
