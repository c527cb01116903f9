//! `shardgraph rgcn info` and `rgcn plan`: real data against its published counts, partitions of every method, bad input.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::run;

/// The folder of a data set beside the checkout, or a printed skip.
fn data(name: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rdf");
    let folder = shared.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: import of {name} (no folder {})", folder.display());
    None
}

fn count(answer: &Value, key: &str) -> u64 {
    let value = answer[key].as_u64();
    value.unwrap_or_else(|| panic!("no count {key} in {answer}"))
}

/// Nodes, triples, relations, classes, labels to learn from and to test on.
fn assert_counts(answer: &Value, expected: [u64; 6]) {
    let keys = [
        "nodes",
        "edges",
        "relations",
        "classes",
        "train_labels",
        "test_labels",
    ];
    assert_eq!(keys.map(|key| count(answer, key)), expected, "{answer}");
}

#[test]
fn aifb_has_its_published_counts() {
    let Some(folder) = data("aifb") else { return };
    let (graph, train) = (
        folder.join("aifb_stripped.nt.gz"),
        folder.join("trainingSet.tsv"),
    );
    let test = folder.join("testSet.tsv");
    let words = "rgcn info {} --train {} --test {} --no-inverses --format json";
    let answer = run(words, &[&graph, &train, &test]).json();
    assert_counts(&answer, [8285, 29_043, 45, 4, 140, 36]);
    // Only IRIs are left where literals are dropped.
    let words = format!("{words} --literals drop");
    let answer = run(&words, &[&graph, &train, &test]).json();
    assert_eq!(count(&answer, "nodes"), 2835);
    // Columns by name, where the first is no node.
    let all = folder.join("completeDataset.tsv");
    let words = "rgcn info {} --train {} --node-column person --format json";
    let answer = run(words, &[&graph, &all]).json();
    assert_eq!(
        (count(&answer, "train_labels"), count(&answer, "relations")),
        (176, 90)
    );
    let message = run("rgcn info {} --train {}", &[&graph, &all]).error(2);
    assert!(
        message.contains("completeDataset.tsv:2: `1` is no node"),
        "{message}"
    );
    assert!(
        message.contains("the columns are id, person, label_affiliation"),
        "{message}"
    );
}

#[test]
fn mutag_has_its_published_counts() {
    let Some(folder) = data("mutag") else { return };
    let (graph, train) = (
        folder.join("mutag_stripped.nt.gz"),
        folder.join("trainingSet.tsv"),
    );
    let test = folder.join("testSet.tsv");
    let words = "rgcn info {} --train {} --test {} --no-inverses --format json";
    let answer = run(words, &[&graph, &train, &test]).json();
    assert_counts(&answer, [23_644, 74_227, 23, 2, 272, 68]);
    // Everything is near to a label but what no molecule leads to.
    let words = format!("{words} --hops 3 --min-relation-edges 100");
    let answer = run(&words, &[&graph, &train, &test]).json();
    assert!(count(&answer, "nodes") < 23_644 && count(&answer, "relations") < 23);
    let import = &answer["import"];
    let dropped = count(import, "relation_edges_dropped") + count(import, "edges_pruned");
    assert_eq!(count(&answer, "edges") + dropped, 74_227);
    assert_eq!(
        count(&answer, "nodes") + count(import, "nodes_pruned"),
        23_644
    );
}

#[test]
fn amfull_has_its_published_counts() {
    let Some(folder) = data("amfull") else { return };
    let graph = folder.join("triples.int.csv.gz");
    let [train, test, valid] =
        ["training", "testing", "validation"].map(|name| folder.join(format!("{name}.int.csv")));
    let words = "rgcn info {} --train {} --test {} --valid {} --no-inverses --format json";
    let answer = run(words, &[&graph, &train, &test, &valid]).json();
    assert_counts(&answer, [1_080_876, 1_360_749, 12, 8, 13_423, 20_000]);
    assert_eq!(count(&answer, "valid_labels"), 20_000);
    assert_eq!(answer["largest_relation"], "9");
    assert_eq!(count(&answer, "largest_relation_edges"), 1_028_601);
}

#[test]
fn fb15k_237_has_its_published_counts() {
    let Some(folder) = data("fb15k-237") else {
        return;
    };
    let archive = folder.join("FB15k-237.tar.gz");
    let words = "rgcn info {} --no-inverses --format json";
    let answer = run(words, &[&archive]).json();
    assert_eq!(
        (count(&answer, "edges"), count(&answer, "relations")),
        (272_115, 237)
    );
    let member = answer["import"]["members"][0].as_str().unwrap();
    assert!(member.ends_with("train.txt"), "{member}");
    for (member, n_triples) in [("valid.txt", 17_535), ("test.txt", 20_466)] {
        let words = format!("{words} --member {member}");
        assert_eq!(count(&run(&words, &[&archive]).json(), "edges"), n_triples);
    }
}

