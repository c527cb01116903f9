//! Which format is chosen, and what is merged, dropped, refused and reported.

use proptest::prelude::*;
use shardgraph_graph::{
    EdgeSink, Error, ErrorKind, Format, FormatSource, Graph, GraphBuilder, Import, Policy,
    ReadOptions, WeightPolicy, read_bytes, stream_bytes,
};

fn read(name: &str, text: &str) -> Import {
    read_bytes(name, text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn refusal(text: &str, name: &str, options: &ReadOptions) -> Error {
    let error = read_bytes(name, text.as_bytes(), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Policy, "{error}");
    error
}

/// Name, text, and the format that has to be chosen.
const FORMATS: [(&str, &str, Format); 35] = [
    (
        "a.mtx",
        "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n",
        Format::MatrixMarket,
    ),
    (
        "a.txt",
        "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n",
        Format::MatrixMarket,
    ),
    (
        "a",
        "%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n",
        Format::MatrixMarket,
    ),
    ("a.clq", "p edge 2 1\ne 1 2\n", Format::Dimacs),
    ("a.col", "p col 2 1\ne 1 2\n", Format::Dimacs),
    ("a.MIS", "p edge 2 1\ne 1 2\n", Format::Dimacs),
    (
        "a.txt",
        "c FILE: x\nc\nc y\np col 2 1\ne 1 2\n",
        Format::Dimacs,
    ),
    ("a.gr", "p td 2 1\n1 2\n", Format::Pace),
    ("a.txt", "c x\np vc 2 1\n1 2\n", Format::Pace),
    ("a.gr", "2 1\n1 2\n", Format::Pace),
    // A bare `n m` is PACE only when exactly m pairs of ids from 1 to n follow.
    ("a.txt", "3 2\n1 2\n2 3\n", Format::Pace),
    ("a.txt", "3 2\n1 2\n2 3\n1 3\n", Format::EdgeList),
    ("a.txt", "3 2\n1 2\n", Format::EdgeList),
    ("a.txt", "3 2\n1 2\n2 4\n", Format::EdgeList),
    ("a.txt", "3 2\n1 2\n0 2\n", Format::EdgeList),
    ("a.txt", "0 1\n0 2\n", Format::EdgeList),
    ("a.txt", "5 0\n", Format::EdgeList),
    // METIS when n rows with 2m neighbours follow, an empty one among them.
    ("a.txt", "5 4\n2 3\n1 3\n1 2 4\n3\n\n", Format::Metis),
    ("a.graph", "2 1\n2\n1\n", Format::Metis),
    ("a.metis", "2 1\n2\n1\n", Format::Metis),
    ("a.txt", "# 3 2\n1 2\n", Format::EdgeList),
    ("a.csv", "1,2\n", Format::EdgeList),
    ("a.edges", "% x\n1 2\n", Format::EdgeList),
    ("a.txt", "c d\ne f\n", Format::EdgeList),
    // Gset when m triples follow: two ids from 1 to n and a number.
    ("a.txt", "3 2\n1 2 1\n2 3 -1\n", Format::Gset),
    ("a.txt", "3 2\n1 2 1\n2 4 -1\n", Format::EdgeList),
    ("a.txt", "3 2\n1 2 1\n2 3 1\n1 3 1\n", Format::EdgeList),
    ("a.txt", "3 2\n1 2 1\n2 3 x\n", Format::EdgeList),
    ("a.rud", "3 2\n1 2\n2 3\n", Format::Gset),
    // ML4CO when a line of ids goes on with `label` and numbers.
    ("a.txt", "0 1 1 2 label 0 1 0\n", Format::Ml4co),
    ("a.txt", "label 0 1 0\n", Format::Ml4co),
    ("a.txt", "0 label\n", Format::EdgeList),
    ("a.txt", "0 1 label x\n", Format::EdgeList),
    ("a.ml4co", "0 1 label 0 1\n", Format::Ml4co),
    ("a.txt", "graph a\nb graph\n", Format::EdgeList),
];

#[test]
fn formats_are_chosen_by_extension_then_content() {
    for (name, text, format) in FORMATS {
        let report = read(name, text).report;
        assert_eq!(report.format, format, "{name} {text:?}");
        let by_name = name != "a" && name != "a.txt";
        let source = if by_name {
            FormatSource::Extension
        } else {
            FormatSource::Content
        };
        assert_eq!(report.format_source, source, "{name} {text:?}");
    }
}

#[test]
fn the_callers_word_overrides() {
    let options = ReadOptions {
        format: Some(Format::EdgeList),
        ..ReadOptions::default()
    };
    let import = read_bytes("a.gr", b"3 2\n1 2\n2 3\n", &options).unwrap();
    assert_eq!((import.graph.n_nodes(), import.graph.n_edges()), (3, 2));
    assert_eq!(import.report.duplicates_merged, 1);
    assert_eq!(import.report.format_source, FormatSource::Option);
}

#[test]
fn names_of_formats() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    assert_eq!("snap".parse::<Format>().unwrap(), Format::EdgeList);
    let error = "gml".parse::<Format>().unwrap_err();
    assert!(
        error.to_string().contains(
            "expected one of matrix-market, edge-list, dimacs, metis, pace, gset, ml4co, graphml"
        ),
        "{error}"
    );
}

#[test]
fn self_loops_are_dropped_counted_or_refused() {
    let files = [
        ("a.el", "1 1\n1 2\n3 3\n", 2),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n1 1\n2 1\n3 3\n",
            3,
        ),
        ("a.clq", "p edge 3 3\ne 1 1\ne 1 2\ne 3 3\n", 2),
        ("a.gr", "3 3\n1 1\n1 2\n3 3\n", 2),
        ("a.metis", "3 1\n1 2\n1\n3\n", 2),
    ];
    for (name, text, line) in files {
        let import = read(name, text);
        assert_eq!(import.report.self_loops_dropped, 2, "{name}");
        assert_eq!(
            (import.graph.n_nodes(), import.graph.n_edges()),
            (3, 1),
            "{name}"
        );
        assert!(
            import
                .report
                .to_string()
                .contains("self-loops dropped: 2\n")
        );
        let options = ReadOptions {
            self_loops: Policy::Refuse,
            ..ReadOptions::default()
        };
        let first = if name == "a.el" { 1 } else { line };
        assert_eq!(refusal(text, name, &options).place().line, first, "{name}");
    }
}

