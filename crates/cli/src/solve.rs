//! `shardgraph solve`: a checked vertex cover of one graph, or the answer to another problem on it.

mod problem;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Device, DeviceKind};
use shardgraph_error::Class;
use shardgraph_graph::Labels;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::{
    MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, PROBLEMS, problem_by_name,
};
use shardgraph_solver::train::Preset;
use shardgraph_solver::{
    Communication, EmbeddingPath, ErrorKind, PaperModel, Select, Solution, SolveOptions,
    TrainedPolicy, cover_by_independent_set, solve, solve_as_rank, solve_reduced,
};

use crate::exchange_report::ExchangeReport;
use crate::exit::BadInput;
use crate::graph_argument::{GraphArgs, Origin};
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::solve_stages::{Found, ReductionReport, Refined, Stage, StageArgs, refine};
use crate::world::{World, WorldArgs, settle};
use crate::{duration, output_file};

const EXAMPLE: &str = "\
Examples:
  shardgraph solve karate
  shardgraph solve graph.mtx.gz --ranks 2 --nodes-per-step adaptive --out cover.txt
  shardgraph solve graph.mtx.gz --reduce --local-search 10s --compare
  shardgraph solve brock200_4.clq --complement --format json
  shardgraph solve brock200_4.clq --problem clique
  shardgraph solve first.mtx second.mtx third.mtx --problem mis --format json

Problems: mvc (minimum vertex cover), mis (maximum independent set), clique (maximum clique), cut
(maximum cut; of declared edge weights, or those of an edge list with --weighted) and dominating-set
(minimum dominating set). A policy is for one of them; one for mis also covers (mvc) by what its set leaves.";

/// Find a small vertex cover with a trained policy, or the answer to another problem, and check it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Further graphs, each with an answer of its own; problems other than mvc are solved in one batch
    #[arg(value_name = "GRAPH")]
    more: Vec<OsString>,
    #[arg(help_heading = "Method", long, value_name = "PROBLEM", default_value = "mvc", help = format!("What is looked for: {}", problem_names()))]
    problem: String,
    #[command(flatten)]
    world: WorldArgs,
    /// A trained model: a policy or run folder of `shardgraph train`, or a shipped name such as
    /// mvc-three-layers [default: PROBLEM-default]
    #[arg(help_heading = "Method", long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
    /// Nodes that a step picks; adaptive: 8, 4, 2, 1 as candidates get fewer
    #[arg(
        help_heading = "Method",
        long,
        value_name = "adaptive|N",
        default_value = "1"
    )]
    nodes_per_step: Select,
    /// How the policy is evaluated; auto takes the cheapest. They are equal but for rounding, which can decide ties
    #[arg(
        help_heading = "Method",
        hide_short_help = true,
        long,
        value_enum,
        value_name = "PATH",
        default_value = "auto"
    )]
    path: PathChoice,
    /// How ranks share sums of embeddings over neighbours, which the closed form does not need: paper (all-reduce of partial sums), gather (all
    /// rows to all ranks), halo (the rows that have neighbours there) or grid (2D blocks) [default: gather]
    #[arg(
        help_heading = "Ranks and devices",
        hide_short_help = true,
        long,
        value_name = "paper|gather|halo|grid"
    )]
    communication: Option<Communication>,
    /// Named settings: default, or paper (keeps picks that earlier picks of the same step left without an
    /// edge)
    #[arg(
        help_heading = "Method",
        long,
        value_name = "default|paper",
        default_value = "default"
    )]
    preset: Preset,
    /// File to write: the labels of the answer's nodes, one a line, of a cut those of one side; - is
    /// standard output
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where to compute: host, emulated, cuda, cuda:N or auto (the first GPU if there is one)
    #[arg(
        help_heading = "Ranks and devices",
        long,
        value_name = "DEVICE",
        default_value = "host"
    )]
    device: DeviceKind,
    /// Longest wait: for another rank [default: 600s]
    #[arg(help_heading = "Ranks and devices", long, value_name = "DURATION", value_parser = duration::timeout)]
    timeout: Option<Timeout>,
    #[command(flatten)]
    stages: StageArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// The result in the folder of a training run.
pub(crate) const POLICY_FILE: &str = "policy.safetensors";

