//! `cuda/harness.cu` as a program for the emulator: its plain loops agree with the kernels, and it says so by its exit code.

use std::path::Path;
use std::process::Command;

use shardgraph_cuemu::compile;

/// Builds the harness for one file of kernels, with `flags`, and runs it: its output and whether all was right.
fn run(case: &str, flags: &[&str]) -> Option<(String, bool)> {
    let (Some(compiler), Some(library)) = (compile::compiler(), shardgraph_cuemu::library()) else {
        println!("SKIPPED: the harness: {}", shardgraph_cuemu::SKIP_REASON);
        return None;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda/harness.cu");
    let name = format!("harness-{case}-{}", flags.len());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new(&compiler[0])
        .args(&compiler[1..])
        .args([
            "-std=c++17",
            "-O1",
            "-Wall",
            "-Werror",
            "-DHARNESS_EMULATED",
        ])
        .arg(format!("-DHARNESS_{case}"))
        .args(flags)
        .args(["-x", "c++"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let output = Command::new(program)
        .arg(library)
        .arg("1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Some((text, output.status.code() == Some(0)))
}

#[test]
fn kernels_are_what_the_plain_loops_compute() {
    for (case, n_compared) in [("OPTIMISER", 3), ("SPARSE", 1), ("SGNS", 2)] {
        if let Some((text, is_right)) = run(case, &[]) {
            assert!(is_right, "{text}");
            assert_eq!(text.matches("right:").count(), n_compared, "{text}");
        }
    }
}

/// Plain loops with half their result.
#[test]
fn a_difference_is_an_exit_code() {
    if let Some((text, is_right)) = run("OPTIMISER", &["-DHARNESS_PLANTED=0.5"]) {
        assert!(!is_right && text.contains("WRONG"), "{text}");
    }
}
