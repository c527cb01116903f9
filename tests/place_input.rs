//! `shardgraph place` with malformed files and flags: exit code 2, a message with the place and the reason, no output file.

use std::fs;
use std::io::Write;

use crate::place::fixture;
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
    ("a.pb.gz", b"not packed", ": ", "promises compression"),
];

/// A command line, and what its message must say.
#[rustfmt::skip]
const BAD_FLAGS: &[(&str, &str)] = &[
    ("place", "<GRAPH>"),
    ("place missing.pb", "there is no such file"),
    ("place karate", "costgraph:1 makes one"),
    ("place costgraph:0", "costgraph:N:MIN:MAX"),
    ("place costgraph:2", "--index, from 0 to 1"),
    ("place costgraph:2 --index 2", "there is no graph 2; there are 2"),
    ("place costgraph:2 --index 0 --all", "cannot be used with"),
    ("place costgraph:1 --index -1", "unexpected argument"),
    ("place costgraph:1 --devices 0", "--devices 0: no devices; from 1 to 64"),
    ("place costgraph:1 --devices 65", "too many devices"),
    ("place costgraph:1 --memory much", "GiB"),
    ("place costgraph:1 --memory -1", "unexpected argument"),
    ("place costgraph:1 --bandwidth 0", "above 0"),
    ("place costgraph:1 --bandwidth nan", "above 0"),
    ("place costgraph:1 --latency 5", "ns, us, ms or s"),
    ("place costgraph:1 --latency 4611686018427387904ns", "2^62"),
    ("place costgraph:1 --objective speed", "runtime"),
    ("place costgraph:1 --method best", "expected one of brkga"),
    ("place costgraph:1 --decoder best", "paper, flush"),
    ("place costgraph:1 --evaluations 0", "1.."),
    ("place costgraph:1 --threads 0", "1..=1024"),
    ("place costgraph:1 --deadline 0", "above 0"),
    ("place costgraph:1 --control-edges never", "precedence"),
    ("place costgraph:1 --pin first", "largest"),
    ("place costgraph:1 --input-format xml", "cost-graph-text"),
    ("place costgraph:1 --input-format onnx", "--input-format is about files"),
    ("place costgraph:1 --dim batch=2", "--dim is about ONNX models"),
    ("place costgraph:1 --dim batch", "NAME=SIZE"),
    ("place costgraph:1 --format yaml", "json"),
    // Flags of another method.
    ("place costgraph:1 --method heft --evaluations 5", "--evaluations says nothing about --method heft"),
    ("place costgraph:1 --method heft --deadline 5", "--deadline says nothing"),
    ("place costgraph:1 --method greedy-memory --decoder list", "--decoder says nothing"),
    ("place costgraph:1 --method random --population 5", "--population says nothing"),
    ("place costgraph:1 --method tuned-brkga --rho 0.6", "--rho says nothing"),
    ("place costgraph:1 --greedy-runs 5", "--greedy-runs says nothing about --method seeded-brkga"),
    ("place costgraph:1 --compare --method heft", "leave out --method"),
    ("place costgraph:1 --compare --decoder list", "leave out --decoder"),
    // The genetic algorithm's own rules.
    ("place costgraph:1 --rho 0.2", "rho = 0.2"),
    ("place costgraph:1 --population 1", "population = 1"),
    ("place costgraph:1 --elites 100", "elites = 100"),
    ("place costgraph:1 --population 4000000000 --evaluations 4000000000", "more than this machine gives"),
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
    assert!(listing(folder.path()).is_empty());
    let graph = folder.path().join("g.jsonl");
    run("generate costgraph:1 --out {}", &[&graph]).ok();
    let before = fs::read(&graph).unwrap();
    let message = run("place {} --plan {}", &[&graph, &graph]).error(2);
    assert!(message.contains("this is the input"), "{message}");
    assert_eq!(fs::read(&graph).unwrap(), before);
    if std::path::Path::new("/dev/full").exists() {
        let full = std::path::Path::new("/dev/full");
        let message = run("place {} --trace {} --plan {}", &[&graph, &good, full]).error(2);
        assert!(message.contains("/dev/full: cannot write"), "{message}");
        assert_eq!(listing(folder.path()), ["g.jsonl"]);
    } else {
        println!("SKIPPED: a full disk under a plan (no /dev/full here)");
    }
}
