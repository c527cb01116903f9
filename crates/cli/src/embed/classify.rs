//! `shardgraph embed classify`: what rows say of given classes; `embed eval --classes` says the same of an embedding that it trains.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_line::Embedding;
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::nodes::{Classes, classify, communities};
use shardgraph_metrics::F1;

use crate::exit::BadInput;
use crate::report::ReportArgs;
use crate::text::Layout;

const EXAMPLE: &str = "\
Example:
  shardgraph embed classify --model votes.npy --classes groups.csv --train-shares 0.1,0.5,0.9

A line of --classes is a node and its classes, separated by commas, tabs or blanks. For each share of
the listed nodes a one-vs-rest logistic regression over the columns is fitted to nodes drawn at
random and judged on the others: micro and macro F1, means over --draws random draws. Communities
are k-means clusters of the rows at length 1, judged by their mutual information with the classes
(nodes of one class only).";

/// How an embedding is judged by classes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Classes")]
pub(crate) struct ClassFlags {
    /// Shares of the listed nodes to fit to
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        default_value = "0.1,0.5,0.9"
    )]
    train_shares: Vec<f64>,
    /// Draws of each share
    #[arg(long, value_name = "N", default_value_t = 10)]
    draws: u64,
    /// Clusters of k-means [default: as many as there are classes]
    #[arg(long, value_name = "K")]
    clusters: Option<usize>,
}

/// Measure how well an embedding tells nodes' classes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ClassifyArgs {
    /// A trained model: an embedding
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Its form: npy, npz, word2vec-text, word2vec-binary, safetensors or csv [default: by its name]
    #[arg(long, value_name = "FORM")]
    embedding_format: Option<FileFormat>,
    /// A file of nodes and their classes
    #[arg(long, value_name = "FILE")]
    classes: PathBuf,
    #[command(flatten)]
    flags: ClassFlags,
    /// Seed of all that is random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
pub(crate) struct ClassScores {
    classes: usize,
    classified_nodes: usize,
    draws: u64,
    classification: Vec<OfShare>,
    communities: Communities,
}

/// Means over the draws.
#[derive(Serialize)]
struct OfShare {
    train_share: f64,
    micro_f1: f64,
    macro_f1: f64,
}

#[derive(Serialize)]
struct Communities {
    /// Of exactly one class.
    nodes: usize,
    clusters: usize,
    nmi: Option<f64>,
}

impl ClassFlags {
    /// Refuses what makes no sense, before the work.
    pub(crate) fn check(&self) -> Result<(), BadInput> {
        if self.draws == 0 {
            return Err(BadInput("draws = 0: expected 1 or more".to_owned()));
        }
        if self.clusters == Some(0) {
            return Err(BadInput("clusters = 0: expected 1 or more".to_owned()));
        }
        let is_share = |share: &&f64| **share > 0.0 && **share < 1.0;
        match self.train_shares.iter().find(|share| !is_share(share)) {
            None => Ok(()),
            Some(share) => {
                let message = format!("train_shares = {share}: expected shares between 0 and 1");
                Err(BadInput(message))
            }
        }
    }

    /// Judges an embedding.
    pub(crate) fn scores(
        &self,
        embedding: &Embedding,
        classes: &Classes,
        seed: u64,
    ) -> anyhow::Result<ClassScores> {
        let mut classification = Vec::new();
        for &train_share in &self.train_shares {
            let draws = (0..self.draws)
                .map(|draw| classify(embedding, classes, train_share, seed.wrapping_add(draw)));
            let draws: Vec<F1> = draws.collect::<Result<_, _>>()?;
            let mean = |of: fn(&F1) -> f64| draws.iter().map(of).sum::<f64>() / draws.len() as f64;
            classification.push(OfShare {
                train_share,
                micro_f1: mean(|f1| f1.micro),
                macro_f1: mean(|f1| f1.mean),
            });
        }
        let n_classes = classes.names().len();
        let found = communities(embedding, classes, self.clusters, seed);
        Ok(ClassScores {
            classes: n_classes,
            classified_nodes: classes.of_nodes().len(),
            draws: self.draws,
            classification,
            communities: Communities {
                nodes: found.n_nodes,
                clusters: found.n_clusters,
                nmi: found.mutual_information,
            },
        })
    }
}

/// Reads, judges and prints the answer.
pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<()> {
    args.flags.check()?;
    let embedding = formats::read(&args.model, args.embedding_format)?;
    let classes = Classes::read(&args.classes, embedding.labels())?;
    let scores = args.flags.scores(&embedding, &classes, args.seed)?;
    args.report
        .answer(&scores, &Layout::first("classification"))
}