#[test]
fn duplicates_are_merged_counted_or_refused() {
    let files = [
        ("a.el", "1 2\n2 1\n1 2\n"),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n2 2 3\n1 2\n2 1\n1 2\n",
        ),
        ("a.clq", "p edge 2 3\ne 1 2\ne 2 1\ne 1 2\n"),
        ("a.gr", "2 3\n1 2\n2 1\n1 2\n"),
        ("a.metis", "2 3\n2 2 2\n1 1 1\n"),
    ];
    for (name, text) in files {
        let import = read(name, text);
        assert_eq!(import.report.duplicates_merged, 2, "{name}");
        assert_eq!(import.graph.n_edges(), 1, "{name}");
        assert!(import.report.to_string().contains("duplicates merged: 2\n"));
        let options = ReadOptions {
            duplicates: Policy::Refuse,
            ..ReadOptions::default()
        };
        assert!(
            refusal(text, name, &options)
                .to_string()
                .contains("2 edges are listed more than once")
        );
    }
}

#[test]
fn both_triangles_and_direction() {
    let both = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n1 2\n2 3\n";
    let report = read("a.mtx", both).report;
    assert_eq!(
        (report.upper_triangle_entries, report.duplicates_merged),
        (2, 1)
    );
    assert!(
        report
            .to_string()
            .contains("entries above the diagonal of a symmetric matrix: 2\n")
    );
    let options = ReadOptions {
        both_triangles: Policy::Refuse,
        ..ReadOptions::default()
    };
    assert_eq!(refusal(both, "a.mtx", &options).place().line, 4);
    let general = both.replace("symmetric", "general");
    let report = read("a.mtx", &general).report;
    assert!(report.directed_merged && report.upper_triangle_entries == 0);
    assert!(
        report
            .to_string()
            .contains("directed input: merged to undirected\n")
    );
    let options = ReadOptions {
        directed: Policy::Refuse,
        ..ReadOptions::default()
    };
    assert_eq!(refusal(&general, "a.mtx", &options).place().line, 1);
}

#[test]
fn weights_by_policy() {
    let text = "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 2.5\n2 1 7\n2 3 0\n";
    let import = read("a.mtx", text);
    let edges: Vec<_> = import.graph.weighted_edges().collect();
    assert_eq!(edges, [(0, 1, 2.5), (1, 2, 0.0)]);
    assert_eq!(
        (import.report.weight_conflicts, import.report.zero_weights),
        (1, 1)
    );
    let printed = import.report.to_string();
    assert!(
        printed.contains("duplicates with another weight (first kept): 1\n"),
        "{printed}"
    );
    let mut options = ReadOptions {
        weights: WeightPolicy::Ignore,
        ..ReadOptions::default()
    };
    let import = read_bytes("a.mtx", text.as_bytes(), &options).unwrap();
    assert!(import.graph.weights().is_none() && import.report.weights_ignored);
    assert_eq!(
        read("a.el", "1 2 5\n2 3 6 7\n").report.extra_column_lines,
        2
    );
    options.weights = WeightPolicy::ThirdColumn;
    let import = read_bytes("a.el", b"1 2 5\n2 3 6 7\n", &options).unwrap();
    assert_eq!(import.graph.weights_of(1), Some(&[5.0, 6.0][..]));
    assert_eq!(import.report.extra_column_lines, 1);
}

