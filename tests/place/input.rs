//! `shardgraph place` with malformed files and flags: exit code 2, a message with the place and the reason, no output file.

use std::fs;
use std::io::Write;

use crate::place::plans::fixture;
use crate::program::{Run, listing, run};

/// A file's name, its bytes, what follows the name in the message, and a reason that it must give.
#[rustfmt::skip]
const BAD_FILES: &[(&str, &[u8], &str, &str)] = &[
    ("a.pbtxt", b"node { id: one }", ":1:12: ", "expected an integer"),
    ("b.pbtxt", b"node { name: 'a' control_input: 1 }\nnode { name: 'b' id: 1 control_input: 0 }", ": ", "cycle: `a` -> `b` -> `a`"),
    ("c.pbtxt", b"node { name: 'a' input_info { preceding_node: 4 } }", ":1:1: ", "no node has that id"),
    ("d.pbtxt", b"node {\n name: 'a' compute_cost: -5 }", ":1:1: ", "compute_cost of node `a` is -5"),
    ("e.pbtxt", b"node { name: 'a' }\nnode { name: 'b' }", ":2:1: ", "ids must be unique"),
    ("f.pbtxt", b"node { name: 'a' }\nnode { name: 'a' id: 1 }", ": ", "names must be unique"),
    ("g.pbtxt", b"# nothing\n", ": ", "no ops"),
    ("a.pb", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", ": byte 0: ", "cut short"),
    ("b.pb", b"\x0a\x05\x0a\x01a", ": byte 0: ", "only 3 follow"),
    ("a.jsonl", b"", ": ", "holds no graph"),
    ("b.jsonl", b"\n{\"name\": 1}\n", ":2:", "expected a string"),
    ("c.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",-1,0,0]],\"tensors\":[]}", ":1: ", "cost of op 0"),
    ("d.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",NaN,0,0]],\"tensors\":[]}", ":1:", "expected value"),
    ("e.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[[3,8,-1,[0]]]}", ":1: ", "op 3, which does not exist"),
    ("f.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[[0,8,-1,[7]]]}", ":1: ", "op 7, which does not exist"),
    ("g.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[[0,8,-1,[0]]]}", ":1: ", "cycle"),
    ("h.jsonl", b"{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[[0,-8,-1,[]]]}", ":1: ", "size of tensor 0"),
    ("i.jsonl", b"{\"name\":\"x\",\"ops\":[],\"tensors\":[]}", ":1: ", "no ops"),
    ("a.onnx", b"\x08\x07\x3a\xff", ": ", "a.onnx"),
    ("a.json", b"{\"nodes\": [], \"edges\": [", ":1:", "EOF"),
    ("a.txt", b"node1 -- Input -- forward_compute_time=fast\n", ":1", "forward_compute_time"),
    ("b.txt", b"1 2\n2 3\n", ": ", "none of the formats"),
    ("a.pb.gz", b"not packed", ": ", "promises gzip"),
];

