//! `shardgraph solve`: the best checked answer to a graph problem within a time, or the answer of one method.

mod answer;
mod best;
mod cover;
mod drawing;
mod problem;
mod weighted;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_device::{Device, DeviceKind};
use shardgraph_error::Class;
use shardgraph_graph::{Graph, Labels};
use shardgraph_solver::problem::{
    MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, PROBLEMS, Problem, problem_by_name,
};
use shardgraph_solver::train::Preset;
use shardgraph_solver::{EmbeddingPath, ErrorKind, Select, SolveOptions, TrainedPolicy};

use self::answer::{Answer, Answers};
use self::drawing::{Form, Solved};
use crate::device_choice::DeviceArgs;
use crate::exit::BadInput;
use crate::graph_argument::{GraphArgs, Origin};
use crate::report::ReportArgs;
use crate::solve_stages::StageArgs;
use crate::world::{ExchangeArgs, WorldArgs};
use crate::{duration, output_file};

const EXAMPLE: &str = "\
Examples:
  shardgraph solve karate
  shardgraph solve graph.mtx.gz --time-limit 10s --compare --out cover.txt
  shardgraph solve brock200_4.clq --problem clique --threads 2
  shardgraph solve graph.mtx.gz --method policy --ranks 2 --nodes-per-step adaptive
  shardgraph solve brock200_4.clq --complement --format json
  shardgraph solve first.mtx second.mtx third.mtx --problem mis --format json

Problems: mvc (minimum vertex cover), mis (maximum independent set), clique (maximum clique), cut
(maximum cut; of declared edge weights, or those of an edge list with --weighted) and
dominating-set (minimum dominating set).

The default method takes the best of exact reductions, greedy algorithms, the policy, and local
and exact search from their answers, each checked. Where reductions prove an optimum, nothing else
runs. An interrupt ends the search with the best answer so far.

A policy is for one problem; one for independent sets (mis) also covers (mvc), by what its set
leaves.";

/// Find the best answer to a graph problem, such as a small vertex cover, and check it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Further graphs, each with an answer of its own
    #[arg(value_name = "GRAPH")]
    more: Vec<OsString>,
    #[arg(help_heading = "Method", long, value_name = "PROBLEM", default_value = "mvc", help = format!("What is looked for: {}", problem_names()))]
    problem: String,
    /// Method of the search: best (of all), policy (alone, as the paper has it), greedy, search (without greedy algorithms and the
    /// policy) or exact (a search that ends with a proof)
    #[arg(
        help_heading = "Method",
        long,
        value_enum,
        value_name = "METHOD",
        default_value = "best",
        hide_possible_values = true
    )]
    method: Method,
    /// Longest time of a search: of each graph, all methods together [default: 1s beyond reductions and greedy; with --method exact none]
    #[arg(help_heading = "Method", long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    time_limit: Option<f64>,
    /// Threads: so many local searches run at the same time, and the best is taken [default: 1]
    #[arg(help_heading = "Method", long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Node weights: a file with a node and its weight on each line, or `graph` for those of a METIS file; the lightest
    /// cover or the heaviest independent set is then looked for
    #[arg(help_heading = "Method", long, value_name = "FILE|graph")]
    node_weights: Option<PathBuf>,
    #[command(flatten)]
    world: WorldArgs,
    /// A trained model: a policy or run folder of `shardgraph train`, or a shipped name [default:
    /// PROBLEM-default]
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
    /// Episodes of the policy: each from another first pick, the best node, the second best, and so on; the best answer is taken
    #[arg(help_heading = "Method", long, value_name = "N", default_value = "1")]
    starts: u32,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    exchange: ExchangeArgs,
    /// Named settings: default, or paper (keeps picks that earlier picks of the same step left without an
    /// edge)
    #[arg(
        help_heading = "Method",
        long,
        value_name = "default|paper",
        default_value = "default"
    )]
    preset: Preset,
    /// File to write: the labels of the answer's nodes, one a line, of a cut those of one side; a .graphml
    /// or .dot file gets the graph with the answer as an attribute; - is standard output
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw a picture: the graph, of at most 1000 nodes, with the answer in colour
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
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

/// How a policy is evaluated.
#[derive(Debug, Clone, Args)]
pub(crate) struct PathArgs {
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
}

