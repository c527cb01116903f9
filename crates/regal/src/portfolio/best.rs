//! The best plan of a portfolio so far, and what was spent on it.

use shardgraph_brkga::Generation;
use shardgraph_costgraph::{Objective, Problem, Schedule, lower_bounds};

use crate::options::PlaceOptions;
use crate::prefixes::Stage;

/// What is minimised first, then second.
pub(super) type Fitness = (u64, u64);

/// The best plan so far and what was spent on it.
pub(super) struct Best {
    pub(super) fitness: Fitness,
    pub(super) schedule: Schedule,
    pub(super) n_done: u64,
    pub(super) budget: u64,
    pub(super) bound: u64,
    pub(super) objective: Objective,
    pub(super) history: Vec<Generation>,
    pub(super) proposal_seconds: Option<f64>,
}

impl Best {
    pub(super) fn new(
        problem: &Problem<'_>,
        options: &PlaceOptions,
        stage: Option<&Stage>,
    ) -> Best {
        Best {
            fitness: (u64::MAX, u64::MAX),
            schedule: Schedule::default(),
            n_done: 0,
            budget: stage.map_or(options.evaluations, |stage| stage.evaluations),
            bound: lower_bounds(problem).of(options.objective),
            objective: options.objective,
            history: Vec::new(),
            proposal_seconds: None,
        }
    }

    pub(super) fn offer(&mut self, fitness: Fitness, schedule: impl FnOnce() -> Schedule) -> bool {
        let is_better = fitness < self.fitness;
        if is_better {
            self.fitness = fitness;
            self.schedule = schedule();
        }
        is_better
    }

    pub(super) fn is_at_bound(&self) -> bool {
        is_at(self.fitness, self.bound, self.objective)
    }

    pub(super) fn left(&self) -> u64 {
        self.budget - self.n_done
    }
}

/// True where nothing is better.
pub(super) fn is_at(fitness: Fitness, bound: u64, objective: Objective) -> bool {
    match objective {
        Objective::Runtime => fitness <= (0, bound),
        Objective::Memory => fitness.0 <= bound,
    }
}
