//! CUDA drivers that do not fit, played by a library that a C compiler makes here: a sentence and exit code 3, no panic.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::program::{Run, command, finish};

/// A folder with a driver that does what the environment says, or `None` after a printed line.
fn fake_driver() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ranks/fake_driver.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("SKIPPED: drivers that do not fit (no C compiler `cc`)");
        return None;
    }
    std::fs::hard_link(&library, folder.path().join("libcuda.so.1")).unwrap();
    Some(folder)
}

fn run_with(driver: &TempDir, words: &str, settings: &[(&str, &str)]) -> Run {
    let mut command = command(words, &[]);
    command
        .env("LD_LIBRARY_PATH", driver.path())
        .envs(settings.iter().copied());
    finish(&mut command)
}

#[test]
fn what_is_wrong_with_a_driver_is_said() {
    let Some(driver) = fake_driver() else {
        return;
    };
    let cases: [(&str, (&str, &str), &[&str]); 4] = [
        (
            "cuda",
            ("FAKE_CUDA_INIT", "100"),
            &["no CUDA-capable device is detected", "nvidia-smi"],
        ),
        (
            "cuda:1",
            ("FAKE_CUDA_VERSION", "11080"),
            &["CUDA 11.8", "12.0", "525", "update the driver"],
        ),
        ("cuda", ("FAKE_CUDA_COUNT", "0"), &["shows no GPU"]),
        (
            "cuda:7",
            ("FAKE_CUDA_COUNT", "2"),
            &["2 GPU(s)", "numbered from 0", "cuda:7"],
        ),
    ];
    for (device, setting, wanted) in cases {
        for words in [
            "solve --method policy karate",
            "train --steps 1 --run never-made",
        ] {
            let words = format!("{words} --device {device}");
            let message = run_with(&driver, &words, &[setting]).error(3);
            for part in wanted {
                assert!(message.contains(part), "{message}: no `{part}`");
            }
        }
    }
    assert!(!Path::new("never-made").exists());
}

/// `auto` takes the host where there is no GPU to take, and the answer says so.
#[test]
fn auto_without_a_gpu_is_the_host() {
    let Some(driver) = fake_driver() else {
        return;
    };
    let settings = [("FAKE_CUDA_COUNT", "0")];
    let answer = run_with(
        &driver,
        "solve --method policy karate --device auto",
        &settings,
    )
    .ok();
    assert_eq!(answer.line("device"), "host");
    assert_eq!(answer.line("verified"), "yes");
}
