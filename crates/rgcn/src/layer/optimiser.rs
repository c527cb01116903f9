//! Steps of SGD, Adagrad and Adam, for a run of parameters at a time: the input's gradient never exists
//! whole.

use crate::config::{Config, Optimiser};
use crate::memory::{Array, Memory, Purpose};

/// One step's rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    optimiser: Optimiser,
    /// The rate, corrected for Adam's start.
    rate: f32,
    /// This times the parameters is added to their gradient.
    decay: f32,
}

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Adam's running means, or Adagrad's sums of squares as the second; empty where a rule has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) first: Array<f32>,
    pub(crate) second: Array<f32>,
}

impl Moments {
    /// Of `n_params` parameters before the first step.
    pub(crate) fn new(
        memory: &Memory,
        purpose: Purpose,
        optimiser: Optimiser,
        n_params: usize,
    ) -> Moments {
        let (n_first, n_second) = match optimiser {
            Optimiser::Sgd => (0, 0),
            Optimiser::Adagrad => (0, n_params),
            Optimiser::Adam => (n_params, n_params),
        };
        Moments {
            first: memory.zeros(purpose, n_first),
            second: memory.zeros(purpose, n_second),
        }
    }

    /// Those of the parameters in a range.
    #[inline(always)]
    pub(crate) fn of(&mut self, range: std::ops::Range<usize>) -> MomentsMut<'_> {
        MomentsMut {
            first: part(&mut self.first, range.clone()),
            second: part(&mut self.second, range),
        }
    }

    /// The number of both means' numbers.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }
}

/// Numbers that an optimiser has for each parameter beside itself.
pub(crate) fn n_moments(optimiser: Optimiser) -> usize {
    match optimiser {
        Optimiser::Sgd => 0,
        Optimiser::Adagrad => 1,
        Optimiser::Adam => 2,
    }
}

/// A part of some means, unless they are empty.
#[inline(always)]
fn part(means: &mut [f32], range: std::ops::Range<usize>) -> &mut [f32] {
    match means.is_empty() {
        true => means,
        false => &mut means[range],
    }
}

/// The [`Moments`] of some parameters.
#[derive(Debug, Default)]
pub(crate) struct MomentsMut<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
}

impl Rule {
    /// The rule of step `step`, counted from 1.
    ///
    /// # Source
    /// Kingma and Ba, "Adam", end of section 2: the corrections of both means in the rate.
    pub(crate) fn new(config: &Config, step: u32) -> Rule {
        let powers = [BETA1, BETA2].map(|beta| power(f64::from(beta), step));
        Rule::of_powers(config, powers[0], powers[1])
    }

    /// The rules of the first `n_steps` steps, as [`Rule::new`] has them.
    ///
    /// # Complexity
    /// O(n_steps).
    pub(crate) fn first(config: &Config, n_steps: u32) -> Vec<Rule> {
        let (mut power1, mut power2) = (1.0, 1.0);
        let rules = (0..n_steps).map(|_| {
            power1 *= f64::from(BETA1);
            power2 *= f64::from(BETA2);
            Rule::of_powers(config, power1, power2)
        });
        rules.collect()
    }

    /// The rule for the powers of Adam's two factors.
    fn of_powers(config: &Config, power1: f64, power2: f64) -> Rule {
        let rate = match config.optimiser {
            Optimiser::Sgd | Optimiser::Adagrad => config.rate,
            Optimiser::Adam => {
                (f64::from(config.rate) * (1.0 - power2).sqrt() / (1.0 - power1)) as f32
            }
        };
        Rule {
            optimiser: config.optimiser,
            rate,
            decay: 0.0,
        }
    }

    /// The same step with weight decay.
    pub(crate) fn with_decay(self, decay: f32) -> Rule {
        Rule { decay, ..self }
    }

    /// True if parameters without a gradient stay as they are.
    pub(crate) fn keeps_unused(self) -> bool {
        self.decay.to_bits() == 0 && self.optimiser != Optimiser::Adam
    }

