//! `shardgraph solve --method policy`: a checked vertex cover by the policy, with the stages around it that are asked for.

use std::sync::Arc;

use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::{MINIMUM_VERTEX_COVER, Objective};
use shardgraph_solver::{
    PaperModel, SolveOptions, TrainedPolicy, cover_by_independent_set, solve_as_rank, solve_reduced,
};

use super::answer::{Answer, PolicyReport, Row, StagesReport, labelled};
use super::drawing::Solved;
use super::{SolveArgs, is_of_sets, of_graph, options};
use crate::exchange_report::ExchangeReport;
use crate::exit::BadInput;
use crate::graph_argument::Origin;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::solve_stages::{Found, ReductionReport, Refined, Stage, refine};

/// What a solve starts from; every process reads it for itself.
struct Inputs {
    device: Device,
    policy: TrainedPolicy,
    graphs: Vec<Loaded>,
}

/// One graph.
struct Loaded {
    adjacency: Adjacency,
    /// For an output that shows it.
    graph: Option<Arc<Graph>>,
    origin: Origin,
}

/// Loads, solves, writes the cover and prints the answer; of several processes, which all end with the same exit code, the first alone does.
pub(super) fn run(args: &SolveArgs) -> anyhow::Result<()> {
    let deadline = args.world.timeout.unwrap_or_default();
    let mut world = args.world.open(args.world.ranks, deadline)?;
    let (n_ranks, rank) = (world.n_ranks, world.rank);
    let report = args.report.of_rank(world.comm.rank());
    let inputs = world.settle(load(args, &report, rank))?;
    let (options, policy) = (options(args, n_ranks, &inputs.device), &inputs.policy);
    let mut solve_one = |adjacency: &Adjacency, options: &SolveOptions| {
        let mut show = Show::new(&report, adjacency);
        let step = &mut |n_candidates, n_cover| show.step(n_candidates, n_cover);
        match is_of_sets(policy) {
            true => cover_by_independent_set(adjacency, policy, options, step),
            false => solve_as_rank(&mut world.comm, adjacency, policy, options, step),
        }
    };
    let (found, failed) = find_all(args, &inputs, &options, &mut solve_one);
    // The others wait while the first one finishes; see `StageArgs::check`.
    let share = deadline.duration().as_secs_f64() / (8 * inputs.graphs.len()) as f64;
    let finish = || finish(args, &inputs, &found, n_ranks, rank.map(|_| share));
    let finished = if world.is_first() { finish() } else { Ok(()) };
    // Where the policy failed, all ranks know it.
    failed?;
    world.settle(finished)
}

/// Refuses what a policy for independent sets does not do for covers.
fn check_of_sets(
    args: &SolveArgs,
    policy: &TrainedPolicy,
    is_process: bool,
) -> Result<(), BadInput> {
    let why = match is_process {
        true => "in one process: take --ranks there, or --problem mis",
        false if args.stages.is_reduced_inside() => "without --reduce-inside",
        false if args.preset.keeps_isolated() => "without --preset paper",
        false => return Ok(()),
    };
    let source = &policy.source;
    Err(BadInput(format!(
        "{source}: a policy for independent sets (mis) finds covers {why}"
    )))
}

/// Runs the policy on a graph.
type SolveOne<'s> = dyn FnMut(
        &Adjacency,
        &SolveOptions,
    ) -> Result<shardgraph_solver::Solution, shardgraph_solver::Error>
    + 's;

/// What the policy finds on each graph, one after the other, up to the first failure.
fn find_all(
    args: &SolveArgs,
    inputs: &Inputs,
    options: &SolveOptions,
    solve_one: &mut SolveOne<'_>,
) -> (Vec<Found>, anyhow::Result<()>) {
    let mut all = Vec::new();
    for graph in &inputs.graphs {
        let alone = match solve_one(&graph.adjacency, options) {
            Ok(alone) => alone,
            Err(error) => return (all, Err(of_graph(&graph.origin, error.into()))),
        };
        let mut found = Found {
            alone,
            inside: None,
            reduced: None,
        };
        let more = find_more(args, &graph.adjacency, options, solve_one, &mut found);
        all.push(found);
        if let Err(error) = more {
            return (all, Err(of_graph(&graph.origin, error)));
        }
    }
    (all, Ok(()))
}

/// What the policy finds with rules; what comes before a failure stays.
fn find_more(
    args: &SolveArgs,
    adjacency: &Adjacency,
    options: &SolveOptions,
    solve_one: &mut SolveOne<'_>,
    found: &mut Found,
) -> anyhow::Result<()> {
    if args.stages.is_reduced_inside() {
        let options = SolveOptions {
            reduce_inside: true,
            ..options.clone()
        };
        found.inside = Some(solve_one(adjacency, &options)?);
    }
    if args.stages.is_reduced() {
        let graph = adjacency.to_lists()?;
        let mut solve_one = |part: &Adjacency| solve_one(part, options);
        found.reduced = Some(solve_reduced(&graph, &mut solve_one)?);
    }
    Ok(())
}

