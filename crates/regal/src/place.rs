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
use crate::portfolio::portfolio;
use crate::proposals::by_rank;
use crate::search::{Proposals, check, search_on};

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

/// Who looks on while plans are made, and may end that early.
pub struct Watch<'a> {
    /// Seconds from any start.
    pub clock: &'a mut dyn FnMut() -> f64,
    /// The seconds of each search: it ends with the best so far, in the midst of a generation if need be. The greedy methods, whose
    /// time grows with the square of the ops that are ready, then stop to choose. The other methods that make one schedule, and each
    /// warm start of that kind, go on to its end.
    pub deadline: Option<f64>,
    /// Sees how far a search has come, after each generation of a genetic algorithm and now and then during other searches; returning
    /// false ends the search with the best so far. Methods that make one schedule never ask.
    pub on_progress: &'a mut dyn FnMut(Generation) -> bool,
}

/// The watch over one search, which began at a time.
pub(crate) struct Search<'w, 'a> {
    watch: &'w mut Watch<'a>,
    begin: f64,
    /// Evaluations that the part of the search that is watched now does not count.
    pub(crate) n_before: u64,
    is_ended: bool,
}

impl<'w, 'a> Search<'w, 'a> {
    pub(crate) fn new(watch: &'w mut Watch<'a>) -> Search<'w, 'a> {
        Search {
            begin: (watch.clock)(),
            watch,
            n_before: 0,
            is_ended: false,
        }
    }

    /// True once somebody who looks on, or the deadline, has ended the search.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.is_ended || self.is_late()
    }

    pub(crate) fn seconds(&mut self) -> f64 {
        (self.watch.clock)() - self.begin
    }

    pub(crate) fn is_late(&mut self) -> bool {
        let deadline = self.watch.deadline;
        deadline.is_some_and(|deadline| self.seconds() >= deadline)
    }

    /// Tells how far the search has come; false when it is to end.
    pub(crate) fn goes_on(&mut self, evaluations: u64, best: (u64, u64)) -> bool {
        let evaluations = self.n_before + evaluations;
        let goes_on = (self.watch.on_progress)(Generation { evaluations, best }) && !self.is_late();
        self.is_ended |= !goes_on;
        goes_on
    }
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
    unwatched(|watch| place_watched(graph, devices, options, watch))
}

/// Runs something with a watch that sees nothing and lets everything go on.
pub(crate) fn unwatched<T>(run: impl FnOnce(&mut Watch<'_>) -> T) -> T {
    run(&mut Watch {
        clock: &mut || 0.0,
        deadline: None,
        on_progress: &mut |_| true,
    })
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
/// assert_eq!(plan.evaluations, 1 + 100 + 80 + 80); // a warm start and three generations, of 5000
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

/// A schedule that is still to be verified.
pub(crate) struct Draft {
    pub(crate) schedule: Schedule,
    pub(crate) evaluations: u64,
    pub(crate) history: Vec<Generation>,
    /// As of [`Plan`].
    pub(crate) proposal_seconds: Option<f64>,
    pub(crate) baselines: Vec<Baseline>,
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
        Method::Brkga => of_genetic(genetic(problem, options, (&[], None), search)),
        Method::TunedBrkga => of_genetic(genetic(problem, &tuned(options), (&[], None), search)),
        Method::SeededBrkga => {
            let starts = cheap_starts(problem);
            of_genetic(genetic(problem, options, (starts, None), search))
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
                baseline::random_search_watched(problem, decoder, evaluations, seed, &mut look);
            one(schedule, n_done)
        }
        Method::LocalSearch => {
            let mut look = |evaluations, best| search.goes_on(evaluations, best);
            let (schedule, n_done) =
                baseline::local_search_watched(problem, evaluations, seed, &mut look);
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
        baseline::greedy_memory_best_of_watched(problem, runs, seed, GREEDY_NOISE, &mut go_on);
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
                baseline::greedy_memory_watched(problem, seed, 0.0, &mut go_on)
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
            let n = match problem.devices().are_interchangeable() {
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

/// The genetic algorithm from these starts, with these proposals; the best of what it finds and of them, with its fitness.
///
/// Each start is evaluated for itself, because decoders other than the paper's need not give its schedule back, and is then a
/// chromosome of the first generation as far as that has room for one that is not given.
pub(crate) fn genetic(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    (starts, proposals): (&[Start], Option<Proposals>),
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

/// A schedule behind its fitness.
type Evaluated = ((u64, u64), Schedule);

/// The starts' schedules and their fitness, as many as budget and deadline allow; the deadline leaves at least one.
fn evaluated(
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
