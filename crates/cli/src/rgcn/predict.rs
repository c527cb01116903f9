//! `shardgraph rgcn predict`: the classes of nodes by a trained model.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Deadline;
use shardgraph_rgcn::{class_names, predict};

use super::data::DataArgs;
use crate::exit::BadInput;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Example:
  shardgraph rgcn predict triples.int.csv.gz --train training.int.csv --run my-run --node 17 --node 4242";

/// Print the classes of nodes by a trained R-GCN
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The folder of the run, trained on the same graph
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
    /// A node by its name; may be given again
    #[arg(long, value_name = "NAME", required = true)]
    node: Vec<String>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer {
    predictions: Vec<Prediction>,
}

/// A node and its likeliest class, as the labels of the run call it.
#[derive(Serialize)]
struct Prediction {
    node: String,
    class: String,
}

/// Loads graph and model and prints the answer.
pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let data = args.data.load()?;
    let found = args.node.iter().map(|name| {
        let unknown = || BadInput(format!("--node {name}: the graph has no such node"));
        data.nodes.find(name).ok_or_else(unknown)
    });
    let nodes: Vec<u32> = found.collect::<Result<_, _>>()?;
    let classes = predict(&data.graph, &args.run, &nodes, Deadline::default())?;
    let names = class_names(&args.run)?;
    let name = |class: u32| {
        let known = names.get(class as usize);
        known.cloned().unwrap_or_else(|| class.to_string())
    };
    let predictions = args.node.iter().zip(classes);
    let predictions = predictions.map(|(node, class)| Prediction {
        node: node.clone(),
        class: name(class),
    });
    args.report.answer(&Answer {
        predictions: predictions.collect(),
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Prediction { node, class } in &self.predictions {
            writeln!(f, "{node}\t{class}")?;
        }
        Ok(())
    }
}
