//! `shardgraph agent train` with a learner, shards and actors: threads, processes that are killed, and resumed runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::agent::runs::Folder;
use crate::program::{Run, command, finish, run, within_deadline};
use crate::ranks::kill::kill;
use crate::ranks::processes::{World, finish_all};

/// Settings of a run that takes a moment.
fn apex(steps: u64, more: &str) -> String {
    format!(
        "seed = 5\nsteps = {steps}\ncheckpoint_steps = 1000\nenvironment = {{ name = 'cartpole', n_environments = 4 }}\n\
         [algorithm]\nname = 'apex'\nnetwork = {{ hidden = [16] }}\nbatch_size = 32\n\
         replay = {{ min_rows = 400, samples_per_insert = 1.0 }}\n{more}\n"
    )
}

fn impala(steps: u64, more: &str) -> String {
    format!(
        "seed = 5\nsteps = {steps}\ncheckpoint_steps = 1000\nenvironment = {{ name = 'cartpole', n_environments = 8 }}\n\
         [algorithm]\nname = 'impala'\nnetwork = {{ hidden = [16] }}\nbatch_trajectories = 8\n{more}\n"
    )
}

fn reinforce(steps: u64) -> String {
    format!(
        "seed = 5\nsteps = {steps}\ncheckpoint_steps = 500\nenvironment = {{ name = 'cartpole' }}\n\
         algorithm = {{ name = 'reinforce', network = {{ hidden = [16] }} }}\n"
    )
}

#[test]
fn threads_learn_and_say_how() {
    let folder = Folder::new();
    for text in [
        apex(2000, "n_actors = 2"),
        impala(2000, ""),
        reinforce(1000),
    ] {
        let config = folder.config(&text);
        let answer = run("agent train {} --format json", &[&config]).json();
        let n = |key: &str| answer[key].as_f64().unwrap();
        assert!(
            n("steps") >= 1000.0 && n("updates") > 0.0 && n("episodes") > 0.0,
            "{answer}"
        );
        assert!(n("max_policy_lag") >= n("mean_policy_lag"), "{answer}");
        assert_eq!(answer["lost"], Value::Array(Vec::new()));
    }
}

#[test]
fn processes_learn_and_the_learner_speaks_for_all() {
    let folder = Folder::new();
    for (text, size) in [(apex(3000, "n_shards = 2"), 5), (impala(3000, ""), 3)] {
        let config = folder.config(&text);
        let world = World::new(size);
        let words = "agent train {} --format json --timeout 60";
        let ranks = (0..size).map(|rank| world.rank(rank, words, &[&config]));
        let mut runs = finish_all(ranks.collect()).into_iter();
        let answer = runs.next().unwrap().json();
        assert!(answer["steps"].as_f64().unwrap() >= 3000.0, "{answer}");
        assert_eq!(answer["lost"], Value::Array(Vec::new()), "{answer}");
        runs.for_each(|other| drop(other.ok()));
    }
}

/// On a busy machine processes may start when the others have made all steps: they hear that, and end well.
#[test]
fn processes_that_come_when_the_run_is_over_hear_it() {
    let folder = Folder::new();
    let words = "agent train {} --run {} --format json --timeout 60";
    for (name, text, early, late) in [
        (
            "apex",
            apex(1500, "n_shards = 2"),
            &[0, 1, 3][..],
            &[4, 2][..],
        ),
        ("impala", impala(1500, ""), &[0, 1][..], &[2][..]),
    ] {
        let (config, out) = (folder.config(&text), folder.path(name));
        let world = World::new((early.len() + late.len()) as u32);
        let start = |rank: &u32| {
            let mut command = world.rank(*rank, words, &[&config, &out]);
            thread::spawn(move || finish(&mut command))
        };
        let early: Vec<_> = early.iter().map(start).collect();
        let is_over = || out.join("weights.safetensors").exists().then_some(());
        within_deadline(is_over).expect("the end of the run");
        for rank in late {
            start(rank).join().unwrap().ok();
        }
        let mut early = early.into_iter().map(|run| run.join().unwrap());
        let answer = early.next().unwrap().json();
        assert_eq!(answer["lost"], Value::Array(Vec::new()), "{answer}");
        early.for_each(|other| drop(other.ok()));
    }
}

