//! `shardgraph solve` by every method but the policy's own: reductions, greedy algorithms, policy and search, the best of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use shardgraph_classical::Budget;
use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_device::{Device, Timer};
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::{MINIMUM_VERTEX_COVER, Objective, Problem};
use shardgraph_solver::{
    Best, BestOptions, Error, ErrorKind, SolveOptions, TrainedPolicy, cover_by_independent_set,
    solve_as_rank, solve_best, solve_problem_as_rank,
};

use super::answer::{Answer, PolicyReport, Row, labelled};
use super::drawing::Solved;
use super::{Method, SolveArgs, is_of_sets, of_graph, options};
use crate::exit::BadInput;
use crate::graph_argument::{GraphArgs, Origin};
use crate::interrupt;
use crate::progress::Progress;
use crate::report::ReportArgs;

/// Seconds for the policy and the search once the reductions are done.
pub(super) const SECONDS_AFTER_REDUCTIONS: f64 = 1.0;

/// What a solve starts from; every process reads it for itself.
struct Inputs {
    problem: &'static Problem,
    device: Device,
    policy: Option<TrainedPolicy>,
    graphs: Vec<Loaded>,
}

/// One graph.
struct Loaded {
    /// The form that the policy for covers takes.
    adjacency: Option<Adjacency>,
    graph: Arc<Graph>,
    origin: Origin,
}

/// The policy on a graph, by whichever ranks there are; the options say when it is cancelled.
type Play<'s> = dyn FnMut(
        &Loaded,
        &SolveOptions,
        &mut (dyn FnMut(u32, usize) + Send),
    ) -> Result<shardgraph_solver::Solution, Error>
    + 's;

/// Loads, solves, writes the nodes of the answer and prints it. Of several processes the first alone searches, writes and prints; the others wait for the policy's turn, and for the end.
pub(super) fn run(args: &SolveArgs, problem: &'static Problem) -> anyhow::Result<()> {
    let timeout = args.world.timeout.unwrap_or_default();
    let mut world = args.world.open(args.world.ranks, timeout)?;
    let report = args.report.of_rank(world.comm.rank());
    let inputs = load(args, problem, &report, world.rank);
    let inputs = world.settle(inputs)?;
    interrupt::end_by_itself();
    let options = options(args, world.n_ranks, &inputs.device);
    let comm = &mut world.comm;
    if comm.rank() > 0 {
        for loaded in &inputs.graphs {
            if is_policy_wanted(comm, None, timeout)? {
                play(comm, &inputs, loaded, &options, &mut |_, _| ())?;
            }
        }
        return world.settle(Ok(()));
    }
    let mut search = Search::new(args, &inputs, world.n_ranks);
    search.longest = world.rank.map(|_| timeout.duration().as_secs_f64() / 4.0);
    let mut result = Ok(());
    for loaded in &inputs.graphs {
        let mut was_wanted = false;
        let solved = match &result {
            Ok(()) => search.solve(loaded, &options, &mut |loaded, options, progress| {
                was_wanted = is_policy_wanted(comm, Some(true), timeout)?;
                play(comm, &inputs, loaded, options, progress)
            }),
            // The others have to learn that there is nothing to do.
            Err(_) => Ok(()),
        };
        if !was_wanted {
            is_policy_wanted(comm, Some(false), timeout)?;
        }
        result = result.and(solved);
    }
    let finished = result.and_then(|()| search.finish());
    world.settle(finished)
}

/// What the first rank says: whether all are to run the policy.
fn is_policy_wanted(comm: &mut Comm, word: Option<bool>, timeout: Timeout) -> Result<bool, Error> {
    let own = [u8::from(word.unwrap_or(false))];
    let mut all = vec![0u8; comm.size() as usize];
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, timeout)?;
    Ok(all.first() == Some(&1))
}

