//! `shardgraph rgcn` on tables that no benchmark has: three triples, self loops, names between commas, unknown names, empty files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Run, run};

/// Files of a folder, and commands in which `@NAME` stands for one of them.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let made = Files {
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, text) in files {
            fs::write(made.path(name), text).unwrap();
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &str) -> Run {
        let names = words.split(' ').filter_map(|word| word.strip_prefix('@'));
        let paths: Vec<PathBuf> = names.map(|name| self.path(name)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let is_name = |word: &str| word.starts_with('@');
        let words: Vec<&str> = words
            .split(' ')
            .map(|word| if is_name(word) { "{}" } else { word })
            .collect();
        run(&words.join(" "), &paths)
    }
}

const THREE: &str = "a\tr\tb\nb\tr\tc\nc\tr\ta\n";

/// One relation, and classes of one node each.
fn three() -> Files {
    Files::new(&[
        ("three.tsv", THREE),
        ("labels.csv", "node,class\na,x\nb,y\n"),
        ("other.csv", "node,class\nc,x\n"),
        ("unknown.tsv", "zz\tr\ta\n"),
        ("features.csv", "node,x\na,1\nb,2\nc,3\n"),
        ("wide.csv", "node,x,y\na,1,1\nb,2,1\nc,3,1\n"),
        ("empty", ""),
        ("loops.tsv", "a\tr\ta\na\tr\ta\nb\tr\tb\n"),
    ])
}

#[test]
fn three_triples_are_enough() {
    let files = three();
    let classes = "rgcn train @three.tsv --train @labels.csv --test @other.csv --run @classes";
    let answer = files.run(classes).ok();
    let scores: Vec<&str> = answer.line("train").split_whitespace().collect();
    assert_eq!(scores[..2], ["2", "2"], "{answer:?}");
    let text = files.run("rgcn predict @three.tsv --model @classes --all-nodes");
    assert_eq!(text.ok().stdout.lines().count(), 3);
    files
        .run("rgcn train @loops.tsv --train @labels.csv --ranks 3 --batch 1 --bases 2")
        .ok();
    files
        .run("rgcn train @three.tsv --task links --dim 8 --epochs 3 --run @links")
        .ok();
    // What was not learnt is counted where it was there from the beginning, and named where not.
    let text = files.run("rgcn train @three.tsv --task links --test @unknown.tsv --dim 8");
    assert_eq!(text.ok().line("test triples of unseen names"), "1");
    let message = files.run("rgcn eval @three.tsv --model @links --test @unknown.tsv");
    let message = message.error(2);
    assert!(
        message.contains("these files have 4 nodes and 1 relations, the run had 3 and 1"),
        "{message}"
    );
    for words in [
        "--encoder rgcn",
        "--encoder rgcn --loss softmax",
        "--negatives 5",
    ] {
        let train = format!("rgcn train @loops.tsv --task links --dim 8 --epochs 4 {words}");
        files.run(&train).ok();
    }
}

/// In a short run an encoder's layers join as well: half of the epochs are theirs.
#[test]
fn an_encoder_has_a_part_of_every_run() {
    let files = three();
    let words = "rgcn train @three.tsv --task links --dim 8 --epochs 4 --format json";
    let alone = files.run(words).json();
    let encoded = files.run(&format!("{words} --encoder rgcn")).json();
    assert_eq!(encoded["settings"]["warm_epochs"], 2);
    assert_ne!(encoded["final_loss"], alone["final_loss"]);
    let message = files
        .run(&format!("{words} --encoder rgcn --warm-epochs 4"))
        .error(2);
    assert!(message.contains("fewer than the 4 epochs"), "{message}");
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let files = three();
    let train = "rgcn train @three.tsv --train @labels.csv";
    files.run(&format!("{train} --run @one-hot")).ok();
    files
        .run(&format!("{train} --features @features.csv --run @given"))
        .ok();
    files
        .run("rgcn train @three.tsv --task links --dim 8 --epochs 3 --run @links")
        .ok();
    for (words, reason) in [
        (
            format!("{train} --valid-share 0.5"),
            "holds none back, as each class keeps one",
        ),
        (format!("{train} --dim 4"), "--dim is for --task links"),
        (
            "rgcn predict @three.tsv --model @given --all-nodes".to_owned(),
            "expected those of width 1 that the model reads",
        ),
        (
            "rgcn predict @three.tsv --features @wide.csv --model @given --all-nodes".to_owned(),
            "features of width 2: expected 1",
        ),
        (
            "rgcn predict @three.tsv --features @wide.csv --model @one-hot --all-nodes".to_owned(),
            "a model that reads no features",
        ),
        (
            "rgcn predict @three.tsv --model @one-hot --node-file @empty".to_owned(),
            "the file names no node",
        ),
        (
            "rgcn predict @three.tsv --model @links --queries @empty".to_owned(),
            "the file holds no question",
        ),
        (
            "rgcn predict @three.tsv --model @links --subject a --relation r --top 0".to_owned(),
            "--top",
        ),
        (
            "rgcn predict @three.tsv --model @links --subject zz --relation r".to_owned(),
            "zz: the triples have no such node",
        ),
    ] {
        let message = files.run(&words).error(2);
        assert!(message.contains(reason), "{words}: {message}");
    }
}

/// Triples and labels between commas, under headers, with names that hold a comma.
#[test]
fn csv_is_read_with_names_and_header() {
    let files = Files::new(&[
        (
            "books.csv",
            "object,subject,predicate,since\n\"Smith, J.\",Dune,by,1965\nHerbert,Dune,by,1965\nDune,Emma,near,\n",
        ),
        ("kinds.csv", "node,kind\n\"Smith, J.\",person\nDune,book\n"),
        ("bad.csv", "head,relation,tail\na,r,b\na,r\n"),
    ]);
    let info = "rgcn info @books.csv --train @kinds.csv --format json";
    let info = files.run(info).json();
    assert_eq!((&info["nodes"], &info["relations"]), (&4.into(), &4.into()));
    assert_eq!(info["import"]["formats"][0], "csv");
    assert_eq!(info["import"]["columns_left_out"][0], "since");
    let links = "rgcn train @books.csv --task links --dim 8 --epochs 3 --run @run";
    files.run(links).ok();
    let asked = "rgcn predict @books.csv --model @run --subject Dune --relation by";
    let text = files.run(asked).ok().stdout;
    assert_eq!(
        text.lines().filter(|line| line.ends_with("known")).count(),
        2,
        "{text}"
    );
    let message = files.run("rgcn info @bad.csv").error(2);
    let place = format!("{}:3:1: the tail is empty", files.path("bad.csv").display());
    assert!(message.contains(&place), "{message}");
}
