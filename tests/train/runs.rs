//! Training: the same policy for any number of ranks, config files, folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::{Run, command, finish, listing, run};

fn policy(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("policy.safetensors")).unwrap()
}

fn settings(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("policy.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["train"].clone()
}

#[test]
fn any_number_of_ranks_makes_the_same_policy() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    // A batch that is full long before the last of the 50 steps.
    fs::write(&config, "batch_size = 16\ngradient_iterations = 2\n").unwrap();
    for preset in ["default", "paper"] {
        let train = |n_ranks: u32| {
            let out = folder.path().join(format!("{preset}-{n_ranks}"));
            let words = format!(
                "train --problem mvc --steps 50 --ranks {n_ranks} --seed 1 --preset {preset} --config {{}} --run {{}}"
            );
            let answer = run(&words, &[&config, &out]).ok();
            assert_eq!(answer.line("ranks"), n_ranks.to_string());
            (policy(&out), fs::read(out.join("metrics.jsonl")).unwrap())
        };
        let one = train(1);
        assert_eq!(one.1.iter().filter(|&&byte| byte == b'\n').count(), 50);
        for n_ranks in [2, 3] {
            assert!(
                train(n_ranks) == one,
                "{preset}: {n_ranks} ranks differ from one"
            );
        }
    }
}

#[test]
fn a_trained_policy_solves() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    run("train --steps 80 --seed 4 --run {}", &[&out]).ok();
    let mut found = listing(&out);
    assert!(found[1].starts_with("events.out.tfevents."), "{found:?}");
    found.remove(1);
    let expected = [
        "checkpoint-0000000080",
        "metrics.jsonl",
        "policy.json",
        "policy.safetensors",
    ];
    assert_eq!(found, expected);
    let file = out.join("policy.safetensors");
    let answer = run(
        "solve --method policy karate --model {} --format json",
        &[&file],
    )
    .json();
    assert_eq!(answer["policy"].as_str(), file.to_str());
    assert_eq!(answer["verified"], true);
}

#[test]
fn the_seed_and_the_graphs_decide() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("g.el");
    fs::write(&graph, "a b\nb c\nc d\nd e\ne a\n").unwrap();
    // Weights that begin as a greedy algorithm may be the best of so short a run, whatever the graphs.
    let config = folder.path().join("c.toml");
    fs::write(&config, "initial = \"random\"\n").unwrap();
    let train = |name: &str, words: &str, paths: &[&Path]| {
        let out = folder.path().join(name);
        let mut all = vec![config.as_path(), out.as_path()];
        all.extend(paths);
        let start = "train --steps 70 --config {} --run {}";
        run(&format!("{start} {words}"), &all).ok();
        policy(&out)
    };
    let base = train("base", "--seed 1", &[]);
    assert!(train("again", "", &[]) == base, "1 is the default seed");
    assert!(train("seed", "--seed 2", &[]) != base);
    assert!(train("file", "--graphs {} --graphs er:12:0.3", &[&graph]) != base);
    assert_eq!(
        settings(&folder.path().join("file"))["graphs"][1],
        "er:12:0.3"
    );
}

#[test]
fn flags_win_over_the_file_and_the_file_over_the_preset() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (config, out) = (path("c.toml"), path("run"));
    let text = "steps = 9\nseed = 7\npreset = \"paper\"\ngamma = 0.5\nranks = 2\ngraphs = [\"er:9:0.5\"]\n";
    fs::write(&config, text).unwrap();
    let answer = run(
        "train --config {} --steps 4 --run {} --format json",
        &[&config, &out],
    )
    .json();
    assert_eq!((&answer["steps"], &answer["ranks"]), (&4.into(), &2.into()));
    let settings = settings(&out);
    assert_eq!(settings["seed"], 7);
    assert_eq!(settings["gamma"], 0.5);
    assert_eq!(settings["graphs"], serde_json::json!(["er:9:0.5"]));
    assert_eq!(settings["target"], "stored", "of the preset");
    let message = bad_config(&config, "steps = 9\ngama = 0.5\n", &path("new"));
    assert!(
        message.contains("c.toml:2: `gama`: unknown field"),
        "{message}"
    );
    let message = bad_config(&config, "steps = 9\ngamma = ]\n", &path("new"));
    assert!(message.contains("c.toml:2:9: "), "{message}");
    let message = bad_config(&config, "\ngamma = 1.5\n", &path("new"));
    let expected = "c.toml:2: training settings: `gamma`: expected 0 to 1; found 1.5";
    assert!(message.contains(expected), "{message}");
    let message = bad_config(&config, "n_layers = 65\n", &path("new"));
    assert!(message.contains("c.toml:1: training settings: `n_layers`: expected 1 to 64"));
    let nested = "[prioritized]\nalpha = 2.0\n";
    let message = bad_config(&config, nested, &path("new"));
    assert!(message.contains("c.toml:1: training settings: `prioritized.alpha`: expected"));
    // What a flag says is no line of the file.
    fs::write(&config, "environments = 2\n").unwrap();
    let words = "train --config {} --environments 5000 --run {}";
    let message = run(words, &[&config, &path("new")]).error(2);
    let expected = "training settings: `environments`: expected 1 to 4096; found 5000";
    assert!(message.contains(expected), "{message}");
}

fn bad_config(config: &Path, text: &str, out: &Path) -> String {
    fs::write(config, text).unwrap();
    let message = run("train --config {} --run {}", &[config, out]).error(2);
    assert!(!out.exists());
    message
}