/// The paths of the embedding, as flags.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PathChoice {
    Auto,
    General,
    FreeFirstLayer,
    Collapsed,
}

impl PathArgs {
    pub(crate) fn path(&self) -> Option<EmbeddingPath> {
        match self.path {
            PathChoice::Auto => None,
            PathChoice::General => Some(EmbeddingPath::General),
            PathChoice::FreeFirstLayer => Some(EmbeddingPath::FreeFirstLayer),
            PathChoice::Collapsed => Some(EmbeddingPath::Collapsed),
        }
    }
}

/// How an answer is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Method {
    Best,
    Policy,
    Greedy,
    Search,
    Exact,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl SolveArgs {
    /// All graphs, in the order of the command line.
    fn graphs(&self) -> Vec<GraphArgs> {
        let more = self.more.iter().map(|graph| self.graph.of(graph));
        std::iter::once(self.graph.clone()).chain(more).collect()
    }

    /// Refuses files for the answer in place of ones that are read, and pictures that nobody can read.
    fn check_files(&self) -> Result<(), BadInput> {
        let graphs = self.graphs();
        for out in [&self.out, &self.svg].into_iter().flatten() {
            let files = graphs.iter().filter_map(GraphArgs::file);
            output_file::check(out, files.chain(self.model.as_deref()))?;
        }
        if self.out.is_some() && self.out == self.svg {
            return Err(BadInput("--out and --svg name one file: give two".into()));
        }
        Ok(())
    }

    /// Refuses a graph that is too large for a picture.
    fn check_drawing(&self, graph: &Graph, origin: &Origin) -> Result<(), BadInput> {
        match &self.svg {
            Some(_) => drawing::check_size(graph, &origin.name),
            None => Ok(()),
        }
    }

    /// True where an output shows the graph and not the answer alone.
    fn shows_graph(&self) -> bool {
        self.svg.is_some() || self.out.as_deref().and_then(Form::of).is_some()
    }

    /// Refuses an answer file for several answers.
    fn check_out(&self) -> anyhow::Result<()> {
        for (flag, file) in [("--out", &self.out), ("--svg", &self.svg)] {
            if file.is_some() && !self.more.is_empty() {
                let why =
                    format!("{flag} is the file of one answer: give one graph, or leave it out");
                return Err(BadInput(why).into());
            }
        }
        Ok(())
    }

    /// Prints the answers.
    fn print(&self, answers: Vec<Answer<'_>>) -> anyhow::Result<()> {
        let answers = Answers { answers };
        self.report.answer_as(&answers, || answers.text())
    }

    /// Refuses flags of other methods.
    fn check_method(&self, problem: &Problem) -> anyhow::Result<()> {
        let is_policy = self.method == Method::Policy;
        if is_policy {
            for (flag, is_given) in [
                ("--time-limit", self.time_limit.is_some()),
                ("--threads", self.threads.is_some()),
            ] {
                if is_given {
                    let why = format!("{flag} is for a search: leave it or --method policy out");
                    return Err(BadInput(why).into());
                }
            }
            return Ok(());
        }
        if let Some(ranks) = self.world.ranks.filter(|ranks| !(1..=1024).contains(ranks)) {
            let text = format!("--ranks: expected 1 to 1024, found {ranks}");
            return Err(BadInput(text).into());
        }
        self.check_idle()?;
        if self.starts != 1 {
            let why = "--starts is for the policy alone: say --method policy too";
            return Err(BadInput(why.into()).into());
        }
        if self.preset != Preset::Default {
            let why = "--preset paper is about the policy alone: say --method policy too";
            return Err(BadInput(why.into()).into());
        }
        self.stages.check_search(self.method, problem)
    }

    /// Refuses flags of parts that the method does not have.
    fn check_idle(&self) -> Result<(), BadInput> {
        let method = self.method;
        let of_search = [
            ("--time-limit", self.time_limit.is_some()),
            ("--threads", self.threads.is_some()),
        ];
        let of_policy = [
            ("--ranks", self.world.ranks.is_some_and(|ranks| ranks > 1)),
            ("--model", self.model.is_some()),
            ("--nodes-per-step", self.nodes_per_step != Select::Fixed(1)),
            ("--path", !matches!(self.path.path, PathChoice::Auto)),
            ("--communication", self.exchange.communication.is_some()),
            ("--device", self.device.kind != DeviceKind::Host),
        ];
        let absent = match method {
            Method::Greedy => [("search", &of_search[..]), ("policy", &of_policy)],
            Method::Search | Method::Exact => [("search", &[][..]), ("policy", &of_policy)],
            Method::Best | Method::Policy => return Ok(()),
        };
        for (part, flags) in absent {
            if let Some((flag, _)) = flags.iter().find(|(_, is_given)| *is_given) {
                let why = format!(
                    "{flag} is for the {part}, which --method {method} has not: leave one of them out"
                );
                return Err(BadInput(why));
            }
        }
        Ok(())
    }

    /// A model, read; for covers one for independent sets serves too.
    fn policy(&self, problem: &Problem) -> anyhow::Result<TrainedPolicy> {
        let policy = match &self.model {
            Some(path) => TrainedPolicy::read(&output_file::model_file(path, POLICY_FILE))?,
            None => TrainedPolicy::shipped_for(problem)?,
        };
        match problem.name == MINIMUM_VERTEX_COVER.name {
            true => check_covers(&policy)?,
            false => policy.check_problem(problem)?,
        }
        Ok(policy)
    }

    /// Writes the answer's nodes where that is asked for, and its graph where that is shown; true once
    /// the nodes are in a file.
    fn write(
        &self,
        nodes: &[u32],
        labels: &Labels,
        shown: Option<&Solved<'_>>,
    ) -> anyhow::Result<bool> {
        let mut files = Vec::new();
        if let Some((svg, solved)) = self.svg.as_deref().zip(shown) {
            files.push((svg, solved.svg()));
        }
        if let Some(out) = self.out.as_deref() {
            let text = match Form::of(out).zip(shown) {
                Some((form, solved)) => solved.text(form),
                None => nodes_text(nodes, labels)?,
            };
            files.push((out, text));
        }
        let is_pipe = |path: &Path| output_file::is_standard_output(path);
        let (streams, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|f| is_pipe(f.0));
        output_file::write_all(&files)?;
        for (path, text) in &streams {
            self.write_file(path, |out| out.write_all(text.as_bytes()))?;
        }
        for (path, _) in &files {
            self.report.note(&format!("wrote {}", path.display()));
        }
        Ok(self.out.is_some())
    }

    fn write_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let written = output_file::write(path, write);
        written.map_err(|source| {
            let path = path.to_owned();
            shardgraph_solver::Error::from(ErrorKind::Io { path, source })
        })?;
        self.report.note(&format!("wrote {}", path.display()));
        Ok(())
    }
}

