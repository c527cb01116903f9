//! `shardgraph place`: plans of small graphs and of fixtures, looked at by other code than the program's own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::plan_opinion::{Plan, check_svg, check_trace};
use crate::program::{Run, listing, opened, run};

/// A fixture of the importers' tests.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../costgraph-io/tests/corpus");
    corpus.join(name)
}

/// Places a graph with all three files, checks each, and returns the answer.
pub(crate) fn place(graph: &Path, flags: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let files = [path("trace.json"), path("chart.svg"), path("plan.json")];
    let words =
        format!("place {{}} {flags} --quiet --format json --trace {{}} --svg {{}} --plan {{}}");
    let answer = run(&words, &[graph, &files[0], &files[1], &files[2]]).json();
    assert_eq!(answer["verified"], true);
    let [trace, svg, plan] = files.map(|file| fs::read_to_string(file).unwrap());
    let plan = Plan::read(&plan);
    plan.check_lanes(flags.contains("--async-transfers"));
    assert_eq!(answer["runtime"], plan.runtime, "{flags}");
    assert_eq!(answer["peak_bytes"], plan.peak_bytes);
    assert_eq!(answer["ops"], plan.ops.len());
    check_trace(&trace, &plan, flags.contains("--async-transfers"));
    check_svg(&svg, &plan);
    let value = match answer["objective"].as_str().unwrap() {
        "runtime" => plan.runtime,
        _ => plan.peak_bytes,
    };
    let bound = answer["lower_bound"].as_u64().unwrap();
    assert!(bound <= value);
    if bound > 0 {
        let gap = value as f64 / bound as f64 - 1.0;
        assert!((answer["gap"].as_f64().unwrap() - gap).abs() < 1e-12);
    }
    answer
}

#[test]
fn fixtures_of_every_format() {
    for (name, flags) in [
        ("tiny.pbtxt", ""),
        ("tiny.jsonl", "--index 0"),
        ("tiny.jsonl", "--index 1"),
        ("tiny.msr.json", ""),
        ("tiny.pipedream.txt", "--bandwidth 12 --latency 1us"),
        (
            "light_squeezenet.onnx",
            "--evaluations 300 --weights persistent",
        ),
        ("light_zfnet512.onnx", "--evaluations 300 --devices 3"),
        ("VGG16_fwd.pb.gz", "--evaluations 300 --contract"),
        ("g0018.pbtxt", "--evaluations 300"),
    ] {
        for objective in ["runtime", "memory"] {
            let flags = format!("{flags} --objective {objective}");
            let answer = place(&fixture(name), &flags);
            assert_eq!(answer["objective"], objective);
        }
    }
}

#[test]
fn every_method_decoder_and_model() {
    let graph = fixture("g0018.pbtxt");
    for method in [
        "tuned-brkga",
        "random",
        "local-search",
        "heft",
        "partition-dfs",
        "xla-list",
        "xla-post-order",
        "greedy-memory",
        "noisy-greedy-memory",
    ] {
        let answer = place(&graph, &format!("--method {method}"));
        assert_eq!(answer["method"], method);
    }
    for decoder in ["paper", "flush", "time-aware", "time-aware-flush", "list"] {
        for model in [
            "",
            "--bandwidth 1 --latency 20ns",
            "--bandwidth 1 --async-transfers",
            "--control-edges block --pin none --keep-outputs",
        ] {
            let flags = format!("--method brkga --evaluations 200 --decoder {decoder} {model}");
            let answer = place(&graph, &flags);
            assert_eq!(answer["decoder"], decoder);
            assert_eq!(answer["evaluations"], 200);
        }
    }
}

/// Two ops of 10 and 20 ns, the second behind the first, with 100 bytes between them.
const PAIR: &str =
    r#"{"name":"pair","ops":[["op","a",10,0,0],["op","b",20,0,7]],"tensors":[[0,100,-1,[1]]]}"#;

