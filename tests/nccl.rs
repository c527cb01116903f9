//! `--comm nccl`: ranks with a device each, played by emulated devices and the emulated library of collectives.

use std::fs;
use std::path::Path;

use crate::devices::Installed;
use crate::processes::{World, finish_all};
use crate::program::{Run, run};

/// The program with the emulator, and the library; or `None` after a printed line.
fn installed() -> Option<(Installed, std::path::PathBuf)> {
    let installed = Installed::with_emulator()?;
    let Some(library) = shardgraph_cuemu::collectives() else {
        println!("SKIPPED: --comm nccl on emulated devices (no emulated library of collectives)");
        return None;
    };
    Some((installed, library))
}

#[test]
fn training_through_a_group_is_that_of_one_rank() {
    let Some((installed, library)) = installed() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let train = |how: &str, n_ranks: u32| {
        let out = folder.path().join(format!("{n_ranks}-{}", how.len()));
        let words = format!(
            "train --steps 80 --seed 3 --ranks {n_ranks} --device emulated --out {{}} {how}"
        );
        let paths: &[&Path] = match how.is_empty() {
            true => &[&out],
            false => &[&out, &library],
        };
        let run = installed.run(&words, paths).ok();
        let loss = run.line("final loss");
        assert!(loss.parse::<f32>().is_ok(), "it has learned: {loss}");
        fs::read(out.join("policy.safetensors")).unwrap()
    };
    let alone = train("", 1);
    for n_ranks in [1, 2, 3] {
        assert_eq!(train("--comm nccl --nccl-library {}", n_ranks), alone);
    }
}

#[test]
fn solving_through_a_group_finds_the_same_cover() {
    let Some((installed, library)) = installed() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (one, three) = (folder.path().join("one"), folder.path().join("three"));
    let words = "solve karate --policy mvc-three-layers --device emulated --out {}";
    installed.run(words, &[&one]).ok();
    let words = format!("{words} --ranks 3 --comm nccl --nccl-library {{}}");
    installed.run(&words, &[&three, &library]).ok();
    assert_eq!(fs::read(&one).unwrap(), fs::read(&three).unwrap());
}

#[test]
fn what_a_group_needs_is_said() {
    for words in ["solve karate", "train --steps 1 --out never-made"] {
        let message = run(&format!("{words} --comm nccl"), &[]).error(2);
        assert!(message.contains("--device cuda"), "{message}");
        let message = run(&format!("{words} --comm nccl --device cuda:99"), &[]).error(3);
        assert!(message.contains("cuda:99"), "{message}");
    }
    let message = run("solve karate --nccl-library libnccl.so.2", &[]).error(2);
    assert!(message.contains("--comm nccl"), "{message}");
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let words = "solve karate --comm nccl --device emulated --nccl-library no/such/libnccl.so";
    let message = installed.run(words, &[]).error(3);
    assert!(
        message.contains("no/such/libnccl.so") && message.contains("--nccl-library"),
        "{message}"
    );
}

/// Processes take the GPU of their place on the host, so they must know it; all end with one code.
#[test]
fn processes_take_a_gpu_each() {
    let end = |local_rank: Option<&str>| -> Vec<Run> {
        let world = World::new(2);
        let words = "solve karate --comm nccl --device cuda:99";
        let start = |rank| {
            let mut command = world.rank(rank, words, &[]);
            if let Some(local_rank) = local_rank {
                command.env("LOCAL_RANK", local_rank);
            }
            command
        };
        finish_all((0..2).map(start).collect())
    };
    for run in end(None) {
        let message = run.error(2);
        assert!(
            message.contains("LOCAL_RANK") || message.contains("rank 0"),
            "{message}"
        );
    }
    for run in end(Some("0")) {
        let message = run.error(3);
        assert!(
            message.contains("cuda:99") || message.contains("rank 0"),
            "{message}"
        );
    }
}

/// Every rank ends with the operation that could not complete: the group is really used, and nobody waits for a deadline.
#[test]
fn a_group_that_breaks_is_a_lost_rank() {
    let Some((installed, library)) = installed() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("libnccl-error-at-9-.so");
    fs::copy(&library, &planted).unwrap();
    let words = "--ranks 2 --device emulated --comm nccl --nccl-library {}";
    for job in [
        "solve karate --policy mvc-three-layers",
        "train --steps 80 --seed 3 --out {}",
    ] {
        let out = folder.path().join("out");
        let paths: &[&Path] = match job.contains("{}") {
            true => &[&out, &planted],
            false => &[&planted],
        };
        let message = installed.run(&format!("{job} {words}"), paths).error(4);
        assert!(message.contains("network error (status 6)"), "{message}");
        assert!(!out.join("policy.safetensors").exists());
    }
}