/// What the plan's JSON must add up to, whatever the method; the answer's unevenness.
fn check_plan(words: &str, paths: &[&Path], n_devices: u64) -> f64 {
    let words = format!("rgcn plan {words} --devices {n_devices} --format json");
    let plan = run(&words, paths).json();
    let devices = plan["devices"].as_array().unwrap();
    assert_eq!(devices.len() as u64, n_devices, "{words}");
    let sum = |key: &str| devices.iter().map(|device| count(device, key)).sum::<u64>();
    assert_eq!(sum("n_edges"), count(&plan, "edges"), "{words}");
    assert_eq!(sum("n_own_nodes"), count(&plan, "nodes"), "{words}");
    assert_eq!(sum("n_pairs"), count(&plan, "pairs"), "{words}");
    let costs: Vec<f64> = devices
        .iter()
        .map(|device| count(device, "cost") as f64)
        .collect();
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    let unevenness = costs.iter().copied().fold(0.0, f64::max) / mean;
    let told = plan["cost_max_over_mean"].as_f64().unwrap();
    assert!(
        (told - unevenness).abs() < 1e-9,
        "{words}: {told} is {unevenness}"
    );
    let bytes = plan["bytes_per_device"].as_array().unwrap();
    assert_eq!(bytes.len() as u64, n_devices);
    unevenness
}

#[test]
fn sources_are_even_on_every_real_graph() {
    for (name, file) in [
        ("aifb", "aifb_stripped.nt.gz"),
        ("mutag", "mutag_stripped.nt.gz"),
        ("amfull", "triples.int.csv.gz"),
        ("fb15k-237", "FB15k-237.tar.gz"),
    ] {
        let Some(folder) = data(name) else { continue };
        let graph = folder.join(file);
        let unevenness = check_plan("{} --preset paper --partition source", &[&graph], 4);
        assert!(unevenness <= 1.05, "{name}: {unevenness}");
        // The named methods deal whole relations: even or not, everything is somewhere.
        for method in ["m1", "m2"] {
            let unevenness = check_plan(
                &format!("{{}} --preset paper --partition {method}"),
                &[&graph],
                4,
            );
            let has_hot_relation = name == "amfull";
            assert!(
                !has_hot_relation || unevenness > 1.3,
                "{name} {method}: {unevenness}"
            );
        }
    }
}

#[test]
fn generated_graphs_are_planned_by_name() {
    for method in ["m1", "m2", "source"] {
        for n_devices in [1, 3] {
            check_plan(
                &format!("ba-rel:500:2.5:7:zipf --partition {method}"),
                &[],
                n_devices,
            );
        }
    }
    let answer = run("rgcn info ba-rel:5000:2.5:7 --format json", &[]).json();
    assert_eq!(
        (count(&answer, "nodes"), count(&answer, "train_labels")),
        (5000, 1000)
    );
    let again = run(
        "rgcn info ba-rel:5000:2.5:7 --graph-seed 2 --format json",
        &[],
    )
    .json();
    assert_ne!(answer["busiest_node_edges"], again["busiest_node_edges"]);
    let text = run("rgcn plan ba-rel:5000:2.5:7 --devices 2", &[]).ok();
    assert_eq!(text.line("method"), "source");
    assert!(text.line("cost max over mean").parse::<f64>().unwrap() < 1.05);
}

#[test]
fn a_budget_is_kept_or_refused_with_what_would_fit() {
    let words = "rgcn plan ba-rel:4000:2.5:7 --preset paper --hidden 10 --format json";
    let whole = count(&run(words, &[]).json(), "bytes_whole");
    let budget = whole / 2;
    let message = run(&format!("{words} --device-memory {budget}"), &[]).error(2);
    assert!(message.contains("would fit"), "{message}");
    let words = format!("{words} --device-memory {budget} --tile");
    let plan = run(&words, &[]).json();
    assert!(plan["devices"][0]["tiles"].as_u64().unwrap() > 1);
    assert!(plan["bytes_per_device"][0].as_u64().unwrap() <= budget);
}

const TRIPLES: &str = "<a:s> <a:p> <a:o> .\n<a:t> <a:p> <a:o> .\n<a:u> <a:p> <a:o> .\n";

/// A name, what the file holds, and part of what must be said; `FILE` stands for its path.
const BAD_TRIPLES: [(&str, &str, &str); 8] = [
    ("x.nt", "", "FILE: the file holds no triple"),
    (
        "x.nt",
        "<a:s> <a:p> \"open .\n",
        "FILE:1:13: a literal without its closing quote",
    ),
    (
        "x.nt",
        "<a:s> <a:p> <a:o> .\nwhat\n",
        "FILE:2:1: expected a subject",
    ),
    ("x.ttl", "@prefix a: <a:> .\na:s b:p a:o .\n", "FILE:2:"),
    ("x.csv", "0,0,1\n0,2,1\n", "relation 1 has no edge"),
    ("train2id.txt", "5\n0 1 0\n", "promises 5 triples"),
    ("x.tsv", "a\t\tb\n", "FILE:1:1: the relation is empty"),
    (
        "x.nt.gz",
        "<a:s> <a:p> <a:o> .\n",
        "FILE: the name promises gzip",
    ),
];

