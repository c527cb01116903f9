//! What is written is read back equal, for every format and compression.

use super::graphs::edge_lists;
use proptest::prelude::*;
use shardgraph_graph::{
    Compression, ErrorKind, Format, Graph, Import, Labels, ReadOptions, WeightPolicy, WriteOptions,
    read_bytes, read_graph, write_graph,
};

const NAMES: [&str; 20] = [
    "g.mtx",
    "g.el",
    "g.clq",
    "g.metis",
    "g.gr",
    "g.rud",
    "g.ml4co",
    "g.graphml",
    "g.graphml.gz",
    "g.mtx.gz",
    "g.el.gz",
    "g.clq.gz",
    "g.metis.gz",
    "g.gr.gz",
    "g.ml4co.gz",
    "g.mtx.zst",
    "g.el.zst",
    "g.clq.zst",
    "g.metis.zst",
    "g.gr.zst",
];

/// Writes, reads back, and checks that the two reports agree on format and compression.
fn there_and_back(name: &str, graph: &Graph, weights: WeightPolicy) -> Import {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let written = write_graph(&path, graph, None, WriteOptions::default()).unwrap();
    let options = ReadOptions {
        weights,
        ..ReadOptions::default()
    };
    let import = read_graph(&path, &options).unwrap();
    assert_eq!(import.report.format, written.format);
    assert_eq!(import.report.compression, written.compression);
    assert_eq!(
        import.report.duplicates_merged + import.report.self_loops_dropped,
        0
    );
    import
}

