//! Hostile inputs: damaged copies of every kind of file that the program reads, given to the commands
//! that read it.
//!
//! Each case is a process of its own. It must end by itself within a limit of time and memory, with
//! exit code 0, 1 or 2, without a panic; an error has a message and leaves no output file, and
//! nothing else is left behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_random::KeyedRng;

use super::mutation::CLASSES;
use crate::launch::{self, Values};
use crate::measure::Context;
use crate::paths;
use crate::process;
use crate::report::{self, Failure, Report};

/// A kind of file, and the commands that read it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    name: String,
    /// Cases of each class of mutation.
    cases: u64,
    seed: u64,
    /// Longest time of a case.
    limit_seconds: f64,
    /// Address space of a case.
    limit_bytes: u64,
    /// Commands that make the whole file.
    #[serde(default)]
    prepare: Vec<Vec<String>>,
    /// The whole file, in the folder `{scratch}` of `prepare`; or its text.
    #[serde(default)]
    file: String,
    #[serde(default)]
    text: String,
    /// The folder around the file, which each case gets a copy of: a run's, for example.
    #[serde(default)]
    folder: String,
    /// Name of the damaged file.
    input: String,
    /// Commands with `{input}`, `{folder}` and `{out}`.
    commands: Vec<Vec<String>>,
}

/// The parts of a request that all cases share.
struct Campaign<'a> {
    request: &'a Request,
    program: &'a Path,
    scratch: &'a Path,
    whole: Vec<u8>,
}

/// One damaged file and one command.
struct Case {
    class_idx: usize,
    index: u64,
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    /// The file was accepted.
    Read,
    /// The file was refused with a message.
    Refused,
    /// The file was accepted, and no answer was found.
    NoAnswer,
    Violation {
        kind: &'static str,
        what: String,
    },
}

/// A row for each class of mutation.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let n_cases = context.options.runs.map_or(request.cases, u64::from);
    let scratch = paths::fresh_scratch(&format!("inputs-{}", request.input))?;
    let campaign = Campaign {
        whole: whole_file(context, request, &scratch)?,
        program: &context.program,
        scratch: &scratch,
        request,
    };
    campaign.check_whole_file_is_read()?;
    for (class_idx, (class, _)) in CLASSES.iter().enumerate() {
        let verdicts = campaign.class(class_idx, n_cases)?;
        let row = row(&request.name, class, &verdicts);
        let is_test = context.options.test && row["violations"] != 0;
        report::ensure(!is_test, || row["note"].to_string())?;
        out.row(row);
    }
    Ok(())
}

/// Counts, and the first violation of each kind.
fn row(name: &str, class: &str, verdicts: &[(u64, Verdict)]) -> Value {
    let count = |is: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|(_, v)| is(v)).count();
    let mut first = BTreeMap::new();
    for (index, verdict) in verdicts {
        if let Verdict::Violation { kind, what } = verdict {
            first
                .entry(kind)
                .or_insert(format!("{kind} in case {index}: {what}"));
        }
    }
    json!({
        "input": name,
        "mutation": class,
        "cases": verdicts.len(),
        "read": count(&|v| *v == Verdict::Read),
        "refused": count(&|v| *v == Verdict::Refused),
        "no_answer": count(&|v| *v == Verdict::NoAnswer),
        "violations": count(&|v| matches!(v, Verdict::Violation { .. })),
        "note": first.into_values().collect::<Vec<_>>().join("; ").escape_debug().to_string(),
    })
}

/// Makes the file that cases are damaged copies of.
fn whole_file(context: &Context<'_>, request: &Request, scratch: &Path) -> Result<Vec<u8>> {
    let values = launch::places(scratch);
    for words in &request.prepare {
        let words = launch::substitute(words, &values)?;
        process::check(
            process::command(&context.program)
                .args(words)
                .stdout(Stdio::null()),
        )?;
    }
    if request.file.is_empty() {
        return Ok(request.text.clone().into_bytes());
    }
    let file = launch::substitute(std::slice::from_ref(&request.file), &values)?;
    let path = paths::root().join(file.first().map(PathBuf::from).unwrap_or_default());
    fs::read(&path).with_context(|| path.display().to_string())
}

