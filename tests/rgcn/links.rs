//! `shardgraph rgcn train --task links`, `eval` and `predict` of such runs; features as input; block-diagonal weights.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{listing, opened, run};
use crate::ranks::processes::run_all;
use crate::schema::assert_schema;

const SMALL: &str = "--encoder rgcn --input-dim 8 --hidden 8 --dim 8 --blocks 2 --batch 60 --negatives 4 --format json";

/// Three files of triples of a ring of `n` nodes, whose relations are steps of one and of two.
fn ring(folder: &Path, n: usize) -> [PathBuf; 3] {
    let mut sets = [String::new(), String::new(), String::new()];
    for node in 0..n {
        for (step, relation) in [(1, "next"), (2, "next_but_one")] {
            let set = match (node * 2 + step) % 10 {
                0 => 1,
                5 => 2,
                _ => 0,
            };
            let end = (node + step) % n;
            writeln!(sets[set], "n{node}\t{relation}\tn{end}").unwrap();
        }
    }
    let names = ["train.tsv", "valid.tsv", "test.tsv"];
    let paths = names.map(|name| folder.join(name));
    for (path, set) in paths.iter().zip(sets) {
        fs::write(path, set).unwrap();
    }
    paths
}

/// A decoder alone learns, stops at its best epoch, and answers a file of questions.
#[test]
fn a_decoder_alone_learns_stops_and_answers_many_questions() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 30);
    let [train, valid, test] = paths(&files);
    for (name, decoder) in [
        ("distmult", "--loss softmax --negatives 8"),
        ("complex", "--ranks 3"),
    ] {
        let model = scratch.path().join(name);
        let words = format!(
            "rgcn train {{}} --task links --valid {{}} --test {{}} {decoder} --dim 16 --batch 20 --epochs 40 --valid-epochs 1 --patience 3 --run {{}} --format json"
        );
        let answer = run(&words, &[train, valid, test, &model]).json();
        let (best, epochs) = (answer["best_epoch"].as_u64(), answer["epochs"].as_u64());
        assert!(best <= epochs && epochs.unwrap() <= 40, "{answer}");
        let eval = "rgcn eval {} --valid {} --test {} --model {} --format json";
        let evaluation = run(eval, &[train, valid, test, &model]).json();
        assert_eq!(
            evaluation["valid"], answer["valid"],
            "the model of the best epoch is kept"
        );
        assert_eq!(evaluation["test"], answer["test"]);
    }
    let model = scratch.path().join("complex");
    let queries = scratch.path().join("queries.tsv");
    fs::write(&queries, "n3\tnext\t?\n?\tnext_but_one\tn3\n").unwrap();
    let words =
        "rgcn predict {} --valid {} --test {} --model {} --queries {} --top 4 --format json";
    let inputs = [train, valid, test, &model, &queries];
    let answer = run(words, &inputs).json();
    let asked = answer["queries"].as_array().unwrap();
    assert_eq!(
        (asked.len(), asked[1]["ends"].as_array().unwrap().len()),
        (2, 4)
    );
    let one = "rgcn predict {} --valid {} --test {} --model {} --subject n3 --relation next --top 4 --format json";
    let single = run(one, &inputs[..4]).json();
    assert_eq!(single["ends"], asked[0]["ends"]);
    let (nodes, relations) = (scratch.path().join("n.npz"), scratch.path().join("r.vec"));
    let words = "rgcn predict {} --valid {} --test {} --model {} --vectors {} --relation-vectors {} --format json";
    let answer = run(words, &[train, valid, test, &model, &nodes, &relations]).json();
    assert_eq!(
        (&answer["nodes"], &answer["columns"]),
        (&30.into(), &16.into())
    );
    let text = fs::read_to_string(&relations).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 5, "{text}");
    assert!(
        names.contains(&"next") && names.contains(&"inverse:next_but_one"),
        "{text}"
    );
    let near = run("embed near n3 --model {} --top 3 --format json", &[&nodes]).json();
    assert_eq!(near["near"].as_array().unwrap().len(), 3);
    let words =
        "rgcn predict {} --valid {} --test {} --model {} --queries {} --top 4 --format json";
    fs::write(&queries, "n3\tnext\t?\nn3\tnext\tn4\n").unwrap();
    let message = run(words, &inputs).error(2);
    assert!(
        message.contains("queries.tsv:2: no end is asked for"),
        "{message}"
    );
}

