//! `shardgraph solve --method policy --problem`: the policy's checked answer to any problem but minimum vertex cover.

use std::sync::Arc;

use shardgraph_device::{Device, Timer};
use shardgraph_graph::Graph;
use shardgraph_solver::problem::{Problem, check_answer};
use shardgraph_solver::train::Preset;
use shardgraph_solver::{PaperModel, TrainedPolicy, solve_problems_as_rank};

use super::answer::{Answer, PolicyReport, Row, labelled};
use super::drawing::Solved;
use super::{SolveArgs, of_graph, options};
use crate::exchange_report::ExchangeReport;
use crate::exit::BadInput;
use crate::graph_argument::Origin;
use crate::progress::Progress;
use crate::report::ReportArgs;

/// What a solve starts from; every process reads it for itself.
struct Inputs {
    problem: &'static Problem,
    device: Device,
    policy: TrainedPolicy,
    graphs: Vec<Arc<Graph>>,
    /// Of each graph.
    origins: Vec<Origin>,
    /// For each graph the answers of greedy algorithms, where they are asked for. They are made before the policy's, by every process: none waits for another.
    baselines: Vec<Vec<Row>>,
}

/// Loads, solves, writes the nodes of the answer and prints it; of several processes, which all end with the same exit code, the first alone does.
pub(super) fn run(args: &SolveArgs, problem: &'static Problem) -> anyhow::Result<()> {
    let deadline = args.world.timeout.unwrap_or_default();
    let mut world = args.world.open(args.world.ranks, deadline)?;
    let n_ranks = world.n_ranks;
    let report = args.report.of_rank(world.comm.rank());
    let inputs = load(args, problem, &report, world.rank);
    let inputs = world.settle(inputs)?;
    let options = options(args, n_ranks, &inputs.device);
    let mut show = Show::new(&report, &inputs.graphs);
    let answers = solve_problems_as_rank(
        &mut world.comm,
        problem,
        &inputs.graphs,
        &inputs.policy,
        &options,
        &mut |n_candidates, n_picks| show.step(n_candidates, n_picks),
    );
    drop(show);
    let answers = answers.map_err(|error| inputs.of_graphs(error))?;
    world.on_first(|| finish(args, &inputs, answers, n_ranks))
}

/// `process` is the rank of this process, if it is one of several.
fn load(
    args: &SolveArgs,
    problem: &'static Problem,
    report: &ReportArgs,
    process: Option<u32>,
) -> anyhow::Result<Inputs> {
    if args.preset != Preset::Default {
        let text = "--preset paper is about vertex covers: leave it out with another --problem";
        return Err(BadInput(text.into()).into());
    }
    let device = args
        .world
        .device(args.device.kind, process.is_some(), report)?;
    if process.unwrap_or(0) == 0 {
        args.check_files()?;
    }
    let policy = args.policy(problem)?;
    let mut inputs = Inputs {
        problem,
        device,
        policy,
        graphs: Vec::new(),
        origins: Vec::new(),
        baselines: Vec::new(),
    };
    for graph in args.graphs() {
        let (graph, origin) = match problem.reads_weights {
            true => graph.whole_graph()?,
            false => {
                let (adjacency, origin) = graph.adjacency(report)?;
                let graph = adjacency.into_graph()?;
                if graph.weights().is_some() {
                    return Err(no_weights(problem, &origin));
                }
                (graph, origin)
            }
        };
        args.check_drawing(&graph, &origin)?;
        inputs.baselines.push(match args.stages.compares() {
            true => baselines(problem, &graph)?,
            false => Vec::new(),
        });
        inputs.graphs.push(Arc::new(graph));
        inputs.origins.push(origin);
    }
    Ok(inputs)
}

pub(super) fn no_weights(problem: &Problem, origin: &Origin) -> anyhow::Error {
    let (name, title) = (&origin.name, problem.title);
    BadInput(format!(
        "{name}: {title} reads no edge weights: leave --weighted out"
    ))
    .into()
}

impl Inputs {
    /// An error of the batch, which is that of its graph where it has one alone.
    fn of_graphs(&self, error: shardgraph_solver::Error) -> anyhow::Error {
        match &self.origins[..] {
            [origin] => of_graph(origin, error.into()),
            _ => error.into(),
        }
    }
}

