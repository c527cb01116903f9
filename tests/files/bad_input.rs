//! Malformed input of every kind: exit code 2, a message with the place, and no output file.

use std::fs;

use crate::program::{Run, listing, run};

/// A file's name, its bytes, and the place that the message must name.
#[rustfmt::skip]
const BAD_FILES: &[(&str, &[u8], &str)] = &[
    ("a.mtx", b"", ":1:1: "),
    ("b.mtx", b"%%MatrixMarket matrix array real general\n", ":1:23: "),
    ("c.mtx", b"%%MatrixMarket matrix coordinate pattern general\n3 2 1\n1 2\n", ":2:3: "),
    ("d.mtx", b"%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n", ":3:3: "),
    ("e.mtx", b"%%MatrixMarket matrix coordinate pattern general\n3 3 9\n1 2\n", ":4:1: "),
    ("f.mtx", b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n", ":3:5: "),
    ("g.mtx", b"%%MatrixMarket matrix coordinate pattern general\n4294967294 4294967294 1\n1 2\n", ":2:1: "),
    ("a.el", b"1 2\n3\n", ":2:2: "),
    ("b.el", b"a b\nc \0\n", ":2:3: "),
    ("c.csv", b"1,,2\n", ":1:3: "),
    ("d.el", b"a b\nc \xff\xfe\n", ":2:3: "),
    ("a.clq", b"e 1 2\n", ":1:1: "),
    ("b.col", b"p edge 4 1\ne 1 9\n", ":2:5: "),
    ("c.mis", b"p edge 4 3\ne 1 2\n", ":3:1: "),
    ("d.clq", b"p edge 4000000000 1\ne 1 2\n", ":1:1: "),
    ("a.graph", b"3 1\n2\n1\n", ":4:1: "),
    ("b.graph", b"3 2\n%\n2\n1 3\n\n", ":5:1: "),
    ("c.metis", b"2 1\n2 x\n1\n", ":2:3: "),
    ("d.graph", b"2 2\n2\n1\n", ":1:3: "),
    ("a.gr", b"p td 3 2\n1 2\n", ":3:1: "),
    ("b.gr", b"3 1\n0 1\n", ":2:1: "),
    ("c.gr", b"3 1\n1 2 3\n", ":2:5: "),
    ("d.gr", b"p sp 3 2\n", ":1:3: "),
];

#[test]
fn malformed_graphs_are_placed_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, place) in BAD_FILES {
        let out = tempfile::tempdir().unwrap();
        let (file, cover) = (folder.path().join(name), out.path().join("cover.txt"));
        fs::write(&file, bytes).unwrap();
        let check = |run: Run| {
            let message = run.error(2);
            let expected = format!("error: {}{place}", file.display());
            assert!(message.starts_with(&expected), "{expected}: {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
            let rest = &message[expected.len()..];
            assert!(
                rest.contains("expected") || rest.contains("promises"),
                "{message}"
            );
            assert!(listing(out.path()).is_empty(), "{name} left a file");
        };
        check(run("solve --method policy {} --out {}", &[&file, &cover]));
        check(run(
            "solve --method policy {} --out {} --format json --ranks 2",
            &[&file, &cover],
        ));
        check(run(
            "solve --method policy {} --out {} --complement",
            &[&file, &cover],
        ));
        check(run("convert {} {}", &[&file, &out.path().join("g.mtx")]));
        check(run("info {}", &[&file]));
    }
}

#[test]
fn damaged_compression_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let cover = folder.path().join("cover.txt");
    for packing in ["gz", "zst"] {
        let file = folder.path().join(format!("g.mtx.{packing}"));
        run("generate ba:200:3 --out {}", &[&file]).ok();
        let bytes = fs::read(&file).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 0x10;
        for damaged in [&bytes[..bytes.len() / 2], &bytes[..10], &flipped] {
            fs::write(&file, damaged).unwrap();
            let message = run("solve --method policy {} --out {}", &[&file, &cover]).error(2);
            assert!(message.contains(&format!("g.mtx.{packing}")), "{message}");
            assert!(!cover.exists());
        }
    }
}

#[test]
fn output_that_cannot_be_written_fails_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("file.mtx");
    for words in [
        "solve --method policy karate --out {}",
        "score karate --out {}",
        "generate er:9:0.5 --out {}",
        "convert karate {}",
        "agent sweep cartpole-ppo --svg {}",
    ] {
        let message = run(words, &[&missing]).error(2);
        assert!(message.contains("its folder does not exist"), "{message}");
        let message = run(words, &[folder.path()]).error(2);
        assert!(message.contains("this is a folder"), "{message}");
    }
    assert!(listing(folder.path()).is_empty());
}

