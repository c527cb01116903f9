//! `shardgraph embed eval`: link prediction with an embedding of the larger share of a graph's edges.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_device::Device;
use shardgraph_graph::Graph;
use shardgraph_line::eval::{
    Auc, EvalConfig, Factorised, Operators, RunScore, evaluate, evaluate_line, evaluate_rows, split,
};
use shardgraph_line::formats;
use shardgraph_line::nodes::Classes;
use shardgraph_line::{Config, DeviceMemory, Embedding, Line, NodeLabels, Selection, Store, train};

use super::classify::{ClassFlags, ClassScores};
use super::settings::SettingsArgs;
use crate::exit::BadInput;
use crate::graph_argument::{GraphArgs, Origin};
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::text::{self, Layout, reading};

const EXAMPLE: &str = "\
Examples:
  shardgraph embed eval karate --epochs 100
  shardgraph embed eval wiki-Vote.txt.gz --repeats 6 --format json
  shardgraph embed eval blogs.txt.gz --classes groups.csv

The graph is taken as undirected and without weights. 70 % of its edges are trained on; a logistic
regression over the products of columns (Hadamard) tells the others from as many pairs without an
edge, drawn uniformly or with ends as those of edges (the degree-corrected protocol of Implicit
Degree Bias in the Link Prediction Task, 2025). Degree product, common neighbours and Adamic-Adar
need no embedding; spectral, truncated SVD and NetMF are factorised matrices, for up to 2^20
edges.";

/// Measure link prediction
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Repeats: splits, each with its own embedding; the paper has 6
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: u32,
    /// The share of the edges to train on
    #[arg(long, value_name = "SHARE", default_value_t = 0.7)]
    train_share: f64,
    /// Edges that the regression is fitted to at most, and as many other pairs
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    fitted_edges: usize,
    /// Write the edges that are trained on, one a line, for another program to learn from
    #[arg(long, value_name = "FILE")]
    train_edges: Option<PathBuf>,
    /// Rows of another program, in a form that --out has: judged on the same split
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// A file of nodes and their classes: adds node classification and communities
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    #[command(flatten)]
    class_flags: ClassFlags,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed: means over the runs. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    nodes: u32,
    edges: u64,
    auc_uniform: f64,
    auc_degree_matched: f64,
    /// The largest distance of a run from the mean.
    auc_uniform_spread: f64,
    auc_degree_matched_spread: f64,
    /// Other scores of a pair by the same rows.
    operators: Operators,
    degree_product: Auc,
    common_neighbors: Auc,
    adamic_adar: Auc,
    /// Of factorised matrices; none of graphs with more than 2^20 edges to train on.
    factorised: Option<Factorised>,
    /// Of the rows of another program.
    against: Option<Auc>,
    /// What held-back edges chose in each run; none where the settings hold as they are.
    selections: Vec<Selection>,
    operator: &'static str,
    seconds: f64,
    /// Of the passes alone, as in `embed`.
    training_seconds: f64,
    samples: u64,
    samples_per_s: f64,
    unseen_nodes: u32,
    train_share: f64,
    nodes_by_class: Option<ClassScores>,
    #[serde(flatten)]
    config: &'a Config,
    first_rate: f32,
    load_seconds: f64,
    runs: &'a [RunScore],
}

/// Loads, evaluates and prints the answer.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let device = args.settings.device()?;
    let config = args.settings.config(args.graph.seed(), &device)?;
    let eval = EvalConfig {
        train_share: args.train_share,
        runs: args.repeats,
        fitted_edges: args.fitted_edges,
        parts: args.settings.parts,
        ..EvalConfig::default()
    };
    args.class_flags.check()?;
    if args.graph.is_weighted() {
        let message = "weighted: link prediction takes edges without weights";
        return Err(BadInput(message.to_owned()).into());
    }
    let (graph, origin) = args.graph.whole_graph()?;
    let labels = NodeLabels::of_graph(&origin.labels);
    if (args.against.is_some() || args.train_edges.is_some()) && args.repeats != 1 {
        let message = "--against and --train-edges are for one split: leave --repeats out";
        return Err(BadInput(message.to_owned()).into());
    }
    let against = args
        .against
        .as_ref()
        .map(|path| rows_of(path, &labels))
        .transpose()?;
    if let Some(path) = &args.train_edges {
        let inputs = [args.graph.file(), args.against.as_deref()];
        output_file::check(path, inputs.into_iter().flatten())?;
        args.report.leave_output_to(Some(path));
        let split = split(&graph, eval.train_share, config.seed)?;
        let line = |&(u, v): &(u32, u32)| {
            format!("{} {}\n", labels.get(u as usize), labels.get(v as usize))
        };
        output_file::write_all(&[(path, split.train.iter().map(line).collect())])?;
    }
    let read = |path: &PathBuf| Classes::read(path, &labels);
    let classes = args.classes.as_ref().map(read).transpose()?;
    let mut show = Progress::new(&args.report, 0, "samples");
    let mut step = |progress: shardgraph_line::Progress| {
        show.set_length(progress.n_samples);
        show.update(progress.samples, String::new);
    };
    let line = args.settings.selection(&config);
    let line = line.map(|select| Line::new(config.clone()).selecting(select));
    let (scores, selections) = match &line {
        Some(line) => evaluate_line(&graph, line, &eval, &device, &mut step)?,
        None => (
            evaluate(&graph, &config, &eval, &device, &mut step)?,
            Vec::new(),
        ),
    };
    drop(show);
    let by_class = match &classes {
        None => None,
        Some(classes) => {
            let embedding = of_all_edges(&graph, labels, &config, line, &eval, &device)?;
            Some(args.class_flags.scores(&embedding, classes, config.seed)?)
        }
    };
    let mut answer = answer(&graph, &config, &eval, &scores, &origin);
    answer.nodes_by_class = by_class;
    answer.selections = selections;
    if let Some(rows) = against {
        let scores = evaluate_rows(&graph, config.seed, &eval, &mut |_, _| Ok(rows.clone()))?;
        answer.against = scores.first().map(|score| score.embedding);
    }
    print(&answer, &origin, &args.report)
}

