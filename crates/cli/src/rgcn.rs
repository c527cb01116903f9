//! `shardgraph rgcn`: graphs whose edges have relations; what is in them, how they are cut over devices, training.

mod accuracy;
mod curve;
mod data;
mod eval;
mod info;
mod links;
mod plan;
mod predict;
mod queries;
mod settings;
mod train;
mod train_answer;
mod vectors;

use clap::{Args, Subcommand};
use shardgraph_rgcn::partition::Method;

use crate::world;

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn train aifb_stripped.nt.gz --train trainingSet.tsv --test testSet.tsv --repeats 10
  shardgraph rgcn info aifb_stripped.nt.gz --train trainingSet.tsv --test testSet.tsv
  shardgraph rgcn plan aifb_stripped.nt.gz --devices 4 --partition m1 --format json
  shardgraph rgcn plan ba-rel:800000:2.5:100:zipf --devices 4 --device-memory 512MiB";

/// Classify the nodes of relational graphs (R-GCN)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct RgcnArgs {
    #[command(subcommand)]
    command: RgcnCommand,
}

/// The cut of messages, of training and of its plan.
#[derive(Debug, Args)]
struct PartitionArgs {
    /// How messages are cut over ranks: source (ranges of sources), m1 (whole relations, edges balanced)
    /// or m2 (whole relations, in a snake); with exact sums the result is the same
    #[arg(
        help_heading = "Ranks and devices",
        hide_short_help = true,
        long,
        value_name = "METHOD",
        default_value = "source"
    )]
    partition: Method,
}

#[derive(Debug, Subcommand)]
enum RgcnCommand {
    Train(Box<train::TrainArgs>),
    Eval(Box<eval::EvalArgs>),
    Predict(Box<predict::PredictArgs>),
    Info(Box<info::InfoArgs>),
    Plan(Box<plan::PlanArgs>),
}

/// Runs the subcommand.
pub(crate) fn run(args: &RgcnArgs) -> anyhow::Result<()> {
    if !matches!(args.command, RgcnCommand::Train(_)) {
        world::refuse_processes("rgcn", None)?; // its training alone has ranks
    }
    match &args.command {
        RgcnCommand::Train(args) => train::run(args),
        RgcnCommand::Eval(args) => eval::run(args),
        RgcnCommand::Predict(args) => predict::run(args),
        RgcnCommand::Info(args) => info::run(args),
        RgcnCommand::Plan(args) => plan::run(args),
    }
}
