//! `--device`: the kernels' emulation beside the program, and what happens without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shardgraph_device::EMULATOR_FILE;
use tempfile::TempDir;

use crate::program::{Run, command, finish, run};

/// The program in a folder of its own, where the emulator may stand beside it.
pub(crate) struct Installed {
    folder: TempDir,
    program: PathBuf,
}

impl Installed {
    /// A link, not a copy: a file that has just been written may still be open in another test's child and then cannot
    /// be run. Links reach no other file system, so the folder stands beside the program.
    fn new() -> Self {
        let built = Path::new(env!("CARGO_BIN_EXE_shardgraph"));
        let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let program = folder.path().join("shardgraph");
        fs::hard_link(built, &program).unwrap();
        Self { folder, program }
    }

    /// The program with the emulator, or `None` after a printed line where no C++ compiler built one.
    pub(crate) fn with_emulator() -> Option<Self> {
        let Some(library) = shardgraph_cuemu::library() else {
            println!(
                "SKIPPED: solves with --device emulated ({})",
                shardgraph_cuemu::SKIP_REASON
            );
            return None;
        };
        let installed = Self::new();
        fs::copy(library, installed.folder.path().join(EMULATOR_FILE)).unwrap();
        Some(installed)
    }

    /// The same command of the program here.
    pub(crate) fn command(&self, same: &Command) -> Command {
        let mut command = Command::new(&self.program);
        command.args(same.get_args()).stdin(Stdio::null());
        let set = same.get_envs();
        command.envs(set.filter_map(|(name, value)| Some((name, value?))));
        command
    }

    pub(crate) fn run(&self, words: &str, paths: &[&Path]) -> Run {
        let same = command(words, paths);
        finish(Command::new(&self.program).args(same.get_args()))
    }
}

/// Lists and a bit matrix, small and beyond one block of threads, one and several nodes a step.
#[test]
fn emulated_covers_are_the_hosts() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (on_host, emulated) = (folder.path().join("host"), folder.path().join("emulated"));
    for words in [
        "solve --method policy karate",
        "solve --method policy karate --nodes-per-step 3 --preset paper",
        "solve --method policy er:400:0.15 --seed 3 --nodes-per-step adaptive",
        "solve --method policy ba:400:4 --seed 3 --nodes-per-step adaptive",
        "solve --method policy er:0:0.5",
    ] {
        let want = run(&format!("{words} --out {{}}"), &[&on_host]).ok();
        let got = installed
            .run(
                &format!("{words} --out {{}} --device emulated"),
                &[&emulated],
            )
            .ok();
        for name in ["objective", "verified", "steps", "path"] {
            assert_eq!(got.line(name), want.line(name), "{words}");
        }
        assert_eq!(
            fs::read(&emulated).unwrap(),
            fs::read(&on_host).unwrap(),
            "{words}"
        );
    }
}

/// The model's own operations: a checked cover, the same for every number of ranks.
#[test]
fn other_policies_run_emulated_on_any_number_of_ranks() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (one, three) = (folder.path().join("one"), folder.path().join("three"));
    let words = "solve --method policy karate --model mvc-three-layers --device emulated --out {}";
    assert_eq!(installed.run(words, &[&one]).ok().line("verified"), "yes");
    installed.run(&format!("{words} --ranks 3"), &[&three]).ok();
    assert_eq!(fs::read(&one).unwrap(), fs::read(&three).unwrap());
}

#[test]
fn emulated_training_is_the_same_on_any_number_of_ranks() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let train = |n_ranks: u32| {
        let out = folder.path().join(n_ranks.to_string());
        let words =
            format!("train --steps 80 --seed 3 --ranks {n_ranks} --device emulated --run {{}}");
        let answer = installed.run(&words, &[&out]).ok();
        assert_ne!(answer.line("final loss"), "none", "no step learned");
        fs::read(out.join("policy.safetensors")).unwrap()
    };
    assert_eq!(train(1), train(2));
}

/// Policies of REGAL: as many steps, with a policy file that places graphs; the run goes on there alone.
#[test]
fn emulated_training_for_placement_writes_a_policy() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = "place train --graphs costgraph:2 --steps 2 --device emulated --run {}";
    let answer = installed.run(words, &[&out]).ok();
    assert_eq!(answer.line("device"), "emulated");
    assert!(out.join("policy.safetensors").is_file());
    let words = "place train --resume --steps 3 --run {}";
    let message = run(words, &[&out]).error(2);
    assert!(
        message.contains("the run computes on `emulated`"),
        "{message}"
    );
}

/// R-GCN: a folder that the host reads, and goes on with nowhere else.
#[test]
fn emulated_training_of_relations_is_read_by_the_host() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = "rgcn train ba-rel:150:2.5:4 --bases 3 --epochs 5 --device emulated --run {}";
    let answer = installed.run(words, &[&out]).ok();
    assert_eq!(answer.line("device"), "emulated");
    let scores = answer.line("test accuracy");
    let read = run("rgcn eval ba-rel:150:2.5:4 --model {}", &[&out]).ok();
    assert_eq!(read.line("test accuracy"), scores);
    let words = "rgcn train ba-rel:150:2.5:4 --epochs 6 --resume --run {}";
    let message = run(words, &[&out]).error(2);
    assert!(
        message.contains("the run computes on `emulated`"),
        "{message}"
    );
    let words = "rgcn train ba-rel:150:2.5:4 --dropout 0.5 --device emulated";
    let message = installed.run(words, &[]).error(2);
    assert!(message.contains("does not go with dropout"), "{message}");
}

/// The network of a policy computes there, and the search on the host.
#[test]
fn an_emulated_policy_places_as_on_the_host() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let words = "place costgraph:1 --devices 2 --model low-budget --method regal --evaluations 200";
    let wanted = run(words, &[]).ok();
    let given = installed
        .run(&format!("{words} --device emulated"), &[])
        .ok();
    assert_eq!(given.line("runtime"), wanted.line("runtime"));
    let message = installed
        .run("place costgraph:1 --device emulated", &[])
        .error(2);
    assert!(message.contains("--model"), "{message}");
}

/// What the device does not do is refused with what does it; nothing is done on the host instead.
#[test]
fn what_the_emulated_device_lacks_is_refused() {
    let Some(installed) = Installed::with_emulator() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words = "solve --method policy karate --ranks 2 --out {} --device emulated";
    let message = installed.run(words, &[&out]).error(2);
    assert!(message.contains("--device host"), "{message}");
    assert!(!out.exists(), "{words}");
}

#[test]
fn an_emulator_that_is_absent_or_none_is_a_missing_device() {
    let installed = Installed::new();
    let message = installed
        .run("solve --method policy karate --device emulated", &[])
        .error(3);
    assert!(message.contains(EMULATOR_FILE), "{message}");
    fs::write(installed.folder.path().join(EMULATOR_FILE), "no library").unwrap();
    let message = installed
        .run("solve --method policy karate --device emulated", &[])
        .error(3);
    assert!(message.contains(EMULATOR_FILE), "{message}");
}