#[test]
fn integer_matrices_and_fortran_exponents() {
    let text = "%%MatrixMarket MATRIX Coordinate Integer Symmetric\n\n%\n2 2 1\n%\n2 1 -3\n";
    assert_eq!(read("a.mtx", text).graph.weights_of(0), Some(&[-3.0][..]));
    let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1.5D+1\n";
    assert_eq!(read("a.mtx", text).graph.weights_of(0), Some(&[15.0][..]));
}

#[test]
fn dimacs_counts_once_or_twice() {
    for (text, promised) in [
        ("p edge 3 4\ne 1 2\ne 2 3\n", 4),
        ("p edge 3 1\ne 1 2\ne 2 1\n", 1),
    ] {
        let report = read("a.clq", text).report;
        assert_eq!(report.header_edges_off_by_two, Some(promised));
        assert!(
            report.to_string().contains("edges counted or listed twice"),
            "{report}"
        );
    }
    let report = read("a.clq", "p edge 3 1\nn 1 9\ne 1 2\n").report;
    assert_eq!(
        (report.node_values_ignored, report.header_edges_off_by_two),
        (1, None)
    );
}

#[test]
fn metis_reads_every_fmt() {
    let import = read(
        "a.metis",
        "% sizes, 2 weights, edge weights\n3 2 111 2\n9 1 2 2 5\n9 3 4 1 5 3 6\n9 5 6 2 6\n\n",
    );
    let weights = import.node_weights.unwrap();
    assert_eq!(
        (weights.n_per_node, weights.values),
        (2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    );
    assert_eq!(
        import.graph.weighted_edges().collect::<Vec<_>>(),
        [(0, 1, 5.0), (1, 2, 6.0)]
    );
    assert_eq!(import.report.node_values_ignored, 3);
    let import = read("a.metis", "4 1\n\n3\n2\n\n");
    assert_eq!((import.graph.n_nodes(), import.graph.n_edges()), (4, 1));
    assert_eq!(import.graph.degree(0), 0);
    assert!(import.node_weights.is_none());
    let import = read("a.metis", "2 1 10\n7 2\n8 1\n");
    assert_eq!(import.node_weights.unwrap().values, [7.0, 8.0]);
}

#[test]
fn line_ends_marks_and_blanks_do_not_matter() {
    let expected = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
    for text in [
        "p edge 3 2\ne 1 2\ne 2 3\n",
        "p edge 3 2\r\ne 1 2\r\ne 2 3\r\n",
        "p edge 3 2\re 1 2\re 2 3\r",
        "p edge 3 2\n\n e\t1  2 \n\t\ne 2 3",
        "\u{feff}p edge 3 2\ne 1 2\ne 2 3\n\n\n",
        "c caf\u{e9} \0\np edge 3 2\nc\ne 1 2\ncomment\ne 2 3",
    ] {
        assert_eq!(read("a.clq", text).graph, expected, "{text:?}");
    }
}

#[test]
fn a_first_line_that_names_the_columns_is_no_edge() {
    for (text, n_nodes, n_edges) in [
        ("source,target\n1,2\n2,3\n", 3, 2),
        ("# c\n\nsrc\tdst\tweight\nann\tbob\t1\nbob\tcat\t2\n", 3, 2),
        ("\"Source\",\"Target\",\"Weight\"\n7,9,1\n", 2, 1),
        ("from_node_id to_node_id\n1 b\n", 2, 1),
        ("FromNodeId ToNodeId\n1 2\n", 2, 1),
        ("source,target\n", 0, 0),
    ] {
        let import = read("a.csv", text);
        let counts = (import.graph.n_nodes(), import.graph.n_edges());
        assert_eq!(counts, (n_nodes, n_edges), "{text:?}");
        assert!(import.report.header_line.is_some(), "{text:?}");
        assert!(import.report.to_string().contains("names the columns"));
    }
    // The names anywhere but in the first line, or in another order, are nodes.
    let import = read("a.csv", "ann,bob\nsource,target\n");
    assert_eq!(import.graph.n_nodes(), 4);
    assert_eq!(read("a.csv", "target,source\n").graph.n_edges(), 1);
    let weighted = ReadOptions {
        weights: WeightPolicy::ThirdColumn,
        ..ReadOptions::default()
    };
    let text = b"src,dst,weight\nann,bob,1.5\nbob,cat,2\n";
    let import = read_bytes("a.csv", text, &weighted).unwrap();
    assert_eq!(import.graph.n_edges(), 2);
    assert_eq!(import.labels.get(0), "ann");
}

#[test]
fn integer_and_text_ids() {
    let report = read("a.el", "1 2\n2 x3\n007 1\n").report;
    assert_eq!(report.first_text_id, Some((2, "x3".to_owned())));
    assert!(
        report
            .to_string()
            .contains("node ids: text, in order of first sight (line 2 has `x3`)")
    );
    // Leading zeros make different labels, so the ids are text.
    let import = read("a.el", "1 01\n");
    assert_eq!((import.graph.n_nodes(), import.graph.n_edges()), (2, 1));
    assert_eq!(import.labels.get(1), "01");
    // Two words that name no columns are a mistake only when all other ids are integers.
    assert_eq!(read("a.csv", "ann,bob\n").graph.n_edges(), 1);
    assert_eq!(read("a.csv", "ann,bob\n1,b\n").graph.n_edges(), 2);
}

#[test]
fn header_counts_are_believed_on_demand() {
    let text = b"p edge 5000000 1\ne 1 2\n";
    let error = read_bytes("a.clq", text, &ReadOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.place().line), (ErrorKind::TooLarge, 1));
    let mut options = ReadOptions {
        max_nodes: Some(5_000_000),
        ..ReadOptions::default()
    };
    assert_eq!(
        read_bytes("a.clq", text, &options).unwrap().graph.n_nodes(),
        5_000_000
    );
    options.max_nodes = Some(4_999_999);
    let error = read_bytes("a.clq", text, &options).unwrap_err();
    assert_eq!((error.place().line, error.place().column), (1, 8));
}