    /// Moves parameters against their gradient, to which the decay times the parameters is added.
    #[inline(always)]
    pub(crate) fn step(self, params: &mut [f32], gradient: &[f32], moments: MomentsMut<'_>) {
        let decay = self.decay;
        match self.optimiser {
            Optimiser::Sgd => {
                for (param, &gradient) in params.iter_mut().zip(gradient) {
                    *param -= self.rate * (gradient + decay * *param);
                }
            }
            // Duchi et al., "Adaptive subgradient methods", section 1.3.
            Optimiser::Adagrad => {
                let params = params.iter_mut().zip(gradient).zip(moments.second);
                for ((param, &gradient), sum) in params {
                    let gradient = gradient + decay * *param;
                    *sum += gradient * gradient;
                    *param -= self.rate * gradient / (sum.sqrt() + EPSILON);
                }
            }
            Optimiser::Adam => {
                let moments = moments.first.iter_mut().zip(moments.second);
                for ((param, &gradient), (m, v)) in params.iter_mut().zip(gradient).zip(moments) {
                    let gradient = gradient + decay * *param;
                    *m = BETA1 * *m + (1.0 - BETA1) * gradient;
                    *v = BETA2 * *v + (1.0 - BETA2) * gradient * gradient;
                    *param -= self.rate * *m / (v.sqrt() + EPSILON);
                }
            }
        }
    }
}

/// The epsilon of Adam's algorithm 1, whose means are corrected, that gives the steps of [`Rule`]:
/// [`EPSILON`] over the root of the second mean's correction.
pub(crate) fn corrected_epsilon(step: u32) -> f32 {
    (f64::from(EPSILON) / (1.0 - power(f64::from(BETA2), step)).sqrt()) as f32
}

/// By repeated multiplication: the same bits on every machine.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(n_params: usize) -> Moments {
        let memory = Memory::default();
        Moments::new(&memory, Purpose::Optimiser, Optimiser::Adam, n_params)
    }

    #[test]
    fn adam_takes_steps_of_about_the_rate_at_first() {
        let config = Config {
            rate: 0.01,
            ..Config::default()
        };
        let mut params = [1.0, -2.0, 3.0];
        let mut moments = moments(3);
        Rule::new(&config, 1).step(&mut params, &[0.3, -40.0, 0.0], moments.of(0..3));
        for (param, expected) in params.iter().zip([0.99, -1.99, 3.0]) {
            assert!((param - expected).abs() < 1e-5, "{param} {expected}");
        }
    }

    #[test]
    fn rules_of_many_steps_are_those_of_each() {
        let config = Config::default();
        for (rule, step) in Rule::first(&config, 60).into_iter().zip(1..) {
            assert_eq!(rule.rate.to_bits(), Rule::new(&config, step).rate.to_bits());
        }
    }

    /// Two steps worked out from the paper's formulas in f64, corrected means and all.
    #[test]
    fn two_steps_of_adam_are_those_of_the_paper() {
        let config = Config::default();
        let (mut param, mut moments) = ([0.5], moments(1));
        let (mut x, mut m, mut v) = (0.5f64, 0.0f64, 0.0f64);
        for (step, gradient) in [(1u32, 0.2f64), (2, -0.7)] {
            let rule = Rule::new(&config, step);
            rule.step(&mut param, &[gradient as f32], moments.of(0..1));
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            let (m, v) = (
                m / (1.0 - 0.9f64.powi(step as i32)),
                v / (1.0 - 0.999f64.powi(step as i32)),
            );
            x -= 0.01 * m / v.sqrt();
        }
        assert!((f64::from(param[0]) - x).abs() < 1e-6, "{param:?} {x}");
    }

    #[test]
    fn sgd_decays() {
        let config = Config {
            rate: 0.5,
            optimiser: Optimiser::Sgd,
            ..Config::default()
        };
        let mut params = [2.0];
        let rule = Rule::new(&config, 9).with_decay(0.1);
        rule.step(&mut params, &[1.0], MomentsMut::default());
        assert!((params[0] - (2.0 - 0.5 * 1.2)).abs() < 1e-6);
    }
}
