//! `shardgraph rgcn info`: what a relational graph and its labels hold.

use std::fmt;

use clap::Args;
use serde::Serialize;
use shardgraph_rgcn::RelationalGraph;
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::partition::Pairs;

use super::data::{Data, DataArgs};
use crate::report::ReportArgs;

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
    #[serde(skip)]
    data: &'a Data,
}

/// Loads the data and prints the answer.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let data = args.data.load()?;
    args.report.answer(&answer(&data))
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
        data,
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

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.data)?;
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(
            f,
            "relations {} ({} of them inverse)",
            self.relations, self.inverse_relations
        )?;
        writeln!(f, "pairs of source and relation {}", self.pairs)?;
        writeln!(
            f,
            "largest relation {} ({} edges)",
            self.largest_relation, self.largest_relation_edges
        )?;
        writeln!(
            f,
            "busiest node {} ({} ends of edges)",
            self.busiest_node, self.busiest_node_edges
        )?;
        if self.classes > 0 {
            writeln!(f, "classes {}", self.classes)?;
            writeln!(
                f,
                "labels {} to learn from, {} to test on, {} to choose by",
                self.train_labels, self.test_labels, self.valid_labels
            )?;
        }
        writeln!(f, "load seconds {:.6}", self.load_seconds)
    }
}