#[test]
fn a_process_that_never_comes_is_named() {
    let folder = Folder::new();
    let config = folder.config(&impala(1000, ""));
    let world = World::new(3);
    let words = "agent train {} --format json --timeout 6";
    let ranks = [0, 1].map(|rank| world.rank(rank, words, &[&config]));
    let mut runs = finish_all(ranks.into()).into_iter();
    without_one(runs.next().unwrap(), "actor 2: it did not come within 6 s");
    runs.next().unwrap().ok();
}

/// In lock step processes, threads and one thread give the same bits.
#[test]
fn lock_step_on_processes_is_lock_step_in_one() {
    let folder = Folder::new();
    for (text, size) in [
        (apex(2000, "lock_step = true\nn_actors = 1"), 3),
        (impala(2000, "lock_step = true\nn_actors = 1"), 2),
    ] {
        let config = folder.config(&text);
        let expected = run("agent train {} --format json", &[&config]).json();
        let world = World::new(size);
        let words = "agent train {} --format json --timeout 60";
        let ranks = (0..size).map(|rank| world.rank(rank, words, &[&config]));
        let answer = finish_all(ranks.collect()).swap_remove(0).json();
        for key in ["policy_hash", "steps", "updates", "mean_return"] {
            assert_eq!(answer[key], expected[key], "{key}");
        }
    }
}

#[test]
fn an_actor_that_is_killed_is_named_and_the_run_goes_on() {
    let folder = Folder::new();
    let text = apex(400_000, "").replace("checkpoint_steps = 1000", "checkpoint_steps = 10_000");
    let (config, out) = (folder.config(&text), folder.path("run"));
    let world = World::new(4);
    let words = "agent train {} --run {} --format json --timeout 60";
    let quiet = |rank| {
        let mut rank = world.rank(rank, words, &[&config, &out]);
        rank.stdout(Stdio::null()).stderr(Stdio::null());
        rank
    };
    let victim = quiet(3).spawn().unwrap();
    let others: Vec<_> = [1, 2].map(|rank| quiet(rank).spawn().unwrap()).into();
    let learner = thread::spawn({
        let mut command = world.rank(0, words, &[&config, &out]);
        move || finish(&mut command)
    });
    within_deadline(|| has_episode_of_the_last_actor(&out).then_some(())).expect("actor 3");
    let was_killed = kill(victim);
    let run = learner.join().unwrap();
    for mut other in others {
        assert!(other.wait().unwrap().success());
    }
    assert!(was_killed, "the run was over before the kill");
    let answer = without_one(run, "actor 3");
    assert!(answer["steps"].as_f64().unwrap() >= 400_000.0, "{answer}");
}

/// Whether the metrics have an episode of the last of two actors, which explores the least: with probability 0.4^8.
fn has_episode_of_the_last_actor(out: &Path) -> bool {
    let metrics = fs::read_to_string(out.join("metrics.jsonl")).unwrap_or_default();
    let lines = metrics.lines().map(serde_json::from_str::<Value>);
    let epsilon = |line: Value| line["train/epsilon"].as_f64();
    let mut epsilons = lines.filter_map(|line| epsilon(line.ok()?)); // the last line may be half written
    epsilons.any(|epsilon| epsilon < 0.01)
}

