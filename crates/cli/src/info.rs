//! `shardgraph info`: what a graph holds, and how it would be stored.

use clap::Args;
use serde::Serialize;
use shardgraph_graph::ImportReport;
use shardgraph_shard::Adjacency;

use crate::graph_argument::{GraphArgs, Origin, storage_name};
use crate::report::ReportArgs;
use crate::text::{Layout, reading};
use crate::world;

const EXAMPLE: &str = "\
Example:
  shardgraph info graph.mtx.gz --format json";

/// Print what a graph holds, and what reading it dropped or merged
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    /// Of a file: its format, how it is packed, and the edges that it lists.
    format: Option<&'static str>,
    packing: Option<String>,
    listed_edges: Option<u64>,
    nodes: u32,
    edges: u64,
    density: f64,
    min_degree: u32,
    mean_degree: f64,
    max_degree: u32,
    isolated_nodes: usize,
    self_loops_dropped: u64,
    duplicates_merged: u64,
    storage: &'static str,
    storage_bytes: u64,
    load_seconds: f64,
}

/// Loads the graph as `solve` would, and prints the answer.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    world::refuse_processes("info", None)?;
    let (adjacency, origin) = args.graph.adjacency(&args.report)?;
    args.report.answer(
        &answer(&adjacency, &origin),
        &Layout {
            below: reading(origin.import.as_ref()),
            ..Layout::first("edges")
        },
    )
}

fn answer<'a>(adjacency: &Adjacency, origin: &'a Origin) -> Answer<'a> {
    let degrees = adjacency.degrees();
    let (n_nodes, n_edges) = (adjacency.n_nodes(), adjacency.n_edges());
    let per = |entries: f64, places: f64| if places > 0.0 { entries / places } else { 0.0 };
    let (n, n_entries) = (f64::from(n_nodes), 2.0 * n_edges as f64);
    let count = |count: fn(&ImportReport) -> u64| origin.import.as_ref().map_or(0, count);
    let import = origin.import.as_ref();
    Answer {
        graph: &origin.name,
        format: import.map(|import| import.format.name()),
        packing: import.map(|import| import.compression.to_string()),
        listed_edges: import.map(|import| import.listed_edges),
        nodes: n_nodes,
        edges: n_edges,
        density: per(n_entries, n * (n - 1.0)),
        min_degree: degrees.iter().copied().min().unwrap_or(0),
        mean_degree: per(n_entries, n),
        max_degree: degrees.iter().copied().max().unwrap_or(0),
        isolated_nodes: degrees.iter().filter(|&&degree| degree == 0).count(),
        self_loops_dropped: count(|import| import.self_loops_dropped),
        duplicates_merged: count(|import| import.duplicates_merged),
        storage: storage_name(adjacency.storage()),
        storage_bytes: adjacency.bytes(),
        load_seconds: origin.load_seconds,
    }
}
