//! A plan: a schedule, what it costs, and what it is compared with.

use shardgraph_brkga::Generation;
use shardgraph_costgraph::{Bounds, DecoderKind, Objective, Outcome, Schedule};

use crate::method::Method;

/// A schedule, what it costs, and how far that is from what nothing can beat.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What was minimised.
    pub objective: Objective,
    /// How the plan was made.
    pub method: Method,
    /// How chromosomes became schedules; absent where there were none.
    pub decoder: Option<DecoderKind>,
    /// Where each op runs, and in which order everything happens.
    pub schedule: Schedule,
    /// What it costs.
    pub outcome: Outcome,
    /// What no schedule can beat.
    pub bounds: Bounds,
    /// Schedules that were evaluated.
    pub evaluations: u64,
    /// The best after each generation; empty where there were none.
    pub history: Vec<Generation>,
    /// What the clock said about making it; its verification is no part of that.
    pub seconds: f64,
    /// What it said about reading a policy's features, those of the short search aside, and drawing its proposals; none without a
    /// policy.
    pub proposal_seconds: Option<f64>,
    /// What the simple ways to make a plan reach; those of [`Method::BASELINES`] for [`Method::Portfolio`], else none.
    pub baselines: Vec<Baseline>,
}

/// A simple way to make a plan and what its plan costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// One of [`Method::BASELINES`].
    pub method: Method,
    /// What its plan costs.
    pub outcome: Outcome,
}

impl Plan {
    /// The runtime in ns or the peak in bytes, whichever was minimised.
    #[must_use]
    pub fn value(&self) -> u64 {
        value_of(&self.outcome, self.objective)
    }

    /// The lower bound on [`Plan::value`].
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.bounds.of(self.objective)
    }

    /// How far the value is above the bound, as a fraction of the bound: 0 where both are 0, none where the bound alone is 0.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        Some(ratio(self.value(), self.lower_bound())? - 1.0)
    }

    /// How many times as fast (or small) the plan is as everything on the best single device; none without that baseline, and where
    /// one of the two does not fit or is 0.
    #[must_use]
    pub fn speedup(&self) -> Option<f64> {
        let alone = self
            .baselines
            .iter()
            .find(|of| of.method == Method::OneDevice)?;
        if !self.fits() || alone.outcome.excess_bytes > 0 || self.value() == 0 {
            return None;
        }
        Some(value_of(&alone.outcome, self.objective) as f64 / self.value() as f64)
    }

    /// True when every device's memory suffices.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.outcome.excess_bytes == 0
    }
}

pub(crate) fn value_of(outcome: &Outcome, objective: Objective) -> u64 {
    match objective {
        Objective::Runtime => outcome.runtime_ns,
        Objective::Memory => outcome.peak_bytes,
    }
}

/// `value` / `of`, where 0 / 0 is 1 and everything else / 0 is nothing.
pub(crate) fn ratio(value: u64, of: u64) -> Option<f64> {
    match of {
        _ if value == of => Some(1.0),
        0 => None,
        _ => Some(value as f64 / of as f64),
    }
}

/// A schedule that is still to be verified.
pub(crate) struct Draft {
    pub(crate) schedule: Schedule,
    pub(crate) evaluations: u64,
    pub(crate) history: Vec<Generation>,
    /// As of [`Plan`].
    pub(crate) proposal_seconds: Option<f64>,
    pub(crate) baselines: Vec<Baseline>,
}
