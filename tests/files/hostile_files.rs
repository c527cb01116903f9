//! Outputs that are no files, limits of the system, and runs whose folder goes away or is damaged.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::program::{command, finish, listing, run, wait, within_deadline};
use crate::ranks::kill::has_checkpoint;
use crate::ranks::processes::{World, finish_all};

fn pipe_in(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "no mkfifo");
    path
}

/// Commands that write one file: words, with `{}` for the file.
const WRITERS: [&str; 5] = [
    "generate er:30:0.2 --out {}",
    "convert karate {} --output-format pace",
    "solve --method policy karate --out {}",
    "embed karate --epochs 1 --dim 4 --out {}",
    "embed import karate --out {}",
];

/// A pipe gets what a file would get, and stays a pipe; a store, which is written at several places,
/// is no stream.
#[test]
fn a_pipe_is_written_to_and_never_replaced() {
    for words in WRITERS {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (pipe_in(folder.path()), folder.path().join("file"));
        if words.starts_with("embed import") {
            let message = run(words, &[&pipe]).error(2);
            assert!(message.contains("a device or a pipe"), "{message}");
        } else {
            let reader = thread::spawn({
                let pipe = pipe.clone();
                move || fs::read(pipe).unwrap()
            });
            run(words, &[&pipe]).ok();
            run(words, &[&file]).ok();
            assert!(
                reader.join().unwrap() == fs::read(&file).unwrap(),
                "{words}"
            );
        }
        let kind = fs::symlink_metadata(&pipe).unwrap().file_type();
        assert!(kind.is_fifo(), "{words}");
    }
}

#[test]
fn a_symbolic_link_is_followed_by_every_command_also_to_a_new_file() {
    for words in WRITERS {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        symlink("file", &link).unwrap();
        for _ in 0..2 {
            run(words, &[&link]).ok();
            assert!(link.is_symlink(), "{words}");
            assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{words}");
        }
        assert_eq!(listing(folder.path()), ["file", "link"], "{words}");
    }
}

#[test]
fn a_socket_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for words in WRITERS {
        let message = run(words, &[&path]).error(2);
        assert!(message.contains("this is a socket"), "{message}");
    }
}

/// The k-th 512 bytes of a file cannot be written, for every k until all can: an error and nothing
/// left, or the answer.
#[test]
fn a_limit_of_file_sizes_is_an_error_that_leaves_nothing() {
    let jobs = [
        "generate er:300:0.2 --out {}",
        "convert karate {} --output-format pace",
        "solve --method policy karate --out {}",
        "embed karate --epochs 1 --dim 32 --out {}",
        "embed import er:300:0.2 --out {}",
    ];
    for words in jobs {
        let limits = [0, 1, 2, 3, 4, 8, 16, 64, 4096];
        for (n_failed, n_blocks) in limits.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let inner = command(words, &[&folder.path().join("out")]);
            let mut limited = Command::new("sh");
            let script = format!("ulimit -f {n_blocks}; exec \"$0\" \"$@\"");
            limited.args(["-c", &script]).arg(inner.get_program());
            let ended = finish(limited.args(inner.get_args()).stdin(Stdio::null()));
            if ended.code == Some(0) {
                assert!(n_failed > 0, "{words}: no limit was met");
                break;
            }
            assert!(ended.stderr.contains("File too large"), "{}", ended.stderr);
            assert_eq!(ended.code, Some(2), "{}", ended.stderr);
            assert!(listing(folder.path()).is_empty(), "{words}: {n_blocks}");
        }
    }
}

#[test]
fn settings_that_never_end_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("long.toml"), "# a comment\n".repeat(100_000)).unwrap();
    symlink("/dev/zero", at("zero.toml")).unwrap();
    for (name, words) in [
        ("long.toml", "more than 1048576 bytes"),
        ("zero.toml", "this is a device"),
    ] {
        for command in [
            "train --config {} --run {}",
            "place train --config {} --run {}",
            "agent train {} --run {}",
        ] {
            let message = run(command, &[&at(name), &at("run")]).error(2);
            assert!(message.contains(words), "{command}: {message}");
        }
    }
    assert!(!at("run").exists());
}

