//! `cargo xtask python`: builds the wheel into a fresh environment and runs the checks of the Python package.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::absent::absent;
use crate::process::{self, cargo};
use crate::project;
use crate::test_log::TestLog;

/// The largest wheel: it is downloaded by everybody who installs the package. It has 14.6 MB where nvcc was there to compile the
/// kernels, which are compressed as drivers of CUDA 12 read it.
const MAX_WHEEL_BYTES: u64 = 15_500_000;

/// The longest import of the package beyond numpy's, the shortest of a few.
const MAX_IMPORT_MS: f64 = 50.0;

/// The minor versions of Python 3 that the wheel is for.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=15;

const MANIFEST: &str = "crates/python/Cargo.toml";
const REQUIREMENTS: &str = "crates/python/tests/requirements.txt";

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let mut log = TestLog::default();
    check(&mut log)?;
    let (n_passed, n_skipped) = (log.n_passed, log.skips.len());
    println!("python: {n_passed} tests passed, {n_skipped} skipped");
    Ok(())
}

/// Environment, wheel, audit, types, tests; absent without a Python that can hold them.
pub(crate) fn check(log: &mut TestLog) -> Result<()> {
    let environment = Environment::create()?;
    show(cargo("fmt --manifest-path").args([MANIFEST, "--", "--check"]))?;
    let wheel = environment.build_wheel()?;
    let n_bytes = fs::metadata(&wheel)?.len();
    println!("{}: {n_bytes} bytes", wheel.display());
    ensure!(
        n_bytes <= MAX_WHEEL_BYTES,
        "the wheel has {n_bytes} bytes: expected at most {MAX_WHEEL_BYTES}"
    );
    let abi3audit = environment.program("abi3audit");
    show(process::command(abi3audit).arg("--strict").arg(&wheel))?;
    let pip = ["-m", "pip", "install", "--quiet", "--no-deps"];
    show(environment.python(&pip).arg(&wheel))?;
    let config = [
        "-m",
        "mypy",
        "--config-file",
        "crates/python/pyproject.toml",
    ];
    show(environment.python(&config).args(["-p", "shardgraph"]))?;
    show(&mut environment.python(&[
        "-m",
        "mypy.stubtest",
        "shardgraph._shardgraph",
        "--ignore-missing-stub",
    ]))?;
    environment.check_import_time()?;
    import_elsewhere(&environment, &wheel, log)?;
    environment.test(log)
}

/// The wheel with what it requires, and nothing else, under every Python that it is for and that is here.
fn import_elsewhere(environment: &Environment, wheel: &Path, log: &mut TestLog) -> Result<()> {
    let mut absent = Vec::new();
    for minor in VERSIONS {
        let name = format!("python3.{minor}");
        let folder = environment.0.join(&name);
        let mut venv = process::command(&name);
        if process::check(venv.args(["-m", "venv"]).arg(&folder)).is_err() {
            absent.push(name);
            continue;
        }
        let other = Environment(folder);
        let pip = ["-m", "pip", "install", "--quiet", "--retries=1"];
        show(other.python(&pip).arg(wheel))?;
        show(&mut other.python(&[
            "-c",
            "import shardgraph as s; s.max_clique(s.generate('karate')).verify()",
        ]))?;
    }
    if !absent.is_empty() {
        let line = format!(
            "SKIPPED: import under {} (not installed)",
            absent.join(", ")
        );
        println!("{line}");
        log.line(&line);
    }
    Ok(())
}

/// A virtual environment under `target/`.
struct Environment(PathBuf);

impl Environment {
    /// A fresh one with the pinned packages.
    fn create() -> Result<Environment> {
        let folder = project::target().join("python-package");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let mut venv = process::command("python3");
        if process::check(venv.args(["-m", "venv"]).arg(&folder)).is_err() {
            return Err(absent("python3 with venv is not here"));
        }
        let environment = Environment(folder);
        let newer = "import sys; raise SystemExit(sys.version_info < (3, 11))";
        if process::check(&mut environment.python(&["-c", newer])).is_err() {
            return Err(absent("python3 is older than 3.11"));
        }
        let mut install = environment.python(&["-m", "pip", "install", "--quiet", "--retries=1"]);
        println!("$ {}", process::shown(install.args(["-r", REQUIREMENTS])));
        process::check(&mut install)
            .map_err(|_| absent(format!("pip installs no {REQUIREMENTS}")))?;
        Ok(environment)
    }

    fn program(&self, name: &str) -> PathBuf {
        let folder = if cfg!(windows) { "Scripts" } else { "bin" };
        let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        self.0.join(folder).join(name)
    }

    fn python<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut python = process::command(self.program("python"));
        python.args(args);
        python
    }

    /// The wheel, built into `target/python-package/wheels`; what cargo built for it stays in `target/python-build`.
    fn build_wheel(&self) -> Result<PathBuf> {
        let wheels = self.0.join("wheels");
        let mut maturin = process::command(self.program("maturin"));
        maturin
            .args([
                "build",
                "--release",
                "--locked",
                "--manifest-path",
                MANIFEST,
            ])
            .arg("--interpreter")
            .arg(self.program("python"))
            .arg("--out")
            .arg(&wheels)
            .env("CARGO_TARGET_DIR", project::target().join("python-build"));
        show(&mut maturin)?;
        let entries = fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
        let is_wheel = |path: &PathBuf| path.extension() == Some(OsStr::new("whl"));
        match entries.filter(is_wheel).collect::<Vec<_>>().as_slice() {
            [wheel] => Ok(wheel.clone()),
            others => bail!("{} wheels in {}", others.len(), wheels.display()),
        }
    }

    /// Refuses an import that takes too long.
    fn check_import_time(&self) -> Result<()> {
        let code = "import numpy, time; begin = time.perf_counter(); import shardgraph; \
                    print(1e3 * (time.perf_counter() - begin))";
        let mut shortest = f64::INFINITY;
        for _ in 0..5 {
            let found = process::stdout_of(&mut self.python(&["-c", code]))?;
            shortest = shortest.min(found.trim().parse().context(found)?);
        }
        println!("import: {shortest:.1} ms beyond numpy's");
        ensure!(
            shortest <= MAX_IMPORT_MS,
            "import shardgraph takes {shortest:.1} ms: expected at most {MAX_IMPORT_MS}"
        );
        Ok(())
    }

    /// The package's tests, with the command of cargo's build beside it.
    fn test(&self, log: &mut TestLog) -> Result<()> {
        // As the stage `test` builds it: for one package cargo would choose other features, and compile all of it anew.
        let mut build = cargo("test --workspace --locked --no-run");
        show(build.args(["--test", "end_to_end"]))?;
        let name = format!("shardgraph{}", std::env::consts::EXE_SUFFIX);
        let binary = project::target().join("debug").join(name);
        let tests = Path::new("crates/python");
        let mut pytest = self.python(&["-m", "pytest", "-q", "-W", "ignore", "--rootdir"]);
        pytest.arg(tests).arg(tests.join("tests"));
        pytest.env("SHARDGRAPH_BINARY", binary);
        println!("$ {}", process::shown(&pytest));
        let all_passed = process::each_line(&mut pytest, |line| {
            if log.line(line) {
                println!("{line}");
            }
        })?;
        ensure!(all_passed, "tests fail: {}", process::shown(&pytest));
        Ok(())
    }
}

/// Shows the command, then runs it.
fn show(command: &mut Command) -> Result<()> {
    println!("$ {}", process::shown(command));
    process::check(command)
}
