//! `cargo xtask repro`: redoes a figure, a table or a shipped file of the project.

mod cover;
mod faults;
mod kills;
mod model;
mod mvc_quality;
mod ranks;
mod run_folder;
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

const REPROS: [Repro; 5] = [
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
    Repro {
        name: "faults",
        what: "seconds until all ranks know that one was killed or stopped [--runs N: of each kind]",
        run: faults::run,
    },
    Repro {
        name: "kills",
        what: "kill a training job at random moments and resume it to the same bytes [--runs N]",
        run: kills::run,
    },
    Repro {
        name: "model",
        what: "the cost model of the collectives against SimGrid and against a network of 1 Gbit/s",
        run: model::run,
    },
];

/// What the flags say.
#[derive(Default)]
struct Options {
    /// Replace the shipped files instead of failing when they differ.
    accept: bool,
    /// The machine's name in the record.
    host: Option<String>,
    /// How often, where the definition's number is not wanted.
    runs: Option<u32>,
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
            Long("runs") => options.runs = Some(args.value()?.parse()?),
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
