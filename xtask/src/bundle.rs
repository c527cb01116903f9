//! `cargo xtask bundle`: everything that a machine with a GPU and without Rust needs, in one archive.
//!
//! Stripped binaries (the program, the test binaries that open a GPU, the GPU bench) with the kernels embedded, and
//! `run.sh`, which finds the CUDA libraries of the machine, runs all of it and writes logs and metrics.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::kernels::{self, Built, emulated};
use crate::package;
use crate::process::{self, cargo};
use crate::project;
use crate::sbom;

/// Bench programs of the bundle, as cargo is told of them.
const GPU_BENCH_TARGETS: [&str; 8] = [
    "--package",
    "shardgraph-ops",
    "--package",
    "shardgraph-solver",
    "--bench",
    "gpu",
    "--bench",
    "gpu_policy",
];

/// The same work in PyTorch.
const PEER: &str = "crates/bench/peers/policy_torch.py";

const RUN_SCRIPT: &str = include_str!("bundle/run.sh");

/// No archive is larger: that is what an upload to a borrowed machine may weigh.
const MAX_BYTES: u64 = 64 << 20;

/// What a fat binary begins with.
const FAT_BINARY: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// What in a test's source opens a GPU.
const OPENS_A_GPU: &str = "DeviceKind::Cuda";

/// A program of the bundle and its name there.
struct Program {
    built: PathBuf,
    name: String,
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    if let Some(arg) = args.next()? {
        return Err(arg.unexpected().into());
    }
    match kernels::build(&kernels::Options::default())? {
        done @ Built::Done { .. } => done.print(),
        Built::NoToolchain(why) => bail!("a bundle without kernels is of no use: {why}"),
    }
    let folder = project::target().join("bundle").join("shardgraph");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("tests")).with_context(|| folder.display().to_string())?;
    let n_binaries = kernels::n_current()?;
    for program in programs()? {
        put(&program, &folder)?;
        check_kernels(&folder.join(&program.name), n_binaries)?;
    }
    // The tests open it beside the GPU; the one that they were built with stays here.
    emulated::put_into(&folder)?;
    fs::write(folder.join("run.sh"), RUN_SCRIPT)?;
    fs::copy(project::root().join(PEER), folder.join("peer.py"))?;
    fs::write(folder.join("revision.txt"), revision_text()?)?;
    fs::write(folder.join("sbom.json"), sbom::text()?)?;
    let archive = pack(&folder)?;
    let n_bytes = fs::metadata(&archive)?.len();
    ensure!(
        n_bytes <= MAX_BYTES,
        "{} has {n_bytes} bytes, more than {MAX_BYTES}",
        archive.display()
    );
    println!("bundle: {} ({:.1} MiB)", archive.display(), mib(n_bytes));
    println!("bundle: there: tar -xf shardgraph.tar.xz && OUT=results sh shardgraph/run.sh");
    println!("bundle: back here: cargo xtask bench gpu --results results");
    Ok(ExitCode::SUCCESS)
}

fn mib(n_bytes: u64) -> f64 {
    n_bytes as f64 / f64::from(1 << 20)
}

/// Builds everything that goes in.
fn programs() -> Result<Vec<Program>> {
    let mut programs = vec![Program {
        built: process::build_shardgraph()?,
        name: "shardgraph".to_owned(),
    }];
    // As CI runs them: with the checks of a debug build, and nothing is compiled twice.
    for (target, built) in package::unit_tests_containing(OPENS_A_GPU)? {
        programs.push(Program {
            built,
            name: format!("tests/{target}"),
        });
    }
    let mut build = cargo(&["bench", "--no-run", "--locked"]);
    build.args(GPU_BENCH_TARGETS);
    for (target, built) in package::executables(&mut build)? {
        let name = format!("bench-{target}");
        programs.push(Program { built, name });
    }
    Ok(programs)
}

/// Copies a program without its symbols, which are most of it.
fn put(program: &Program, folder: &Path) -> Result<()> {
    let to = folder.join(&program.name);
    let mut strip = process::command("strip");
    strip
        .arg("--strip-all")
        .arg("-o")
        .arg(&to)
        .arg(&program.built);
    process::check(&mut strip)?;
    println!(
        "bundle: {} ({:.1} MiB)",
        program.name,
        mib(fs::metadata(&to)?.len())
    );
    Ok(())
}

