//! What the kernels reach on a GPU, beside the copy and product rates measured in the same run, and beside cuSPARSE.
//!
//! Prints `INFO:<name>:<text>` about the device and `METRIC:<series>/<metric>:<value>:<unit>` once for each sample; without
//! a GPU it ends with exit code 3. With `--test` every case runs once, small, on the emulated kernels.
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
    match device.and_then(|device| run(&Report::new(device, is_test))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu bench: {error}");
            ExitCode::from(if error.is_missing_device() { 3 } else { 1 })
        }
    }
}

fn run(report: &Report) -> Result<(), Error> {
    let ceilings = dense::ceilings(report)?;
    report.machine();
    let report = report.with_ceilings(ceilings);
    dense::run(&report)?;
    rows::run(&report)?;
    sparse::run(&report)?;
    sgns::run(&report)?;
    cover::run(&report)
}
