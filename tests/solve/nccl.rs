//! `--comm nccl`: ranks with a device each, played by emulated devices and the emulated library of collectives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{Run, run, wait};
use crate::ranks::processes::{World, finish_all, lost_rank_message};
use crate::solve::devices::Installed;

/// The program with the emulator, and the library; or `None` after a printed line.
fn installed() -> Option<(Installed, PathBuf)> {
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
            "train --steps 80 --seed 3 --ranks {n_ranks} --device emulated --run {{}} {how}"
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
    let words = "solve --method policy karate --model mvc-three-layers --device emulated --out {}";
    installed.run(words, &[&one]).ok();
    let words = format!("{words} --ranks 3 --comm nccl --nccl-library {{}}");
    installed.run(&words, &[&three, &library]).ok();
    assert_eq!(fs::read(&one).unwrap(), fs::read(&three).unwrap());
}

#[test]
fn what_a_group_needs_is_said() {
    for words in [
        "solve --method policy karate",
        "train --steps 1 --run never-made",
    ] {
        let message = run(&format!("{words} --comm nccl"), &[]).error(2);
        assert!(message.contains("--device cuda"), "{message}");
        let message = run(&format!("{words} --comm nccl --device cuda:99"), &[]).error(3);
        assert!(message.contains("cuda:99"), "{message}");
    }
    let message = run(
        "solve --method policy karate --nccl-library libnccl.so.2",
        &[],
    )
    .error(2);
    assert!(message.contains("--comm nccl"), "{message}");
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let words = "solve --method policy karate --comm nccl --device emulated --nccl-library no/such/libnccl.so";
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
        let words = "solve --method policy karate --comm nccl --device cuda:99";
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
        "solve --method policy karate --model mvc-three-layers",
        "train --steps 80 --seed 3 --run {}",
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

/// Processes that join a group through the emulated library, which connects threads only: each waits for the others as for ranks that never come, until
/// it hears of one by other ways.
struct Apart {
    installed: Installed,
    library: PathBuf,
    folder: tempfile::TempDir,
}

impl Apart {
    fn new() -> Option<Self> {
        let (installed, library) = installed()?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            installed,
            library,
            folder,
        })
    }

    /// The library under a name that plants a fault.
    fn planted(&self, fault: &str) -> PathBuf {
        let planted = self.folder.path().join(format!("libnccl-{fault}-.so"));
        fs::copy(&self.library, &planted).unwrap();
        planted
    }

    /// One rank, whose deadline is longer than the test waits for it.
    fn rank(&self, world: &World, rank: u32, library: &Path) -> Command {
        let words = "solve --method policy karate --model mvc-three-layers --device emulated --comm nccl --timeout 120 --nccl-library {}";
        self.installed.command(&world.rank(rank, words, &[library]))
    }

    /// What three ranks say of which rank `culprit` has another library.
    fn with_one_odd(&self, culprit: u32, fault: &str) -> Vec<Run> {
        let (world, odd) = (World::new(3), self.planted(fault));
        let library = |rank| if rank == culprit { &odd } else { &self.library };
        let commands = (0..3).map(|rank| self.rank(&world, rank, library(rank)));
        finish_all(commands.collect())
    }
}

/// One rank cannot join, for reasons that are found at different times: all end at once, with its exit code, and name it.
#[test]
fn a_process_that_cannot_join_ends_all_with_its_code() {
    let Some(apart) = Apart::new() else {
        return;
    };
    for (culprit, fault, code, why) in [
        (1, "version-21900", 2, "rank 1 has NCCL 2.19.0"),
        (
            2,
            "genuine",
            2,
            "works on GPUs only, not on device `emulated`",
        ),
        (1, "version-21205", 3, "2.18.0 or newer is needed"),
        (0, "no-id", 1, "ncclGetUniqueId"),
        (2, "init-fails", 4, "unhandled system error (status 2)"),
    ] {
        let runs = apart.with_one_odd(culprit, fault);
        let codes: Vec<_> = runs.iter().map(|run| run.code).collect();
        assert_eq!(codes, [Some(code); 3], "{fault}: {runs:?}");
        assert!(
            runs[culprit as usize].stderr.contains(why),
            "{fault}: {runs:?}"
        );
        let name = format!("rank {culprit}");
        for (rank, run) in (0..).zip(&runs).filter(|(rank, _)| *rank != culprit) {
            let is_told = run.stderr.contains(&name);
            // What is found before the ranks begin, one rank says for all.
            let is_silent = run.stderr.is_empty() && rank != 0;
            assert!(is_told || is_silent, "{fault}, rank {rank}: {runs:?}");
        }
    }
}

/// While its peers wait inside the library: they end by themselves, long before their deadline, and name it.
#[test]
fn a_process_that_is_killed_is_named_by_those_who_wait_for_it_in_a_group() {
    let Some(apart) = Apart::new() else {
        return;
    };
    let world = World::new(3);
    let start = |rank| {
        let mut command = apart.rank(&world, rank, &apart.library);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut ranks: Vec<_> = (0..3).map(start).collect();
    thread::sleep(Duration::from_millis(2500)); // all are joining by then, on most machines; if not, they hear of it elsewhere
    assert_eq!(ranks[1].try_wait().unwrap(), None);
    ranks[1].kill().unwrap();
    for rank in [0, 2] {
        let message = lost_rank_message(&mut ranks[rank]);
        assert!(message.contains("rank 1 was lost"), "{message}");
    }
    wait(&mut ranks[1]);
}
