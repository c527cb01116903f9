//! The published graphs that the data folder holds: their counts as published, and a skip that is printed where it is absent.

use shardgraph_graph::{Format, FormatSource, Import, ReadOptions, read_graph};
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/graphs");

/// File, format, how that is known, nodes, edges listed, self-loops, undirected edges.
type Known = (&'static str, Format, FormatSource, u32, u64, u64, u64);

use Format::{Dimacs, EdgeList, MatrixMarket, Pace};
use FormatSource::{Content, Extension};

const KNOWN: [Known; 10] = [
    (
        "wiki-Vote.txt.gz",
        EdgeList,
        Content,
        7115,
        103_689,
        0,
        100_762,
    ),
    ("ca-GrQc.txt.gz", EdgeList, Content, 5242, 28980, 12, 14484),
    (
        "facebook_combined.txt.gz",
        EdgeList,
        Content,
        4039,
        88234,
        0,
        88234,
    ),
    (
        "ego-twitter.txt.gz",
        EdgeList,
        Content,
        81306,
        1_342_296,
        0,
        1_342_296,
    ),
    (
        "socfb-Vanderbilt48.mtx.gz",
        MatrixMarket,
        Extension,
        8069,
        427_832,
        0,
        427_832,
    ),
    (
        "socfb-Georgetown15.mtx.gz",
        MatrixMarket,
        Extension,
        9414,
        425_638,
        0,
        425_638,
    ),
    ("frb30-15-1.mis", Dimacs, Extension, 450, 17827, 0, 17827),
    ("frb35-17-1.mis", Dimacs, Extension, 595, 27856, 0, 27856),
    ("C250.9.clq.gz", Dimacs, Extension, 250, 27984, 0, 27984),
    ("vc-exact_001.gr.gz", Pace, Extension, 6160, 40207, 0, 40207),
];

fn existing(name: &str) -> Option<PathBuf> {
    let path = Path::new(FOLDER).join(name);
    if !path.exists() {
        println!("SKIPPED: {name} is not in the data folder");
    }
    path.exists().then_some(path)
}

/// The other folders: of maximum cut, and of several graphs a file.
#[test]
fn gset_and_ml4co_files_are_recognised() {
    const G: Format = Format::Gset;
    const M: Format = Format::Ml4co;
    for (name, format, index, n_nodes, n_edges) in [
        ("../gset/G1.txt.gz", G, None, 800, 19176),
        ("../gset/G55.txt.gz", G, None, 5000, 12498),
        ("../gset/G70.txt.gz", G, None, 10000, 9999),
        ("../ml4co/mcut_ba-small.txt.gz", M, None, 0, 0),
        ("../ml4co/mis_er-700-800.txt.gz", M, Some(1), 0, 0),
    ] {
        let Some(path) = existing(name) else { continue };
        let options = ReadOptions {
            index,
            ..ReadOptions::default()
        };
        let import = read_graph(&path, &options).unwrap();
        assert_eq!(import.report.format, format, "{name}");
        assert_eq!(import.graph.weights(), None, "{name}");
        if format == G {
            let sizes = (import.graph.n_nodes(), import.graph.n_edges());
            assert_eq!(sizes, (n_nodes, n_edges), "{name}");
        } else {
            assert_eq!(
                import.report.instance,
                Some((index.unwrap_or(0), 2)),
                "{name}"
            );
            assert!(import.graph.n_edges() > 500, "{name}");
        }
    }
}

fn read(path: &Path) -> Import {
    read_graph(path, &ReadOptions::default()).unwrap()
}

#[test]
fn published_counts() {
    for (name, format, source, n_nodes, listed, loops, n_edges) in KNOWN {
        let Some(path) = existing(name) else { continue };
        let import = read(&path);
        let report = &import.report;
        assert_eq!(
            (report.format, report.format_source),
            (format, source),
            "{name}"
        );
        assert_eq!(import.graph.n_nodes(), n_nodes, "{name}");
        assert_eq!(report.listed_edges, listed, "{name}");
        assert_eq!(report.self_loops_dropped, loops, "{name}");
        assert_eq!(import.graph.n_edges(), n_edges, "{name}");
        assert_eq!(listed, n_edges + loops + report.duplicates_merged, "{name}");
    }
}

#[test]
fn labels_survive() {
    let Some(path) = existing("wiki-Vote.txt.gz") else {
        return;
    };
    let import = read(&path);
    // The file's first edge, and its smallest and largest ids.
    let [u, v] = ["30", "1412"].map(|label| import.labels.find(label).unwrap());
    assert!(import.graph.has_edge(u, v));
    assert_eq!(import.labels.get(0), "3");
    assert_eq!(import.labels.get(7114), "8297");
}

#[test]
fn clique_graph_and_its_complement_share_all_pairs() {
    let Some(path) = existing("C250.9.clq.gz") else {
        return;
    };
    let graph = read(&path).graph;
    let complement = graph.complement().unwrap();
    assert_eq!(graph.n_edges() + complement.n_edges(), 250 * 249 / 2);
    assert_eq!(complement.complement().unwrap(), graph);
    assert!(graph.edges().all(|(u, v)| !complement.has_edge(u, v)));
}

#[test]
fn a_wrong_format_is_refused_where_it_fails() {
    let Some(path) = existing("frb30-15-1.mis") else {
        return;
    };
    let options = ReadOptions {
        format: Some(Format::MatrixMarket),
        ..ReadOptions::default()
    };
    let error = read_graph(&path, &options).unwrap_err();
    assert_eq!((error.place().line, error.place().column), (1, 1));
}
