//! `shardgraph convert`: a graph in another format.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_graph::{Format, WriteOptions, write_graph};

use crate::graph_argument::GraphArgs;
use crate::output_file;
use crate::report::ReportArgs;
use crate::text::{Layout, reading};
use crate::world;

const EXAMPLE: &str = "\
Edge lists and GraphML keep node labels; they, Matrix Market and METIS keep edge weights. The
command prints what the format of OUT cannot hold.

Examples:
  shardgraph convert wiki-Vote.txt.gz wiki-Vote.gr.zst
  shardgraph convert C250.9.clq.gz instance.mtx --complement";

/// Write a graph in another format
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    graph: GraphArgs,
    /// Where to write; .mtx, .el, .clq, .graph, .gr and .graphml choose the format, .gz and .zst after it pack
    out: PathBuf,
    /// Format of the file to write: matrix-market, edge-list, dimacs, metis, pace, gset, ml4co or graphml [default: by extension]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<Format>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    nodes: u32,
    edges: u64,
    seconds: f64,
    load_seconds: f64,
    format: &'static str,
    out: String,
}

/// Reads, writes and prints the answer.
pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    world::refuse_processes("convert", None)?;
    output_file::check_named(&args.out, args.graph.file())?;
    let format = output_file::graph_format(&args.out, args.output_format)?;
    let (graph, origin) = args.graph.whole_graph()?;
    let options = WriteOptions {
        format: Some(format),
        ..WriteOptions::default()
    };
    let timer = Timer::start(&Device::host());
    let labels = origin.import.as_ref().map(|_| &origin.labels); // graphs made here have none to lose
    let written = write_graph(&args.out, &graph, labels, options)?;
    args.report.warning(&written.to_string());
    args.report.answer(
        &Answer {
            graph: &origin.name,
            nodes: graph.n_nodes(),
            edges: graph.n_edges(),
            seconds: timer.elapsed_s(),
            load_seconds: origin.load_seconds,
            format: written.format.name(),
            out: args.out.display().to_string(),
        },
        &Layout {
            below: reading(origin.import.as_ref()),
            ..Layout::first("edges")
        },
    )
}
