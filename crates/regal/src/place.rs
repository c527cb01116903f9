//! The job: a graph, devices and options in, a verified plan out.

use shardgraph_brkga::Generation;
use shardgraph_costgraph::baseline::{self, OpOrder};
use shardgraph_costgraph::{
    Bounds, Contraction, Decoder, DecoderKind, DeviceSet, Graph, Objective, Outcome, Problem,
    Schedule, Simulation, lower_bounds,
};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::search::search;

/// Noise of the noisy greedy: by how much a pair's need may be overrated.
const GREEDY_NOISE: f64 = 0.2;

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

    /// How far the value is above the bound, as a fraction of the bound; 0 where both are 0.
    #[must_use]
    pub fn gap(&self) -> f64 {
        ratio(self.value(), self.lower_bound()) - 1.0
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

/// `value` / `of`, where 0 / 0 is 1.
pub(crate) fn ratio(value: u64, of: u64) -> f64 {
    if value == of {
        return 1.0;
    }
    value as f64 / of as f64
}

/// Makes a plan and has an independent replay check it.
///
/// Where no plan within the devices' memories is found, the one that exceeds them least is returned; [`Plan::fits`] says so.
///
/// # Errors
/// `Options` for options out of range, `Graph` when graph and devices do not fit together, `Genetic` for the genetic algorithm's
/// numbers.
///
/// # Determinism
/// The same options give the same plan on every machine, for any number of threads.
pub fn place(graph: &Graph, devices: &DeviceSet, options: &PlaceOptions) -> Result<Plan, Error> {
    if options.evaluations == 0 {
        return Err(Error::options("evaluations = 0: expected at least 1"));
    }
    let problem = Problem::new(graph, devices, options.objective, options.model)?;
    let draft = if options.contract {
        let contraction = Contraction::new(graph)?;
        let small = Problem::new(
            contraction.graph(),
            devices,
            options.objective,
            options.model,
        )?;
        let draft = draft(&small, options)?;
        Draft {
            schedule: contraction.expand(&draft.schedule),
            ..draft
        }
    } else {
        draft(&problem, options)?
    };
    let Simulation { outcome, .. } = draft.schedule.verify(&problem)?;
    Ok(Plan {
        objective: options.objective,
        method: options.method,
        decoder: options.method.decodes().then(|| options.decoder()),
        schedule: draft.schedule,
        outcome,
        bounds: lower_bounds(&problem),
        evaluations: draft.evaluations,
        history: draft.history,
    })
}

/// A schedule that is still to be verified.
struct Draft {
    schedule: Schedule,
    evaluations: u64,
    history: Vec<Generation>,
}

fn draft(problem: &Problem<'_>, options: &PlaceOptions) -> Result<Draft, Error> {
    let PlaceOptions {
        evaluations, seed, ..
    } = *options;
    let one = |schedule: Schedule, evaluations: u64| {
        Ok(Draft {
            schedule,
            evaluations,
            history: Vec::new(),
        })
    };
    let ordered = |order| {
        let placement = baseline::partition(problem);
        baseline::ordered(problem, &placement, order)
    };
    match options.method {
        Method::Brkga => genetic(problem, options, Vec::new()),
        Method::SeededBrkga => genetic(problem, options, cheap_schedules(problem, options)),
        Method::Random => one(
            baseline::random_search(problem, options.decoder(), evaluations, seed),
            evaluations,
        ),
        Method::LocalSearch => one(
            baseline::local_search(problem, evaluations, seed),
            evaluations,
        ),
        Method::Heft => one(baseline::upward_rank(problem), 1),
        Method::PartitionDfs => one(ordered(OpOrder::DepthFirst), 1),
        Method::XlaList => one(ordered(OpOrder::List), 1),
        Method::XlaPostOrder => one(ordered(OpOrder::PostOrder), 1),
        Method::GreedyMemory => one(baseline::greedy_memory(problem, seed, 0.0), 1),
        Method::NoisyGreedyMemory => one(
            baseline::greedy_memory_best_of(problem, options.greedy_runs, seed, GREEDY_NOISE),
            options.greedy_runs.max(1),
        ),
    }
}

/// What a seeded search starts from, each made in about the time of an evaluation.
fn cheap_schedules(problem: &Problem<'_>, options: &PlaceOptions) -> Vec<Schedule> {
    let mut schedules = vec![baseline::upward_rank(problem)];
    let has_limit = problem
        .devices()
        .devices()
        .iter()
        .any(|d| d.memory_bytes.is_some());
    if options.objective == Objective::Memory || has_limit {
        let placement = baseline::partition(problem);
        let orders = [OpOrder::List, OpOrder::DepthFirst, OpOrder::PostOrder];
        schedules.extend(orders.map(|order| baseline::ordered(problem, &placement, order)));
        schedules.push(baseline::greedy_memory(problem, options.seed, 0.0));
    }
    // No more than a population takes, and at least one chromosome that is not given.
    let room = options
        .evaluations
        .min(u64::from(options.genetic.population))
        .saturating_sub(1);
    schedules.truncate(usize::try_from(room).unwrap_or(usize::MAX));
    schedules
}

/// The genetic algorithm from these schedules; the best of what it finds and of them.
fn genetic(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    schedules: Vec<Schedule>,
) -> Result<Draft, Error> {
    let starts = schedules.iter().map(|schedule| schedule.encode(problem));
    let starts = starts.collect::<Result<Vec<_>, _>>()?;
    let outcome = search(problem, options, starts, None)?;
    let found = Decoder::new(problem, options.decoder()).schedule(&outcome.best.keys);
    let mut best = (outcome.best.fitness, found);
    // Decoders other than the paper's need not give a start's own schedule back.
    for schedule in schedules {
        let fitness = schedule
            .simulate(problem)?
            .outcome
            .fitness(options.objective);
        if fitness < best.0 {
            best = (fitness, schedule);
        }
    }
    Ok(Draft {
        schedule: best.1,
        evaluations: outcome.evaluations,
        history: outcome.history,
    })
}
