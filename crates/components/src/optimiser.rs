//! The optimisers by one name, with a bound on the gradient's norm, and their state as bytes.

use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Adam, CapturedStep, Gradient, OptimiserMut, Params, RmsProp, Sgd};

use crate::error::Call;
use crate::{AdamConstants, Error, OptimiserConfig, OptimiserRule};

/// An optimiser of the trained parameters.
///
/// ```
/// use shardgraph_components::autodiff::device::Device;
/// use shardgraph_components::autodiff::{Params, Shape};
/// use shardgraph_components::{Optimiser, OptimiserConfig, OptimiserRule};
///
/// let mut params = Params::new();
/// params.add("w", Shape::new(1, 2), || 1.0);
/// let config = OptimiserConfig { rule: OptimiserRule::Sgd, learning_rate: 0.5, max_gradient_norm: Some(1.0) };
/// let mut optimiser = Optimiser::new(config, params.trained_len())?;
/// let norm = optimiser.step(&Device::host(), &mut params, &mut [3.0, 4.0])?;
/// assert_eq!(norm, 5.0); // before it was cut
/// assert_eq!(params.flat(), [0.7, 0.6]);
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Optimiser {
    max_gradient_norm: Option<f32>,
    n_params: usize,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Adam(Adam),
    Sgd(Sgd),
    RmsProp(RmsProp),
}

impl Optimiser {
    /// For `n_params` trained values.
    ///
    /// # Errors
    /// When a setting cannot be right.
    pub fn new(config: OptimiserConfig, n_params: usize) -> Result<Optimiser, Error> {
        config.check()?;
        let learning_rate = config.learning_rate;
        Ok(Optimiser {
            max_gradient_norm: config.max_gradient_norm,
            n_params,
            state: match config.rule {
                OptimiserRule::Adam(AdamConstants {
                    beta1,
                    beta2,
                    epsilon,
                }) => {
                    let mut adam = Adam::new(learning_rate, n_params);
                    (adam.beta1, adam.beta2, adam.epsilon) = (beta1, beta2, epsilon);
                    State::Adam(adam)
                }
                OptimiserRule::Sgd => State::Sgd(Sgd { learning_rate }),
                OptimiserRule::RmsProp {
                    decay,
                    momentum,
                    epsilon,
                } => {
                    let mut rms_prop = RmsProp::new(learning_rate, n_params);
                    (rms_prop.decay, rms_prop.momentum) = (decay, momentum);
                    rms_prop.epsilon = epsilon;
                    State::RmsProp(rms_prop)
                }
            },
        })
    }

    /// The step size.
    pub fn learning_rate(&self) -> f32 {
        match &self.state {
            State::Adam(adam) => adam.learning_rate,
            State::Sgd(sgd) => sgd.learning_rate,
            State::RmsProp(rms_prop) => rms_prop.learning_rate,
        }
    }

    /// Sets the step size of the steps to come.
    ///
    /// # Errors
    /// When it is not a finite number above 0; the optimiser stays as it was.
    pub fn set_learning_rate(&mut self, learning_rate: f32) -> Result<(), Error> {
        let call = Call::new("optimiser", "Optimiser::set_learning_rate");
        call.expect_above_0("learning_rate", learning_rate)?;
        match &mut self.state {
            State::Adam(adam) => adam.learning_rate = learning_rate,
            State::Sgd(sgd) => sgd.learning_rate = learning_rate,
            State::RmsProp(rms_prop) => rms_prop.learning_rate = learning_rate,
        }
        Ok(())
    }

