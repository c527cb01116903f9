//! `shardgraph place` on real computation graphs, from `shared/data/costgraphs` beside the checkout; counted skips without.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::plans::place;
use crate::program::run;

/// A file of the data folder, if it is there.
fn data(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/costgraphs");
    let file = folder.join(name);
    if file.is_file() {
        return Some(file);
    }
    println!("SKIPPED: placing {name} (no file {})", file.display());
    None
}

/// The plan, its trace and its chart are checked in `place`; here, how far from the bound a plan may be.
fn check(name: &str, flags: &str, most_gap: f64) {
    let Some(file) = data(name) else { return };
    let answer = place(&file, flags);
    let gap = answer["gap"].as_f64().unwrap();
    assert!(gap <= most_gap, "{name} {flags}: {answer}");
}

// The gaps: about twice what was found with these flags.

#[test]
fn synthetic_ones() {
    check("synthetic_sample/g0000.pbtxt", "--links unlimited", 0.02);
    check(
        "synthetic_sample/g0019.pbtxt",
        "--links unlimited --decoder paper --method brkga",
        0.8,
    );
    check(
        "synthetic_sample/g0007.pbtxt",
        "--objective memory --device-memory 1MiB",
        2.0,
    );
}

#[test]
fn pytorch_ones() {
    let flags = "--links unlimited --evaluations 500";
    check("torch_graphs.jsonl.gz", &format!("--index 0 {flags}"), 0.2);
    check(
        "torch_graphs.jsonl.gz",
        &format!("--index 171 {flags}"),
        0.2,
    );
    check(
        "graphnet.jsonl.gz",
        "--index 100 --evaluations 500 --bandwidth 12 --latency 5us",
        2.0,
    );
}

#[test]
fn tensorflow_ones() {
    let flags = "--links unlimited --evaluations 300 --device-memory 16GiB";
    check("tf_costgraph/MobileNetV2_fwd.pb.gz", flags, 0.5);
    check(
        "tf_costgraph/VGG16_train.pb.gz",
        "--links unlimited --method heft --contract",
        0.5,
    );
}

#[test]
fn all_of_a_file() {
    let Some(file) = data("msr_graphs.jsonl.gz") else {
        return;
    };
    let answers = run("place {} --all --method heft --format json", &[&file]).ok();
    let answers: Vec<Value> = answers
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 24);
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!(answer["index"], index);
        assert_eq!(answer["verified"], true);
    }
    // A file of one of its lines is the same graph.
    let folder = tempfile::tempdir().unwrap();
    let line = folder.path().join("one.jsonl");
    let mut unpacked = String::new();
    let packed = flate2::read::MultiGzDecoder::new(fs::File::open(&file).unwrap());
    std::io::Read::read_to_string(&mut { packed }, &mut unpacked).unwrap();
    fs::write(&line, unpacked.lines().nth(5).unwrap()).unwrap();
    let one = run("place {} --method heft --format json", &[&line]).json();
    assert_eq!(one["runtime"], answers[5]["runtime"]);
    assert_eq!(one["graph"], answers[5]["graph"]);
}
