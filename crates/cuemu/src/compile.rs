//! Compiles the emulator and a folder of kernels into one shared library: what the build script
//! does for the plain library, and `cuemu-build` for the checking ones.
//!
//! Each `.cu` file becomes an object of its own, remade only when something it includes or its
//! command has changed. The kernels of a file are found by a scan for `__global__`; their
//! signatures are the compiler's, through templates in `cuemu.h`.

// The build script has this file under another name; the path holds for both.
#[path = "compile/kernel_scan.rs"]
mod kernel_scan;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use self::kernel_scan::{Kernel, scan};

/// What a library checks beyond what every one checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Nothing more, at full speed.
    Plain,
    /// AddressSanitizer and UndefinedBehaviorSanitizer: they end the process with a report. They
    /// have to be in the process from its start; see [`environment`].
    Address,
    /// Every access of every CUDA thread is checked against all others and against the bounds of
    /// the buffers. A race is an error of the launch, in any process.
    Race,
}

/// What to compile, and where to.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the library checks.
    pub build: Build,
    /// The emulator's own sources (`src` of this crate).
    pub emulator: PathBuf,
    /// The folder whose `.cu` files, and those of the folders in it, are compiled; also searched for headers.
    pub kernels: PathBuf,
    /// Further folders with headers, `kernel.cuh` among them where `kernels` does not hold it.
    pub includes: Vec<PathBuf>,
    /// Of the `.cu` files only these (`relu.cu`); all where this is `None`.
    pub only: Option<Vec<String>>,
    /// Further flags for every compilation.
    pub flags: Vec<String>,
    /// The folder for objects, made if missing; for one job at a time.
    pub objects: PathBuf,
    /// The library to write.
    pub library: PathBuf,
}

/// Why there is no library: a sentence, and the compiler's own words.
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As [`fmt::Display`]: the compiler's message stays readable where `main` returns it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The C++ compiler's command: `$CXX` if set, else `g++` or `c++`, whichever runs. `None` without
/// one, and on systems other than Linux.
pub fn compiler() -> Option<Vec<String>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    if let Ok(words) = std::env::var("CXX") {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() {
            return Some(words);
        }
    }
    let runs = |name: &&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let name = ["g++", "c++"].into_iter().find(runs)?;
    Some(vec![name.to_owned()])
}

/// The files that `SHARDGRAPH_EMULATED_ONLY` names (`a.cu,b.cu`), for [`Job::only`]: a developer's
/// way to work on some kernels while others do not compile. `None`, all files, where it is not set.
pub fn wanted_files() -> Option<Vec<String>> {
    let list = std::env::var("SHARDGRAPH_EMULATED_ONLY").unwrap_or_default();
    let files = list.split(',').map(|name| name.trim().to_owned());
    (!list.is_empty()).then(|| files.collect())
}

/// Compiles what has changed and links the library.
///
/// # Errors
/// A file that cannot be read or written, a `__global__` that the scan does not understand, and
/// the compiler's message for a source that does not compile. A warning is no error: all of them
/// are returned.
pub fn compile(job: &Job, compiler: &[String]) -> Result<Vec<String>, Error> {
    let mut job = job.clone();
    if job.build == Build::Address && accepts(UNWRITTEN_LOCALS, compiler) {
        job.flags.push(UNWRITTEN_LOCALS.to_owned());
    }
    let job = &job;
    fs::create_dir_all(&job.objects).map_err(|error| failed("make", &job.objects, &error))?;
    let mut units = Vec::new();
    for source in kernel_files(job)? {
        units.push(kernel_unit(job, &source)?);
    }
    units.extend(["cuemu.cpp", "launch.cpp"].map(|name| own_unit(job, name)));
    if job.build == Build::Race {
        units.push(own_unit(job, "race.cpp"));
    }
    let warnings = compile_units(&units, compiler)?;
    let objects: Vec<PathBuf> = units.into_iter().map(|unit| unit.object).collect();
    link(job, &objects, compiler)?;
    Ok(warnings)
}

