//! [`DualBound`]: a lower bound of set cover by Lagrangian relaxation, with reduced costs.

use crate::budget::Stopwatch;
use crate::dominating_set::rows::SetCover;

/// What rounding may add to a sum of multipliers.
const ROUNDING: f64 = 1e-6;
/// Iterations without a better bound after which the steps get half as long.
const PATIENCE: u32 = 15;
/// The steps are too short to help below this.
const LEAST_STEP: f64 = 0.005;

/// Multipliers of the elements and the bound that they prove.
///
/// The relaxation pays `u[e]` for each element; a set of negative reduced cost `1 - sum of u over its elements` is taken. The sum of all
/// multipliers and negative costs bounds every cover, for any multipliers from 0 on.
///
/// # Source
/// Beasley (1990), "A Lagrangian heuristic for set-covering problems"; subgradient steps of Held, Wolfe and Crowder (1974).
#[derive(Clone, Debug)]
pub(crate) struct DualBound {
    pub(crate) multipliers: Vec<f64>,
    /// Reduced cost of each set.
    pub(crate) costs: Vec<f64>,
    pub(crate) bound: f64,
    /// Subgradient steps that were made.
    pub(crate) n_steps: u32,
}

impl DualBound {
    /// The bound of each element paying its share of its largest set: sets cost 0 or more.
    pub(crate) fn shares(instance: &SetCover) -> DualBound {
        let share = |e: usize| {
            let sizes = instance.elements.row(e).iter();
            let largest = sizes.map(|&s| instance.sets.row(s as usize).len()).max();
            largest.map_or(0.0, |size| 1.0 / size as f64)
        };
        DualBound::of(instance, (0..instance.n_elements()).map(share).collect())
    }

    /// The bound of these multipliers.
    ///
    /// # Complexity
    /// O(entries)
    pub(crate) fn of(instance: &SetCover, multipliers: Vec<f64>) -> DualBound {
        let cost = |s: usize| {
            let row = instance.sets.row(s).iter();
            1.0 - row.map(|&e| multipliers[e as usize]).sum::<f64>()
        };
        let costs: Vec<f64> = (0..instance.n_sets()).map(cost).collect();
        let negative: f64 = costs.iter().map(|cost| cost.min(0.0)).sum();
        DualBound {
            bound: multipliers.iter().sum::<f64>() + negative,
            multipliers,
            costs,
            n_steps: 0,
        }
    }

    /// The least whole number of sets that the bound allows.
    pub(crate) fn least(&self) -> usize {
        (self.bound - ROUNDING).ceil().max(0.0) as usize
    }

    /// The best of so many subgradient steps towards `upper` sets; ends once no cover of fewer than `upper` sets is left.
    ///
    /// # Complexity
    /// O(entries) a step.
    pub(crate) fn improved(
        self,
        instance: &SetCover,
        upper: usize,
        n_steps: u32,
        stopwatch: &Stopwatch<'_>,
    ) -> DualBound {
        let mut best = self;
        let mut at = best.clone();
        let (mut step, mut n_idle) = (1.0, 0);
        let mut n_made = 0;
        while n_made < n_steps {
            if best.least() >= upper || step < LEAST_STEP || stopwatch.is_late() {
                break;
            }
            let slack = |e: usize| {
                let sets = instance.elements.row(e).iter();
                1.0 - sets.filter(|&&s| at.costs[s as usize] < 0.0).count() as f64
            };
            let slacks: Vec<f64> = (0..instance.n_elements()).map(slack).collect();
            // A multiplier at 0 cannot fall.
            let moves = |e: usize| at.multipliers[e] > 0.0 || slacks[e] > 0.0;
            let norm: f64 = (0..slacks.len())
                .filter(|&e| moves(e))
                .map(|e| slacks[e] * slacks[e])
                .sum();
            if norm == 0.0 {
                break;
            }
            let length = step * (upper as f64 - at.bound).max(0.5) / norm;
            let pairs = at.multipliers.iter().zip(&slacks);
            let moved = pairs.map(|(u, slack)| (u + length * slack).max(0.0));
            at = DualBound::of(instance, moved.collect());
            n_made += 1;
            n_idle += 1;
            if at.bound > best.bound {
                if at.bound > best.bound + 1e-3 {
                    n_idle = 0;
                }
                best.clone_from(&at);
            } else if n_idle > PATIENCE {
                (step, n_idle) = (step / 2.0, 0);
                at.clone_from(&best);
            }
        }
        best.n_steps = n_made;
        best
    }

    /// Sets that every cover of fewer than `upper` sets has, and sets that none of them has.
    pub(crate) fn settled(&self, upper: usize) -> (Vec<u32>, Vec<u32>) {
        let most = upper as f64 - 1.0 + ROUNDING;
        let sets = || (0u32..).zip(&self.costs);
        let included = sets().filter(|(_, cost)| **cost < 0.0 && self.bound - **cost > most);
        let excluded = sets().filter(|(_, cost)| **cost > 0.0 && self.bound + **cost > most);
        let ids = |(s, _): (u32, &f64)| s;
        (included.map(ids).collect(), excluded.map(ids).collect())
    }
}
