//! Edges by name are those that come by number, and the table of integer ids has its limit.

use proptest::prelude::*;
use shardgraph_graph::{
    EdgeSink, Error, ErrorKind, Labels, NamedEdgeSink, Policy, ReadOptions, StreamedNames,
    WeightPolicy, WriteOptions, read_bytes, read_graph, stream_named, write_graph,
};

/// Keeps what comes, by number or by name.
#[derive(Default)]
struct Kept {
    numbered: Vec<(u32, u32)>,
    named: Vec<(String, String, f32)>,
}

impl EdgeSink for Kept {
    fn edge(&mut self, u: u32, v: u32, _weight: f32) -> Result<(), Error> {
        self.numbered.push((u, v));
        Ok(())
    }
}

impl NamedEdgeSink for Kept {
    fn named_edge(&mut self, u: &str, v: &str, weight: f32) -> Result<(), Error> {
        if u == "bad" {
            return Err(Error::new(ErrorKind::Sink, "no more"));
        }
        self.named.push((u.to_owned(), v.to_owned(), weight));
        Ok(())
    }
}

fn streamed(text: &str, options: &ReadOptions) -> Result<(StreamedNames, Kept), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.txt");
    std::fs::write(&path, text).unwrap();
    let mut kept = Kept::default();
    stream_named(&path, options, &mut kept).map(|streamed| (streamed, kept))
}

proptest! {
    #[test]
    fn names_are_those_of_the_lines(edges in prop::collection::vec((0u32..20, 0u32..20), 1..60)) {
        let named = edges.iter().map(|(u, v)| (format!("n{u}"), format!("n{v}"), 1.0));
        let text: String = edges.iter().map(|(u, v)| format!("n{u} n{v}\n")).collect();
        let (found, kept) = streamed(&text, &ReadOptions::default()).unwrap();
        prop_assert_eq!(kept.named, named.collect::<Vec<_>>());
        prop_assert!(kept.numbered.is_empty());
        let StreamedNames::Named(report) = found else {
            return Err(TestCaseError::fail("text ids come by name"));
        };
        let whole = read_bytes("g.txt", text.as_bytes(), &ReadOptions::default()).unwrap().report;
        prop_assert_eq!(report.listed_edges, whole.listed_edges);
        prop_assert_eq!(report.self_loops_dropped, whole.self_loops_dropped);
    }
}

#[test]
fn integers_come_by_number() {
    let (found, kept) = streamed("5 9\n9 7\n", &ReadOptions::default()).unwrap();
    assert_eq!(kept.numbered, [(0, 2), (2, 1)]);
    assert!(kept.named.is_empty());
    assert!(matches!(found, StreamedNames::Numbered(streamed) if streamed.n_nodes == 3));
}

#[test]
fn errors_have_their_place() {
    let message = streamed("a b\nbad c\n", &ReadOptions::default())
        .map(|_| ())
        .unwrap_err();
    assert!(
        message.to_string().ends_with("g.txt:2: no more"),
        "{message}"
    );
    let options = ReadOptions {
        self_loops: Policy::Refuse,
        ..ReadOptions::default()
    };
    let message = streamed("a b\nc c\n", &options).map(|_| ()).unwrap_err();
    assert_eq!(message.kind(), ErrorKind::Policy);
    let message = streamed("a b\na \u{1}\n", &ReadOptions::default())
        .map(|_| ())
        .unwrap_err();
    assert!(
        message
            .to_string()
            .contains("g.txt:2:3: expected a node id of no control"),
        "{message}"
    );
}

