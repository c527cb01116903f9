//! The job: a graph, devices and options in, a verified plan out.

use shardgraph_costgraph::baseline::{self, OpOrder};
use shardgraph_costgraph::{
    Contraction, Decoder, DeviceSet, Graph, Problem, Schedule, Simulation, lower_bounds,
};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::plan::{Draft, Plan};
use crate::portfolio::portfolio;
use crate::proposals::by_rank;
use crate::search::{Proposals, check, search_on};
use crate::starts::{Start, cheap_starts, evaluated, starts_of};
use crate::watch::{Search, Watch, unwatched};

/// Noise of the noisy greedy: by how much a pair's need may be overrated.
const GREEDY_NOISE: f64 = 0.2;

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
    unwatched(|watch| place_watched(graph, devices, options, watch))
}

/// As [`place`], with somebody who looks on.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec};
/// use shardgraph_regal::{Method, PlaceOptions, Watch, place_watched};
///
/// let mut builder = GraphBuilder::new("four");
/// for name in ["a", "b", "c", "d"] {
///     builder.op(OpSpec::new(name, 5));
/// }
/// let (graph, devices) = (builder.build()?, DeviceSet::uniform(2, None)?);
/// let mut n_looks = 0;
/// let mut watch = Watch {
///     clock: &mut || 0.0,
///     deadline: Some(10.0),
///     on_progress: &mut |_| {
///         n_looks += 1;
///         n_looks < 3
///     },
/// };
/// let options = PlaceOptions { method: Method::SeededBrkga, ..PlaceOptions::default() };
/// let plan = place_watched(&graph, &devices, &options, &mut watch)?;
/// assert_eq!(plan.evaluations, 1 + 50 + 40 + 40); // a warm start and three generations, of 5000
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`place`].
///
/// # Determinism
/// As [`place`], without a deadline and for an `on_progress` that decides by what it sees.
pub fn place_watched(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    watch: &mut Watch<'_>,
) -> Result<Plan, Error> {
    planned(graph, devices, options, watch, &|problem, search| {
        draft(problem, options, search)
    })
}

