//! `shardgraph rgcn predict`: the classes of nodes by a trained model.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Timeout;
use shardgraph_device::{Device, Timer};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::{SavedLinks, class_names, predict, run_config};

use super::data::DataArgs;
use super::links::{self, QuestionArgs};
use crate::exit::BadInput;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn predict triples.int.csv.gz --train training.int.csv --model my-run --node 17 --node 4242
  shardgraph rgcn predict FB15k-237.tar.gz --model my-links --subject /m/027rn --relation /location/country/form_of_government";

/// Print the classes of nodes, or the likeliest ends of links, by a trained R-GCN
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    data: DataArgs,
    /// A trained model: the run folder of `rgcn train` on the same graph
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// A node by its name; may be given again
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
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
    predictions: Vec<Prediction>,
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
}

/// Loads graph and model and prints the answer.
pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if SavedLinks::is_in(&args.model)? {
        if !args.node.is_empty() {
            let text = "a model that predicts links has no classes: ask with --relation and --subject or --object";
            return Err(BadInput(text.to_owned()).into());
        }
        return links::complete(&args.question, (&args.data, &args.model), &args.report);
    }
    if args.node.is_empty() || args.question.is_set() {
        let text = "a model of classes is asked with --node, one that predicts links with --relation and --subject or --object";
        return Err(BadInput(text.to_owned()).into());
    }
    let data = args.data.load()?;
    let timer = Timer::start(&Device::host());
    let found = args.node.iter().map(|name| {
        let unknown = || BadInput(format!("--node {name}: the graph has no such node"));
        data.nodes.find(name).ok_or_else(unknown)
    });
    let nodes: Vec<u32> = found.collect::<Result<_, _>>()?;
    let classes = predict(&data.graph, &args.model, &nodes, Timeout::default())?;
    let names = class_names(&args.model)?;
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
        graph: &data.name,
        mode: run_config(&args.model)?.mode.to_string(),
        predictions: predictions.collect(),
        seconds: timer.elapsed_s(),
        load_seconds: data.load_seconds,
        import: &data.report,
    })
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Prediction { node, class } in &self.predictions {
            writeln!(f, "{node}\t{class}")?;
        }
        Ok(())
    }
}
