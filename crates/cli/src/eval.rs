//! `shardgraph eval`: what a policy is worth on some graphs, beside everything that does without one.

mod optima;
mod picture;
mod reference;
mod rows;
pub(crate) mod score;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_graph::Graph;
use shardgraph_solver::problem::{MINIMUM_VERTEX_COVER, Sense, problem_by_name};
use shardgraph_solver::{ErrorKind, Select, SolveOptions, TrainedPolicy};

use self::optima::{Optima, Optimum};
use self::rows::{Job, Row, Search};
use self::score::Total;
use crate::duration;
use crate::exit::BadInput;
use crate::graph_argument::{GraphArgs, Origin};
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::solve::{POLICY_FILE, check_covers, problem_names};
use crate::text::Layout;
use crate::world::refuse_processes;

const EXAMPLE: &str = "\
Examples:
  shardgraph eval karate petersen
  shardgraph eval er:250:0.15 --seed 1000 --model mis-default --optima benches/data/mvc-optima.csv
  shardgraph eval first.mtx.gz second.mtx.gz --local-search 10s --format json --svg rows.svg
  shardgraph eval brock200_4.clq --problem clique

For vertex cover the policy has three rows: alone (policy), in turn with exact reductions
(policy_reduce), and with --local-search improved by local search on what the reductions leave
(policy_local_search). Beside them stand the same reductions and the same local search without the
policy. A policy for independent sets (mis) covers by what its set leaves.

A table of optima has a line of column names, then a line a graph: graph (as on the command line,
or its file name) and optimum; of further columns seed, n (or nodes), m (or edges), problem and
proved (yes or no) are read, others are not.";

/// Measure a policy beside greedy algorithms, reductions, local search and the optimum
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Further graphs
    #[arg(value_name = "GRAPH")]
    more: Vec<OsString>,
    #[arg(help_heading = "Method", long, value_name = "PROBLEM", default_value = "mvc", help = format!("What is looked for: {}", problem_names()))]
    problem: String,
    /// A trained model: a policy or run folder of `shardgraph train`, or a shipped name [default:
    /// PROBLEM-default]
    #[arg(help_heading = "Method", long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
    /// Ranks that share the work, as threads
    #[arg(help_heading = "Ranks and devices", long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Nodes that a step picks; adaptive: 8, 4, 2, 1 as candidates get fewer
    #[arg(
        help_heading = "Method",
        long,
        value_name = "adaptive|N",
        default_value = "1"
    )]
    nodes_per_step: Select,
    /// Episodes of the policy: each from another first pick, the best node, the second best, and so on; the best answer is taken
    #[arg(help_heading = "Method", long, value_name = "N", default_value = "1")]
    starts: u32,
    /// Time of a local search: one each from the policy's cover, from a greedy one and from nothing
    #[arg(help_heading = "Method", long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    local_search: Option<f64>,
    /// Steps of a local search, in place of its time: the covers are then the same on every machine
    #[arg(help_heading = "Method", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..u64::MAX))]
    local_search_steps: Option<u64>,
    /// Seed of the local search
    #[arg(
        help_heading = "Method",
        long,
        value_name = "SEED",
        default_value_t = 1
    )]
    local_search_seed: u64,
    /// Known optima
    #[arg(help_heading = "Method", long, value_name = "CSV")]
    optima: Option<PathBuf>,
    /// Look for an optimum that no table has for so long; 0s: not at all [default: what reductions and bounds prove; graphs of up
    /// to 200 nodes also 20000 branches]
    #[arg(help_heading = "Method", long, value_name = "DURATION", value_parser = duration::seconds)]
    exact: Option<f64>,
    /// Draw a picture: the rows by their distance from the optimum
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    problem: &'static str,
    sense: Sense,
    policy: String,
    policy_problem: String,
    select: String,
    starts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    polish_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    polish_steps: Option<u64>,
    verified: bool,
    graphs: Vec<OfGraph>,
    totals: Vec<Total>,
    /// The picture, where one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<PathBuf>,
}

