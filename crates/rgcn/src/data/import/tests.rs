//! Each form of triples against what it means, what is refused and where, and pruning against a
//! naive search.

mod archives;
mod names;

use std::io::Write;

use proptest::prelude::*;

use super::*;

fn import(name: &str, text: impl AsRef<[u8]>) -> Result<Import, Error> {
    import_with(name, text, ImportOptions::default())
}

fn import_with(
    name: &str,
    text: impl AsRef<[u8]>,
    options: ImportOptions,
) -> Result<Import, Error> {
    let mut importer = Importer::new(options);
    importer.add_bytes(name, text.as_ref())?;
    importer.finish()
}

/// The edges in names.
fn named_edges(import: &Import) -> Vec<[String; 3]> {
    let edges = import.graph.edges().map(|edge| {
        [
            import.nodes.get(edge.source),
            import.relations.get(edge.relation),
            import.nodes.get(edge.target),
        ]
    });
    edges.collect()
}

fn refused(name: &str, text: impl AsRef<[u8]>) -> String {
    let error = import(name, text).unwrap_err();
    assert_eq!(error.class(), shardgraph_error::Class::Input);
    error.to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar archive of regular files, as GNU tar writes it.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in files {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..262].copy_from_slice(b"ustar");
        header[263..265].copy_from_slice(b"00");
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend(*content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

const PEOPLE: &str = "\
# who knows whom
<http://a/ann> <http://a/knows> <http://a/bob> .
<http://a/bob>\t<http://a/knows>   _:x1 .  # a comment

_:x1 <http://a/name> \"Z\\u00fcrich \\\"caf\\u00E9\\\"\" .
<http://a/ann> <http://a/name> \"Ann\"@EN-gb .
<http://a/ann> <http://a/age> \"31\"^^<http://www.w3.org/2001/XMLSchema#int>.
<http://a/ann> <http://a/nick> \"an\"^^<http://www.w3.org/2001/XMLSchema#string> .
<http://a/bob> <http://a/nick> \"an\" .
<http://a/ann> <http://a/knows> <http://a/bob> .
";

fn people() -> Vec<[&'static str; 3]> {
    vec![
        ["http://a/ann", "http://a/knows", "http://a/bob"],
        ["http://a/bob", "http://a/knows", "_:x1"],
        ["_:x1", "http://a/name", "\"Zürich \"café\"\""],
        ["http://a/ann", "http://a/name", "\"Ann\"@en-gb"],
        [
            "http://a/ann",
            "http://a/age",
            "\"31\"^^http://www.w3.org/2001/XMLSchema#int",
        ],
        ["http://a/ann", "http://a/nick", "\"an\""],
        ["http://a/bob", "http://a/nick", "\"an\""],
    ]
}

#[test]
fn n_triples_keep_terms_that_are_equal_together() {
    for end in ["\n", "\r\n"] {
        let text = PEOPLE.replace('\n', end);
        let import = import("people.nt", text).unwrap();
        assert_eq!(named_edges(&import), people());
        assert_eq!((import.graph.n_nodes(), import.graph.n_relations()), (7, 4));
        let report = &import.report;
        assert_eq!((report.triples, report.duplicates_dropped), (8, 1));
        assert_eq!((report.literal_triples, report.bad_lines), (5, 0));
    }
    let dropped = ImportOptions {
        literals: Literals::Drop,
        ..ImportOptions::default()
    };
    let import = import_with("people.nt", PEOPLE, dropped).unwrap();
    assert_eq!(named_edges(&import), people()[..2]);
    assert_eq!(import.graph.n_relations(), 1);
}

#[test]
fn turtle_and_n_triples_of_one_graph_are_one_graph() {
    let turtle = "\
@prefix a: <http://a/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
a:ann a:knows a:bob .
a:bob a:knows _:someone .
_:someone a:name \"Z\u{fc}rich \\\"caf\u{e9}\\\"\" .
a:ann a:name 'Ann'@en-GB ; a:age \"31\"^^xsd:int ; a:nick \"an\"^^xsd:string .
a:bob a:nick \"an\" .
";
    let from_turtle = import("people.ttl", turtle).unwrap();
    let from_lines = import("people.nt", PEOPLE).unwrap();
    let renamed: Vec<[String; 3]> = named_edges(&from_turtle)
        .into_iter()
        .map(|edge| edge.map(|name| name.replace("_:b0", "_:x1")))
        .collect();
    assert_eq!(renamed, named_edges(&from_lines));
    assert_eq!(from_turtle.graph, from_lines.graph);
}

#[test]
fn turtle_has_blank_nodes_without_names_in_the_order_of_the_file() {
    let text = "@prefix a: <http://a/> .\na:x a:p [ a:q 1 ] , [ a:q 2 ] .\n";
    let once = named_edges(&import("x.ttl", text).unwrap());
    assert_eq!(once, named_edges(&import("x.ttl", text).unwrap()));
    assert_eq!(once.len(), 4);
    let of_first: Vec<&[String; 3]> = once.iter().filter(|edge| edge[0] == "_:b0").collect();
    assert_eq!(of_first.len(), 1);
}

const BAD_LINES: [(&str, usize, &str); 18] = [
    ("<a:s> <a:p> <a:o>", 18, "expected `.`"),
    ("<a:s> <a:p> <a:o> . more", 21, "the end of the line after"),
    (
        "<a:s> <a:p> \"never closed .",
        13,
        "without its closing quote",
    ),
    (
        "<a:s> <a:p> \"bad \\x escape\" .",
        18,
        "escape that does not exist: `\\\\x escape",
    ),
    (
        "<a:s> <a:p> \"bad \\ud800\" .",
        18,
        "escape that does not exist",
    ),
    ("<a:s> <a:p> \"\\u12\" .", 14, "escape that does not exist"),
    ("<a:s> <a:p> \"x\"@ .", 16, "a language tag"),
    ("<a:s> <a:p> \"x\"^^a .", 16, "`^^<datatype>`"),
    ("<a:s> <a:p> <a:o .", 13, "an IRI without its `>`"),
    ("<a:s> <a:p> <a: o> .", 16, "an IRI may hold no blank"),
    ("<a:s> <a:p> <o> .", 14, "a relative IRI"),
    ("<a:s> <a:p> <> .", 14, "a relative IRI"),
    ("<a:s> _:p <a:o> .", 7, "a predicate"),
    ("\"s\" <a:p> <a:o> .", 1, "a subject"),
    ("<a:s> <a:p> .", 13, "an object"),
    ("<a:s> <a:p> _: .", 13, "a blank node whose label"),
    ("<a:s>", 6, "a predicate"),
    ("a b c", 1, "a subject"),
];

#[test]
fn bad_lines_of_n_triples_are_told_with_line_column_and_reason() {
    let good = "<a:s> <a:p> <a:o> .\n";
    for (bad, column, reason) in BAD_LINES {
        let text = format!("{good}{bad}\n{}", good.replace(":o", ":o2").repeat(2));
        let message = refused("x.nt", &text);
        let place = format!("x.nt:2:{column}: ");
        assert!(message.starts_with(&place), "{bad}: {message}");
        assert!(message.contains(reason), "{bad}: {message}");
        // Left out and counted, it costs no line after it.
        let lenient = ImportOptions {
            max_bad_lines: 1,
            ..ImportOptions::default()
        };
        let import = import_with("x.nt", &text, lenient).unwrap();
        assert_eq!(import.graph.n_edges(), 2, "{bad}");
        assert_eq!(import.report.bad_lines, 1);
        assert_eq!(
            (import.report.bad[0].line, &*import.report.bad[0].file),
            (2, "x.nt")
        );
    }
}

#[test]
fn bytes_that_are_no_text_cost_their_line_alone() {
    let mut text = b"<a:s> <a:p> <a:o> .\n<a:s> <a:p> \"\xff\" .\n".to_vec();
    text.extend(b"<a:s> <a:p> <a:o2> .\n");
    assert!(refused("x.nt", &text).starts_with("x.nt:2:14: expected UTF-8"));
    let lenient = ImportOptions {
        max_bad_lines: 1,
        ..ImportOptions::default()
    };
    assert_eq!(
        import_with("x.nt", &text, lenient).unwrap().graph.n_edges(),
        2
    );
    text.extend(b"bad\nbad\n");
    let lenient = ImportOptions {
        max_bad_lines: 2,
        ..ImportOptions::default()
    };
    let message = import_with("x.nt", &text, lenient).unwrap_err().to_string();
    assert!(message.starts_with("x.nt:5:1: "), "{message}");
    assert!(
        message.contains("after 2 others, which is the limit"),
        "{message}"
    );
}

#[test]
fn the_first_error_ends_a_turtle_file_at_its_place() {
    for (text, place) in [
        ("@prefix a: <http://a/> .\na:s a:p \"open .\n", "x.ttl:2:"),
        ("@prefix a: <http://a/> .\na:s b:p a:o .\n", "x.ttl:2:"),
        (
            "@prefix a: <http://a/> .\na:s a:p a:o .\na:s a:p",
            "x.ttl:3:",
        ),
        ("<http://a/s> <http://a/p> <relative> .\n", "x.ttl:1:"),
    ] {
        let message = refused("x.ttl", text);
        assert!(message.starts_with(place), "{text}: {message}");
    }
    assert!(refused("x.ttl", b"<a:s> <a:p> \"\xff\xfe\" .\n").starts_with("x.ttl:1:"));
}

#[test]
fn numbers_are_read_with_or_without_blanks() {
    let import = import("x.int.csv", "62596, 0, 2\n1,1,2\r\n  2 ,0,0\n").unwrap();
    assert_eq!(import.graph.n_nodes(), 62_597);
    assert_eq!(
        import.graph.columns(),
        (&[62_596, 1, 2][..], &[0, 1, 0][..], &[2, 2, 0][..])
    );
    assert_eq!(import.nodes.find("62596"), Some(62_596));
    assert_eq!(import.report.isolated_nodes, 62_597 - 4);
    let openke = self::import("train2id.txt", "2\n5 3 0\n3\t5\t1\n").unwrap();
    assert_eq!(
        openke.graph.columns(),
        (&[5, 3][..], &[0, 1][..], &[3, 5][..])
    );
    let more = ImportOptions {
        n_nodes: Some(10),
        ..ImportOptions::default()
    };
    let openke = import_with("train2id.txt", "1\n5 3 0\n", more.clone()).unwrap();
    assert_eq!(openke.graph.n_nodes(), 10);
    let message = import_with("x.csv", "5,0,10\n", more)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "x.csv:1: node 10: expected one below 10");
}

const BAD_NUMBERS: [(&str, &str, &str); 12] = [
    (
        "x.csv",
        "0,0,1\n0,0\n",
        "x.csv:2:4: expected three ids, found 2",
    ),
    (
        "x.csv",
        "0,0,1,5\n",
        "x.csv:1:7: expected three ids, found a fourth",
    ),
    (
        "x.csv",
        "0,-1,1\n",
        "x.csv:1:3: expected an id from 0 to 4294967295, found `-1`",
    ),
    ("x.csv", "0,4294967296,1\n", "x.csv:1:3: expected an id"),
    (
        "x.csv",
        "0,,1\n",
        "x.csv:1:3: expected an id from 0 to 4294967295, found ``",
    ),
    (
        "x.csv",
        "0,0,4294967294\n",
        "x.csv:1: node 4294967294: expected one below",
    ),
    (
        "x.csv",
        "0,0,400000000\n",
        "x.csv:1: node ids up to 400000000 for 1 edges are not plausible",
    ),
    (
        "x.csv",
        "0,0,1\n0,2,1\n",
        "x.csv:2: relation 1 has no edge: expected relations 0 to 2",
    ),
    (
        "x.csv",
        "0,4000000000,1\n",
        "x.csv:1: relation 0 has no edge",
    ),
    (
        "train2id.txt",
        "3\n0 1 0\n1 0 0\n",
        "x2id:promises 3 triples, the file has 2",
    ),
    (
        "train2id.txt",
        "0 1 0\n",
        "train2id.txt:1:1: expected the number of triples",
    ),
    (
        "train2id.txt",
        "1\n0 1 0 7\n",
        "train2id.txt:2:7: expected three ids, found a fourth",
    ),
];

#[test]
fn numbers_that_cannot_be_right_are_refused() {
    for (name, text, expected) in BAD_NUMBERS {
        let message = refused(name, text);
        let expected = expected.trim_start_matches("x2id:");
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn files_without_a_triple_are_refused() {
    for name in ["x.nt", "x.ttl", "x.csv", "train2id.txt", "x.tsv"] {
        for text in ["", "\n\n", "\u{feff}"] {
            let message = refused(name, text);
            assert!(message.contains("holds no triple"), "{name}: {message}");
        }
    }
    assert!(refused("x", "").contains("the file is empty"));
    assert!(refused("x", "hello world\n").contains("none of the formats: name one of n-triples"));
    assert!(refused("x.nt", b"\xff\xfea\0").contains("UTF-16"));
}

#[test]
fn the_first_line_tells_the_format() {
    for (text, format) in [
        ("<a:s> <a:p> <a:o> .\n", TripleFormat::NTriples),
        (
            "# first\n<a:s> <a:p> <a:o> . # last\n",
            TripleFormat::NTriples,
        ),
        (
            "prefix a: <http://a/>\na:s a:p a:o .\n",
            TripleFormat::Turtle,
        ),
        (
            "@prefix a: <http://a/> .\na:s a:p a:o .\n",
            TripleFormat::Turtle,
        ),
        ("1\n0 1 0\n", TripleFormat::OpenKe),
        ("\n0, 0, 1\n", TripleFormat::IntegerCsv),
        ("s\tp\to\n", TripleFormat::TabSeparated),
        ("s,p,\"o,o\"\n", TripleFormat::Csv),
        ("id,head,relation,tail\n1,s,p,o\n", TripleFormat::Csv),
    ] {
        let import = import("unnamed", text).unwrap();
        assert_eq!(import.report.formats, [format]);
        assert_eq!(import.graph.n_edges(), 1);
        assert_eq!(format.name().parse::<TripleFormat>().unwrap(), format);
    }
}

#[test]
fn splits_share_one_space_of_ids() {
    let mut importer = Importer::new(ImportOptions::default());
    importer
        .add_bytes("train.tsv", b"a\tp\tb\nb\tp\tc\n")
        .unwrap();
    importer
        .add_bytes("test.tsv", b"c\tq\td\na\tp\tb\n")
        .unwrap();
    let import = importer.finish().unwrap();
    assert_eq!(import.files, [0..2, 2..4]);
    assert_eq!((import.graph.n_nodes(), import.graph.n_relations()), (4, 2));
    // Blank nodes belong to their file; names and numbers do not mix.
    let mut importer = Importer::new(ImportOptions::default());
    let blank = b"_:x <a:p> <a:o> .\n";
    importer.add_bytes("1.nt", blank).unwrap();
    importer.add_bytes("2.nt", blank).unwrap();
    let message = importer
        .add_bytes("3.csv", b"0,0,1\n")
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("3.csv:1: numbers in this file"),
        "{message}"
    );
    assert_eq!(importer.finish().unwrap().graph.n_nodes(), 3);
    assert!(Importer::new(ImportOptions::default()).finish().is_err());
}

fn chain() -> Import {
    // 0 -> 1 -> 2 -> 3 -> 4 and 5 -> 2; relation 1 has one edge.
    import("x.csv", "0,0,1\n1,0,2\n2,0,3\n3,1,4\n5,0,2\n").unwrap()
}

#[test]
fn rare_and_named_relations_are_dropped_and_counted() {
    let import = chain().keep_frequent_relations(2).unwrap();
    assert_eq!((import.graph.n_relations(), import.graph.n_edges()), (1, 4));
    assert_eq!(
        (
            import.report.relations_dropped,
            import.report.relation_edges_dropped
        ),
        (1, 1)
    );
    assert_eq!(
        (import.graph.n_nodes(), import.report.isolated_nodes),
        (6, 1)
    );
    assert!(chain().keep_frequent_relations(5).is_err());
    let import = chain().without_relations(&["0".to_owned()]).unwrap();
    assert_eq!(
        (import.graph.n_edges(), import.relations.get(0)),
        (1, "1".to_owned())
    );
    assert!(chain().without_relations(&["7".to_owned()]).is_err());
    let all = ["0".to_owned(), "1".to_owned()];
    assert!(chain().without_relations(&all).is_err());
}

#[test]
fn hops_count_in_both_directions() {
    let (import, ids) = chain().within_hops(&[3], 1).unwrap();
    let kept: Vec<String> = (0..3).map(|node| import.nodes.get(node)).collect();
    assert_eq!(kept, ["2", "3", "4"]);
    assert_eq!((ids.get(3), ids.get(0)), (Some(1), None));
    assert_eq!(
        import.graph.columns(),
        (&[0, 1][..], &[0, 1][..], &[1, 2][..])
    );
    assert_eq!(
        (import.report.nodes_pruned, import.report.edges_pruned),
        (3, 3)
    );
    // A relation that lost all its edges goes too.
    let (import, _) = chain().within_hops(&[0], 2).unwrap();
    assert_eq!((import.graph.n_relations(), import.graph.n_edges()), (1, 2));
    assert!(chain().within_hops(&[0], 0).is_err());
}

proptest! {
    #[test]
    fn hops_find_what_a_naive_search_finds(
        edges in proptest::collection::vec((0u32..30, 0u32..30), 1..60), n_hops in 1u32..6
    ) {
        let text: String = edges.iter().map(|(s, t)| format!("{s},0,{t}\n")).collect();
        let whole = import("x.csv", text).unwrap();
        let seed = edges[0].0;
        let mut near = vec![seed];
        for _ in 0..n_hops {
            let mut next = near.clone();
            for &(s, t) in &edges {
                if near.contains(&s) { next.push(t); }
                if near.contains(&t) { next.push(s); }
            }
            near = next;
        }
        near.sort_unstable();
        near.dedup();
        let (pruned, ids) = whole.clone().within_hops(&[seed], n_hops).unwrap();
        prop_assert_eq!(pruned.graph.n_nodes() as usize, near.len());
        for node in 0..whole.graph.n_nodes() {
            prop_assert_eq!(ids.get(node).is_some(), near.contains(&node));
        }
        let distinct: std::collections::BTreeSet<_> = edges.iter().collect();
        let kept = distinct.iter().filter(|(s, t)| near.contains(s) && near.contains(t));
        prop_assert_eq!(pruned.graph.n_edges(), kept.count());
    }

    /// Bytes changed anywhere in any form of file: an answer or an error, never a panic; and an
    /// error is about the input.
    #[test]
    fn mutated_files_never_panic(
        form in 0usize..8, edits in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6),
        cut in any::<u16>(), lenient in any::<bool>(),
    ) {
        let archive = tar(&[("train.txt", b"a\tp\tb\nb\tq\tc\n")]);
        let turtle = b"@prefix a: <http://a/> .\na:x a:p [ a:q 1 ] , ( 2 \"x\"@en ) .\n";
        let forms: [(&str, Vec<u8>); 8] = [
            ("x.nt", PEOPLE.into()),
            ("x.ttl", turtle.to_vec()),
            ("x.csv", b"0, 0, 1\n1,1,2\n".to_vec()),
            ("train2id.txt", b"2\n0 1 0\n1 2 1\n".to_vec()),
            ("x.tsv", b"a\tp\tb\nb\tq\tc\n".to_vec()),
            ("x.csv", b"tail,head,relation\n\"a,\"\"b\",b,q\n".to_vec()),
            ("x.nt.gz", gzip(PEOPLE.as_bytes())),
            ("x.tar", archive),
        ];
        let (name, mut bytes) = forms[form].clone();
        for (at, byte) in edits {
            let at = at as usize % bytes.len();
            bytes[at] = byte;
        }
        if cut % 3 == 0 {
            bytes.truncate(cut as usize % bytes.len());
        }
        let options = ImportOptions {
            max_bad_lines: if lenient { 3 } else { 0 },
            ..ImportOptions::default()
        };
        match import_with(name, &bytes, options) {
            Ok(import) => prop_assert!(import.report.triples > 0),
            Err(error) => prop_assert!(error.class().exit_code() == 2 && !error.to_string().is_empty()),
        }
    }

    /// On lines that are N-Triples, oxttl reads the same triples; a line that oxttl refuses for its
    /// form is refused here.
    #[test]
    fn lines_mean_what_another_parser_says(
        edits in proptest::collection::vec((any::<u16>(), 0u8..128), 0..3), line_idx in 0usize..9
    ) {
        let line = PEOPLE.lines().filter(|line| !line.is_empty()).nth(line_idx).unwrap_or("");
        let mut bytes = line.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at as usize % bytes.len().max(1);
            if let Some(old) = bytes.get_mut(at) { *old = byte; }
        }
        let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
        prop_assume!(!text.contains(['\n', '\r']));
        let other: Result<Vec<_>, _> =
            oxttl::NTriplesParser::new().for_slice(text.as_bytes()).collect();
        match (ntriples::triple(&text), other) {
            (Ok(None), Ok(other)) => prop_assert!(other.is_empty(), "{text}"),
            (Ok(Some(own)), Ok(other)) => {
                prop_assert_eq!(other.len(), 1, "{}", text);
                let line = format!("{} .", other[0]);
                let reread = ntriples::triple(&line);
                prop_assert_eq!(reread, Ok(Some(own)), "{}", text);
            }
            // oxttl checks IRIs and language tags by their own grammars too, so it may refuse more.
            (Ok(_), Err(_)) => {}
            (Err(bad), Ok(other)) => {
                prop_assert!(other.is_empty() && bad.reason.is_empty(), "{text}: {bad:?}");
            }
            (Err(_), Err(_)) => {}
        }
    }
}
