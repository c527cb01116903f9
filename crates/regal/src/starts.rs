//! Schedules that are made without a search: baselines, and what searches start from.

use shardgraph_costgraph::baseline::{self, OpOrder};
use shardgraph_costgraph::{Problem, Schedule};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::watch::Search;

/// A schedule that is made without a search.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    UpwardRank,
    Heft,
    Multilevel,
    OneDevice(usize, OpOrder),
    Partition(OpOrder),
    Greedy,
}

impl Start {
    /// What is made for memory.
    pub(crate) const MEMORY: [Start; 4] = [
        Start::Partition(OpOrder::List),
        Start::Partition(OpOrder::DepthFirst),
        Start::Partition(OpOrder::PostOrder),
        Start::Greedy,
    ];

    pub(crate) fn schedule(
        self,
        problem: &Problem<'_>,
        seed: u64,
        search: &mut Search<'_, '_>,
    ) -> Schedule {
        match self {
            Start::UpwardRank => baseline::upward_rank(problem),
            Start::Heft => baseline::heft(problem),
            Start::Multilevel => baseline::multilevel(problem, seed),
            Start::OneDevice(device, order) => baseline::one_device(problem, device, order),
            Start::Partition(order) => {
                baseline::ordered(problem, &baseline::partition(problem), order)
            }
            Start::Greedy => {
                let mut go_on = || !search.is_late();
                baseline::greedy_memory(problem, seed, 0.0, &mut go_on)
            }
        }
    }

    /// The list schedule over a placement.
    pub(crate) fn on(problem: &Problem<'_>, placement: &[u8]) -> Schedule {
        baseline::placed_list(problem, placement)
    }
}

/// The schedules among which a method of [`Method::BASELINES`] takes the best.
pub(crate) fn starts_of(method: Method, problem: &Problem<'_>) -> Vec<Start> {
    match method {
        Method::OneDevice => {
            let n = match problem.has_interchangeable_devices() {
                true => 1,
                false => problem.n_devices(),
            };
            let orders: &[OpOrder] = match problem.memory_matters() {
                true => &OpOrder::ALL,
                false => &[OpOrder::Topological],
            };
            let on = |device| {
                orders
                    .iter()
                    .map(move |&order| Start::OneDevice(device, order))
            };
            (0..n).flat_map(on).collect()
        }
        Method::Heft => vec![Start::Heft],
        Method::List => vec![Start::UpwardRank],
        _ => vec![Start::Multilevel],
    }
}

/// What a seeded search starts from, each made in about the time of an evaluation.
pub(crate) fn cheap_starts(problem: &Problem<'_>) -> &'static [Start] {
    const STARTS: [Start; 5] = {
        let [a, b, c, d] = Start::MEMORY;
        [Start::UpwardRank, a, b, c, d]
    };
    if problem.memory_matters() {
        &STARTS
    } else {
        &STARTS[..1]
    }
}

/// A schedule behind its fitness.
pub(crate) type Evaluated = ((u64, u64), Schedule);

/// The starts' schedules and their fitness, as many as budget and deadline allow; the deadline leaves at least one.
pub(crate) fn evaluated(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: &[Start],
    search: &mut Search<'_, '_>,
) -> Result<Vec<Evaluated>, Error> {
    let mut schedules = Vec::new();
    for start in starts {
        let n_made = schedules.len() as u64;
        if n_made == options.evaluations || (n_made > 0 && search.is_late()) {
            break;
        }
        let schedule = start.schedule(problem, options.seed, search);
        let outcome = schedule.simulate(problem)?.outcome;
        schedules.push((outcome.fitness(options.objective), schedule));
    }
    Ok(schedules)
}
