//! `cargo xtask kernels`: compiles `cuda/*/*.cu` with nvcc and holds the result to its rules.
//!
//! Each source becomes one compressed fat binary (sm_80, sm_90, sm_100, and PTX for what comes
//! later) that drivers from 525 on load, in `target/kernels/current`, from where the build script of `shardgraph-device` embeds
//! it. A file with a `main` is a program, whose cases are compiled and not kept.
//!
//! Rules: the layout is clang-format's; no register is spilled; no kernel takes more registers, stack or instructions than
//! `cuda/resources.toml` records; and the compiled symbols with their parameters are those that
//! the sources declare.

mod assemble;
mod compile;
pub(crate) mod emulated;
mod format;
mod programs;
mod ptx;
mod publish;
mod record;
mod resources;
mod sass;
#[path = "../../crates/device/build/scan.rs"]
pub(crate) mod scan;
#[path = "../../crates/device/build/sources.rs"]
mod sources;
pub(crate) mod toolchain;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, ensure};

use crate::absent::or_skip;
use crate::project;
use record::{Counts, Record};
use sources::Source;
use toolchain::Toolchain;

/// The record of what kernels cost.
const RECORD_FILE: &str = "cuda/resources.toml";

/// What the flags say.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// The compiler to take, whatever its version
    #[arg(long, value_name = "PATH")]
    nvcc: Option<PathBuf>,
    /// Write cuda/resources.toml instead of comparing with it
    #[arg(long)]
    record: bool,
    /// Compile for the processor instead
    #[arg(long)]
    emulated: bool,
}

/// A build in which no rule was broken.
pub(crate) struct Built {
    /// In one line.
    pub(crate) summary: String,
    /// A line for each check that could not be made.
    pub(crate) skips: Vec<String>,
}

impl Built {
    /// Prints what was built and the checks that could not be made.
    pub(crate) fn print(&self) {
        self.skips.iter().for_each(|line| println!("{line}"));
        println!("kernels: {}", self.summary);
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.emulated {
        return emulated::put_beside_the_programs();
    }
    build(args)?.print();
    Ok(())
}

/// How many fat binaries the current set has.
pub(crate) fn n_current() -> Result<usize> {
    let folder = kernels_folder().join("current");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(names
        .filter(|path| path.extension().is_some_and(|e| e == "fatbin"))
        .count())
}

/// Copies the kernels' sources with their folders.
pub(crate) fn copy_sources(to: &Path) -> Result<()> {
    for source in sources::read(&project::root().join("cuda")).map_err(Error::msg)? {
        let path = to.join(&source.name);
        let parent = path.parent().context("a source lies in a folder")?;
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        fs::write(&path, &source.bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Not below `CARGO_TARGET_DIR`: the build script that looks for it cannot know that folder.
fn kernels_folder() -> PathBuf {
    project::root().join("target/kernels")
}

/// Compiles what changed, checks everything and makes it the current set; absent without an nvcc.
pub(crate) fn build(options: &Args) -> Result<Built> {
    let sources = sources::read(&project::root().join("cuda")).map_err(Error::msg)?;
    let declared = declared(&sources)?;
    let mut skips = Vec::new();
    let toolchain = toolchain::find(options.nvcc.as_deref(), &mut skips)?;
    println!(
        "kernels: nvcc {} ({})",
        toolchain.version,
        toolchain.nvcc.display()
    );
    let folder = kernels_folder();
    // Two commands at once would each delete what the other has just compiled.
    let _lock = lock(&folder)?;
    let objects = compile::compile(&sources, &toolchain, &folder)?;
    let mut findings = Vec::new();
    let disassembler = toolchain::disassembler(&toolchain);
    let disassembler = match options.record {
        true => Some(disassembler.context("--record reads the machine code")?),
        false => or_skip(disassembler, "kernels: counts of instructions", &mut skips)?,
    };
    let formatted = format::findings(&sources);
    findings.extend(or_skip(formatted, "kernels: layout", &mut skips)?.unwrap_or_default());
    let mut counts = Counts::default();
    for object in &objects {
        let kernels = &declared[&object.stem];
        findings.extend(ptx::findings(&object.source, kernels, &object.ptx()?)?);
        let log = object.log()?;
        findings.extend(resources::spills(&object.source, &log)?);
        resources::count(&log, kernels, &mut counts)?;
        if let Some(cuobjdump) = &disassembler {
            let listing = sass::disassemble(cuobjdump, &object.fatbin())?;
            sass::count(&listing, kernels, &mut counts)?;
        }
    }
    if findings.is_empty() {
        // A spill is never recorded: it is not what the kernel ought to take.
        findings = record_or_compare(&counts, &toolchain, options.record)?;
    }
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    let n_bytes = publish::publish(&objects, &sources::hash(&sources), &folder.join("current"))?;
    let n_compiled = objects.iter().filter(|object| object.is_new).count();
    let summary = format!(
        "{} kernels in {} files, {n_compiled} files compiled, {:.0} KiB",
        counts.n_kernels(),
        objects.len(),
        n_bytes as f64 / 1024.0
    );
    Ok(Built { summary, skips })
}

/// Of each source file the kernels that it declares.
fn declared(sources: &[Source]) -> Result<BTreeMap<String, Vec<scan::Declaration>>> {
    let mut declared = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_compiled()) {
        let text = source.text().map_err(Error::msg)?;
        let place = format!("cuda/{}", source.name);
        let kernels = scan::declarations(&place, text).map_err(Error::msg)?;
        declared.insert(source.stem().to_owned(), kernels);
    }
    Ok(declared)
}

/// Waits for other runs of this command; the lock ends with the returned file.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    file.lock().with_context(|| path.display().to_string())?;
    Ok(file)
}

fn record_or_compare(counts: &Counts, toolchain: &Toolchain, record: bool) -> Result<Vec<String>> {
    let path = project::root().join(RECORD_FILE);
    if record {
        let new = Record::new(counts, &toolchain.version);
        fs::write(&path, new.to_string()).with_context(|| path.display().to_string())?;
        println!("kernels: wrote {RECORD_FILE}");
        return Ok(Vec::new());
    }
    if counts.n_kernels() == 0 {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{RECORD_FILE}: run `cargo xtask kernels --record`"))?;
    let recorded = Record::parse(&text).context(RECORD_FILE)?;
    if recorded.nvcc != toolchain.version {
        println!(
            "kernels: costs are not compared: {RECORD_FILE} was made with nvcc {}",
            recorded.nvcc
        );
        return Ok(Vec::new());
    }
    let findings = recorded.findings(counts);
    Ok(findings
        .into_iter()
        .map(|finding| format!("{RECORD_FILE}:1: {finding}"))
        .collect())
}
