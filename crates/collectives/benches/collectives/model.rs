//! The cost model on the command line, for xtask, which links no crate of the project: `--fit` and
//! `--predict`.
//!
//! Both read lines of `key=value` words from standard input. `--fit CORES` takes `POINT` lines and
//! prints a `FIT` line for each back end. `--predict` takes a `NETWORK` line, which holds for the
//! `ASK` lines after it, and prints each of those again with `seconds` behind it.

use crate::cost::{Measured, Network, Work, fit};
use shardgraph_collectives::{Algorithm, OpKind};
use std::collections::BTreeMap;
use std::io::Read;

/// The words of one line.
struct Words<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Words<'a> {
        Words(
            line.split_whitespace()
                .filter_map(|word| word.split_once('='))
                .collect(),
        )
    }

    fn text(&self, key: &str) -> Result<&'a str, String> {
        self.0
            .get(key)
            .copied()
            .ok_or(format!("no {key} in a line"))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, String> {
        let text = self.text(key)?;
        text.parse()
            .map_err(|_| format!("{key}={text}: not understood"))
    }

    fn op(&self) -> Result<OpKind, String> {
        Ok(match self.text("op")? {
            "all_reduce" => OpKind::AllReduce,
            "all_gather" => OpKind::AllGather,
            "reduce_scatter" => OpKind::ReduceScatterV,
            "broadcast" => OpKind::Broadcast,
            "all_to_all" => OpKind::AllToAllV,
            "barrier" => OpKind::Barrier,
            other => return Err(format!("no operation {other:?}")),
        })
    }
}

/// The algorithm of this name.
pub(crate) fn algorithm_of_name(name: &str) -> Option<Algorithm> {
    let mut all = Algorithm::ALL.into_iter();
    all.find(|algorithm| algorithm.name() == name)
}

fn standard_input() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map(|_| text).map_err(|error| error.to_string())
}

/// Fits each back end.
pub(crate) fn fit_all(n_cores: &str) -> Result<(), String> {
    let n_cores = n_cores
        .parse()
        .map_err(|_| "--fit needs a number of cores")?;
    let text = standard_input()?;
    let mut measured: BTreeMap<&str, Vec<Measured>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("POINT ")) {
        let words = Words::of(line);
        if let Some(point) = to_fit(&words, n_cores)? {
            measured
                .entry(words.text("backend")?)
                .or_default()
                .push(point);
        }
    }
    for (backend, measured) in measured {
        let Some(fit) = fit(&measured, n_cores) else {
            continue;
        };
        let Network {
            latency,
            message,
            byte,
            reduced_byte,
            ..
        } = fit.network;
        println!(
            "FIT backend={backend} latency={latency:e} message={message:e} byte={byte:e} reduced_byte={reduced_byte:e} median_error={:.4} p90_error={:.4} n={}",
            fit.median_error, fit.p90_error, fit.n_measured
        );
    }
    Ok(())
}

/// A measured point, if it says how it was done and the model is made for it.
fn to_fit(words: &Words<'_>, n_cores: u32) -> Result<Option<Measured>, String> {
    let (backend, op, n_ranks) = (words.text("backend")?, words.op()?, words.number("ranks")?);
    // Ranks that wait in MPI look again and again. With more of them than processors they take
    // turns, for times that have nothing to do with what they send.
    if backend == "mpi" && n_ranks > n_cores {
        return Ok(None);
    }
    let has_choice = matches!(op, OpKind::AllReduce | OpKind::Broadcast);
    let algorithm = match algorithm_of_name(words.text("algorithm")?) {
        Some(algorithm) => algorithm,
        // Threads share memory: each reduces a part and collects the others.
        None if !has_choice || backend == "threads" => Algorithm::ReduceScatterAllGather,
        None => return Ok(None),
    };
    let seconds = words.text("seconds")?.split(',');
    let seconds = seconds.filter_map(|s| s.parse().ok());
    Ok(Some(Measured {
        op,
        algorithm,
        bytes: words.number("bytes")?,
        n_ranks,
        seconds: seconds.fold(f64::INFINITY, f64::min),
    }))
}

/// Answers every question. `algorithm=auto` takes the one that the model finds fastest, as a
/// threshold measured there would.
pub(crate) fn predict_all() -> Result<(), String> {
    let text = standard_input()?;
    let mut network = Network::default();
    for line in text.lines() {
        let words = Words::of(line);
        if line.starts_with("NETWORK ") {
            network = Network {
                latency: words.number("latency")?,
                message: words.number("message")?,
                byte: words.number("byte")?,
                reduced_byte: words.number("reduced_byte")?,
                wire_byte: words.number("wire_byte")?,
                ranks_per_node: words.number("ranks_per_node")?,
                cores_per_node: words.number("cores_per_node")?,
            };
        } else if line.starts_with("ASK ") {
            let (algorithm, seconds) = answer(&words, &network)?;
            println!("{line} chosen={algorithm} seconds={seconds:e}");
        }
    }
    Ok(())
}

fn answer(words: &Words<'_>, network: &Network) -> Result<(Algorithm, f64), String> {
    let (op, bytes, n_ranks) = (words.op()?, words.number("bytes")?, words.number("ranks")?);
    let name = words.text("algorithm")?;
    let candidates = match algorithm_of_name(name) {
        Some(algorithm) => vec![algorithm],
        None => Algorithm::ALL.to_vec(),
    };
    let seconds = |algorithm| {
        let work = Work::of(op, algorithm, bytes, n_ranks, network);
        work.map(|work| (algorithm, network.seconds(&work)))
    };
    let all = candidates.into_iter().filter_map(seconds);
    all.min_by(|a, b| a.1.total_cmp(&b.1))
        .ok_or(format!("no formula for {op}"))
}