/// The short names of all problems, for help texts.
pub(crate) fn problem_names() -> String {
    let names: Vec<&str> = PROBLEMS.iter().map(|problem| problem.name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("{} or {last}", others.join(", "))
}

/// The paths of the embedding, as flags.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PathChoice {
    Auto,
    General,
    FreeFirstLayer,
    Collapsed,
}

impl PathChoice {
    pub(crate) fn path(self) -> Option<EmbeddingPath> {
        match self {
            Self::Auto => None,
            Self::General => Some(EmbeddingPath::General),
            Self::FreeFirstLayer => Some(EmbeddingPath::FreeFirstLayer),
            Self::Collapsed => Some(EmbeddingPath::Collapsed),
        }
    }
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    problem: &'a str,
    nodes: u32,
    edges: u64,
    objective: usize,
    verified: bool,
    lower_bound: u64,
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
    stages: Vec<Stage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reduction: Option<ReductionReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Vec<Stage>>,
    #[serde(skip)]
    origin: &'a Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}

/// What a solve starts from; every process reads it for itself.
struct Inputs {
    device: Device,
    policy: TrainedPolicy,
    graphs: Vec<Loaded>,
}

/// One graph.
struct Loaded {
    adjacency: Adjacency,
    origin: Origin,
}

/// The answers to several graphs, each as that of one.
#[derive(Serialize)]
struct Answers<T> {
    answers: Vec<T>,
}

impl<T: fmt::Display> fmt::Display for Answers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, answer) in self.answers.iter().enumerate() {
            let gap = if i > 0 { "\n" } else { "" };
            write!(f, "{gap}{answer}")?;
        }
        Ok(())
    }
}

impl SolveArgs {
    /// All graphs, in the order of the command line.
    fn graphs(&self) -> Vec<GraphArgs> {
        let more = self.more.iter().map(|graph| self.graph.of(graph));
        std::iter::once(self.graph.clone()).chain(more).collect()
    }

    /// Refuses a file for the answer in place of one that is read.
    fn check_inputs_stay(&self, out: &Path) -> Result<(), BadInput> {
        let graphs = self.graphs();
        let files = graphs.iter().filter_map(GraphArgs::file);
        output_file::check(out, files.chain(self.model.as_deref()))
    }

    /// Refuses an answer file for several answers.
    fn check_out(&self) -> anyhow::Result<()> {
        match self.out.is_some() && !self.more.is_empty() {
            true => Err(BadInput(
                "--out is the file of one answer: give one graph, or leave it out".into(),
            )
            .into()),
            false => Ok(()),
        }
    }

    /// Prints the answer, or a list of them.
    fn print<T: Serialize + fmt::Display>(&self, answers: Vec<T>) -> anyhow::Result<()> {
        match &answers[..] {
            [answer] if self.more.is_empty() => self.report.answer(answer),
            _ => self.report.answer(&Answers { answers }),
        }
    }
}

/// Loads, solves, writes the cover and prints the answer.
pub(crate) fn run(args: &SolveArgs) -> anyhow::Result<()> {
    let wanted = problem_by_name(&args.problem).map_err(|e| BadInput(format!("--problem: {e}")))?;
    args.check_out()?;
    args.report.leave_output_to(args.out.as_deref());
    if wanted.name != MINIMUM_VERTEX_COVER.name {
        args.stages.check(wanted.name, (None, 1))?;
        return problem::run(args, wanted);
    }
    let deadline = args.timeout.unwrap_or_default();
    match args.world.open(args.world.ranks, deadline)? {
        World::Threads(n_ranks) => {
            let inputs = load(args, &args.report, None)?;
            let options = options(args, n_ranks, &inputs.device);
            let mut solve_one = |adjacency: &Adjacency, options: &SolveOptions| {
                let mut show = Show::new(&args.report, adjacency);
                let step = &mut |n_candidates, n_cover| show.step(n_candidates, n_cover);
                let way = match is_of_sets(&inputs.policy) {
                    true => cover_by_independent_set,
                    false => solve,
                };
                way(adjacency, &inputs.policy, options, step)
            };
            let (found, failed) = find_all(args, &inputs, &options, &mut solve_one);
            let finished = finish(args, &inputs, &found, (n_ranks, None));
            failed.and(finished)
        }
        World::Process(mut comm) => run_as_rank(args, &mut comm, deadline),
    }
}

