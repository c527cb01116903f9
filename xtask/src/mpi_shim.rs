//! `cargo xtask mpi-shim`: compiles the library through which the `mpi` back end talks to an MPI without the standard binary interface.
//!
//! Tried with the packages of Debian 12, which may be installed side by side: `--mpicc mpicc.openmpi` (Open MPI 4.1.4) and `--mpicc mpicc.mpich`
//! (MPICH 4.0.2), started with `mpiexec.openmpi` and `mpiexec.mpich`; and with MPICH 5.0.2 of the Python index.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::process;
use crate::project;

const SOURCE: &str = "crates/collectives/shim/mpi_shim.c";

/// Where the library goes if nothing else is said.
const LIBRARY: &str = "target/mpi/libshardgraph_mpi.so";

/// What the flags say.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The compiler of the MPI
    #[arg(long, value_name = "PATH", default_value = "mpicc")]
    mpicc: PathBuf,
    /// The library that is made [default: target/mpi/libshardgraph_mpi.so]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    // Commands run in the workspace root, the paths are meant from here.
    let out = match &args.out {
        Some(out) => std::path::absolute(out)?,
        None => project::root().join(LIBRARY),
    };
    build(&program(&args.mpicc)?, &out)?;
    println!("mpi-shim: {}", out.display());
    Ok(())
}

/// A bare name is looked up in `PATH`.
fn program(given: &Path) -> Result<PathBuf> {
    let is_bare = given.components().count() == 1;
    Ok(if is_bare {
        given.to_owned()
    } else {
        std::path::absolute(given)?
    })
}

/// Compiles the library with the compiler of an MPI.
///
/// # Errors
/// The compiler is not there, or refuses.
pub(crate) fn build(mpicc: &Path, out: &Path) -> Result<()> {
    let folder = out.parent().context("the library needs a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // Under another name until it is whole: a running program may have the old one open.
    let partial = out.with_extension("partial");
    let mut compile = process::command(mpicc);
    compile
        .args([
            "-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-o",
        ])
        .arg(&partial)
        .arg(project::root().join(SOURCE));
    println!("$ {}", process::shown(&compile));
    let status = compile.status().with_context(|| {
        format!(
            "cannot start {}: --mpicc names the compiler of your MPI (on Debian: libopenmpi-dev or libmpich-dev)",
            mpicc.display()
        )
    })?;
    ensure!(status.success(), "{status}: {}", process::shown(&compile));
    fs::rename(&partial, out).with_context(|| out.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_said_and_how_to_name_one() {
        let out = project::target().join("tmp/no-shim/lib.so");
        let error = build(Path::new("/no/such/mpicc"), &out).unwrap_err();
        assert!(format!("{error:#}").contains("--mpicc"), "{error:#}");
        assert!(!out.exists());
    }

    #[test]
    fn every_function_of_the_back_end_is_in_the_shim() {
        let read = |path: &str| fs::read_to_string(project::root().join(path)).unwrap();
        let (user, shim) = (
            read("crates/collectives/src/mpi/ffi/library.rs"),
            read(SOURCE),
        );
        let calls = user.lines().filter_map(|line| {
            let (_, rest) = line.trim().split_once(" = \"MPI_")?;
            rest.split_once('"').map(|(name, _)| name)
        });
        let calls: Vec<&str> = calls.collect();
        assert!(calls.len() > 15, "{calls:?}");
        for name in calls {
            assert!(
                shim.contains(&format!("int shardgraph_MPI_{name}(")),
                "{name}"
            );
        }
    }
}
