//! `cargo xtask repro`: redoes a figure, a table or a shipped file of the project.

mod cover;
mod mvc_quality;
mod train_default;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;

/// One thing that can be redone.
struct Repro {
    name: &'static str,
    what: &'static str,
    run: fn(&Options) -> Result<ExitCode>,
}

const REPROS: [Repro; 2] = [
    Repro {
        name: "train-default",
        what: "train the policy that is shipped and compare it byte for byte [--accept: ship what came out]",
        run: train_default::run,
    },
    Repro {
        name: "mvc-quality",
        what: "cover sizes on the 10 + 10 test graphs: paper | ours | max-degree greedy | optimum",
        run: mvc_quality::run,
    },
];

/// What the flags say.
#[derive(Default)]
struct Options {
    /// Replace the shipped files instead of failing when they differ.
    accept: bool,
    /// The machine's name in the record.
    host: Option<String>,
}

/// The names, for the check that documents name only what exists.
pub(crate) fn names() -> Vec<&'static str> {
    REPROS.iter().map(|repro| repro.name).collect()
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let (mut name, mut options) = (None, Options::default());
    while let Some(arg) = args.next()? {
        match arg {
            Value(value) if name.is_none() => name = Some(value.string()?),
            Long("list") => return list(),
            Long("accept") => options.accept = true,
            Long("host") => options.host = Some(args.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let name = name.context("give a name: `cargo xtask repro --list` shows them")?;
    match REPROS.iter().find(|repro| repro.name == name) {
        Some(repro) => (repro.run)(&options),
        None => bail!("no {name:?}: `cargo xtask repro --list` shows the names"),
    }
}

fn list() -> Result<ExitCode> {
    for repro in &REPROS {
        println!("{:<14} {}", repro.name, repro.what);
    }
    Ok(ExitCode::SUCCESS)
}