/// `process` is the rank of this process, if it is one of several.
fn load(args: &SolveArgs, report: &ReportArgs, process: Option<u32>) -> anyhow::Result<Inputs> {
    let device = args
        .world
        .device(args.device.kind, process.is_some(), report)?;
    if process.unwrap_or(0) == 0 {
        args.check_files()?;
    }
    let policy = args.policy(&MINIMUM_VERTEX_COVER)?;
    if is_of_sets(&policy) {
        check_of_sets(args, &policy, process.is_some())?;
    }
    let waiting = process.map(|_| args.world.timeout.unwrap_or_default());
    let n_graphs = 1 + args.more.len();
    args.stages
        .check(MINIMUM_VERTEX_COVER.name, waiting, n_graphs)?;
    args.stages.check_inside(args.preset, device.kind())?;
    let mut graphs = Vec::new();
    for graph in args.graphs() {
        let (adjacency, origin) = graph.adjacency(report)?;
        args.stages.check_size(&adjacency, &origin.name)?;
        let graph = match args.shows_graph() {
            true => Some(adjacency.to_lists()?),
            false => None,
        };
        if let Some(graph) = &graph {
            args.check_drawing(graph, &origin)?;
        }
        graphs.push(Loaded {
            adjacency,
            graph,
            origin,
        });
    }
    Ok(Inputs {
        device,
        policy,
        graphs,
    })
}

/// `solve` and the stages have checked every cover: only now may there be a file.
fn finish(
    args: &SolveArgs,
    inputs: &Inputs,
    found: &[Found],
    n_ranks: u32,
    patience: Option<f64>,
) -> anyhow::Result<()> {
    let (mut answers, mut failed) = (Vec::new(), Ok(()));
    for (graph, found) in inputs.graphs.iter().zip(found) {
        let refined = refine(&args.stages, &graph.adjacency, found, patience);
        // The answer may have taken hours: it is printed although a later stage failed, or the cover could not be written.
        let refined = refined.unwrap_or_else(|error| {
            let error = Err(of_graph(&graph.origin, error));
            failed = std::mem::replace(&mut failed, Ok(())).and(error);
            Refined::alone(found)
        });
        let (cover, origin) = (&refined.cover, &graph.origin);
        let shown = graph.graph.as_ref();
        let solved = shown.map(|graph| Solved::new(&MINIMUM_VERTEX_COVER, origin, graph, cover));
        let written = args.write(cover, &origin.labels, solved.as_ref());
        let mut answer = answer(args, inputs, graph, &found.alone, refined, n_ranks);
        match written {
            Ok(true) => answer.solution = None,
            Ok(false) => answer.out = None,
            Err(error) => {
                answer.out = None;
                failed = std::mem::replace(&mut failed, Ok(())).and(Err(error));
            }
        }
        answers.push(answer);
    }
    if !answers.is_empty() {
        args.print(answers)?;
    }
    failed
}

/// Progress of a solve.
struct Show {
    n_nodes: u32,
    progress: Progress,
}

impl Show {
    fn new(report: &ReportArgs, adjacency: &Adjacency) -> Self {
        let n_nodes = adjacency.n_nodes();
        let progress = Progress::new(report, u64::from(n_nodes), "nodes");
        Self { n_nodes, progress }
    }

    fn step(&mut self, n_candidates: u32, n_cover: usize) {
        let n_settled = u64::from(self.n_nodes.saturating_sub(n_candidates));
        self.progress
            .update(n_settled, || format!("cover {n_cover}"));
    }
}

fn answer<'a>(
    args: &'a SolveArgs,
    inputs: &'a Inputs,
    graph: &'a Loaded,
    alone: &shardgraph_solver::Solution,
    refined: Refined,
    n_ranks: u32,
) -> Answer<'a> {
    let by_reductions = refined.reduction.as_ref().map(ReductionReport::lower_bound);
    let Inputs { device, policy, .. } = inputs;
    let Loaded {
        adjacency, origin, ..
    } = graph;
    let (n_nodes, n_edges) = (adjacency.n_nodes(), adjacency.n_edges());
    let paper = PaperModel::of_state(n_ranks, n_nodes, n_edges, policy.config.shape());
    let is_shared = n_ranks > 1 || args.exchange.communication.is_some();
    let exchange = alone.exchange.as_ref().filter(|_| is_shared);
    let size = |n: u64| Objective::Count(n);
    let objective = refined.cover.len() as u64;
    let matching = adjacency.maximal_matching();
    let (bound, bound_source) = match by_reductions {
        Some(bound) if bound >= matching => (bound, "reductions"),
        _ => (matching, "maximal matching"),
    };
    let row = |stage: &Stage| Row {
        name: stage.name.into(),
        objective: size(stage.objective as u64),
        seconds: stage.seconds,
    };
    let first = refined.stages.iter();
    let first = first.min_by_key(|stage| stage.objective);
    let seconds: f64 = refined.stages.iter().map(|stage| stage.seconds).sum();
    Answer {
        graph: &origin.name,
        problem: &MINIMUM_VERTEX_COVER,
        method: args.method,
        nodes: adjacency.n_nodes(),
        edges: adjacency.n_edges(),
        objective: size(objective),
        sense: MINIMUM_VERTEX_COVER.sense,
        verified: true,
        optimal: bound == objective,
        bound: Some(size(bound)),
        bound_source: Some(bound_source),
        gap: Some((objective - bound) as f64 / objective.max(1) as f64),
        found_by: first.map_or("policy", |stage| stage.name).into(),
        rows: refined.stages.iter().map(row).collect(),
        seconds,
        load_seconds: origin.load_seconds,
        seed: args.graph.seed(),
        ranks: n_ranks,
        // What `auto` found, not what was asked for.
        device: device.kind().to_string(),
        policy: Some(PolicyReport {
            policy: &policy.source,
            path: alone.path_name(),
            steps: alone.n_steps,
            seconds_per_step: alone.seconds / alone.n_steps.max(1) as f64,
            exchange: exchange
                .map(|exchange| ExchangeReport::of_evaluations(exchange, alone.n_steps, &paper)),
        }),
        solution: Some(labelled(&refined.cover, &origin.labels)),
        stages: Some(StagesReport {
            stages: refined.stages,
            reduction: refined.reduction,
            compare: refined.compare,
        }),
        origin,
        shows_rows: false,
        out: args.out.as_deref(),
    }
}
