//! Derivatives as differences of values, wherever these can tell.

use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Eager, Params};
use shardgraph_random::KeyedRng;

use super::frozen::Frozen;
use super::runs::{Gradients, add_inputs};
use super::tally::Tally;
use super::{Case, CheckError as Error, Matrix};

/// Derivatives of each parameter and each input that are compared.
const MOST_DERIVATIVES: usize = 16;

/// The longest step, and how many there are, each half as long as the one before: long ones have
/// the least rounding, short ones are rarely across a kink.
const LONGEST_STEP: f32 = 0.0625;
const N_STEPS: usize = 8;

/// The allowed difference of a derivative, as a part of it: it is computed in f32.
const TOLERANCE: f64 = 1e-3;

/// The largest error of an estimate that counts, as a part of the derivative.
const SHARP: f64 = 5e-3;

/// A derivative is small if it is below these parts of the largest by the same parameter or input,
/// and of the largest of all: no more exactness is asked for there.
const SMALL_IN_TENSOR: f64 = 0.1;
const SMALL_OF_ALL: f64 = 0.02;

/// A derivative is nothing below this part of the largest of all: what rounding leaves where a
/// method does not depend on something. Steps that are longer by so many factors of two are tried
/// there as well.
const NOTHING: f64 = 1e-3;
const N_LONGER: usize = 4;

/// The number that is moved.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A value of the flat parameters.
    Param(usize),
    /// An element of an input.
    Input(usize, usize),
}

/// A derivative to compare.
struct Derivative {
    /// The parameter or input.
    tensor: String,
    /// With the element.
    name: String,
    place: Place,
    value: f64,
    /// The largest that counts as small.
    small: f64,
    /// The largest that counts as nothing.
    nothing: f64,
}

/// The verdict of differences on a derivative.
enum Verdict {
    Right,
    Wrong(Estimate),
    /// Too little.
    Unclear,
}

/// Two points at one distance on both sides of the middle.
struct Pair {
    /// Half the distance between them.
    step: f64,
    slope: f64,
    /// Their second difference.
    bend: f64,
    /// The square of what rounding may do to the sum.
    noise: f64,
    /// The change that may not show: by elements that kept their bits.
    hidden: f64,
}

/// A derivative, as differences say it.
struct Estimate {
    value: f64,
    /// Its error, if what does not move in f32 does not move.
    error: f64,
    /// And how much further if not.
    hidden: f64,
}

impl Estimate {
    /// From the points at a step, at half and at a quarter of it.
    ///
    /// A smooth function bends a quarter as much over half the distance, and `4 b(h / 2) - b(h)`
    /// vanishes up to the fourth power of h; a kink of jump J in the middle leaves `J h`. One
    /// elsewhere between the points shows in that, or in extrapolations that differ: for every
    /// place of a single kink the two together are no less than what it moves the value by.
    fn of([outer, inner, innermost]: [&Pair; 3]) -> Estimate {
        let kink = (4.0 * inner.bend - outer.bend) / outer.step;
        let value = Pair::extrapolated(outer, inner);
        let apart = value - Pair::extrapolated(inner, innermost);
        let rounding = 8.0 * outer.noise.max(inner.noise).sqrt() / outer.step;
        Estimate {
            value,
            error: kink.abs() + apart.abs() + rounding + TOLERANCE * value.abs(),
            hidden: outer.hidden.max(inner.hidden) / outer.step,
        }
    }

    fn is_finite(&self) -> bool {
        self.value.is_finite() && self.error.is_finite()
    }

    fn holds(&self, derivative: f64) -> bool {
        (derivative - self.value).abs() <= self.error
    }

    /// True if it is nothing by both.
    fn is_nothing(&self, derivative: &Derivative) -> bool {
        let most = derivative.value.abs().max(self.value.abs() + self.error);
        self.holds(derivative.value) && most <= derivative.nothing
    }

    fn refutes(&self, derivative: f64) -> bool {
        (derivative - self.value).abs() > self.error + self.hidden
    }

