//! `embed`: files of every form, nearest nodes, link prediction, tables on disk, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::program::{command, finish, run, wait};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn every_form_has_the_same_rows_and_near_reads_it() {
    let folder = folder();
    let mut answers = Vec::new();
    for name in ["k.npy", "k.npz", "k.vec", "k.bin", "k.safetensors"] {
        let out = folder.path().join(name);
        let words = "embed karate --preset line --dim 8 --epochs 100 --out {} --format json";
        let answer = run(words, &[&out]).json();
        assert_eq!(
            (&answer["nodes"], &answer["edges"]),
            (&34.into(), &78.into())
        );
        assert_eq!(
            (&answer["columns"], &answer["samples"]),
            (&16.into(), &15600.into())
        );
        let near = "embed near 33 --model {} --top 5 --format json";
        answers.push(run(near, &[&out]).json());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let near = answers[0]["near"].as_array().unwrap();
    let nodes: Vec<&str> = near
        .iter()
        .map(|near| near["node"].as_str().unwrap())
        .collect();
    assert_eq!(nodes.len(), 5);
    assert!(
        nodes.contains(&"32"),
        "the two leaders of one side are alike: {nodes:?}"
    );
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(
        files, 6,
        "five files, the labels of one, and no scratch file"
    );
}

#[test]
fn threads_change_nothing_and_labels_are_kept() {
    let folder = folder();
    let input = folder.path().join("g.txt");
    let edges = (0..60).map(|i| format!("n{} n{} {}\n", i % 17, (i * 5 + 1) % 23, i % 4));
    fs::write(&input, edges.collect::<String>()).unwrap();
    for flags in [
        "",
        "--directed",
        "--weighted",
        "--precision fp16 --shared-negatives 4",
    ] {
        let mut texts = Vec::new();
        for threads in [1, 3] {
            let out = folder.path().join("e.vec");
            let words = format!(
                "embed {{}} {flags} --preset line --dim 4 --parts 4 --threads {threads} -q --out {{}}"
            );
            run(&words, &[&input, &out]).ok();
            texts.push(fs::read_to_string(&out).unwrap());
        }
        assert_eq!(texts[0], texts[1], "{flags}");
        assert!(texts[0].contains("\nn16 "));
    }
}

/// Parts of few rows share no negatives; who asked for it is told, and so is who reads the answer.
#[test]
fn what_is_not_shared_is_said() {
    let folder = folder();
    let out = folder.path().join("e.npy");
    let words = "embed ba:200:3 --preset line --shared-negatives 16 --epochs 1 --dim 4 --out {} --format json";
    let ended = run(words, &[&out]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("negatives are not shared"),
        "{ended:?}"
    );
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&answer["shared_negatives"], &answer["shared_by"]),
        (&16.into(), &1.into())
    );
    let words = "embed ba:9000:3 --preset line --shared-negatives 16 --parts 4 --epochs 1 --dim 4 --out {} --format json";
    assert_eq!(run(words, &[&out]).json()["shared_by"], 16);
}

#[test]
fn a_store_is_imported_once_and_trained_on() {
    let folder = folder();
    let (store, out) = (folder.path().join("ba.store"), folder.path().join("e.npy"));
    let imported = run(
        "embed import ba:3000:4 --memory-limit 10MB --out {} --format json",
        &[&store],
    )
    .json();
    assert_eq!(imported["file_bytes"], fs::metadata(&store).unwrap().len());
    let answer = run(
        "embed {} --preset line --epochs 1 --dim 4 --out {} --format json",
        &[&store, &out],
    )
    .json();
    assert_eq!(answer["edges"], imported["edges"]);
    let message = run("embed {} --directed --out {}", &[&store, &out]).error(2);
    assert!(
        message.contains("settled when it was imported"),
        "{message}"
    );
    let bytes = fs::read(&store).unwrap();
    fs::write(&store, &bytes[..bytes.len() - 1]).unwrap();
    let message = run("embed {} --out {}", &[&store, &out]).error(2);
    assert!(message.contains("bytes by its head"), "{message}");
}