/// Compiles one C++ source into a shared library, unless it is newer than the source.
///
/// # Errors
/// As [`compile`].
pub fn compile_library(source: &Path, library: &Path, compiler: &[String]) -> Result<(), Error> {
    let mut command = command(compiler);
    command.args([
        "-std=c++17",
        "-O1",
        "-g1",
        "-Wall",
        "-fPIC",
        "-fvisibility=hidden",
    ]);
    command
        .args(["-shared", "-pthread"])
        .arg(source)
        .arg("-ldl");
    run_if_stale(command, &[source.to_owned()], library).map(drop)
}

/// The environment variables that a process must start with to use `library`, which is of this
/// build; `Err` names what is missing.
///
/// # Errors
/// The compiler has no shared AddressSanitizer or UndefinedBehaviorSanitizer.
pub fn environment(
    build: Build,
    library: &Path,
    compiler: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let mut variables = vec![(
        "SHARDGRAPH_EMULATED_LIBRARY".to_owned(),
        library.display().to_string(),
    )];
    if build == Build::Address {
        let asan = runtime_library("libasan.so", compiler)?;
        let ubsan = runtime_library("libubsan.so", compiler)?;
        variables.push(("LD_PRELOAD".to_owned(), format!("{asan}:{ubsan}")));
        // Rust's test harness and the dynamic loader keep memory to the end of the process.
        variables.push(("ASAN_OPTIONS".to_owned(), "detect_leaks=0".to_owned()));
        variables.push(("UBSAN_OPTIONS".to_owned(), "print_stacktrace=1".to_owned()));
    }
    Ok(variables)
}

/// The path of a library that comes with the compiler, which answers with the bare name if it has none.
fn runtime_library(name: &str, compiler: &[String]) -> Result<String, Error> {
    let mut command = command(compiler);
    command.arg(format!("-print-file-name={name}"));
    let output = command
        .output()
        .map_err(|error| Error(format!("cannot run {command:?}: {error}")))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !Path::new(&path).is_absolute() {
        return Err(Error(format!("{} has no {name}", compiler.join(" "))));
    }
    Ok(path)
}

/// Lines of inlined functions too; binutils before 2.41 confuse the files of DWARF 5.
const FULL_LINES: &str = "-gdwarf-4";

/// A pattern in local variables that nothing has written; g++ has it since 12.
const UNWRITTEN_LOCALS: &str = "-ftrivial-auto-var-init=pattern";

fn accepts(flag: &str, compiler: &[String]) -> bool {
    let mut command = command(compiler);
    command.args([flag, "-fsyntax-only", "-x", "c++", "/dev/null"]);
    command.output().is_ok_and(|done| done.status.success())
}

/// One source, one object.
struct Unit {
    source: PathBuf,
    object: PathBuf,
    flags: Vec<String>,
}

/// The `.cu` files of a folder and of the folders in it.
fn cu_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(|error| failed("list", folder, &error))? {
        let path = entry
            .map_err(|error| failed("list", folder, &error))?
            .path();
        if path.is_dir() {
            cu_files(&path, files)?;
        } else if path.extension() == Some(OsStr::new("cu")) {
            files.push(path);
        }
    }
    Ok(())
}

/// The `.cu` files of the job that are no programs, sorted by path.
fn kernel_files(job: &Job) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    cu_files(&job.kernels, &mut all)?;
    all.sort();
    let mut files = Vec::new();
    for path in all {
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        if !text.contains("\nint main(") {
            files.push(path);
        }
    }
    let Some(only) = &job.only else {
        return Ok(files);
    };
    let named = |path: &Path, name: &str| path.file_name() == Some(OsStr::new(name));
    if let Some(name) = only
        .iter()
        .find(|name| !files.iter().any(|path| named(path, name)))
    {
        let folder = job.kernels.display();
        return Err(Error(format!("there is no {name} in {folder}")));
    }
    files.retain(|path| only.iter().any(|name| named(path, name)));
    Ok(files)
}

/// The name before `.cu`, which becomes part of C++ names.
fn stem(source: &Path) -> Result<String, Error> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    if stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(stem.into_owned());
    }
    let source = source.display();
    Err(Error(format!(
        "{source}: letters, digits and _ make the name of a .cu file"
    )))
}