#[test]
fn a_learner_that_is_killed_ends_the_others_and_goes_on_from_its_checkpoint() {
    let folder = Folder::new();
    let config = folder.config(&apex(200_000, ""));
    let out = folder.path("run");
    let world = World::new(3);
    let words = "agent train {} --run {} --timeout 20";
    let learner = world
        .rank(0, words, &[&config, &out])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let others: Vec<_> = [1, 2]
        .map(|rank| {
            let mut command = world.rank(rank, words, &[&config, &out]);
            thread::spawn(move || finish(&mut command))
        })
        .into();
    within_deadline(|| newest(&out)).expect("a checkpoint");
    assert!(kill(learner), "the run was over before the kill");
    for other in others {
        let message = other.join().unwrap().error(4);
        assert!(
            message.contains("has lost the learner") && message.contains("resume it"),
            "{message}"
        );
    }
    let steps = newest(&out).unwrap() + 3000;
    let words = format!("agent train --run {{}} --resume --steps {steps} --format json");
    let answer = run(&words, &[&out]).json(); // now as threads
    assert!(answer["updates"].as_f64().unwrap() > 0.0, "{answer}");
}

/// The step of the newest checkpoint.
fn newest(out: &Path) -> Option<u64> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let whole = entries.filter(|entry| entry.path().join("MANIFEST").exists());
    let step = |name: &str| name.strip_prefix("checkpoint-")?.parse().ok();
    whole
        .filter_map(|entry| step(entry.file_name().to_str()?))
        .max()
}

/// The folder of a run that was killed between its first checkpoint and its end.
fn killed_run(folder: &Folder, config: &Path) -> PathBuf {
    // On a busy machine a run may be over before it is looked at: then again.
    let attempt = |n: u32| {
        let out = folder.path(&format!("killed-{n}"));
        let child = command("agent train {} --run {}", &[config, &out])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        within_deadline(|| newest(&out)).expect("a checkpoint");
        kill(child).then_some(out)
    };
    let killed = (0..20).find_map(attempt);
    killed.expect("every run was over before it could be killed")
}

#[test]
fn lock_step_and_reinforce_are_prolonged_bit_for_bit() {
    for text in [
        apex(4000, "lock_step = true\nn_actors = 1"),
        impala(4000, "lock_step = true\nn_actors = 1"),
        reinforce(4000),
    ] {
        let folder = Folder::new();
        let config = folder.config(&text);
        let whole = folder.path("whole");
        run("agent train {} --run {}", &[&config, &whole]).ok();
        let killed = killed_run(&folder, &config);
        run("agent train --run {} --resume", &[&killed]).ok();
        let weights = |out: &Path| fs::read(out.join("weights.safetensors")).unwrap();
        assert!(weights(&killed) == weights(&whole), "the weights differ");
    }
}

/// Settings that cannot be right, and a part of the message.
fn bad_settings() -> Vec<(String, &'static str)> {
    vec![
        (
            apex(10, "lock_step = true"),
            "`algorithm.lock_step`: expected false, or one actor and one shard",
        ),
        (
            apex(10, "block_rows = 0"),
            "`algorithm.block_rows`: expected 1 to 1048576, given 0",
        ),
        (apex(10, "actors = 3"), "unknown field `actors`"),
        (
            impala(10, "").replace("batch_trajectories = 8", "batch_trajectories = 12"),
            "`algorithm.batch_trajectories`: expected a multiple of `n_environments`, 8, given 12",
        ),
        (
            reinforce(10).replace(
                "network",
                "optimiser = { rule = 'adam', learning_rate = nan }, network",
            ),
            "`algorithm.optimiser`",
        ),
        (
            reinforce(10).replace("[16]", "[0]"),
            "`algorithm.network`: expected layers of at least 1",
        ),
        (
            impala(10, "unroll_steps = 0"),
            "`algorithm.unroll_steps`: expected 1 to 1024, as each is a part of the learner's program, given 0",
        ),
        (
            impala(10, "gamma = 2.0"),
            "`algorithm.gamma`: expected 0 to 1, given 2",
        ),
    ]
}

#[test]
fn bad_settings_are_named() {
    let folder = Folder::new();
    for (text, expected) in bad_settings() {
        let message = run("agent train {}", &[&folder.config(&text)]).error(2);
        assert!(message.contains(expected), "{message}");
    }
    for comm in ["mpi", "nccl", "auto --mpi-library libmpi.so"] {
        let message = run(&format!("agent train cartpole-apex --comm {comm}"), &[]).error(2);
        assert!(message.contains("over TCP"), "{message}");
    }
    let message = run("agent train cartpole-apex --comm tcp", &[]).error(2);
    assert!(message.contains("no launcher has said"), "{message}");
    let message = run("agent train cartpole-apex --ranks 2", &[]).error(2);
    assert!(
        message.contains("shares the batches of `dqn`, `ppo` and `sac`"),
        "{message}"
    );
}

