//! `shardgraph embed`: a vector for each node of a graph, how good it is, and which nodes are near.

mod eval;
mod import;
mod near;
mod settings;
mod train;

use clap::{Args, Subcommand};

const EXAMPLE: &str = "\
Examples:
  shardgraph embed karate --epochs 200 --out karate.npy
  shardgraph embed follows.txt.gz --directed --order 2 --dim 64 --out follows.safetensors
  shardgraph embed eval wiki-Vote.txt.gz --epochs 10 --format json
  shardgraph embed near 17 --embedding karate.npy

The name of --out decides the form: .npy (labels beside it in .npy.labels), .safetensors, .bin
(word2vec binary), anything else word2vec text. A graph that has the name of a subcommand: ./eval";

/// Embed the nodes of a graph as vectors (LINE)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct EmbedArgs {
    #[command(subcommand)]
    command: Option<EmbedCommand>,
    #[command(flatten)]
    train: Option<train::TrainArgs>,
}

#[derive(Debug, Subcommand)]
enum EmbedCommand {
    Eval(eval::EvalArgs),
    Near(near::NearArgs),
    Import(import::ImportArgs),
}

/// Runs the subcommand, or trains.
pub(crate) fn run(args: &EmbedArgs) -> anyhow::Result<()> {
    match (&args.command, &args.train) {
        (Some(EmbedCommand::Eval(args)), _) => eval::run(args),
        (Some(EmbedCommand::Near(args)), _) => near::run(args),
        (Some(EmbedCommand::Import(args)), _) => import::run(args),
        (None, Some(args)) => train::run(args),
        (None, None) => Err(crate::exit::BadInput(
            "expected a graph, or eval, near or import".to_owned(),
        )
        .into()),
    }
}