/// The graph without its isolated nodes, renumbered in order: what an edge list can hold.
fn without_isolated(graph: &Graph) -> Graph {
    let kept: Vec<u32> = (0..graph.n_nodes())
        .filter(|&v| graph.degree(v) > 0)
        .collect();
    let new = |v: u32| kept.binary_search(&v).unwrap() as u32;
    let edges: Vec<_> = graph
        .weighted_edges()
        .map(|(u, v, w)| (new(u), new(v), w))
        .collect();
    match graph.weights() {
        Some(_) => Graph::from_weighted_edges(kept.len() as u32, &edges).unwrap(),
        None => {
            let edges: Vec<_> = edges.iter().map(|&(u, v, _)| (u, v)).collect();
            Graph::from_edges(kept.len() as u32, &edges).unwrap()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn unweighted((n, edges) in edge_lists()) {
        let edges: Vec<_> = edges.iter().map(|&(u, v, _)| (u, v)).collect();
        let graph = Graph::from_edges(n, &edges).unwrap();
        for name in NAMES {
            let read = there_and_back(name, &graph, WeightPolicy::Declared);
            if read.report.format == Format::EdgeList {
                prop_assert_eq!(&read.graph, &without_isolated(&graph), "{}", name);
            } else {
                prop_assert_eq!(&read.graph, &graph, "{}", name);
                let counts_from_0 = [Format::Ml4co, Format::GraphMl].contains(&read.report.format);
                let first = u64::from(!counts_from_0);
                prop_assert_eq!(read.labels, Labels::offset(first, n));
            }
        }
    }

    #[test]
    fn whole_weights((n, edges) in edge_lists()) {
        let graph = Graph::from_weighted_edges(n, &edges).unwrap();
        for name in ["g.mtx", "g.graphml", "g.metis", "g.metis.zst"] {
            prop_assert_eq!(&there_and_back(name, &graph, WeightPolicy::Declared).graph, &graph);
        }
        let cut = there_and_back("g.rud", &graph, WeightPolicy::Declared).graph;
        prop_assert!(cut.edges().eq(graph.edges()));
        let has_weights = graph.weighted_edges().any(|(_, _, w)| w.to_bits() != 1f32.to_bits());
        prop_assert_eq!(cut.weights(), graph.weights().filter(|_| has_weights));
        let listed = there_and_back("g.el", &graph, WeightPolicy::ThirdColumn).graph;
        prop_assert_eq!(listed, without_isolated(&graph));
        let (bare, ignored) = (there_and_back("g.clq", &graph, WeightPolicy::Declared), there_and_back("g.mtx", &graph, WeightPolicy::Ignore));
        prop_assert_eq!(&bare.graph, &ignored.graph);
        prop_assert!(ignored.report.weights_ignored);
    }

    #[test]
    fn any_finite_weight_comes_back_bit_for_bit(bits in prop::collection::vec(any::<u32>(), 1..40)) {
        let weights = bits.iter().map(|&b| f32::from_bits(b)).filter(|w| w.is_finite());
        let edges: Vec<_> = (1..).zip(weights).map(|(v, w)| (0, v, w)).collect();
        let graph = Graph::from_weighted_edges(edges.len() as u32 + 1, &edges).unwrap();
        let as_bits = |g: &Graph| g.weights().unwrap().iter().map(|w| w.to_bits()).collect::<Vec<_>>();
        for name in ["g.mtx", "g.graphml"] {
            let read = there_and_back(name, &graph, WeightPolicy::Declared).graph;
            prop_assert_eq!(as_bits(&read), as_bits(&graph));
        }
    }

    #[test]
    fn text_labels_come_back(names in prop::collection::btree_set("[a-zéß_][a-zé0-9.:-]{0,8}", 2..20)) {
        let names: Vec<String> = names.into_iter().collect();
        let text: String = names.windows(2).map(|pair| format!("{},{}\n", pair[0], pair[1])).collect();
        let import = read_bytes("names.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again.tsv");
        write_graph(&path, &import.graph, Some(&import.labels), WriteOptions::default()).unwrap();
        let again = read_graph(&path, &ReadOptions::default()).unwrap();
        let named = |import: &Import| {
            let edge = |(u, v)| {
                let mut pair = [import.labels.get(u), import.labels.get(v)];
                pair.sort();
                pair
            };
            let mut edges: Vec<_> = import.graph.edges().map(edge).collect();
            edges.sort();
            edges
        };
        prop_assert_eq!(named(&again), named(&import));
        for v in 0..import.labels.n_nodes() {
            prop_assert_eq!(import.labels.find(&import.labels.get(v)), Some(v));
        }
    }
}

#[test]
fn integer_labels_come_back_ascending() {
    let text = b"70 4000000000000\n9 70\n18446744073709551615 9\n";
    let import = read_bytes("g.el", text, &ReadOptions::default()).unwrap();
    let labels: Vec<_> = (0..4).map(|v| import.labels.get(v)).collect();
    assert_eq!(labels, ["9", "70", "4000000000000", "18446744073709551615"]);
    assert_eq!(
        import.graph.edges().collect::<Vec<_>>(),
        [(0, 1), (0, 3), (1, 2)]
    );
    assert_eq!(import.labels.find("70"), Some(1));
    assert_eq!(import.labels.find("71"), None);
    let mut out = Vec::new();
    import.labels.write_label(2, &mut out).unwrap();
    assert_eq!(out, b"4000000000000");
}

/// A fuzz target's find: `#x` is a name where it comes second, and would begin a comment where it came first.
#[test]
fn names_that_look_like_comments_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.el");
    let import = read_bytes("g.el", b"a #x\nb #x\nb %y\n", &ReadOptions::default()).unwrap();
    let options = WriteOptions::default();
    write_graph(&path, &import.graph, Some(&import.labels), options).unwrap();
    let again = read_graph(&path, &ReadOptions::default()).unwrap();
    assert_eq!(again.graph.n_edges(), 3);
    for name in ["a", "b", "#x", "%y"] {
        let degree = |import: &Import| import.graph.degree(import.labels.find(name).unwrap());
        assert_eq!(degree(&again), degree(&import), "{name}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let graph = Graph::from_weighted_edges(4, &[(0, 1, 2.5)]).unwrap();
    let labels = Labels::integers(vec![3, 5, 7, 9]);
    let write = |name: &str| {
        write_graph(
            &folder.path().join(name),
            &graph,
            Some(&labels),
            WriteOptions::default(),
        )
    };
    let lost = write("a.gr").unwrap();
    assert!(lost.weights_left_out && lost.labels_left_out);
    assert_eq!(lost.isolated_nodes_left_out, 0);
    let lost = write("a.el").unwrap();
    assert!(!lost.weights_left_out && !lost.labels_left_out);
    assert!(
        lost.to_string()
            .contains("isolated nodes left out (edge list cannot name them): 2"),
        "{lost}"
    );
    let error = write("a.metis").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("weight 2.5"), "{error}");
    assert!(!folder.path().join("a.metis").exists());
}

#[test]
fn options_override_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.bin");
    let graph = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
    let options = WriteOptions {
        format: Some(Format::Metis),
        compression: Some(Compression::Zstd),
    };
    write_graph(&path, &graph, None, options).unwrap();
    let options = ReadOptions {
        format: Some(Format::Metis),
        ..ReadOptions::default()
    };
    let import = read_graph(&path, &options).unwrap();
    assert_eq!(import.graph, graph);
    assert_eq!(import.report.compression, Compression::Zstd);
}

fn folder_names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A pipe is read once and kept, and written to directly rather than replaced.
#[cfg(unix)]
#[test]
fn pipes_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.el");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no mkfifo here");
        return;
    }
    let graph = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || read_graph(&pipe, &ReadOptions::default()).unwrap().graph)
    };
    write_graph(&pipe, &graph, None, WriteOptions::default()).unwrap();
    assert_eq!(reader.join().unwrap(), graph);
    assert_eq!(folder_names(folder.path()), ["pipe.el"]);
}

/// A first edge that a reader would take for the names of columns is written last.
#[test]
fn an_edge_that_looks_like_a_header_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.el");
    let edges_of = |import: &shardgraph_graph::Import| {
        let name = |v| import.labels.get(v);
        let mut edges: Vec<[String; 2]> = import
            .graph
            .weighted_edges()
            .map(|(u, v, _)| [name(u), name(v)])
            .collect();
        edges.iter_mut().for_each(|edge| edge.sort());
        edges.sort();
        edges
    };
    for text in [
        "rn0 4J0\nrn0 4J0 0\n11 12\n12 13\n",
        "source source\nsource target\ntarget b\n",
    ] {
        let read = read_bytes("g.el", text.as_bytes(), &ReadOptions::default()).unwrap();
        let options = WriteOptions::default();
        write_graph(&path, &read.graph, Some(&read.labels), options).unwrap();
        let again = read_graph(&path, &ReadOptions::default()).unwrap();
        assert_eq!(edges_of(&again), edges_of(&read), "{text}");
    }
}
