//! Shipped policies made again and compared byte for byte; `--accept` ships what came out.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::report::{Failure, Report};

/// A policy with the commands that make it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// One after the other, into one scratch folder.
    commands: Vec<Vec<String>>,
    /// What they leave there.
    made: String,
    /// What it is compared with.
    shipped: String,
}

/// Trains, and compares the file.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    let scratch = paths::fresh_scratch(&format!("{}/policy", context.figure.path()))?;
    if options.test {
        check(request)?;
        out.skip("a small run trains no policy: its settings and the shipped file are there");
        return Ok(());
    }
    let places = launch::places(&scratch);
    let watch = crate::process::Stopwatch::start();
    for command in &request.commands {
        let words = launch::substitute(command, &places)?;
        launch::run_here(&context.program, &words, &scratch)?;
    }
    let seconds = watch.seconds();
    let bytes = fs::read(scratch.join(&request.made))?;
    let shipped = paths::root().join(&request.shipped);
    let is_same = fs::read(&shipped).is_ok_and(|shipped| shipped == bytes);
    if !is_same && options.accept {
        fs::write(&shipped, &bytes)?;
    }
    let note = match (is_same, options.accept) {
        (true, _) => "the same bytes",
        (false, true) => "replaced",
        (false, false) => "DIFFERENT",
    };
    out.row(json!({
        "policy": request.shipped, "files_that_differ": u8::from(!is_same), "training_seconds": seconds,
        "note": note,
    }));
    Ok(())
}

/// A test trains nothing: the settings files and the shipped file are there.
fn check(request: &Request) -> Result<(), Failure> {
    let words = request.commands.iter().flatten();
    let files = words.filter(|word| word.ends_with(".toml"));
    for file in files.chain([&request.shipped]) {
        if !Path::new(&paths::root().join(file)).exists() {
            return Err(format!("there is no {file}").into());
        }
    }
    Ok(())
}
