//! Training on several processes: one policy for every number of ranks and back end, and faults of one rank.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::program::{Run, command, finish, listing, run, wait, within_deadline};
use crate::ranks::kill::{has_checkpoint, n_steps};
use crate::ranks::processes::{
    World, finish_all, lost_rank_message, mpi, run_all, stop, under_mpiexec,
};

const FILES: [&str; 3] = ["policy.safetensors", "metrics.jsonl", "policy.json"];

/// A short run that fills its memory early and makes several checkpoints.
struct Setup {
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Setup {
    fn new() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("c.toml");
        let text = "seed = 5\nbatch_size = 16\ncheckpoint_steps = 20\nepsilon_decay_steps = 20\n\
            embed_dim = 16\ngraphs = [\"er:30:0.2\", \"ba:70:2\"]\ntarget_sync_steps = 15\n";
        fs::write(&config, text).unwrap();
        Setup { folder, config }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The words of a new run.
    fn begin(steps: u32) -> String {
        format!("train --config {{}} --steps {steps} --format json --run {{}}")
    }
}

fn resume(steps: u32) -> String {
    format!("train --run {{}} --resume --steps {steps} --format json")
}

/// The answer of rank 0; the others print nothing.
fn answer(runs: Vec<Run>) -> Value {
    let mut runs = runs.into_iter();
    let first = runs.next().unwrap().json();
    for other in runs {
        assert_eq!(other.ok().stdout, "");
    }
    first
}

fn files(out: &Path) -> [Vec<u8>; 3] {
    FILES.map(|name| fs::read(out.join(name)).unwrap())
}

fn assert_same_files(found: &Path, expected: &Path, what: &str) {
    let pairs = files(found).into_iter().zip(files(expected));
    for (name, (found, expected)) in FILES.iter().zip(pairs) {
        assert!(found == expected, "{what}: {name} differs");
    }
}

/// Threads and processes: the hash of one rank, and its files byte for byte.
#[test]
fn every_number_of_ranks_has_one_training_hash() {
    let setup = Setup::new();
    let whole = setup.out("whole");
    let words = Setup::begin(60);
    let one = run(&format!("{words} --ranks 1"), &[&setup.config, &whole]).json();
    assert!(one["final_loss"].is_number(), "it did learn: {one}");
    let check = |found: &Value, out: &Path, what: &str| {
        assert_eq!(found["policy_hash"], one["policy_hash"], "{what}");
        assert_same_files(out, &whole, what);
    };
    for n_ranks in 2..=6 {
        let out = setup.out(&format!("threads-{n_ranks}"));
        let words = format!("{words} --ranks {n_ranks}");
        let found = run(&words, &[&setup.config, &out]).json();
        check(&found, &out, &format!("{n_ranks} threads"));
    }
    for n_ranks in [2, 3, 6] {
        let out = setup.out(&format!("tcp-{n_ranks}"));
        let found = answer(run_all(n_ranks, &words, &[&setup.config, &out]));
        assert_eq!(found["ranks"], n_ranks);
        check(&found, &out, &format!("{n_ranks} processes over TCP"));
    }
}

/// And under mpiexec; a run that MPI ranks began goes on in others.
#[test]
fn training_under_mpiexec_has_the_same_hash() {
    let Some((mpiexec, library)) = mpi() else {
        return;
    };
    let setup = Setup::new();
    let whole = setup.out("whole");
    let one = run(&Setup::begin(60), &[&setup.config, &whole]).json();
    let under = |n_ranks: u32, words: &str, paths: &[&Path]| {
        let words = format!("{words} --mpi-library {{}}");
        let same = command(&words, &[paths, &[&library]].concat());
        let mut started = under_mpiexec(&mpiexec, &n_ranks.to_string(), &same);
        finish(&mut started).json() // one document: printed once
    };
    for n_ranks in [2, 3, 6] {
        let out = setup.out(&format!("mpi-{n_ranks}"));
        let found = under(n_ranks, &Setup::begin(60), &[&setup.config, &out]);
        assert_eq!(found["ranks"], n_ranks);
        assert_eq!(found["policy_hash"], one["policy_hash"], "{n_ranks} ranks");
        assert_same_files(&out, &whole, &format!("{n_ranks} MPI ranks"));
    }
    // What only rank 0 can see reaches MPI's ranks too.
    let words = format!("{} --mpi-library {{}}", Setup::begin(60));
    let again = command(&words, &[&setup.config, &whole, &library]);
    let again = finish(&mut under_mpiexec(&mpiexec, "3", &again));
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("aborted by rank 0"), "{again:?}");
    let parts = setup.out("parts");
    under(3, &Setup::begin(27), &[&setup.config, &parts]);
    answer(run_all(2, &resume(43), &[&parts]));
    under(2, &resume(60), &[&parts]);
    assert_same_files(&parts, &whole, "MPI, TCP, MPI");
}