/// The samples of the state that a run has left in its folder.
fn samples_of_state(work: &Path) -> u64 {
    let samples = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("run.json")).ok()?;
        let state: serde_json::Value = serde_json::from_str(&text).ok()?;
        let is_whole = entry.path().join("MANIFEST").exists();
        state["position"]["samples"].as_u64().filter(|_| is_whole)
    };
    let entries = fs::read_dir(work).into_iter().flatten().flatten();
    entries.filter_map(samples).max().unwrap_or(0)
}

/// What a run says that it takes at least, with less.
fn least_memory(words: &str, files: &[&Path]) -> u64 {
    let message = run(words, files).error(2);
    let least = message.split("takes ").nth(1).unwrap();
    least.split(' ').next().unwrap().parse().unwrap()
}

/// kill -9 in the middle, again and again: the run ends with the bytes of one that nobody touched,
/// those of its metrics and their curve among them.
#[test]
fn a_killed_run_with_tables_on_disk_goes_on_to_the_same_bits() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (store, calm, killed) = (path("ba.store"), path("calm.npy"), path("killed.npy"));
    run("embed import ba:4000:8 --parts 8 --out {}", &[&store]).ok();
    let words = "embed {} --epochs 4 --dim 32 --memory-limit 1KB --checkpoint-interval 0 --work {} --run {} --out {} --svg {} --format json";
    let names = ["calm", "calm-run", "killed", "killed-run"].map(path);
    let curves = ["calm.svg", "killed.svg"].map(path);
    let calm_run = [&*store, &*names[0], &*names[1], &*calm, &*curves[0]];
    let killed_run = [&*store, &*names[2], &*names[3], &*killed, &*curves[1]];
    let metrics = |name: &str| fs::read_to_string(path(name).join("metrics.jsonl")).unwrap();
    let memory = least_memory(words, &calm_run) + 300_000;
    let words = &words.replace("1KB", &memory.to_string());
    let answer = run(words, &calm_run).json();
    assert!(answer["disk"]["groups"].as_u64().unwrap() > 1, "{answer}");
    let whole = answer["samples"].as_u64().unwrap();
    let mut before = 0;
    for attempt in 1..=4 {
        let mut child = command(words, &killed_run).spawn().unwrap();
        // It has come as far as it is to, or it has ended.
        while samples_of_state(&path("killed")) <= before.max(attempt * whole / 6)
            && child.try_wait().unwrap().is_none()
        {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        assert!(!wait(&mut child).success(), "it ended before it was killed");
        before = samples_of_state(&path("killed"));
        assert!(before > 0 && before < whole, "{before} of {whole}");
    }
    assert!(
        metrics("killed-run").lines().count() >= 4,
        "two thirds of eight passes"
    );
    let answer = run(words, &killed_run).json();
    assert_eq!(metrics("killed-run"), metrics("calm-run"));
    assert_eq!(metrics("calm-run").lines().count(), 8);
    let resumed = answer["disk"]["resumed_samples"].as_u64().unwrap();
    assert_eq!(
        (resumed, answer["samples"].as_u64().unwrap()),
        (before, whole - before)
    );
    assert!(fs::read(&calm).unwrap() == fs::read(&killed).unwrap());
    // The curve has the passes of all attempts.
    let [calm, killed] = curves.map(|path| fs::read_to_string(path).unwrap());
    assert!(calm.contains("loss before updates") && !calm.contains("root mean square"));
    assert!(calm == killed);
}

