//! `shardgraph solve --problem`: a checked answer to any problem but minimum vertex cover, beside those of greedy algorithms.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_solver::problem::{Objective, Problem, Sense, check_answer};
use shardgraph_solver::train::Preset;
use shardgraph_solver::{PaperModel, TrainedPolicy, solve_problems, solve_problems_as_rank};

use super::{POLICY_FILE, SolveArgs, of_graph, options, write_cover};
use crate::eval::score::is_better;
use crate::exchange_report::ExchangeReport;
use crate::exit::BadInput;
use crate::graph_argument::Origin;
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::world::{World, settle};

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    problem: &'static str,
    nodes: u32,
    edges: u64,
    objective: Objective,
    sense: Sense,
    verified: bool,
    baselines: Vec<Baseline>,
    steps: u64,
    seconds: f64,
    seconds_per_step: f64,
    load_seconds: f64,
    ranks: u32,
    device: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<ExchangeReport>,
    policy: &'a str,
    #[serde(skip)]
    title: (&'static str, &'static str),
    #[serde(skip)]
    origin: &'a Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}

/// A greedy algorithm's answer, checked as the policy's.
#[derive(Clone, Serialize)]
struct Baseline {
    name: &'static str,
    objective: Objective,
}

/// What a solve starts from; every process reads it for itself.
struct Inputs {
    problem: &'static Problem,
    device: Device,
    policy: TrainedPolicy,
    graphs: Vec<Arc<Graph>>,
    /// Of each graph.
    origins: Vec<Origin>,
    /// For each graph the answers of greedy algorithms. They are made before the policy's, by every process: none waits for another.
    baselines: Vec<Vec<Baseline>>,
}

/// Loads, solves, writes the nodes of the answer and prints it.
pub(super) fn run(args: &SolveArgs, problem: &'static Problem) -> anyhow::Result<()> {
    let deadline = args.timeout.unwrap_or_default();
    match args.world.open(args.world.ranks, deadline)? {
        World::Threads(n_ranks) => {
            let inputs = load(args, problem, &args.report, None)?;
            let options = options(args, n_ranks, &inputs.device);
            let mut show = Show::new(&args.report, &inputs.graphs);
            let answers = solve_problems(
                problem,
                &inputs.graphs,
                &inputs.policy,
                &options,
                &mut |n_candidates, n_picks| show.step(n_candidates, n_picks),
            );
            drop(show);
            let answers = answers.map_err(|error| inputs.of_graphs(error))?;
            finish(args, &inputs, answers, n_ranks)
        }
        World::Process(mut comm) => run_as_rank(args, problem, &mut comm),
    }
}

/// As one of several processes. All end with the same exit code; the first alone writes and prints.
fn run_as_rank(args: &SolveArgs, problem: &'static Problem, comm: &mut Comm) -> anyhow::Result<()> {
    let deadline = args.timeout.unwrap_or_default();
    let report = args.report.of_rank(comm.rank());
    let inputs = load(args, problem, &report, Some(comm.rank()));
    let inputs = settle(comm, inputs, deadline)?;
    let options = options(args, comm.size(), &inputs.device);
    let mut show = Show::new(&report, &inputs.graphs);
    let answers = solve_problems_as_rank(
        comm,
        problem,
        &inputs.graphs,
        &inputs.policy,
        &options,
        &mut |n_candidates, n_picks| show.step(n_candidates, n_picks),
    );
    drop(show);
    let answers = answers.map_err(|error| inputs.of_graphs(error))?;
    let finished = match comm.rank() {
        0 => finish(args, &inputs, answers, comm.size()),
        _ => Ok(()),
    };
    settle(comm, finished, deadline)
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
    let device = args.world.device(args.device, process.is_some(), report)?;
    let is_writer = process.unwrap_or(0) == 0;
    if let Some(out) = args.out.as_ref().filter(|_| is_writer) {
        args.check_inputs_stay(out)?;
    }
    let policy = match &args.model {
        Some(path) => TrainedPolicy::read(&output_file::model_file(path, POLICY_FILE))?,
        None => TrainedPolicy::shipped_for(problem)?,
    };
    policy.check_problem(problem)?;
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
        inputs.baselines.push(baselines(problem, &graph)?);
        inputs.graphs.push(Arc::new(graph));
        inputs.origins.push(origin);
    }
    Ok(inputs)
}

