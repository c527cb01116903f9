//! Schedules of exploration.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::Call;

/// The probability of a random action, by the number of steps taken.
///
/// ```
/// use shardgraph_components::EpsilonSchedule;
///
/// let schedule = EpsilonSchedule::Linear { start: 1.0, end: 0.25, n_steps: 100 };
/// assert_eq!([0, 50, 100, 900].map(|step| schedule.at(step)), [1.0, 0.625, 0.25, 0.25]);
/// let explorers = [0, 3, 7].map(|actor| EpsilonSchedule::of_actor(0.4, 7.0, actor, 8).unwrap().at(0));
/// assert!(explorers[0] == 0.4 && explorers[1] > explorers[2]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EpsilonSchedule {
    /// Always the same.
    Constant {
        /// The probability.
        epsilon: f32,
    },
    /// By equal differences from `start` to `end`, which it keeps.
    Linear {
        /// At step 0.
        start: f32,
        /// From step `n_steps` on.
        end: f32,
        /// The number of steps until then.
        n_steps: u64,
    },
    /// By equal factors from `start` to `end`, which it keeps.
    Exponential {
        /// At step 0; above 0.
        start: f32,
        /// From step `n_steps` on; above 0.
        end: f32,
        /// The number of steps until then.
        n_steps: u64,
    },
}

impl EpsilonSchedule {
    /// Ape-X's constant for each of `n_actors` actors: `epsilon^(1 + alpha * actor / (n_actors -
    /// 1))`; `epsilon` for one alone.
    ///
    /// # Errors
    /// When `epsilon` is no probability, `alpha` is negative or there is no such actor.
    /// # Source
    /// Horgan et al., "Distributed prioritized experience replay" (2018), section 4.1, with epsilon
    /// 0.4 and alpha 7.
    pub fn of_actor(
        epsilon: f32,
        alpha: f32,
        actor: u32,
        n_actors: u32,
    ) -> Result<EpsilonSchedule, Error> {
        let call = Call::new("epsilon", "EpsilonSchedule::of_actor");
        if actor >= n_actors {
            let expected = format!("one below {n_actors}");
            return Err(call.mismatch("the actor", expected, actor.to_string()));
        }
        if !(alpha.is_finite() && alpha >= 0.0) {
            return Err(call.mismatch("alpha", "a number from 0 on", alpha.to_string()));
        }
        expect_probability(call, "epsilon", epsilon, false)?;
        let place = f64::from(actor) / f64::from((n_actors - 1).max(1));
        let epsilon = libm::pow(f64::from(epsilon), 1.0 + f64::from(alpha) * place) as f32;
        Ok(EpsilonSchedule::Constant { epsilon })
    }

    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When a probability is outside 0 to 1, or an exponential one is 0.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("epsilon", "EpsilonSchedule::check");
        match *self {
            EpsilonSchedule::Constant { epsilon } => {
                expect_probability(call, "epsilon", epsilon, false)
            }
            EpsilonSchedule::Linear { start, end, .. } => {
                expect_probability(call, "start", start, false)?;
                expect_probability(call, "end", end, false)
            }
            EpsilonSchedule::Exponential { start, end, .. } => {
                expect_probability(call, "start", start, true)?;
                expect_probability(call, "end", end, true)
            }
        }
    }

    /// The probability at a step.
    ///
    /// # Determinism
    /// The same bits on every machine.
    pub fn at(&self, step: u64) -> f32 {
        let part = |n_steps: u64| step.min(n_steps) as f64 / n_steps as f64;
        match *self {
            EpsilonSchedule::Constant { epsilon } => epsilon,
            EpsilonSchedule::Linear { end, n_steps, .. }
            | EpsilonSchedule::Exponential { end, n_steps, .. }
                if step >= n_steps =>
            {
                end
            }
            EpsilonSchedule::Linear {
                start,
                end,
                n_steps,
            } => (f64::from(start) + (f64::from(end) - f64::from(start)) * part(n_steps)) as f32,
            EpsilonSchedule::Exponential {
                start,
                end,
                n_steps,
            } => {
                let ratio = f64::from(end) / f64::from(start);
                (f64::from(start) * libm::pow(ratio, part(n_steps))) as f32
            }
        }
    }
}

fn expect_probability(call: Call<'_>, what: &str, p: f32, is_positive: bool) -> Result<(), Error> {
    if (0.0..=1.0).contains(&p) && !(is_positive && p <= 0.0) {
        return Ok(());
    }
    let expected = match is_positive {
        true => "a probability above 0",
        false => "a probability",
    };
    Err(call.mismatch(what, expected, p.to_string()))
}
