//! [`Stages`]: the answer and the bound of one `solve`, from stage to stage.

use shardgraph_random::KeyedRng;

use crate::budget::{Budget, Stopwatch};
use crate::dominating_set::dual::DualBound;
use crate::dominating_set::exact::BranchAndBound;
use crate::dominating_set::greedy::greedy;
use crate::dominating_set::local_search::LocalSearch;
use crate::dominating_set::reduction::{Decisions, Reduction};
use crate::dominating_set::rows::SetCover;
use crate::error::Error;
use crate::searches::{StageLog, run_searches};
use crate::solution::{Options, Solution};

/// Steps of each local search where neither steps nor a time limit are given.
const DEFAULT_STEPS: u64 = 100_000;
/// Entries that the subgradient steps of the bound may read in all.
const DUAL_ENTRIES: usize = 20_000_000;
const DUAL_STEPS: usize = 400;
/// Entries that the exact search reads before the local search, and after it where steps limit the work.
const FIRST_ENTRIES: u64 = 15_000_000;
const LAST_ENTRIES: u64 = 200_000_000;
/// Parts of the time limit for the first proof and for the local search.
const FIRST_PART: f64 = 0.2;
const LOCAL_PART: f64 = 0.6;

/// The state of one `solve`.
pub(crate) struct Stages<'a> {
    options: &'a Options<'a>,
    stopwatch: Stopwatch<'a>,
    reduction: Reduction,
    /// Sets of the kernel, and the whole answer; the answer is no worse.
    kernel_best: Vec<u32>,
    best: Vec<u32>,
    dual: DualBound,
    bound: usize,
    log: StageLog,
}

impl<'a> Stages<'a> {
    pub(crate) fn begin(
        cover: &SetCover,
        options: &'a Options<'a>,
        stopwatch: Stopwatch<'a>,
    ) -> Stages<'a> {
        let reduction = Reduction::new(cover, Decisions::default(), &stopwatch);
        let kernel_best = greedy(&reduction.kernel, &[]);
        let dual = DualBound::shares(&reduction.kernel);
        let mut stages = Stages {
            options,
            stopwatch,
            best: reduction.lift(&kernel_best),
            bound: reduction.chosen.len() + dual.least(),
            reduction,
            kernel_best,
            dual,
            log: StageLog::new(),
        };
        stages.end("reductions");
        stages
    }

    pub(crate) fn end(&mut self, name: &'static str) {
        self.log.end(name, self.best.len() as f64, &self.stopwatch);
    }

    /// Whether the answer is proved, or the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.best.len() <= self.bound || self.stopwatch.is_late()
    }

    /// Takes a dominating set of the caller's: what the kernel has of it, completed, and the set itself.
    pub(crate) fn start(&mut self, is_listed: &[bool]) {
        let sets = (0u32..).zip(&self.reduction.sets);
        let given: Vec<u32> = sets
            .filter(|(_, v)| is_listed[**v as usize])
            .map(|(s, _)| s)
            .collect();
        let sets = greedy(&self.reduction.kernel, &given);
        self.take(sets);
        let nodes = crate::searches::listed(is_listed);
        if nodes.len() < self.best.len() {
            self.best = nodes;
        }
    }

    fn take(&mut self, sets: Vec<u32>) {
        if sets.len() < self.kernel_best.len() {
            self.kernel_best = sets;
        }
        let size = self.reduction.chosen.len() + self.kernel_best.len();
        if size < self.best.len() {
            self.best = self.reduction.lift(&self.kernel_best);
        }
    }

    /// The dual bound, and a first exact search.
    pub(crate) fn prove(&mut self) {
        let kernel = &self.reduction.kernel;
        let n_steps = (DUAL_ENTRIES / kernel.n_entries().max(1)).min(DUAL_STEPS);
        let dual = self.dual.clone();
        let upper = self.kernel_best.len();
        self.dual = dual.improved(kernel, upper, n_steps as u32, &self.stopwatch);
        self.bound = self
            .bound
            .max(self.reduction.chosen.len() + self.dual.least());
        if kernel.n_entries() * DUAL_STEPS <= DUAL_ENTRIES {
            self.branch(FIRST_ENTRIES, Some(FIRST_PART));
        }
    }

    /// Exact search for a smaller answer; it is an optimum if this ends before its limits.
    fn branch(&mut self, entries: u64, part: Option<f64>) {
        if self.is_over() {
            return;
        }
        let mut search = BranchAndBound {
            entries_left: entries,
            stopwatch: self.part_of_rest(part.unwrap_or(1.0)),
            is_over: false,
        };
        let upper = self.best.len() - self.reduction.chosen.len();
        let found = search.smallest(&self.reduction.kernel, upper, &self.dual.multipliers, 0);
        if let Some(sets) = found {
            self.take(sets);
        }
        if !search.is_over {
            self.bound = self.best.len();
        }
    }

    /// Independent local searches, then exact search with what is left of the budget.
    pub(crate) fn search(&mut self) -> Result<(), Error> {
        let is_timed = self.stopwatch.rest().time_limit.is_some();
        let default_steps = if is_timed { u64::MAX } else { DEFAULT_STEPS };
        let steps = self.options.steps.unwrap_or(default_steps);
        let stopwatch = self.part_of_rest(LOCAL_PART);
        let target = self.bound - self.reduction.chosen.len();
        let (kernel, start) = (&self.reduction.kernel, &self.kernel_best);
        let found = run_searches(self.options.threads, |index| {
            let random = KeyedRng::new(self.options.seed, "dominating-set-search", index);
            LocalSearch::new(kernel, start, random).run(target, steps, &stopwatch)
        })?;
        for sets in found {
            self.take(sets);
        }
        let is_counted = self.options.steps.is_some() || !is_timed;
        self.branch(if is_counted { LAST_ENTRIES } else { u64::MAX }, None);
        Ok(())
    }

    /// A part of the time that is left.
    fn part_of_rest(&self, part: f64) -> Stopwatch<'a> {
        let rest = self.stopwatch.rest();
        Stopwatch::begin(&Budget {
            time_limit: rest.time_limit.map(|limit| limit * part),
            ..rest
        })
    }

    pub(crate) fn finish(mut self) -> Solution {
        self.best.sort_unstable();
        Solution {
            objective: self.best.len() as f64,
            bound: Some(self.bound as f64),
            is_optimal: self.best.len() <= self.bound,
            nodes: self.best,
            stages: self.log.finish(),
        }
    }
}