fn baselines(problem: &Problem, graph: &Graph) -> anyhow::Result<Vec<Row>> {
    let mut all = Vec::new();
    for baseline in problem.baselines {
        let timer = Timer::wall();
        let objective = check_answer(problem, graph, &(baseline.find)(graph))?;
        all.push(Row {
            name: format!("greedy {}", baseline.name).into(),
            objective,
            seconds: timer.elapsed_s(),
        });
    }
    Ok(all)
}

/// The answers have been checked: only now may there be a file. They are printed although it could not be written.
fn finish(
    args: &SolveArgs,
    inputs: &Inputs,
    answers: Vec<shardgraph_solver::Solution>,
    n_ranks: u32,
) -> anyhow::Result<()> {
    let (mut all, mut failed) = (Vec::new(), Ok(()));
    // The batch has as many steps as its longest episode.
    let n_steps = answers.iter().map(|answer| answer.n_steps).max();
    for (i, answer) in answers.into_iter().enumerate() {
        let mut printed = printed(args, inputs, i, &answer, n_steps.unwrap_or(0), n_ranks);
        let (nodes, origin) = (&answer.nodes, &inputs.origins[i]);
        let solved = Solved::new(inputs.problem, origin, &inputs.graphs[i], nodes);
        match args.write(nodes, &origin.labels, Some(&solved)) {
            Ok(true) => {
                printed.out = args.out.as_deref();
                printed.solution = None;
            }
            Ok(false) => (),
            Err(error) => failed = Err(error),
        }
        all.push(printed);
    }
    args.print(all)?;
    failed
}

fn printed<'a>(
    args: &SolveArgs,
    inputs: &'a Inputs,
    i: usize,
    answer: &shardgraph_solver::Solution,
    n_steps: u64,
    n_ranks: u32,
) -> Answer<'a> {
    let (problem, graph, origin) = (inputs.problem, &inputs.graphs[i], &inputs.origins[i]);
    let is_shared = n_ranks > 1 || args.exchange.communication.is_some();
    let (n_nodes, n_edges) = (graph.n_nodes(), graph.n_edges());
    let paper = PaperModel::of_state(n_ranks, n_nodes, n_edges, inputs.policy.config.shape());
    // Of a batch the exchange is that of all graphs, which no one answer can give.
    let exchange = answer
        .exchange
        .filter(|_| is_shared && inputs.graphs.len() == 1);
    let own = Row {
        name: "policy".into(),
        objective: answer.objective,
        seconds: answer.seconds,
    };
    let others = inputs.baselines[i].iter().cloned();
    Answer {
        graph: &origin.name,
        problem,
        method: args.method,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        objective: answer.objective,
        sense: problem.sense,
        verified: true,
        optimal: false,
        bound: None,
        bound_source: None,
        gap: None,
        found_by: "policy".into(),
        rows: std::iter::once(own).chain(others).collect(),
        seconds: answer.seconds,
        load_seconds: origin.load_seconds,
        seed: args.graph.seed(),
        ranks: n_ranks,
        device: inputs.device.kind().to_string(),
        policy: Some(PolicyReport {
            policy: &inputs.policy.source,
            path: format!("{}+csr", answer.path),
            steps: answer.n_steps,
            seconds_per_step: answer.seconds / n_steps.max(1) as f64,
            exchange: exchange
                .map(|exchange| ExchangeReport::of_evaluations(&exchange, n_steps, &paper)),
        }),
        stages: None,
        solution: Some(labelled(&answer.nodes, &origin.labels)),
        out: None,
        origin,
        shows_rows: args.stages.compares(),
    }
}

/// Progress of a solve.
struct Show {
    n_nodes: u64,
    progress: Progress,
}

impl Show {
    fn new(report: &ReportArgs, graphs: &[Arc<Graph>]) -> Self {
        let n_nodes = graphs.iter().map(|graph| u64::from(graph.n_nodes())).sum();
        let progress = Progress::new(report, n_nodes, "nodes");
        Self { n_nodes, progress }
    }

    fn step(&mut self, n_candidates: u32, n_picks: usize) {
        let n_settled = self.n_nodes.saturating_sub(u64::from(n_candidates));
        self.progress
            .update(n_settled, || format!("{n_picks} picked"));
    }
}