/// A command line, and what its message must say.
#[rustfmt::skip]
const BAD_FLAGS: &[(&str, &str)] = &[
    ("place", "<GRAPH>"),
    ("place missing.pb", "there is no such file"),
    ("place karate", "such as costgraph:1"),
    ("place costgraph:0", "costgraph:N:MIN:MAX"),
    ("place costgraph:2", "--index, from 0 to 1"),
    ("place costgraph:5:1:1 --all", "fewer than 5 topologies: ask for fewer graphs"),
    ("place costgraph:2 --index 2", "there is no graph 2; there are 2"),
    ("place costgraph:2 --index 0 --all", "cannot be used with"),
    ("place costgraph:1 --index -1", "invalid value '-1'"),
    ("place costgraph:1 --devices 0", "--devices 0: no devices; from 1 to 64"),
    ("place costgraph:1 --devices 65", "too many devices"),
    ("place costgraph:1 --device-memory much", "GiB"),
    ("place costgraph:1 --device-memory -1", "invalid value '-1'"),
    ("place costgraph:1 --bandwidth 0", "above 0"),
    ("place costgraph:1 --bandwidth nan", "above 0"),
    ("place costgraph:1 --latency 5min", "10s, 5m or 500ms"),
    ("place costgraph:1 --latency 4611686018427387904ns", "2^62"),
    ("place costgraph:1 --objective speed", "runtime"),
    ("place costgraph:1 --method best", "expected portfolio"),
    ("place costgraph:1 --links fast", "--links fast: expected a file, or one of ethernet100, pcie4"),
    ("place costgraph:1 --device-spec abacus", "--device-spec abacus: expected a file, or one of v100"),
    ("place costgraph:1 --decoder best", "paper, flush"),
    ("place costgraph:1 --evaluations 0", "1.."),
    ("place costgraph:1 --threads 0", "1..=1024"),
    ("place costgraph:1 --time-limit 0", "above 0"),
    ("place costgraph:1 --control-edges never", "precedence"),
    ("place costgraph:1 --pin first", "expected NAME=DEVICE"),
    ("place costgraph:1 --pin layer1=0", "no module or op has the name `layer1`; its ops have no modules"),
    ("place costgraph:1 --pin layer1=2", "no such device; they are 0..2"),
    ("place costgraph:1 --together layer1", "no module or op has the name `layer1`"),
    ("place costgraph:1 --input-format xml", "cost-graph-text"),
    ("place costgraph:1 --input-format onnx", "--input-format is about files"),
    ("place costgraph:1 --onnx-dim batch=2", "--onnx-dim is about ONNX models"),
    ("place costgraph:1 --onnx-dim batch", "NAME=SIZE"),
    ("place costgraph:1 --format yaml", "json"),
    ("place costgraph:1 --objective throughput --compare", "--compare says nothing about --objective throughput"),
    ("place costgraph:1 --objective throughput --population 5", "--population says nothing about --objective throughput"),
    ("place costgraph:1 --objective throughput --svg x.svg", "--svg shows one pass"),
    ("place costgraph:1 --costs missing.csv", "missing.csv"),
    ("place costgraph:2 --costs x.csv --all", "cannot be used with"),
    // Flags of another method.
    ("place costgraph:1 --method heft --evaluations 5", "--evaluations says nothing about --method heft"),
    ("place costgraph:1 --method heft --time-limit 5", "--time-limit says nothing"),
    ("place costgraph:1 --method greedy-memory --decoder list", "--decoder says nothing"),
    ("place costgraph:1 --method random --population 5", "--population says nothing"),
    ("place costgraph:1 --method tuned-brkga --rho 0.6", "--rho says nothing"),
    ("place costgraph:1 --method tuned-brkga --migrants 3", "--migrants says nothing"),
    ("place costgraph:1 --method random --threads 2", "--threads says nothing about --method random"),
    ("place costgraph:1 --method local-search --threads 2", "--threads says nothing"),
    ("place costgraph:1 --method heft --threads 1", "--threads says nothing"),
    ("place costgraph:1 --migration-generations 5", "add --populations"),
    ("place costgraph:1 --populations 1 --migrants 5", "add --populations"),
    ("place costgraph:1 --populations 2 --migrants 5", "without --migration-generations"),
    ("place costgraph:1 --greedy-runs 5", "--greedy-runs says nothing about --method portfolio"),
    ("place costgraph:1 --compare --method heft", "leave out --method"),
    ("place costgraph:1 --compare --decoder list", "leave out --decoder"),
    // The genetic algorithm's own rules, before a graph is read.
    ("place missing.pb --rho 0.2", "error: --rho = 0.2: expected a number"),
    ("place missing.pb --population 1", "error: --population = 1: expected at least 2"),
    ("place missing.pb --elites 100 --compare", "error: --elites = 100: expected fewer"),
    ("place missing.pb --mutants 81", "error: --mutants = 81: expected at most"),
    ("place missing.pb --populations 1001", "error: --populations = 1001: expected from 1"),
    ("place missing.pb --populations 5 --migration-generations 9 --migrants 21", "error: --migrants = 21: expected at most"),
    ("place costgraph:1 --method brkga --population 4000000000 --evaluations 4000000000", "more than this machine gives"),
    ("generate costgraph:2 --out x.pbtxt", "holds one graph"),
    ("generate costgraph:1 --out x.mtx", ".jsonl"),
    ("generate costgraph:1 --out x.jsonl --output-format metis", "leave it out"),
    ("generate costgraph:x --out x.jsonl", "costgraph:N"),
];

/// A run that must end with code 2 and a message in one line, and leave nothing in a folder.
fn refused(run: Run, out: &std::path::Path, about: &str) -> String {
    let message = run.error(2);
    assert_eq!(message.lines().count(), 1, "{about}: {message}");
    assert!(listing(out).is_empty(), "{about} left a file");
    message
}

