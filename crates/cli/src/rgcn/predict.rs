//! `shardgraph rgcn predict`: the classes of nodes by a trained model.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Timeout;
use shardgraph_device::{Device, Timer};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::{SavedLinks, class_names, predict_probabilities, run_config};

use super::data::{Data, DataArgs};
use super::links::{self, QuestionArgs};
use super::vectors::VectorArgs;
use crate::exit::BadInput;
use crate::report::ReportArgs;
use crate::{input_file, output_file};

/// The longest file of nodes.
const MAX_BYTES: u64 = 1 << 30;

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn predict triples.csv --train known.csv --model my-run --node 17 --node 4242
  shardgraph rgcn predict triples.csv --train known.csv --model my-run --all-nodes --out classes.csv
  shardgraph rgcn predict more.tsv --features rows.npy --model my-run --all-nodes --out classes.csv
  shardgraph rgcn predict FB15k-237.tar.gz --model my-links --vectors nodes.npz
  shardgraph rgcn predict family.tsv --model my-links --subject anna --relation parent_of --top 3";

/// Print the classes of nodes, or the likeliest ends of links, by a trained R-GCN
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    data: DataArgs,
    /// A trained model: the run folder of `rgcn train` on the same graph; one that was trained with --features takes other nodes too
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// A node by its name; may be given again
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
    /// A file of nodes: one name a line
    #[arg(long, value_name = "FILE", conflicts_with = "all_nodes")]
    node_file: Option<PathBuf>,
    /// All nodes of the graph
    #[arg(long, conflicts_with = "node")]
    all_nodes: bool,
    /// File to write: classes and probabilities as CSV, or the ends of --queries with tabs between
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    vectors: VectorArgs,
    #[command(flatten)]
    question: QuestionArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    /// How the model was trained.
    mode: String,
    classes: Vec<String>,
    /// Empty where they were written to a file.
    predictions: Vec<Prediction>,
    predicted_nodes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a PathBuf>,
    /// What reading the graph dropped; none for a generated one.
    seconds: f64,
    load_seconds: f64,
    import: &'a Option<ImportReport>,
}

/// A node and its likeliest class, as the labels of the run call it.
#[derive(Serialize)]
struct Prediction {
    node: String,
    class: String,
    probability: f64,
    /// Of each class, in the order of `classes`.
    probabilities: Vec<f64>,
}

/// Loads graph and model and prints the answer.
pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if args.vectors.is_set() {
        if args.asks_classes() || args.question.is_set() || args.out.is_some() {
            let text = "--vectors and --relation-vectors are files of their own: leave other questions out";
            return Err(BadInput(text.to_owned()).into());
        }
        return args.vectors.write(&args.data, &args.model, &args.report);
    }
    if SavedLinks::is_in(&args.model)? {
        if args.asks_classes() {
            let text = "a model that predicts links has no classes: ask with --relation and --subject or --object";
            return Err(BadInput(text.to_owned()).into());
        }
        let out = args.out.as_deref();
        return links::complete(&args.question, &args.data, &args.model, out, &args.report);
    }
    if !args.asks_classes() || args.question.is_set() {
        let text = "a model of classes is asked with --node, --node-file or --all-nodes, one that predicts links with --relation and --subject or --object";
        return Err(BadInput(text.to_owned()).into());
    }
    if let Some(out) = &args.out {
        output_file::check(out, args.data.inputs().chain(args.node_file.as_deref()))?;
        args.report.leave_output_to(Some(out));
    }
    let data = args.data.load_for(&args.model)?;
    let timer = Timer::start(&Device::host());
    let (names, nodes) = args.asked(&data)?;
    let predicted = predict_probabilities(&data.graph, &args.model, &nodes, Timeout::default())?;
    let known = class_names(&args.model)?;
    let class_name = |class: usize| match known.get(class) {
        Some(name) => name.clone(),
        None => class.to_string(),
    };
    let n_classes = predicted.first().map_or(0, |of| of.probabilities.len());
    let predictions = names
        .into_iter()
        .zip(predicted)
        .map(|(node, of)| Prediction {
            node,
            class: class_name(of.class as usize),
            probability: of
                .probabilities
                .get(of.class as usize)
                .copied()
                .unwrap_or(0.0),
            probabilities: of.probabilities,
        });
    let mut answer = Answer {
        graph: &data.name,
        mode: run_config(&args.model)?.mode.to_string(),
        classes: (0..n_classes).map(class_name).collect(),
        predictions: predictions.collect(),
        predicted_nodes: nodes.len(),
        out: None,
        seconds: timer.elapsed_s(),
        load_seconds: data.load_seconds,
        import: &data.report,
    };
    if let Some(out) = &args.out {
        output_file::write_all(&[(out, answer.table())])?;
        args.report.note(&format!("wrote {}", out.display()));
        answer.out = Some(out);
        answer.predictions.clear();
    }
    args.report.answer_as(&answer, || {
        let line = |of: &Prediction| format!("{}\t{}\n", of.node, of.class);
        Ok(match args.out {
            Some(_) => format!("nodes  {}\n", answer.predicted_nodes),
            None => answer.predictions.iter().map(line).collect(),
        })
    })
}

impl PredictArgs {
    /// True if classes of nodes are asked for.
    fn asks_classes(&self) -> bool {
        self.all_nodes || self.node_file.is_some() || !self.node.is_empty()
    }

    /// Names and ids of the nodes that are asked for, in their order.
    fn asked(&self, data: &Data) -> anyhow::Result<(Vec<String>, Vec<u32>)> {
        if self.all_nodes {
            let nodes: Vec<u32> = (0..data.graph.n_nodes()).collect();
            return Ok((
                nodes.iter().map(|&node| data.nodes.get(node)).collect(),
                nodes,
            ));
        }
        let mut names = self.node.clone();
        let unknown = |place: String| BadInput(format!("{place}: the graph has no such node"));
        let mut nodes = Vec::new();
        for name in &self.node {
            let found = data.nodes.find(name);
            nodes.push(found.ok_or_else(|| unknown(format!("--node {name}")))?);
        }
        if let Some(path) = &self.node_file {
            let text = input_file::text(path, MAX_BYTES)?;
            for (number, name) in (1..).zip(text.lines()) {
                if name.trim().is_empty() {
                    continue;
                }
                let place = || format!("{}:{number}: {name}", path.display());
                let found = data
                    .nodes
                    .find(name)
                    .or_else(|| data.nodes.find(name.trim()));
                nodes.push(found.ok_or_else(|| unknown(place()))?);
                names.push(name.trim().to_owned());
            }
            if nodes.is_empty() {
                let text = format!("{}: the file names no node", path.display());
                return Err(BadInput(text).into());
            }
        }
        Ok((names, nodes))
    }
}

impl Answer<'_> {
    /// A line for each node, with a header: node, class, then the probability of each class.
    fn table(&self) -> String {
        let mut header = vec!["node".to_owned(), "class".to_owned()];
        header.extend(self.classes.iter().cloned());
        let rows = self.predictions.iter().map(|of| {
            let mut row = vec![of.node.clone(), of.class.clone()];
            row.extend(of.probabilities.iter().map(|p| format!("{p:.6}")));
            row
        });
        let line = |row: Vec<String>| {
            let fields: Vec<String> = row.iter().map(|field| quoted(field)).collect();
            fields.join(",") + "\n"
        };
        [header].into_iter().chain(rows).map(line).collect()
    }
}

/// A field of CSV, in quotes where it has a comma, a quote or a line's end (RFC 4180).
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}