/// Every process says what cannot be, whoever else is there.
#[test]
fn processes_that_cannot_train_say_so_before_they_meet() {
    let folder = Folder::new();
    let lock_step = "lock_step = true\nn_actors = 1";
    for (text, size, expected) in [
        (apex(100, ""), 2, "apex: expected at least 3 processes"),
        (
            apex(100, lock_step),
            4,
            "apex: expected exactly 3 processes",
        ),
        (
            impala(100, lock_step),
            3,
            "impala: expected exactly 2 processes",
        ),
        (
            reinforce(100),
            2,
            "expected apex or impala, to train on several processes",
        ),
    ] {
        let config = folder.config(&text);
        let world = World::new(size);
        for rank in [0, size - 1] {
            // Alone: it looks for those to whom it must say so.
            let mut command = world.rank(rank, "agent train {} --timeout 0.2", &[&config]);
            let message = finish(&mut command).error(2);
            assert!(message.contains(expected), "{message}");
        }
    }
}

/// Settings that nobody can read are said at once, though it is not known what the others are waiting for.
#[test]
fn a_process_without_settings_says_so_soon() {
    let folder = Folder::new();
    let world = World::new(3);
    let missing = folder.path("missing.toml");
    let mut command = world.rank(2, "agent train {} --timeout 2", &[&missing]);
    let message = finish(&mut command).error(2);
    assert!(
        message.contains("missing.toml: there is no such file"),
        "{message}"
    );
}

/// Of a learner that cannot begin all others hear why, soon, whether they come before it knows or after.
#[test]
fn a_learner_that_cannot_begin_says_why() {
    let folder = Folder::new();
    let (config, missing) = (folder.config(&apex(1000, "")), folder.path("missing.toml"));
    let words = "agent train {} --run {} --timeout 100";
    let device = "agent train {} --run {} --timeout 100 --device cuda";
    let old = folder.path("run");
    run("agent train {} --run {}", &[&config, &old]).ok();
    for (learner, out, expected) in [
        (
            (words, &missing),
            "new",
            "missing.toml: there is no such file",
        ),
        ((words, &config), "run", "has a run already"),
        ((device, &config), "new", "cuda"),
    ] {
        if expected == "cuda" && has_cuda() {
            println!("SKIPPED: a learner without a GPU: this machine has one");
            continue;
        }
        let (world, out) = (World::new(3), folder.path(out));
        let mut commands = vec![world.rank(0, learner.0, &[learner.1, &out])];
        commands.extend([1, 2].map(|rank| world.rank(rank, words, &[&config, &out])));
        let mut runs = finish_all(commands).into_iter();
        let own = runs.next().unwrap();
        assert!(own.stderr.contains(expected), "{own:?}");
        for other in runs {
            let message = other.error(2);
            let is_told = message.contains("rank 0 cannot") && message.contains(expected);
            assert!(is_told, "{message}");
        }
    }
}

fn has_cuda() -> bool {
    run(
        "agent train cartpole-dqn --steps 1 --quiet --device cuda",
        &[],
    )
    .code
        == Some(0)
}

/// A shard that cannot take part is not waited for, and without an actor the learner ends as soon.
#[test]
fn a_process_that_cannot_begin_says_why_to_the_learner() {
    let folder = Folder::new();
    let (config, missing) = (folder.config(&apex(1000, "")), folder.path("missing.toml"));
    let words = "agent train {} --timeout 100";
    for (broken, named) in [
        (1, "shard 1: it cannot"),
        (2, "all actors are lost: actor 2: it cannot"),
    ] {
        let world = World::new(3);
        let config_of = |rank| if rank == broken { &missing } else { &config };
        let ranks = (0..3).map(|rank| world.rank(rank, words, &[config_of(rank)]));
        let mut runs = finish_all(ranks.collect());
        let message = runs.remove(broken as usize).error(2);
        assert!(
            message.contains("missing.toml: there is no such file"),
            "{message}"
        );
        let message = runs.remove(0).error(4);
        assert!(
            message.contains(named) && message.contains("missing.toml"),
            "{message}"
        );
        let message = runs.remove(0).error(4);
        let is_told = message.contains("rank 0 cannot go on") && message.contains("missing.toml");
        assert!(is_told, "{message}");
    }
}

