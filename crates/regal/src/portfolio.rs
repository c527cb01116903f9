//! Several searches that share one budget: the default way to make a plan.

use shardgraph_brkga::{Brkga, Generation};
use shardgraph_costgraph::baseline::{
    ClusterSearch, Hierarchy, component_placement, multilevel_partition,
};
use shardgraph_costgraph::{
    Contraction, Decoder, DecoderKind, ModelOptions, Objective, Outcome, Problem, Schedule,
};

use crate::error::Error;
use crate::method::Method;
use crate::options::PlaceOptions;
use crate::plan::{Baseline, Draft};
use crate::policy::Policy;
use crate::prefixes::{Stage, before_last, stages};
use crate::proposals::rank_proposals;
use crate::search::{Proposals, brkga, check};
use crate::starts::{Start, starts_of};
use crate::watch::Search;

mod best;

use best::{Best, Fitness, is_at};

/// Evaluations of a turn of the local search; a turn of a genetic one is a generation.
const TURN: u64 = 80;
/// Turns of the local search without a better plan after which it goes on from elsewhere.
const PATIENCE: u32 = 4;
/// A policy is asked once the searches found nothing better in one evaluation of this many.
const STALL: u64 = 2;
/// By how much the parts of a partition may exceed their share.
const SLACKS: [f64; 3] = [0.1, 0.4, 1.0];

/// What the search on the devices of one stage found.
struct Found {
    fitness: Fitness,
    schedule: Schedule,
    /// The same on the contracted graph; none where nothing was searched there.
    contracted: Option<Schedule>,
    n_done: u64,
    history: Vec<Generation>,
    proposal_seconds: Option<f64>,
}

/// Searches by all members in turn; see [`Method::Portfolio`].
pub(crate) fn portfolio(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    policy: Option<&Policy>,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    check(options)?;
    if let Some(policy) = policy {
        policy.check(problem)?;
    }
    let stages = stages(problem, options.evaluations);
    // The plan is not worse than these, whenever the deadline is.
    let mut best = Best::new(problem, options, stages.last());
    let baselines = baselines(problem, options, &mut best, search)?;
    let bound = best.bound;
    let (mut n_before, mut history) = (0, Vec::new());
    let is_at_bound = best.is_at_bound();
    let searched = if is_at_bound { &[] } else { stages.as_slice() };
    let before = before_last(
        problem,
        searched,
        search,
        &mut |problem, stage, before, search| {
            let mut best = Best::new(problem, options, Some(&stage));
            self::baselines(problem, options, &mut best, search)?;
            let found = best.search(problem, options, None, before.as_ref(), search)?;
            search.n_before += found.n_done;
            n_before += found.n_done;
            append(&mut history, &found, n_before - found.n_done);
            let may_be_better = !is_at(found.fitness, bound, options.objective);
            Ok((found, may_be_better))
        },
    )?;
    let found = best.search(problem, options, policy, before.as_ref(), search)?;
    append(&mut history, &found, n_before);
    search.n_before -= n_before;
    Ok(Draft {
        schedule: found.schedule,
        evaluations: n_before + found.n_done,
        history,
        proposal_seconds: found.proposal_seconds,
        baselines,
    })
}

/// Adds the generations of a stage, which went on from the plan of the one before.
fn append(history: &mut Vec<Generation>, found: &Found, n_before: u64) {
    let before = history
        .last()
        .map_or((u64::MAX, u64::MAX), |last: &Generation| last.best);
    history.extend(found.history.iter().map(|of| Generation {
        evaluations: n_before + of.evaluations,
        best: of.best.min(before),
    }));
}

impl Best {
    /// The search on the contracted graph, from the plan of the stage before too.
    fn search(
        mut self,
        problem: &Problem<'_>,
        options: &PlaceOptions,
        policy: Option<&Policy>,
        before: Option<&Found>,
        search: &mut Search<'_, '_>,
    ) -> Result<Found, Error> {
        if let Some(before) = before {
            self.offer(before.fitness, || before.schedule.clone());
        }
        make_fit(problem, options, &mut self, search)?;
        let mut contracted = before.and_then(|before| before.contracted.clone());
        if self.left() > 0 && !self.is_at_bound() && !search.is_late() {
            let contraction = Contraction::new(problem.graph())?;
            let model = ModelOptions {
                fix_largest: false,
                ..options.model
            };
            let (graph, devices) = (contraction.graph(), problem.devices());
            let small = Problem::new(graph, devices, options.objective, model)?;
            let start = before.map(|before| match &before.contracted {
                Some(schedule) => schedule.clone(),
                None => {
                    let ops = 0..graph.n_ops() as u32;
                    let of_op = |op| before.schedule.placement[contraction.members(op)[0] as usize];
                    Start::on(&small, &ops.map(of_op).collect::<Vec<u8>>())
                }
            });
            let whole = (self.fitness, self.schedule.clone());
            search_contracted(&small, options, policy, start, &mut self, search)?;
            if self.fitness < whole.0 {
                let schedule = contraction.expand(&self.schedule).pinned(problem);
                // Cost factors round each op by itself, so that the sums may differ.
                let fitness = schedule
                    .simulate(problem)?
                    .outcome
                    .fitness(options.objective);
                contracted = Some(std::mem::replace(&mut self.schedule, whole.1));
                self.fitness = whole.0;
                self.offer(fitness, || schedule);
            }
        }
        Ok(Found {
            fitness: self.fitness,
            schedule: self.schedule,
            contracted,
            n_done: self.n_done,
            history: self.history,
            proposal_seconds: self.proposal_seconds,
        })
    }
}