/// The unit of one `.cu` file: a source that includes it and registers its kernels.
fn kernel_unit(job: &Job, source: &Path) -> Result<Unit, Error> {
    let text = fs::read_to_string(source).map_err(|error| failed("read", source, &error))?;
    let kernels = scan(&text).map_err(|what| Error(format!("{}: {what}", source.display())))?;
    let stem = stem(source)?;
    let mut registered = format!("#include \"{}\"\nCUEMU_FILE({stem});\n", source.display());
    for kernel in &kernels {
        let Kernel { name, max_threads } = kernel;
        registered.push_str(&format!("CUEMU_REGISTER({stem}, {name}, {max_threads});\n"));
    }
    let wrapper = job.objects.join(format!("{stem}.kernels.cpp"));
    write_if_changed(&wrapper, &registered)?;
    let mut flags = common_flags(job);
    let checks: &[&str] = match job.build {
        Build::Plain => &["-O2", "-g1"],
        Build::Address => &[
            "-O1",
            FULL_LINES,
            "-fno-omit-frame-pointer",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
        ],
        // Only the compiler's calls are used: race.cpp defines them, nothing of TSan is linked.
        Build::Race => &[
            "-O1",
            FULL_LINES,
            "-fsanitize=thread",
            "--param=tsan-distinguish-volatile=1",
        ],
    };
    flags.extend(checks.iter().map(|flag| (*flag).to_owned()));
    Ok(Unit {
        source: wrapper,
        // The linker script knows kernels' objects by this ending.
        object: job.objects.join(format!("{stem}.kernels.o")),
        flags,
    })
}

/// A file of the emulator itself: never instrumented, told which build it serves.
fn own_unit(job: &Job, name: &str) -> Unit {
    let mut flags = common_flags(job);
    flags.extend(["-O2", "-g1"].map(str::to_owned));
    Unit {
        source: job.emulator.join(name),
        object: job.objects.join(name).with_extension("o"),
        flags,
    }
}

fn common_flags(job: &Job) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-std=c++17",
        "-fPIC",
        "-fvisibility=hidden",
        "-pthread",
        "-Wall",
        "-Wno-unknown-pragmas", // unroll
        "-fno-math-errno",
        "-ffp-contract=off",    // the same bits on every processor
        "-fno-strict-aliasing", // kernels read float as float4
        "-DCUEMU",
    ]
    .map(str::to_owned)
    .to_vec();
    match job.build {
        Build::Plain => {}
        Build::Address => flags.push("-DCUEMU_ADDRESS".to_owned()),
        Build::Race => flags.push("-DCUEMU_RACE".to_owned()),
    }
    for folder in std::iter::once(&job.emulator)
        .chain(std::iter::once(&job.kernels))
        .chain(&job.includes)
    {
        flags.push("-I".to_owned());
        flags.push(folder.display().to_string());
    }
    flags.extend(job.flags.iter().cloned());
    flags
}