#[test]
fn two_files_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    let words = "embed karate --preset line --epochs 1 --out {} --svg {}";
    let message = run(words, &[&file, &file]).error(2);
    assert!(
        message.contains("two files cannot have one name"),
        "{message}"
    );
    assert!(!file.exists());
}

#[test]
fn no_rank_at_all_is_refused_whatever_the_method() {
    let message = run("solve karate --ranks 0", &[]).error(2);
    assert!(message.contains("expected 1 to 1024, found 0"), "{message}");
}

/// Else the file would be an edge list under another name.
#[test]
fn a_name_that_says_no_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.mtx.bz2", "a.xyz", "a.pbtxt"] {
        let path = folder.path().join(name);
        for words in ["convert karate {}", "generate er:10:0.5 --out {}"] {
            let message = run(words, &[&path]).error(2);
            assert!(message.contains("says no format of graphs"), "{message}");
        }
        assert!(!path.exists());
        run("convert karate {} --output-format mtx", &[&path]).ok();
    }
}

#[test]
fn nodes_that_a_header_promises_alone_are_taken_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("huge.gr");
    fs::write(&file, "p td 9000000 1\n1 2\n").unwrap();
    let message = run("info {}", &[&file]).error(2);
    assert!(message.contains("--max-nodes"), "{message}");
    let answer = run("info {} --max-nodes 9000000", &[&file]).ok();
    assert_eq!(answer.line("nodes"), "9,000,000");
}

#[test]
fn a_name_of_no_graph_is_refused_by_what_it_looks_like() {
    for graph in ["missing.mtx", "judo", "a/b:c"] {
        let message = run(&format!("solve --method policy {graph}"), &[]).error(2);
        let expected = format!("error: {graph}: there is no such file");
        assert!(message.starts_with(&expected), "{message}");
    }
    for graph in ["er:10:2", "er:10", "ba:5:9", "xx:1:2"] {
        let message = run(&format!("solve --method policy {graph}"), &[]).error(2);
        assert!(message.contains("as a generator: "), "{message}");
    }
}

#[test]
fn a_file_that_is_no_policy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (policy, cover) = (path("p.safetensors"), path("cover.txt"));
    run("train --steps 2 --run {}", &[&path("run")]).ok();
    let whole = fs::read(path("run").join("policy.safetensors")).unwrap();
    let mut not_finite = whole.clone();
    let end = not_finite.len();
    not_finite[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    for bytes in [
        &whole[..whole.len() - 4],
        &whole[..100],
        b"",
        b"policy",
        &not_finite,
    ] {
        fs::write(&policy, bytes).unwrap();
        let message = run(
            "solve --method policy karate --model {} --out {}",
            &[&policy, &cover],
        )
        .error(2);
        assert!(message.contains("p.safetensors"), "{message}");
        assert!(!cover.exists());
    }
    for words in [
        "solve --method policy karate --model {}",
        "place costgraph:1 --model {}",
    ] {
        for (name, why) in [("missing", "there is no such file"), (".", "a folder")] {
            let message = run(words, &[&path(name)]).error(2);
            assert!(message.contains(why), "{message}");
            assert!(message.contains("a policy file, or one of "), "{message}");
        }
    }
}

#[test]
fn bad_usage_is_told_what_is_right() {
    for (words, expected) in [
        ("solve", "<GRAPH>"),
        (
            "solve --method policy karate --nodes-per-step 0",
            "adaptive or a number",
        ),
        (
            "solve --method policy karate --nodes-per-step many",
            "adaptive or a number",
        ),
        (
            "solve --method policy karate --path fast",
            "free-first-layer",
        ),
        (
            "solve --method policy karate --preset best",
            "default or paper",
        ),
        ("solve --method policy karate --ranks 0", "1 to 1024"),
        ("solve --method policy karate --ranks 99999", "1 to 1024"),
        ("solve --method policy karate --ranks -1", "-1 is not in"),
        ("solve --method policy karate --timeout 0", "above 0"),
        (
            "solve --method policy karate --timeout soon",
            "10s, 5m or 500ms",
        ),
        (
            "solve --method policy karate --input-format xml",
            "matrix-market",
        ),
        ("solve --method policy karate --format yaml", "json"),
        ("solve --method policy karate --seed x", "--seed"),
        (
            "solve --method policy karate --device tpu",
            "host, emulated, cuda",
        ),
        ("solve --method policy karate -q -v", "cannot be used with"),
        ("generate er:10:0.5", "--out"),
        ("generate er:10 --out x.mtx", "er:n:p"),
        ("convert karate", "<OUT>"),
        ("train", "--run DIR"),
        ("train --run x --run y", "cannot be used multiple times"),
        (
            "solve karate --method greedy --threads 2",
            "--threads is for the search",
        ),
        (
            "solve karate --method exact --ranks 2",
            "--ranks is for the policy",
        ),
        (
            "solve karate --method search --model mvc-default",
            "--model is for the policy",
        ),
        ("train --run y --resume", "no complete checkpoint"),
        ("train --run y --steps -5", "a whole number of 0 or more"),
        ("train --run y --steps x", "expected a whole number"),
        ("train --run y --steps 99999999999999999999", "at most"),
        ("eval karate --exact -1s", "such as 10s, 5m or 500ms"),
        ("rgcn train x.nt --l2 x", "expected a number"),
        (
            "train --run y --resume --steps 3 --seed 2",
            "cannot be used with",
        ),
        ("sovle karate", "solve"),
    ] {
        let message = run(words, &[]).error(2);
        assert!(message.contains(expected), "{words}: {message}");
    }
}

