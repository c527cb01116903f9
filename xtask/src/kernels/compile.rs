//! Compiles the kernel sources, each once for the same contents: results are kept by the hash of all that goes in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use super::assemble::{PTXAS_FLAGS, assemble, said};
use super::programs;
use super::sources::{Fnv, Source};
use super::toolchain::Toolchain;
use crate::process;

const FLAGS: [&str; 11] = [
    "-std=c++17",
    // Headers that several owners include.
    "-Icuda",
    "-O3",
    // Where in the source a kernel is: costs nothing at run time, and compute-sanitizer names the line.
    "-lineinfo",
    "--fatbin",
    "--Werror=all-warnings",
    "-gencode=arch=compute_80,code=compute_80",
    "-gencode=arch=compute_90,code=compute_90",
    "-gencode=arch=compute_100,code=compute_100",
    // The PTX of each architecture stays beside the fat binary, for the check of its parameters.
    "--keep",
    "--keep-dir",
];

/// A compiled source file.
pub(crate) struct Object {
    /// `sparse_csr` of `ops/sparse_csr.cu`.
    pub(crate) stem: String,
    /// `ops/sparse_csr.cu`.
    pub(crate) source: String,
    folder: PathBuf,
    /// Compiled by this run, not found from an earlier one.
    pub(crate) is_new: bool,
}

impl Object {
    pub(crate) fn fatbin(&self) -> PathBuf {
        self.folder.join("fatbin")
    }

    /// What nvcc and ptxas said.
    pub(crate) fn log(&self) -> Result<String> {
        read(&self.folder.join("log"))
    }

    /// The PTX texts, one an architecture.
    pub(crate) fn ptx(&self) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "ptx") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| read(path)).collect()
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Compiles every `.cu` file of `sources` that has no result in `folder` yet, as many at once as there are cores.
pub(crate) fn compile(
    sources: &[Source],
    toolchain: &Toolchain,
    folder: &Path,
) -> Result<Vec<Object>> {
    let compiled: Vec<&Source> = sources.iter().filter(|s| s.is_compiled()).collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_workers.min(compiled.len()) {
            scope.spawn(|| {
                while let Some(source) = compiled.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = compile_one(source, sources, toolchain, folder);
                    if let Ok(mut results) = results.lock() {
                        results.push(result.with_context(|| format!("cuda/{}", source.name)));
                    }
                }
            });
        }
    });
    let mut objects = Vec::new();
    let mut faults = Vec::new();
    for result in results.into_inner().unwrap_or_default() {
        match result {
            Ok(object) => objects.push(object),
            Err(error) => faults.push(format!("{error:#}")),
        }
    }
    if !faults.is_empty() {
        faults.sort();
        bail!("{}", faults.join("\n"));
    }
    objects.sort_by(|a: &Object, b: &Object| a.stem.cmp(&b.stem));
    let mut used: Vec<PathBuf> = objects.iter().map(|o| o.folder.clone()).collect();
    used.extend(programs::check(sources, toolchain, folder)?);
    delete_others(&used, folder)?;
    Ok(objects)
}

fn compile_one(
    source: &Source,
    sources: &[Source],
    toolchain: &Toolchain,
    folder: &Path,
) -> Result<Object> {
    let stem = source.stem().to_owned();
    let done = folder.join(format!("{stem}-{}", key(source, sources, toolchain)));
    let is_new = !done.exists();
    if is_new {
        // Below another name until it is whole.
        let partial = folder.join(format!("partial-{stem}"));
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
        let mut log = call_nvcc(&source.name, toolchain, &partial)?;
        log += &assemble(&stem, toolchain, &partial)?;
        fs::write(partial.join("log"), log)?;
        keep_only_what_is_read(&partial)?;
        fs::rename(&partial, &done).with_context(|| done.display().to_string())?;
    }
    Ok(Object {
        stem,
        source: source.name.clone(),
        folder: done,
        is_new,
    })
}

/// Compiles a source into PTX; what the compiler said.
fn call_nvcc(name: &str, toolchain: &Toolchain, partial: &Path) -> Result<String> {
    let mut nvcc = process::command(&toolchain.nvcc);
    nvcc.args(FLAGS).arg(partial);
    nvcc.arg("--output-file").arg(partial.join("fatbin"));
    // From the root, so that the line tables hold no path of this machine.
    said(nvcc.arg(format!("cuda/{name}")))
}

