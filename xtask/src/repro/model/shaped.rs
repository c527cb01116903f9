//! The model against the `tcp` back end on three machines with 1 Gbit/s, and what happens when one of them loses its connection.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::namespaces::{N_NODES, Namespaces};
use super::{Constants, Findings, Row, predict};
use crate::bench::points::{self, Point};
use crate::process::{self, Stopwatch};

const RATE: &str = "1gbit";

/// Of 1514 bytes in a frame, 1448 are the user's: Ethernet, IP, TCP and its time stamps take the others.
const WIRE_BYTE_SECONDS: f64 = 8e-9 * 1514.0 / 1448.0;

const BYTES: usize = 2 << 20;
const RANKS: [u32; 2] = [3, 6];
const ALGORITHMS: [&str; 4] = ["whole", "parts", "tree", "chain"];

/// Times that everything is measured: what else runs on the machine makes ranks late, and never early.
const N_ROUNDS: u16 = 4;

/// In the check of a lost connection: the deadline of a wait, and how much longer a rank may take to end.
const DEADLINE_SECONDS: f64 = 3.0;
const GRACE_SECONDS: f64 = 0.5;

/// Measures and predicts, then takes a link down.
pub(super) fn check(program: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let namespaces = match Namespaces::make(RATE) {
        Ok(namespaces) => namespaces,
        Err(why) => {
            findings
                .notes
                .push(format!("SKIPPED: no network namespaces here: {why:#}"));
            return Ok(findings);
        }
    };
    let machine = constants(program, &mut findings.notes)?;
    for n_ranks in RANKS {
        for (algorithm, seconds) in best_of_rounds(program, &namespaces, n_ranks)? {
            let network = Constants {
                ranks_per_node: n_ranks.div_ceil(N_NODES),
                ..machine
            };
            let predicted = predict(program, &network, &[(&algorithm, BYTES, n_ranks)])?;
            findings.rows.push(Row {
                series: format!("netns {algorithm} ranks={n_ranks} bytes={BYTES}"),
                seconds,
                predicted_seconds: predicted[0],
                counts: ["parts", "chain"].contains(&algorithm.as_str()),
            });
        }
    }
    findings.notes.push(format!(
        "`tc tbf` at {RATE} in both directions of each of {N_NODES} nodes; the first ranks on the first node; the shortest of 20 samples of several all-reduces each."
    ));
    findings.notes.push(cut(program, &namespaces)?);
    Ok(findings)
}

/// The shortest time of each algorithm.
fn best_of_rounds(
    program: &Path,
    namespaces: &Namespaces,
    n_ranks: u32,
) -> Result<BTreeMap<String, f64>> {
    let flags = format!(
        "--ops all_reduce --algorithms {} -b {BYTES} -e {BYTES} -n 40 -w 2 --budget-ms 600 --deadline 30",
        ALGORITHMS.join(",")
    );
    let mut best = BTreeMap::new();
    for round in 0..N_ROUNDS {
        for point in measure(program, namespaces, (n_ranks, round), &flags)? {
            let seconds = best
                .entry(point.text("algorithm").to_owned())
                .or_insert(f64::INFINITY);
            *seconds = point.best_seconds().min(*seconds);
        }
    }
    Ok(best)
}

/// What processors take comes from a fit on this machine without the network; what the wire takes, from its rate.
fn constants(program: &Path, notes: &mut Vec<String>) -> Result<Constants> {
    let flags = "--backends tcp --ranks 2,3,6 --ops all_reduce --algorithms whole,parts,tree,chain -b 64 -e 4M -f 8 -n 200 -w 2 --budget-ms 40 -c 0";
    let flags: Vec<String> = flags.split(' ').map(str::to_owned).collect();
    let mut measured = Vec::new();
    points::run(program, &flags, 300.0, |point| measured.push(point))?;
    let n_cores = std::thread::available_parallelism()?.get();
    let fits = points::fits(program, &measured, n_cores)?;
    let fit = fits.first().context("no fit")?;
    notes.push(format!("processors: `{fit}` on the loopback interface"));
    Ok(Constants {
        latency: points::number(fit, "latency")?,
        message: points::number(fit, "message")?,
        byte: points::number(fit, "byte")?,
        reduced_byte: points::number(fit, "reduced_byte")?,
        wire_byte: WIRE_BYTE_SECONDS,
        ranks_per_node: 1,
        // The nodes share the processors of this machine.
        cores_per_node: (n_cores as u32 / N_NODES).max(1),
    })
}