/// A run goes on with another number of ranks on another back end as if nothing had been.
#[test]
fn a_run_goes_on_with_other_ranks() {
    let setup = Setup::new();
    let (whole, parts) = (setup.out("whole"), setup.out("parts"));
    run(&Setup::begin(90), &[&setup.config, &whole]).json();
    let begun = answer(run_all(3, &Setup::begin(27), &[&setup.config, &parts]));
    assert_eq!(begun["steps"], 27);
    run(&format!("{} --ranks 2", resume(50)), &[&parts]).json();
    answer(run_all(2, &resume(71), &[&parts]));
    let last = answer(run_all(6, &resume(90), &[&parts]));
    assert_eq!(last["steps"], 19);
    assert_same_files(&parts, &whole, "resumed");
}

/// The same relative folder in each rank's own place, as on hosts that share no disk.
#[test]
fn only_rank_0_needs_the_folder() {
    let setup = Setup::new();
    let places = [0, 1, 2].map(|rank| setup.out(&format!("host-{rank}")));
    for place in &places {
        fs::create_dir(place).unwrap();
    }
    let run_apart = |words: &str, paths: &[&Path]| {
        let world = World::new(3);
        let rank = |rank: u32| {
            let mut command = world.rank(rank, words, paths);
            command.current_dir(&places[rank as usize]);
            command
        };
        answer(finish_all((0..3).map(rank).collect()))
    };
    run_apart(&Setup::begin(25), &[&setup.config, Path::new("run")]);
    run_apart(&resume(40), &[Path::new("run")]);
    assert_eq!(listing(&places[0]), ["run"]);
    assert_eq!(listing(&places[1]), [""; 0]);
    assert_eq!(listing(&places[2]), [""; 0]);
    let whole = setup.out("whole");
    run(&Setup::begin(40), &[&setup.config, &whole]).json();
    assert_same_files(&places[0].join("run"), &whole, "apart");
}

/// All ranks end with this code, and each says these words; none leaves an answer.
fn assert_all_end(runs: Vec<Run>, code: i32, words: &[&str]) {
    for run in runs {
        let message = run.error(code);
        for words in words {
            assert!(message.contains(words), "no `{words}`: {message}");
        }
    }
}

#[test]
fn different_inputs_are_refused_on_all_ranks() {
    let setup = Setup::new();
    let (out, other) = (setup.out("out"), setup.out("other.toml"));
    fs::write(&other, "seed = 6\n").unwrap();
    let steps = "train --steps 30 --run {}";
    for (usual, odd, config, what) in [
        (
            steps,
            "train --steps 31 --run {}",
            None,
            "training settings",
        ),
        (
            steps,
            "train --steps 30 --seed 2 --run {}",
            None,
            "training settings",
        ),
        (
            steps,
            "train --steps 30 --run {} --config {}",
            Some(&other),
            "training settings",
        ),
        (steps, "train --steps 30 --run {} --resume", None, "folder"),
    ] {
        let world = World::new(3);
        let command = |rank| match (rank, config) {
            (1, Some(config)) => world.rank(rank, odd, &[&out, config]),
            (1, None) => world.rank(rank, odd, &[&out]),
            _ => world.rank(rank, usual, &[&out]),
        };
        let runs = finish_all((0..3).map(command).collect());
        assert_all_end(runs, 2, &["rank 1 has another", what]);
        assert!(!out.exists(), "{odd}");
    }
}

