//! `shardgraph embed near`: the nodes whose rows point in nearly the same direction.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_line::formats::{self, FileFormat};

use crate::exit::BadInput;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Example:
  shardgraph embed near 17 --model karate.npy --top 5";

/// List the nodes nearest to a node, by cosine; exact
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct NearArgs {
    /// The node's label
    node: String,
    /// A trained model: an embedding
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Its form: npy, word2vec-text, word2vec-binary or safetensors [default: by its name]
    #[arg(long, value_name = "FORM")]
    embedding_format: Option<FileFormat>,
    /// How many to list: nearest nodes
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer<'a> {
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
    let Some(node) = labels.find(&args.node) else {
        let file = args.model.display();
        let message = format!(
            "{file} has no node `{}`: give a label as the graph has it",
            args.node
        );
        return Err(BadInput(message).into());
    };
    let near = embedding
        .nearest(node, args.top)
        .into_iter()
        .map(|near| Near {
            node: labels.get(near.node as usize),
            cosine: near.cosine,
        });
    args.report.answer(&Answer {
        node: &args.node,
        near: near.collect(),
    })
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near
            .iter()
            .try_for_each(|near| writeln!(f, "{:.6} {}", near.cosine, near.node))
    }
}
