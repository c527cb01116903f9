//! kill -9 during training: at most the steps since the last checkpoint are lost, and the result is the same.

#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{command, run, wait, within_deadline};
use crate::ranks::processes::World;

/// A run that takes a few hundred milliseconds at least, with a checkpoint every `checkpoint_steps`.
struct Scenario {
    folder: tempfile::TempDir,
    config: PathBuf,
}

const N_STEPS: u32 = 600;
/// A new run, from a file of settings into a folder.
const BEGIN: &str = "train --config {} --run {}";

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
        run(BEGIN, &[&self.config, out]).ok();
    }

    fn start(&self, out: &Path) -> Child {
        start(BEGIN, &[&self.config, out])
    }

    /// Three processes that begin a run or go on with it. Who dies before it has joined is waited for.
    fn start_ranks(&self, out: &Path) -> Vec<Child> {
        let world = World::new(3);
        let start = |rank| {
            let mut command = match has_checkpoint(out, 0) {
                true => world.rank(rank, &format!("{RESUME} --timeout 30"), &[out]),
                false => {
                    let words = format!("{BEGIN} --timeout 30");
                    world.rank(rank, &words, &[&self.config, out])
                }
            };
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        (0..3).map(start).collect()
    }

    /// The folder of a run that was killed once `is_ready` for it.
    fn killed(&self, name: &str, is_ready: impl Fn(&Path) -> bool) -> PathBuf {
        // On a busy machine a run may be over before it is looked at: then again.
        for attempt in 0..20 {
            let out = self.out(&format!("{name}-{attempt}"));
            let child = self.start(&out);
            within_deadline(|| is_ready(&out).then_some(())).expect("some steps");
            if kill(child) {
                return out;
            }
        }
        panic!("every run was over before it could be killed");
    }
}

fn start(words: &str, paths: &[&Path]) -> Child {
    let mut command = command(words, paths);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// To the step that the killed run was to go to.
const RESUME: &str = "train --run {} --resume";

/// Kills as `kill -9` does; true if the process was still running.
pub(crate) fn kill(mut child: Child) -> bool {
    child.kill().unwrap();
    wait(&mut child).signal() == Some(9)
}

/// Whether there is a complete checkpoint of this step or a later one.
pub(crate) fn has_checkpoint(out: &Path, step: u32) -> bool {
    let Ok(entries) = fs::read_dir(out) else {
        return false;
    };
    let first = format!("checkpoint-{step:010}");
    let is_one = |name: &str| name.starts_with("checkpoint-") && name >= &*first;
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_one))
        .any(|entry| entry.path().join("MANIFEST").exists())
}

/// Whole lines of the metrics, one a step.
pub(crate) fn n_steps(out: &Path) -> usize {
    let metrics = fs::read(out.join("metrics.jsonl")).unwrap_or_default();
    metrics.iter().filter(|&&byte| byte == b'\n').count()
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
    let whole = scenario.out("whole");
    scenario.train(&whole);
    // Later than the first optimiser steps, so that the optimiser has a state to lose.
    let killed = scenario.killed("killed", |out| has_checkpoint(out, 100));
    assert!(!killed.join("policy.safetensors").exists());
    // A second start must not run over what is there.
    run(BEGIN, &[&scenario.config, &killed]).error(2);
    let answer = run(&format!("{RESUME} --format json"), &[&killed]).json();
    let n_lost_and_left = answer["steps"].as_u64().unwrap();
    assert!(n_lost_and_left <= u64::from(N_STEPS) - 100, "{answer}");
    assert_same(&killed, &whole);
}

#[test]
fn before_a_checkpoint_the_run_starts_again() {
    let scenario = Scenario::new(N_STEPS + 1);
    let whole = scenario.out("whole");
    scenario.train(&whole);
    for n_lines in [0, 1, 60] {
        let name = format!("killed-{n_lines}");
        let killed = scenario.killed(&name, |out| n_steps(out) >= n_lines);
        let message = run(RESUME, &[&killed]).error(2);
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
        let child = match has_checkpoint(&killed, 0) {
            true => start(RESUME, &[&killed]),
            false => scenario.start(&killed),
        };
        thread::sleep(Duration::from_millis(1 + i * 61 % 97));
        n_kills += u32::from(kill(child));
    }
    assert!(n_kills >= 2, "only {n_kills} kills hit");
    let last = match has_checkpoint(&killed, 0) {
        true => run(RESUME, &[&killed]),
        false => run(BEGIN, &[&scenario.config, &killed]),
    };
    last.ok();
    assert_same(&killed, &whole);
}

/// Three processes, of which one is killed, or all, again and again; the others never wait for the dead.
#[test]
fn processes_killed_again_and_again_still_end_the_same() {
    let scenario = Scenario::new(5);
    let (whole, killed) = (scenario.out("whole"), scenario.out("killed"));
    scenario.train(&whole);
    let mut n_kills = 0;
    for i in 0..8 {
        let mut ranks = scenario.start_ranks(&killed);
        thread::sleep(Duration::from_millis(60 + i * 61 % 97));
        let i = i as usize;
        let (first, n_victims) = match i % 2 {
            0 => (i / 2 % 3, 1),
            _ => (0, 3),
        };
        for victim in &mut ranks[first..first + n_victims] {
            victim.kill().unwrap();
            n_kills += u32::from(wait(victim).signal() == Some(9));
        }
        // Whoever is left ends by itself: a lost rank, or done.
        for rank in &mut ranks {
            let code = wait(rank).code();
            assert!(matches!(code, None | Some(0 | 4)), "{code:?}");
        }
    }
    assert!(n_kills >= 2, "only {n_kills} kills hit");
    for mut rank in scenario.start_ranks(&killed) {
        assert_eq!(wait(&mut rank).code(), Some(0));
    }
    assert_same(&killed, &whole);
}