/// A rank's process; rank 0 listens on the first node.
fn rank(
    program: &Path,
    namespaces: &Namespaces,
    place: (u32, u32),
    port: u16,
    flags: &str,
) -> Command {
    let (rank, n_ranks) = place;
    let node = rank / n_ranks.div_ceil(N_NODES);
    let mut command = namespaces.command_on(node);
    command.arg(program).args(["--rank-of", "tcp"]);
    command.args([
        rank.to_string(),
        n_ranks.to_string(),
        namespaces.address(0),
        port.to_string(),
    ]);
    command
        .args(flags.split(' '))
        .args(["--ranks", &n_ranks.to_string()]);
    command
}

/// Nobody else is in the namespaces, so any port is free; each run takes another, as the system keeps them for a while.
fn port(n_ranks: u32, run_idx: u16) -> u16 {
    20_000 + 100 * run_idx + n_ranks as u16
}

fn measure(
    program: &Path,
    namespaces: &Namespaces,
    (n_ranks, run_idx): (u32, u16),
    flags: &str,
) -> Result<Vec<Point>> {
    let command = |r| {
        rank(
            program,
            namespaces,
            (r, n_ranks),
            port(n_ranks, run_idx),
            flags,
        )
    };
    let others: Vec<Child> = (1..n_ranks)
        .map(|r| command(r).spawn())
        .collect::<Result<_, _>>()?;
    let mut measured = Vec::new();
    let mut wrong = None;
    let ended =
        process::each_line_within(&mut command(0), 120.0, |line| match Point::parse(line) {
            Ok(point) => measured.extend(point),
            Err(error) => wrong = Some(error),
        });
    for mut other in others {
        other.wait()?;
    }
    ended?;
    match wrong {
        Some(error) => Err(error),
        None => Ok(measured),
    }
}

/// Takes the second node's link down while six ranks are at work; says how long it took until all had ended.
fn cut(program: &Path, namespaces: &Namespaces) -> Result<String> {
    let n_ranks = 6;
    let flags = format!(
        "--ops all_reduce -b 256K -e 256K -n 1000000 --budget-ms 60000 --deadline {DEADLINE_SECONDS}"
    );
    let command = |r| {
        let mut command = rank(
            program,
            namespaces,
            (r, n_ranks),
            port(n_ranks, N_ROUNDS),
            &flags,
        );
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut ranks: Vec<Child> = (0..n_ranks)
        .map(|r| command(r).spawn())
        .collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_secs(2));
    for rank in &mut ranks {
        ensure!(
            rank.try_wait()?.is_none(),
            "a rank ended before the link was cut"
        );
    }
    let watch = Stopwatch::start();
    namespaces.cut(1)?;
    let ends = ends(&mut ranks, &watch)?;
    let seconds = |end: &Option<(f64, bool)>| end.map_or(f64::INFINITY, |(seconds, _)| seconds);
    let last = ends.iter().map(seconds).fold(0.0, f64::max);
    let is_good = last <= DEADLINE_SECONDS + GRACE_SECONDS
        && ends.iter().all(|end| matches!(end, Some((_, false))));
    Ok(format!(
        "{}a link taken down under six ranks with a deadline of {DEADLINE_SECONDS} s: all ended with an error, the last one after {last:.2} s (wanted: {:.1} s)",
        if is_good { "" } else { "FAILED: " },
        DEADLINE_SECONDS + GRACE_SECONDS
    ))
}

/// When each process ended, and whether it ended well; all are gone afterwards.
fn ends(ranks: &mut [Child], watch: &Stopwatch) -> Result<Vec<Option<(f64, bool)>>> {
    let mut ends: Vec<Option<(f64, bool)>> = vec![None; ranks.len()];
    while ends.contains(&None) && watch.seconds() < 60.0 {
        for (rank, end) in ranks.iter_mut().zip(&mut ends) {
            if end.is_none()
                && let Some(status) = rank.try_wait()?
            {
                *end = Some((watch.seconds(), status.success()));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for rank in ranks {
        // Those that have ended cannot be killed, which is what was wanted.
        let _ = rank.kill();
        rank.wait()?;
    }
    Ok(ends)
}