#[test]
fn known_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.jsonl");
    fs::write(&file, PAIR).unwrap();
    let value = |flags: &str, key: &str| place(&file, flags)[key].as_u64().unwrap();
    assert_eq!(value("", "runtime"), 30);
    assert_eq!(value("", "peak_bytes"), 107);
    assert_eq!(value("", "lower_bound"), 30);
    assert_eq!(value("--objective memory", "lower_bound"), 107);
    assert_eq!(value("--devices 1", "runtime"), 30);
    // Four ops of 5 ns that need nothing of each other.
    fs::write(
        &file,
        r#"{"name":"four","ops":[["op","a",5,0,0],["op","b",5,0,0],["op","c",5,0,0],["op","d",5,0,0]],"tensors":[]}"#,
    )
    .unwrap();
    for (devices, expected) in [(1, 20), (2, 10), (3, 10), (4, 5), (64, 5)] {
        assert_eq!(value(&format!("--devices {devices}"), "runtime"), expected);
    }
}

/// The links matter: over fast ones the branches of a fork part, over a slow one they stay together.
#[test]
fn links_change_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fork.jsonl");
    let fork = r#"{"name":"fork","ops":[["op","a",10,0,0],["op","b",100,0,0],["op","c",100,0,0]],"tensors":[[0,1000,-1,[1,2]]]}"#;
    fs::write(&file, fork).unwrap();
    let runtime = |flags: &str| {
        let answer = place(&file, &format!("--links unlimited {flags} --decoder paper"));
        answer["runtime"].as_u64().unwrap()
    };
    assert_eq!(runtime(""), 110);
    // 1000 bytes at 20 GB/s are 50 ns.
    assert_eq!(runtime("--bandwidth 20"), 160);
    assert_eq!(runtime("--bandwidth 20 --latency 7ns"), 167);
    assert_eq!(runtime("--bandwidth 20 --async-transfers"), 160);
    assert_eq!(runtime("--bandwidth 5"), 210);
}

/// Each flag of the model on a graph where it makes a difference that can be worked out by hand.
#[test]
fn the_models_flags_mean_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.jsonl");
    let answer = |graph: &str, flags: &str| {
        fs::write(&file, graph).unwrap();
        place(
            &file,
            &format!("{flags} --links unlimited --method brkga --decoder paper"),
        )
    };
    // Two outputs that nobody consumes, of ops with 32 persistent bytes each.
    let outputs = r#"{"name":"outputs","ops":[["op","a",1,0,0],["op","b",1,0,0]],"tensors":[[0,100,-1,[]],[1,50,-1,[]]],"persistent":[32,32]}"#;
    let peak = |flags: &str| answer(outputs, &format!("--devices 1 {flags}"))["peak_bytes"].clone();
    assert_eq!(peak(""), 64 + 100);
    assert_eq!(peak("--ignore-persistent"), 100);
    assert_eq!(peak("--keep-outputs"), 64 + 150);
    // b and c wait for a by control dependencies, d for nothing: best are a, b here and d, c there. Where control dependencies
    // block, either d is late, or b.
    let control = r#"{"name":"control","ops":[["op","a",10,0,0],["op","b",110,0,0],["op","c",100,0,0],["op","d",60,0,0]],"tensors":[[0,0,-1,[1,2]]],"control":[0]}"#;
    assert_eq!(answer(control, "")["runtime"], 160);
    assert_eq!(answer(control, "--control-edges block")["runtime"], 170);
}

/// The largest op runs on device 0 unless told otherwise.
#[test]
fn the_largest_op_is_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let (file, plan) = (
        folder.path().join("g.jsonl"),
        folder.path().join("plan.json"),
    );
    let ops =
        r#"{"name":"g","ops":[["op","a",5,0,0],["op","b",9,0,0],["op","c",7,0,0]],"tensors":[]}"#;
    fs::write(&file, ops).unwrap();
    let devices = |pin: &str| {
        let device = |seed: u32| {
            let words = format!(
                "place {{}} --method random --decoder paper --evaluations 20 --seed {seed} {pin} --plan {{}}"
            );
            run(&words, &[&file, &plan]).ok();
            let plan = Plan::read(&fs::read_to_string(&plan).unwrap());
            plan.device_of(1)
        };
        (0..12)
            .map(device)
            .collect::<std::collections::BTreeSet<usize>>()
    };
    assert_eq!(devices(""), [0].into());
    assert_eq!(devices("--pin none"), [0, 1].into());
}

