//! kill -9 during training: at most the steps since the last checkpoint are lost, and the result is the same.

#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{command, run, wait, within_deadline};

/// A run that takes a few hundred milliseconds at least, with a checkpoint every `checkpoint_steps`.
struct Scenario {
    folder: tempfile::TempDir,
    config: PathBuf,
}

const N_STEPS: u32 = 400;

impl Scenario {
    fn new(checkpoint_steps: u32) -> Scenario {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("c.toml");
        let text = format!(
            "steps = {N_STEPS}\nseed = 3\nbatch_size = 32\ncheckpoint_steps = {checkpoint_steps}\n"
        );
        fs::write(&config, text).unwrap();
        Scenario { folder, config }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn train(&self, out: &Path) {
        run("train --config {} --out {}", &[&self.config, out]).ok();
    }

    fn start(&self, out: &Path) -> Child {
        start("train --config {} --out {}", &[&self.config, out])
    }
}

fn start(words: &str, paths: &[&Path]) -> Child {
    let mut command = command(words, paths);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn resume_words() -> String {
    format!("train --resume {{}} --steps {N_STEPS}")
}

/// Kills as `kill -9` does; true if the process was still running.
fn kill(mut child: Child) -> bool {
    child.kill().unwrap();
    wait(&mut child).signal() == Some(9)
}

fn has_checkpoint(out: &Path) -> bool {
    let Ok(entries) = fs::read_dir(out) else {
        return false;
    };
    entries
        .filter_map(Result::ok)
        .any(|entry| entry.path().join("MANIFEST").exists())
}

/// The files that must be the same byte for byte.
fn result(out: &Path) -> [Vec<u8>; 3] {
    ["policy.safetensors", "metrics.jsonl", "policy.json"]
        .map(|name| fs::read(out.join(name)).unwrap())
}

fn assert_same(found: &Path, expected: &Path) {
    let [found, expected] = [found, expected].map(result);
    assert!(found[0] == expected[0], "the policies differ");
    assert!(found[1] == expected[1], "the metrics differ");
    assert!(found[2] == expected[2], "the settings differ");
}

#[test]
fn after_a_checkpoint_the_run_resumes() {
    let scenario = Scenario::new(20);
    let (whole, killed) = (scenario.out("whole"), scenario.out("killed"));
    let child = scenario.start(&killed);
    within_deadline(|| has_checkpoint(&killed).then_some(())).expect("a checkpoint");
    assert!(kill(child), "the run was over before it could be killed");
    assert!(!killed.join("policy.safetensors").exists());
    // A second start must not run over what is there.
    run("train --config {} --out {}", &[&scenario.config, &killed]).error(2);
    run(&resume_words(), &[&killed]).ok();
    scenario.train(&whole);
    assert_same(&killed, &whole);
}

#[test]
fn before_a_checkpoint_the_run_starts_again() {
    let scenario = Scenario::new(N_STEPS + 1);
    let whole = scenario.out("whole");
    scenario.train(&whole);
    for (i, n_lines) in [0, 1, 7, 60].into_iter().enumerate() {
        let killed = scenario.out(&format!("killed-{i}"));
        let child = scenario.start(&killed);
        let enough = || {
            let metrics = fs::read_to_string(killed.join("metrics.jsonl"));
            let is_enough = metrics.is_ok_and(|text| text.lines().count() >= n_lines);
            (is_enough || n_lines == 0).then_some(())
        };
        within_deadline(enough).expect("some steps");
        assert!(kill(child), "the run was over before it could be killed");
        let message = run(&resume_words(), &[&killed]).error(2);
        assert!(message.contains("no complete checkpoint"), "{message}");
        scenario.train(&killed);
        assert_same(&killed, &whole);
    }
}

#[test]
fn killed_again_and_again_it_still_ends_the_same() {
    let scenario = Scenario::new(5);
    let (whole, killed) = (scenario.out("whole"), scenario.out("killed"));
    scenario.train(&whole);
    let mut n_kills = 0;
    // Waits between 1 and 97 ms in an order without pattern: kills fall into steps, checkpoints and their removal.
    for i in 0u64..12 {
        let child = match has_checkpoint(&killed) {
            true => start(&resume_words(), &[&killed]),
            false => scenario.start(&killed),
        };
        thread::sleep(Duration::from_millis(1 + i * 61 % 97));
        n_kills += u32::from(kill(child));
    }
    assert!(n_kills >= 4, "only {n_kills} kills hit");
    let last = match has_checkpoint(&killed) {
        true => run(&resume_words(), &[&killed]),
        false => run("train --config {} --out {}", &[&scenario.config, &killed]),
    };
    last.ok();
    assert_same(&killed, &whole);
}
