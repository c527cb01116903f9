//! What the kernels reach on a GPU, beside the copy and product rates measured in the same run, and beside cuSPARSE.
//!
//! Prints `INFO:<name>:<text>` about the device and `METRIC:<series>/<metric>:<value>:<unit>` once for each sample; without
//! a GPU it ends with exit code 3. With `--test` every case runs once, small, on the emulated kernels. Words name sections;
//! one that fails is told, and the others run.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to whoever runs it"
)]

mod cover;
mod cusparse;
mod dense;
mod graphs;
mod report;
mod rows;
mod sgns;
mod sparse;

use std::process::ExitCode;

use shardgraph_device::{Device, DeviceKind, Error};

use report::Report;

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let is_test = has("--test") || !has("--bench"); // `cargo test` gives neither
    let device = match is_test {
        false => Device::open(DeviceKind::Cuda(0)),
        true => match shardgraph_cuemu::library() {
            Some(library) => Device::emulated(&library),
            None => {
                println!(
                    "SKIPPED: gpu bench as a test: {}",
                    shardgraph_cuemu::SKIP_REASON
                );
                return ExitCode::SUCCESS;
            }
        },
    };
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    if let Some(unknown) = words
        .iter()
        .find(|word| !SECTIONS.iter().any(|(name, _)| name == word))
    {
        let names = SECTIONS.map(|(name, _)| name).join(", ");
        eprintln!("gpu bench: no section `{unknown}`: {names}");
        return ExitCode::from(2);
    }
    match device.and_then(|device| run(&Report::new(device, is_test), &words)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gpu bench: {error}");
            ExitCode::from(if error.is_missing_device() { 3 } else { 1 })
        }
    }
}

/// A part of the bench by its name.
type Section = (&'static str, fn(&Report) -> Result<(), Error>);

/// The most wanted numbers first.
const SECTIONS: [Section; 5] = [
    ("cover", cover::run),
    ("sgns", sgns::run),
    ("sparse", sparse::run),
    ("dense", dense::run),
    ("rows", rows::run),
];

/// The sections that the words name, all where there is none; false where one failed.
fn run(report: &Report, words: &[String]) -> Result<bool, Error> {
    let ceilings = dense::ceilings(report)?;
    report.machine();
    let report = report.with_ceilings(ceilings);
    let mut is_good = true;
    for (name, section) in SECTIONS {
        if !words.is_empty() && !words.iter().any(|word| word == name) {
            continue;
        }
        if let Err(error) = section(&report) {
            eprintln!("gpu bench: {name}: {error}");
            is_good = false;
        }
    }
    Ok(is_good)
}
