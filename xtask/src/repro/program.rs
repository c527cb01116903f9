//! A crate's bench target `paper`, which does the work of a repro: a command and a request in, lines of JSON out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::json::{self, Json};
use crate::package;
use crate::process::{self, cargo};
use crate::toml::{Table, Value};

/// What a run printed.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) objects: Vec<Json>,
    pub(super) skips: Vec<String>,
}

/// Builds the program of a package.
pub(super) fn build(package: &str) -> Result<PathBuf> {
    let mut build = cargo(&["bench", "--no-run", "--locked", "--package"]);
    build.args([package, "--bench", "paper"]);
    let built = package::executables(&mut build)?;
    let program = built.into_iter().find(|(name, _)| name == "paper");
    Ok(program.context("cargo built no bench `paper`")?.1)
}

/// Runs one command of a program; `each` sees every line as it comes.
pub(super) fn run(
    program: &Path,
    command: &str,
    request: &Json,
    mut each: impl FnMut(&Json),
) -> Result<Lines> {
    let (mut lines, mut wrong) = (Lines::default(), None);
    let mut program = process::command(program);
    program.args([command, &request.to_string()]);
    let succeeded = process::each_line(&mut program, |line| {
        if line.starts_with("SKIPPED:") {
            println!("{line}");
            lines.skips.push(line.to_owned());
            return;
        }
        match json::parse(line) {
            Ok(object) => {
                each(&object);
                lines.objects.push(object);
            }
            Err(error) => wrong = Some(error.context(line.to_owned())),
        }
    })?;
    if let Some(error) = wrong {
        return Err(error);
    }
    if !succeeded {
        bail!("the program `paper` failed at `{command}`");
    }
    Ok(lines)
}

/// A TOML value as JSON.
pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::text(text),
        Value::Integer(number) => Json::Number(*number as f64),
        Value::Float(number) => Json::Number(*number),
        Value::Boolean(flag) => Json::Boolean(*flag),
        Value::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Table(table) => object(table),
    }
}

/// A TOML table as JSON.
pub(super) fn object(table: &Table) -> Json {
    let pairs = table.iter();
    Json::Object(
        pairs
            .map(|(key, value)| (key.clone(), to_json(value)))
            .collect(),
    )
}
