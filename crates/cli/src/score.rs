//! `shardgraph score`: one policy evaluation from scratch, node by node.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_graph::Labels;
use shardgraph_shard::Adjacency;
use shardgraph_solver::{ErrorKind, PaperModel, Scores, SolveOptions, TrainedPolicy, score_nodes};

use crate::exchange_report::ExchangeReport;
use crate::graph_argument::{GraphArgs, storage_name};
use crate::output_file;
use crate::report::ReportArgs;
use crate::solve::{POLICY_FILE, PathArgs};
use crate::text::{Layout, reading};
use crate::world::{self, ExchangeArgs};

const EXAMPLE: &str = "\
Examples:
  shardgraph score karate --top 5
  shardgraph score graph.mtx.gz --ranks 2 --path general --out scores.txt";

/// Score every node with a trained policy, as the first step of a solve does
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Ranks that share the work, as threads [default: 1]
    #[arg(help_heading = "Ranks and devices", long, value_name = "P")]
    ranks: Option<u32>,
    /// A trained model: a policy or run folder of `shardgraph train`, or a shipped name [default:
    /// mvc-default]
    #[arg(help_heading = "Method", long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    exchange: ExchangeArgs,
    /// How the graph is stored; auto takes the smaller form
    #[arg(
        help_heading = "Method",
        hide_short_help = true,
        long,
        value_enum,
        value_name = "FORM",
        default_value = "auto"
    )]
    storage: StorageChoice,
    /// How many to list: nodes with the highest scores
    #[arg(help_heading = "Output", long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// File to write: a `label score` line for each node; - is standard output
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// The forms of an adjacency, as flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StorageChoice {
    Auto,
    Csr,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    problem: &'a str,
    nodes: u32,
    edges: u64,
    ranks: u32,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<ExchangeReport>,
    policy: &'a str,
    seconds: f64,
    load_seconds: f64,
    top: Vec<Scored>,
    /// The file of all scores, where one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}

/// One node by its original label.
#[derive(Serialize)]
struct Scored {
    node: String,
    score: f32,
}

/// Loads, scores, writes and prints.
pub(crate) fn run(args: &ScoreArgs) -> anyhow::Result<()> {
    if args.ranks.is_none() {
        world::refuse_processes("score", Some("--ranks"))?;
    }
    let n_ranks = args.ranks.unwrap_or(1);
    check_out(args)?;
    let policy = match &args.model {
        Some(path) => TrainedPolicy::read(&output_file::model_file(path, POLICY_FILE))?,
        None => TrainedPolicy::shipped()?,
    };
    let (mut adjacency, origin) = args.graph.adjacency(&args.report)?;
    if args.storage == StorageChoice::Csr {
        adjacency = Adjacency::Csr(adjacency.to_lists()?);
    }
    let options = SolveOptions {
        n_ranks,
        path: args.path.path(),
        communication: args.exchange.communication,
        ..SolveOptions::default()
    };
    args.report.leave_output_to(args.out.as_deref());
    let scores = score_nodes(&adjacency, &policy, &options)?;
    let mut out = args.out.iter();
    let written = out.try_for_each(|out| write_scores(out, &scores, &origin.labels));
    args.report.answer(
        &Answer {
            graph: &origin.name,
            problem: &policy.config.problem,
            nodes: adjacency.n_nodes(),
            edges: adjacency.n_edges(),
            ranks: n_ranks,
            path: format!("{}+{}", scores.path, storage_name(scores.storage)),
            exchange: exchange(args, &adjacency, &policy, &scores),
            policy: &policy.source,
            seconds: scores.seconds,
            load_seconds: origin.load_seconds,
            top: best(&scores, args.top, &origin.labels),
            out: args.out.as_deref().filter(|_| written.is_ok()),
        },
        &Layout {
            below: reading(origin.import.as_ref()),
            ..Layout::first("top")
        },
    )?;
    // Printed although the scores could not be written.
    written?;
    Ok(())
}

fn check_out(args: &ScoreArgs) -> anyhow::Result<()> {
    let inputs = [args.graph.file(), args.model.as_deref()];
    match &args.out {
        Some(out) => Ok(output_file::check(out, inputs.into_iter().flatten())?),
        None => Ok(()),
    }
}

/// Where ranks share sums.
fn exchange(
    args: &ScoreArgs,
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    scores: &Scores,
) -> Option<ExchangeReport> {
    let n_ranks = args.ranks.unwrap_or(1);
    let is_shared = n_ranks > 1 || args.exchange.communication.is_some();
    let exchange = scores.exchange.as_ref().filter(|_| is_shared)?;
    let (n_nodes, n_edges) = (adjacency.n_nodes(), adjacency.n_edges());
    let paper = PaperModel::of_state(n_ranks, n_nodes, n_edges, policy.config.shape());
    Some(ExchangeReport::of_evaluations(exchange, 1, &paper))
}

/// The best nodes, best first; the lower node where scores are equal.
fn best(scores: &Scores, n: usize, labels: &Labels) -> Vec<Scored> {
    let mut order: Vec<u32> = (0..scores.values.len() as u32)
        .filter(|&node| !scores.values[node as usize].is_nan())
        .collect();
    order.sort_by(|&u, &v| {
        let (u_score, v_score) = (scores.values[u as usize], scores.values[v as usize]);
        v_score.total_cmp(&u_score).then(u.cmp(&v))
    });
    order.truncate(n);
    let scored = |node: u32| Scored {
        node: labels.get(node),
        score: scores.values[node as usize],
    };
    order.into_iter().map(scored).collect()
}

/// One `label score` line a node, in the order of the node ids; `nan` for nodes without an edge.
fn write_scores(
    path: &Path,
    scores: &Scores,
    labels: &Labels,
) -> Result<(), shardgraph_solver::Error> {
    let write = |out: &mut dyn Write| -> io::Result<()> {
        let mut out = BufWriter::new(out);
        for (node, score) in (0..).zip(&scores.values) {
            labels.write_label(node, &mut out)?;
            match score.is_nan() {
                true => writeln!(out, " nan")?,
                false => writeln!(out, " {score}")?,
            }
        }
        out.flush()
    };
    output_file::write(path, write).map_err(|source| {
        let path = path.to_owned();
        ErrorKind::Io { path, source }.into()
    })
}