#[test]
fn integer_ids_may_take_so_much() {
    let edge = |i: u64| format!("{} {}\n", i << 40, (i + 1) << 40);
    let text: String = (0..10_000).map(edge).collect();
    let limited = |limit: u64| {
        let options = ReadOptions {
            max_id_bytes: Some(limit),
            ..ReadOptions::default()
        };
        streamed(&text, &options).map(|_| ())
    };
    limited(10 << 20).unwrap();
    let error = limited(100_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let message = error.to_string();
    assert!(
        message.contains("g.txt:") && message.contains("at most 100000 bytes"),
        "{message}"
    );
    // The same for ids that a bitmap holds.
    let text: String = (0..10_000)
        .map(|i| format!("{} {}\n", 2 * i, 2 * i + 2))
        .collect();
    let options = ReadOptions {
        max_id_bytes: Some(20_000),
        ..ReadOptions::default()
    };
    assert!(streamed(&text, &options).is_err());
}

/// The pairs of names that these lines join.
fn pairs(text: &str) -> Vec<(String, String)> {
    let (_, kept) = streamed(text, &ReadOptions::default()).unwrap();
    kept.named.into_iter().map(|(u, v, _)| (u, v)).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(u, v): &(&str, &str)| ((*u).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn names_with_blanks_stand_between_commas_or_tabs_or_in_quotes() {
    let anna_bob = owned(&[("Anna Lee", "Bob Ray")]);
    for line in [
        "Anna Lee,Bob Ray",
        "  Anna Lee , Bob Ray ,3,,x y",
        "Anna Lee\tBob Ray",
        "Anna Lee \t Bob Ray\t3",
        "\"Anna Lee\",\"Bob Ray\"",
        "\"Anna Lee\" \"Bob Ray\" 3",
        "\"Anna Lee\"\tBob Ray",
    ] {
        assert_eq!(pairs(&format!("{line}\n")), anna_bob, "{line}");
    }
    let text = "\"Lee, Anna\",O'Neil\n\"#1\" b\n";
    let expected = owned(&[("Lee, Anna", "O'Neil"), ("#1", "b")]);
    assert_eq!(pairs(text), expected);
    // The header of such a table, as R writes it.
    assert_eq!(
        pairs("\"from\",\"to\"\n\"a b\",\"c\"\n"),
        owned(&[("a b", "c")])
    );
}

#[test]
fn numbers_are_cut_at_blanks_commas_and_tabs_alike() {
    for text in [
        "5 9,1\n9\t7 2\n",
        "\"5\",\"9\"\n\"9\",\"7\"\n",
        "5 9\t1\n9 7\t1\n",
    ] {
        let (_, kept) = streamed(text, &ReadOptions::default()).unwrap();
        assert_eq!(kept.numbered, [(0, 2), (2, 1)], "{text}");
    }
}

#[test]
fn a_csv_file_has_commas_and_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\"Lee, Anna\",Bob Ray,2.5\nBob Ray,c,1\n";
    let options = ReadOptions {
        weights: WeightPolicy::ThirdColumn,
        ..ReadOptions::default()
    };
    let import = read_bytes("g.csv", text.as_bytes(), &options).unwrap();
    let path = folder.path().join("again.csv");
    let (labels, plain) = (Some(&import.labels), WriteOptions::default());
    write_graph(&path, &import.graph, labels, plain).unwrap();
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, format!("source,target,weight\n{text}"));
    assert_eq!(read_graph(&path, &options).unwrap().graph, import.graph);
}

#[test]
fn a_list_that_is_written_keeps_names_with_blanks_and_commas() {
    let text = "\"Lee, Anna\",Bob Ray\n\"7 8 x\",c\n\"#1\",\"%2\"\n\" a\",\"b \"\n";
    let import = read_bytes("g.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.el");
    let options = WriteOptions::default();
    write_graph(&path, &import.graph, Some(&import.labels), options).unwrap();
    let again = read_graph(&path, &ReadOptions::default()).unwrap();
    assert_eq!(again.graph.n_edges(), 4);
    let names = |labels: &Labels, (u, v): (u32, u32)| {
        let mut names = [labels.get(u), labels.get(v)];
        names.sort();
        names
    };
    let mut first: Vec<_> = import
        .graph
        .edges()
        .map(|edge| names(&import.labels, edge))
        .collect();
    let mut second: Vec<_> = again
        .graph
        .edges()
        .map(|edge| names(&again.labels, edge))
        .collect();
    first.sort();
    second.sort();
    assert_eq!(first, second);
}
