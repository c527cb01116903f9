//! [`BranchAndBound`]: a smallest set cover by rules, components, the dual bound and branching.

use crate::budget::Stopwatch;
use crate::dominating_set::components::components;
use crate::dominating_set::dual::DualBound;
use crate::dominating_set::greedy::greedy;
use crate::dominating_set::reduction::{Decisions, Reduction};
use crate::dominating_set::rows::SetCover;

/// Subgradient steps at each branch.
const DUAL_STEPS: u32 = 200;
/// Deepest branch; beyond it the search is over.
const MAX_DEPTH: usize = 500;

/// The search and how much of it is left.
///
/// # Source
/// Beasley (1987), "An algorithm for set covering problem": Lagrangian bounds, reduced-cost tests and branching.
pub(crate) struct BranchAndBound<'a> {
    /// Entries of sets that may still be read.
    pub(crate) entries_left: u64,
    pub(crate) stopwatch: Stopwatch<'a>,
    /// Whether it ended before its proof.
    pub(crate) is_over: bool,
}

impl BranchAndBound<'_> {
    /// A smallest cover, where it has fewer than `upper` sets. `None` proves that there is none, unless the search is over.
    pub(crate) fn smallest(
        &mut self,
        cover: &SetCover,
        upper: usize,
        multipliers: &[f64],
        depth: usize,
    ) -> Option<Vec<u32>> {
        self.branch(
            cover,
            Decisions::default(),
            upper,
            &Warm { multipliers, depth },
        )
    }

    fn spend(&mut self, entries: usize) {
        self.entries_left = self.entries_left.saturating_sub(entries as u64 + 1);
    }

    fn branch(
        &mut self,
        cover: &SetCover,
        decisions: Decisions<'_>,
        upper: usize,
        warm: &Warm<'_>,
    ) -> Option<Vec<u32>> {
        self.is_over |=
            self.entries_left == 0 || warm.depth > MAX_DEPTH || self.stopwatch.is_late();
        if self.is_over {
            return None;
        }
        self.spend(cover.n_entries());
        let reduction = Reduction::new(cover, decisions, &self.stopwatch);
        let kernel = &reduction.kernel;
        if !reduction.is_feasible || reduction.chosen.len() >= upper {
            return None;
        }
        let upper = upper - reduction.chosen.len();
        let multipliers: Vec<f64> = (reduction.elements.iter())
            .map(|&e| warm.multipliers[e as usize])
            .collect();
        let warm = Warm {
            multipliers: &multipliers,
            depth: warm.depth + 1,
        };
        let found = match kernel.n_elements() {
            0 => Some(Vec::new()),
            _ => self.kernel(kernel, upper, &warm),
        };
        found.map(|sets| reduction.lift(&sets))
    }

    /// A smallest cover of fewer than `upper` sets of what the rules leave.
    fn kernel(&mut self, kernel: &SetCover, upper: usize, warm: &Warm<'_>) -> Option<Vec<u32>> {
        let parts = components(kernel);
        if parts.len() == 1 {
            return self.connected(kernel, upper, warm);
        }
        let duals: Vec<DualBound> = parts
            .iter()
            .map(|part| {
                let multipliers = part.elements.iter().map(|&e| warm.multipliers[e as usize]);
                DualBound::of(&part.cover, multipliers.collect())
            })
            .collect();
        let mut least: usize = duals.iter().map(|dual| dual.least().max(1)).sum();
        let mut chosen = Vec::new();
        for (part, dual) in parts.iter().zip(&duals) {
            let others = least - dual.least().max(1);
            if others >= upper {
                return None;
            }
            let warm = Warm {
                multipliers: &dual.multipliers,
                ..*warm
            };
            let sets = self.connected(&part.cover, upper - others, &warm)?;
            least = others + sets.len();
            chosen.extend(sets.iter().map(|&s| part.sets[s as usize]));
        }
        Some(chosen)
    }

    fn connected(&mut self, cover: &SetCover, upper: usize, warm: &Warm<'_>) -> Option<Vec<u32>> {
        let start = DualBound::of(cover, warm.multipliers.to_vec());
        let shares = DualBound::shares(cover);
        let start = if shares.bound > start.bound {
            shares
        } else {
            start
        };
        let mut best = Some(greedy(cover, &[])).filter(|sets| sets.len() < upper);
        let upper = best.as_ref().map_or(upper, Vec::len);
        let dual = start.improved(cover, upper, DUAL_STEPS, &self.stopwatch);
        self.spend(cover.n_entries() * dual.n_steps as usize);
        if dual.least() >= upper {
            return best;
        }
        let warm = Warm {
            multipliers: &dual.multipliers,
            depth: warm.depth,
        };
        let (included, excluded) = dual.settled(upper);
        if !included.is_empty() || !excluded.is_empty() {
            let settled = Decisions {
                included: &included,
                excluded: &excluded,
            };
            let found = self.branch(cover, settled, upper, &warm);
            return found.or(best);
        }
        let s = [branching_set(cover, &dual)];
        let with = Decisions {
            included: &s,
            excluded: &[],
        };
        let found = self.branch(cover, with, upper, &warm);
        best = found.or(best);
        let upper = best.as_ref().map_or(upper, Vec::len);
        let without = Decisions {
            included: &[],
            excluded: &s,
        };
        self.branch(cover, without, upper, &warm).or(best)
    }
}

/// What a branch takes over from the one above it.
struct Warm<'a> {
    multipliers: &'a [f64],
    depth: usize,
}

/// The set whose reduced cost is nearest to 0, the largest of nearly equal ones.
fn branching_set(cover: &SetCover, dual: &DualBound) -> u32 {
    let sets = 0..cover.n_sets();
    let size = |s: usize| cover.sets.row(s).len() as f64;
    let doubt = |s: usize| dual.costs[s].abs() - 0.01 * size(s);
    let best = sets.min_by(|&a, &b| doubt(a).total_cmp(&doubt(b)));
    best.unwrap_or(0) as u32
}