/// The policy, by whichever ranks there are. Several processes cannot be cut short.
fn play(
    comm: &mut Comm,
    inputs: &Inputs,
    loaded: &Loaded,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<shardgraph_solver::Solution, Error> {
    let mut options = options.clone();
    if comm.size() > 1 {
        options.cancelled = None;
    }
    let policy = inputs.policy.as_ref().ok_or_else(no_policy)?;
    match &loaded.adjacency {
        Some(adjacency) if is_of_sets(policy) => {
            cover_by_independent_set(adjacency, policy, &options, progress)
        }
        Some(adjacency) => solve_as_rank(comm, adjacency, policy, &options, progress),
        None => {
            let (problem, graph) = (inputs.problem, &loaded.graph);
            solve_problem_as_rank(comm, problem, graph, policy, &options, progress)
        }
    }
}

fn no_policy() -> Error {
    ErrorKind::Internal("this method has no policy".into()).into()
}

/// `process` is the rank of this process, if it is one of several.
fn load(
    args: &SolveArgs,
    problem: &'static Problem,
    report: &ReportArgs,
    process: Option<u32>,
) -> anyhow::Result<Inputs> {
    let device = args
        .world
        .device(args.device.kind, process.is_some(), report)?;
    if process.unwrap_or(0) == 0 {
        args.check_files()?;
    }
    let policy = match args.method {
        Method::Best => Some(args.policy(problem)?),
        _ => None,
    };
    if let Some(policy) = policy.as_ref().filter(|policy| is_of_sets(policy))
        && process.is_some()
        && problem.name == MINIMUM_VERTEX_COVER.name
    {
        let source = &policy.source;
        let why = "a policy for independent sets (mis) finds covers in one process: take --ranks there, or --problem mis";
        return Err(BadInput(format!("{source}: {why}")).into());
    }
    let graphs = args.graphs();
    let graphs = graphs.iter().map(|graph| {
        let loaded = read(graph, problem, report)?;
        args.check_drawing(&loaded.graph, &loaded.origin)?;
        Ok(loaded)
    });
    Ok(Inputs {
        problem,
        device,
        policy,
        graphs: graphs.collect::<anyhow::Result<_>>()?,
    })
}

fn read(graph: &GraphArgs, problem: &Problem, report: &ReportArgs) -> anyhow::Result<Loaded> {
    let is_cover = problem.name == MINIMUM_VERTEX_COVER.name;
    let (adjacency, graph, origin) = if problem.reads_weights {
        let (graph, origin) = graph.whole_graph()?;
        (None, graph.into(), origin)
    } else {
        let (adjacency, origin) = graph.adjacency(report)?;
        let graph = match is_cover {
            true => adjacency.to_lists()?,
            false => return not_a_cover(problem, adjacency, origin),
        };
        (Some(adjacency), graph, origin)
    };
    Ok(Loaded {
        adjacency,
        graph,
        origin,
    })
}

fn not_a_cover(problem: &Problem, adjacency: Adjacency, origin: Origin) -> anyhow::Result<Loaded> {
    let graph = adjacency.to_lists()?;
    if graph.weights().is_some() {
        return Err(super::problem::no_weights(problem, &origin));
    }
    Ok(Loaded {
        adjacency: None,
        graph,
        origin,
    })
}

/// The search on one graph after the other, and its answers so far.
struct Search<'a> {
    args: &'a SolveArgs,
    inputs: &'a Inputs,
    n_ranks: u32,
    /// The longest time of a graph, where other processes wait.
    longest: Option<f64>,
    answers: Vec<Answer<'a>>,
    /// Why a file could not be written.
    failed: anyhow::Result<()>,
}