#[test]
fn malformed_graphs_are_placed_in_the_message_and_leave_no_file() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| out.path().join(name);
    let files = [path("t.json"), path("c.svg"), path("p.json")];
    for (name, bytes, place, reason) in BAD_FILES {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        for flags in ["", "--compare", "--format json --objective memory"] {
            let words = format!("place {{}} {flags} --trace {{}} --svg {{}} --plan {{}}");
            let run = run(&words, &[&file, &files[0], &files[1], &files[2]]);
            let message = refused(run, out.path(), name);
            let expected = format!("error: {}{place}", file.display());
            assert!(message.starts_with(&expected), "{expected}: {message}");
            assert!(message.contains(reason), "{reason}: {message}");
        }
        let message = run("place {} --all", &[&file]).error(2);
        assert!(message.contains(reason), "{reason}: {message}");
    }
}

#[test]
fn a_graph_behind_good_ones_is_refused_before_anything_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.jsonl");
    let good = "{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[]}\n";
    fs::write(&file, format!("{good}{good}{{}}\n")).unwrap();
    let message = run("place {} --all", &[&file]).error(2);
    assert!(message.contains("g.jsonl:3:"), "{message}");
    run("place {} --index 1", &[&file]).ok();
    let message = run("place {} --index 2", &[&file]).error(2);
    assert!(message.contains("g.jsonl:3:"), "{message}");
    let message = run("place {} --index 3", &[&file]).error(2);
    assert!(
        message.contains("there is no graph 3; the file holds 3"),
        "{message}"
    );
    let message = run("place {}", &[&file]).error(2);
    assert!(message.contains("--index, from 0 to 2"), "{message}");
}

/// Line ends and a byte order mark of Windows change nothing; a mistyped name is answered with the nearest one.
#[test]
fn files_of_windows_are_read_as_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let good = "{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[]}\r\n";
    let text = "node { name: 'a' compute_cost: 4 }\r\n";
    for (name, content) in [("good.jsonl", good), ("text.pbtxt", text)] {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let plain = run("place {} --format json", &[&file]).json();
        fs::write(&file, format!("\u{feff}{content}")).unwrap();
        let marked = run("place {} --format json", &[&file]).json();
        assert_eq!(
            (&plain["runtime"], &plain["ops"]),
            (&marked["runtime"], &marked["ops"])
        );
    }
    let mistyped = folder.path().join("goods.jsonl");
    let message = run("place {}", &[&mistyped]).error(2);
    assert!(
        message.contains("there is no such file; did you mean `"),
        "{message}"
    );
    assert!(message.contains("good.jsonl"), "{message}");
}

#[test]
fn what_unpacks_to_much_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bomb.pb.gz");
    let packed = fs::File::create(&file).unwrap();
    let mut packer = flate2::write::GzEncoder::new(packed, flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..80 {
        packer.write_all(&zeros).unwrap();
    }
    packer.finish().unwrap();
    let message = run("place {}", &[&file]).error(2);
    assert!(
        message.contains("bytes come out for each byte"),
        "{message}"
    );
    if cfg!(unix) {
        let message = run("place /dev/zero", &[]).error(2);
        assert!(message.contains("this is a device"), "{message}");
    }
}

#[test]
fn bad_flags_are_told_what_is_right() {
    for (words, expected) in BAD_FLAGS {
        let message = run(words, &[]).error(2);
        assert!(message.contains(expected), "{words}: {message}");
    }
    run(
        "place costgraph:1 --method greedy-memory --time-limit 60",
        &[],
    )
    .ok();
    let file = fixture("tiny.pbtxt");
    for (words, expected) in [
        ("place {} --weights ops", "--weights is about ONNX models"),
        (
            "place {} --index 1",
            "there is no graph 1; the file holds 1",
        ),
        ("place {} --input-format onnx", "tiny.pbtxt"),
    ] {
        let message = run(words, &[&file]).error(2);
        assert!(message.contains(expected), "{words}: {message}");
    }
}

