//! Faults of the system, injected: the k-th write, sync, rename, opened file, folder or thread of a
//! job fails, for every k until the job ends undisturbed.
//!
//! The job must end by itself with a message and leave no output, or with exit code 0 and the bytes
//! of an undisturbed run. After the fault the job is begun again, or resumed, and must end with
//! those bytes. `inject.c` is compiled with the machine's C compiler and preloaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::process;
use crate::report::{self, Failure, Report};

/// A fault: the function that fails, and its `errno` on Linux.
const FAULTS: [(&str, i32); 9] = [
    ("write", 28),          // ENOSPC: no space left
    ("write", 5),           // EIO
    ("read", 5),            // EIO
    ("fsync", 5),           // EIO
    ("rename", 13),         // EACCES
    ("open", 30),           // EROFS: read-only file system
    ("mkdir", 28),          // ENOSPC
    ("ftruncate", 28),      // ENOSPC
    ("pthread_create", 11), // EAGAIN
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    job: String,
    command: Vec<String>,
    /// Command after a fault; absent: the same.
    #[serde(default)]
    resume: Vec<String>,
    /// Files that every run that ends well has byte for byte, in the scratch folder.
    same: Vec<String>,
    /// What may stay after a failure: a run's folder, for example.
    #[serde(default)]
    may_stay: Vec<String>,
    /// Most faults of a function; a job with more calls has them spread evenly.
    most: u64,
    limit_seconds: f64,
}

struct Injection<'a> {
    request: &'a Request,
    program: &'a Path,
    library: &'a Path,
    scratch: PathBuf,
    command: Vec<String>,
    resume: Vec<String>,
    whole: Vec<Vec<u8>>,
}

/// How a run ended.
struct Ended {
    exit_code: Option<i32>,
    stderr: String,
    /// Calls of the function.
    n_calls: u64,
}

/// A function, its error, and which of its calls fails.
#[derive(Clone, Copy)]
struct Fault {
    call: &'static str,
    errno: i32,
    at: u64,
}

/// A row for each function and error.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let folder = paths::fresh_scratch("injected")?;
    let library = match library(&folder)? {
        Some(library) => library,
        None => {
            out.skip("no C compiler makes a shared library here");
            return Ok(());
        }
    };
    let scratch = folder.join("job");
    fs::create_dir_all(&scratch)?;
    let values = launch::places(&scratch);
    let resume = match request.resume.is_empty() {
        true => &request.command,
        false => &request.resume,
    };
    let mut injection = Injection {
        command: launch::substitute(&request.command, &values)?,
        resume: launch::substitute(resume, &values)?,
        request,
        program: &context.program,
        library: &library,
        scratch,
        whole: Vec::new(),
    };
    injection.record_whole()?;
    let most = context.options.runs.map_or(request.most, u64::from);
    for (call, errno) in FAULTS {
        let row = injection.all(call, errno, most)?;
        let is_test = context.options.test && row["violations"] != 0;
        report::ensure(!is_test, || row["note"].to_string())?;
        out.row(row);
    }
    Ok(())
}