/// Gives up at the second edge.
struct GivesUp(u32);

impl EdgeSink for GivesUp {
    fn edge(&mut self, _u: u32, _v: u32, _weight: f32) -> Result<(), Error> {
        self.0 += 1;
        match self.0 {
            2 => Err(Error::new(ErrorKind::Sink, "no room for more")),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_sinks_error_is_placed_at_its_line() {
    let result = stream_bytes(
        "a.el",
        b"# c\n1 2\n2 3\n",
        &ReadOptions::default(),
        &mut GivesUp(0),
    );
    assert_eq!(result.unwrap_err().to_string(), "a.el:3: no room for more");
}

#[test]
fn streaming_and_reading_agree() {
    let mut builder = GraphBuilder::new();
    let text = b"5 9\n9 5\n9 9\n2 5\n";
    let streamed = stream_bytes("a.el", text, &ReadOptions::default(), &mut builder).unwrap();
    let (graph, n_merged) = builder.finish(streamed.n_nodes, streamed.weighted).unwrap();
    let import = read_bytes("a.el", text, &ReadOptions::default()).unwrap();
    assert_eq!((graph, streamed.labels), (import.graph, import.labels));
    assert_eq!((n_merged, streamed.report.duplicates_merged), (1, 0));
    assert_eq!(import.report.duplicates_merged, 1);
}

#[test]
fn missing_files_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing.el")] {
        let error = shardgraph_graph::read_graph(&path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.to_string().starts_with(&path.display().to_string()),
            "{error}"
        );
    }
}

proptest! {
    /// Dense ids are the ranks of the integer labels, whatever their size and order.
    #[test]
    fn integer_ids_are_ranked(pairs in prop::collection::vec((ids(), ids()), 1..120)) {
        let text: String = pairs.iter().map(|(u, v)| format!("{u} {v}\n")).collect();
        let import = read("a.el", &text);
        let mut distinct: Vec<u64> = pairs.iter().flat_map(|&(u, v)| [u, v]).collect();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(import.graph.n_nodes() as usize, distinct.len());
        for (v, id) in (0..).zip(&distinct) {
            prop_assert_eq!(import.labels.get(v), id.to_string());
            prop_assert_eq!(import.labels.find(&id.to_string()), Some(v));
        }
        let rank = |id: u64| distinct.binary_search(&id).unwrap() as u32;
        let edges: Vec<_> = pairs.iter().map(|&(u, v)| (rank(u), rank(v))).collect();
        prop_assert_eq!(import.graph, Graph::from_edges(distinct.len() as u32, &edges).unwrap());
    }
}

/// Ids within the bitmap, around its end, and far beyond.
fn ids() -> impl Strategy<Value = u64> {
    const BITMAP_END: u64 = (4 << 20) * 8;
    prop_oneof![
        0u64..70,
        0..10_000u64,
        BITMAP_END - 3..BITMAP_END + 200,
        u64::MAX - 3..=u64::MAX,
        any::<u64>()
    ]
}

/// Enough text ids for the table to grow and for its slots to collide.
#[test]
fn text_ids_are_numbered_by_first_sight() {
    let names: Vec<String> = (0..3000u32)
        .map(|i| format!("n{}", i * 7919 % 3000))
        .collect();
    let text: String = names
        .windows(2)
        .map(|pair| format!("{} {}\n", pair[0], pair[1]))
        .collect();
    let import = read("a.el", &text);
    assert_eq!(import.graph.n_nodes(), 3000);
    for (v, name) in (0..).zip(&names) {
        assert_eq!(&import.labels.get(v), name);
        assert_eq!(import.labels.find(name), Some(v));
        assert_eq!(
            import.graph.degree(v),
            if v == 0 || v == 2999 { 1 } else { 2 }
        );
    }
    assert_eq!(import.labels.find("n3000"), None);
}

#[test]
fn a_header_that_was_read_as_an_edge_is_told() {
    // m as promised, or one pair before triples, among about n nodes.
    for text in [
        "4 3\n0 1\n1 2\n2 3\n",
        "# c\n4 9\n0 1 2.5\n1 2 3\n2 3 1\n",
        "5 3\n1 2 7\n2 3 7\n3 4 7\n",
    ] {
        let report = read("a.el", text).report;
        let warning = report.warning().unwrap_or_else(|| panic!("{text:?}"));
        let (line, header) = if text.starts_with('#') {
            (2, "4 9")
        } else {
            (1, &text[..3])
        };
        assert!(
            warning.contains(&format!("line {line}, `{header}`")),
            "{warning}"
        );
    }
    for text in [
        "0 1\n0 2\n",
        "1 2\n",
        "1 2\n2 3\n3 1\n",
        "4 3 1\n0 1 1\n1 2 1\n2 3 1\n",
        "1 1\n5 9\n",
        "a b\nb c\n",
    ] {
        assert_eq!(read("a.el", text).report.warning(), None, "{text:?}");
    }
}

#[test]
fn one_graph_of_several_is_read() {
    let text = b"0 1 1 2 label 0 1 0\n\n0 1 label 1 0 0 0\n";
    let of = |index| {
        let options = ReadOptions {
            index,
            ..ReadOptions::default()
        };
        read_bytes("a.txt", text, &options)
    };
    let first = of(None).unwrap();
    assert_eq!((first.graph.n_nodes(), first.graph.n_edges()), (3, 2));
    assert_eq!(first.report.instance, Some((0, 2)));
    let second = of(Some(1)).unwrap();
    assert_eq!((second.graph.n_nodes(), second.graph.n_edges()), (4, 1));
    assert_eq!(second.report.instance, Some((1, 2)));
    assert_eq!(second.labels.get(3), "3");
    let error = of(Some(2)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected graph 2, counted from 0; 2 came"),
        "{error}"
    );
    let options = ReadOptions {
        index: Some(1),
        ..ReadOptions::default()
    };
    let error = read_bytes("a.clq", b"p edge 2 1\ne 1 2\n", &options).unwrap_err();
    assert!(error.to_string().contains("has one graph"), "{error}");
}

#[test]
fn lists_and_matrices_of_neighbours_are_told() {
    let warning = |text: &str| {
        let import = read_bytes("a.txt", text.as_bytes(), &ReadOptions::default()).unwrap();
        import.report.warning().unwrap_or_default()
    };
    let told = warning("0 1 2 3\n1 2\n2 3\n");
    assert!(told.contains("4 columns and line 2 has 2"), "{told}");
    let told = warning("0,1,1,0\n1,0,1,1\n1,1,0,0\n0,1,0,0\n");
    assert!(told.contains("adjacency matrix"), "{told}");
    for text in [
        "1 2 5\n2 3 1\n3 1 2\n",
        "1 2\n2 3\n",
        "a b x y\nb c\n",
        "1,2,,\n2,3,,\n",
    ] {
        assert_eq!(warning(text), "", "{text}");
    }
}
