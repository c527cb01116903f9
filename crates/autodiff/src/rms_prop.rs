//! Gradient descent by running root mean squares, with momentum.

use shardgraph_device::{Buffer, Device};
use shardgraph_ops::{self as ops, StepNumbers};

use crate::optimiser_slots::OptimiserSlots;
use crate::{DeviceGradient, Error, Params};

/// RMSProp: each gradient divided by the root of its running mean square, with momentum over the steps.
///
/// `epsilon` is added under the root and mean squares begin at 1, as in TensorFlow, where IMPALA's settings come from.
///
/// # Source
/// Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning" (2012).
///
/// ```
/// use shardgraph_autodiff::{Params, RmsProp, Shape};
/// let mut params = Params::new();
/// params.add("w", Shape::new(1, 1), || 1.0);
/// let mut rms_prop = RmsProp::new(0.5, params.trained_len());
/// (rms_prop.decay, rms_prop.epsilon) = (0.5, 0.0);
/// rms_prop.step(&mut params, &[7.0])?;
/// assert_eq!(params.flat(), [0.3]); // 1 - 0.5 * 7 / sqrt((1 + 49) / 2)
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RmsProp {
    /// Step size.
    pub learning_rate: f32,
    /// Fraction of the mean square that is kept from step to step.
    pub decay: f32,
    /// Fraction of the last step that is kept.
    pub momentum: f32,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Running mean squares and the last step, each as long as the trained parameters.
    slots: OptimiserSlots,
}

impl RmsProp {
    /// RMSProp with IMPALA's constants (decay 0.99, no momentum, epsilon 0.1) for `n_params` values.
    pub fn new(learning_rate: f32, n_params: usize) -> Self {
        Self {
            learning_rate,
            decay: 0.99,
            momentum: 0.0,
            epsilon: 0.1,
            slots: OptimiserSlots::new(n_params, [1.0, 0.0]),
        }
    }

    /// Running mean squares and the last step, each as long as the trained parameters.
    ///
    /// # Panics
    /// As [`Params::flat`], for [`RmsProp::sync`].
    pub fn slots(&self) -> [&[f32]; 2] {
        self.slots.host()
    }

    /// The same for writing.
    ///
    /// # Panics
    /// As [`RmsProp::slots`].
    pub fn slots_mut(&mut self) -> [&mut [f32]; 2] {
        self.slots.host_mut()
    }

    /// Copies both to the host, where a device has newer ones.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&self) -> Result<(), Error> {
        self.slots.sync()
    }

    /// One step of the trained parameters against the gradient.
    ///
    /// # Errors
    /// When the lengths differ; nothing is changed then.
    pub fn step(&mut self, params: &mut Params, grad: &[f32]) -> Result<(), Error> {
        let constants = self.constants();
        let [mean_square, velocity] = self.slots_mut();
        Ok(constants.apply(params.trained_mut(), grad, mean_square, velocity)?)
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
        self.launch_step(device, params, gradient, None)
    }

    pub(crate) fn slots_of_device(&mut self) -> &mut OptimiserSlots {
        &mut self.slots
    }

    /// The launches of a step.
    pub(crate) fn launch_step(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &DeviceGradient,
        numbers: Option<&StepNumbers>,
    ) -> Result<(), Error> {
        let constants = self.constants();
        let step = |values: &mut Buffer, grad: &Buffer, [square, velocity]: [&mut Buffer; 2]| {
            ops::rms_prop(device, constants, values, grad, square, velocity, numbers)
        };
        self.slots.step_on_device(device, params, gradient, step)
    }

    fn constants(&self) -> ops::RmsProp {
        ops::RmsProp {
            learning_rate: self.learning_rate,
            decay: self.decay,
            momentum: self.momentum,
            epsilon: self.epsilon,
        }
    }
}
