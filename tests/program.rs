//! Running the binary: every run ends, by itself or by a deadline.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use shardgraph_device::{Device, Timer};

/// Longer than any run here takes on a slow machine.
const DEADLINE_S: f64 = 300.0;

/// What a finished run left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `shardgraph` with words separated by blanks; `{}` stands for the next of `paths`.
///
/// (Paths go in apart, because a path may hold a blank.)
pub(crate) fn run(words: &str, paths: &[&Path]) -> Run {
    finish(&mut command(words, paths))
}

/// The command that [`run`] runs.
pub(crate) fn command(words: &str, paths: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardgraph"));
    let mut paths = paths.iter();
    for word in words.split_whitespace() {
        match word {
            "{}" => command.arg(paths.next().expect("a path for each {}")),
            _ => command.arg(word),
        };
    }
    assert_eq!(paths.next(), None, "a {{}} for each path");
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let status = wait(&mut child);
    Run {
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Waits for a process, and kills it at the deadline.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let status = within_deadline(|| child.try_wait().unwrap());
    status.unwrap_or_else(|| {
        let _ = child.kill();
        panic!("still running after {DEADLINE_S} s: {child:?}");
    })
}

/// Asks until there is an answer or the deadline has passed.
pub(crate) fn within_deadline<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let timer = Timer::start(&Device::host());
    while timer.elapsed_s() < DEADLINE_S {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

fn read_all(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

impl Run {
    /// The run, which must have ended well and with no other word on standard error than that a graph is empty.
    pub(crate) fn ok(self) -> Run {
        assert_eq!(self.code, Some(0), "{self:?}");
        let is_about_nothing =
            |line: &&str| line.starts_with("warning: ") && line.ends_with(": the graph is empty");
        let other: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| !is_about_nothing(line))
            .collect();
        assert!(other.is_empty(), "{self:?}");
        self
    }

    /// The error message of a run that must have failed with this code, without an answer.
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        self.stderr
    }

    /// The JSON object of a run that must have ended well, without what every answer has.
    pub(crate) fn json(self) -> Value {
        opened(&self.ok().stdout)
    }

    /// What follows `name` and blanks on a line of the answer, indented or not.
    pub(crate) fn line(&self, name: &str) -> &str {
        let found = self.stdout.lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix(name)?;
            rest.starts_with(' ').then(|| rest.trim_start())
        });
        found.unwrap_or_else(|| panic!("no line `{name} ...`: {self:?}"))
    }
}

/// The own keys of a JSON answer, or of the only one of its list `answers`; every answer names its command, the program's version and the schema's.
pub(crate) fn opened(text: &str) -> Value {
    let mut answer: Value = serde_json::from_str(text).unwrap();
    let keys = answer.as_object_mut().unwrap();
    let mut take = |key: &str| {
        keys.remove(key)
            .unwrap_or_else(|| panic!("no `{key}`: {text}"))
    };
    assert!(!take("command").as_str().unwrap().is_empty());
    assert_eq!(take("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(take("schema_version"), 3);
    match answer
        .get("answers")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        Some([only]) => only.clone(),
        _ => answer,
    }
}

/// The names in a folder, sorted; hidden ones too.
pub(crate) fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
