//! Tables of names between tabs or commas.

use super::*;

#[test]
fn tab_separated_names_need_three_fields() {
    let import = import("train.txt", "/m/1\t/p/q r\t/m/2\n/m/2\t/p\t/m/1\n").unwrap();
    assert_eq!(import.report.formats, [TripleFormat::TabSeparated]);
    assert_eq!(
        named_edges(&import),
        [["/m/1", "/p/q r", "/m/2"], ["/m/2", "/p", "/m/1"]]
    );
    for (text, reason) in [
        ("a\tp\tb\na\t\tb\n", "x.tsv:2:1: the relation is empty"),
        ("a\tp\tb\na\tp\n", "x.tsv:2:1: the tail is empty"),
        ("a\tp\tb\tc\n", "x.tsv:1:1: expected three fields"),
    ] {
        assert!(
            refused("x.tsv", text).starts_with(reason),
            "{}",
            refused("x.tsv", text)
        );
    }
}

#[test]
fn csv_has_names_where_its_first_line_has_letters() {
    let text = "anna,parent_of,\"Ben, the \"\"old\"\"\"\nanna,knows, 7 \n1,2,3\n";
    let csv = import("family.csv", text).unwrap();
    assert_eq!(csv.report.formats, [TripleFormat::Csv]);
    assert_eq!(csv.report.header_lines, 0);
    assert_eq!(
        named_edges(&csv),
        [
            ["anna", "parent_of", "Ben, the \"old\""],
            ["anna", "knows", "7"],
            ["1", "2", "3"]
        ]
    );
    // Numbers in the first line are ids, as long as no other file of the set has names.
    let numbers = import("family.csv", "1,0,2\n0,0,1\n").unwrap();
    assert_eq!(numbers.report.formats, [TripleFormat::IntegerCsv]);
    let mut importer = Importer::new(ImportOptions::default());
    importer.add_bytes("train.csv", text.as_bytes()).unwrap();
    importer.add_bytes("test.csv", b"1,2,7\n").unwrap();
    assert_eq!(named_edges(&importer.finish().unwrap())[3], ["1", "2", "7"]);
}

/// A header is no triple, whatever the order of its columns, and other columns are named.
#[test]
fn columns_go_by_the_names_of_a_header() {
    let text = "weight,Object,SUBJECT,predicate\n.5,ben,anna,parent_of\n1,emma,ben,parent_of\n";
    for (name, text) in [
        ("x.csv", text.to_owned()),
        ("x.tsv", text.replace(',', "\t")),
        ("x", text.to_owned()),
    ] {
        let import = import(name, text).unwrap();
        assert_eq!(
            named_edges(&import),
            [["anna", "parent_of", "ben"], ["ben", "parent_of", "emma"]]
        );
        let report = &import.report;
        assert_eq!((report.header_lines, report.triples), (1, 2));
        assert_eq!(report.columns_left_out, ["weight"]);
        assert!(report.to_string().contains("column left out weight\n"));
    }
    // One name twice makes no header.
    let import = import("x.csv", "head,relation,tail\nhead,relation,head\n").unwrap();
    assert_eq!(named_edges(&import), [["head", "relation", "head"]]);
}

#[test]
fn bad_lines_of_csv_are_named_by_file_line_and_reason() {
    for (text, reason) in [
        ("a,p,b\na,p\n", "x.csv:2:1: the tail is empty"),
        (
            "a,p,b,c\n",
            "x.csv:1:1: expected three fields, found a fourth: `c`",
        ),
        (
            "a,p,\"b\n",
            "x.csv:1:1: a quoted field has no end on its line",
        ),
        (
            "a,p,\"b\"c\n",
            "x.csv:1:1: expected a comma behind a quoted field",
        ),
        (
            "head,relation,tail,x\na,p,b\n",
            "x.csv:2:1: expected 4 fields, as the header has, found 3",
        ),
        (
            "head,relation,tail,x\na,p,b,1,2\n",
            "x.csv:2:1: expected 4 fields, as the header has, found one more: `2`",
        ),
        (
            "head,relation,tail\n",
            "x.csv: the file holds no triple (read as csv)",
        ),
        (
            "0,0,1\nanna,0,1\n",
            "x.csv:2:1: expected an id from 0 to 4294967295, found `anna` (a file of names",
        ),
    ] {
        let message = refused("x.csv", text);
        assert!(message.starts_with(reason), "{text}: {message}");
    }
    let lenient = ImportOptions {
        max_bad_lines: 1,
        ..ImportOptions::default()
    };
    let import = import_with("x.csv", "head,relation,tail\na,p\na,p,b\n", lenient).unwrap();
    assert_eq!((import.graph.n_edges(), import.report.bad[0].line), (1, 2));
}

/// Labels and features name the nodes of such a file, commas and all.
#[test]
fn labels_take_names_in_quotes() {
    let csv = import("x.csv", "\"Smith, J.\",knows,anna\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let train = folder.path().join("train.csv");
    std::fs::write(&train, "node,class\n\"Smith, J.\",x\nanna,\"y,z\"\n").unwrap();
    let files = LabelFiles {
        train,
        ..LabelFiles::default()
    };
    let labels = read_labels(&files, &LabelColumns::default(), &csv.nodes).unwrap();
    assert_eq!(labels.classes, ["x", "y,z"]);
    assert_eq!(labels.labels.train(), [(0, 0), (1, 1)]);
}