/// Another graph or limit in the folder of a run that was broken off is refused, and what that run stands on is as it was.
#[test]
fn a_wrong_command_leaves_the_graph_of_a_killed_run() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let edge = |k: u32| format!("n{} n{}\n", k % 700, (k * 7 + 1) % 701);
    let graph = |n_edges| (0..n_edges).map(edge).collect::<String>();
    fs::write(path("g.txt"), graph(4000)).unwrap();
    fs::write(path("other.txt"), graph(3000)).unwrap();
    let words =
        "embed {} --epochs 200 --dim 32 --checkpoint-interval 0 --work {} --out {} --verbose";
    let (text, other, work, out) = (path("g.txt"), path("other.txt"), path("w"), path("e.npy"));
    let mut child = command(words, &[&text, &work, &out]).spawn().unwrap();
    while samples_of_state(&work) == 0 && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    assert!(!wait(&mut child).success(), "it ended before it was killed");
    let kept =
        || ["graph-of-run.store", "graph-of-run.txt"].map(|n| fs::read(work.join(n)).unwrap());
    let before = kept();
    let less = format!("{words} --memory-limit 3GiB");
    for (words, graph) in [(words, &other), (less.as_str(), &text)] {
        let message = run(words, &[graph, &work, &out]).error(2);
        assert!(
            message.contains("broken off here on another graph"),
            "{message}"
        );
        assert!(kept() == before && !out.exists());
    }
    let ended = run(words, &[&text, &work, &out]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("was read by a run"),
        "{}",
        ended.stderr
    );
    assert_has_metrics_alone(&work);
}

/// Nothing of a run that has ended is in its folder but its metrics.
fn assert_has_metrics_alone(work: &Path) {
    let names = fs::read_dir(work).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("events.out.tfevents."), "{names:?}");
    assert_eq!(names[1], "metrics.jsonl");
}

/// A run on a text that is broken off has its graph in buckets still when it goes on, and leaves nothing behind.
#[test]
fn a_killed_run_on_a_text_does_not_read_it_again() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let edge = |k: u32| format!("n{} n{}\n", k % 700, (k * 7 + 1) % 701);
    fs::write(path("g.txt"), (0..4000).map(edge).collect::<String>()).unwrap();
    let words =
        "embed {} --epochs 200 --dim 32 --checkpoint-interval 0 --work {} --out {} --verbose";
    let (text, work, out) = (path("g.txt"), path("work"), path("e.npy"));
    let files: [&Path; 3] = [&text, &work, &out];
    let mut child = command(words, &files).spawn().unwrap();
    while samples_of_state(&work) == 0 && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    assert!(!wait(&mut child).success(), "it ended before it was killed");
    assert!(work.join("graph-of-run.store").exists());
    // As left by a kill within a checkpoint.
    let half_written = work.join("checkpoint-0099999999");
    fs::create_dir(&half_written).unwrap();
    let name = format!(".run.json.{}-7.tmp", child.id());
    fs::write(half_written.join(name), "{").unwrap();
    let ended = run(words, &files);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("was read by a run that was broken off"),
        "{}",
        ended.stderr
    );
    assert!(out.exists());
    assert_has_metrics_alone(&work);
    let metrics = fs::read_to_string(work.join("metrics.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 400, "two orders of 200 epochs");
}

/// The limit is one of the process, and not of the tables alone.
#[test]
fn a_run_keeps_to_its_memory() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let store = path("ba.store");
    run("embed import ba:60000:4 --parts 64 --out {}", &[&store]).ok();
    // What the program itself takes, on a graph of no size.
    let words = "embed karate --dim 8 --epochs 1 --work {} --out {} --format json";
    let answer = run(words, &[&path("w0"), &path("k.npy")]).json();
    let Some(program) = answer["peak_memory_bytes"].as_u64() else {
        println!("SKIPPED: memory of a process (the system does not say how much it is)");
        return;
    };
    for order in ["1", "2"] {
        let words = format!(
            "embed {{}} --order {order} --dim 128 --epochs 1 --threads 2 --memory-limit 28MB --work {{}} --out {{}} --format json"
        );
        let answer = run(&words, &[&store, &path("work"), &path("e.npy")]).json();
        let peak = answer["peak_memory_bytes"].as_u64().unwrap();
        assert!(answer["disk"]["groups"].as_u64().unwrap() > 1, "{answer}");
        // A program with more code than a release's holds more.
        let more = program.saturating_sub(12 << 20);
        assert!(peak < 28_000_000 * 11 / 10 + more, "{peak}, {program}");
    }
}