impl<'a> Search<'a> {
    fn new(args: &'a SolveArgs, inputs: &'a Inputs, n_ranks: u32) -> Search<'a> {
        Search {
            args,
            inputs,
            n_ranks,
            longest: None,
            answers: Vec::new(),
            failed: Ok(()),
        }
    }

    fn options(&self) -> BestOptions {
        let args = self.args;
        let has_own_limit = args.time_limit.is_some() || args.method == Method::Exact;
        BestOptions {
            seed: args.graph.seed(),
            threads: args.threads.map_or(1, u32::from),
            steps: args.stages.search_steps(),
            seconds_after_reductions: (!has_own_limit).then_some(SECONDS_AFTER_REDUCTIONS),
            has_greedy: matches!(args.method, Method::Best | Method::Greedy),
            has_search: args.method != Method::Greedy,
            all_rows: args.stages.compares(),
        }
    }

    /// One graph's answer, written where that is asked for.
    fn solve(
        &mut self,
        loaded: &'a Loaded,
        options: &SolveOptions,
        play: &mut Play<'_>,
    ) -> anyhow::Result<()> {
        let timer = Timer::wall();
        let clock = || timer.elapsed_s();
        let limits = [self.args.time_limit, self.longest];
        let time_limit = limits.into_iter().flatten().reduce(f64::min);
        let progress = Mutex::new(Progress::of_time(&self.args.report, time_limit));
        let is_cancelled = || {
            // The searches ask often, and from several threads; one that is shown is enough.
            if let Ok(mut progress) = progress.try_lock() {
                progress.update(0, || loaded.origin.name.clone());
            }
            interrupt::is_interrupted()
        };
        let budget = Budget {
            clock: &clock,
            time_limit,
            is_cancelled: &is_cancelled,
        };
        let mut played = None;
        let mut run_policy = |seconds: Option<f64>| {
            let flag = Arc::new(AtomicBool::new(false));
            let options = SolveOptions {
                cancelled: Some(Arc::clone(&flag)),
                ..options.clone()
            };
            let begin = timer.elapsed_s();
            let found = play(loaded, &options, &mut |_, _| {
                let is_late = seconds.is_some_and(|seconds| timer.elapsed_s() - begin > seconds);
                if is_late || interrupt::is_interrupted() {
                    flag.store(true, Ordering::Relaxed);
                }
            });
            match found {
                Ok(found) => {
                    let nodes = found.nodes.clone();
                    played = Some(found);
                    Ok(Some(nodes))
                }
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let has_policy = self.inputs.policy.is_some();
        let found = solve_best(
            self.inputs.problem,
            &loaded.graph,
            &self.options(),
            &budget,
            has_policy.then_some(&mut run_policy),
        );
        drop(progress);
        let found = found.map_err(|error| of_graph(&loaded.origin, error.into()))?;
        self.add(loaded, found, played);
        Ok(())
    }

    fn add(
        &mut self,
        loaded: &'a Loaded,
        found: Best,
        played: Option<shardgraph_solver::Solution>,
    ) {
        if let Some(why) = found.policy_skipped {
            self.args
                .report
                .note(&format!("{}: {why}", loaded.origin.name));
        }
        let (nodes, origin) = (&found.nodes, &loaded.origin);
        let solved = Solved::new(self.inputs.problem, origin, &loaded.graph, nodes);
        let written = self.args.write(nodes, &origin.labels, Some(&solved));
        let mut answer = self.answer(loaded, found, played);
        match written {
            Ok(true) => answer.solution = None,
            Ok(false) => answer.out = None,
            Err(error) => {
                answer.out = None;
                self.failed = std::mem::replace(&mut self.failed, Ok(())).and(Err(error));
            }
        }
        self.answers.push(answer);
    }

    fn answer(
        &self,
        loaded: &'a Loaded,
        found: Best,
        played: Option<shardgraph_solver::Solution>,
    ) -> Answer<'a> {
        let (args, origin) = (self.args, &loaded.origin);
        let row = |row: &shardgraph_solver::Row| Row {
            name: row.name.clone(),
            objective: row.objective,
            seconds: row.seconds,
        };
        let policy = self.inputs.policy.as_ref().zip(played);
        let bound = found.bound.map(|bound| match found.objective {
            Objective::Count(_) => Objective::Count(bound as u64),
            Objective::Weight(_) => Objective::Weight(bound),
        });
        Answer {
            graph: &origin.name,
            problem: self.inputs.problem,
            method: args.method,
            nodes: loaded.graph.n_nodes(),
            edges: loaded.graph.n_edges(),
            objective: found.objective,
            sense: self.inputs.problem.sense,
            verified: true,
            optimal: found.is_optimal,
            bound,
            bound_source: bound.map(|_| match found.is_optimal {
                true => "reductions or exact search",
                false => "bounds of the search",
            }),
            gap: found.gap(),
            solution: Some(labelled(&found.nodes, &origin.labels)),
            rows: found.rows.iter().map(row).collect(),
            found_by: found.found_by,
            seconds: found.seconds,
            load_seconds: origin.load_seconds,
            seed: args.graph.seed(),
            ranks: self.n_ranks,
            device: self.inputs.device.kind().to_string(),
            policy: policy.map(|(policy, played)| PolicyReport {
                policy: &policy.source,
                path: played.path_name(),
                steps: played.n_steps,
                seconds_per_step: played.seconds / played.n_steps.max(1) as f64,
                exchange: None,
            }),
            stages: None,
            out: args.out.as_deref(),
            origin,
            shows_rows: args.stages.compares(),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        self.args.print(self.answers)?;
        self.failed
    }
}
