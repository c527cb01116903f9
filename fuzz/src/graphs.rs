//! Readers of graphs: errors name the file, limits hold, and what was read is written and read again equal.

use std::path::Path;

use crate::bytes::scratch;
use shardgraph_graph::{
    ErrorKind, Format, Import, ReadOptions, WeightPolicy, WriteOptions, WriteReport, read_bytes,
    read_graph, write_graph,
};

const MAX_NODES: u32 = 1 << 12;

/// Reads `data` as `format` and checks the graph.
///
/// # Panics
/// When a rule is broken.
pub fn check(data: &[u8], format: Format) {
    let options = ReadOptions {
        format: Some(format),
        max_nodes: Some(MAX_NODES),
        ..ReadOptions::default()
    };
    let import = match read_bytes("fuzz", data, &options) {
        Ok(import) => import,
        Err(error) => return assert!(error.to_string().starts_with("fuzz"), "{error}"),
    };
    check_counts(&import);
    let path = scratch("graph");
    let to = WriteOptions {
        format: Some(format),
        ..WriteOptions::default()
    };
    let report = match write_graph(&path, &import.graph, Some(&import.labels), to) {
        Ok(report) => report,
        // METIS has no room for some weights, an edge list for a name with a quote.
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    };
    check_again(&import, &path, format, &report);
}

/// Reads the file that `import` was written to.
fn check_again(import: &Import, path: &Path, format: Format, report: &WriteReport) {
    let is_list = format == Format::EdgeList;
    let weighted = is_list && import.graph.weights().is_some();
    let options = ReadOptions {
        weights: if weighted {
            WeightPolicy::ThirdColumn
        } else {
            WeightPolicy::Declared
        },
        format: Some(format),
        max_nodes: Some(MAX_NODES),
        ..ReadOptions::default()
    };
    let again = read_graph(path, &options).expect("what was written can be read");
    if is_list || report.weights_left_out {
        let lost = if is_list {
            report.isolated_nodes_left_out
        } else {
            0
        };
        assert_eq!(
            u64::from(again.graph.n_nodes()) + lost,
            u64::from(import.graph.n_nodes())
        );
        assert_eq!(again.graph.n_edges(), import.graph.n_edges());
        assert_eq!(named_edges(&again), named_edges(import), "edges by name");
    } else {
        assert_eq!(again.graph, import.graph);
    }
}

fn check_counts(import: &Import) {
    let (graph, report) = (&import.graph, &import.report);
    assert!(graph.n_nodes() <= MAX_NODES);
    assert_eq!(graph.n_nodes(), report.n_nodes);
    assert_eq!(import.labels.n_nodes(), report.n_nodes);
    let gone = report.self_loops_dropped + report.duplicates_merged;
    assert_eq!(graph.n_edges() + gone, report.listed_edges, "{report}");
    if let Some(weights) = &import.node_weights {
        let n = u64::from(weights.n_per_node) * u64::from(graph.n_nodes());
        assert_eq!(weights.values.len() as u64, n);
    }
}

fn named_edges(import: &Import) -> Vec<(String, String)> {
    let name = |v| import.labels.get(v);
    let ends = import.graph.edges().map(|(u, v)| (name(u), name(v)));
    let mut edges: Vec<_> = ends
        .map(|(u, v)| if u <= v { (u, v) } else { (v, u) })
        .collect();
    edges.sort();
    edges
}