/// Makes schedules of a problem.
type Draw<'d> = &'d dyn Fn(&Problem<'_>, &mut Search<'_, '_>) -> Result<Draft, Error>;

/// Makes a plan of what `draft` draws, and has it checked.
pub(crate) fn planned(
    graph: &Graph,
    devices: &DeviceSet,
    options: &PlaceOptions,
    watch: &mut Watch<'_>,
    draft: Draw<'_>,
) -> Result<Plan, Error> {
    if options.evaluations == 0 {
        return Err(Error::options("evaluations = 0: expected at least 1"));
    }
    let mut search = Search::new(watch);
    let problem = Problem::new(graph, devices, options.objective, options.model)?;
    // The portfolio contracts for itself.
    let draft = if options.contract && options.method != Method::Portfolio {
        let contraction = Contraction::new(graph)?;
        let graph = contraction.graph();
        let small = Problem::new(graph, devices, options.objective, options.model)?;
        let draft = draft(&small, &mut search)?;
        Draft {
            // The largest op may be another one than before.
            schedule: contraction.expand(&draft.schedule).pinned(&problem),
            ..draft
        }
    } else {
        draft(&problem, &mut search)?
    };
    let seconds = search.seconds();
    let Simulation { outcome, .. } = draft.schedule.verify(&problem)?;
    Ok(Plan {
        objective: options.objective,
        method: options.method,
        decoder: match options.method {
            Method::Portfolio => options.decoder,
            method => method.decodes().then(|| options.decoder()),
        },
        schedule: draft.schedule,
        outcome,
        bounds: lower_bounds(&problem),
        evaluations: draft.evaluations,
        history: draft.history,
        seconds,
        proposal_seconds: draft.proposal_seconds,
        baselines: draft.baselines,
    })
}

fn draft(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    let PlaceOptions {
        evaluations, seed, ..
    } = *options;
    let mut made = |start: Start| one(start.schedule(problem, seed, search), 1);
    match options.method {
        Method::Portfolio => portfolio(problem, options, None, search),
        Method::Brkga => of_genetic(genetic(problem, options, &[], None, search)),
        Method::TunedBrkga => of_genetic(genetic(problem, &tuned(options), &[], None, search)),
        Method::SeededBrkga => {
            let starts = cheap_starts(problem);
            of_genetic(genetic(problem, options, starts, None, search))
        }
        Method::RankBrkga => by_rank(problem, options, search),
        Method::Regal | Method::SeededRegal | Method::Idrs => Err(Error::options(format!(
            "the method {} needs a policy: place_with_policy takes one",
            options.method
        ))),
        Method::Random => {
            let mut look = |evaluations, best| search.goes_on(evaluations, best);
            let decoder = options.decoder();
            let (schedule, n_done) =
                baseline::random_search(problem, decoder, evaluations, seed, &mut look);
            one(schedule, n_done)
        }
        Method::LocalSearch => {
            let mut look = |evaluations, best| search.goes_on(evaluations, best);
            let (schedule, n_done) = baseline::local_search(problem, evaluations, seed, &mut look);
            one(schedule, n_done)
        }
        Method::OneDevice | Method::Heft | Method::List | Method::Multilevel => {
            best_start(problem, options, search)
        }
        Method::PartitionDfs => made(Start::Partition(OpOrder::DepthFirst)),
        Method::XlaList => made(Start::Partition(OpOrder::List)),
        Method::XlaPostOrder => made(Start::Partition(OpOrder::PostOrder)),
        Method::GreedyMemory => made(Start::Greedy),
        Method::NoisyGreedyMemory => noisy_greedy(problem, options, search),
    }
}

fn noisy_greedy(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    let (runs, seed) = (options.greedy_runs, options.seed);
    let mut go_on = || !search.is_late();
    let (schedule, n_runs) =
        baseline::greedy_memory_best_of(problem, runs, seed, GREEDY_NOISE, &mut go_on);
    one(schedule, n_runs)
}

fn one(schedule: Schedule, evaluations: u64) -> Result<Draft, Error> {
    Ok(Draft {
        schedule,
        evaluations,
        history: Vec::new(),
        proposal_seconds: None,
        baselines: Vec::new(),
    })
}

/// The options with the tuned numbers as the genetic algorithm's.
fn tuned(options: &PlaceOptions) -> PlaceOptions {
    PlaceOptions {
        genetic: options.tuned,
        ..options.clone()
    }
}

fn of_genetic(found: Result<(Draft, (u64, u64)), Error>) -> Result<Draft, Error> {
    Ok(found?.0)
}

/// The best of a baseline's schedules.
fn best_start(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    let starts = starts_of(options.method, problem);
    let schedules = evaluated(problem, options, &starts, search)?;
    let n_made = schedules.len() as u64;
    let best = schedules.into_iter().min_by_key(|(fitness, _)| *fitness);
    one(best.unwrap_or_default().1, n_made)
}

/// The genetic algorithm from these starts, with these proposals; the best of what it finds and of them, with its fitness.
///
/// Each start is evaluated for itself, because decoders other than the paper's need not give its schedule back, and is then a
/// chromosome of the first generation as far as that has room for one that is not given.
pub(crate) fn genetic(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    starts: &[Start],
    proposals: Option<Proposals>,
    search: &mut Search<'_, '_>,
) -> Result<(Draft, (u64, u64)), Error> {
    check(options)?;
    let mut schedules = evaluated(problem, options, starts, search)?;
    let n_made = schedules.len() as u64;
    let left = options.evaluations - n_made;
    let is_over = left == 0 || (n_made > 0 && search.is_late());
    let room = left
        .min(u64::from(options.genetic.population))
        .saturating_sub(1);
    let given = schedules
        .iter()
        .take(usize::try_from(room).unwrap_or(usize::MAX));
    let mut draft = Draft {
        schedule: Schedule::default(),
        evaluations: n_made,
        history: Vec::new(),
        proposal_seconds: None,
        baselines: Vec::new(),
    };
    if !is_over {
        let given = given.map(|(_, schedule)| schedule.encode(problem));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        search.n_before += n_made;
        let options = PlaceOptions {
            evaluations: left,
            ..options.clone()
        };
        let outcome = search_on(problem, &options, given, proposals, search)?;
        let found = Decoder::new(problem, options.decoder()).schedule(&outcome.best.keys);
        // Before the starts: of equals the first is taken.
        schedules.insert(0, (outcome.best.fitness, found));
        draft.evaluations += outcome.evaluations;
        draft.history = outcome.history;
        for generation in &mut draft.history {
            generation.evaluations += n_made;
        }
    }
    let best = schedules.into_iter().min_by_key(|(fitness, _)| *fitness);
    let (fitness, schedule) = best.unwrap_or_default();
    draft.schedule = schedule;
    Ok((draft, fitness))
}