/// Where no baseline fits the memory, the smallest peak is looked for first, with a part of the evaluations.
fn make_fit(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    best: &mut Best,
    watch: &mut Search<'_, '_>,
) -> Result<(), Error> {
    let is_needed = options.objective == Objective::Runtime && best.fitness.0 > 0;
    let evaluations = best.left() / 2;
    if !is_needed || evaluations == 0 || watch.is_late() {
        return Ok(());
    }
    let (graph, devices) = (problem.graph(), problem.devices());
    let of_memory = Problem::new(graph, devices, Objective::Memory, problem.options())?;
    let options = PlaceOptions {
        objective: Objective::Memory,
        ..options.clone()
    };
    let stage = Stage {
        n_devices: problem.n_devices(),
        evaluations,
    };
    let mut smallest = Best::new(&of_memory, &options, Some(&stage));
    baselines(&of_memory, &options, &mut smallest, watch)?;
    watch.n_before += best.n_done;
    let found = smallest.search(&of_memory, &options, None, None, watch)?;
    watch.n_before -= best.n_done;
    best.n_done += found.n_done;
    // The largest op is another one for the runtime.
    let schedule = found.schedule.pinned(problem);
    let fitness = schedule.simulate(problem)?.outcome.fitness(best.objective);
    best.offer(fitness, || schedule);
    Ok(())
}

/// The baselines as far as the evaluations go; the deadline leaves the first.
fn baselines(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    best: &mut Best,
    search: &mut Search<'_, '_>,
) -> Result<Vec<Baseline>, Error> {
    let mut baselines = Vec::new();
    for method in Method::BASELINES {
        let mut found: Option<(Fitness, Outcome)> = None;
        for start in starts_of(method, problem) {
            if best.left() == 0 || (best.n_done > 0 && search.is_late()) {
                break;
            }
            let schedule = start.schedule(problem, options.seed, search);
            let outcome = schedule.simulate(problem)?.outcome;
            let fitness = outcome.fitness(options.objective);
            best.n_done += 1;
            best.offer(fitness, || schedule);
            if found.is_none_or(|(of, _)| fitness < of) {
                found = Some((fitness, outcome));
            }
        }
        baselines.extend(found.map(|(_, outcome)| Baseline { method, outcome }));
    }
    Ok(baselines)
}

/// One of the searches.
enum Member<'p, 'g> {
    Genetic {
        search: Box<Brkga>,
        decoders: Vec<Decoder<'p, 'g>>,
        generation: u64,
    },
    Clusters {
        search: Box<ClusterSearch<'p, 'g>>,
        /// Placements to go on from, in turn.
        elsewhere: Vec<Vec<u8>>,
        n_restarts: usize,
        n_stalled: u32,
    },
}

impl Member<'_, '_> {
    /// Evaluations that a turn needs; a genetic search has no smaller ones.
    fn smallest_turn(&self) -> u64 {
        match self {
            Member::Genetic { generation, .. } => *generation,
            Member::Clusters { .. } => 1,
        }
    }

    /// A turn: how many evaluations it took, and the best fitness of this member so far.
    fn turn(
        &mut self,
        budget: u64,
        stop_at: impl Fn(Fitness) -> bool,
        watch: &mut Search<'_, '_>,
    ) -> Result<(u64, Fitness), Error> {
        match self {
            Member::Genetic {
                search,
                decoders,
                generation,
            } => {
                let before = search.history().last().map_or(0, |last| last.evaluations);
                let mut decode: Vec<_> = (decoders.iter_mut())
                    .map(|decoder| move |keys: &[f32]| decoder.fitness(keys))
                    .collect();
                search.step_while(&mut decode, &mut || !watch.is_late())?;
                let last = search.history().last().copied();
                let done = last.map_or(0, |last| last.evaluations) - before;
                // Elites are not evaluated again.
                *generation = (*generation).min(done.max(1));
                Ok((done, last.map_or((u64::MAX, u64::MAX), |last| last.best)))
            }
            Member::Clusters {
                search,
                elsewhere,
                n_restarts,
                n_stalled,
            } => {
                let mut done = 0;
                let before = search.best();
                while done < budget.min(TURN) && !stop_at(search.best()) {
                    if *n_stalled >= PATIENCE && !elsewhere.is_empty() {
                        search.restart(&elsewhere[*n_restarts % elsewhere.len()]);
                        *n_restarts += 1;
                        *n_stalled = 0;
                    } else {
                        search.step();
                    }
                    done += 1;
                    if done % 16 == 0 && watch.is_late() {
                        break;
                    }
                }
                *n_stalled = if search.best() < before {
                    0
                } else {
                    *n_stalled + 1
                };
                Ok((done, search.best()))
            }
        }
    }

