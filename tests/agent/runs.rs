//! `shardgraph agent`: settings by name and by file, training, evaluation, ranks, kill -9 and resume.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::program::{command, finish, listing, run};
use crate::ranks::kill::{has_checkpoint, kill};
use crate::ranks::processes::run_all;

/// A small agent that learns early, with this beside its algorithm's name.
fn settings(steps: u64, more: &str) -> String {
    format!(
        "steps = {steps}\nseed = 3\ncheckpoint_steps = 500\nenvironment = {{ name = 'cartpole', n_environments = 2 }}\n\
         [algorithm]\nname = 'dqn'\nbatch_size = 32\nlearning_starts = 200\ntrain_every = 4\nn_step = 2\ndouble = true\n\
         network = {{ hidden = [32] }}\n{more}\n"
    )
}

/// A scratch folder with settings in it.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn config(&self, text: &str) -> PathBuf {
        let path = self.path("settings.toml");
        fs::write(&path, text).unwrap();
        path
    }
}

#[test]
fn the_names_are_listed_with_settings_that_train() {
    let folder = Folder::new();
    let listing = run("agent list --format json", &[]).json();
    let agents = listing["agents"].as_array().unwrap();
    assert!(agents.len() >= 2, "{listing}");
    for agent in agents {
        let file = folder.path("settings.json");
        fs::write(&file, agent["settings"].to_string()).unwrap();
        let hash = |words: &str, paths: &[&Path]| {
            let words = format!("agent train {words} --steps 40 --seed 5 --quiet --format json");
            run(&words, paths).json()["policy_hash"].clone()
        };
        let name = agent["name"].as_str().unwrap();
        assert_eq!(hash(name, &[]), hash("{}", &[&file]), "{name}");
    }
}

#[test]
fn training_without_a_folder_writes_nothing() {
    let folder = Folder::new();
    let config = folder.config(&settings(600, ""));
    let mut train = command("agent train {} --format json", &[&config]);
    let train = train.current_dir(folder.0.path());
    let answer = finish(train).json();
    assert_eq!(answer["steps"], 600);
    assert_eq!(answer["weights"], Value::Null);
    assert_eq!(listing(folder.0.path()), ["settings.toml"]);
}

#[test]
fn trained_weights_are_evaluated() {
    let folder = Folder::new();
    let (config, out) = (folder.config(&settings(1000, "")), folder.path("run"));
    let trained = run("agent train {} --run {} --format json", &[&config, &out]).json();
    let files = listing(&out);
    for name in [
        "checkpoint-0000001000",
        "metrics.jsonl",
        "weights.safetensors",
    ] {
        assert!(files.iter().any(|file| file == name), "{name}: {files:?}");
    }
    assert!(
        files
            .iter()
            .any(|file| file.starts_with("events.out.tfevents.")),
        "{files:?}"
    );
    let weights = PathBuf::from(trained["weights"].as_str().unwrap());
    let words = "agent eval {} --model {} --episodes 30 --seed 9 --format json";
    let evaluated = run(words, &[&config, &weights]).json();
    assert_eq!(evaluated["policy_hash"], trained["policy_hash"]);
    assert_eq!(evaluated["episodes"], 30);
    let mut again = run(words, &[&config, &weights]).json();
    for key in ["seconds", "env_steps_per_s"] {
        again[key] = evaluated[key].clone();
    }
    assert_eq!(again, evaluated);
    let folder = weights.parent().unwrap();
    let words = "agent eval --model {} --episodes 30 --seed 9 --format json";
    let of_folder = run(words, &[folder]).json();
    assert_eq!(of_folder["mean_return"], evaluated["mean_return"]);
    let message = run("agent eval --model {}", &[&weights]).error(2);
    assert!(message.contains("weights alone"), "{message}");
}

/// Settings with which the agents of all algorithms learn a little in a moment.
const ALGORITHMS: [&str; 5] = [
    "name = 'dqn', learning_starts = 200, network = { hidden = [16] }",
    "name = 'apex', n_actors = 1, lock_step = true, network = { hidden = [16] }, replay = { min_rows = 200 }, block_rows = 50",
    "name = 'impala', n_actors = 1, lock_step = true, batch_trajectories = 2, network = { hidden = [16] }",
    "name = 'impala', n_actors = 1, lock_step = true, batch_trajectories = 2, network = { hidden = [16], lstm = 8 }",
    "name = 'reinforce', network = { hidden = [16] }",
];