fn paths(files: &[PathBuf; 3]) -> [&Path; 3] {
    [&files[0], &files[1], &files[2]]
}

#[test]
fn links_are_learnt_ranked_and_asked_for_again() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 30);
    let [train, valid, test] = paths(&files);
    let (whole, parts) = (scratch.path().join("whole"), scratch.path().join("parts"));
    let words = format!(
        "rgcn train {{}} --task links --valid {{}} --test {{}} {SMALL} --checkpoint-epochs 2 --valid-epochs 2"
    );
    let expected = run(
        &format!("{words} --epochs 4 --run {{}}"),
        &[train, valid, test, &whole],
    )
    .json();
    for (key, value) in [("task", "links"), ("mode", "full")] {
        assert_eq!(expected[key], value);
    }
    assert_eq!(expected["train_triples"], 48);
    assert_eq!(expected["test"]["filtered"]["n_ranks"], 12);
    assert_eq!(expected["mrr"], expected["test"]["filtered"]["mrr"]);
    run(
        &format!("{words} --epochs 2 --run {{}}"),
        &[train, valid, test, &parts],
    )
    .ok();
    let resumed = "rgcn train {} --task links --valid {} --test {} --checkpoint-epochs 2 --run {} --resume --epochs 4 --format json";
    let resumed = run(resumed, &[train, valid, test, &parts]).json();
    for key in ["params_hash", "test", "valid", "final_loss"] {
        assert_eq!(expected[key], resumed[key], "{key}");
    }
    let to_its_end =
        "rgcn train {} --task links --valid {} --test {} --run {} --resume --format json";
    let at_its_end = run(to_its_end, &[train, valid, test, &parts]).json();
    assert_eq!(at_its_end["params_hash"], expected["params_hash"]);
    let metrics = |folder: &Path| fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    assert_eq!(metrics(&whole), metrics(&parts));
    assert_eq!(metrics(&whole).lines().count(), 4);
    let eval = "rgcn eval {} --valid {} --test {} --model {} --format json";
    let eval = run(eval, &[train, valid, test, &whole]).json();
    assert_eq!(
        (&eval["test"], &eval["valid"]),
        (&expected["test"], &expected["valid"])
    );
    let asked = "rgcn predict {} --valid {} --test {} --model {} --subject n3 --relation next --top 5 --format json";
    let ends = run(asked, &[train, valid, test, &whole]).json();
    assert_eq!(ends["ends"].as_array().unwrap().len(), 5);
}

/// Flags that cannot be right, and what is said of them.
const REFUSED: [(&str, &str); 12] = [
    ("--input-dim 0 --blocks 2", "embedding = 0"),
    ("--blocks 9", "blocks = 9"),
    ("--bases 2 --blocks 2", "blocks = 2"),
    ("--negatives 0", "negatives = 0"),
    ("--repeats 2", "--repeats"),
    (
        "--negatives 4 --ranks 2",
        "ranks = 2: expected 1 with a loss of sampled nodes",
    ),
    ("--loss k-vs-all --clip 1", "clip = 1"),
    ("--train x.tsv", "--train has no meaning for links"),
    ("--hops 2", "--hops has no meaning for links"),
    ("--preset am", "--preset"),
    ("--mode pruned", "mode = pruned"),
    ("--no-self-loop", "self_loop = false"),
];