    fn schedule(&mut self) -> Schedule {
        match self {
            Member::Genetic {
                search, decoders, ..
            } => match search.best() {
                Some(best) => decoders[0].schedule(&best.keys),
                None => Schedule::default(),
            },
            Member::Clusters { search, .. } => search.schedule(),
        }
    }
}

fn search_contracted(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    policy: Option<&Policy>,
    start: Option<Schedule>,
    best: &mut Best,
    watch: &mut Search<'_, '_>,
) -> Result<(), Error> {
    let hierarchy = Hierarchy::new(problem, options.seed);
    let starts = starts(problem, options, &hierarchy, start, best, watch)?;
    if best.is_at_bound() || best.left() == 0 || starts.is_empty() {
        return Ok(());
    }
    let mut members = members(problem, options, &hierarchy, &starts, best)?;
    let mut unasked = policy;
    let mut improved_at = best.n_done;
    let mut leader = 0;
    let mut n_turns = 0;
    let (bound, objective) = (best.bound, best.objective);
    let stop_at = |fitness: Fitness| is_at(fitness, bound, objective);
    while best.left() > 0 && !best.is_at_bound() {
        let is_stalled = best.n_done - improved_at >= best.budget / STALL;
        if let Some(policy) = unasked.filter(|_| is_stalled) {
            unasked = None;
            if let Some(learned) = ask(policy, problem, options, best, watch)? {
                let kind = decoders(problem, options)[0];
                members.push(genetic(
                    problem,
                    options,
                    kind,
                    Some(learned),
                    &starts,
                    best,
                )?);
                leader = members.len() - 1;
                continue;
            }
        }
        // Every other turn is the leader's; the others go round.
        let mut chosen = match n_turns % 2 {
            0 => leader,
            _ => n_turns / 2 % members.len(),
        };
        n_turns += 1;
        if members[chosen].smallest_turn() > best.left() {
            let Some(fits) = (members.iter()).position(|m| m.smallest_turn() <= best.left()) else {
                break;
            };
            chosen = fits;
        }
        let (done, fitness) = members[chosen].turn(best.left(), stop_at, watch)?;
        best.n_done += done;
        if best.offer(fitness, || members[chosen].schedule()) {
            (leader, improved_at) = (chosen, best.n_done);
        }
        best.history.push(Generation {
            evaluations: best.n_done,
            best: best.fitness,
        });
        if done == 0 || !watch.goes_on(best.n_done, best.fitness) {
            break;
        }
    }
    Ok(())
}

/// What a policy proposes, where the evaluations suffice for its features; the plan of its short search counts like any other.
fn ask(
    policy: &Policy,
    problem: &Problem<'_>,
    options: &PlaceOptions,
    best: &mut Best,
    watch: &mut Search<'_, '_>,
) -> Result<Option<Proposals>, Error> {
    let config = policy.config();
    let needed = config.feature_evaluations + population(options);
    if best.left() < needed || watch.is_late() {
        return Ok(None);
    }
    let of_policy = PlaceOptions {
        decoder: Some(config.decoder),
        ..options.clone()
    };
    let (features, short_seconds) = config.features_on(problem, &of_policy, watch)?;
    best.n_done += features.evaluations;
    best.offer(features.best.fitness, || {
        Decoder::new(problem, config.decoder).schedule(&features.best.keys)
    });
    // Somebody who looks on may have ended the short search.
    if features.evaluations < config.feature_evaluations {
        return Ok(None);
    }
    let proposals = policy.propose(problem, &features, options.seed)?;
    best.proposal_seconds = Some(watch.seconds() - short_seconds);
    Ok(Some(proposals))
}

/// Placements and schedules to start from, best first.
type Starts = Vec<(Fitness, Schedule)>;

