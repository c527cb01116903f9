//! The stage that runs the `mpi` back end with real processes, under an MPI that it installs into `target/mpi`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::stages::run_tests;
use crate::absent::absent;
use crate::kernels::{self, toolchain};
use crate::mpi_shim;
use crate::process::{self, cargo};
use crate::project;
use crate::test_log::TestLog;

/// The wheel with an MPI that has the standard binary interface, its header and its launcher.
const WHEEL: &str = "mpich==5.0.2";
/// The folder of the unpacked wheel; another release takes another name.
const FOLDER: &str = "mpich-5.0.2";

pub(super) fn stage(log: &mut TestLog) -> Result<()> {
    if !cfg!(unix) {
        return Err(absent("MPI is tested on Unix"));
    }
    // Not below `CARGO_TARGET_DIR`: the tests, which look for it by themselves, cannot know that folder.
    let mpi = installed(&project::root().join("target/mpi"))?;
    // The numbers of the interface against the header that is there now. All commands here take the whole workspace: for one package
    // cargo would choose other features of the dependencies, and compile everything once more.
    let mut numbers = cargo("test --workspace --locked");
    run_tests(numbers.args(["--lib", "mpi::", "--", "--show-output"]), log)?;
    run_with(&mpi, &mpi.join("lib/libmpi_abi.so.1"), log)?;
    // The program itself under mpiexec, which is skipped before there is one.
    let mut solves = cargo("test --workspace --locked");
    solves.args(["--test", "end_to_end", "mpiexec", "--", "--show-output"]);
    run_tests(&mut solves, log)?;
    if !toolchain::runs("cc", &["--version"]) {
        log.skips
            .push("SKIPPED: the shim for other MPIs: there is no C compiler".to_owned());
        return Ok(());
    }
    // The same MPI also comes with an interface of its own: what the shim is for.
    let shim = mpi.join("lib/libshardgraph_mpi.so");
    mpi_shim::build(&mpi.join("bin/mpicc"), &shim)?;
    run_with(&mpi, &shim, log)
}

/// All tests that start processes.
fn run_with(mpi: &Path, library: &Path, log: &mut TestLog) -> Result<()> {
    let mut test = cargo("test --workspace --locked");
    test.args(["--test", "mpi", "--", "--mpiexec"])
        .arg(mpi.join("bin/mpiexec"))
        .arg("--library")
        .arg(library);
    run_tests(&mut test, log)
}

/// The folder of the MPI below `folder`, installed if it is not there; absent where it cannot be had.
fn installed(folder: &Path) -> Result<PathBuf> {
    let _lock = kernels::lock(folder)?;
    let mpi = folder.join(FOLDER);
    if mpi.join("bin/mpiexec").exists() {
        return Ok(mpi);
    }
    // Below another name until it is whole: a killed installation must not look like a finished one.
    let partial = folder.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    unpack(&partial).map_err(|error| absent(format!("pip gave no {WHEEL}: {error:#}")))?;
    let data = partial.join(format!("{FOLDER}.data/data"));
    fs::rename(&data, &mpi).with_context(|| data.display().to_string())?;
    fs::remove_dir_all(&partial)?;
    Ok(mpi)
}

/// Downloads the wheel and unpacks it. `pip install --target` would leave out the folder `lib`.
fn unpack(partial: &Path) -> Result<()> {
    let python = toolchain::python_with_pip()?;
    let mut pip = process::command(python);
    pip.args(["-m", "pip", "download", "--no-deps"]);
    pip.args(["--only-binary", ":all:", "--quiet", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--retries", "1"]);
    pip.args(["--timeout", "20", "--dest"])
        .arg(partial)
        .arg(WHEEL);
    println!("$ {}", process::shown(&pip));
    toolchain::last_words(&mut pip)?;
    let mut files = fs::read_dir(partial)?.flatten().map(|entry| entry.path());
    let wheel = files.find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.context("pip downloaded no wheel")?;
    let mut unzip = process::command(python);
    toolchain::last_words(unzip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(partial))?;
    let programs = partial.join(format!("{FOLDER}.data/data/bin"));
    ensure!(
        programs.join("mpiexec").exists(),
        "the wheel has no bin/mpiexec"
    );
    // An unpacked program is not executable.
    process::check(process::command("chmod").args(["-R", "u+x"]).arg(&programs))
}