#[test]
fn a_used_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    run("train --steps 3 --run {}", &[folder.path()]).ok();
    let before = policy(folder.path());
    let message = run("train --steps 5 --seed 2 --run {}", &[folder.path()]).error(2);
    assert!(message.contains("has a run already"), "{message}");
    assert!(policy(folder.path()) == before);
}

#[test]
fn bad_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (flags, expected) in [
        ("--problem tsp", "`problem`: expected mvc"),
        ("--graphs er:20:7", "from 0 to 1"),
        ("--graphs missing.mtx", "unknown graph model"),
        ("--graphs er:9:0", "at least one edge"),
        ("--ranks 0", "1 to 1024"),
    ] {
        let words = format!("train --steps 5 --run {{}} {flags}");
        let message = run(&words, &[&out]).error(2);
        assert!(message.contains(expected), "{flags}: {message}");
        assert!(!out.join("policy.safetensors").exists());
    }
    let nothing: PathBuf = folder.path().join("nothing");
    let message = run("train --run {} --resume --steps 5", &[&nothing]).error(2);
    assert!(message.contains("no complete checkpoint"), "{message}");
}

#[test]
fn a_finished_run_can_be_prolonged() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    run("train --steps 90 --run {}", &[&whole]).ok();
    run("train --steps 75 --run {} --ranks 2", &[&parts]).ok();
    let answer = run(
        "train --run {} --resume --steps 90 --format json",
        &[&parts],
    )
    .json();
    assert_eq!(answer["steps"], 15);
    let again = run("train --run {} --resume", &[&parts]).ok();
    assert!(again.stdout.starts_with("trained to step 90\n"));
    assert_eq!(again.line("steps"), "0");
    assert!(policy(&parts) == policy(&whole));
}

/// Everything that training has beside the paper's loop, on every grid of ranks, and over a resume.
#[test]
fn options_train_alike_on_every_grid() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = path("c.toml");
    let text =
        "batch_size = 16\nstates_per_product = 2\nbatch_ranks = 1\nprioritized = { alpha = 0.7 }\n";
    fs::write(&config, text).unwrap();
    let options = "--environments 3 --prioritized";
    let train = |grid: &str| {
        let out = path(&grid.replace(' ', ""));
        let words =
            format!("train --config {{}} --steps 40 {options} {grid} --run {{}} --format json");
        let answer = run(&words, &[&config, &out]).json();
        assert!(answer["learning_step_seconds"].is_f64());
        let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
        let ended = metrics.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["ended"].as_u64()
        });
        assert_eq!(answer["episodes"], ended.sum::<u64>());
        (policy(&out), metrics)
    };
    let one = train("--ranks 1");
    for grid in [
        "--ranks 2 --batch-ranks 2",
        "--ranks 6 --batch-ranks 3",
        "--ranks 4",
    ] {
        assert!(train(grid) == one, "{grid} differs from one rank");
    }
    let made = settings(&path("--ranks1"));
    assert_eq!(made["environments"], 3);
    let alpha = made["prioritized"]["alpha"].as_f64().unwrap();
    assert!((alpha - 0.7).abs() < 1e-6, "of the file");
}

/// A run with these options goes on as it began, and on another grid.
#[test]
fn options_go_on_after_a_resume() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let config = folder.path().join("c.toml");
    fs::write(&config, "batch_size = 16\n").unwrap();
    let train = |steps: u32, out: &Path| {
        let options = "--environments 3 --prioritized";
        let words = format!("train --config {{}} --steps {steps} {options} --run {{}}");
        run(&words, &[&config, out]).ok();
    };
    train(40, &whole);
    train(23, &parts);
    run(
        "train --run {} --resume --steps 40 --ranks 4 --batch-ranks 2",
        &[&parts],
    )
    .ok();
    assert!(policy(&parts) == policy(&whole));
    let message = run(
        "train --run {} --resume --steps 50 --environments 2",
        &[&parts],
    )
    .error(2);
    assert!(message.contains("--environments"), "{message}");
}

#[test]
fn options_that_cannot_be_right_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        ("--batch-ranks 2", "2 batch ranks of 1 ranks"),
        (
            "--ranks 6 --batch-ranks 4",
            "expected a number that divides",
        ),
        ("--environments 0", "`environments`: expected 1 to 4096"),
        ("--weighted", "reads no edge weights"),
        ("--weighted --problem cut", "have no weights"),
    ] {
        let out = folder.path().join("refused");
        let message = run(&format!("train --steps 5 --run {{}} {flags}"), &[&out]).error(2);
        assert!(message.contains(expected), "{flags}: {message}");
        assert!(!out.exists(), "{flags}");
    }
}

/// Runs a command with so many KiB of address space.
fn limited(kib: u32, words: &str, paths: &[&Path]) -> Run {
    let own = command(words, paths);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]);
    limited.arg(own.get_program()).args(own.get_args());
    finish(&mut limited)
}

#[test]
fn what_memory_cannot_hold_is_refused_before_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (words, cure) in [
        (
            "train --graphs ba:20000:2 --environments 4096 --steps 9 --run {}",
            "fewer environments",
        ),
        (
            "solve --method policy ba:600000:2 --model mvc-three-layers --ranks 2 --out {}",
            "--model mvc-default",
        ),
        (
            "solve --method policy ba:600000:2 --problem mis --model mis-four-layers --out {}",
            "fewer graphs",
        ),
    ] {
        let message = limited(200_000, words, &[&out]).error(2);
        assert!(message.contains("MiB are free"), "{words}: {message}");
        assert!(message.contains(cure), "{words}: {message}");
        assert!(!out.exists(), "{words}");
    }
}