/// Names that mean something in JSON or XML, or have no place in them.
#[test]
fn names_do_not_break_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("g.jsonl");
    let names = [
        "a<b>&amp;",
        "\"q\" 'p'",
        "\u{1}\u{7f}\u{ffff}",
        "</svg>]}\n",
    ];
    let graph = serde_json::json!({
        "name": "<&\u{2}>", "names": names, "tensors": [[0, 8, -1, [1, 2]]],
        "ops": names.map(|name| ("op", name, 1000, 0, 0)),
    });
    fs::write(&file, graph.to_string()).unwrap();
    let answer = place(&file, "--method brkga --decoder paper");
    assert_eq!(answer["graph"], "<&\u{2}>");
}

/// Plans of generated graphs against a replay that is written from the definitions, on the graph as its file has it.
#[test]
fn generated_graphs_against_a_second_opinion() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (graphs, plan) = (path("g.jsonl"), path("plan.json"));
    run("generate costgraph:6 --seed 3 --out {}", &[&graphs]).ok();
    let text = fs::read_to_string(&graphs).unwrap();
    for (index, line) in text.lines().enumerate() {
        for flags in [
            "--decoder paper",
            "--objective memory",
            "--devices 3 --decoder list",
        ] {
            let words = format!("place {{}} --index {index} {flags} --evaluations 300 --plan {{}}");
            run(&words, &[&graphs, &plan]).ok();
            let plan = Plan::read(&fs::read_to_string(&plan).unwrap());
            plan.check_against(line);
        }
    }
}

#[test]
fn a_generated_graph_is_the_same_by_name_and_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (text, lines, plan) = (path("g.pbtxt"), path("g.jsonl"), path("plan.json"));
    let flags = "--seed 5 --evaluations 200 --plan {}";
    run("generate costgraph:1 --seed 5 --out {}", &[&text]).ok();
    run("generate costgraph:1 --seed 5 --out {}", &[&lines]).ok();
    run(&format!("place costgraph:1 {flags}"), &[&plan]).ok();
    let expected = Plan::read(&fs::read_to_string(&plan).unwrap());
    for file in [&text, &lines] {
        run(&format!("place {{}} {flags}"), &[file, &plan]).ok();
        let found = Plan::read(&fs::read_to_string(&plan).unwrap());
        assert_eq!(found, expected, "{}", file.display());
    }
    // More graphs begin with the same ones.
    run(&format!("place costgraph:3 --index 0 {flags}"), &[&plan]).ok();
    assert_eq!(Plan::read(&fs::read_to_string(&plan).unwrap()), expected);
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let files = [path("t.json"), path("c.svg"), path("p.json")];
    for flags in [
        "--decoder paper",
        "--decoder list --device-memory 100MB",
        "--objective memory",
        "--method brkga --populations 3 --population 40 --elites 8 --migration-generations 2 --migrants 3",
    ] {
        let mut results = Vec::new();
        for (threads, seed) in [(1, 7), (2, 7), (5, 7), (1, 8)] {
            let words = format!(
                "place costgraph:9 --index 4 {flags} --evaluations 500 --threads {threads} --seed {seed} --trace {{}} --svg {{}} --plan {{}}"
            );
            run(&words, &[&files[0], &files[1], &files[2]]).ok();
            results.push(files.each_ref().map(|file| fs::read(file).unwrap()));
        }
        assert_eq!(results[0], results[1], "{flags}");
        assert_eq!(results[0], results[2], "{flags}");
        assert_ne!(results[0], results[3], "{flags}");
    }
}