    /// True if it is exact enough to find a derivative that is a part in a hundred off, unless that
    /// is a small one.
    fn is_sharp(&self, derivative: &Derivative) -> bool {
        let of_interest = derivative.value.abs().max(self.value.abs());
        self.error <= SHARP * of_interest.max(derivative.small)
    }
}

/// A point that is moved, with what stays constant.
struct Moved<'a> {
    case: &'a Case<'a>,
    weights: &'a [Matrix],
    params: Params,
    inputs: Vec<Matrix>,
    constants: Vec<Vec<f32>>,
    /// The results in the middle.
    middle: Vec<Vec<f32>>,
}

impl Case<'_> {
    /// Compares gradients with differences at random places of each parameter and each input.
    pub(crate) fn compare_derivatives(
        &self,
        gradients: &Gradients,
        weights: &[Matrix],
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let mut moved = Moved {
            case: self,
            weights,
            params: self.params.clone(),
            inputs: self.inputs.clone(),
            constants: Vec::new(),
            middle: Vec::new(),
        };
        moved.middle = moved.results()?;
        let mut stream = KeyedRng::new(self.seed, "check derivatives", 0);
        for derivative in self.derivatives(gradients, &mut stream) {
            match moved.judge(&derivative)? {
                Verdict::Right => tally.right(&derivative.tensor),
                Verdict::Unclear => tally.unclear(&derivative.tensor),
                Verdict::Wrong(Estimate { value, error, .. }) => {
                    let Derivative {
                        name, value: given, ..
                    } = derivative;
                    return Err(self.differs(format!(
                        "the derivative by {name} is {given:e}, differences say {value:e} +- {error:.0e}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The numbers to move, with their names and derivatives.
    fn derivatives(&self, gradients: &Gradients, stream: &mut KeyedRng) -> Vec<Derivative> {
        let largest = |values: &[f32]| {
            values
                .iter()
                .fold(0.0, |max: f64, x| max.max(x.abs().into()))
        };
        let by_inputs = gradients.by_inputs.iter().map(|values| largest(values));
        let of_all = by_inputs.fold(largest(&gradients.by_params), f64::max);
        let mut all = Vec::new();
        let mut add = |tensor: String, values: &[f32], place: &dyn Fn(usize) -> Place| {
            let small = (SMALL_IN_TENSOR * largest(values)).max(SMALL_OF_ALL * of_all);
            let n = values.len();
            let picks = stream.sample_without_replacement(n as u64, n.min(MOST_DERIVATIVES));
            all.extend(picks.into_iter().map(|pick| {
                let i = pick as usize;
                Derivative {
                    name: format!("{tensor}[{i}]"),
                    tensor: tensor.clone(),
                    place: place(i),
                    value: values[i].into(),
                    small,
                    nothing: NOTHING * of_all,
                }
            }));
        };
        let mut first = 0;
        for id in self.params.trained_ids() {
            let (name, len) = (self.params.name(id), self.params.shape(id).len());
            let values = &gradients.by_params[first..first + len];
            add(name.to_string(), values, &|i| Place::Param(first + i));
            first += len;
        }
        for (input, values) in gradients.by_inputs.iter().enumerate() {
            add(format!("input {input}"), values, &|i| {
                Place::Input(input, i)
            });
        }
        all
    }
}

impl Moved<'_> {
    /// A sharp estimate that agrees settles it. Against a derivative speaks the most exact estimate
    /// of all steps, if it is sharp and a neighbour agrees with it: several kinks together can pass
    /// for a slope, but hardly over two steps.
    fn judge(&mut self, derivative: &Derivative) -> Result<Verdict, Error> {
        let x = self.at(derivative.place);
        // Longer ones for what may be nothing: where a method does not depend on x, it does not far
        // from it either.
        let n_longer = match derivative.value.abs() <= derivative.nothing {
            true => N_LONGER,
            false => 0,
        };
        let mut step = LONGEST_STEP * (1 << n_longer) as f32 * x.abs().max(1.0);
        let (mut pairs, mut estimates) = (Vec::new(), Vec::new());
        for _ in 0..n_longer + N_STEPS {
            pairs.push(self.pair(derivative.place, x, step)?);
            step *= 0.5;
            let [.., outer, inner, innermost] = pairs.as_slice() else {
                continue;
            };
            let estimate = Estimate::of([outer, inner, innermost]);
            if estimate.holds(derivative.value) && estimate.is_sharp(derivative) {
                return Ok(Verdict::Right);
            }
            estimates.push(estimate);
        }
        estimates.retain(Estimate::is_finite);
        let refuted: Vec<bool> = estimates
            .iter()
            .map(|estimate| estimate.refutes(derivative.value))
            .collect();
        let by_error =
            |(_, a): &(usize, Estimate), (_, b): &(usize, Estimate)| a.error.total_cmp(&b.error);
        let best = estimates.into_iter().enumerate().min_by(by_error);
        let is_refuted = |i: usize| refuted.get(i) == Some(&true);
        Ok(match best {
            Some((i, best))
                if best.is_sharp(derivative)
                    && is_refuted(i)
                    && (is_refuted(i + 1) || is_refuted(i.wrapping_sub(1))) =>
            {
                Verdict::Wrong(best)
            }
            Some((_, best)) if best.is_nothing(derivative) => Verdict::Right,
            _ => Verdict::Unclear,
        })
    }

    fn pair(&mut self, place: Place, x: f32, step: f32) -> Result<Pair, Error> {
        let (left, right) = (x - step, x + step);
        let (below, above) = (
            self.results_at(place, left)?,
            self.results_at(place, right)?,
        );
        self.set(place, x);
        let distance = f64::from(right) - f64::from(left); // what rounding has left of 2 steps
        let mut pair = Pair {
            step: 0.5 * distance,
            slope: 0.0,
            bend: 0.0,
            noise: 0.0,
            hidden: 0.0,
        };
        for (result, weights) in self.weights.iter().enumerate() {
            let lists = [&below, &self.middle, &above].map(|of| of[result].as_slice());
            pair.add(weights, lists);
        }
        pair.slope /= distance;
        Ok(pair)
    }

    fn results_at(&mut self, place: Place, x: f32) -> Result<Vec<Vec<f32>>, Error> {
        self.set(place, x);
        self.results()
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

    fn results(&mut self) -> Result<Vec<Vec<f32>>, Error> {
        let (device, mut comm) = (Device::host(), Comm::solo());
        let eager = Eager::new(&device, &mut comm, &self.params);
        let mut ctx = Frozen::new(eager, &mut self.constants);
        let inputs = add_inputs(&mut ctx, &self.inputs)?;
        let results = (self.case.method)(&mut ctx, &inputs)?;
        let values = results.iter().map(|&result| ctx.values(result));
        Ok(values.collect::<Result<_, _>>()?)
    }
}

impl Pair {
    /// Richardson's extrapolation of the slopes.
    fn extrapolated(outer: &Pair, inner: &Pair) -> f64 {
        (4.0 * inner.slope - outer.slope) / 3.0
    }

    /// Adds what one result gives to the weighted sum, in f64, so that only the method itself
    /// rounds to f32. The noise of an element is a rounding of the result's largest, because a
    /// small one can be the difference of large ones; those of several elements add as independent
    /// ones do. An element that does not move has none, but may hide what is less than its
    /// rounding.
    fn add(&mut self, weights: &Matrix, [below, middle, above]: [&[f32]; 3]) {
        let epsilon = f64::from(f32::EPSILON);
        let largest = middle
            .iter()
            .fold(0.0, |max: f64, x| max.max(x.abs().into()));
        for (i, weight) in weights.values.iter().enumerate() {
            let bits = [below[i], middle[i], above[i]].map(f32::to_bits);
            let weight = f64::from(*weight);
            let [below, middle, above] = [below[i], middle[i], above[i]].map(f64::from);
            if bits[0] == bits[1] && bits[1] == bits[2] {
                self.hidden += 0.5 * epsilon * (weight * middle).abs();
                continue;
            }
            self.slope += weight * (above - below);
            self.bend += weight * (above - 2.0 * middle + below);
            let magnitude = largest.max(above.abs()).max(below.abs());
            self.noise += (epsilon * weight * magnitude).powi(2);
        }
    }
}