/// As one of several processes. All end with the same exit code; the first alone writes and prints.
fn run_as_rank(args: &SolveArgs, comm: &mut Comm, deadline: Timeout) -> anyhow::Result<()> {
    let report = args.report.of_rank(comm.rank());
    let inputs = load(args, &report, Some(comm.rank()));
    let inputs = settle(comm, inputs, deadline)?;
    let options = options(args, comm.size(), &inputs.device);
    let mut solve_one = |adjacency: &Adjacency, options: &SolveOptions| {
        let mut show = Show::new(&report, adjacency);
        let step = &mut |n_candidates, n_cover| show.step(n_candidates, n_cover);
        solve_as_rank(comm, adjacency, &inputs.policy, options, step)
    };
    let (found, failed) = find_all(args, &inputs, &options, &mut solve_one);
    // The others wait while the first one finishes; see `StageArgs::check`.
    let patience = deadline.duration().as_secs_f64() / (8 * inputs.graphs.len()) as f64;
    let finished = match comm.rank() {
        0 => finish(args, &inputs, &found, (comm.size(), Some(patience))),
        _ => Ok(()),
    };
    // Where the policy failed, all ranks know it.
    failed?;
    settle(comm, finished, deadline)
}

/// Whether a policy is for independent sets, which cover by what they leave.
pub(crate) fn is_of_sets(policy: &TrainedPolicy) -> bool {
    policy.config.problem == MAXIMUM_INDEPENDENT_SET.name
}

/// Refuses a policy that finds no covers.
pub(crate) fn check_covers(policy: &TrainedPolicy) -> Result<(), shardgraph_solver::Error> {
    match is_of_sets(policy) {
        true => policy.check_problem(&MAXIMUM_INDEPENDENT_SET),
        false => policy.check_problem(&MINIMUM_VERTEX_COVER),
    }
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
type SolveOne<'s> =
    dyn FnMut(&Adjacency, &SolveOptions) -> Result<Solution, shardgraph_solver::Error> + 's;

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

/// An error with the name of the graph before it, unless it is about a rank or a device.
fn of_graph(origin: &Origin, error: anyhow::Error) -> anyhow::Error {
    let solver = error.downcast_ref::<shardgraph_solver::Error>();
    let is_about_it = solver.is_none_or(|error| {
        error.comm_error().is_none() && matches!(error.class(), Class::Input | Class::NoAnswer)
    });
    match is_about_it {
        true => {
            let text = format!("{}: {error}", origin.name);
            error.context(text)
        }
        false => error,
    }
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
        let graph = adjacency.clone().into_graph()?;
        let mut solve_one = |part: &Adjacency| solve_one(part, options);
        found.reduced = Some(solve_reduced(&graph, &mut solve_one)?);
    }
    Ok(())
}

/// `process` is the rank of this process, if it is one of several.
fn load(args: &SolveArgs, report: &ReportArgs, process: Option<u32>) -> anyhow::Result<Inputs> {
    let device = args.world.device(args.device, process.is_some(), report)?;
    let is_writer = process.unwrap_or(0) == 0;
    if let Some(out) = args.out.as_ref().filter(|_| is_writer) {
        args.check_inputs_stay(out)?;
    }
    let policy = match &args.model {
        Some(path) => TrainedPolicy::read(&output_file::model_file(path, POLICY_FILE))?,
        None => TrainedPolicy::shipped()?,
    };
    check_covers(&policy)?;
    if is_of_sets(&policy) {
        check_of_sets(args, &policy, process.is_some())?;
    }
    let waiting = process.map(|_| args.timeout.unwrap_or_default());
    let n_graphs = 1 + args.more.len();
    args.stages
        .check(MINIMUM_VERTEX_COVER.name, (waiting, n_graphs))?;
    args.stages.check_inside(args.preset, device.kind())?;
    let mut graphs = Vec::new();
    for graph in args.graphs() {
        let (adjacency, origin) = graph.adjacency(report)?;
        args.stages.check_size(&adjacency, &origin.name)?;
        graphs.push(Loaded { adjacency, origin });
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
    (n_ranks, patience): (u32, Option<f64>),
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
        let mut written = Ok(());
        if let Some(out) = &args.out {
            written = write_cover(out, &refined.cover, &graph.origin.labels);
            if written.is_ok() {
                args.report.note(&format!("wrote {}", out.display()));
            }
        }
        let mut answer = answer(args, inputs, graph, (&found.alone, refined), n_ranks);
        if written.is_err() {
            answer.out = None;
        }
        failed = failed.and(written.map_err(Into::into));
        answers.push(answer);
    }
    if !answers.is_empty() {
        args.print(answers)?;
    }
    failed
}