/// What does not depend on the clock.
fn timeless(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let object = answer.as_object_mut().unwrap();
    object.retain(|key, _| !key.contains("seconds") && key != "evals_per_s");
    answer
}

/// Plans that an answer calls verified.
fn n_verified(text: &str) -> usize {
    let words = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<&str>>());
    words
        .filter(|words| words[..] == ["verified", "yes"])
        .count()
}

#[test]
fn all_graphs_are_those_of_every_index() {
    let flags = "--evaluations 200 --format json";
    let all = run(&format!("place costgraph:4 --all {flags}"), &[]).ok();
    let lines: Vec<Value> = all.stdout.lines().map(opened).collect();
    assert_eq!(lines.len(), 4);
    for (index, line) in lines.iter().enumerate() {
        let one = run(&format!("place costgraph:4 --index {index} {flags}"), &[]).json();
        assert_eq!(timeless(line), timeless(&one));
        assert_eq!(line["index"], index);
    }
    let text = run("place costgraph:3 --all --evaluations 10", &[]).ok();
    assert_eq!(n_verified(&text.stdout), 3);
    assert_eq!(text.stdout.matches("\n\n").count(), 3, "{text:?}");
}

#[test]
fn a_comparison_has_every_method_and_its_best_plan() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    for objective in ["runtime", "memory"] {
        let words = format!(
            "place {{}} --compare --evaluations 200 --objective {objective} --format json --plan {{}}"
        );
        let table = run(&words, &[&fixture("g0018.pbtxt"), &plan]).json();
        let rows = table["rows"].as_array().unwrap();
        let key = if objective == "runtime" {
            "runtime"
        } else {
            "peak_bytes"
        };
        let best = rows.iter().map(|row| row[key].as_u64().unwrap()).min();
        let plan = Plan::read(&fs::read_to_string(&plan).unwrap());
        let written = if objective == "runtime" {
            plan.runtime
        } else {
            plan.peak_bytes
        };
        assert_eq!(best, Some(written));
        let names: std::collections::BTreeSet<&str> = rows
            .iter()
            .map(|row| row["method"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), 16, "{names:?}");
        for row in rows {
            assert_eq!(row["verified"], true);
            assert!(row["gap_to_best"].as_f64().unwrap() >= 0.0);
        }
    }
    let chart = folder.path().join("bars.svg");
    let words = "place {} --compare --evaluations 50 --svg {} --format json";
    let table = run(words, &[&fixture("g0018.pbtxt"), &chart]).json();
    let svg = fs::read_to_string(&chart).unwrap();
    for row in table["rows"].as_array().unwrap() {
        let name = row["method"].as_str().unwrap();
        assert!(svg.contains(name), "{name}");
    }
    let code = run(
        "place {} --compare --evaluations 50",
        &[&fixture("tiny.pbtxt")],
    )
    .code;
    assert_eq!(code, Some(0));
}

/// Under a limit that some methods exceed and are faster for it: the best is the fastest of those that fit.
#[test]
fn a_comparison_prefers_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let words = "place costgraph:1 --seed 5 --links unlimited --device-memory 3421B --compare --evaluations 100 --format json --plan {}";
    let table = run(words, &[&plan]).json();
    let fastest = |fits: bool| {
        let rows = table["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| (row["excess_bytes"] == 0) == fits);
        rows.map(|row| row["runtime"].as_u64().unwrap()).min()
    };
    assert!(fastest(false).unwrap() < fastest(true).unwrap(), "{table}");
    let plan = Plan::read(&fs::read_to_string(&plan).unwrap());
    assert_eq!(Some(plan.runtime), fastest(true));
    assert!(plan.peak_bytes <= 3421);
}

