//! Gradient descent by running root mean squares, with momentum.

use crate::{Error, Params};

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
    /// Running mean squares, as long as the parameters.
    pub mean_square: Vec<f32>,
    /// The last step, as long as the parameters.
    pub velocity: Vec<f32>,
}

impl RmsProp {
    /// RMSProp with IMPALA's constants (decay 0.99, no momentum, epsilon 0.1) for `n_params` values.
    pub fn new(learning_rate: f32, n_params: usize) -> Self {
        Self {
            learning_rate,
            decay: 0.99,
            momentum: 0.0,
            epsilon: 0.1,
            mean_square: vec![1.0; n_params],
            velocity: vec![0.0; n_params],
        }
    }

    /// One step of the trained parameters against the gradient.
    ///
    /// # Errors
    /// When the lengths differ; nothing is changed then.
    pub fn step(&mut self, params: &mut Params, grad: &[f32]) -> Result<(), Error> {
        let n_params = params.trained_len();
        if grad.len() != n_params || self.mean_square.len() != n_params {
            let text = format!(
                "RmsProp::step: expected {n_params} derivatives and moments, given {} and {}: make an optimiser for each model",
                grad.len(),
                self.mean_square.len()
            );
            return Err(Error::Usage(text));
        }
        let values = params.trained_mut().iter_mut().zip(grad);
        let moments = self.mean_square.iter_mut().zip(&mut self.velocity);
        for ((value, &g), (square, velocity)) in values.zip(moments) {
            *square = self.decay * *square + (1.0 - self.decay) * g * g;
            let step = self.learning_rate * g / (*square + self.epsilon).sqrt();
            *velocity = self.momentum * *velocity + step;
            *value -= *velocity;
        }
        Ok(())
    }
}
