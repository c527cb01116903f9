//! The model against SimGrid SMPI, which simulates the network message by message.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{Aim, Constants, Findings, Row, predict};
use crate::bench::fresh_scratch;
use crate::process;
use crate::project;

const SOURCE: &str = "xtask/peers/all_reduce_smpi.c";

/// 10 Gbit/s and 25 us from each machine to the switch.
const BYTES_PER_SECOND: f64 = 1.25e9;
const LATENCY_SECONDS: f64 = 25e-6;
const MAX_RANKS: u32 = 64;
const RANKS: [u32; 2] = [6, MAX_RANKS];
const SIZES: [usize; 3] = [16 << 10, 256 << 10, 2 << 20];
const ALGORITHMS: [&str; 4] = ["whole", "parts", "tree", "chain"];
/// All ranks of a simulation are in one process: what they may have together.
const MAX_MEMORY_BYTES: usize = 2 << 30;

/// SMPI comes with factors for an old cluster, which are set to one here, and sends short messages before they are asked for; then messages to several
/// ranks share the link from the start, where sockets send one after the other.
const SETTINGS: [&str; 9] = [
    "--cfg=smpi/bw-factor:0:1",
    "--cfg=smpi/lat-factor:0:1",
    "--cfg=smpi/os:0:0:0",
    "--cfg=smpi/or:0:0:0",
    "--cfg=smpi/ois:0:0:0",
    "--cfg=smpi/send-is-detached-thresh:0",
    "--cfg=network/weight-S:0",
    "--cfg=smpi/simulate-computation:no",
    "--log=root.thres:critical",
];

/// Simulates each all-reduce and predicts it.
pub(super) fn check(program: &Path, findings: &mut Findings) -> Result<()> {
    if let Err(why) = installed() {
        findings.notes.push(format!("SKIPPED: no SimGrid: {why:#}"));
        return Ok(());
    }
    let simulation = Simulation::prepare()?;
    let network = Constants {
        // Through two links, to the switch and from it.
        latency: 2.0 * LATENCY_SECONDS,
        message: 0.0,
        byte: 0.0,
        reduced_byte: 0.0,
        wire_byte: 1.0 / BYTES_PER_SECOND,
        ranks_per_node: 1,
        cores_per_node: 1,
    };
    for n_ranks in RANKS {
        for algorithm in ALGORITHMS {
            for bytes in SIZES {
                if algorithm == "whole" && bytes * (n_ranks * n_ranks) as usize > MAX_MEMORY_BYTES {
                    continue;
                }
                let seconds = simulation.run(algorithm, bytes, n_ranks)?;
                let predicted = predict(program, &network, &[(algorithm, bytes, n_ranks)])?;
                findings.rows.push(Row {
                    series: format!("smpi {algorithm} ranks={n_ranks} bytes={bytes}"),
                    seconds,
                    predicted_seconds: predicted[0],
                    aim: match n_ranks {
                        MAX_RANKS => Aim::Holds,
                        _ => Aim::None("it is for 64 ranks"),
                    },
                });
            }
        }
    }
    findings.notes.push(format!(
        "{} hosts at {BYTES_PER_SECOND} B/s and {LATENCY_SECONDS} s to a switch; settings `{}`; source `{SOURCE}`.",
        MAX_RANKS,
        SETTINGS.join(" ")
    ));
    Ok(())
}

/// Debian's package is installed where it is missing and may be.
fn installed() -> Result<()> {
    let is_there = || {
        let version = process::command("smpirun").arg("-version").output();
        version.is_ok_and(|output| output.status.success())
    };
    if is_there() {
        return Ok(());
    }
    let mut apt = process::command("apt-get");
    apt.args([
        "install",
        "--yes",
        "--no-install-recommends",
        "libsimgrid-dev",
        "simgrid",
    ]);
    println!("$ {}", process::shown(&apt));
    let output = apt
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("there is no apt-get")?;
    if !output.status.success() || !is_there() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "apt-get gave no package simgrid: {}",
            text.lines().last().unwrap_or("no reason")
        );
    }
    Ok(())
}

/// The compiled program with its cluster.
struct Simulation {
    program: PathBuf,
    cluster: PathBuf,
    hosts: PathBuf,
}

impl Simulation {
    fn prepare() -> Result<Simulation> {
        let folder = fresh_scratch("model")?;
        let simulation = Simulation {
            program: folder.join("all_reduce_smpi"),
            cluster: folder.join("cluster.xml"),
            hosts: folder.join("hosts"),
        };
        let cluster = format!(
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n  \
             <cluster id=\"flat\" prefix=\"n\" suffix=\"\" radical=\"0-{}\" speed=\"1Gf\" bw=\"{BYTES_PER_SECOND}Bps\" lat=\"{LATENCY_SECONDS}s\"/>\n</platform>\n",
            MAX_RANKS - 1
        );
        fs::write(&simulation.cluster, cluster)?;
        let hosts: String = (0..MAX_RANKS).map(|host| format!("n{host}\n")).collect();
        fs::write(&simulation.hosts, hosts)?;
        let mut compile = process::command("smpicc");
        compile
            .args(["-O2", "-Wall", "-Wextra", "-o"])
            .arg(&simulation.program);
        // Its own headers are not free of warnings.
        process::stdout_of(compile.arg(project::root().join(SOURCE)))?;
        Ok(simulation)
    }

    /// Simulated seconds of one all-reduce.
    fn run(&self, algorithm: &str, bytes: usize, n_ranks: u32) -> Result<f64> {
        let mut simulate = process::command("smpirun");
        simulate
            .args(["-np", &n_ranks.to_string(), "-platform"])
            .arg(&self.cluster);
        simulate.arg("-hostfile").arg(&self.hosts).args(SETTINGS);
        simulate
            .arg(&self.program)
            .args([algorithm, &bytes.to_string()]);
        let stdout = process::stdout_of(&mut simulate)?;
        let seconds = stdout
            .lines()
            .find_map(|line| line.strip_prefix("SECONDS "));
        let seconds =
            seconds.with_context(|| format!("no time from {}", process::shown(&simulate)))?;
        Ok(seconds.trim().parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program and the model are to cut buffers alike.
    #[test]
    fn the_program_has_the_pieces_of_the_library() {
        let read = |path: &str| fs::read_to_string(project::root().join(path)).unwrap();
        assert!(read(SOURCE).contains("#define CHAIN_PIECE_BYTES 65536"));
        let library = read("crates/collectives/src/cost/work.rs");
        assert!(library.contains("pub const CHAIN_PIECE_BYTES: usize = 64 << 10;"));
    }
}