/// All rows of one graph.
#[derive(Serialize)]
struct OfGraph {
    graph: String,
    nodes: u32,
    edges: u64,
    load_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    optimum: Option<Optimum>,
    /// Without an optimum: no answer is better than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<f64>,
    rows: Vec<Row>,
}

/// One graph, read.
struct Loaded {
    graph: Graph,
    origin: Origin,
    optimum: Option<Optimum>,
}

/// Reads everything, makes every row, checks each, and prints them.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    refuse_processes("eval", Some("--ranks"))?;
    let problem =
        problem_by_name(&args.problem).map_err(|e| BadInput(format!("--problem: {e}")))?;
    let job = Job {
        problem,
        policy: policy(args, problem)?,
        options: SolveOptions {
            n_ranks: args.ranks,
            select: args.nodes_per_step,
            starts: args.starts,
            ..SolveOptions::default()
        },
        search: search(args)?,
        exact: args.exact,
    };
    if let Some(svg) = &args.svg {
        check_svg(args, svg)?;
    }
    let (graphs, contradicted) = evaluate_all(args, &job)?;
    let mut answer = Answer {
        problem: problem.name,
        sense: problem.sense,
        policy: job.policy.source.clone(),
        policy_problem: job.policy.config.problem.clone(),
        select: args.nodes_per_step.to_string(),
        starts: args.starts,
        polish_seconds: args.local_search,
        polish_steps: args.local_search_steps,
        verified: true,
        totals: score::totals(problem.sense, &graphs),
        svg: None,
        graphs,
    };
    let mut written = Ok(());
    if let Some(svg) = args.svg.as_ref().filter(|_| contradicted.is_ok()) {
        written = output_file::write_all(&[(svg, picture::svg(&answer))]);
        answer.svg = written.is_ok().then(|| svg.clone());
    }
    // The rows may have taken hours and were all checked: they are printed although an optimum is wrong, or the picture cannot be written.
    let layout = Layout {
        hidden: if answer.graphs.len() > 1 {
            vec![]
        } else {
            vec!["totals"]
        },
        ..Layout::first("graphs")
    };
    args.report.answer(&answer, &layout)?;
    contradicted?;
    Ok(written?)
}

/// Refuses a picture in place of anything that is read.
fn check_svg(args: &EvalArgs, svg: &Path) -> Result<(), BadInput> {
    let more: Vec<GraphArgs> = args.more.iter().map(|graph| args.graph.of(graph)).collect();
    let rest = [
        args.graph.file(),
        args.optima.as_deref(),
        args.model.as_deref(),
    ];
    let inputs = more.iter().map(GraphArgs::file).chain(rest);
    args.report.leave_output_to(Some(svg));
    output_file::check(svg, inputs.flatten())
}

/// The rows of every graph; and an error where a row is better than an optimum that is called proved.
fn evaluate_all(args: &EvalArgs, job: &Job) -> anyhow::Result<(Vec<OfGraph>, anyhow::Result<()>)> {
    let loaded = load(args, job)?;
    let mut progress = Progress::new(&args.report, loaded.len() as u64, "graphs");
    let (mut graphs, mut contradicted) = (Vec::new(), Ok(()));
    for (i, of_graph) in loaded.into_iter().enumerate() {
        let name = of_graph.origin.name.clone();
        progress.update(i as u64, || format!("at {name}"));
        let (of_graph, judged) = evaluate(job, of_graph)?;
        graphs.push(of_graph);
        contradicted = contradicted.and(judged);
    }
    Ok((graphs, contradicted))
}

/// The policy, for the problem or, for covers, for independent sets.
fn policy(
    args: &EvalArgs,
    problem: &shardgraph_solver::problem::Problem,
) -> anyhow::Result<TrainedPolicy> {
    let policy = match &args.model {
        Some(path) => TrainedPolicy::read(&output_file::model_file(path, POLICY_FILE))?,
        None => TrainedPolicy::shipped_for(problem)?,
    };
    let is_cover = problem.name == MINIMUM_VERTEX_COVER.name;
    match is_cover {
        true => check_covers(&policy)?,
        false => policy.check_problem(problem)?,
    }
    Ok(policy)
}