#[test]
fn the_agents_of_all_algorithms_are_evaluated() {
    for algorithm in ALGORITHMS {
        let folder = Folder::new();
        let environment = "environment = { name = 'cartpole', n_environments = 2 }";
        let text = format!("steps = 1000\n{environment}\nalgorithm = {{ {algorithm} }}\n");
        let (config, out) = (folder.config(&text), folder.path("run"));
        let trained = run("agent train {} --run {} --format json", &[&config, &out]).json();
        assert!(trained["updates"].as_f64().unwrap() > 0.0, "{trained}");
        let weights = out.join("weights.safetensors");
        let words = "agent eval {} --model {} --episodes 20 --seed 9 --format json";
        let evaluated = run(words, &[&config, &weights]).json();
        assert_eq!(
            evaluated["policy_hash"], trained["policy_hash"],
            "{algorithm}"
        );
        let number = |key: &str| evaluated[key].as_f64().unwrap();
        let returns = ["min_return", "mean_return", "max_return"].map(number);
        assert!(
            returns.is_sorted() && returns[0] >= 1.0 && returns[2] <= 500.0,
            "{evaluated}"
        );
        let again = run(words, &[&config, &weights]).json();
        assert_eq!(
            again["mean_return"], evaluated["mean_return"],
            "{algorithm}"
        );
        let message = run("agent eval cartpole-impala --model {}", &[&weights]).error(2);
        assert!(message.contains("another network"), "{message}");
    }
}

/// A folder that has the name of settings does not hide them.
#[test]
fn a_folder_of_the_name_of_settings_is_no_file_of_them() {
    let folder = Folder::new();
    let trained = finish(
        command(
            "agent train cartpole-dqn --steps 200 --quiet --run cartpole-dqn",
            &[],
        )
        .current_dir(folder.path("")),
    );
    trained.ok();
    let words = "agent eval cartpole-dqn --model cartpole-dqn/weights.safetensors --episodes 2";
    finish(command(words, &[]).current_dir(folder.path(""))).ok();
}

#[test]
fn a_run_without_an_update_is_said_to_be_one() {
    let run = run("agent train cartpole-dqn --steps 100", &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr.starts_with("warning: there were too few steps"),
        "{run:?}"
    );
    assert_eq!(run.line("updates"), "0");
}

#[test]
fn any_number_of_ranks_learns_the_same() {
    let folder = Folder::new();
    let config = folder.config(&settings(600, "gradient_blocks = 4"));
    let hash = |n_ranks: u32| {
        let words = format!("agent train {{}} --ranks {n_ranks} --format json");
        let answer = run(&words, &[&config]).json();
        assert_eq!(answer["ranks"], n_ranks);
        answer["policy_hash"].clone()
    };
    assert_eq!(hash(1), hash(3));
    let message = run("agent train {} --ranks 5", &[&config]).error(2);
    assert!(
        message.contains("`algorithm.gradient_blocks`: expected at least 5"),
        "{message}"
    );
}

#[test]
fn bad_input_is_named() {
    let folder = Folder::new();
    let message = run("agent train cartpole-qdn", &[]).error(2);
    assert!(
        message.contains("no settings of this name; did you mean `cartpole-dqn`?"),
        "{message}"
    );
    let refused = |text: &str| run("agent train {}", &[&folder.config(text)]).error(2);
    for (text, expected) in [
        (
            format!("schema_version = 2\n{}", settings(10, "")),
            "settings.toml:1: `schema_version`: expected 1, given 2",
        ),
        (
            settings(10, "learning_rat = 1.0"),
            "settings.toml:13: `algorithm.learning_rat`: unknown field",
        ),
        (
            settings(10, "gamma = 1.5"),
            "settings.toml:13: `algorithm.gamma`: expected 0 to 1, given 1.5",
        ),
        (
            settings(10, "replay = { capacity = 31 }"),
            "settings.toml:13: `algorithm.replay.capacity`: expected `batch_size`, 32,",
        ),
        (
            "steps = 5\n".to_owned(),
            "settings.toml: missing field `environment`",
        ),
        (
            "environment = { name = 'cartpole' }\n[algorithm]\nname = 'reinforce'\nnetwork.lstm = 4\n".to_owned(),
            "settings.toml:4: `algorithm.network.lstm`: expected none; IMPALA learns with a memory, given 4",
        ),
        (
            settings(10, "").replace("[32]", "[0]"),
            "settings.toml:12: `algorithm.network`: expected layers of at least 1",
        ),
    ] {
        let message = refused(&text);
        assert!(message.contains(expected), "{message}");
        // No name of the program's own types.
        assert!(!message.contains("Some(") && !message.contains(" { "));
    }
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = Folder::new();
    let (config, out) = (folder.config(&settings(300, "")), folder.path("run"));
    run("agent train {} --run {}", &[&config, &out]).ok();
    let message = run("agent train {} --run {}", &[&config, &out]).error(2);
    assert!(message.contains("has a run already"), "{message}");
    let weights = out.join("weights.safetensors");
    let message = run("agent eval cartpole-dqn --model {}", &[&weights]).error(2);
    assert!(
        message.contains("[4, 32]") && message.contains("[4, 120]"),
        "{message}"
    );
    let message = run("agent eval {} --model {}", &[&config, &config]).error(2);
    assert!(message.contains("settings.toml"), "{message}");
    let message = run("agent train --run {} --resume", &[&folder.path("nothing")]).error(2);
    assert!(message.contains("no complete checkpoint"), "{message}");
}

