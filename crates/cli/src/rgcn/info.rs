//! `shardgraph rgcn info`: what a relational graph and its labels hold.

use clap::Args;
use serde::Serialize;
use shardgraph_rgcn::RelationalGraph;
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::partition::Pairs;

use super::data::{Data, DataArgs};
use crate::report::ReportArgs;
use crate::text::{Layout, reading};

const EXAMPLE: &str = "\
Example:
  shardgraph rgcn info triples.csv --train known.csv --test asked.csv";

/// Print what a relational graph and its labels hold, and what reading dropped
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    nodes: u32,
    edges: usize,
    relations: u32,
    inverse_relations: u32,
    pairs: usize,
    largest_relation: String,
    largest_relation_edges: u64,
    busiest_node: String,
    busiest_node_edges: u64,
    classes: usize,
    train_labels: usize,
    test_labels: usize,
    valid_labels: usize,
    load_seconds: f64,
    import: &'a Option<ImportReport>,
}

/// Loads the data and prints the answer.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let data = args.data.load()?;
    args.report.answer(
        &answer(&data),
        &Layout {
            below: reading(data.report.as_ref()),
            ..Layout::first("edges")
        },
    )
}

fn answer(data: &Data) -> Answer<'_> {
    let graph = &data.graph;
    let n_own = data.relations.n_nodes();
    let (relation, relation_edges) = largest(&graph.edges_by_relation()[..n_own as usize]);
    let (node, node_edges) = largest(&degrees(graph));
    let labels = data.labels.as_ref();
    let of_set = |set: fn(&shardgraph_rgcn::Labels) -> &[(u32, u32)]| {
        labels.map_or(0, |labelled| set(&labelled.labels).len())
    };
    Answer {
        graph: &data.name,
        nodes: graph.n_nodes(),
        edges: graph.n_edges(),
        relations: graph.n_relations(),
        inverse_relations: graph.n_relations() - n_own,
        pairs: Pairs::of(graph).as_slice().len(),
        largest_relation: data.relations.get(relation),
        largest_relation_edges: relation_edges,
        busiest_node: data.nodes.get(node),
        busiest_node_edges: node_edges,
        classes: labels.map_or(0, |labelled| labelled.classes.len()),
        train_labels: of_set(shardgraph_rgcn::Labels::train),
        test_labels: of_set(shardgraph_rgcn::Labels::test),
        valid_labels: of_set(shardgraph_rgcn::Labels::valid),
        load_seconds: data.load_seconds,
        import: &data.report,
    }
}

/// Ends of edges at each node.
fn degrees(graph: &RelationalGraph) -> Vec<u64> {
    let mut degrees = vec![0; graph.n_nodes() as usize];
    for edge in graph.edges() {
        degrees[edge.source as usize] += 1;
        degrees[edge.target as usize] += 1;
    }
    degrees
}

/// The first of the largest counts; a graph that was read has a relation and a node.
fn largest(counts: &[u64]) -> (u32, u64) {
    let by_count = (0..).zip(counts.iter().copied());
    by_count.fold(
        (0, 0),
        |best, next| if next.1 > best.1 { next } else { best },
    )
}