/// The words of a run with a checkpoint every 5 steps.
fn begin(folder: &Path, n_steps: u32) -> String {
    let text = format!("steps = {n_steps}\nseed = 3\nbatch_size = 16\ncheckpoint_steps = 5\n");
    fs::write(folder.join("c.toml"), text).unwrap();
    "train --config {} --run {}".to_owned()
}

#[test]
fn a_run_whose_folder_is_moved_or_removed_does_not_end_well() {
    let scratch = tempfile::tempdir().unwrap();
    let words = begin(scratch.path(), 100_000);
    for is_moved in [true, false] {
        let at = |name: &str| scratch.path().join(format!("{name}-{is_moved}"));
        let mut child = command(&words, &[&scratch.path().join("c.toml"), &at("run")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        within_deadline(|| has_checkpoint(&at("run"), 5).then_some(())).expect("a checkpoint");
        fs::rename(at("run"), at("away")).unwrap();
        if !is_moved {
            fs::remove_dir_all(at("away")).unwrap();
        }
        assert_eq!(wait(&mut child).code(), Some(2));
        assert!(
            !at("run").exists(),
            "nothing was written where nobody looks"
        );
    }
}

/// The newest checkpoint has a changed byte: the run goes on from the one before, and says so.
#[test]
fn a_damaged_checkpoint_costs_the_steps_since_the_one_before_and_a_warning() {
    let scratch = tempfile::tempdir().unwrap();
    let (config, folder) = (scratch.path().join("c.toml"), scratch.path().join("run"));
    run(&begin(scratch.path(), 20), &[&config, &folder]).ok();
    let resume = "train --run {} --resume --steps 30";
    for name in ["MANIFEST", "state.safetensors"] {
        let newest = folder.join("checkpoint-0000000020").join(name);
        let good = fs::read(&newest).unwrap();
        let mut damaged = good.clone();
        damaged[good.len() / 2] ^= 1;
        fs::write(&newest, damaged).unwrap();
        let copy = scratch.path().join(format!("copy-{name}"));
        let copied = Command::new("cp").arg("-r").args([&folder, &copy]).status();
        assert!(copied.unwrap().success());
        let resumed = run(resume, &[&copy]);
        assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
        assert!(
            resumed
                .stderr
                .contains("goes on from the checkpoint before"),
            "{}",
            resumed.stderr
        );
        assert!(resumed.stderr.contains(name), "{}", resumed.stderr);
        fs::write(&newest, good).unwrap();
        let whole = scratch.path().join(format!("whole-{name}"));
        let copied = Command::new("cp")
            .arg("-r")
            .args([&folder, &whole])
            .status();
        assert!(copied.unwrap().success());
        run(resume, &[&whole]).ok(); // without a word
        let policy = |folder: &Path| fs::read(folder.join("policy.safetensors")).unwrap();
        assert!(policy(&copy) == policy(&whole), "the same bits");
    }
}

/// Ranks with one secret solve; one with another secret is refused, and says why.
#[test]
fn a_secret_keeps_strangers_out_of_a_world() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "a secret of the two ranks\n").unwrap();
    let world = World::new(2);
    let rank = |rank, timeout: u32| {
        world.rank(
            rank,
            &format!("solve --method policy karate --timeout {timeout}"),
            &[],
        )
    };
    let (mut first, mut second) = (rank(0, 60), rank(1, 60));
    first.env("SHARDGRAPH_SECRET", "a secret of the two ranks");
    second.env("SHARDGRAPH_SECRET_FILE", &file);
    for ended in finish_all(vec![first, second]) {
        ended.ok();
    }
    let (mut first, mut second) = (rank(0, 5), rank(1, 5));
    first.env("SHARDGRAPH_SECRET", "a secret of the two ranks");
    second.env("SHARDGRAPH_SECRET", "the secret of other ranks");
    let mut ended = finish_all(vec![first, second]).into_iter();
    let (first, second) = (ended.next().unwrap(), ended.next().unwrap());
    assert_eq!((first.code, second.code), (Some(4), Some(2)));
    assert!(
        second.stderr.contains("another secret"),
        "{}",
        second.stderr
    );
    let mut short = rank(0, 5);
    let message = finish(short.env("SHARDGRAPH_SECRET", "short")).error(2);
    assert!(message.contains("expected at least 16"), "{message}");
}