#[test]
fn a_limit_that_nothing_satisfies_is_1_and_says_by_how_much() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, out) = (path("pair.jsonl"), path("out"));
    fs::write(&file, PAIR).unwrap();
    fs::create_dir(&out).unwrap();
    let files = [out.join("t.json"), out.join("c.svg"), out.join("p.json")];
    let outputs = "--trace {} --svg {} --plan {}";
    for mode in ["", "--compare"] {
        let words = format!("place {{}} --device-memory 100B {mode} --format json {outputs}");
        let run: Run = run(&words, &[&file, &files[0], &files[1], &files[2]]);
        assert_eq!(run.code, Some(1), "{run:?}");
        for part in [
            "within 100 bytes",
            "needs 107",
            ", 7 too many",
            "less than 107",
        ] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        let figures = if mode.is_empty() {
            &answer
        } else {
            &answer["rows"][0]
        };
        assert_eq!(figures["excess_bytes"], 7);
        assert_eq!(figures["verified"], true);
        assert!(listing(&out).is_empty());
    }
    place(&file, "--device-memory 107B");
    let text = run("place {} --device-memory 100B", &[&file]);
    assert_eq!(text.line("beyond the memory"), "7 B");
    // Of many, the others are placed all the same.
    let many = run(
        "place costgraph:3 --all --device-memory 300B --evaluations 50",
        &[],
    );
    assert_eq!(many.code, Some(1));
    assert!(many.stderr.contains("of 3 plans do not fit"), "{many:?}");
    assert_eq!(n_verified(&many.stdout), 3);
}

#[test]
fn a_deadline_ends_a_search_with_its_best_plan() {
    for method in ["brkga", "seeded-brkga", "random", "local-search"] {
        let words = format!(
            "place costgraph:1 --method {method} --evaluations 1000000000000 --time-limit 0.2 --format json"
        );
        let answer = run(&words, &[]).json();
        let evaluations = answer["evaluations"].as_u64().unwrap();
        assert!((50..1_000_000_000_000).contains(&evaluations), "{answer}");
    }
    // Time enough changes nothing.
    let flags = "--evaluations 300 --format json";
    let free = run(&format!("place costgraph:1 {flags}"), &[]).json();
    let bound = run(&format!("place costgraph:1 {flags} --time-limit 250"), &[]).json();
    assert_eq!(timeless(&free), timeless(&bound));
}

