//! `shardgraph embed near`: the nodes whose rows point in nearly the same direction.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_line::formats::{self, FileFormat};

use crate::exit::BadInput;
use crate::report::ReportArgs;
use crate::text::Layout;

const EXAMPLE: &str = "\
Examples:
  shardgraph embed near 17 --model karate.npy --top 5
  shardgraph embed near 17 3 33 --model karate.npy --format json";

/// List the nodes nearest to one or more nodes, by cosine; exact
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct NearArgs {
    /// Labels of nodes
    #[arg(required = true, num_args = 1..)]
    node: Vec<String>,
    /// A trained model: an embedding
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Its form: npy, npz, word2vec-text, word2vec-binary, safetensors or csv [default: by its name]
    #[arg(long, value_name = "FORM")]
    embedding_format: Option<FileFormat>,
    /// How many to list: nearest nodes
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed: of one node its own object, of several a list of them.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    One(NodeAnswer<'a>),
    Many { nodes: Vec<NodeAnswer<'a>> },
}

/// The fields are the keys of the JSON object.
#[derive(Serialize)]
struct NodeAnswer<'a> {
    node: &'a str,
    near: Vec<Near<'a>>,
}

#[derive(Serialize)]
struct Near<'a> {
    node: &'a str,
    cosine: f32,
}

/// Reads, searches and prints the answer.
pub(crate) fn run(args: &NearArgs) -> anyhow::Result<()> {
    let embedding = formats::read(&args.model, args.embedding_format)?;
    let labels = embedding.labels();
    let mut answers = Vec::new();
    for label in &args.node {
        let Some(node) = labels.find(label) else {
            let file = args.model.display();
            let message = format!("{file} has no node `{label}`: give a label as the graph has it");
            return Err(BadInput(message).into());
        };
        let near = embedding.nearest(node, args.top).into_iter();
        let near = near.map(|near| Near {
            node: labels.get(near.node as usize),
            cosine: near.cosine,
        });
        answers.push(NodeAnswer {
            node: label,
            near: near.collect(),
        });
    }
    args.report.answer(
        &match answers.len() {
            1 => Answer::One(answers.remove(0)),
            _ => Answer::Many { nodes: answers },
        },
        &Layout::first("node"),
    )
}
