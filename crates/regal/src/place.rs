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
use crate::search::search_watched;

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
    Ok(place_timed(graph, devices, options, &mut || 0.0)?.0)
}

/// As [`place`], with what the clock said about the search alone: the replay is no part of it.
pub(crate) fn place_timed(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    clock: &mut dyn FnMut() -> f64,
) -> Result<(Plan, f64), Error> {
    place_watched(graph, devices, options, clock, &mut |_| true)
}

/// As [`place`], with the seconds that the search alone took by `clock` (which gives seconds from any start); `watch` sees how far
/// a search has come and ends it by returning false, with the best so far as the plan.
///
/// It is asked after each generation of a genetic algorithm and now and then during the other searches, and never by methods that
/// make one schedule.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec};
/// use shardgraph_regal::{PlaceOptions, place_watched};
///
/// let mut builder = GraphBuilder::new("four");
/// for name in ["a", "b", "c", "d"] {
///     builder.op(OpSpec::new(name, 5));
/// }
/// let (graph, devices) = (builder.build()?, DeviceSet::uniform(2, None)?);
/// let mut n_looks = 0;
/// let (plan, _) = place_watched(&graph, &devices, &PlaceOptions::default(), &mut || 0.0, &mut |_| {
///     n_looks += 1;
///     n_looks < 3
/// })?;
/// assert_eq!(plan.evaluations, 100 + 80 + 80); // of 5000
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`place`].
///
/// # Determinism
/// As [`place`], for a `watch` that decides by what it sees and not, say, by a clock.
pub fn place_watched(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    clock: &mut dyn FnMut() -> f64,
    watch: &mut dyn FnMut(Generation) -> bool,
) -> Result<(Plan, f64), Error> {
    if options.evaluations == 0 {
        return Err(Error::options("evaluations = 0: expected at least 1"));
    }
    let start = clock();
    let problem = Problem::new(graph, devices, options.objective, options.model)?;
    let draft = if options.contract {
        let contraction = Contraction::new(graph)?;
        let small = Problem::new(
            contraction.graph(),
            devices,
            options.objective,
            options.model,
        )?;
        let draft = draft(&small, options, watch)?;
        Draft {
            schedule: contraction.expand(&draft.schedule),
            ..draft
        }
    } else {
        draft(&problem, options, watch)?
    };
    let seconds = clock() - start;
    let Simulation { outcome, .. } = draft.schedule.verify(&problem)?;
    let plan = Plan {
        objective: options.objective,
        method: options.method,
        decoder: options.method.decodes().then(|| options.decoder()),
        schedule: draft.schedule,
        outcome,
        bounds: lower_bounds(&problem),
        evaluations: draft.evaluations,
        history: draft.history,
    };
    Ok((plan, seconds))
}

/// A schedule that is still to be verified.
struct Draft {
    schedule: Schedule,
    evaluations: u64,
    history: Vec<Generation>,
}

fn draft(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    watch: &mut dyn FnMut(Generation) -> bool,
) -> Result<Draft, Error> {
    let PlaceOptions {
        evaluations, seed, ..
    } = *options;
    let ordered = |order| {
        let placement = baseline::partition(problem);
        baseline::ordered(problem, &placement, order)
    };
    match options.method {
        Method::Brkga => genetic(problem, options, Vec::new(), watch),
        Method::TunedBrkga => genetic(problem, &tuned(options), Vec::new(), watch),
        Method::SeededBrkga => {
            let starts = cheap_schedules(problem, options);
            genetic(problem, options, starts, watch)
        }
        Method::Random => {
            let mut look = |evaluations, best| watch(Generation { evaluations, best });
            let decoder = options.decoder();
            let (schedule, n_done) =
                baseline::random_search_watched(problem, decoder, evaluations, seed, &mut look);
            one(schedule, n_done)
        }
        Method::LocalSearch => {
            let mut look = |evaluations, best| watch(Generation { evaluations, best });
            let (schedule, n_done) =
                baseline::local_search_watched(problem, evaluations, seed, &mut look);
            one(schedule, n_done)
        }
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

fn one(schedule: Schedule, evaluations: u64) -> Result<Draft, Error> {
    Ok(Draft {
        schedule,
        evaluations,
        history: Vec::new(),
    })
}

/// The options with the tuned numbers as the genetic algorithm's.
fn tuned(options: &PlaceOptions) -> PlaceOptions {
    PlaceOptions {
        genetic: options.tuned,
        ..options.clone()
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
    watch: &mut dyn FnMut(Generation) -> bool,
) -> Result<Draft, Error> {
    let starts = schedules.iter().map(|schedule| schedule.encode(problem));
    let starts = starts.collect::<Result<Vec<_>, _>>()?;
    let outcome = search_watched(problem, options, starts, None, watch)?;
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
