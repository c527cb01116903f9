//! `shardgraph place train` and `shardgraph place --model`: trained, resumed, used, compared, and refused.

use std::fs;
use std::path::Path;

use crate::place::plans::{fixture, place};
use crate::program::run;
use crate::ranks::processes::{World, finish_all, run_all};

/// Small networks and searches.
const SETTINGS: &str = "graphs = ['costgraph:3:6:9']\nreward_evaluations = 60\ncheckpoint_steps = 2\n\
    [genetic]\npopulation = 20\nelites = 4\nmutants = 4\n[policy]\nfeature_evaluations = 60\nhead_width = 8\n";

/// Trains in a folder of `within` with these flags, and gives the answer's hash of the weights.
fn train(within: &Path, out: &str, flags: &str) -> String {
    let (settings, out) = (within.join("settings.toml"), within.join(out));
    fs::write(&settings, SETTINGS).unwrap();
    let words = format!("place train --config {{}} --run {{}} {flags} --quiet --format json");
    let answer = run(&words, &[&settings, &out]).json();
    assert!(answer["reward"].as_f64().unwrap() < 0.0);
    assert_eq!(answer["graphs"], 3);
    answer["policy_hash"].as_str().unwrap().to_owned()
}

#[test]
fn a_policy_is_trained_resumed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let whole = train(folder.path(), "whole", "--steps 5 --threads 2");
    let part = train(folder.path(), "part", "--steps 3");
    assert_ne!(whole, part);
    let resume = "place train --run {} --resume --steps 5 --quiet --format json";
    let answer = run(resume, &[&folder.path().join("part")]).json();
    assert_eq!(
        (&answer["steps"], &answer["steps_taken"]),
        (&5.into(), &2.into())
    );
    assert_eq!(answer["policy_hash"], whole);
    let read = |run: &str, file: &str| fs::read(folder.path().join(run).join(file)).unwrap();
    for file in ["policy.safetensors", "metrics.jsonl"] {
        assert!(read("whole", file) == read("part", file), "{file}");
    }

    let policy = folder.path().join("whole/policy.safetensors");
    let flags = format!(
        "--links unlimited --model {} --evaluations 300 --threads 2",
        policy.display()
    );
    let answer = place(&fixture("g0018.pbtxt"), &flags);
    assert_eq!(
        (&answer["method"], &answer["decoder"]),
        (&"portfolio".into(), &serde_json::Value::Null)
    );
    assert_eq!(answer["runtime"], answer["lower_bound"]);
    let words = "place {} --links unlimited --model {}";
    let told = run(words, &[&fixture("g0018.pbtxt"), &policy]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(
        told.stderr
            .contains("the policy was not asked: no plan is better"),
        "{}",
        told.stderr
    );
    let flags = format!(
        "--model {} --method regal --evaluations 300",
        policy.display()
    );
    let answer = place(&fixture("g0018.pbtxt"), &flags);
    assert_eq!(
        (&answer["method"], &answer["evaluations"]),
        (&"regal".into(), &300.into())
    );
    let seconds = |key: &str| answer[key].as_f64().unwrap();
    assert!((0.0..=seconds("seconds")).contains(&seconds("proposal_seconds")));
}

#[test]
fn a_comparison_has_the_learned_methods() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "run", "--steps 1");
    let policy = folder.path().join("run/policy.safetensors");
    let words = "place {} --compare --model {} --evaluations 300 --quiet --format json";
    let table = run(words, &[&fixture("tiny.pbtxt"), &policy]).json();
    let rows = table["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["method"].as_str().unwrap())
        .collect();
    assert_eq!(names[names.len() - 3..], ["seeded-regal", "regal", "idrs"]);
    assert!(names.contains(&"rank-brkga"));
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), "run", "--steps 1");
    let policy = folder.path().join("run/policy.safetensors");
    for (flags, reason) in [
        ("--devices 3", "for 2 devices, and 3 are asked for"),
        ("--objective memory", "the features for the runtime"),
        ("--evaluations 60", "policy.safetensors take 60 of them"),
        ("--greedy-runs 3", "says nothing about --method portfolio"),
        ("--method brkga", "--method brkga was asked for"),
    ] {
        let plan = folder.path().join("plan.json");
        let words = format!("place costgraph:1 --model {{}} {flags} --plan {{}}");
        let error = run(&words, &[&policy, &plan]).error(2);
        assert!(error.contains(reason), "{error}");
        assert!(!plan.exists());
    }
    let error = run("place costgraph:1 --method idrs", &[]).error(2);
    assert!(error.contains("--method idrs needs --model"), "{error}");
    let other = folder.path().join("other.safetensors");
    fs::write(&other, "no policy").unwrap();
    let error = run("place costgraph:1 --model {}", &[&other]).error(2);
    let reason = "other.safetensors: this is no safetensors file";
    assert!(error.contains(reason), "{error}");
}