/// Loads, solves, writes the answer's nodes and prints the answer.
pub(crate) fn run(args: &SolveArgs) -> anyhow::Result<()> {
    let wanted = problem_by_name(&args.problem).map_err(|e| BadInput(format!("--problem: {e}")))?;
    args.check_out()?;
    args.check_method(wanted)?;
    args.report.leave_output_to(args.out.as_deref());
    if let Some(source) = &args.node_weights {
        return weighted::run(args, wanted, source);
    }
    if args.method != Method::Policy {
        return best::run(args, wanted);
    }
    if wanted.name == MINIMUM_VERTEX_COVER.name {
        return cover::run(args);
    }
    args.stages.check(wanted.name, None, 1)?;
    problem::run(args, wanted)
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

fn options(args: &SolveArgs, n_ranks: u32, device: &Device) -> SolveOptions {
    SolveOptions {
        n_ranks,
        select: args.nodes_per_step,
        starts: args.starts,
        path: args.path.path(),
        keep_isolated: args.preset.keeps_isolated(),
        reduce_inside: false,
        communication: args.exchange.communication,
        deadline: args.world.timeout.unwrap_or_default(),
        cancelled: None,
        device: device.clone(),
    }
}

/// One original label a line, in the order of the node ids.
fn nodes_text(nodes: &[u32], labels: &Labels) -> anyhow::Result<String> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    let mut text = Vec::new();
    for &node in &sorted {
        labels.write_label(node, &mut text)?;
        text.push(b'\n');
    }
    Ok(String::from_utf8(text)?)
}
