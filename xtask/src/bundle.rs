//! `cargo xtask bundle`: everything that a machine with a GPU and without Rust needs, in one archive.
//!
//! Stripped binaries (the program, the test binaries that open a GPU, the GPU bench) with the kernels embedded, and
//! `run.sh`, which finds the CUDA libraries of the machine, runs all of it and writes logs and metrics. The kernels' sources go
//! along for `cuda/harness.cu`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::kernels::{self, emulated};
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
const MAX_BYTES: u64 = 40 << 20;

/// What a fat binary begins with.
const FAT_BINARY: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// A program of the bundle and its name there.
struct Program {
    built: PathBuf,
    name: String,
}

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let built = kernels::build(&kernels::Args::default());
    built
        .context("a bundle without kernels is of no use")?
        .print();
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
    kernels::copy_sources(&folder.join("cuda"))?;
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
    Ok(())
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
    for test in package::unit_tests_on_devices()? {
        programs.push(Program {
            built: test.path,
            name: format!("tests/{}", test.target),
        });
    }
    let mut build = cargo("bench --no-run --locked");
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
    // Every program holds the same kernels and much of the same code: a dictionary of 64 MiB finds them again.
    tar.env("XZ_OPT", "-9");
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
    use crate::tests::{fresh_folder, script};

    /// What the shell script may use beside the shell itself.
    const COREUTILS: [&str; 14] = [
        "cat", "date", "dirname", "env", "ln", "mkdir", "mktemp", "nproc", "rm", "sleep", "tar",
        "timeout", "tr", "uname",
    ];

    /// A program that writes the same to the file after --out, wherever it runs.
    const WRITES_TO_OUT: &str =
        "while [ $# -gt 0 ]; do [ \"$1\" = --out ] && echo 1 > \"$2\"; shift; done";

    /// A test program of the test `inner::case`.
    fn a_test(body: &str) -> String {
        format!(
            "case $1 in --list) echo 'inner::case: test'; echo 'slow: bench'; exit 0;; esac\necho \"$@ $SHARDGRAPH_EMULATED_LIBRARY\"\n{body}"
        )
    }

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
            bundle.plant("shardgraph", WRITES_TO_OUT);
            bundle.plant("tests/one", &a_test("echo METRIC:a/b:1:s"));
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

        fn shell(&self, stages: &[&str]) -> std::process::Command {
            let mut shell = process::command("/bin/sh");
            shell.arg(self.0.join("run.sh")).args(stages);
            shell.env_clear().env("PATH", self.0.join("bin"));
            shell.env("OUT", self.0.join("out"));
            shell
        }

        fn run(&self, stages: &[&str]) -> Option<i32> {
            self.shell(stages).output().unwrap().status.code()
        }

        /// A log out of the archive.
        fn log(&self, name: &str) -> String {
            let mut tar = process::command("tar");
            tar.arg("-xOf").arg(self.0.join("out/logs.tar"));
            process::stdout_of(tar.arg(format!("logs/{name}.log"))).unwrap()
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
    fn runs_all_stages_and_gathers_metrics() {
        let bundle = Bundle::new("bundle-good");
        bundle.plant("bench-gpu_policy", "echo METRIC:e/f:3:s");
        bundle.plant("bench-gpu", "echo INFO:device:x; echo METRIC:$2/d:2:s");
        assert_eq!(bundle.run(&[]), Some(0), "{}", bundle.text("summary.txt"));
        let metrics = bundle.text("metrics.txt");
        let begins = "METRIC:a/b:1:s\nINFO:device:x\nMETRIC:cover/d:2:s\n";
        assert!(metrics.starts_with(begins), "{metrics}");
        assert!(metrics.ends_with("METRIC:e/f:3:s\n"), "{metrics}");
        let summary = bundle.text("summary.txt");
        for line in [
            "passed: tests-one-inner__case\n",
            "passed: bench-sgns\n",
            "passed: jobs-solve-bits: as the host's\n",
            "SKIPPED: memcheck: no compute-sanitizer\n",
            "SKIPPED: profile: no Nsight Compute (ncu)\n",
        ] {
            assert!(summary.contains(line), "{line} in {summary}");
        }
        assert!(!summary.contains("slow"), "{summary}");
        let log = bundle.log("tests-one-inner__case");
        assert!(
            log.starts_with("--exact inner::case --show-output --test-threads 1 none\n"),
            "{log}"
        );
        let host = bundle.text("host.txt");
        assert!(host.starts_with("revision abc\n") && host.contains("\nmemory_kib "));
        assert_eq!(bundle.run(&["bench"]), Some(0));
        assert!(!bundle.text("summary.txt").contains("tests-one"));
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
            summary.starts_with("FAILED: memcheck-one-inner__case, exit code 9"),
            "{summary}"
        );
        assert!(
            summary.contains("passed: racecheck-one-inner__case\n"),
            "{summary}"
        );
        let log = bundle.log("racecheck-one-inner__case");
        assert!(
            log.starts_with("4 --tool racecheck --error-exitcode 9 /"),
            "{log}"
        );
    }

    #[test]
    fn no_gpu_is_3_and_what_fails_is_1() {
        let bundle = Bundle::new("bundle-bad");
        bundle.plant("tests/two", &a_test("echo why; exit 101"));
        assert_eq!(bundle.run(&["tests"]), Some(1));
        let summary = bundle.text("summary.txt");
        assert!(
            summary.starts_with("FAILED: tests-two-inner__case, exit code 101"),
            "{summary}"
        );
        assert!(summary.contains("passed: tests-one-inner__case\n"));
        let skip = |device| format!("echo 'SKIPPED: x: device `{device}` is not available: no'");
        bundle.plant("tests/two", &a_test(&skip("cuda")));
        assert_eq!(bundle.run(&["tests"]), Some(1));
        assert!(
            bundle
                .text("summary.txt")
                .contains("the device was skipped")
        );
        bundle.plant("tests/two", &a_test(&skip("emulated")));
        assert_eq!(bundle.run(&["tests"]), Some(0));
        bundle.plant("shardgraph", "echo 'no driver' >&2; exit 3");
        assert_eq!(bundle.run(&[]), Some(3));
        bundle.plant("shardgraph", "exit 1");
        assert_eq!(bundle.run(&["solve"]), Some(1));
    }

    #[test]
    fn another_answer_than_the_hosts_fails() {
        let bundle = Bundle::new("bundle-differs");
        bundle.plant(
            "shardgraph",
            "for word; do [ \"$last\" = --device ] && d=$word; [ \"$last\" = --out ] && echo $d > \"$word\"; last=$word; done; true",
        );
        assert_eq!(bundle.run(&["jobs"]), Some(1));
        let summary = bundle.text("summary.txt");
        assert!(
            summary.starts_with("FAILED: jobs-solve-bits: other than the host's\n"),
            "{summary}"
        );
        assert!(summary.contains("passed: jobs-train\n"), "{summary}");
    }

    #[test]
    fn a_stage_begins_nothing_after_its_time() {
        let bundle = Bundle::new("bundle-budget");
        let mut shell = bundle.shell(&["tests"]);
        shell.env("BUDGET", "0");
        assert_eq!(shell.output().unwrap().status.code(), Some(1));
        let summary = bundle.text("summary.txt");
        assert!(
            summary.contains("1 left out")
                && summary.contains("LEFT OUT: tests-one-inner__case: the stage's 0 s are over\n"),
            "{summary}"
        );
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
        bundle.plant("bench-gpu_policy", "true");
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
        let log = bundle.log("bench-cover");
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