/// A process with other settings is refused by the learner, which goes on with those that have its own.
#[test]
fn other_settings_are_refused() {
    let folder = Folder::new();
    let config = folder.config(&impala(3000, ""));
    let other = folder.path("other.toml");
    fs::write(&other, impala(3000, "gamma = 0.9")).unwrap();
    let world = World::new(3);
    let words = "agent train {} --format json --timeout 60";
    let learner = thread::spawn({
        let mut command = world.rank(0, words, &[&config]);
        move || finish(&mut command)
    });
    let message = finish(&mut world.rank(2, words, &[&other])).error(2);
    assert!(message.contains("with settings"), "{message}");
    finish(&mut world.rank(1, words, &[&config])).ok();
    let answer = without_one(learner.join().unwrap(), "actor 2: rank 0 runs version");
    assert!(answer["steps"].as_f64().unwrap() >= 3000.0, "{answer}");
}

/// The answer of a run that ended well without one rank, which it names.
fn without_one(run: Run, named: &str) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    let warning = format!("warning: lost {named}");
    assert!(run.stderr.starts_with(&warning), "{run:?}");
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let lost = answer["lost"].as_array().unwrap();
    let is_named = lost.len() == 1 && lost[0].as_str().unwrap().starts_with(named);
    assert!(is_named, "{answer}");
    answer
}

/// Where a run is to end is compared too: an actor that ends before it would leave the learner waiting.
#[test]
fn another_last_step_is_refused() {
    let folder = Folder::new();
    let (config, out) = (folder.config(&impala(1000, "")), folder.path("run"));
    run("agent train {} --run {}", &[&config, &out]).ok();
    let world = World::new(3);
    let longer = "agent train --run {} --resume --steps 3000 --format json --timeout 60";
    let learner = thread::spawn({
        let mut command = world.rank(0, longer, &[&out]);
        move || finish(&mut command)
    });
    let as_before = "agent train --run {} --resume --timeout 60";
    let message = finish(&mut world.rank(2, as_before, &[&out])).error(2);
    assert!(
        message.contains("to step 3000") && message.contains("to step 1000"),
        "{message}"
    );
    finish(&mut world.rank(1, longer, &[&out])).ok();
    let answer = without_one(learner.join().unwrap(), "actor 2: rank 0 runs version");
    assert!(answer["updates"].as_f64().unwrap() > 0.0, "{answer}");
}

/// All processes of a run that is over end as well as when it was not.
#[test]
fn a_finished_run_is_resumed_by_all_processes() {
    let folder = Folder::new();
    for (name, text, size) in [("apex", apex(1500, ""), 3), ("impala", impala(1500, ""), 3)] {
        let (config, out) = (folder.config(&text), folder.path(name));
        let ranks = |words: &str, paths: &[&Path]| {
            let world = World::new(size);
            let ranks = (0..size).map(|rank| world.rank(rank, words, paths));
            let mut runs = finish_all(ranks.collect()).into_iter();
            let answer = runs.next().unwrap().json();
            runs.for_each(|other| drop(other.ok()));
            answer
        };
        let first = ranks(
            "agent train {} --run {} --format json --timeout 60",
            &[&config, &out],
        );
        let again = ranks(
            "agent train --run {} --resume --format json --timeout 60",
            &[&out],
        );
        assert_eq!(again["steps"], 0, "{again}");
        assert_eq!(again["policy_hash"], first["policy_hash"], "{name}");
    }
}
