//! The corpus of bad files: each with the line, the column and a part of the message that its error must have.
//!
//! Beside the corpus: every prefix of a good file of each format, and random bytes, which may fail but never panic.

mod corpus;

use corpus::Case;
use proptest::prelude::*;
use shardgraph_graph::{Error, Format, ReadOptions, WeightPolicy, read_bytes};

use Format::{Dimacs, EdgeList, Gset, MatrixMarket, Metis, Ml4co, Pace};

fn read(bytes: &[u8], format: Format) -> Result<shardgraph_graph::Import, Error> {
    let options = ReadOptions {
        format: Some(format),
        ..ReadOptions::default()
    };
    read_bytes("bad", bytes, &options)
}

fn check(cases: &[Case]) {
    for &(bytes, format, line, column, fragment) in cases {
        let shown = bytes[..bytes.len().min(60)].escape_ascii();
        match read(bytes, format) {
            Ok(import) => panic!("{format} `{shown}` was read: {}", import.report),
            Err(error) => {
                let place = error.place();
                assert_eq!(
                    (place.line, place.column),
                    (line, column),
                    "{format} `{shown}`: {error}"
                );
                assert!(
                    error.to_string().contains(fragment),
                    "{format} `{shown}`: {error}"
                );
                assert!(error.to_string().starts_with("bad:"), "{error}");
            }
        }
    }
}

#[test]
fn matrix_market() {
    check(corpus::MATRIX_MARKET);
}

#[test]
fn edge_list() {
    check(corpus::EDGE_LIST);
}

#[test]
fn edge_list_weights() {
    let options = ReadOptions {
        format: Some(EdgeList),
        weights: WeightPolicy::ThirdColumn,
        ..ReadOptions::default()
    };
    for (text, column, fragment) in [
        ("1 2 3\n2 3\n", 4, "third column, found the end of the line"),
        ("1 2 3\n2 3 x\n", 5, "third column, found `x`"),
        (
            "1 2 3\n2 3 NaN\n",
            5,
            "a finite number of at most 3.4e38 as weight in the third column, found `NaN`",
        ),
        ("1 2 3\n2 3 1e39\n", 5, "found `1e39`"),
        ("1,2,3\n2,3,\n", 5, "found the end of the line"),
    ] {
        let error = read_bytes("bad", text.as_bytes(), &options).unwrap_err();
        assert_eq!(
            (error.place().line, error.place().column),
            (2, column),
            "{error}"
        );
        assert!(error.to_string().contains(fragment), "{error}");
    }
}

#[test]
fn dimacs() {
    check(corpus::DIMACS);
}

#[test]
fn metis() {
    check(corpus::METIS);
}

#[test]
fn gset() {
    check(corpus::GSET);
}

#[test]
fn ml4co() {
    check(corpus::ML4CO);
}

#[test]
fn pace() {
    check(corpus::PACE);
}

/// The file that lists more ids than u32 holds cannot be made here; the text of 2^32 - 1 must be refused all the same.
#[test]
fn ids_at_the_edge_of_u32() {
    check(&[
        (
            b"p edge 4294967295 1\ne 1 4294967295\n",
            Dimacs,
            1,
            8,
            "at most 4294967294",
        ),
        (
            b"p td 10 1\n1 4294967297\n",
            Pace,
            2,
            3,
            "found `4294967297`",
        ),
    ]);
}

