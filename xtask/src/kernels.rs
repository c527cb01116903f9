//! `cargo xtask kernels`: compiles `cuda/*/*.cu` with nvcc and holds the result to its rules.
//!
//! Each source becomes one compressed fat binary (sm_80, sm_90, sm_100, and PTX for what comes
//! later) in `target/kernels/current`, from where the build script of `shardgraph-device` embeds
//! it. A file with a `main` is a program, whose cases are compiled and not kept.
//!
//! Rules: the layout is clang-format's; no register is spilled; no kernel takes more registers, stack or instructions than
//! `cuda/resources.toml` records; and the compiled symbols with their parameters are those that
//! the sources declare.

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
mod scan;
#[path = "../../crates/device/build/sources.rs"]
mod sources;
pub(crate) mod toolchain;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Error, Result, bail, ensure};
use lexopt::prelude::*;

use crate::project;
#[cfg(unix)]
#[cfg(test)]
pub(crate) use compile::tests::{fresh_folder, script};
use format::Checked;
use record::{Counts, Record};
use sources::Source;
use toolchain::{Search, Toolchain};

/// The record of what kernels cost.
const RECORD_FILE: &str = "cuda/resources.toml";

/// What the flags say.
#[derive(Default)]
pub(crate) struct Options {
    /// The compiler to take, whatever its version.
    nvcc: Option<PathBuf>,
    /// Write `cuda/resources.toml` instead of comparing with it.
    record: bool,
}

/// How a build ended, when no rule was broken.
pub(crate) enum Built {
    Done {
        /// In one line.
        summary: String,
        /// A line for each check that could not be made.
        skips: Vec<String>,
    },
    /// No nvcc can be had here, and why.
    NoToolchain(String),
}

impl Built {
    /// Prints what was built and the checks that could not be made.
    pub(crate) fn print(&self) {
        if let Built::Done { summary, skips } = self {
            skips.iter().for_each(|line| println!("{line}"));
            println!("kernels: {summary}");
        }
    }
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let mut options = Options::default();
    let mut is_emulated = false;
    while let Some(arg) = args.next()? {
        match arg {
            Long("nvcc") => options.nvcc = Some(PathBuf::from(args.value()?)),
            Long("record") => options.record = true,
            Long("emulated") => is_emulated = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if is_emulated {
        emulated::put_beside_the_programs()?;
        return Ok(ExitCode::SUCCESS);
    }
    match build(&options)? {
        done @ Built::Done { .. } => done.print(),
        Built::NoToolchain(why) => bail!("{why}"),
    }
    Ok(ExitCode::SUCCESS)
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

/// Compiles what changed, checks everything and makes it the current set.
pub(crate) fn build(options: &Options) -> Result<Built> {
    let sources = sources::read(&project::root().join("cuda")).map_err(Error::msg)?;
    let declared = declared(&sources)?;
    let toolchain = match toolchain::find(options.nvcc.as_deref())? {
        Search::Found(toolchain) => toolchain,
        Search::Absent(why) => return Ok(Built::NoToolchain(why)),
    };
    println!(
        "kernels: nvcc {} ({})",
        toolchain.version,
        toolchain.nvcc.display()
    );
    let folder = kernels_folder();
    // Two commands at once would each delete what the other has just compiled.
    let _lock = lock(&folder)?;
    let objects = compile::compile(&sources, &toolchain, &folder)?;
    let disassembler = toolchain::disassembler(&toolchain)?;
    if let Err(why) = &disassembler {
        ensure!(!options.record, "--record reads the machine code: {why}");
    }
    let mut counts = Counts::default();
    let (mut findings, mut skips) = (Vec::new(), Vec::new());
    match format::check(&sources)? {
        Checked::Findings(found) => findings.extend(found),
        Checked::Absent(why) => skips.push(format!("SKIPPED: kernels: layout: {why}")),
    }
    for object in &objects {
        let kernels = &declared[&object.stem];
        findings.extend(ptx::findings(&object.source, kernels, &object.ptx()?)?);
        let log = object.log()?;
        findings.extend(resources::spills(&object.source, &log)?);
        resources::count(&log, kernels, &mut counts)?;
        if let Ok(cuobjdump) = &disassembler {
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
    let why = disassembler.err();
    skips.extend(why.map(|why| format!("SKIPPED: kernels: instructions are not counted: {why}")));
    let summary = format!(
        "{} kernels in {} files, {n_compiled} files compiled, {:.0} KiB",
        counts.n_kernels(),
        objects.len(),
        n_bytes as f64 / 1024.0
    );
    Ok(Built::Done { summary, skips })
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