/// Processes that meet over TCP; to resume, the first sends the others its checkpoint.
#[test]
fn processes_learn_what_one_rank_learns() {
    let folder = Folder::new();
    let config = folder.config(&settings(600, "gradient_blocks = 4"));
    let (one, many) = (folder.path("one"), folder.path("many"));
    let (begin, resume) = (
        "agent train {} --run {} --timeout 60",
        "agent train --run {} --resume --steps 900 --timeout 60 --format json",
    );
    run(begin, &[&config, &one]).ok();
    let expected = run(resume, &[&one]).json();
    for answer in run_all(3, begin, &[&config, &many]) {
        answer.ok();
    }
    let mut answers = run_all(3, resume, &[&many]).into_iter();
    let first = answers.next().unwrap().json();
    assert_eq!(
        (&first["ranks"], &first["policy_hash"]),
        (&3.into(), &expected["policy_hash"])
    );
    assert!(answers.all(|answer| answer.ok().stdout.is_empty()));
    assert_eq!(metrics(&many), metrics(&one));
}

/// The metrics without what a clock says.
fn metrics(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.retain(|key, _| key != "time/steps_per_second" && key != "wall_time");
        line
    };
    text.lines().map(line).collect()
}

/// With an exploration that does not fall: how it falls is planned by the first number of steps.
#[test]
fn a_run_that_is_prolonged_is_the_run_that_was_never_stopped() {
    let folder = Folder::new();
    let exploration = "exploration = { start = 0.2, end = 0.2 }";
    let config = folder.config(&settings(2000, exploration));
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    let expected = run("agent train {} --run {} --format json", &[&config, &whole]).json();
    let part = run(
        "agent train {} --run {} --steps 1000 --format json",
        &[&config, &parts],
    )
    .json();
    assert_ne!(part["policy_hash"], expected["policy_hash"]);
    let words = "agent train --run {} --resume --steps 2000 --format json";
    let rest = run(words, &[&parts]).json();
    assert_eq!(
        (&rest["steps"], &rest["policy_hash"]),
        (&1000.into(), &expected["policy_hash"])
    );
    let weights = |out: &Path| fs::read(out.join("weights.safetensors")).unwrap();
    assert!(weights(&parts) == weights(&whole), "the weights differ");
    assert_eq!(metrics(&parts), metrics(&whole));
    let answer = run("agent train --run {} --resume --format json", &[&parts]).json();
    assert_eq!(
        (&answer["steps"], &answer["policy_hash"]),
        (&0.into(), &expected["policy_hash"])
    );
    let longer = run(
        "agent train --run {} --resume --steps 2500 --format json",
        &[&parts],
    )
    .json();
    assert_eq!(longer["steps"], 500);
}

#[test]
fn killed_again_and_again_it_still_ends_the_same() {
    let folder = Folder::new();
    let config = folder.config(&settings(6000, ""));
    let (whole, killed) = (folder.path("whole"), folder.path("killed"));
    run("agent train {} --run {}", &[&config, &whole]).ok();
    let mut n_kills = 0;
    for i in 0u64..10 {
        let mut train = match has_checkpoint(&killed, 0) {
            true => command("agent train --run {} --resume", &[&killed]),
            false => command("agent train {} --run {}", &[&config, &killed]),
        };
        let child = train
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(1 + i * 61 % 97));
        n_kills += u32::from(kill(child));
    }
    assert!(n_kills >= 2, "only {n_kills} kills hit");
    match has_checkpoint(&killed, 0) {
        true => run("agent train --run {} --resume", &[&killed]),
        false => run("agent train {} --run {}", &[&config, &killed]),
    }
    .ok();
    let weights = |out: &Path| fs::read(out.join("weights.safetensors")).unwrap();
    assert!(weights(&killed) == weights(&whole), "the weights differ");
    assert_eq!(metrics(&killed), metrics(&whole));
}