impl Campaign<'_> {
    /// A campaign over a file that is refused undamaged would test nothing behind the first check.
    fn check_whole_file_is_read(&self) -> Result<()> {
        for command in &self.request.commands {
            let verdict = self.judge(&self.whole, command, "whole")?;
            ensure!(
                verdict == Verdict::Read,
                "{}: the undamaged file: {verdict:?}",
                command.join(" ")
            );
        }
        Ok(())
    }

    /// All cases of a class, on as many threads as there are processors.
    fn class(&self, class_idx: usize, n_cases: u64) -> Result<Vec<(u64, Verdict)>> {
        let next = AtomicU64::new(0);
        let found = Mutex::new(Vec::new());
        let n_threads = std::thread::available_parallelism()?.get();
        std::thread::scope(|scope| {
            let worker = |thread_idx: usize| {
                let (next, found) = (&next, &found);
                move || -> Result<()> {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= n_cases {
                            return Ok(());
                        }
                        let verdict = self.case(&Case { class_idx, index }, thread_idx)?;
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push((index, verdict));
                    }
                }
            };
            let workers: Vec<_> = (0..n_threads).map(|idx| scope.spawn(worker(idx))).collect();
            for worker in workers {
                worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("a worker panicked"))??;
            }
            anyhow::Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(index, _)| *index);
        Ok(found)
    }

    fn case(&self, case: &Case, thread_idx: usize) -> Result<Verdict> {
        let (class, operator) = CLASSES[case.class_idx];
        let mut rng = KeyedRng::new(self.request.seed, class, case.index);
        let mut bytes = operator(&mut rng, &self.whole);
        // One case in four is damaged twice.
        if rng.below(4) == 0 {
            let (_, second) = CLASSES[rng.below(CLASSES.len() as u64) as usize];
            bytes = second(&mut rng, &bytes);
        }
        let commands = &self.request.commands;
        let command = &commands[(case.index % commands.len() as u64) as usize];
        let verdict = self.judge(&bytes, command, &thread_idx.to_string())?;
        if matches!(verdict, Verdict::Violation { .. }) {
            let folder = self.scratch.join("violations");
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{class}-{}", case.index)), &bytes)?;
        }
        Ok(verdict)
    }

    /// Runs a command on a file in a folder of its own, and looks at what is left of it.
    fn judge(&self, bytes: &[u8], command: &[String], folder: &str) -> Result<Verdict> {
        let folder = self.scratch.join(format!("case-{folder}"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        if !self.request.folder.is_empty() {
            copy_folder(&self.scratch.join(&self.request.folder), &folder)?;
        }
        let input = folder.join(&self.request.input);
        fs::write(&input, bytes)?;
        let before = names(&folder)?;
        let text = |path: &Path| path.display().to_string();
        let values = Values::from([
            ("input".to_owned(), text(&input)),
            ("folder".to_owned(), text(&folder)),
            ("scratch".to_owned(), text(self.scratch)),
            ("out".to_owned(), text(&folder.join("out"))),
        ]);
        let words = launch::substitute(command, &values)?;
        let ended = self.ended(&words, &folder)?;
        let left: Vec<String> = names(&folder)?
            .into_iter()
            .filter(|name| !before.contains(name) && !name.starts_with("std"))
            .collect();
        Ok(verdict(&ended, &left))
    }

    /// Runs under limits of memory and time.
    fn ended(&self, words: &[String], folder: &Path) -> Result<Ended> {
        let stderr_path = folder.join("stderr");
        let limit_kib = (self.request.limit_bytes / 1024).to_string();
        let mut command = process::command("sh");
        command
            .args(["-c", "ulimit -v \"$0\"; exec \"$@\"", &limit_kib])
            .arg(self.program)
            .args(words)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&stderr_path)?);
        let mut child = command.spawn().context("cannot start sh")?;
        let status = process::wait_within(&mut child, self.request.limit_seconds)?;
        Ok(Ended {
            in_time: status.is_some(),
            exit_code: status.and_then(|status| status.code()),
            stderr: String::from_utf8_lossy(&fs::read(&stderr_path)?).into_owned(),
        })
    }
}

/// How the process of a case ended.
#[derive(Debug)]
struct Ended {
    in_time: bool,
    /// Absent after a signal, and after a kill.
    exit_code: Option<i32>,
    stderr: String,
}

/// The rules that every case keeps.
fn verdict(ended: &Ended, left: &[String]) -> Verdict {
    let violation = |kind, what: &str| Verdict::Violation {
        kind,
        what: what.chars().take(300).collect(),
    };
    let Ended { stderr, .. } = ended;
    if !ended.in_time {
        return violation("hang", stderr);
    }
    let has_message = stderr.lines().any(|line| line.starts_with("error: "));
    let is_clean = !stderr
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t');
    match ended.exit_code {
        None => violation("signal", stderr),
        _ if stderr.contains("panicked at") => violation("panic", stderr),
        Some(0) => Verdict::Read,
        Some(1 | 2) if !has_message => violation("no message", stderr),
        Some(1 | 2) if !is_clean => violation("control characters in a message", stderr),
        Some(1 | 2) if !left.is_empty() => violation("leftover", &left.join(", ")),
        Some(1) => Verdict::NoAnswer,
        Some(2) => Verdict::Refused,
        Some(other) => violation("exit code", &format!("{other}: {stderr}")),
    }
}

/// Names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => fs::copy(entry.path(), to).map(drop)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(exit_code: Option<i32>, stderr: &str, left: &[&str]) -> Verdict {
        let ended = Ended {
            in_time: true,
            exit_code,
            stderr: stderr.to_owned(),
        };
        let left: Vec<String> = left.iter().map(|&name| name.to_owned()).collect();
        verdict(&ended, &left)
    }

    fn kind(verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Violation { kind, .. } => kind,
            _ => "none",
        }
    }

    #[test]
    fn each_rule_is_seen_to_be_broken() {
        const MESSAGE: &str = "error: a.mtx:3: expected 2 fields, found 1\n";
        assert_eq!(of(Some(0), "", &["out"]), Verdict::Read);
        assert_eq!(of(Some(2), MESSAGE, &[]), Verdict::Refused);
        assert_eq!(of(Some(1), MESSAGE, &[]), Verdict::NoAnswer);
        assert_eq!(kind(of(None, MESSAGE, &[])), "signal");
        assert_eq!(kind(of(Some(101), "thread panicked at x", &[])), "panic");
        assert_eq!(kind(of(Some(0), "thread panicked at x", &[])), "panic");
        assert_eq!(kind(of(Some(2), "", &[])), "no message");
        assert_eq!(kind(of(Some(2), MESSAGE, &["out"])), "leftover");
        assert_eq!(kind(of(Some(4), MESSAGE, &[])), "exit code");
        let coloured = "error: `\u{1b}[31m` is no number\n";
        assert_eq!(
            kind(of(Some(2), coloured, &[])),
            "control characters in a message"
        );
        let hang = Ended {
            in_time: false,
            exit_code: None,
            stderr: String::new(),
        };
        assert_eq!(kind(verdict(&hang, &[])), "hang");
    }
}