#[test]
fn what_cannot_be_right_is_refused_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 20);
    let [train, valid, test] = paths(&files);
    let out = scratch.path().join("run");
    let settings = scratch.path().join("c.toml");
    fs::write(&settings, "preset = 'am'\n").unwrap();
    let before = listing(scratch.path());
    let command = "rgcn train {} --task links --valid {} --test {} --config {} --run {}";
    let error = run(command, &[train, valid, test, &settings, &out]).error(2);
    assert!(
        error.contains("c.toml:1: `preset`: it is not for"),
        "{error}"
    );
    for (words, reason) in REFUSED {
        // No folder goes with several seeds.
        let is_seeds = words.starts_with("--repeats");
        let small = "--encoder rgcn --input-dim 8 --hidden 8 --dim 8 --blocks 2";
        let small = match words.split(' ').next() {
            Some("--input-dim" | "--blocks" | "--bases") => "--encoder rgcn --hidden 8 --dim 8",
            _ => small,
        };
        let folder = if is_seeds { "" } else { "--run {}" };
        let command = format!(
            "rgcn train {{}} --task links --valid {{}} --test {{}} {small} {words} {folder}"
        );
        let given: &[&Path] = if is_seeds {
            &[train, valid, test]
        } else {
            &[train, valid, test, &out]
        };
        let error = run(&command, given).error(2);
        assert!(error.contains(reason), "{words}: {error}");
        assert_eq!(listing(scratch.path()), before, "{words}");
    }
    let words = "rgcn train {} --task links --hidden 8";
    let layers = run(words, &[train]).error(2);
    assert!(layers.contains("add --encoder rgcn"), "{layers}");
    let unasked = run("rgcn train {} --negatives 3", &[train]).error(2);
    assert!(unasked.contains("--task links"), "{unasked}");
    fs::write(&files[2], "n1\tnext\n").unwrap();
    let bad = run("rgcn train {} --task links --test {}", &[train, test]).error(2);
    assert!(bad.contains("test.tsv:1:1: the tail is empty"), "{bad}");
}

/// A run of links and one of classes are not taken for each other.
#[test]
fn runs_of_the_other_task_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 20);
    let [train, _, test] = paths(&files);
    let (links, classes) = (scratch.path().join("links"), scratch.path().join("classes"));
    run(
        &format!("rgcn train {{}} --task links --test {{}} {SMALL} --epochs 1 --run {{}}"),
        &[train, test, &links],
    )
    .ok();
    run("rgcn train ba-rel:200:2:3 --epochs 1 --run {}", &[&classes]).ok();
    let error = run(
        "rgcn predict {} --test {} --model {} --node n3",
        &[train, test, &links],
    )
    .error(2);
    assert!(error.contains("has no classes"), "{error}");
    let error = run(
        "rgcn predict ba-rel:200:2:3 --model {} --relation 1 --subject 3",
        &[&classes],
    )
    .error(2);
    assert!(error.contains("is asked with --node"), "{error}");
    let answer = run(
        "rgcn eval ba-rel:200:2:3 --model {} --format json",
        &[&classes],
    )
    .json();
    assert_eq!(
        (&answer["mode"], &answer["epochs"]),
        (&"pruned".into(), &1.into())
    );
    let answer = run(
        "rgcn predict ba-rel:200:2:3 --model {} --node 3 --format json",
        &[&classes],
    )
    .json();
    assert_eq!(answer["mode"], "pruned");
}

/// Triples, labels and features of 60 nodes, whose class is a feature.
fn labelled_ring(folder: &Path) -> [PathBuf; 3] {
    let (mut triples, mut classes, mut table) =
        (String::new(), String::new(), String::from("node,x,y,z\n"));
    for node in 0..60 {
        writeln!(triples, "{node},{},{}", node % 2, (node + 7) % 60).unwrap();
        writeln!(table, "{node},{},{},0.5", node % 3, node % 5).unwrap();
        writeln!(classes, "{node},{}", node % 3).unwrap();
    }
    let paths = ["g.csv", "train.csv", "features.csv"].map(|name| folder.join(name));
    for (path, text) in paths.iter().zip([triples, classes, table]) {
        fs::write(path, text).unwrap();
    }
    paths
}

