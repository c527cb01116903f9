//! Exit codes that are neither 0 nor 2, closed pipes, help and version.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{command, run, wait};

#[test]
fn a_missing_device_is_3() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // Missing on every machine, also on one with GPUs. `drivers.rs` and `devices.rs` have the other ways to be missing.
    let device = "cuda:4000000000";
    for words in [
        "solve --method policy karate --out {}",
        "train --steps 2 --run {}",
    ] {
        let message = run(&format!("{words} --device {device}"), &[&out]).error(3);
        assert!(message.contains(device), "{message}");
        assert!(!out.exists());
    }
    run("solve --method policy karate --device host", &[]).ok();
}

#[test]
fn a_lost_rank_is_4() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // Ranks look for each other a moment before they wait, but not in each of thousands of meetings of six.
    for words in [
        "solve --method policy er:2000:0.2 --ranks 6 --timeout 1e-9 --out {}",
        "solve --method policy ba:5000:2 --ranks 6 --timeout 1e-9 --out {} --format json",
    ] {
        let message = run(words, &[&out]).error(4);
        assert!(message.contains("timed out"), "{message}");
        assert!(!out.exists());
    }
    let words = "train --steps 200 --ranks 6 --timeout 1e-9 --run {}";
    run(words, &[&out]).error(4);
    assert!(!out.join("policy.safetensors").exists());
}

#[test]
fn standard_output_that_fails_is_1() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("SKIPPED: a full disk under standard output (no /dev/full here)");
        return;
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut child = command("solve --method policy karate", &[])
        .stdout(full.unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(wait(&mut child).code(), Some(1));
    let mut message = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut message).unwrap();
    assert!(message.starts_with("error: cannot write"), "{message}");
}

#[test]
fn an_answer_is_printed_although_its_file_cannot_be_written() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        println!("SKIPPED: a full disk under a cover (no /dev/full here)");
        return;
    }
    for (words, expected) in [
        ("solve --method policy karate --out {}", "\nobjective "),
        (
            "solve --method policy karate --format json --out {}",
            "\"objective\": ",
        ),
        (
            "solve --method policy karate --ranks 2 --out {}",
            "\nverified       yes\n",
        ),
        ("score karate --top 1 --out {}", "\nload time "),
        ("score karate --format json --out {}", "\"top\": ["),
        ("eval karate --svg {}", "karate"),
        ("eval karate --format json --svg {}", "\"graphs\": ["),
        (
            "rgcn train ba-rel:60:2:2 --epochs 1 --svg {}",
            "test accuracy ",
        ),
    ] {
        let run = run(words, &[full]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.starts_with("error: /dev/full: "), "{run:?}");
        assert!(run.stdout.contains(expected), "{run:?}");
        // What is not there is not named.
        assert!(!run.stdout.contains("cover file"), "{run:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for words in [
        "solve --method policy er:200:0.1",
        "solve --method policy karate --format json",
        "info karate",
        "place costgraph:1",
        // Ends with its reader; all of it would take longer than the test waits.
        "place costgraph:2000 --all --evaluations 20000 --format json",
        "--help",
        "solve --help",
    ] {
        let mut child = command(words, &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let status = wait(&mut child);
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        assert_eq!((status.code(), &*stderr), (Some(0), ""), "{words}");
    }
}

#[test]
fn help_has_an_example_and_the_exit_codes() {
    let help = run("--help", &[]).ok();
    assert!(help.stdout.contains("4  a rank was lost"), "{help:?}");
    for subcommand in [
        "solve", "score", "train", "place", "generate", "info", "convert",
    ] {
        assert!(
            help.stdout.contains(&format!("\n  {subcommand} ")),
            "{help:?}"
        );
        let own = run(&format!("{subcommand} --help"), &[]).ok();
        let example = format!("\n  shardgraph {subcommand} ");
        assert!(own.stdout.contains(&example), "{own:?}");
    }
    let version = run("--version", &[]).ok();
    let expected = format!("shardgraph {}\nrevision: ", env!("CARGO_PKG_VERSION"));
    assert!(version.stdout.starts_with(&expected), "{version:?}");
    assert!(
        version.stdout.contains("\nvector instructions: "),
        "{version:?}"
    );
    let short = run("-V", &[]).ok();
    assert_eq!(
        short.stdout,
        format!("shardgraph {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn standard_error_is_silent_unless_asked() {
    run("solve --method policy er:300:0.3", &[]).ok();
    let verbose = run("solve --method policy karate -v", &[]);
    assert_eq!(verbose.code, Some(0));
    assert!(
        verbose.stderr.starts_with("note: stored as bits"),
        "{verbose:?}"
    );
}

/// Ctrl-C says what was saved, and the command that goes on.
#[test]
fn an_interrupted_run_says_how_to_go_on_and_is_130() {
    let folder = tempfile::tempdir().unwrap();
    let (work, out) = (folder.path().join("work"), folder.path().join("e.npy"));
    let words = "embed ba:4000:8 --epochs 2000 --dim 32 --checkpoint-interval 0 --work {} --out {}";
    let mut own = command(words, &[&work, &out]);
    let mut child = own.stderr(Stdio::piped()).spawn().unwrap();
    // A checkpoint is there once its MANIFEST is.
    let is_whole = |entry: fs::DirEntry| entry.path().join("MANIFEST").exists();
    let has_checkpoint = || {
        let mut entries = fs::read_dir(&work).into_iter().flatten().flatten();
        entries.any(is_whole)
    };
    while !has_checkpoint() && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.unwrap().success());
    assert_eq!(wait(&mut child).code(), Some(130));
    let mut text = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut text).unwrap();
    let command = "go on with `shardgraph embed ba:4000:8 --epochs 2000 --dim 32";
    assert!(
        text.contains("the checkpoints up to now are in") && text.contains(command),
        "{text}"
    );
}
