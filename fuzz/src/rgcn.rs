//! Triples in every form, packed or in archives, and tables of labels.

use std::fs;

use shardgraph_graph::Labels as Names;
use shardgraph_rgcn::import::{
    ImportOptions, Importer, LabelColumns, LabelFiles, Literals, read_labels,
};
use shardgraph_rgcn::partition::{CostModel, Method, Pairs, Partition};
use shardgraph_rgcn::{RelationalGraph, read_features};

use crate::bytes::scratch;

/// What the first byte makes of the file's name.
const NAMES: [&str; 8] = [
    "x.nt",
    "x.ttl",
    "x.csv",
    "train2id.txt",
    "x.tsv",
    "x.tar",
    "x",
    "x.nt.gz",
];

/// What was read, dropped and left out adds up, and every cut of it has each edge once.
///
/// # Panics
/// When a rule is broken.
pub fn triples(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let name = NAMES[first as usize % NAMES.len()];
    let options = ImportOptions {
        literals: if first & 64 == 0 {
            Literals::Keep
        } else {
            Literals::Drop
        },
        max_bad_lines: u64::from(first >> 7) * 5,
        ..ImportOptions::default()
    };
    let mut importer = Importer::new(options.clone());
    let read = importer.add_bytes(name, data);
    let import = match read.and_then(|()| importer.finish()) {
        Ok(import) => import,
        Err(error) => {
            assert!(error.class().exit_code() == 2 && !error.to_string().is_empty());
            return;
        }
    };
    let report = &import.report;
    let dropped = match options.literals {
        Literals::Keep => 0,
        Literals::Drop => report.literal_triples,
    };
    let n_edges = import.graph.n_edges() as u64;
    assert_eq!(
        n_edges + report.duplicates_dropped + dropped,
        report.triples
    );
    assert!(report.bad_lines <= options.max_bad_lines);
    every_cut(&import.graph);
}

/// Each method cuts the graph with every edge in one part.
fn every_cut(graph: &RelationalGraph) {
    if graph.n_nodes() > 1 << 16 || graph.n_relations() > 1 << 12 {
        return; // a cut is a table by node and one by relation
    }
    let pairs = Pairs::of(graph);
    let model = CostModel {
        n_bases: 3,
        self_loop: true,
    };
    for method in Method::ALL {
        let partition = Partition::new(&pairs, method, 3, model, 1).expect("three parts");
        let loads = partition.loads(&pairs);
        let sum: u64 = loads.as_slice().iter().map(|load| load.n_edges).sum();
        assert_eq!(sum, graph.n_edges() as u64);
    }
}

/// Labels of a hundred numbered nodes: errors name the file, labels are of the nodes.
///
/// # Panics
/// When a rule is broken.
pub fn node_labels(data: &[u8]) {
    let path = scratch("labels");
    fs::write(&path, data).expect("room for a file");
    let files = LabelFiles {
        train: path.clone(),
        ..LabelFiles::default()
    };
    match read_labels(&files, &LabelColumns::default(), &Names::offset(0, 100)) {
        Ok(labelled) => {
            assert!(labelled.nodes().iter().all(|&node| node < 100));
            assert!(labelled.classes.len() > 1);
        }
        Err(error) => {
            let named = error.to_string().contains(&path.display().to_string());
            assert!(named, "{error}");
        }
    }
}

/// Features of three numbered nodes, as a table and as an array: errors name the file, and each
/// node has a row.
///
/// # Panics
/// When a rule is broken.
pub fn features(data: &[u8]) {
    for name in ["features.csv", "features.npy"] {
        let path = scratch(name);
        fs::write(&path, data).expect("room for a file");
        match read_features(&path, &Names::offset(0, 3)) {
            Ok(features) => assert_eq!(features.n_rows(), 3),
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
    }
}