/// Modules stay together, and go where they are pinned, with every method.
#[test]
fn modules_share_the_device_that_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (file, plan, map) = (path("g.jsonl"), path("plan.json"), path("map.json"));
    let mut ops = Vec::new();
    let mut names = Vec::new();
    for block in 0..4 {
        for op in ["a", "b"] {
            ops.push(r#"["op","x",100,0,0]"#.to_owned());
            names.push(format!(r#""layers.{block}.{op}/n""#));
        }
    }
    let (ops, names) = (ops.join(","), names.join(","));
    let graph = format!(r#"{{"name":"g","names":[{names}],"ops":[{ops}],"tensors":[]}}"#);
    fs::write(&file, graph).unwrap();
    let devices = |flags: &str| {
        let words = format!("place {{}} {flags} --links unlimited --plan {{}}");
        run(&words, &[&file, &plan]).ok();
        let plan = Plan::read(&fs::read_to_string(&plan).unwrap());
        [0, 1, 2, 3, 4, 5, 6, 7].map(|op| plan.device_of(op))
    };
    for method in [
        "portfolio --evaluations 200",
        "brkga --evaluations 200",
        "heft",
        "greedy-memory",
        "local-search --evaluations 200",
    ] {
        let found = devices(&format!(
            "--method {method} --together layers.* --pin layers.1=1 --pin layers.2.a/n=0"
        ));
        assert_eq!(found[2..6], [1, 1, 0, 0], "{method}");
        assert!(
            found[0] == found[1] && found[6] == found[7],
            "{method}: {found:?}"
        );
    }
    let found = devices("--evaluations 200 --together layers.0,layers.3.b --together layers.3");
    let one: std::collections::BTreeSet<usize> = [0, 1, 6, 7].map(|op| found[op]).into();
    assert_eq!(one.len(), 1, "{found:?}");
    let words = "place {} --pin layers.0=1 --objective throughput --device-map {} --format json";
    run(words, &[&file, &map]).json();
    let map: Value = serde_json::from_str(&fs::read_to_string(&map).unwrap()).unwrap();
    assert_eq!(map["layers.0"], 1);
    let words = "place {} --together layers.1 --pin layers.1.a=0 --pin layers.1.b=1";
    let message = run(words, &[&file]).error(2);
    assert!(message.contains("devices 0 and 1"), "{message}");
}

/// Measured costs, the card's factor for the others, and what training keeps.
#[test]
fn costs_are_joined_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (graph, costs) = (path("chain.jsonl"), path("costs.csv"));
    let chain = r#"{"name":"chain","names":["a","b"],"ops":[["op","a",100,0,0],["op","b",100,0,0]],"tensors":[[0,8,-1,[1]]],"persistent":[16,0]}"#;
    fs::write(&graph, chain).unwrap();
    fs::write(&costs, "op,seconds\nb,1e-6\n").unwrap();
    let answer = |flags: &str| {
        let words = format!("place {{}} --costs {{}} {flags} --format json");
        run(&words, &[&graph, &costs]).json()
    };
    let measured = answer("");
    assert_eq!(measured["runtime"], 1100);
    assert_eq!(measured["costs"]["measured"], 1);
    assert_eq!(measured["peak_bytes"], 16 + 8);
    let of_card = answer("--device-spec t4 --training-state adam");
    // 100 ns of a V100 are 100 / 0.43 of a T4; four times the weights.
    assert_eq!(of_card["runtime"], 233 + 1000);
    assert_eq!(of_card["persistent_bytes"], 64);
    fs::write(&costs, "op,seconds\nc,1e-6\n").unwrap();
    let words = "place {} --costs {}";
    let message = run(words, &[&graph, &costs]).error(2);
    assert!(
        message.contains("costs.csv:2: the graph has no op `c`"),
        "{message}"
    );
}

/// Two devices finish twice as many micro-batches of a chain as one; the file has one period.
#[test]
fn micro_batches_follow_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (graph, plan) = (path("chain.jsonl"), path("plan.json"));
    let chain = r#"{"name":"chain","ops":[["op","a",100,0,0],["op","b",100,0,0],["op","c",100,0,0],["op","d",100,0,0]],"tensors":[[0,8,-1,[1]],[1,8,-1,[2]],[2,8,-1,[3]]]}"#;
    fs::write(&graph, chain).unwrap();
    let words = "place {} --objective throughput --links unlimited --plan {} --format json";
    let answer = run(words, &[&graph, &plan]).json();
    assert_eq!(
        (&answer["period"], &answer["one_device_period"]),
        (&200.into(), &400.into())
    );
    assert_eq!(answer["speedup"], 2.0);
    let written: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    assert_eq!(written["period_ns"], 200);
    assert_eq!(written["steps"].as_array().unwrap().len(), 5);
}

#[test]
fn what_a_file_leaves_open_is_said() {
    let model = fixture("light_squeezenet.onnx");
    let flags = "--method heft --format json";
    let runtime = |words: &str| {
        let run = run(&format!("place {{}} {flags} {words}"), &[&model]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        (answer["runtime"].as_u64().unwrap(), run.stderr)
    };
    let (ops, _) = runtime("");
    let (persistent, _) = runtime("--weights persistent");
    assert_eq!(ops, persistent);
    let msr = run("place {} --verbose", &[&fixture("tiny.msr.json")]);
    assert!(
        msr.stderr.contains("the file speaks of 2 accelerators"),
        "{msr:?}"
    );
    let warned = run("place {}", &[&fixture("tiny.pbtxt")]);
    assert!(
        warned
            .stderr
            .starts_with("warning: tiny: 1 tensors of unknown size"),
        "{warned:?}"
    );
}
