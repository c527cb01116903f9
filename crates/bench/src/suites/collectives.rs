//! Operations between ranks by backend, number of ranks and bytes, as nccl-tests shows them.
//!
//! The program is the bench target `collectives` of the crate of that name: it starts processes for some backends. It
//! prints `POINT key=value ... seconds=a,b,c`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::built::bench_target;
use crate::launch;
use crate::measure::Context;
use crate::process::{self, Ended};
use crate::report::{Failure, Report, ensure};
use crate::statistics::summary;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Flags of the program, as `-e 64M`.
    words: Vec<String>,
    /// For all points together.
    seconds: f64,
}

/// A row for each point.
pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let program = bench_target(
        "shardgraph-collectives",
        "collectives",
        context.options.test,
    )?;
    let mut command = process::command(program);
    command.args(&request.words);
    if let Some(mpi) = launch::mpiexec() {
        command.arg("--mpiexec").arg(mpi.mpiexec);
        command.arg("--library").arg(mpi.library);
    }
    let (mut wrong, mut n_wrong) = (None, 0);
    let ended = process::each_line_within(&mut command, request.seconds, |line| {
        if let Some(why) = line.strip_prefix("SKIPPED:") {
            out.skip(why.trim());
        }
        match line.strip_prefix("POINT ").map(point) {
            None => (),
            Some(Ok(point)) => {
                n_wrong += point.n_wrong;
                out.row(point.row());
            }
            Some(Err(why)) => wrong = Some(why),
        }
    })?;
    if let Some(why) = wrong {
        return Err(why.into());
    }
    ensure(n_wrong == 0, || format!("{n_wrong} wrong values"))?;
    match ended {
        Ended::InTime(status) if status.success() => Ok(()),
        Ended::InTime(status) => Err(format!("{status}: {}", process::shown(&command)).into()),
        Ended::Killed => Err(format!("not done after {} s", request.seconds).into()),
    }
}

/// A measured point: an operation at one size.
#[derive(Debug)]
struct Point {
    words: BTreeMap<String, String>,
    bytes: f64,
    ranks: f64,
    n_wrong: u64,
    seconds: Vec<f64>,
}

fn point(line: &str) -> Result<Point, String> {
    let pairs = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    let words: BTreeMap<String, String> = pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let text = |key: &str| {
        let text = words.get(key);
        text.ok_or_else(|| format!("a point without {key}: {line}"))
    };
    let number = |key: &str| -> Result<f64, String> {
        let text = text(key)?;
        text.parse().map_err(|_| format!("{key}={text} in a point"))
    };
    let seconds = text("seconds")?.split(',').map(str::parse);
    let seconds: Result<Vec<f64>, _> = seconds.collect();
    Ok(Point {
        bytes: number("bytes")?,
        ranks: number("ranks")?,
        n_wrong: number("wrong")? as u64,
        seconds: seconds.map_err(|_| format!("seconds of {line}"))?,
        words,
    })
}

impl Point {
    /// The label of a table, its columns, and what nccl-tests calls algbw and busbw.
    fn row(&self) -> Value {
        let text = |key: &str| self.words.get(key).map_or("", String::as_str);
        let seconds = summary(&self.seconds).map_or(f64::NAN, |all| all.median);
        let rate = self.bytes / seconds / 1e9;
        json!({
            "table": text("op"), "backend": text("backend"), "algorithm": text("algorithm"),
            "ranks": self.ranks as u64, "x": self.bytes, "seconds": self.seconds,
            "algorithm_gb_per_second": rate, "bus_gb_per_second": rate * self.bus_factor(),
        })
    }

    /// Bytes that an operation has to move at least, over its length.
    fn bus_factor(&self) -> f64 {
        let share = (self.ranks - 1.0) / self.ranks;
        match self.words.get("op").map(String::as_str) {
            Some("all_reduce") => 2.0 * share,
            Some("broadcast") => 1.0,
            _ => share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "backend=tcp op=all_reduce ranks=4 bytes=1000000000 algorithm=auto wrong=0 seconds=2e0,1e0,3e0";

    #[test]
    fn a_point_is_a_row() {
        let row = point(LINE).unwrap().row();
        assert_eq!(
            (&row["table"], &row["x"]),
            (&json!("all_reduce"), &json!(1e9))
        );
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!((number("algorithm_gb_per_second") - 0.5).abs() < 1e-9);
        assert!((number("bus_gb_per_second") - 0.75).abs() < 1e-9);
        assert!(point("op=x").is_err());
        assert!(point(&LINE.replace("2e0", "soon")).is_err());
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        for (op, wanted) in [
            ("all_gather", 0.75),
            ("broadcast", 1.0),
            ("all_to_all", 0.75),
        ] {
            let point = point(&LINE.replace("all_reduce", op)).unwrap();
            assert!((point.bus_factor() - wanted).abs() < 1e-9, "{op}");
        }
    }
}