fn print(answer: &Answer<'_>, origin: &Origin, report: &ReportArgs) -> anyhow::Result<()> {
    let settings = text::settings(answer.config)?;
    let hidden = settings.iter().map(String::as_str).collect();
    report.answer(
        answer,
        &Layout {
            below: reading(origin.import.as_ref()),
            hidden,
            ..Layout::first("auc_uniform")
        },
    )
}

/// Rows of a file in the order of the graph's nodes; a node without one has zeros.
fn rows_of(path: &Path, labels: &NodeLabels) -> anyhow::Result<Embedding> {
    let found = formats::read(path, None)?;
    let dim = found.dim();
    let mut values = vec![0.0; labels.len() * dim];
    let mut n_found = 0;
    for (label, row) in labels.iter().zip(values.chunks_exact_mut(dim)) {
        if let Some(node) = found.labels().find(label) {
            row.copy_from_slice(found.row(node));
            n_found += 1;
        }
    }
    if n_found == 0 {
        let message = format!("{}: no row has the label of a node", path.display());
        return Err(BadInput(message).into());
    }
    Ok(Embedding::new(dim, values, labels.clone())?)
}

/// Nodes are classified by an embedding that has seen every edge.
fn of_all_edges(
    graph: &Graph,
    labels: NodeLabels,
    config: &Config,
    line: Option<Line>,
    eval: &EvalConfig,
    device: &Device,
) -> anyhow::Result<Embedding> {
    let n_nodes = graph.n_nodes();
    let edges: Vec<(u32, u32)> = graph.edges().collect();
    if let Some(line) = line {
        let line = line.parts(eval.parts);
        return Ok(line
            .fit_edges(&edges, labels, device, &mut |_| {})?
            .embedding);
    }
    let memory = DeviceMemory::of(device, config)?;
    let usual = || Store::parts_on(memory.as_ref(), n_nodes, edges.len() as u64);
    let n_parts = eval.parts.unwrap_or_else(usual);
    let store = Store::from_edges(n_nodes, &edges, n_parts, labels)?;
    Ok(train(&store, config, device, &mut |_| {})?.embedding)
}

fn answer<'a>(
    graph: &Graph,
    config: &'a Config,
    eval: &EvalConfig,
    runs: &'a [RunScore],
    origin: &'a Origin,
) -> Answer<'a> {
    let mean = |of: &dyn Fn(&RunScore) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let spread = |of: &dyn Fn(&RunScore) -> f64| {
        let center = mean(of);
        runs.iter()
            .map(|run| (of(run) - center).abs())
            .fold(0.0, f64::max)
    };
    let both = |of: &dyn Fn(&RunScore) -> Auc| Auc {
        uniform: mean(&|run| of(run).uniform),
        degree_matched: mean(&|run| of(run).degree_matched),
    };
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let training_s: f64 = runs.iter().map(|run| run.training_s).sum();
    let samples: u64 = runs.iter().map(|run| run.n_samples).sum();
    let embedding = both(&|run| run.embedding);
    // All splits have as many edges, so all runs have them or none does.
    let all_factorised = runs.first().and_then(|run| run.factorised);
    let factors = |of: &dyn Fn(&Factorised) -> Auc| {
        both(&|run| run.factorised.as_ref().map(of).unwrap_or_default())
    };
    Answer {
        graph: &origin.name,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        auc_uniform: embedding.uniform,
        auc_degree_matched: embedding.degree_matched,
        auc_uniform_spread: spread(&|run| run.embedding.uniform),
        auc_degree_matched_spread: spread(&|run| run.embedding.degree_matched),
        operators: Operators {
            dot: both(&|run| run.operators.dot),
            cosine: both(&|run| run.operators.cosine),
            weighted_l2: both(&|run| run.operators.weighted_l2),
        },
        degree_product: both(&|run| run.degree_product),
        common_neighbors: both(&|run| run.common_neighbors),
        adamic_adar: both(&|run| run.adamic_adar),
        factorised: all_factorised.map(|_| Factorised {
            spectral: factors(&|factorised| factorised.spectral),
            truncated_svd: factors(&|factorised| factorised.truncated_svd),
            netmf: factors(&|factorised| factorised.netmf),
        }),
        against: None,
        selections: Vec::new(),
        operator: "hadamard",
        seconds: seconds / runs.len() as f64,
        training_seconds: training_s / runs.len() as f64,
        samples: samples / runs.len() as u64,
        samples_per_s: samples as f64 / training_s.max(1e-9),
        unseen_nodes: runs.iter().map(|run| run.unseen_nodes).max().unwrap_or(0),
        train_share: eval.train_share,
        nodes_by_class: None,
        config,
        first_rate: config.first_rate(),
        load_seconds: origin.load_seconds,
        runs,
    }
}