    /// One step against the gradient, which is scaled down in place if it is longer than allowed;
    /// gives its norm before that.
    ///
    /// # Errors
    /// When the gradient has another length; [`Error::Diverged`] where it is not finite: the
    /// parameters stay as they were.
    pub fn step(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &mut [f32],
    ) -> Result<f32, Error> {
        let call = Call::new("optimiser", "Optimiser::step");
        if gradient.len() != self.n_params {
            let (expected, given) = (self.n_params.to_string(), gradient.len().to_string());
            return Err(call.mismatch("the gradient's length", expected, given));
        }
        let norm = finite(sum_of_squares(gradient).sqrt() as f32)?;
        if let Some(factor) = self.clipping(norm) {
            gradient.iter_mut().for_each(|g| *g *= factor);
        }
        match &mut self.state {
            State::Adam(adam) => adam.step(device, params, gradient)?,
            State::Sgd(sgd) => sgd.step(params, gradient)?,
            State::RmsProp(rms_prop) => rms_prop.step(params, gradient)?,
        }
        Ok(norm)
    }

    /// The same against a gradient where it was computed: on a device, neither parameters nor moments nor derivatives leave its
    /// memory.
    ///
    /// # Errors
    /// As [`Optimiser::step`]; the device's.
    pub fn step_with(
        &mut self,
        device: &Device,
        params: &mut Params,
        gradient: &mut Gradient,
    ) -> Result<f32, Error> {
        let gradient = match gradient {
            Gradient::Host(gradient) => return self.step(device, params, gradient),
            Gradient::Device(gradient) => gradient,
        };
        let norm = finite(gradient.norm(device)?)?;
        if let Some(factor) = self.clipping(norm) {
            gradient.scale(device, factor)?;
        }
        match &mut self.state {
            State::Adam(adam) => adam.step_on_device(device, params, gradient)?,
            State::Sgd(sgd) => sgd.step_on_device(device, params, gradient)?,
            State::RmsProp(rms_prop) => rms_prop.step_on_device(device, params, gradient)?,
        }
        Ok(norm)
    }

    /// A whole step of training on a device, recorded once: the program's gradient, its bound and the step against it are one
    /// launch.
    ///
    /// # Errors
    /// As [`Optimiser::step`]; the device's.
    pub fn step_captured(
        &mut self,
        params: &mut Params,
        step: &mut CapturedStep,
    ) -> Result<f32, Error> {
        let call = Call::new("optimiser", "Optimiser::step_captured");
        if params.trained_len() != self.n_params {
            let (expected, given) = (self.n_params.to_string(), params.trained_len().to_string());
            return Err(call.mismatch("the number of trained parameters", expected, given));
        }
        let rule = match &mut self.state {
            State::Adam(adam) => OptimiserMut::Adam(adam),
            State::Sgd(sgd) => OptimiserMut::Sgd(sgd),
            State::RmsProp(rms_prop) => OptimiserMut::RmsProp(rms_prop),
        };
        finite(step.run(params, rule, self.max_gradient_norm)?)
    }

    /// What a gradient of this norm is multiplied by, where it is too long.
    fn clipping(&self, norm: f32) -> Option<f32> {
        let largest = self.max_gradient_norm.filter(|&largest| norm > largest);
        largest.map(|largest| largest / norm)
    }

