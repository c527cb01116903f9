//! `cargo xtask bench collectives`: every collective operation on every back end, in the columns of nccl-tests.
//!
//! `-b 8 -e 64M -f 2 -c 1`: first and last size, the factor between two, and whether results are checked (they are, exactly, on integers held in
//! floats). `-n` and `-w`: repetitions, timed and not. `--ranks`, `--backends` (threads, tcp: a process a rank, tcp-threads, mpi) and `--ops` take
//! lists. `--tables` measures every algorithm as well and writes the table that the library chooses by. `-J PATH` writes the rows as JSON. A
//! record is written unless `--test` asks for a small run; `--seconds` (900) limits all measurements together, those for `--tables` among them. What is
//! not done by then is an error, and nothing is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use lexopt::prelude::*;

use super::points::{self, Limit, Point};
use super::tables;
use crate::json::Json;
use crate::process::Stopwatch;
use crate::record::Record;
use crate::statistics::{shown, summary};

/// The command's name.
pub(crate) const COLLECTIVES: &str = "collectives";

/// The heads of the columns, as nccl-tests has them, with the back end, the operation and the number of ranks before them.
const HEAD: &str = "#  backend             op  ranks     size(B)       count   type  redop  root   time(us)  algbw(GB/s)  busbw(GB/s)  #wrong";

/// What the flags say.
struct Options {
    /// Flags of the program with their values.
    pairs: Vec<(String, String)>,
    writes_tables: bool,
    is_test: bool,
    json: Option<PathBuf>,
    host: Option<String>,
    seconds: f64,
}

impl Options {
    fn parse(mut args: lexopt::Parser) -> Result<Options> {
        let mut options = Options {
            pairs: Vec::new(),
            writes_tables: false,
            is_test: false,
            json: None,
            host: None,
            seconds: 900.0,
        };
        while let Some(arg) = args.next()? {
            let flag = match arg {
                Short(c @ ('b' | 'e' | 'f' | 'c' | 'n' | 'w')) => format!("-{c}"),
                Long(name @ ("ranks" | "backends" | "ops" | "budget-ms" | "deadline")) => {
                    format!("--{name}")
                }
                Long("tables") => {
                    options.writes_tables = true;
                    continue;
                }
                Long("test") => {
                    options.is_test = true;
                    continue;
                }
                Short('J') => {
                    options.json = Some(PathBuf::from(args.value()?));
                    continue;
                }
                Long("host") => {
                    options.host = Some(args.value()?.string()?);
                    continue;
                }
                Long("seconds") => {
                    options.seconds = args.value()?.parse()?;
                    // More than a thousand years are no time.
                    ensure!(
                        (0.0..1e11).contains(&options.seconds),
                        "--seconds {}: expected seconds from 0 on",
                        options.seconds
                    );
                    continue;
                }
                other => return Err(other.unexpected().into()),
            };
            options.pairs.push((flag, args.value()?.string()?));
        }
        ensure!(
            !(options.writes_tables && options.is_test),
            "--test is a small run: a table needs the whole one, so leave --test or --tables out"
        );
        Ok(options)
    }

    /// The command as one would type it.
    fn command(&self) -> String {
        let words = self
            .pairs
            .iter()
            .map(|(flag, value)| format!(" {flag} {value}"));
        let tables = if self.writes_tables { " --tables" } else { "" };
        format!(
            "cargo xtask bench {COLLECTIVES}{}{tables}",
            words.collect::<String>()
        )
    }

    /// All words for the program: defaults, then what was asked for.
    fn words(&self) -> Vec<String> {
        let full = [
            ("--backends", "threads,tcp,mpi"),
            ("--ranks", "2,3,4,6"),
            ("-b", "8"),
            ("-e", "64M"),
            ("-f", "2"),
            ("-n", "200"),
            ("-w", "2"),
            ("--budget-ms", "60"),
        ];
        let small = [("--backends", "threads,tcp,mpi"), ("--ranks", "2,3")];
        let defaults: &[(&str, &str)] = if self.is_test { &small } else { &full };
        let defaults = defaults.iter().map(|(flag, value)| (*flag, *value));
        let asked = self
            .pairs
            .iter()
            .map(|(flag, value)| (flag.as_str(), value.as_str()));
        let pairs = defaults.chain(asked);
        let words = pairs.flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]);
        words
            .chain(points::mpi_flags().into_iter().flatten())
            .collect()
    }
}

