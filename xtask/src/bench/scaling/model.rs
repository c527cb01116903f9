//! The constants of this machine, and the networks that are predicted for.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use super::{Exchange, rows};
use crate::bench::points;
use crate::definition::{number, string};
use crate::toml::Table;

/// What is measured for the fits. Threads have one algorithm; over TCP each is fitted.
const MEASURED: [&str; 3] = [
    "--backends threads --algorithms auto",
    "--backends tcp --ops all_reduce,broadcast --algorithms whole,parts,tree,chain",
    "--backends tcp --ops all_gather,reduce_scatter,all_to_all --algorithms auto",
];
const SIZES: &str = "--ranks 2,4,6 -b 8 -e 2M -f 4 -n 200 -w 2 --budget-ms 40 -c 0";

/// A network to predict for, in words of the bench program.
pub(super) struct Network {
    pub(super) name: String,
    words: String,
    /// `auto`: what the model finds fastest there, as a table measured there would.
    algorithm: &'static str,
    /// Ranks that compute at the same time: all of them, or as many as this machine has processors.
    pub(super) n_at_once: u32,
}

/// The bench program, and what it is asked about.
pub(super) struct Model {
    program: PathBuf,
    /// Threads of this machine first.
    pub(super) networks: Vec<Network>,
}

impl Model {
    /// Measures operations between threads and over TCP, fits both, and takes the networks from the definition.
    pub(super) fn new(table: &Table) -> Result<Model> {
        let program = points::build()?;
        let mut measured = Vec::new();
        for words in MEASURED {
            let words = words.split(' ').chain(SIZES.split(' ')).map(str::to_owned);
            let words: Vec<String> = words.collect();
            points::run(&program, &words, 300.0, |point| measured.push(point))?;
        }
        let n_cores = std::thread::available_parallelism()?.get();
        let fits = points::fits(&program, &measured, n_cores)?;
        fits.iter().for_each(|fit| println!("{fit}"));
        let mut networks = vec![threads(&fits, n_cores as u32)?];
        for row in rows(table, "network")? {
            networks.push(machines(&fits, row)?);
        }
        Ok(Model { program, networks })
    }

    /// Ranks as threads of this machine, which the measured rows are.
    pub(super) fn here(&self) -> Result<&Network> {
        self.networks.first().context("no network to predict for")
    }

    /// Seconds that operations between ranks take.
    pub(super) fn exchange_seconds(
        &self,
        ops: &[Exchange],
        network: &Network,
        n_ranks: u32,
    ) -> Result<f64> {
        let mut input = format!("{}\n", network.words);
        for exchange in ops {
            let bytes = exchange.bytes + exchange.bytes_per_rank * u64::from(n_ranks);
            let (op, algorithm) = (&exchange.op, network.algorithm);
            input.push_str(&format!(
                "ASK op={op} algorithm={algorithm} bytes={bytes} ranks={n_ranks}\n"
            ));
        }
        let answers = points::ask(&self.program, &["--predict"], &input)?;
        ensure!(answers.len() == ops.len(), "{} answers", answers.len());
        let seconds = answers
            .iter()
            .map(|answer| points::number(answer, "seconds"));
        seconds.sum()
    }
}

/// What a message, a byte and an addition take on this machine with a back end, and its fit.
fn constants<'f>(fits: &'f [String], backend: &str) -> Result<(String, &'f str)> {
    let is_it = |fit: &&String| points::word(fit, "backend").is_ok_and(|name| name == backend);
    let fit = fits.iter().find(is_it);
    let fit = fit.with_context(|| format!("no fit of {backend}"))?;
    let mut words = String::new();
    for key in ["message", "byte", "reduced_byte"] {
        words.push_str(&format!(" {key}={}", points::word(fit, key)?));
    }
    Ok((words, fit))
}

/// Ranks as threads on a machine like this one, with as many processors.
fn threads(fits: &[String], n_cores: u32) -> Result<Network> {
    let (constants, fit) = constants(fits, "threads")?;
    let latency = points::word(fit, "latency")?;
    Ok(Network {
        name: format!("threads on {n_cores} processors"),
        words: format!(
            "NETWORK latency={latency}{constants} wire_byte=0 ranks_per_node={} cores_per_node={n_cores}",
            u32::MAX
        ),
        algorithm: "parts",
        n_at_once: n_cores,
    })
}

/// A machine for each rank, with a network between them.
fn machines(fits: &[String], row: &Table) -> Result<Network> {
    let (constants, _) = constants(fits, "tcp")?;
    let (latency, wire_byte) = (number(row, "latency")?, number(row, "wire_byte")?);
    Ok(Network {
        name: format!("a machine each, tcp over {}", string(row, "name")?),
        words: format!(
            "NETWORK latency={latency:e}{constants} wire_byte={wire_byte:e} ranks_per_node=1 cores_per_node=1"
        ),
        algorithm: "auto",
        n_at_once: u32::MAX,
    })
}