#[test]
fn tables_that_the_system_has_no_memory_for_are_an_error() {
    let folder = folder();
    let out = folder.path().join("e.npy");
    let words = "embed ba:20000:2 --dim 65536 --threads 1 --out {}";
    let own = command(words, &[&out]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 800000; exec \"$0\" \"$@\""]);
    limited.arg(own.get_program()).args(own.get_args());
    let message = finish(&mut limited).error(2);
    assert!(message.contains("are free"), "{message}");
    assert!(!out.exists());
}

#[test]
fn a_folder_is_refused_before_the_graph_is_read() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("work")).unwrap();
    fs::write(path("work/00000007.rows"), "mine").unwrap();
    // A graph that cannot be read: the folder is looked at first.
    fs::write(path("g.txt"), "0 1\nno edge at all\n").unwrap();
    let words = "embed {} --work {} --out {}";
    let files = [path("g.txt"), path("work"), path("e.npy")];
    let message = run(words, &files.each_ref().map(|file| file.as_path())).error(2);
    assert!(message.contains("without a checkpoint"), "{message}");
}

/// The default preset chooses by held-back edges; with preset line nothing is chosen.
#[test]
fn held_back_edges_choose_and_the_answer_says_what() {
    let folder = folder();
    let out = folder.path().join("e.npy");
    let words = "embed sbm:300:6:0.3:0.01 --dim 8 --epochs 20 --out {} --format json";
    let answer = run(words, &[&out]).json();
    let selection = &answer["selection"];
    let trials = selection["trials"].as_array().unwrap();
    assert!(trials.len() >= 3, "{selection}");
    let components = selection["components"].as_array().unwrap();
    assert_eq!(answer["columns"], 8 * components.len());
    assert!(
        selection["auc"]["uniform"].as_f64().unwrap() > 0.6,
        "{selection}"
    );
    let of_pairs = selection["baselines"]["adamic_adar"]["uniform"].as_f64();
    assert!(of_pairs.is_some_and(|auc| auc > 0.5), "{selection}");
    let text = run("embed eval sbm:300:6:0.3:0.01 --dim 8 --epochs 20", &[])
        .ok()
        .stdout;
    assert!(
        text.contains("\nselections\n") && text.contains("common neighbors"),
        "{text}"
    );
    let plain = "embed karate --preset line --dim 4 --epochs 1 --out {} --format json";
    assert!(run(plain, &[&out]).json()["selection"].is_null());
    let wrong = "embed karate --preset line --time-limit 5s --out {}";
    let message = run(wrong, &[&out]).error(2);
    assert!(
        message.contains("time-limit is for the default preset"),
        "{message}"
    );
}

/// The softmax loss by name: threads change no bit, and its epochs are chosen unless the preset is
/// line.
#[test]
fn the_softmax_loss_is_one_table() {
    let folder = folder();
    let rows = |threads: u32| {
        let out = folder.path().join(format!("{threads}.npy"));
        let words = format!(
            "embed sbm:300:6:0.3:0.01 --preset line --loss softmax --dim 8 --threads {threads} --out {{}} --format json"
        );
        let answer = run(&words, &[&out]).json();
        assert_eq!(
            (&answer["columns"], &answer["loss"]),
            (&8.into(), &"softmax".into())
        );
        assert_eq!(answer["samples"], 5 * answer["edges"].as_u64().unwrap());
        fs::read(out).unwrap()
    };
    assert_eq!(rows(1), rows(3));
    let out = folder.path().join("chosen.npy");
    let words = "embed sbm:300:6:0.3:0.01 --loss softmax --dim 8 --epochs 8 --out {} --format json";
    let answer = run(words, &[&out]).json();
    let components = &answer["selection"]["components"];
    assert_eq!(components[0]["method"], "softmax", "{answer}");
    assert_eq!(answer["columns"], 8);
}