fn starts(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    hierarchy: &Hierarchy,
    given: Option<Schedule>,
    best: &mut Best,
    watch: &mut Search<'_, '_>,
) -> Result<Starts, Error> {
    let n = problem.n_devices();
    let mut candidates = vec![Start::Heft, Start::UpwardRank];
    if problem.memory_matters() {
        candidates.extend(Start::MEMORY);
    }
    candidates.extend(starts_of(Method::OneDevice, problem));
    let mut n_parts = 2;
    let mut partitions = Vec::new();
    while n_parts <= n {
        partitions.extend(SLACKS.map(|slack| (n_parts, slack)));
        n_parts = if n_parts < n {
            (2 * n_parts).min(n)
        } else {
            n + 1
        };
    }
    let mut found: Starts = Vec::new();
    let mut try_one = |schedule: Schedule, best: &mut Best| -> Result<(), Error> {
        let fitness = schedule
            .simulate(problem)?
            .outcome
            .fitness(options.objective);
        best.n_done += 1;
        best.offer(fitness, || schedule.clone());
        if !found
            .iter()
            .any(|(_, other)| other.placement == schedule.placement)
        {
            found.push((fitness, schedule));
        }
        Ok(())
    };
    if let Some(schedule) = given.filter(|_| best.left() > 0) {
        try_one(schedule, best)?;
    }
    for start in candidates {
        if best.left() > 0 && !watch.is_late() {
            try_one(start.schedule(problem, options.seed, watch), best)?;
        }
    }
    if let Some(placement) = component_placement(problem).filter(|_| best.left() > 0) {
        try_one(Start::on(problem, &placement), best)?;
    }
    for (n_parts, slack) in partitions {
        if best.left() > 0 && !watch.is_late() {
            let placement = multilevel_partition(problem, hierarchy, n_parts, slack);
            try_one(Start::on(problem, &placement), best)?;
        }
    }
    found.sort_by_key(|(fitness, _)| *fitness);
    Ok(found)
}

/// The decoders of the genetic searches.
fn decoders(problem: &Problem<'_>, options: &PlaceOptions) -> Vec<DecoderKind> {
    match (options.decoder, options.objective) {
        (Some(kind), _) => vec![kind],
        (None, Objective::Memory) => vec![DecoderKind::Paper],
        (None, Objective::Runtime) if problem.has_free_links() => vec![DecoderKind::List],
        (None, Objective::Runtime) => vec![DecoderKind::List, DecoderKind::TimeAware],
    }
}

/// Chromosomes of a generation.
fn population(options: &PlaceOptions) -> u64 {
    u64::from(options.genetic.population) * u64::from(options.genetic.populations)
}

/// A genetic search that begins with the starts.
fn genetic<'p, 'g>(
    problem: &'p Problem<'g>,
    options: &PlaceOptions,
    kind: DecoderKind,
    proposals: Option<Proposals>,
    starts: &[(Fitness, Schedule)],
    best: &Best,
) -> Result<Member<'p, 'g>, Error> {
    let generation = population(options);
    let room = generation.saturating_sub(1) as usize;
    let given = starts.iter().take(room);
    let given: Result<Vec<_>, _> = given.map(|(_, start)| start.encode(problem)).collect();
    let of_member = PlaceOptions {
        evaluations: best.left(),
        decoder: Some(kind),
        ..options.clone()
    };
    Ok(Member::Genetic {
        search: Box::new(brkga(problem, &of_member, given?, proposals)?),
        decoders: vec![Decoder::new(problem, kind); options.threads],
        generation,
    })
}

fn members<'p, 'g>(
    problem: &'p Problem<'g>,
    options: &PlaceOptions,
    hierarchy: &'p Hierarchy,
    starts: &[(Fitness, Schedule)],
    best: &mut Best,
) -> Result<Vec<Member<'p, 'g>>, Error> {
    let mut members = Vec::new();
    for kind in decoders(problem, options) {
        if best.left() >= population(options) {
            let ranks = match kind {
                DecoderKind::List => Some(rank_proposals(problem)?),
                _ => None,
            };
            members.push(genetic(problem, options, kind, ranks, starts, best)?);
        }
    }
    if problem.n_devices() > 1 {
        let kind = match (options.decoder, options.objective) {
            (Some(kind), _) if kind != DecoderKind::List => kind,
            (_, Objective::Memory) => DecoderKind::Paper,
            _ if problem.has_free_links() => DecoderKind::TimeAwareFlush,
            _ => DecoderKind::TimeAware,
        };
        let placements = starts.iter().map(|(_, start)| start.placement.clone());
        let elsewhere: Vec<Vec<u8>> = placements.collect();
        let search = ClusterSearch::new(problem, hierarchy, &elsewhere[0], kind, options.seed);
        best.n_done += 1;
        members.push(Member::Clusters {
            search: Box::new(search),
            elsewhere,
            n_restarts: 1,
            n_stalled: 0,
        });
    }
    if members.is_empty() {
        // One device and a small budget: the starts are all there is.
        best.budget = best.n_done;
    }
    Ok(members)
}
