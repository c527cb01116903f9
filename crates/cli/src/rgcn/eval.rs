//! `shardgraph rgcn eval`: how well a trained model does on labelled nodes.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Timeout;
use shardgraph_device::{Device, Timer};
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::{Evaluation, SavedLinks, class_names, evaluate, run_config};

use super::accuracy::{accuracy_of, confusion, shown_accuracy};
use super::data::DataArgs;
use super::links;
use crate::exit::BadInput;
use crate::report::ReportArgs;
use crate::text::{Layout, reading};

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn eval triples.csv --train known.csv --test asked.csv --model my-run
  shardgraph rgcn eval FB15k-237.tar.gz --model links";

/// Measure how well a trained R-GCN classifies labelled nodes, or how high it ranks links
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    data: DataArgs,
    /// A trained model: the run folder of `rgcn train` on the same graph
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    /// How the model was trained; what it says of nodes is the same for either.
    mode: String,
    epochs: u32,
    classes: &'a [String],
    #[serde(flatten)]
    evaluation: Evaluation,
    /// What reading the graph dropped; none for a generated one.
    seconds: f64,
    load_seconds: f64,
    import: &'a Option<ImportReport>,
}

/// Loads data and model and prints the answer.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    if SavedLinks::is_in(&args.model)? {
        return links::eval(&args.data, &args.model, &args.report);
    }
    let data = args.data.load_for(&args.model)?;
    let Some(labelled) = &data.labels else {
        return Err(
            BadInput("evaluation needs labels: name their file with --train".to_owned()).into(),
        );
    };
    let known = class_names(&args.model)?;
    if !known.is_empty() && known != labelled.classes {
        let (known, found) = (known.join(", "), labelled.classes.join(", "));
        let text = format!("the labels' classes are {found}: expected those of the run, {known}");
        return Err(BadInput(text).into());
    }
    let timer = Timer::start(&Device::host());
    let of_run = run_config(&args.model)?;
    let evaluation = evaluate(
        &data.graph,
        &args.model,
        &labelled.labels,
        Timeout::default(),
    )?;
    let below = confusion(&evaluation, &labelled.classes) + &reading(data.report.as_ref());
    let layout = Layout {
        below,
        headline: Some(format!(
            "{} accuracy {:.4}",
            accuracy_of(&evaluation),
            shown_accuracy(&evaluation)
        )),
        ..Layout::default()
    };
    args.report.answer(
        &Answer {
            graph: &data.name,
            mode: of_run.mode.to_string(),
            epochs: of_run.epochs,
            classes: &labelled.classes,
            evaluation,
            seconds: timer.elapsed_s(),
            load_seconds: data.load_seconds,
            import: &data.report,
        },
        &layout,
    )
}