#[test]
fn long_lines_are_refused_without_being_kept() {
    let mut line = vec![b'7'; 3 << 20];
    for format in [MatrixMarket, EdgeList, Dimacs, Pace, Gset] {
        let error = read(&line, format).unwrap_err();
        assert!(
            error.to_string().contains("lines of at most 1048576 bytes"),
            "{error}"
        );
        assert_eq!(error.place().line, 1);
    }
    // A METIS row may be longer: here the header's first number is.
    let error = read(&line, Metis).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the number of nodes, found `777"),
        "{error}"
    );
    line.splice(0..0, *b"# fine\n1 2\n");
    assert_eq!(read(&line, EdgeList).unwrap_err().place().line, 3);
}

/// One good file of each format, with comments, odd spacing and different line ends.
const GOOD: [(&[u8], Format); 11] = [
    (b"# c\n 3\t2 \r\n1 2 -1\n\n2 3 7", Gset),
    (b"0 1  1 2\tlabel 0 1 1\n", Ml4co),
    (
        b"%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 2\n2 1 -2D1\r\n3 2 7\n",
        MatrixMarket,
    ),
    (
        b"%MatrixMarket matrix coordinate pattern general \n3 3 2\n2 1\n3 2",
        MatrixMarket,
    ),
    (
        b"\xef\xbb\xbf# c\n10 20\r\n20,30\n% c\n\t30 10 4\n",
        EdgeList,
    ),
    (b"ann bob\nbob cid\n", EdgeList),
    (b"c x\np edge 3 2\nn 1 4\ne 1 2\ne 2 3\n", Dimacs),
    (b"% c\n3 2\n2\n1 3\n2\n", Metis),
    (b"3 2 111 2\n1 1 1 2 5\n1 1 1 1 5 3 6\n1 1 1 2 6\n", Metis),
    (b"c x\np td 3 2\n1 2\n2 3\n", Pace),
    (b"3 2\r1 2\r2 3\r", Pace),
];

#[test]
fn good_files_are_good_and_every_prefix_is_no_panic() {
    for (bytes, format) in GOOD {
        let import = read(bytes, format).unwrap();
        assert_eq!(import.graph.n_nodes(), 3, "{format}");
        for len in 0..bytes.len() {
            for format in [Some(format), None] {
                let options = ReadOptions {
                    format,
                    ..ReadOptions::default()
                };
                if let Err(error) = read_bytes("cut", &bytes[..len], &options) {
                    assert!(error.place().line > 0, "{error}");
                }
            }
        }
    }
}

/// Formats that say how much is to come notice every cut that loses more than the last line's end.
#[test]
fn cuts_are_noticed() {
    for (bytes, format) in GOOD
        .into_iter()
        .filter(|good| !matches!(good.1, EdgeList | Dimacs))
    {
        let needed = bytes.trim_ascii_end().len();
        for len in 0..needed {
            // A last number may lose digits and stay a number.
            if !bytes[len - len.min(1)].is_ascii_digit() || !bytes[len].is_ascii_digit() {
                let result = read(&bytes[..len], format);
                assert!(result.is_err(), "{format} cut to {len} of {}", bytes.len());
            }
        }
    }
}

/// Bytes that come near to what the readers expect.
fn near_text() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "1",
        "2",
        "3",
        "0",
        "-1",
        "9999999999999999999999",
        "4294967295",
        "4294967294",
        "1e5",
        "nan",
        " ",
        "\n",
        "\r",
        "\t",
        ",",
        "%",
        "#",
        "\0",
        "c",
        "p",
        "e",
        "n",
        "edge",
        "td",
        "p edge 3 2\n",
        "p td 3 2\n",
        "3 2\n",
        "%%MatrixMarket matrix coordinate real general\n",
        "3 3 2\n",
        "1 2\n",
        "e 1 2\n",
        "é",
        "11",
        "abc",
    ];
    let word = prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec());
    let piece = prop_oneof![9 => word, 1 => prop::collection::vec(any::<u8>(), 1..4)];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic(bytes in near_text(), weights in 0..3) {
        let weights = [WeightPolicy::Declared, WeightPolicy::ThirdColumn, WeightPolicy::Ignore][weights as usize];
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let options = ReadOptions { format, weights, ..ReadOptions::default() };
            if let Ok(import) = read_bytes("random", &bytes, &options) {
                let (graph, report) = (&import.graph, &import.report);
                prop_assert_eq!(report.listed_edges, graph.n_edges() + report.self_loops_dropped + report.duplicates_merged);
                prop_assert_eq!(import.labels.n_nodes(), graph.n_nodes());
            }
        }
    }
}