fn options(args: &SolveArgs, n_ranks: u32, device: &Device) -> SolveOptions {
    SolveOptions {
        n_ranks,
        select: args.nodes_per_step,
        path: args.path.path(),
        keep_isolated: args.preset.keeps_isolated(),
        reduce_inside: false,
        communication: args.communication,
        deadline: args.timeout.unwrap_or_default(),
        device: device.clone(),
    }
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

/// One original label a line, in the order of the node ids.
fn write_cover(
    path: &Path,
    cover: &[u32],
    labels: &Labels,
) -> Result<(), shardgraph_solver::Error> {
    let mut sorted = cover.to_vec();
    sorted.sort_unstable();
    let write = |out: &mut dyn Write| -> io::Result<()> {
        let mut out = BufWriter::new(out);
        for &node in &sorted {
            labels.write_label(node, &mut out)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    output_file::write(path, write).map_err(|source| {
        let path = path.to_owned();
        ErrorKind::Io { path, source }.into()
    })
}

fn answer<'a>(
    args: &'a SolveArgs,
    inputs: &'a Inputs,
    graph: &'a Loaded,
    (alone, refined): (&Solution, Refined),
    n_ranks: u32,
) -> Answer<'a> {
    let by_reductions = refined.reduction.as_ref().map(ReductionReport::lower_bound);
    let Inputs { device, policy, .. } = inputs;
    let Loaded { adjacency, origin } = graph;
    let sizes = (adjacency.n_nodes(), adjacency.n_edges());
    let paper = PaperModel::of_state(n_ranks, sizes, policy.config.shape());
    let is_shared = n_ranks > 1 || args.communication.is_some();
    let exchange = alone.exchange.as_ref().filter(|_| is_shared);
    Answer {
        graph: &origin.name,
        problem: MINIMUM_VERTEX_COVER.name,
        nodes: adjacency.n_nodes(),
        edges: adjacency.n_edges(),
        objective: refined.cover.len(),
        verified: true,
        lower_bound: adjacency.maximal_matching().max(by_reductions.unwrap_or(0)),
        steps: alone.n_steps,
        seconds: refined.stages.iter().map(|stage| stage.seconds).sum(),
        seconds_per_step: alone.seconds / alone.n_steps.max(1) as f64,
        load_seconds: origin.load_seconds,
        ranks: n_ranks,
        // What `auto` found, not what was asked for.
        device: device.kind().to_string(),
        path: alone.path_name(),
        exchange: exchange
            .map(|exchange| ExchangeReport::of_evaluations(exchange, alone.n_steps, &paper)),
        policy: &policy.source,
        stages: refined.stages,
        reduction: refined.reduction,
        compare: refined.compare,
        origin,
        out: args.out.as_deref(),
    }
}

impl Answer<'_> {
    /// What the lower bound comes from.
    fn bound_source(&self) -> &'static str {
        let by_reductions = self.reduction.as_ref().map(ReductionReport::lower_bound);
        match by_reductions {
            None => "maximal matching",
            Some(bound) if bound < self.lower_bound => "maximal matching",
            Some(_) if self.lower_bound == self.objective as u64 => {
                "reductions: no cover is smaller"
            }
            Some(_) => "reductions",
        }
    }

    /// Nothing where the policy did all.
    fn write_stages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reduction) = &self.reduction {
            write!(f, "{reduction}")?;
        }
        if self.stages.len() > 1 || self.compare.is_some() {
            for stage in &self.stages {
                writeln!(f, "stage {stage}")?;
            }
        }
        for row in self.compare.iter().flatten() {
            writeln!(f, "without the policy, {row}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verified = if self.verified { "yes" } else { "no" };
        write!(f, "{}", self.origin)?;
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "cover size {}", self.objective)?;
        writeln!(f, "verified {verified}")?;
        writeln!(
            f,
            "lower bound {} ({})",
            self.lower_bound,
            self.bound_source()
        )?;
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
        self.write_stages(f)?;
        match self.out {
            Some(path) => writeln!(f, "cover file {}", path.display()),
            None => Ok(()),
        }
    }
}
