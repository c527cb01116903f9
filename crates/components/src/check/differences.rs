//! Derivatives as differences of values, wherever these can tell.

use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Eager, Params};
use shardgraph_graph::random::Stream;

use super::frozen::Frozen;
use super::runs::{Gradients, add_inputs};
use super::{Case, Checked, Matrix};
use crate::Error;

/// Derivatives of each parameter and each input that are compared.
const MOST_DERIVATIVES: usize = 16;

/// Steps that are tried until one has no kink in it; the longest first, whose differences have the least rounding.
const STEPS: [f32; 3] = [0.03125, 0.00390625, 0.00048828125];

/// What the derivative may differ by, as a part of it.
const TOLERANCE: f64 = 2e-3;

/// Which number is moved.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A value of the flat parameters.
    Param(usize),
    /// An element of an input.
    Input(usize, usize),
}

/// The weighted sum of all results at one point, and how large its terms are.
#[derive(Debug, Clone, Copy)]
struct Sum {
    value: f64,
    magnitude: f64,
}

/// A derivative, as differences say it.
struct Estimate {
    value: f64,
    /// How far off it may be.
    error: f64,
}

/// The values around a point, by which a derivative is estimated.
struct Around {
    /// Half the distance of the outer points.
    step: f64,
    /// The second differences and the slopes of the outer and of the inner points.
    bends: [f64; 2],
    slopes: [f64; 2],
    /// What rounding may do to a value.
    noise: f64,
}

impl Around {
    /// Smooth functions bend a quarter as much over half the distance, those with a kink in the middle half as much; slopes that
    /// differ show a kink elsewhere.
    fn estimate(&self) -> Option<Estimate> {
        let [outer, inner] = self.slopes;
        let rounding = 4.0 * self.noise / self.step;
        let apart = (outer - inner).abs();
        let is_straight = apart <= 0.02 * inner.abs() + rounding;
        let is_smooth = self.bends[1].abs() <= 0.35 * self.bends[0].abs() + 4.0 * self.noise;
        (is_straight && is_smooth).then(|| Estimate {
            value: (4.0 * inner - outer) / 3.0, // Richardson's extrapolation
            error: apart + rounding + TOLERANCE * inner.abs(),
        })
    }
}

/// A point that is moved, with what stays constant.
struct Moved<'a> {
    case: &'a Case<'a>,
    weights: &'a [Matrix],
    params: Params,
    inputs: Vec<Matrix>,
    constants: Vec<Vec<f32>>,
}

impl Case<'_> {
    /// Compares gradients with differences at random places of each parameter and each input.
    pub(crate) fn compare_derivatives(
        &self,
        gradients: &Gradients,
        weights: &[Matrix],
        checked: &mut Checked,
    ) -> Result<(), Error> {
        let mut moved = Moved {
            case: self,
            weights,
            params: self.params.clone(),
            inputs: self.inputs.clone(),
            constants: Vec::new(),
        };
        let base = moved.sum()?;
        let mut stream = Stream::new(self.seed, "check derivatives", 0);
        for (name, place, derivative) in self.places(gradients, &mut stream) {
            match moved.estimate(place, base)? {
                None => checked.n_kinks += 1,
                Some(estimate) => {
                    checked.n_derivatives += 1;
                    let off = (f64::from(derivative) - estimate.value).abs();
                    // Not a number is refused too.
                    if off
                        .partial_cmp(&estimate.error)
                        .is_none_or(|order| order.is_gt())
                    {
                        let (value, error) = (estimate.value, estimate.error);
                        return Err(self.differs(format!(
                            "the derivative by {name} is {derivative:e}, differences say {value:e} +- {error:.0e}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// What is moved, with its name and derivative.
    fn places(&self, gradients: &Gradients, stream: &mut Stream) -> Vec<(String, Place, f32)> {
        let mut pick = |n: usize| {
            let picks = stream.sample_without_replacement(n as u64, n.min(MOST_DERIVATIVES));
            picks.into_iter().map(|pick| pick as usize)
        };
        let (mut places, mut first) = (Vec::new(), 0);
        for id in self.params.trained_ids() {
            let (name, len) = (self.params.name(id), self.params.shape(id).len());
            places.extend(pick(len).map(|i| {
                let derivative = gradients.by_params[first + i];
                (format!("{name}[{i}]"), Place::Param(first + i), derivative)
            }));
            first += len;
        }
        for (input, derivatives) in gradients.by_inputs.iter().enumerate() {
            places.extend(pick(derivatives.len()).map(|i| {
                let name = format!("input {input}, element {i}");
                (name, Place::Input(input, i), derivatives[i])
            }));
        }
        places
    }
}

impl Moved<'_> {
    fn estimate(&mut self, place: Place, base: Sum) -> Result<Option<Estimate>, Error> {
        let x = self.at(place);
        for step in STEPS {
            let step = step * x.abs().max(1.0);
            let around = self.around(place, (x, base), step)?;
            if let Some(estimate) = around.estimate() {
                return Ok(Some(estimate));
            }
        }
        Ok(None)
    }

    fn around(&mut self, place: Place, (x, base): (f32, Sum), step: f32) -> Result<Around, Error> {
        let mut noise = f64::from(f32::EPSILON) * base.magnitude;
        let (mut bends, mut slopes) = ([0.0; 2], [0.0; 2]);
        for (i, step) in [step, 0.5 * step].into_iter().enumerate() {
            let (left, right) = (x - step, x + step);
            let (below, above) = (self.sum_at(place, left)?, self.sum_at(place, right)?);
            let distance = f64::from(right) - f64::from(left); // what rounding has left of 2 steps
            bends[i] = above.value - 2.0 * base.value + below.value;
            slopes[i] = (above.value - below.value) / distance;
            noise = noise.max(f64::from(f32::EPSILON) * above.magnitude.max(below.magnitude));
        }
        self.set(place, x);
        Ok(Around {
            step: f64::from(step),
            bends,
            slopes,
            noise,
        })
    }

    fn sum_at(&mut self, place: Place, x: f32) -> Result<Sum, Error> {
        self.set(place, x);
        self.sum()
    }

    fn at(&self, place: Place) -> f32 {
        match place {
            Place::Param(i) => self.params.flat()[i],
            Place::Input(input, i) => self.inputs[input].values[i],
        }
    }

    fn set(&mut self, place: Place, x: f32) {
        match place {
            Place::Param(i) => {
                let mut values = self.params.flat().to_vec();
                values[i] = x;
                let is_set = self.params.set_flat(&values);
                is_set.expect("as many values as there were");
            }
            Place::Input(input, i) => self.inputs[input].values[i] = x,
        }
    }

    /// The weighted sum, added up in f64 so that only the method itself rounds to f32.
    fn sum(&mut self) -> Result<Sum, Error> {
        let (device, mut comm) = (Device::host(), Comm::solo());
        let eager = Eager::new(&device, &mut comm, &self.params);
        let mut ctx = Frozen::new(eager, &mut self.constants);
        let inputs = add_inputs(&mut ctx, &self.inputs)?;
        let results = (self.case.method)(&mut ctx, &inputs)?;
        let mut sum = Sum {
            value: 0.0,
            magnitude: 0.0,
        };
        for (&result, weights) in results.iter().zip(self.weights) {
            for (x, weight) in ctx.values(result)?.into_iter().zip(&weights.values) {
                let term = f64::from(x) * f64::from(*weight);
                sum.value += term;
                sum.magnitude += term.abs();
            }
        }
        Ok(sum)
    }
}
