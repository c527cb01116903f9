//! `shardgraph generate`: a seeded random graph in a file.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Format, WriteOptions, WriteReport, write_graph};

use crate::output_file;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Models: er:n:p  ba:n:m  ws:n:k:p  sbm:n:blocks:p_in:p_out  rb:cliques:size:p:r

Example:
  shardgraph generate er:3000:0.15 --seed 1 --out random.mtx";

/// Write a seeded random graph
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct GenerateArgs {
    /// Model and parameters, such as er:3000:0.15
    spec: GeneratorSpec,
    /// The same seed gives the same graph
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Where to write; .mtx, .el, .clq, .graph and .gr choose the format, .gz and .zst after it pack
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write as matrix-market, edge-list, dimacs, metis or pace [default: by extension]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<Format>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer {
    graph: String,
    seed: u64,
    nodes: u32,
    edges: u64,
    seconds: f64,
    format: &'static str,
    out: String,
}

/// Generates, writes and prints the answer.
pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    output_file::check(&args.out, None)?;
    let timer = Timer::start(&Device::host());
    let graph = args.spec.graph(args.seed)?;
    let options = WriteOptions {
        format: args.output_format,
        ..WriteOptions::default()
    };
    let written: WriteReport = write_graph(&args.out, &graph, None, options)?;
    args.report.warning(&written.to_string());
    args.report.answer(&Answer {
        graph: args.spec.to_string(),
        seed: args.seed,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        seconds: timer.elapsed_s(),
        format: written.format.name(),
        out: args.out.display().to_string(),
    })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {} (seed {})", self.graph, self.seed)?;
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(f, "file {} ({})", self.out, self.format)
    }
}
