//! `-` is standard input where something is read, and standard output where something is written: no file of that name.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Run, command, finish, listing};

/// A run in a folder, with a file as its standard input.
fn run_in(folder: &Path, words: &str, input: Option<&Path>) -> Run {
    let mut command = command(words, &[]);
    if let Some(input) = input {
        command.stdin(Stdio::from(fs::File::open(input).unwrap()));
    }
    finish(command.current_dir(folder))
}

/// Each form of a file begins with these bytes; the answer is on standard error.
#[test]
fn a_file_goes_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    for (words, begins) in [
        ("place costgraph:1 --evaluations 20 --plan -", "{"),
        ("place costgraph:1 --evaluations 20 --trace -", "{"),
        ("place costgraph:1 --evaluations 20 --svg -", "<svg"),
        ("eval karate --svg -", "<svg"),
        ("solve karate --out -", "0\n"),
    ] {
        let found = run_in(folder.path(), words, None);
        assert_eq!(found.code, Some(0), "{words}: {found:?}");
        assert!(found.stdout.starts_with(begins), "{words}: {found:?}");
        assert!(
            found.stderr.contains("seconds") || found.stderr.contains("time"),
            "{words}: {found:?}"
        );
        assert!(listing(folder.path()).is_empty(), "{words} left a file");
    }
}

#[test]
fn what_needs_the_name_of_a_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        "embed karate --dim 2 --epochs 1 --out -",
        "embed import karate --out -",
        "convert karate -",
        "generate er:9:0.5 --out -",
    ] {
        let message = run_in(folder.path(), words, None).error(2);
        assert!(
            message.contains("does not go to standard output"),
            "{message}"
        );
        assert!(listing(folder.path()).is_empty(), "{words} left a file");
    }
}

#[test]
fn a_graph_comes_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let ops = r#"[["a","op",7,0,0],["b","op",5,0,0]]"#;
    let graph = file(
        "g",
        &format!("{{\"name\":\"x\",\"ops\":{ops},\"tensors\":[[0,8,-1,[1]]]}}\n"),
    );
    let placed = run_in(folder.path(), "place - --format json", Some(&graph)).json();
    assert_eq!(placed["runtime"], 12);
    let triples = file("t", "<http://a> <http://p> <http://b> .\n");
    let info = run_in(folder.path(), "rgcn info - --format json", Some(&triples)).json();
    assert_eq!(info["nodes"], 2);
    let edges = file("e", "a b\nb c\n");
    let solved = run_in(folder.path(), "solve - --format json", Some(&edges)).json();
    assert_eq!(solved["objective"], 1);
}