#[test]
fn outputs_that_cannot_be_written_fail_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("file.json");
    let good = folder.path().join("good.svg");
    // So long a search would run into the test's own deadline.
    let search = "place costgraph:1 --evaluations 1000000000000";
    for flag in ["--trace", "--svg", "--plan"] {
        let words = format!("{search} {flag} {{}}");
        let message = run(&words, &[&missing]).error(2);
        assert!(message.contains("its folder does not exist"), "{message}");
        let message = run(&words, &[folder.path()]).error(2);
        assert!(message.contains("this is a folder"), "{message}");
        let message = run(&format!("{search} --all {flag} {{}}"), &[&good]).error(2);
        assert!(message.contains("instead of --all"), "{message}");
    }
    let words = format!("{search} --trace {{}} --plan {{}}");
    let message = run(&words, &[&good, &good]).error(2);
    assert!(
        message.contains("two files cannot have one name"),
        "{message}"
    );
    let name = folder.path().file_name().unwrap();
    let other_spelling = folder.path().join("..").join(name).join("good.svg");
    let message = run(&words, &[&good, &other_spelling]).error(2);
    assert!(message.contains("is the same file"), "{message}");
    if cfg!(target_os = "linux") {
        // Nobody, not even root, makes files there.
        let message = run(&format!("{search} --plan /proc/plan.json"), &[]).error(2);
        assert!(
            message.contains("/proc/plan.json: cannot write"),
            "{message}"
        );
    }
    assert!(listing(folder.path()).is_empty());
    let graph = folder.path().join("g.jsonl");
    run("generate costgraph:1 --out {}", &[&graph]).ok();
    let before = fs::read(&graph).unwrap();
    let message = run("place {} --plan {}", &[&graph, &graph]).error(2);
    assert!(message.contains("this is the input"), "{message}");
    assert_eq!(fs::read(&graph).unwrap(), before);
}

#[test]
fn a_write_that_fails_leaves_no_file_and_does_not_cost_the_answer() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        println!("SKIPPED: a full disk under a plan (no /dev/full here)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart.svg");
    for (mode, expected) in [("", "\ngap "), ("--compare", "\ngreedy-memory ")] {
        let words = format!("place costgraph:1 {mode} --evaluations 50 --svg {{}} --plan {{}}");
        let run = run(&words, &[&chart, full]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.starts_with("error: /dev/full: cannot write"));
        assert!(run.stdout.contains(expected), "{run:?}");
        assert!(listing(folder.path()).is_empty());
    }
}

/// Names end no line and reach no terminal as they are.
#[test]
fn names_forge_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.jsonl");
    let write = |tensors: &str| {
        let name = r#""\u001b[31mRED\nverified no\r""#;
        let ops = format!(r#"[["op",{name},1,0,0]]"#);
        let head = format!(r#""name":{name},"names":[{name}]"#);
        let graph = format!(r#"{{{head},"ops":{ops},"tensors":[{tensors}]}}"#);
        fs::write(&file, graph).unwrap();
    };
    write("");
    for flags in ["", "--compare --evaluations 20"] {
        let answer = run(&format!("place {{}} {flags}"), &[&file]).ok().stdout;
        let is_name = |line: &str| {
            let value = line.strip_prefix("graph").unwrap_or_default();
            value.trim_start() == r"\u{1b}[31mRED\nverified no\r"
        };
        assert!(answer.lines().any(is_name), "{answer}");
        assert!(!answer.contains(['\u{1b}', '\r']), "{answer:?}");
        assert!(!answer.contains("\nverified no"), "{answer}");
    }
    // Op 0 consumes what it makes: a cycle, whose message has the op's name. Memory that is too small: the graph's.
    write(r#"[0,8,-1,[0]]"#);
    let cycle = run("place {}", &[&file]).error(2);
    write(r#"[0,8,-1,[]]"#);
    let unfit = run("place {} --device-memory 1B", &[&file]).stderr;
    for message in [cycle, unfit] {
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains(r"\u{1b}[31mRED\nverified no"), "{message}");
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let name = |bytes| folder.path().join(std::ffi::OsStr::from_bytes(bytes));
    let graph = name(b"g\xff.jsonl");
    if fs::write(
        &graph,
        "{\"name\":\"x\",\"ops\":[[\"op\",\"a\",1,0,0]],\"tensors\":[]}",
    )
    .is_err()
    {
        println!("SKIPPED: names that are no text (this file system has none)");
        return;
    }
    run("place {} --plan {}", &[&graph, &name(b"p\xff.json")]).ok();
    let message = run("place {}", &[&name(b"\xff")]).error(2);
    assert!(message.contains("there is no such file"), "{message}");
    let edges = name(b"e\xff.txt");
    fs::write(&edges, "0 1\n").unwrap();
    run("info {}", &[&edges]).ok();
    let message = run("info {}", &[&name(b"\xff")]).error(2);
    assert!(message.contains("there is no such file"), "{message}");
}