fn no_weights(problem: &Problem, origin: &Origin) -> anyhow::Error {
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

fn baselines(problem: &Problem, graph: &Graph) -> anyhow::Result<Vec<Baseline>> {
    let mut all = Vec::new();
    for baseline in problem.baselines {
        let objective = check_answer(problem, graph, &(baseline.find)(graph))?;
        let name = baseline.name;
        all.push(Baseline { name, objective });
    }
    Ok(all)
}

/// The answers have been checked: only now may there be a file. They are printed although it could not be written.
fn finish(
    args: &SolveArgs,
    inputs: &Inputs,
    answers: Vec<shardgraph_solver::Answer>,
    n_ranks: u32,
) -> anyhow::Result<()> {
    let (mut all, mut failed) = (Vec::new(), Ok(()));
    // The batch has as many steps as its longest episode.
    let n_steps = answers.iter().map(|answer| answer.n_steps).max();
    let is_shared = n_ranks > 1 || args.communication.is_some();
    for (i, answer) in answers.into_iter().enumerate() {
        let answer = (&answer, n_steps.unwrap_or(0));
        let mut printed = printed(inputs, i, answer, (n_ranks, is_shared));
        if let Some(out) = &args.out {
            match write_cover(out, &answer.0.nodes, &inputs.origins[i].labels) {
                Ok(()) => {
                    args.report.note(&format!("wrote {}", out.display()));
                    printed.out = Some(out);
                }
                Err(error) => failed = Err(error.into()),
            }
        }
        all.push(printed);
    }
    args.print(all)?;
    failed
}

fn printed<'a>(
    inputs: &'a Inputs,
    i: usize,
    (answer, n_steps): (&shardgraph_solver::Answer, u64),
    (n_ranks, is_shared): (u32, bool),
) -> Answer<'a> {
    let (problem, graph, origin) = (inputs.problem, &inputs.graphs[i], &inputs.origins[i]);
    let sizes = (graph.n_nodes(), graph.n_edges());
    let paper = PaperModel::of_state(n_ranks, sizes, inputs.policy.config.shape());
    // Of a batch the exchange is that of all graphs, which no one answer can give.
    let exchange = answer
        .exchange
        .filter(|_| is_shared && inputs.graphs.len() == 1);
    Answer {
        graph: &origin.name,
        problem: problem.name,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        objective: answer.objective,
        sense: problem.sense,
        verified: true,
        baselines: inputs.baselines[i].clone(),
        steps: answer.n_steps,
        seconds: answer.seconds,
        seconds_per_step: answer.seconds / n_steps.max(1) as f64,
        load_seconds: origin.load_seconds,
        ranks: n_ranks,
        device: inputs.device.kind().to_string(),
        path: format!("{}+csr", answer.path),
        exchange: exchange
            .map(|exchange| ExchangeReport::of_evaluations(&exchange, n_steps, &paper)),
        policy: &inputs.policy.source,
        title: (problem.title, problem.objective_name),
        origin,
        out: None,
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

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, objective) = self.title;
        let verified = if self.verified { "yes" } else { "no" };
        write!(f, "{}", self.origin)?;
        writeln!(f, "problem {problem}")?;
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "{objective} {}", self.objective)?;
        writeln!(f, "verified {verified}")?;
        for Baseline { name, objective } in &self.baselines {
            let note = match is_better(self.sense, *objective, self.objective.value()) {
                true => " (better than the policy's)",
                false => "",
            };
            writeln!(f, "greedy {name} {objective}{note}")?;
        }
        writeln!(f, "steps {}", self.steps)?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(f, "seconds per step {:.9}", self.seconds_per_step)?;
        writeln!(f, "load seconds {:.6}", self.load_seconds)?;
        writeln!(f, "ranks {}", self.ranks)?;
        writeln!(f, "device {}", self.device)?;
        writeln!(f, "path {}", self.path)?;
        if let Some(exchange) = &self.exchange {
            write!(f, "{exchange}")?;
        }
        writeln!(f, "policy {}", self.policy)?;
        match self.out {
            Some(path) => writeln!(f, "answer file {}", path.display()),
            None => Ok(()),
        }
    }
}
