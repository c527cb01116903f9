//! Strangers on the port of a job: connections that are silent, that send half a greeting, garbage
//! or a request of HTTP, while ranks join and work.
//!
//! Rank 0 waits, strangers come, rank 1 joins among them, and the job must end well with the bytes
//! and in the time of one that no stranger disturbs.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use shardgraph_random::KeyedRng;

use super::ranks::{Ranks, free_port};
use crate::launch;
use crate::measure::Context;
use crate::paths;
use crate::process::Stopwatch;
use crate::report::{Failure, Report};

/// Connections that strangers hold at once: a process may open about a thousand files.
const N_HELD: usize = 600;
/// The part of the strangers that come while rank 1 joins and after it; the others come before. The port is closed once all have joined.
const SHARE_BESIDE: u64 = 10;

/// What strangers send.
const KINDS: [&str; 4] = ["silent", "half a greeting", "garbage", "HTTP"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    command: Vec<String>,
    /// File of the scratch folder that must not depend on strangers.
    same: String,
    /// Connections of each kind.
    connections: u64,
    seed: u64,
    /// Runs with and without strangers.
    runs: u32,
}

/// The strangers of one run.
struct Flood {
    kind: &'static str,
    port: u16,
    n_wanted: u64,
    seed: u64,
    n_connected: AtomicU64,
    is_over: AtomicBool,
}

/// A row for each kind.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let n_runs = context.options.runs.unwrap_or(request.runs);
    let mut quiet = Vec::new();
    let mut whole = Vec::new();
    for _ in 0..n_runs {
        let (seconds, bytes) = one_run(&context.program, request, None)?;
        quiet.push(seconds);
        whole = bytes;
    }
    for kind in KINDS {
        let (mut seconds, mut connections) = (Vec::new(), Vec::new());
        for _ in 0..n_runs {
            let flood = Flood {
                kind,
                port: free_port()?,
                n_wanted: request.connections,
                seed: request.seed,
                n_connected: AtomicU64::new(0),
                is_over: AtomicBool::new(false),
            };
            let (one, bytes) = one_run(&context.program, request, Some(&flood))?;
            if bytes != whole {
                return Err(format!("{kind}: other bytes among strangers").into());
            }
            seconds.push(one);
            connections.push(flood.n_connected.load(Ordering::Relaxed) as f64);
        }
        let ratio = median(&seconds) / median(&quiet);
        out.row(json!({
            "strangers": kind,
            "connections": connections,
            "seconds": seconds,
            "seconds_without": quiet,
            "ratio": ratio,
            "note": if ratio <= 1.2 { "aim: at most 1.2: reached" } else { "aim: at most 1.2: MISSED" },
        }));
    }
    Ok(())
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds from the start of rank 1 to the end of both ranks, and the bytes of the file.
fn one_run(program: &Path, request: &Request, flood: Option<&Flood>) -> Result<(f64, Vec<u8>)> {
    let scratch = paths::fresh_scratch("strangers")?;
    let values = launch::places(&scratch);
    let words = launch::substitute(&request.command, &values)?;
    let port = flood.map_or_else(free_port, |flood| Ok(flood.port))?;
    let seconds = std::thread::scope(|scope| -> Result<f64> {
        let mut first = Ranks::one_of_two(program, &words, &scratch.join("first"), (0, port))?;
        if let Some(flood) = flood {
            scope.spawn(|| flood.run());
        }
        let n_before = flood.map_or(0, |flood| flood.n_wanted - flood.n_wanted / SHARE_BESIDE);
        let met = flood.map_or(Ok(()), |flood| flood.wait_for(n_before));
        let ended = met.and_then(|()| timed(program, &words, &scratch, port, &mut first));
        if let Some(flood) = flood {
            flood.is_over.store(true, Ordering::Relaxed);
        }
        ended
    })?;
    let bytes = fs::read(scratch.join(&request.same)).with_context(|| request.same.clone())?;
    Ok((seconds, bytes))
}

fn timed(
    program: &Path,
    words: &[String],
    scratch: &Path,
    port: u16,
    first: &mut Ranks,
) -> Result<f64> {
    let watch = Stopwatch::start();
    let mut second = Ranks::one_of_two(program, words, &scratch.join("second"), (1, port))?;
    for ranks in [first, &mut second] {
        for ended in ranks.survivors(None)? {
            ensure!(ended.exit_code == Some(0), "among strangers: {ended:?}");
        }
    }
    Ok(watch.seconds())
}

impl Flood {
    fn run(&self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut held = VecDeque::new();
        let mut index = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let is_enough = self.n_connected.load(Ordering::Relaxed) >= self.n_wanted;
            let limit = Duration::from_millis(200);
            let connected = (!is_enough).then(|| TcpStream::connect_timeout(&address, limit));
            let Some(Ok(mut stream)) = connected else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            // Whom the job has turned away cannot send: that is its right.
            let _ = stream.write_all(&self.greeting(index));
            index += 1;
            held.push_back(stream);
            if held.len() > N_HELD {
                held.pop_front();
            }
            self.n_connected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn greeting(&self, index: u64) -> Vec<u8> {
        let mut rng = KeyedRng::new(self.seed, self.kind, index);
        match self.kind {
            "silent" => Vec::new(),
            "half a greeting" => b"SHARDGRA"[..1 + rng.index(7)].to_vec(),
            "HTTP" => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            _ => (0..rng.below(4096)).map(|_| rng.below(256) as u8).collect(),
        }
    }

    fn wait_for(&self, n_connections: u64) -> Result<()> {
        let watch = Stopwatch::start();
        while self.n_connected.load(Ordering::Relaxed) < n_connections {
            ensure!(watch.seconds() < 30.0, "strangers find no port");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