/// Every program holds all fat binaries; one that was built while the sources changed holds none, and says so only there.
fn check_kernels(program: &Path, n_binaries: usize) -> Result<()> {
    let bytes = fs::read(program).with_context(|| program.display().to_string())?;
    let n_found = bytes.windows(4).filter(|word| *word == FAT_BINARY).count();
    ensure!(
        n_found >= n_binaries,
        "{} holds {n_found} fat binaries of {n_binaries}: run `cargo xtask bundle` again",
        program.display()
    );
    Ok(())
}

/// The lines about the revision of `host.txt`, which `run.sh` writes there.
fn revision_text() -> Result<String> {
    let git = |args: &[&str]| process::stdout_of(process::command("git").args(args));
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--", ".", ":!bench-results"])?;
    let is_dirty = !changes.is_empty();
    Ok(format!(
        "revision {}
dirty {is_dirty}
",
        commit.trim()
    ))
}

fn pack(folder: &Path) -> Result<PathBuf> {
    let archive = folder.with_extension("tar.xz");
    let parent = folder.parent().context("the bundle has no folder")?;
    let name = folder.file_name().context("the bundle has no name")?;
    let mut tar = process::command("tar");
    tar.args(["-c", "--xz", "-f"]).arg(&archive);
    tar.args(["--owner=0", "--group=0", "--sort=name", "-C"])
        .arg(parent)
        .arg(name);
    println!("$ {}", process::shown(&tar));
    process::check(&mut tar)?;
    Ok(archive)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{fresh_folder, script};

    /// What the shell script may use beside the shell itself.
    const COREUTILS: [&str; 11] = [
        "cat", "dirname", "env", "ln", "mkdir", "mktemp", "nproc", "rm", "sleep", "timeout",
        "uname",
    ];

    /// A bundle of planted programs, run with nothing but coreutils; exit code, summary and metrics.
    struct Bundle(PathBuf);

    impl Bundle {
        fn new(name: &str) -> Bundle {
            let bundle = Bundle(fresh_folder(name));
            fs::create_dir_all(bundle.0.join("bin")).unwrap();
            for program in COREUTILS {
                let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
                let path = path.iter().find(|path| path.exists()).unwrap();
                std::os::unix::fs::symlink(path, bundle.0.join("bin").join(program)).unwrap();
            }
            fs::write(bundle.0.join("run.sh"), RUN_SCRIPT).unwrap();
            fs::write(bundle.0.join("revision.txt"), "revision abc\ndirty false\n").unwrap();
            bundle.plant("shardgraph", "echo verified yes");
            bundle.plant(
                "tests/one",
                "echo \"$@ ${SHARDGRAPH_EMULATED_LIBRARY##*/}\"; echo METRIC:a/b:1:s",
            );
            bundle.plant("bench-gpu", "echo INFO:device:x; echo METRIC:c/d:2:s");
            bundle
        }

        fn plant(&self, name: &str, body: &str) {
            let path = self.0.join(name);
            script(
                path.parent().unwrap(),
                path.file_name().unwrap().to_str().unwrap(),
                body,
            );
        }

        fn run(&self, steps: &[&str]) -> Option<i32> {
            let mut shell = process::command("/bin/sh");
            shell.arg(self.0.join("run.sh")).args(steps);
            shell.env_clear().env("PATH", self.0.join("bin"));
            shell.env("OUT", self.0.join("out"));
            shell.output().unwrap().status.code()
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.join("out").join(name)).unwrap()
        }
    }

    impl Drop for Bundle {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_program_without_kernels_is_found() {
        let folder = fresh_folder("bundle-kernels");
        let program = folder.join("program");
        fs::write(
            &program,
            [&b"x"[..], &FAT_BINARY, b"yz", &FAT_BINARY].concat(),
        )
        .unwrap();
        assert!(check_kernels(&program, 2).is_ok());
        let error = check_kernels(&program, 3).unwrap_err().to_string();
        assert!(error.contains("holds 2 fat binaries of 3"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn runs_all_steps_and_gathers_metrics() {
        let bundle = Bundle::new("bundle-good");
        assert_eq!(bundle.run(&[]), Some(0), "{}", bundle.text("summary.txt"));
        assert_eq!(
            bundle.text("metrics.txt"),
            "METRIC:a/b:1:s\nINFO:device:x\nMETRIC:c/d:2:s\n"
        );
        let summary = bundle.text("summary.txt");
        assert!(summary.contains("passed: test-one\n") && summary.contains("passed: bench-gpu\n"));
        assert!(summary.contains("SKIPPED: memcheck: no compute-sanitizer\n"));
        let log = bundle.text("test-one.log");
        assert!(
            log.starts_with("--show-output libshardgraph_emulated.so\n"),
            "{log}"
        );
        let host = bundle.text("host.txt");
        assert!(host.starts_with("revision abc\n") && host.contains("\nmemory_kib "));
        assert_eq!(bundle.run(&["bench"]), Some(0));
        assert!(!bundle.text("summary.txt").contains("test-one"));
        assert_eq!(bundle.run(&["benches"]), Some(2));
    }

    #[test]
    fn memcheck_runs_the_tests_where_it_is_installed() {
        let bundle = Bundle::new("bundle-sanitizer");
        bundle.plant(
            "bin/compute-sanitizer",
            "echo \"$PROPTEST_CASES $@\"; case $2 in memcheck) exit 9;; esac",
        );
        assert_eq!(bundle.run(&["memcheck", "racecheck"]), Some(1));
        let summary = bundle.text("summary.txt");
        assert!(
            summary.contains("FAILED: memcheck-one, exit code 9"),
            "{summary}"
        );
        assert!(summary.contains("passed: racecheck-one\n"), "{summary}");
        let log = bundle.text("racecheck-one.log");
        assert!(
            log.starts_with("4 --tool racecheck --error-exitcode 9 /"),
            "{log}"
        );
    }

    #[test]
    fn no_gpu_is_3_and_what_fails_is_1() {
        let bundle = Bundle::new("bundle-bad");
        bundle.plant("tests/two", "exit 101");
        assert_eq!(bundle.run(&["tests"]), Some(1));
        assert!(
            bundle
                .text("summary.txt")
                .contains("FAILED: test-two, exit code 101")
        );
        bundle.plant(
            "tests/two",
            "echo 'SKIPPED: x: device `cuda` is not available: no'",
        );
        assert_eq!(bundle.run(&["tests"]), Some(1));
        assert!(bundle.text("summary.txt").contains("the GPU was skipped"));
        bundle.plant(
            "tests/two",
            "echo 'SKIPPED: x: device `emulated` is not available: no'",
        );
        assert_eq!(bundle.run(&["tests"]), Some(0));
        bundle.plant("shardgraph", "echo 'no driver' >&2; exit 3");
        assert_eq!(bundle.run(&[]), Some(3));
        bundle.plant("shardgraph", "exit 1");
        assert_eq!(bundle.run(&[]), Some(1));
    }

    #[test]
    fn folders_of_the_right_release_are_searched() {
        let bundle = Bundle::new("bundle-libraries");
        for (folder, library) in [
            ("cuda/lib64", "libcublas.so.13"),
            ("site/nvidia/nccl/lib", "libnccl.so.2"),
            ("site/nvidia/cu13/lib", "libcusparse.so.12"),
            ("site/nvidia/old/lib", "libcusparse.so.12"),
            ("site/nvidia/old/lib", "libcublas.so.12"),
        ] {
            let folder = bundle.0.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(library), "").unwrap();
        }
        let here = bundle.0.display().to_string();
        bundle.plant(
            "bin/python3",
            &format!("echo; echo {here}/site; echo {here}/none"),
        );
        let body =
            "echo $LD_LIBRARY_PATH; for f in ${LD_LIBRARY_PATH%%:*}/*; do echo link ${f##*/}; done";
        bundle.plant("bench-gpu", body);
        let old = format!("{here}/cuda");
        let mut shell = process::command("/bin/sh");
        shell.arg(bundle.0.join("run.sh")).arg("bench").env_clear();
        shell
            .env("PATH", bundle.0.join("bin"))
            .env("CUDA_HOME", old);
        shell
            .env("OUT", bundle.0.join("out"))
            .env("LD_LIBRARY_PATH", "/given");
        assert_eq!(shell.output().unwrap().status.code(), Some(0));
        let log = bundle.text("bench-gpu.log");
        let expected =
            format!(":{here}/cuda/lib64:{here}/site/nvidia/cu13/lib:{here}/site/nvidia/nccl/lib");
        assert!(
            log.contains(&expected) && log.contains(":/given\n"),
            "{log}"
        );
        assert!(
            log.contains("link libnccl.so\n") && !log.contains("/old/lib"),
            "{log}"
        );
    }
}