/// Of what `--keep` leaves, the PTX stays; preprocessed sources are megabytes.
fn keep_only_what_is_read(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != "fatbin" && name != "log" && !name.ends_with(".ptx") {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// The hash of a source, of all it includes, of the flags and of the compiler's version.
fn key(source: &Source, sources: &[Source], toolchain: &Toolchain) -> String {
    let flags = [&FLAGS[..], &PTXAS_FLAGS].concat();
    key_with(&flags, source, sources, toolchain)
}

/// The same for other flags.
pub(super) fn key_with(
    flags: &[&str],
    source: &Source,
    sources: &[Source],
    toolchain: &Toolchain,
) -> String {
    let mut key = Fnv::default();
    key.part(toolchain.version.as_bytes());
    for flag in flags {
        key.part(flag.as_bytes());
    }
    let included = with_included(source, sources);
    for source in sources
        .iter()
        .filter(|s| included.contains(s.name.as_str()))
    {
        key.part(source.name.as_bytes());
        key.part(&source.bytes);
    }
    key.hex()
}

/// The names of a source and of all files of the folder that it includes, directly or not.
fn with_included<'s>(source: &'s Source, sources: &'s [Source]) -> BTreeSet<&'s str> {
    let mut names = BTreeSet::from([source.name.as_str()]);
    let mut open = vec![source];
    while let Some(source) = open.pop() {
        let text = String::from_utf8_lossy(&source.bytes);
        let lines = text.lines().map(str::trim_start);
        let directives = lines.filter_map(|line| line.strip_prefix('#'));
        let names_included: Vec<&str> = directives
            .filter_map(|line| line.trim_start().strip_prefix("include"))
            .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
            .map(|path| path.rsplit('/').next().unwrap_or_default())
            .collect();
        for included in sources {
            if names_included.contains(&included.file_name()) && names.insert(&included.name) {
                open.push(included);
            }
        }
    }
    names
}

/// Deletes the results of earlier contents, and of sources that are gone.
fn delete_others(used: &[PathBuf], folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !used.contains(&path) && !path.ends_with("current") {
            fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
impl Object {
    /// What compiling to `binary` would have left.
    pub(super) fn planted(folder: &Path, stem: &str, binary: &str) -> Object {
        let folder = folder.join(stem);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("fatbin"), binary).unwrap();
        Object {
            stem: stem.to_owned(),
            source: format!("{stem}.cu"),
            folder,
            is_new: true,
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{fresh_folder, script};

    fn source(name: &str, text: &str) -> Source {
        Source {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn sources() -> Vec<Source> {
        vec![
            source("a.cu", "#include \"kernel.cuh\"\n"),
            source("b.cu", "# include  \"b.cuh\" // \"kernel.cuh\"\n"),
            source(
                "b.cuh",
                "#pragma once\n#include \"deep.cuh\"\n#include <kernel.cuh>\n",
            ),
            source("deep.cuh", "#include \"b.cuh\"\n"),
            source("kernel.cuh", "// not #include \"deep.cuh\"\n"),
        ]
    }

    #[test]
    fn includes_are_followed_through_circles() {
        let sources = sources();
        let of = |idx: usize| with_included(&sources[idx], &sources);
        assert_eq!(of(0), BTreeSet::from(["a.cu", "kernel.cuh"]));
        assert_eq!(of(1), BTreeSet::from(["b.cu", "b.cuh", "deep.cuh"]));
    }

    /// An nvcc that writes down what it was called for; its output follows `--keep-dir FOLDER --output-file`.
    fn recording_nvcc(folder: &Path, log: &Path) -> Toolchain {
        let body = format!(
            "for last; do :; done\necho $last >> {}\n\
             while [ \"$1\" != --keep-dir ]; do shift; done\n\
             stem=$(basename $last .cu)\nfor n in 80 90 100; do echo .version 9.0 > $2/$stem.compute_$n.ptx; done\n\
             echo x > $2/x.cpp1.ii; echo said >&2",
            log.display()
        );
        let packs =
            "for word; do case $word in --create=*) echo fat > ${word#--create=};; esac; done";
        script(folder, "fatbinary", packs);
        Toolchain {
            nvcc: script(folder, "nvcc", &body),
            ptxas: script(folder, "ptxas", "true"),
            version: "13.0.88".to_owned(),
        }
    }

    #[test]
    fn unchanged_sources_are_not_compiled_again() {
        let folder = fresh_folder("compile");
        let (log, kernels) = (folder.join("calls"), folder.join("kernels"));
        fs::create_dir_all(kernels.join("current")).unwrap();
        let mut toolchain = recording_nvcc(&folder, &log);
        let calls = |sources: &[Source], toolchain: &Toolchain| {
            let _ = fs::remove_file(&log);
            let objects = compile(sources, toolchain, &kernels).unwrap();
            let calls = fs::read_to_string(&log).unwrap_or_default();
            let mut calls: Vec<String> = calls.lines().map(str::to_owned).collect();
            calls.sort();
            assert_eq!(calls.len(), objects.iter().filter(|o| o.is_new).count());
            calls
        };
        let mut sources = sources();
        assert_eq!(calls(&sources, &toolchain), ["cuda/a.cu", "cuda/b.cu"]);
        assert!(calls(&sources, &toolchain).is_empty());
        sources[3].bytes.push(b'\n');
        assert_eq!(calls(&sources, &toolchain), ["cuda/b.cu"]);
        toolchain.version.push('x');
        assert_eq!(calls(&sources, &toolchain).len(), 2);

        let objects = compile(&sources, &toolchain, &kernels).unwrap();
        assert_eq!(objects[0].ptx().unwrap(), [".version 9.0\n"; 3]);
        assert_eq!(objects[1].log().unwrap(), "said\n");
        assert_eq!(fs::read(objects[0].fatbin()).unwrap(), b"fat\n");
        // The results of earlier contents are gone, intermediate files too.
        assert_eq!(fs::read_dir(&kernels).unwrap().count(), 3);
        assert_eq!(fs::read_dir(&objects[0].folder).unwrap().count(), 5);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_the_compiler_says_of_a_bad_source_is_shown_and_nothing_is_kept() {
        let folder = fresh_folder("compile-error");
        let toolchain = Toolchain {
            nvcc: script(&folder, "nvcc", "echo 'a.cu(3): error: no' >&2; exit 2"),
            ptxas: folder.join("ptxas"),
            version: "13.0.88".to_owned(),
        };
        let kernels = folder.join("kernels");
        for _ in 0..2 {
            let error = compile(&sources(), &toolchain, &kernels).err().unwrap();
            let text = error.to_string();
            assert!(
                text.contains("a.cu(3): error: no") && text.contains("cuda/b.cu"),
                "{text}"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
