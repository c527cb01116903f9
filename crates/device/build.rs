//! Writes `kernels.rs`: the table of kernels that the sources declare, and the fat binaries if they have been built.
//!
//! It never calls nvcc: `cargo xtask kernels` does, and leaves its result in `target/kernels/current` of the workspace
//! (or wherever `SHARDGRAPH_KERNELS` says). A crate that was built without them says so when a GPU is asked for.

#![allow(
    clippy::print_stdout,
    reason = "a build script talks to cargo on standard output"
)]

#[path = "build/scan.rs"]
mod scan;
#[path = "build/sources.rs"]
mod sources;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sources::Source;

/// The variable that names the folder of fat binaries.
const FOLDER_VARIABLE: &str = "SHARDGRAPH_KERNELS";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            println!("cargo::error={fault}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed={FOLDER_VARIABLE}");
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let linked = manifest.join("cuda");
    // The real folder, so that what cargo watches does not depend on how it walks links.
    let folder = fs::canonicalize(&linked).map_err(|error| {
        format!(
            "{}: {error} (it is a link to the kernel sources)",
            linked.display()
        )
    })?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let sources = sources::read(&folder)?;
    let modules = match compiled_folder(&manifest)? {
        Some(compiled) => embed(&sources, &compiled, &out)?,
        None => Modules::missing(
            "this build has no CUDA kernels: build in a checkout of shardgraph, or set SHARDGRAPH_KERNELS to a folder of them",
        ),
    };
    let text = kernel_table(&sources)? + &modules.table();
    let path = out.join("kernels.rs");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Every kernel of the sources, sorted by name.
fn kernel_table(sources: &[Source]) -> Result<String, String> {
    let mut kernels: Vec<(String, &Source, String)> = Vec::new();
    for source in sources.iter().filter(|source| source.is_compiled()) {
        let place = format!("cuda/{}", source.name);
        for kernel in scan::declarations(&place, source.text()?)? {
            if let Some((_, other, _)) = kernels.iter().find(|(name, ..)| *name == kernel.name) {
                return Err(format!(
                    "{place}:{}: `{}` is a kernel of cuda/{} already",
                    kernel.line, kernel.name, other.name
                ));
            }
            kernels.push((kernel.name, source, kernel.signature));
        }
    }
    kernels.sort_by(|a, b| a.0.cmp(&b.0));
    let mut table = String::from(
        "/// Every kernel of the sources, sorted by name.\npub(crate) const KERNELS: &[Kernel] = &[\n",
    );
    for (index, (name, source, signature)) in kernels.into_iter().enumerate() {
        let file = source.stem();
        let _ = writeln!(
            table,
            "    Kernel {{ index: {index}, name: {name:?}, file: {file:?}, signature: {signature:?} }},"
        );
    }
    Ok(table + "];\n\n")
}

/// Where the fat binaries lie, if they can lie anywhere.
fn compiled_folder(manifest: &Path) -> Result<Option<PathBuf>, String> {
    if let Ok(folder) = variable(FOLDER_VARIABLE) {
        let folder = PathBuf::from(folder);
        if !folder.is_dir() {
            return Err(format!(
                "{FOLDER_VARIABLE}: {} is no folder",
                folder.display()
            ));
        }
        return Ok(Some(folder));
    }
    let root = manifest.join("../..");
    if !root.join("xtask/Cargo.toml").exists() {
        return Ok(None);
    }
    let folder = root.join("target/kernels/current");
    // Cargo takes a watched path that does not exist for changed on every run, and would compile this crate each time.
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(Some(folder))
}

/// What becomes of the fat binaries.
struct Modules {
    /// Of each source file that has kernels: its stem and its fat binary.
    files: Vec<(String, PathBuf)>,
    missing: Option<String>,
}

impl Modules {
    fn missing(why: &str) -> Modules {
        Modules {
            files: Vec::new(),
            missing: Some(why.to_owned()),
        }
    }

    fn table(&self) -> String {
        let mut table = String::new();
        if !self.files.is_empty() {
            // nvcc's own host code places fat binaries on 8-byte borders; an included file has none.
            table.push_str("#[cfg(feature = \"cuda\")]\n#[repr(C, align(16))]\nstruct Image<const N: usize>([u8; N]);\n\n");
        }
        table.push_str(
            "/// Of each source file its stem, as in [`Kernel::file`], and its fat binary.\n\
             #[cfg(feature = \"cuda\")]\n\
             pub(crate) const MODULES: &[(&str, &[u8])] = &[\n",
        );
        for (stem, path) in &self.files {
            let _ = writeln!(
                table,
                "    ({stem:?}, &Image(*include_bytes!({path:?})).0),"
            );
        }
        let _ = writeln!(
            table,
            "];\n\n/// Why [`MODULES`] is empty, if it is.\n\
             #[cfg(feature = \"cuda\")]\n\
             pub(crate) const KERNELS_MISSING: Option<&str> = {:?};",
            self.missing
        );
        table
    }
}

/// Copies the fat binaries to `out`, if they were compiled from these sources.
fn embed(sources: &[Source], compiled: &Path, out: &Path) -> Result<Modules, String> {
    println!("cargo::rerun-if-changed={}", compiled.display());
    let Ok(hash) = fs::read_to_string(compiled.join(sources::HASH_FILE)) else {
        return Ok(Modules::missing(
            "this build has no CUDA kernels: run `cargo xtask kernels` and build again",
        ));
    };
    if hash.trim() != sources::hash(sources) {
        return Ok(Modules::missing(
            "the CUDA kernels were compiled from other sources: run `cargo xtask kernels` and build again",
        ));
    }
    let mut files = Vec::new();
    for source in sources.iter().filter(|source| source.is_compiled()) {
        let name = format!("{}.fatbin", source.stem());
        let (from, to) = (compiled.join(&name), out.join(&name));
        fs::copy(&from, &to)
            .map_err(|error| format!("{}: {error}: run `cargo xtask kernels`", from.display()))?;
        files.push((source.stem().to_owned(), to));
    }
    Ok(Modules {
        files,
        missing: None,
    })
}