/// Compiles the library that injects; `None` without a compiler.
fn library(folder: &Path) -> Result<Option<PathBuf>> {
    let source = folder.join("inject.c");
    let library = folder.join("inject.so");
    fs::write(&source, include_str!("inject.c"))?;
    let mut compiler = process::command("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-D_LARGEFILE64_SOURCE", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-lpthread"]);
    let is_made = compiler.status().is_ok_and(|status| status.success());
    Ok(is_made.then_some(library))
}

impl Injection<'_> {
    fn record_whole(&mut self) -> Result<()> {
        self.clear()?;
        let ended = self.ended(&self.command, None)?;
        ensure!(ended.exit_code == Some(0), "undisturbed: {}", ended.stderr);
        self.whole = self.files()?;
        Ok(())
    }

    fn files(&self) -> Result<Vec<Vec<u8>>> {
        let read = |name: &String| fs::read(self.scratch.join(name)).with_context(|| name.clone());
        self.request.same.iter().map(read).collect()
    }

    fn clear(&self) -> Result<()> {
        if self.scratch.exists() {
            fs::remove_dir_all(&self.scratch)?;
        }
        Ok(fs::create_dir_all(&self.scratch)?)
    }

    /// Every k of a function.
    fn all(&self, call: &'static str, errno: i32, most: u64) -> Result<Value> {
        self.clear()?;
        let none = Fault { call, errno, at: 0 };
        let n_calls = self.ended(&self.command, Some(none))?.n_calls;
        let n_faults = n_calls.min(most);
        let (mut n_failed, mut n_passed) = (0, 0);
        let mut violations: Vec<String> = Vec::new();
        for index in 0..n_faults {
            let at = 1 + index * n_calls / n_faults;
            let fault = Fault { call, errno, at };
            match self.one(fault) {
                Ok(true) => n_passed += 1,
                Ok(false) => n_failed += 1,
                Err(error) => violations.push(format!("call {at}: {error:#}")),
            }
        }
        Ok(json!({
            "job": self.request.job,
            "fault": format!("{call}, errno {errno}"),
            "calls": n_calls,
            "faults": n_faults,
            "ended_with_a_message": n_failed,
            "ended_well": n_passed,
            "violations": violations.len(),
            "note": violations.first().map(|v| v.escape_debug().to_string()).unwrap_or_default(),
        }))
    }

    /// One fault; true if the job ended well in spite of it.
    fn one(&self, fault: Fault) -> Result<bool> {
        self.clear()?;
        let ended = self.ended(&self.command, Some(fault))?;
        let stderr = &ended.stderr;
        ensure!(!stderr.contains("panicked at"), "a panic: {stderr}");
        let code = ended
            .exit_code
            .with_context(|| format!("a signal: {stderr}"))?;
        if code == 0 {
            ensure!(self.files()? == self.whole, "exit code 0 and other bytes");
            return Ok(true);
        }
        ensure!((1..=3).contains(&code), "exit code {code}: {stderr}");
        let has_message = stderr.lines().any(|line| line.starts_with("error: "));
        ensure!(has_message, "exit code {code} without a message: {stderr}");
        self.check_leftovers()?;
        self.go_on()?;
        Ok(false)
    }

    /// What a failed job leaves.
    fn check_leftovers(&self) -> Result<()> {
        for entry in fs::read_dir(&self.scratch)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let may_stay = self.request.may_stay.contains(&name);
            ensure!(may_stay, "{name} stays after the failure");
            // What was promised is whole where it stays.
            if let Some(at) = self.request.same.iter().position(|same| *same == name) {
                let is_whole = fs::read(self.scratch.join(&name))? == self.whole[at];
                ensure!(is_whole, "{name} stays with other bytes");
            }
        }
        Ok(())
    }

    /// Resumes, or begins again where there is nothing to resume.
    fn go_on(&self) -> Result<()> {
        let resumed = self.ended(&self.resume, None)?;
        if resumed.exit_code != Some(0) {
            self.clear()?;
            let begun = self.ended(&self.command, None)?;
            ensure!(begun.exit_code == Some(0), "begun again: {}", begun.stderr);
            let says_why = resumed.stderr.contains("error: ");
            ensure!(says_why, "resumed without a message: {}", resumed.stderr);
        }
        ensure!(self.files()? == self.whole, "other bytes after going on");
        Ok(())
    }

    fn ended(&self, words: &[String], fault: Option<Fault>) -> Result<Ended> {
        let folder = self.scratch.with_file_name("watch");
        fs::create_dir_all(&folder)?;
        let (stderr, count) = (folder.join("stderr"), folder.join("count"));
        let mut command = process::command(self.program);
        command
            .args(words)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&stderr)?);
        if let Some(fault) = fault {
            command
                .env("LD_PRELOAD", self.library)
                .env("INJECT_CALL", fault.call)
                .env("INJECT_ERRNO", fault.errno.to_string())
                .env("INJECT_AT", fault.at.to_string())
                .env("INJECT_COUNT", &count);
        }
        let mut child = command.spawn()?;
        let limit = self.request.limit_seconds;
        let Some(status) = process::wait_within(&mut child, limit)? else {
            let stderr = String::from_utf8_lossy(&fs::read(&stderr)?).into_owned();
            anyhow::bail!("a hang of {limit} s: {stderr}");
        };
        let n_calls = fs::read_to_string(&count).unwrap_or_default();
        Ok(Ended {
            exit_code: status.code(),
            stderr: String::from_utf8_lossy(&fs::read(&stderr)?).into_owned(),
            n_calls: n_calls.trim().parse().unwrap_or(0),
        })
    }
}