/// Runs the command.
pub(crate) fn run(args: lexopt::Parser) -> Result<ExitCode> {
    let options = Options::parse(args)?;
    let program = points::build()?;
    let watch = Stopwatch::start();
    println!("{HEAD}");
    let (points, mut skips) = measure(&options, &program)?;
    if options.writes_tables {
        let path = tables::write(&points, &options.command())?;
        println!("bench: written to {}", path.display());
    }
    skips.dedup();
    skips.iter().for_each(|skip| println!("bench: {skip}"));
    let n_wrong = n_wrong(&points);
    let (n_points, seconds) = (points.len(), watch.seconds());
    println!("# {n_points} points, {n_wrong} wrong values, {seconds:.0} s");
    if let Some(path) = &options.json {
        let rows = Json::Array(points.iter().map(json).collect());
        fs::write(path, format!("{rows}\n")).with_context(|| path.display().to_string())?;
    }
    if !options.is_test {
        let record = record(&options, &program, &points, &skips)?;
        println!("bench: written to {}", record.write()?.display());
    }
    Ok(match n_wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Everything that was asked for, within its time.
fn measure(options: &Options, program: &Path) -> Result<(Vec<Point>, Vec<String>)> {
    let (limit, words) = (Limit::new(options.seconds), options.words());
    let mut points = Vec::new();
    let mut skips = points::run(program, &words, limit.left()?, |point| {
        println!("{}", row(&point));
        points.push(point);
    })?;
    if options.writes_tables {
        skips.extend(tables::measure(program, &words, &limit, &mut points)?);
    }
    Ok((points, skips))
}

fn n_wrong(points: &[Point]) -> u64 {
    let wrong = points
        .iter()
        .filter_map(|point| point.text("wrong").parse::<u64>().ok());
    wrong.sum()
}

/// The small run of CI's bench stage: every operation between threads, over TCP and, where there is one, under MPI.
pub(crate) fn test() -> Result<Vec<String>> {
    let options = Options {
        pairs: Vec::new(),
        writes_tables: false,
        is_test: true,
        json: None,
        host: None,
        seconds: 300.0,
    };
    let program = points::build()?;
    let mut points = Vec::new();
    let skips = points::run(&program, &options.words(), options.seconds, |point| {
        points.push(point)
    })?;
    ensure!(points.len() >= 2 * 2 * 5, "only {} points", points.len());
    ensure!(n_wrong(&points) == 0, "{} wrong values", n_wrong(&points));
    let fits = points::fits(&program, &points, 2)?;
    ensure!(!fits.is_empty(), "no back end could be fitted");
    Ok(skips)
}

/// The middle sample, as a row of the table.
fn row(point: &Point) -> String {
    let seconds = summary(&point.seconds).map_or(f64::NAN, |summary| summary.median);
    let (algorithm, bus) = point.bandwidths_gbs(seconds);
    format!(
        "{:>10} {:>14} {:>6} {:>11} {:>11}  float {:>6} {:>5} {:>10.1} {:>12.3} {:>12.3} {:>7}",
        point.text("backend"),
        point.text("op"),
        point.ranks(),
        point.bytes(),
        point.text("count"),
        point.text("redop"),
        point.text("root"),
        seconds * 1e6,
        algorithm,
        bus,
        point.text("wrong")
    )
}

fn json(point: &Point) -> Json {
    let seconds = summary(&point.seconds).map_or(f64::NAN, |summary| summary.median);
    let (algorithm, bus) = point.bandwidths_gbs(seconds);
    let number = |key: &str| {
        let value = point.text(key).parse();
        value.map_or(Json::Null, Json::Number)
    };
    Json::object([
        ("backend", Json::text(point.text("backend"))),
        ("op", Json::text(point.text("op"))),
        ("algorithm", Json::text(point.text("algorithm"))),
        ("type", Json::text("float")),
        ("redop", Json::text(point.text("redop"))),
        ("root", number("root")),
        ("n_ranks", number("ranks")),
        ("size_bytes", number("bytes")),
        ("count", number("count")),
        ("time_us", Json::Number(seconds * 1e6)),
        ("time_min_us", Json::Number(point.best_seconds() * 1e6)),
        ("algbw_gbs", Json::Number(algorithm)),
        ("busbw_gbs", Json::Number(bus)),
        ("n_wrong", number("wrong")),
    ])
}

fn record(options: &Options, program: &Path, points: &[Point], skips: &[String]) -> Result<Record> {
    let n_cores = std::thread::available_parallelism()?.get();
    let fits = points::fits(program, points, n_cores)?;
    fits.iter().for_each(|fit| println!("{fit}"));
    let mut record = Record::new(options.host.as_deref(), options.command())?;
    record.report = format!(
        "Collective operations. A point's time is that of the slowest rank; `raw.csv` has up to five samples of each, the tables show the middle one.\n\n\
         Fits of the cost model (seconds; errors are relative):\n\n```\n{}\n```\n\n",
        fits.join("\n")
    );
    for skip in skips {
        record.report.push_str(&format!("- {skip}\n"));
    }
    record.report.push_str(&pivot(points));
    record.details = Json::object([
        (
            "fits",
            Json::Array(fits.iter().map(|fit| Json::text(fit)).collect()),
        ),
        ("n_wrong", Json::Number(n_wrong(points) as f64)),
    ]);
    record.samples = points.iter().flat_map(Point::samples).collect();
    Ok(record)
}

/// Microseconds by size: a table for each operation.
fn pivot(points: &[Point]) -> String {
    let is_chosen = |point: &&Point| point.text("algorithm") == "auto";
    let mut of_op: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
    for point in points.iter().filter(is_chosen) {
        of_op.entry(point.text("op")).or_default().push(point);
    }
    let tables = of_op.iter().map(|(op, points)| pivot_of_op(op, points));
    tables.collect()
}

/// A row for each size, a column for each back end and number of ranks.
fn pivot_of_op(op: &str, points: &[&Point]) -> String {
    let mut columns: Vec<(&str, u64)> = Vec::new();
    let mut rows: BTreeMap<u64, BTreeMap<(&str, u64), String>> = BTreeMap::new();
    for point in points {
        let column = (point.text("backend"), point.ranks());
        if !columns.contains(&column) {
            columns.push(column);
        }
        let median = summary(&point.seconds).map_or(f64::NAN, |summary| summary.median);
        let row = rows.entry(size_class(point.bytes())).or_default();
        row.insert(column, shown(median * 1e6));
    }
    let heads = columns
        .iter()
        .map(|(backend, ranks)| format!(" {backend} P{ranks} |"));
    let heads: String = heads.collect();
    let mut text = format!("\n## {op}: microseconds\n\n| bytes up to |{heads}\n");
    text.push_str(&format!("|---|{}\n", "---|".repeat(columns.len())));
    for (bytes, cells) in rows {
        let cell = |column| format!(" {} |", cells.get(column).map_or("", String::as_str));
        let cells: String = columns.iter().map(cell).collect();
        text.push_str(&format!("| {bytes} |{cells}\n"));
    }
    text
}

/// Sizes that differ only because they are whole parts for each rank stand in one row.
fn size_class(bytes: u64) -> u64 {
    bytes.next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(op: &str, bytes: u64, wrong: &str) -> Point {
        let line = format!(
            "POINT backend=tcp op={op} redop=sum root=-1 ranks=2 bytes={bytes} count=1 algorithm=auto wrong={wrong} seconds=3e-6,1e-6,2e-6"
        );
        Point::parse(&line).unwrap().unwrap()
    }

    #[test]
    fn rows_stand_below_their_heads() {
        let row = row(&point("all_reduce", 1 << 20, "0"));
        assert_eq!(row.len(), HEAD.len(), "\n{HEAD}\n{row}");
        assert!(row.contains(" 2.0 ") && row.ends_with(" 0"), "{row}");
    }

    #[test]
    fn wrong_values_are_counted_over_all_points() {
        let points = [
            point("broadcast", 8, "2"),
            point("broadcast", 16, "N/A"),
            point("all_gather", 8, "1"),
        ];
        assert_eq!(n_wrong(&points), 3);
        let text = pivot(&points);
        assert!(
            text.contains("## broadcast") && text.contains("| 16 | 2 |"),
            "{text}"
        );
    }

    /// A program that takes 0.4 s for each of the three parts, of which every one alone is within the second.
    #[cfg(unix)]
    #[test]
    fn the_time_limit_holds_for_all_parts_together() {
        let name = format!("xtask-collectives-limit-{}", std::process::id());
        let folder = crate::project::target().join(name);
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        // Written by a child: a file that this process has written may still be open in a child of another test, and cannot be run then.
        let script = r##"printf '#!/bin/sh\nexec sleep 0.4\n' >"$0" && chmod +x "$0""##;
        let mut write = crate::process::command("sh");
        crate::process::check(write.args(["-c", script]).arg(&program)).unwrap();
        let measured_within = |seconds: &str| {
            let args = lexopt::Parser::from_args(["--tables", "--seconds", seconds]);
            measure(&Options::parse(args).unwrap(), &program)
        };
        let late = measured_within("1").unwrap_err().to_string();
        assert!(
            late.contains("not done after") || late.contains("are over"),
            "{late}"
        );
        let none = measured_within("0").unwrap_err().to_string();
        assert!(none.contains("raise --seconds"), "{none}");
        assert!(measured_within("600").unwrap().0.is_empty());
        let args = lexopt::Parser::from_args(["--seconds", "-1"]);
        assert!(Options::parse(args).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_asked_for_comes_after_the_defaults() {
        let args = lexopt::Parser::from_args(["-e", "1M", "--ops", "broadcast", "--tables"]);
        let options = Options::parse(args).unwrap();
        let words = options.words();
        let last = words.iter().rposition(|word| word == "-e").unwrap();
        assert_eq!(words[last + 1], "1M");
        assert_eq!(
            options.command(),
            "cargo xtask bench collectives -e 1M --ops broadcast --tables"
        );
        assert!(Options::parse(lexopt::Parser::from_args(["--nonsense"])).is_err());
    }
}
