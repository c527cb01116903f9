//! `shardgraph embed`: a vector for each node of a graph, how good it is, and which nodes are near.

mod classify;
mod curve;
mod eval;
mod import;
mod near;
mod picture;
mod run_metrics;
mod selection;
mod settings;
mod show;
mod train;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::world;

const EXAMPLE: &str = "\
Examples:
  shardgraph embed karate --epochs 200 --out karate.npy
  shardgraph embed follows.txt.gz --directed --order 2 --dim 64 --out follows.safetensors
  shardgraph embed eval wiki-Vote.txt.gz --epochs 10 --format json
  shardgraph embed near 17 --model karate.npy
  shardgraph embed picture --model karate.npy --out karate.svg

The name of --out decides the form: .npy (labels beside it in .npy.labels), .npz (NumPy's archive
with labels), .safetensors, .csv, .bin (word2vec binary), .txt or .vec (word2vec text). A graph
with the name of a subcommand is written as a path: ./eval";

/// Either a graph to train on with its flags, or a subcommand.
#[derive(Debug)]
pub(crate) enum EmbedArgs {
    Train(Box<train::TrainArgs>),
    Other(Box<EmbedCommand>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum EmbedCommand {
    Eval(Box<eval::EvalArgs>),
    Near(near::NearArgs),
    Import(import::ImportArgs),
    Classify(classify::ClassifyArgs),
    Picture(picture::PictureArgs),
}

/// By hand, because a derived one cannot leave out arguments that a subcommand makes needless.
impl Args for EmbedArgs {
    fn augment_args(command: Command) -> Command {
        let command = train::TrainArgs::augment_args(command);
        EmbedCommand::augment_subcommands(command)
            .about("Embed the nodes of a graph as vectors (LINE)")
            .after_help(EXAMPLE)
            .subcommand_required(false)
            .arg_required_else_help(false)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EmbedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => {
                let command = EmbedCommand::from_arg_matches(matches)?;
                Ok(Self::Other(Box::new(command)))
            }
            None => {
                let args = train::TrainArgs::from_arg_matches(matches)?;
                Ok(Self::Train(Box::new(args)))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the subcommand, or trains.
pub(crate) fn run(args: &EmbedArgs) -> anyhow::Result<()> {
    world::refuse_processes("embed", Some("--threads"))?;
    let command = match args {
        EmbedArgs::Train(args) => return train::run(args),
        EmbedArgs::Other(command) => &**command,
    };
    match command {
        EmbedCommand::Eval(args) => eval::run(args),
        EmbedCommand::Near(args) => near::run(args),
        EmbedCommand::Import(args) => import::run(args),
        EmbedCommand::Classify(args) => classify::run(args),
        EmbedCommand::Picture(args) => picture::run(args),
    }
}