/// A later training begins where an earlier one ended; contexts and the picture of the choice are files of their own.
#[test]
fn earlier_rows_contexts_and_the_choice_are_files() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (first, second, contexts) = (path("first.npz"), path("second.npz"), path("contexts.npz"));
    let words = "embed karate --preset line --order 2 --dim 8 --epochs 50 --out {}";
    run(&format!("{words} --contexts {{}}"), &[&first, &contexts]).ok();
    let again = format!("{words} --init {{}} --learning-rate 1e-9");
    run(&again, &[&second, &first]).ok();
    let near = |file: &Path| {
        let near = run("embed near 33 --top 5 --model {} --format json", &[file]).json();
        let near = near["near"].as_array().unwrap().clone();
        near.iter()
            .map(|near| near["node"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(near(&first), near(&second));
    assert_eq!(near(&contexts).len(), 5);
    let message = run("embed karate --init {} --out {}", &[&first, &second]).error(2);
    assert!(message.contains("--init is of one training"), "{message}");
    let words = "embed karate --preset line --dim 8 --init {} --out {}";
    let message = run(words, &[&first, &second]).error(2);
    assert!(
        message.contains("init = 8 columns: expected 16"),
        "{message}"
    );
    let picture = path("choice.svg");
    let words = "embed sbm:300:6:0.3:0.01 --dim 8 --epochs 20 --svg {} --out {}";
    run(words, &[&picture, &second]).ok();
    let svg = fs::read_to_string(picture).unwrap();
    assert!(svg.contains("softmax") && svg.contains("order 2"), "{svg}");
}

/// The rows that another run learns from the written edges are judged as its own run judges them.
#[test]
fn rows_of_another_program_are_judged_on_the_same_split() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (edges, rows, out) = (path("train.txt"), path("rows.vec"), path("near.npy"));
    let words = "embed eval sbm:200:4:0.3:0.02 --preset line --dim 8 --epochs 30 --train-edges {} --format json";
    let answer = run(words, &[&edges]).json();
    let n_train = fs::read_to_string(&edges).unwrap().lines().count();
    let n_edges = answer["edges"].as_u64().unwrap() as f64;
    assert_eq!(n_train, (0.7 * n_edges).round() as usize);
    assert!(answer["against"].is_null());
    run(
        "embed {} --preset line --dim 8 --epochs 30 --out {} -q",
        &[&edges, &rows],
    )
    .ok();
    let words = "embed eval sbm:200:4:0.3:0.02 --preset line --dim 8 --epochs 30 --against {} --format json";
    let answer = run(words, &[&rows]).json();
    let (own, other) = (&answer["auc_uniform"], &answer["against"]["uniform"]);
    let distance = own.as_f64().unwrap() - other.as_f64().unwrap();
    assert!(distance.abs() < 0.05, "{answer}");
    let message = run("embed eval karate --repeats 2 --against {}", &[&rows]).error(2);
    assert!(message.contains("are for one split"), "{message}");
    run(
        "embed karate --preset line --dim 4 --epochs 1 --out {}",
        &[&out],
    )
    .ok();
    let many = run("embed near 3 33 --top 2 --model {} --format json", &[&out]).json();
    let one = run("embed near 33 --top 2 --model {} --format json", &[&out]).json();
    assert_eq!(many["nodes"][1], one_of(&one), "{many}");
}

/// The answer without what every answer has.
fn one_of(answer: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({"node": answer["node"], "near": answer["near"]})
}

#[test]
fn link_prediction_is_better_than_chance_and_names_its_baselines() {
    let words = "embed eval sbm:400:8:0.3:0.005 --preset line --dim 16 --epochs 40 --learning-rate 0.1 --repeats 2 --format json";
    let answer = run(words, &[]).json();
    for key in ["auc_uniform", "auc_degree_matched"] {
        assert!(answer[key].as_f64().unwrap() > 0.8, "{answer}");
    }
    for key in ["degree_product", "adamic_adar"] {
        assert!(answer[key]["uniform"].is_number() && answer[key]["degree_matched"].is_number());
    }
    for key in ["dot", "cosine", "weighted_l2"] {
        let auc = answer["operators"][key]["uniform"].as_f64().unwrap();
        assert!(auc > 0.6, "{key}: {answer}");
    }
    for key in ["spectral", "truncated_svd", "netmf"] {
        let auc = answer["factorised"][key]["uniform"].as_f64().unwrap();
        assert!(auc > 0.7, "{key}: {answer}");
    }
    assert_eq!(answer["runs"].as_array().unwrap().len(), 2);
    assert_eq!(answer["operator"], "hadamard");
    let text = run("embed eval karate --epochs 5", &[]).ok().stdout;
    assert!(text.contains("Adamic-Adar"), "{text}");
}

/// The project's promise for a real graph, and the measures of another that need no training.
#[test]
fn real_graphs_reach_their_auc() {
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/graphs");
    for (name, epochs, uniform, matched) in [("wiki-Vote.txt.gz", 10, 0.915, 0.82)] {
        let file = graphs.join(name);
        if !file.is_file() {
            println!(
                "SKIPPED: link prediction on {name} (no file {})",
                file.display()
            );
            continue;
        }
        let words = format!("embed eval {{}} --preset line --epochs {epochs} --format json");
        let answer = run(&words, &[&file]).json();
        let of = |key: &str| answer[key].as_f64().unwrap();
        assert!(
            of("auc_uniform") > uniform && of("auc_degree_matched") > matched,
            "{answer}"
        );
        let product = answer["degree_product"]["uniform"].as_f64().unwrap();
        assert!((product - 0.935).abs() < 0.01, "{answer}");
    }
}

/// A command that must end with code 2, and part of what it must say; `{}` is a file to write.
const REFUSED: [(&str, &str); 12] = [
    (
        "embed karate --loss softmax --order 2 --out {}",
        "order = 2: expected 1 with the softmax loss",
    ),
    (
        "embed karate --loss softmax --precision fp16 --out {}",
        "precision = fp16",
    ),
    (
        "embed karate --loss softmax --work {}/w --out {}.npy",
        "loss = softmax: expected sgns",
    ),
    ("embed karate --dim 0 --out {}", "dim = 0"),
    ("embed karate --negatives 99 --out {}", "negatives = 99"),
    ("embed karate --parts 3 --out {}", "parts = 3"),
    (
        "embed karate --learning-rate=-1 --out {}",
        "learning_rate = -1",
    ),
    (
        "embed karate --queues 3 --out {}",
        "queues: it is for a device",
    ),
    ("embed nothing.txt --out {}", "there is no such file"),
    (
        "embed import karate --memory-limit 1KB --out {}",
        "memory = 1000",
    ),
    ("embed near 1 --model {}", "cannot read"),
    ("embed karate --work {}/w --out {}.vec", "name a .npy file"),
];

#[test]
fn bad_input_is_named_and_leaves_no_file() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let out = path("e.npy");
    for (words, reason) in REFUSED {
        let words = words.replace("{}", out.to_str().unwrap());
        let message = run(&words, &[]).error(2);
        assert!(message.contains(reason), "{words}: {message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    for (words, reason) in [
        ("embed eval er:5:1", "nearly complete"),
        ("embed eval karate --train-share 2", "train_share = 2"),
    ] {
        let message = run(words, &[]).error(2);
        assert!(message.contains(reason), "{message}");
    }
    let negative = path("negative.txt");
    fs::write(&negative, "0 1 1\n1 2 -3\n").unwrap();
    let message = run("embed {} --weighted --out {}", &[&negative, &out]).error(2);
    assert!(
        message.contains("negative.txt:2: expected a weight of 0 or more, found -3"),
        "{message}"
    );
    let words = "embed karate --memory-limit 100KB --parts 1 --dim 4096 --work {} --out {}";
    let message = run(words, &[&path("work"), &out]).error(2);
    assert!(message.contains("raise the limit"), "{message}");
    run("embed karate --out {}", &[&out]).ok();
    let message = run("embed near nobody --model {}", &[&out]).error(2);
    assert!(message.contains("no node `nobody`"), "{message}");
}