#[test]
fn features_are_the_input_of_all_numbers_of_ranks() {
    let scratch = tempfile::tempdir().unwrap();
    let [graph, labels, features] = labelled_ring(scratch.path());
    let out = scratch.path().join("run");
    let words = "rgcn train {} --train {} --features {} --hidden 12 --epochs 60 --format json";
    let whole = run(
        &format!("{words} --run {{}}"),
        &[&graph, &labels, &features, &out],
    )
    .json();
    assert_eq!(
        (
            &whole["settings"]["embedding"],
            &whole["settings"]["features"]
        ),
        (&3.into(), &true.into())
    );
    assert!(whole["accuracy_mean"].as_f64().unwrap() > 0.9, "{whole}");
    for more in ["--ranks 3", "--mode full --ranks 2"] {
        let parts = run(&format!("{words} {more}"), &[&graph, &labels, &features]).json();
        if more.starts_with("--ranks") {
            assert_eq!(parts["params_hash"], whole["params_hash"]);
        }
        assert_eq!(parts["evaluation"], whole["evaluation"], "{more}");
    }
    let eval = "rgcn eval {} --train {} --features {} --model {} --format json";
    let eval = run(eval, &[&graph, &labels, &features, &out]).json();
    assert_eq!(eval["train"], whole["evaluation"]["train"]);
    fs::write(&features, "node,x\n0,1\n").unwrap();
    let error = run(words, &[&graph, &labels, &features]).error(2);
    assert!(error.contains("59 nodes have no row"), "{error}");
    let error = run(
        "rgcn train {} --train {} --features {} --input-dim 4",
        &[&graph, &labels, &features],
    )
    .error(2);
    assert!(error.contains("59 nodes have no row"), "{error}");
}

/// Block-diagonal weights over ranks: the same bits.
#[test]
fn blocks_are_the_same_on_any_number_of_ranks() {
    let words = "rgcn train ba-rel:1500:2.5:6 --input-dim 12 --hidden 12 --blocks 4 --normaliser node --epochs 3 --format json";
    let whole: Value = run(words, &[]).json();
    let parts = run(&format!("{words} --ranks 3"), &[]).json();
    assert_eq!(whole["params_hash"], parts["params_hash"]);
    assert_eq!(whole["settings"]["bases"], 0);
}

const KEYS: [(&str, &str); 30] = [
    ("task", "string"),
    ("graph", "string"),
    ("nodes", "count"),
    ("relations", "count"),
    ("train_triples", "count"),
    ("valid_triples", "count"),
    ("test_triples", "count"),
    ("valid_learnt", "count"),
    ("test_learnt", "count"),
    ("valid_unseen", "count"),
    ("test_unseen", "count"),
    ("filter_triples", "count"),
    ("filter_is_of_run", "boolean"),
    ("mode", "string"),
    ("settings", "object"),
    ("epochs", "count"),
    ("mrr", "number"),
    ("hits_at_10", "number"),
    ("valid", "object"),
    ("test", "object"),
    ("best_epoch", "count"),
    ("epoch_ms", "number"),
    ("final_loss", "number"),
    ("bytes", "count"),
    ("predicted_bytes", "count"),
    ("peak_bytes", "count"),
    ("params_hash", "string"),
    ("peak_mib", "number"),
    ("load_seconds", "number"),
    ("import", "object"),
];