#[test]
fn the_folder_of_another_run_is_refused_on_all_ranks() {
    let setup = Setup::new();
    let (one, other) = (setup.out("one"), setup.out("other"));
    run("train --steps 5 --run {}", &[&one]).ok();
    run("train --steps 5 --seed 2 --run {}", &[&other]).ok();
    let before = files(&one);
    let world = World::new(2);
    let ranks = [&one, &other].into_iter().zip(0..);
    let commands = ranks.map(|(folder, rank)| world.rank(rank, &resume(9), &[folder]));
    let runs = finish_all(commands.collect());
    assert_all_end(runs, 2, &["rank 1 has another folder"]);
    assert!(files(&one) == before);
}

/// Each rank reads its own copy of a graph.
#[test]
fn different_graph_files_are_refused_on_all_ranks() {
    let setup = Setup::new();
    let run_apart = |texts: [Option<&str>; 3], words: &str| {
        let world = World::new(3);
        let rank = |rank: u32| {
            let place = setup.out(&format!("host-{rank}"));
            fs::create_dir_all(&place).unwrap();
            let graph = place.join("g.el");
            match texts[rank as usize] {
                Some(text) => fs::write(graph, text).unwrap(),
                None => fs::remove_file(graph).unwrap_or_default(),
            }
            let mut command = world.rank(rank, words, &[]);
            command.current_dir(place);
            command
        };
        finish_all((0..3).map(rank).collect())
    };
    let (graph, shorter) = ("a b\nb c\nc d\nd a\n", "a b\nb c\nc d\n");
    let begin = "train --graphs g.el --steps 5 --run run";
    let runs = run_apart([Some(graph), Some(shorter), Some(graph)], begin);
    assert_all_end(runs, 2, &["rank 1 has another set of graph files"]);
    let runs = run_apart([Some(graph), Some(graph), None], begin);
    assert_all_end(runs, 2, &["g.el", "there is no such file"]);
    let out = setup.out("host-0").join("run");
    assert!(!out.exists(), "made for settings that cannot be right");

    run_apart([Some(graph); 3], begin)
        .into_iter()
        .for_each(|run| drop(run.ok()));
    let before = files(&out);
    let runs = run_apart(
        [Some(graph), Some(graph), Some(shorter)],
        "train --run run --resume --steps 9",
    );
    assert_all_end(runs, 2, &["is not the graph that the run was started with"]);
    assert!(files(&out) == before);
}

/// What only rank 0 can see ends all at once, with its reason.
#[test]
fn an_error_of_rank_0_reaches_all() {
    let setup = Setup::new();
    let used = setup.out("used");
    run("train --steps 3 --run {}", &[&used]).ok();
    let runs = run_all(3, "train --steps 5 --run {}", &[&used]);
    assert_all_end(runs, 2, &["has a run already"]);
    let held = fs::File::open(&used).unwrap();
    held.lock().unwrap();
    let runs = run_all(3, &resume(5), &[&used]);
    assert_all_end(runs, 2, &["another process trains in this folder"]);
    drop(held);
    let runs = run_all(2, &resume(2), &[&used]);
    assert_all_end(runs, 2, &["the run is at step 3 already"]);
    let nothing = setup.out("nothing");
    let runs = run_all(3, &resume(5), &[&nothing]);
    assert_all_end(runs, 2, &["no complete checkpoint"]);
    // In the middle of the run: a file stands where the second checkpoint is to go.
    let blocked = setup.out("blocked");
    fs::create_dir(&blocked).unwrap();
    fs::write(blocked.join("checkpoint-0000000040"), "").unwrap();
    let runs = run_all(3, &Setup::begin(60), &[&setup.config, &blocked]);
    assert!(runs[1].stderr.contains("aborted by rank 0"), "{runs:?}");
    assert_all_end(runs, 2, &["checkpoint-0000000040", "File exists"]);
    assert!(!blocked.join("policy.safetensors").exists());
    assert_eq!(n_steps(&blocked), 40);
}