#[test]
fn what_never_ends_or_never_fits_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("g.mtx");
    let too_large = run("generate ws:4294967294:2:0 --out {}", &[&out]);
    assert!(too_large.error(2).contains("more than this machine gives"));
    let too_large = run("solve --method policy er:4000000:0.9", &[]);
    assert!(too_large.error(2).contains("more than this machine gives"));
    assert!(listing(folder.path()).is_empty());
    if cfg!(unix) {
        assert!(
            run("info /dev/zero", &[])
                .error(2)
                .contains("this is a device")
        );
        let policy = run("solve --method policy karate --model /dev/zero", &[]);
        assert!(policy.error(2).contains("expected a policy file"));
    }
}

#[test]
fn the_input_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("g.el");
    fs::write(&graph, "1 2\n2 3\n").unwrap();
    for words in [
        "solve --method policy {} --out {}",
        "score {} --out {}",
        "convert {} {}",
        "solve --method policy karate --model {} --out {}",
        "solve --method policy karate --problem mis --model {} --out {}",
        "score karate --model {} --out {}",
    ] {
        let message = run(words, &[&graph, &graph]).error(2);
        assert!(message.contains("this is the input"), "{words}: {message}");
    }
    assert_eq!(fs::read_to_string(&graph).unwrap(), "1 2\n2 3\n");
}

#[test]
fn numbers_that_are_none_are_refused_in_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let (config, out) = (folder.path().join("c.toml"), folder.path().join("run"));
    for line in ["huber_delta = nan", "gamma = inf"] {
        fs::write(&config, line).unwrap();
        let message = run("train --config {} --run {}", &[&config, &out]).error(2);
        assert!(message.contains("expected a finite number"), "{message}");
        assert!(!out.exists());
    }
}

/// A command with a file of settings, that file, and what the message has behind its name.
#[rustfmt::skip]
const REFUSED_SETTINGS: &[(&str, &str, &str)] = &[
    ("train --run {} --config {}", "steps = 5\nbatch_size = 0\n", ":2: training settings: `batch_size`: expected at least 1"),
    ("rgcn train ba-rel:60:2:3 --run {} --config {}", "epochs = 1\n\ndropout = 7\n", ":3: dropout = 7: expected"),
    ("embed karate --out {} --config {}", "dim = 0\nepochs = 1\n", ":1: dim = 0: expected"),
    ("place train --run {} --config {}", "steps = 5\nbatch_graphs = 0\n", ":2: batch_graphs = 0: expected"),
];

#[test]
fn a_setting_that_a_check_refuses_has_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    for (words, text, expected) in REFUSED_SETTINGS {
        fs::write(&config, text).unwrap();
        let out = tempfile::tempdir().unwrap();
        let message = run(words, &[&out.path().join("out"), &config]).error(2);
        let expected = format!("error: {}{expected}", config.display());
        assert!(message.starts_with(&expected), "{message}");
        assert!(listing(out.path()).is_empty(), "{words} left a file");
    }
}

/// Flags that say nothing about what is there, and names that are nearly right.
#[test]
fn flags_and_names_that_are_nearly_right_are_answered() {
    for (words, expected) in [
        (
            "solve karate --ranks 100000",
            "--ranks: expected 1 to 1024, found 100000",
        ),
        (
            "solve karate --index 2",
            "--index 2: karate is no file of several graphs",
        ),
        ("solve karate --json", "its name is --format json"),
        ("solve karate --samples 3", "there is no flag '--samples'"),
        (
            "solve karate --node-weights none",
            "none: there is no such file",
        ),
        ("rgcn info none.nt", "none.nt: there is no such file"),
        ("place none.jsonl", "none.jsonl: there is no such file"),
    ] {
        let message = run(words, &[]).error(2);
        assert!(message.contains(expected), "{words}: {message}");
    }
}