/// The budget of the local search, if there is to be one.
fn search(args: &EvalArgs) -> Result<Option<Search>, BadInput> {
    if args.local_search.is_none() && args.local_search_steps.is_none() {
        return Ok(None);
    }
    if args.problem != MINIMUM_VERTEX_COVER.name {
        let why = format!(
            "--local-search is for vertex covers (mvc), not for `{}`",
            args.problem
        );
        return Err(BadInput(why));
    }
    Ok(Some(Search {
        seconds: args.local_search,
        steps: args.local_search_steps,
        seed: args.local_search_seed,
    }))
}

/// Every graph and its optimum where the table has it, before the first row: a wrong file costs no time.
fn load(args: &EvalArgs, job: &Job) -> anyhow::Result<Vec<Loaded>> {
    let optima = args.optima.as_deref().map(Optima::read).transpose()?;
    let more = args.more.iter().map(|graph| args.graph.of(graph));
    let mut all = Vec::new();
    for of_graph in std::iter::once(args.graph.clone()).chain(more) {
        let (graph, origin) = read(&of_graph, job, &args.report)?;
        if job.search.is_some() && graph.n_edges() >= 1 << 31 {
            let (name, edges) = (&origin.name, graph.n_edges());
            let why = "local search takes graphs of less than 2^31 edges";
            return Err(BadInput(format!("{name}: --local-search: {why}, not {edges}")).into());
        }
        let optimum = match &optima {
            Some(optima) => optima.of(&of_graph, &graph, job.problem.name)?,
            None => None,
        };
        all.push(Loaded {
            graph,
            origin,
            optimum,
        });
    }
    if let Some(table) = &args.optima
        && all.iter().all(|of_graph| of_graph.optimum.is_none())
    {
        let (table, problem) = (table.display(), job.problem.name);
        let note = format!("{table}: no line is of one of these graphs and of {problem}");
        args.report.note(&note);
    }
    Ok(all)
}

fn read(graph: &GraphArgs, job: &Job, report: &ReportArgs) -> anyhow::Result<(Graph, Origin)> {
    if job.problem.reads_weights {
        return graph.whole_graph();
    }
    let (adjacency, origin) = graph.adjacency(report)?;
    Ok((adjacency.into_graph()?, origin))
}

fn evaluate(job: &Job, loaded: Loaded) -> anyhow::Result<(OfGraph, anyhow::Result<()>)> {
    let Loaded {
        graph,
        origin,
        optimum,
    } = loaded;
    let (nodes, edges) = (graph.n_nodes(), graph.n_edges());
    let made = job.rows(graph)?;
    let optimum = optimum.or(made.reference.optimum);
    let bound = made.reference.bound;
    let mut rows = made.rows;
    let judged = score::judge(job.problem.sense, optimum.as_ref(), &mut rows);
    let within = score::within(job.problem.sense, bound, &rows);
    let is_given = optimum
        .as_ref()
        .is_some_and(|known| known.source != "exact");
    let judged = judged.map_err(|why| contradiction(&origin.name, &why, is_given));
    let within = within.map_err(|why| contradiction(&origin.name, &why, false));
    let judged = judged.and(within);
    let of_graph = OfGraph {
        graph: origin.name,
        nodes,
        edges,
        load_seconds: origin.load_seconds,
        bound: bound.filter(|_| optimum.is_none()),
        optimum,
        rows,
    };
    Ok((of_graph, judged))
}

/// An optimum that a checked answer beats: the user's table is wrong, or our own search is.
fn contradiction(graph: &str, why: &str, is_given: bool) -> anyhow::Error {
    match is_given {
        true => BadInput(format!("{graph}: {why}: the table is wrong")).into(),
        false => {
            let why =
                format!("{graph}: {why}: the search for the optimum is wrong, please report it");
            shardgraph_solver::Error::from(ErrorKind::Verification(why)).into()
        }
    }
}