    /// Copies the state to the host, where a device has newer values.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&self) -> Result<(), Error> {
        match &self.state {
            State::Adam(adam) => adam.sync()?,
            State::Sgd(_) => {}
            State::RmsProp(rms_prop) => rms_prop.sync()?,
        }
        Ok(())
    }

    /// Steps taken, where later ones depend on it (Adam's); 0 elsewhere.
    pub fn n_steps(&self) -> u64 {
        match &self.state {
            State::Adam(adam) => adam.n_steps,
            State::Sgd(_) | State::RmsProp(_) => 0,
        }
    }

    /// Everything that later steps depend on beside the settings, for a checkpoint.
    ///
    /// A checkpoint that keeps named tensors takes [`Optimiser::n_steps`] and [`Optimiser::slots`]
    /// instead.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(self.learning_rate().to_le_bytes());
        bytes.extend(self.n_steps().to_le_bytes());
        for list in self.slots() {
            bytes.extend(list.iter().flat_map(|x| x.to_le_bytes()));
        }
        bytes
    }

    /// Takes over what [`Optimiser::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] for bytes of another rule or number of parameters, or that are damaged;
    /// the optimiser stays as it was.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let head = self.head();
        let rest = bytes.strip_prefix(head.as_slice()).ok_or_else(|| {
            malformed("they begin otherwise: another rule or number of parameters")
        })?;
        let n_bytes = 4 * self.n_params * self.slots().len();
        let (Some((learning_rate, rest)), true) =
            (rest.split_first_chunk::<4>(), rest.len() == 12 + n_bytes)
        else {
            let (expected, given) = (head.len() + 12 + n_bytes, bytes.len());
            return Err(malformed(&format!(
                "they are {given}, not {expected} bytes"
            )));
        };
        let (n_steps, rest) = rest.split_at(8);
        let (words, _) = rest.as_chunks::<4>();
        let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        let learning_rate = f32::from_le_bytes(*learning_rate);
        if !(learning_rate.is_finite() && learning_rate > 0.0) {
            return Err(malformed("their step size is not a number above 0"));
        }
        let n_steps = n_steps
            .iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | u64::from(byte));
        self.restore_slots(n_steps, &values)?;
        self.set_learning_rate(learning_rate)
    }

    /// Takes over what [`Optimiser::n_steps`] and [`Optimiser::slots`] gave, the slots one after
    /// the other; the step size stays.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another number of values, or one that is not finite; the optimiser
    /// stays as it was.
    pub fn restore_slots(&mut self, n_steps: u64, values: &[f32]) -> Result<(), Error> {
        let expected = self.n_params * self.slots().len();
        if values.len() != expected {
            let given = values.len();
            return Err(malformed(&format!(
                "they hold {given}, not {expected} values"
            )));
        }
        if values.iter().any(|x| !x.is_finite()) {
            return Err(malformed(NOT_FINITE));
        }
        if let State::Adam(adam) = &mut self.state {
            adam.n_steps = n_steps;
        }
        let mut values = values.iter();
        for slot in self.slots_mut() {
            slot.iter_mut()
                .zip(&mut values)
                .for_each(|(to, &x)| *to = x);
        }
        Ok(())
    }

    /// The first bytes of this optimiser: a name with its version, the rule, the number of
    /// parameters.
    fn head(&self) -> Vec<u8> {
        let rule: &[u8] = match &self.state {
            State::Adam(_) => b"adam    ",
            State::Sgd(_) => b"sgd     ",
            State::RmsProp(_) => b"rms_prop",
        };
        let n_params = (self.n_params as u64).to_le_bytes();
        [b"optim. 1", rule, &n_params].concat()
    }

    /// The state for each parameter, in this order: Adam's first and second moments; nothing;
    /// RMSProp's mean square and velocity.
    ///
    /// # Shapes
    /// As many values each as there are trained parameters.
    pub fn slots(&self) -> Vec<&[f32]> {
        match &self.state {
            State::Adam(adam) => adam.moments().to_vec(),
            State::Sgd(_) => vec![],
            State::RmsProp(rms_prop) => rms_prop.slots().to_vec(),
        }
    }

    fn slots_mut(&mut self) -> Vec<&mut [f32]> {
        match &mut self.state {
            State::Adam(adam) => adam.moments_mut().into(),
            State::Sgd(_) => vec![],
            State::RmsProp(rms_prop) => rms_prop.slots_mut().into(),
        }
    }
}

/// In eight sums side by side: one alone would wait for each addition.
fn sum_of_squares(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for (sum, &x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
    let rest: f64 = rest.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    sums.iter().sum::<f64>() + rest
}

fn finite(norm: f32) -> Result<f32, Error> {
    match norm.is_finite() {
        true => Ok(norm),
        false => Err(Error::Diverged { norm }),
    }
}

const NOT_FINITE: &str = "they hold a number that is not finite";

fn malformed(reason: &str) -> Error {
    Error::Malformed(reason.to_string())
}