/// The answers' keys, and what is said of triples that ranks should not be measured with.
#[test]
fn answers_say_what_ranks_are_measured_with() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 20);
    let [train, valid, test] = paths(&files);
    let mut lines = fs::read_to_string(test).unwrap();
    lines.push_str("n3\tnext\tn4\nn2\tnext\tstranger\nn2\tbefore\tn4\n");
    fs::write(test, lines).unwrap();
    assert!(
        fs::read_to_string(train)
            .unwrap()
            .contains("n3\tnext\tn4\n")
    );
    let out = scratch.path().join("run");
    let words = format!(
        "rgcn train {{}} --task links --valid {{}} --test {{}} {SMALL} --epochs 1 --run {{}}"
    );
    let answer = run(&words, &[train, valid, test, &out]).json();
    assert_schema(&answer, &KEYS);
    let of = |key: &str| answer[key].as_u64().unwrap();
    assert_eq!((of("test_learnt"), of("test_unseen")), (1, 2));
    assert_eq!((of("valid_learnt"), of("valid_unseen")), (0, 0));
    let n_lines = of("train_triples") + of("valid_triples") + of("test_triples");
    assert_eq!(of("filter_triples"), n_lines - 1);
    let words = "rgcn eval {} --valid {} --test {} --model {} --format json";
    let same = run(words, &[train, valid, test, &out]).json();
    let only = [
        "best_epoch",
        "epoch_ms",
        "final_loss",
        "bytes",
        "predicted_bytes",
        "peak_bytes",
        "params_hash",
    ];
    let keys: Vec<_> = KEYS
        .into_iter()
        .filter(|(key, _)| !only.contains(key))
        .collect();
    assert_schema(&same, &keys);
    assert_eq!(same["filter_is_of_run"], true);
    other_triples_are_said([train, valid, test, &out]);
}

/// With other validation triples ranks are filtered by others than the run's own.
fn other_triples_are_said([train, valid, test, out]: [&Path; 4]) {
    let text = fs::read_to_string(valid).unwrap();
    let less = text.split_once('\n').unwrap().1;
    fs::write(valid, less).unwrap();
    let words = "rgcn eval {} --valid {} --test {} --model {}";
    let json = format!("{words} --format json");
    let other = opened(&run(&json, &[train, valid, test, out]).stdout);
    assert_eq!(other["filter_is_of_run"], false);
    let told = run(words, &[train, valid, test, out]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stderr.contains("not comparable to the run's own"),
        "{told:?}"
    );
    assert_eq!(told.line("test triples also learnt from"), "1");
    assert_eq!(told.line("test triples of unseen names"), "2");
}

/// Adds a file to a tar archive.
fn add_member(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    archive.extend(header);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// What no flag names is taken from the archive.
#[test]
fn an_archive_keeps_the_sets_that_no_flag_names() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 20);
    let [_, valid, _] = paths(&files);
    let archive = scratch.path().join("sets.tar");
    let mut bytes = Vec::new();
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        add_member(&mut bytes, name, &fs::read(file).unwrap());
    }
    bytes.resize(bytes.len() + 1024, 0);
    fs::write(&archive, bytes).unwrap();
    let own = scratch.path().join("own.tsv");
    let text = fs::read_to_string(valid).unwrap();
    fs::write(&own, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    let words = format!("rgcn train {{}} --task links {SMALL} --epochs 1");
    let whole = run(&words, &[&archive]).json();
    assert_eq!(whole["valid_triples"], text.lines().count());
    let mixed = run(&format!("{words} --valid {{}}"), &[&archive, &own]).json();
    assert_eq!(mixed["valid_triples"], 1);
    assert_eq!(mixed["test_triples"], whole["test_triples"]);
    assert!(whole["test_triples"].as_u64() > Some(0));
}

/// A launcher's only process is one rank; NCCL has no part in links.
#[test]
fn links_take_a_launch_of_one_process() {
    let scratch = tempfile::tempdir().unwrap();
    let files = ring(scratch.path(), 20);
    let [train, valid, _] = paths(&files);
    let words = format!("rgcn train {{}} --task links --valid {{}} {SMALL} --epochs 1");
    let expected = run(&words, &[train, valid]).json();
    for run in run_all(1, &words, &[train, valid]) {
        assert_eq!(run.json()["params_hash"], expected["params_hash"]);
    }
    let refused = run(&format!("{words} --comm nccl"), &[train, valid]).error(2);
    assert!(refused.contains("nccl"), "{refused}");
}