/// A file of settings that one rank cannot read: it says why, rank 0 says who, and nobody waits.
#[test]
fn an_unreadable_config_of_one_rank_ends_all() {
    let setup = Setup::new();
    let (out, wrong) = (setup.out("out"), setup.out("wrong.toml"));
    fs::write(&wrong, "steps = []\n").unwrap();
    let world = World::new(3);
    let config = |rank| if rank == 2 { &wrong } else { &setup.config };
    let words = Setup::begin(5);
    let commands = (0..3).map(|rank| world.rank(rank, &words, &[config(rank), &out]));
    let runs = finish_all(commands.collect());
    let codes: Vec<_> = runs.iter().map(|run| run.code).collect();
    assert_eq!(codes, [Some(2); 3], "{runs:?}");
    assert!(runs[0].stderr.contains("rank 2"), "{runs:?}");
    assert_eq!(runs[1].stderr, "");
    assert!(runs[2].stderr.contains("wrong.toml"), "{runs:?}");
    assert!(!out.exists());
}

/// A run too long to end by itself.
struct LongRun {
    ranks: Vec<Child>,
    out: PathBuf,
}

impl LongRun {
    /// Running, with a checkpoint.
    fn start(setup: &Setup, name: &str, size: u32, deadline_s: u32) -> LongRun {
        let (world, out) = (World::new(size), setup.out(name));
        let words = format!("{} --timeout {deadline_s}", Setup::begin(1_000_000));
        let start = |rank| {
            let mut command = world.rank(rank, &words, &[&setup.config, &out]);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let ranks = (0..size).map(start).collect();
        within_deadline(|| has_checkpoint(&out, 40).then_some(())).expect("some steps");
        LongRun { ranks, out }
    }

    /// What the others say, once they have ended.
    fn survivors(&mut self, victim: usize) -> Vec<String> {
        let ranks = self.ranks.iter_mut().enumerate();
        let others = ranks.filter(|(rank, _)| *rank != victim);
        others.map(|(_, rank)| lost_rank_message(rank)).collect()
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            // Most have ended.
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// SIGKILL of any rank: the others end long before their deadline and name it, and the run can be resumed.
#[test]
fn a_killed_rank_is_named_and_the_run_resumes() {
    let setup = Setup::new();
    for victim in 0..3 {
        let mut run = LongRun::start(&setup, &format!("run-{victim}"), 3, 200);
        run.ranks[victim].kill().unwrap();
        for message in run.survivors(victim) {
            let lost = format!("rank {victim} was lost");
            assert!(message.contains(&lost), "{message}");
        }
        wait(&mut run.ranks[victim]);
        let n_steps = n_steps(&run.out) as u32 + 20;
        let whole = setup.out(&format!("whole-{victim}"));
        crate::program::run(&Setup::begin(n_steps), &[&setup.config, &whole]).json();
        answer(run_all(2, &resume(n_steps), &[&run.out]));
        assert_same_files(&run.out, &whole, "after a kill");
    }
}

/// A rank that is stopped: the others wait for the deadline and name it.
#[test]
fn a_stopped_rank_is_named_after_the_deadline() {
    let setup = Setup::new();
    let mut run = LongRun::start(&setup, "run", 3, 6);
    stop(&run.ranks[1]);
    for message in run.survivors(1) {
        let late = message.contains("timed out after 6s: ranks [1]");
        assert!(late, "{message}");
    }
}