/// Compiles the stale ones, as many at a time as there are processors; all warnings, or the first
/// failure in the order of `units`.
fn compile_units(units: &[Unit], compiler: &[String]) -> Result<Vec<String>, Error> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = units.get(i) else {
                return;
            };
            let result = compile_unit(unit, compiler);
            results
                .lock()
                .expect("no worker panics while it holds this")
                .push((i, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_workers.min(units.len()) {
            // Without a thread of its own, a unit is compiled by those that are there.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut results = results
        .into_inner()
        .expect("no worker panics while it holds this");
    results.sort_by_key(|(i, _)| *i);
    let mut warnings = Vec::new();
    for (_, result) in results {
        warnings.extend(result?);
    }
    Ok(warnings)
}

/// The warning lines of a compilation; none where the object is up to date.
fn compile_unit(unit: &Unit, compiler: &[String]) -> Result<Vec<String>, Error> {
    let dependencies = unit.object.with_extension("d");
    let mut command = command(compiler);
    command.args(&unit.flags).arg("-MMD").arg("-MF");
    command.arg(&dependencies).arg("-c").arg(&unit.source);
    let inputs = fs::read_to_string(&dependencies)
        .map(|rule| prerequisites(&rule))
        .unwrap_or_default();
    let said = run_if_stale(command, &inputs, &unit.object)?;
    Ok(said
        .lines()
        .filter(|line| line.contains("warning:"))
        .map(str::to_owned)
        .collect())
}

/// The files behind the colon of a compiler's make rule.
fn prerequisites(rule: &str) -> Vec<PathBuf> {
    let rule = rule.replace("\\\n", " ").replace("\\ ", "\u{0}");
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    files
        .split_whitespace()
        .map(|file| PathBuf::from(file.replace('\u{0}', " ")))
        .collect()
}

fn link(job: &Job, objects: &[PathBuf], compiler: &[String]) -> Result<(), Error> {
    let script = job.objects.join("shared.ld");
    write_if_changed(&script, &linker_script(&kernel_files(job)?)?)?;
    let mut command = command(compiler);
    command.args([
        "-shared",
        "-pthread",
        "-Wl,-Bsymbolic",
        "-Wl,-z,defs",
        "-Wl,-T",
    ]);
    command.arg(&script).args(objects);
    if job.build == Build::Address {
        command.arg("-fsanitize=address,undefined");
    }
    let mut inputs = objects.to_vec();
    inputs.push(script);
    run_if_stale(command, &inputs, &job.library)?;
    Ok(())
}

/// Gathers `__shared__` memory, which is all zero-initialised data of the kernels' objects: first
/// what templates and inline functions hold, for those may stand for several files, then each file's.
///
/// A section attribute on the variables would be simpler, but g++ refuses to put a template's
/// static and another one into one section (conflicting section types).
fn linker_script(kernels: &[PathBuf]) -> Result<String, Error> {
    let mut script =
        "SECTIONS {\n  cuemu_shared (NOLOAD) : ALIGN(64) {\n    cuemu_shared_begin = .;\n    \
                      *.kernels.o(.bss.*)\n    . = ALIGN(64);\n    cuemu_shared_end = .;\n"
            .to_owned();
    for source in kernels {
        let stem = stem(source)?;
        script.push_str(&format!(
            "    cuemu_shared_begin_{stem} = .;\n    */{stem}.kernels.o(.bss)\n    . = ALIGN(64);\n    \
             cuemu_shared_end_{stem} = .;\n"
        ));
    }
    script.push_str("  }\n}\nINSERT BEFORE .bss;\n");
    Ok(script)
}

/// Runs `command -o output` unless `output` is newer than every input and was made by the same
/// command. The file appears whole or not at all. Gives what the compiler said.
fn run_if_stale(mut command: Command, inputs: &[PathBuf], output: &Path) -> Result<String, Error> {
    let stamp = with_suffix(output, ".command");
    let text = format!("{command:?}");
    let made = modified(output).filter(|_| !inputs.is_empty());
    let is_newest = made.is_some_and(|made| {
        inputs
            .iter()
            .all(|input| modified(input).is_some_and(|changed| changed < made))
    });
    if is_newest && fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        return Ok(String::new());
    }
    let partial = with_suffix(output, &format!(".partial-{}", std::process::id()));
    let done = command
        .arg("-o")
        .arg(&partial)
        .output()
        .map_err(|error| Error(format!("cannot run {command:?}: {error}")))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if !done.status.success() {
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let program = command.get_program().to_string_lossy();
        let words = words.join(" ");
        return Err(Error(format!("{said}{program} {words}: {}", done.status)));
    }
    fs::write(&stamp, text).map_err(|error| failed("write", &stamp, &error))?;
    fs::rename(&partial, output).map_err(|error| failed("write", output, &error))?;
    Ok(said)
}

fn command(compiler: &[String]) -> Command {
    let mut command = Command::new(compiler.first().map_or("g++", String::as_str));
    command.args(compiler.iter().skip(1));
    command
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Keeps the old file's time where nothing changes, so that nothing is recompiled.
fn write_if_changed(path: &Path, text: &str) -> Result<(), Error> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| failed("write", path, &error))
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    Error(format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_make_rule() {
        let rule = "a.o: /src/a.cu \\\n /src/with\\ space.h b.h\n";
        assert_eq!(
            prerequisites(rule),
            ["/src/a.cu", "/src/with space.h", "b.h"].map(PathBuf::from)
        );
        assert_eq!(prerequisites(""), Vec::<PathBuf>::new());
    }
}
