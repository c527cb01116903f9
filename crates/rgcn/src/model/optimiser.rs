//! How a gradient becomes a step, for a run of parameters at a time, so that the gradient of the input layer never exists whole.

use crate::config::{Config, Optimiser};

/// One step's rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    optimiser: Optimiser,
    /// The rate, corrected for Adam's start.
    rate: f32,
}

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Adam's running means; empty for SGD.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
}

impl Moments {
    /// Of `n_params` parameters before the first step.
    pub(crate) fn new(optimiser: Optimiser, n_params: usize) -> Moments {
        let n = match optimiser {
            Optimiser::Sgd => 0,
            Optimiser::Adam => n_params,
        };
        Moments {
            first: vec![0.0; n],
            second: vec![0.0; n],
        }
    }

    /// Those of the parameters in a range.
    #[inline(always)]
    pub(crate) fn of(&mut self, range: std::ops::Range<usize>) -> (&mut [f32], &mut [f32]) {
        match self.first.is_empty() {
            true => (&mut [], &mut []),
            false => (&mut self.first[range.clone()], &mut self.second[range]),
        }
    }
}

impl Rule {
    /// The rule of step `step`, counted from 1.
    ///
    /// # Source
    /// Kingma and Ba, "Adam", end of section 2: the corrections of both means in the rate.
    pub(crate) fn new(config: &Config, step: u32) -> Rule {
        let rate = match config.optimiser {
            Optimiser::Sgd => config.rate,
            Optimiser::Adam => {
                let left = |beta: f32| 1.0 - power(f64::from(beta), step);
                (f64::from(config.rate) * left(BETA2).sqrt() / left(BETA1)) as f32
            }
        };
        Rule {
            optimiser: config.optimiser,
            rate,
        }
    }

    /// Moves parameters against their gradient, to which `decay` times the parameters is added.
    #[inline(always)]
    pub(crate) fn step(
        self,
        params: &mut [f32],
        gradient: &[f32],
        decay: f32,
        (first, second): (&mut [f32], &mut [f32]),
    ) {
        match self.optimiser {
            Optimiser::Sgd => {
                for (param, &gradient) in params.iter_mut().zip(gradient) {
                    *param -= self.rate * (gradient + decay * *param);
                }
            }
            Optimiser::Adam => {
                let moments = first.iter_mut().zip(second);
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

/// By repeated multiplication: the same bits on every machine.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adam_takes_steps_of_about_the_rate_at_first() {
        let config = Config {
            rate: 0.01,
            ..Config::default()
        };
        let mut params = [1.0, -2.0, 3.0];
        let mut moments = Moments::new(Optimiser::Adam, 3);
        Rule::new(&config, 1).step(&mut params, &[0.3, -40.0, 0.0], 0.0, moments.of(0..3));
        for (param, expected) in params.iter().zip([0.99, -1.99, 3.0]) {
            assert!((param - expected).abs() < 1e-5, "{param} {expected}");
        }
    }

    #[test]
    fn sgd_decays() {
        let config = Config {
            rate: 0.5,
            optimiser: Optimiser::Sgd,
            ..Config::default()
        };
        let mut params = [2.0];
        Rule::new(&config, 9).step(&mut params, &[1.0], 0.1, (&mut [], &mut []));
        assert!((params[0] - (2.0 - 0.5 * 1.2)).abs() < 1e-6);
    }
}