#[test]
fn bad_triples_are_named_by_file_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, reason) in BAD_TRIPLES {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let reason = reason.replace("FILE", &file.display().to_string());
        for command in ["info", "plan"] {
            let message = run(&format!("rgcn {command} {{}}"), &[&file]).error(2);
            assert!(message.contains(&reason), "{message}");
        }
    }
    let file = folder.path().join("x.nt");
    fs::write(&file, format!("{TRIPLES}bad\n")).unwrap();
    let answer = run("rgcn info {} --max-bad-lines 1 --format json", &[&file]).json();
    assert_eq!(answer["import"]["bad"][0]["line"], 4);
}

/// Files of labels to learn from and to test on, and part of what must be said.
const BAD_LABELS: [(&str, &str, &str); 11] = [
    (
        "node\tclass\na:s\tx\na:z\ty\n",
        "",
        "train.tsv:3: `a:z` is no node of the graph",
    ),
    ("node\tclass\na:s\tx\na:t\tx\n", "", "train.tsv: 1 classes"),
    (
        "node\tclass\na:s\tx\na:t\ty\n",
        "node\tclass\na:u\tz\n",
        "class `z` has no training node",
    ),
    (
        "node\tclass\na:s\tx\na:t\ty\n",
        "node\tclass\na:s\tx\n",
        "test.tsv:2: node `a:s` has a label already, at ",
    ),
    (
        "node\tclass\na:s\tx\na:s\ty\n",
        "",
        "train.tsv:3: node `a:s` has a label already",
    ),
    ("node\tclass\n", "", "train.tsv: the file holds no label"),
    ("", "", "train.tsv: the file holds no label"),
    ("node\tclass\na:s\n", "", "train.tsv:2: expected 2 columns"),
    (
        "node\tid\tclass\na:s\t1\tx\na:t\t2\n",
        "",
        "train.tsv:3: expected 3 columns, as on the first line, found 2",
    ),
    (
        "a:s\tx\na:t\ty\n",
        "",
        "train.tsv:1: the first line names a node of the graph",
    ),
    ("a:s\n", "", "train.tsv:1: expected two or more columns"),
];

#[test]
fn bad_labels_are_named_by_file_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (graph, train, test) = (path("x.nt"), path("train.tsv"), path("test.tsv"));
    fs::write(&graph, TRIPLES).unwrap();
    for (to_train, to_test, reason) in BAD_LABELS {
        fs::write(&train, to_train).unwrap();
        fs::write(&test, to_test).unwrap();
        let message = match to_test {
            "" => run("rgcn info {} --train {}", &[&graph, &train]),
            _ => run(
                "rgcn info {} --train {} --test {}",
                &[&graph, &train, &test],
            ),
        };
        let message = message.error(2);
        assert!(message.contains(reason), "{message}");
    }
    fs::write(&train, "node,class\na:s,x\n<a:t>,y\n").unwrap();
    let answer = run("rgcn info {} --train {} --format json", &[&graph, &train]).json();
    assert_eq!(
        (count(&answer, "classes"), count(&answer, "train_labels")),
        (2, 2)
    );
    let words = "rgcn info {} --train {} --class-column kind";
    let message = run(words, &[&graph, &train]).error(2);
    assert!(
        message.contains("no column `kind`; the header has node, class"),
        "{message}"
    );
}

#[test]
fn options_that_cannot_be_right_are_refused() {
    for (words, reason) in [
        (
            "rgcn plan ba-rel:500:2.5:7 --devices 0",
            "expected 1 to 4096",
        ),
        (
            "rgcn plan ba-rel:500:2.5:7 --device-memory 0",
            "device_memory = 0",
        ),
        (
            "rgcn plan ba-rel:500:2.5:7 --hops 2",
            "a generated graph has labels of its own",
        ),
        (
            "rgcn plan ba-rel:5:2.5",
            "ba-rel:NODES:EDGES_PER_NODE:RELATIONS",
        ),
        ("rgcn plan nothing.nt", "nothing.nt: there is no such file"),
    ] {
        let message = run(words, &[]).error(2);
        assert!(message.contains(reason), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("x.nt");
    fs::write(&graph, TRIPLES).unwrap();
    for (words, reason) in [
        ("rgcn info {} --hops 2", "name their file with --train"),
        ("rgcn info {} --min-relation-edges 4", "expected at most 3"),
        ("rgcn info {} --drop-relation a:q", "drop_relation = a:q"),
        ("rgcn info {} --member x", "the file is no archive"),
    ] {
        let message = run(words, &[&graph]).error(2);
        assert!(message.contains(reason), "{message}");
    }
}

/// Memory goes with the number of relations, whether they have edges or not.
#[test]
fn a_number_of_relations_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("t.csv");
    fs::write(&graph, "0,0,1\n1,1,2\n").unwrap();
    for (relations, reason) in [
        ("4294967295", "expected at most 16777216"),
        ("16777217", "expected at most 16777216"),
        ("1", "expected at least 2"),
    ] {
        let words = format!("rgcn info {{}} --relations {relations}");
        let message = run(&words, &[&graph]).error(2);
        assert!(message.contains(reason), "{message}");
    }
}