#[test]
fn training_that_cannot_begin_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    for (flags, reason) in [
        ("--graphs none.pbtxt", "none.pbtxt: there is no such file"),
        ("--devices 0", "n_devices = 0"),
        ("--learning-rate 0", "learning_rate"),
        ("--steps 0", "steps = 0"),
        ("--start none", "expected a policy file, or one of runtime"),
        (
            "--start memory",
            "memory: the policy to begin with has another config",
        ),
    ] {
        let steps = if flags.contains("--steps") {
            ""
        } else {
            "--steps 1"
        };
        let words = format!("place train --run {{}} {flags} {steps}");
        let error = run(&words, &[&out]).error(2);
        assert!(error.contains(reason), "{error}");
        assert!(!out.exists());
    }
    let error = run("place train --run {} --resume --steps 1", &[&out]).error(2);
    assert!(error.contains("no complete checkpoint"), "{error}");
    train(folder.path(), "run", "--steps 1");
    let run_before = folder.path().join("run");
    let resume = "place train --run {} --resume --steps 0 --quiet";
    let error = run(resume, &[&run_before]).error(2);
    assert!(error.contains("the run is at step 1 already"), "{error}");
    let error = run("place train --run {} --steps 1", &[&run_before]).error(2);
    assert!(error.contains("has a run already"), "{error}");
}

/// The policies that come with the program, each for its objective and never worse than the cheap schedules.
#[test]
fn shipped_policies_are_used_by_name() {
    for (name, policy, evaluations, cheap) in [
        ("runtime", "runtime", 500, "heft"),
        ("runtime", "low-budget", 20, "heft"),
        ("memory", "memory", 500, "greedy-memory"),
    ] {
        let flags = format!(
            "--links unlimited --objective {name} --model {policy} --evaluations {evaluations}"
        );
        let answer = place(&fixture("g0018.pbtxt"), &flags);
        assert_eq!(answer["method"], "portfolio");
        let is_at_bound = answer["gap"] == 0.0;
        assert!(
            is_at_bound || answer["evaluations"] == evaluations,
            "{answer}"
        );
        let flags = format!("--links unlimited --objective {name} --method {cheap}");
        let cheap = place(&fixture("g0018.pbtxt"), &flags);
        let key = if name == "runtime" {
            "runtime"
        } else {
            "peak_bytes"
        };
        assert!(answer[key].as_u64() <= cheap[key].as_u64());
    }
    let error = run("place costgraph:1 --model memory", &[]).error(2);
    assert!(
        error.contains("memory: the policy reads the features for the memory"),
        "{error}"
    );
}

#[test]
fn processes_share_the_rewards_and_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let expected = train(folder.path(), "whole", "--steps 4");
    let (settings, parts) = (
        folder.path().join("settings.toml"),
        folder.path().join("parts"),
    );
    let begin = "place train --config {} --run {} --steps 2 --quiet --format json";
    let mut first = run_all(2, begin, &[&settings, &parts]).into_iter();
    assert_eq!(first.next().unwrap().json()["ranks"], 2);
    // The others print nothing.
    assert!(first.all(|other| other.ok().stdout.is_empty()));
    let resume = "place train --run {} --resume --steps 4 --quiet --format json";
    let mut resumed = run_all(3, resume, &[&parts]).into_iter();
    assert_eq!(resumed.next().unwrap().json()["policy_hash"], expected);
    assert!(resumed.all(|other| other.ok().stdout.is_empty()));
    let read = |run: &str| fs::read(folder.path().join(run).join("policy.safetensors"));
    assert!(read("whole").unwrap() == read("parts").unwrap());
    // A folder that is taken is the first rank's reason, and all end with it.
    for refused in run_all(2, begin, &[&settings, &parts]) {
        assert!(!refused.error(2).is_empty());
    }
    let (other, world) = (folder.path().join("other"), World::new(2));
    let seeds = [0, 1].map(|rank| {
        let words = format!("place train --config {{}} --run {{}} --steps 2 --seed {rank} --quiet");
        world.rank(rank, &words, &[&settings, &other])
    });
    for refused in finish_all(seeds.into()) {
        let error = refused.error(2);
        assert!(
            error.contains("another set of settings") && !other.exists(),
            "{error}"
        );
    }
    let threads = "place train --config {} --run {} --ranks 2 --quiet";
    let message = run(threads, &[&settings, &other]).error(2);
    assert!(message.contains("give --threads 2"), "{message}");
}

#[test]
fn training_within_a_limit_of_memory_is_another_run_and_for_the_runtime_alone() {
    let folder = tempfile::tempdir().unwrap();
    let free = train(folder.path(), "free", "--steps 1");
    let limited = train(folder.path(), "limited", "--steps 1 --device-memory 1");
    assert_ne!(free, limited);
    let out = folder.path().join("memory");
    let words = "place train --preset memory --device-memory 1GiB --run {} --quiet";
    let message = run(words, &[&out]).error(2);
    assert!(
        message.contains("a limit changes nothing") && !out.exists(),
        "{message}"
    );
}
