//! What the bench program `collectives` prints, read back, and the questions that it answers.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};

use crate::answer::Metric;
use crate::package;
use crate::process::{self, Ended, Stopwatch, cargo};
use crate::project;
use crate::record::Sample;

/// One measured point: the words of its line, and its samples.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    words: BTreeMap<String, String>,
    pub(crate) seconds: Vec<f64>,
}

impl Point {
    /// `None` for a line that is something else.
    pub(crate) fn parse(line: &str) -> Result<Option<Point>> {
        let Some(rest) = line.strip_prefix("POINT ") else {
            return Ok(None);
        };
        let pairs = rest
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        let mut words: BTreeMap<String, String> = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let seconds = words.remove("seconds").context("a point without seconds")?;
        let seconds = seconds
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>();
        let point = Point {
            words,
            seconds: seconds.with_context(|| line.to_owned())?,
        };
        ensure!(
            !point.seconds.is_empty(),
            "a point without a sample: {line}"
        );
        point.number("bytes")?;
        point.number("ranks")?;
        Ok(Some(point))
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.words.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str) -> Result<u64> {
        let text = self.text(key);
        text.parse()
            .with_context(|| format!("{key}={text} in a point"))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.number("bytes").unwrap_or_default()
    }

    pub(crate) fn ranks(&self) -> u64 {
        self.number("ranks").unwrap_or_default()
    }

    pub(crate) fn best_seconds(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Bytes over time, and the same scaled by what an operation has to move at least, so that it can be compared with a link's rate.
    pub(crate) fn bandwidths_gbs(&self, seconds: f64) -> (f64, f64) {
        let n_ranks = self.ranks() as f64;
        let factor = match self.text("op") {
            "all_reduce" => 2.0 * (n_ranks - 1.0) / n_ranks,
            "broadcast" => 1.0,
            _ => (n_ranks - 1.0) / n_ranks,
        };
        let algorithm = self.bytes() as f64 / seconds / 1e9;
        (algorithm, algorithm * factor)
    }

    pub(crate) fn series(&self) -> String {
        let word = |key| format!("{key}={}", self.text(key));
        let words = ["ranks", "algorithm", "bytes"].map(word).join(" ");
        format!("{} {} {words}", self.text("backend"), self.text("op"))
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample> {
        let series = self.series();
        (0..)
            .zip(&self.seconds)
            .map(move |(run_idx, &seconds)| Sample {
                series: series.clone(),
                run_idx,
                metric: Metric::new("seconds", seconds, "s"),
            })
    }

    /// The line that the program printed.
    pub(crate) fn line(&self) -> String {
        let words = self
            .words
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let seconds: Vec<String> = self.seconds.iter().map(f64::to_string).collect();
        let words: Vec<String> = words.collect();
        format!("POINT {} seconds={}", words.join(" "), seconds.join(","))
    }
}

/// Builds the bench program and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let mut build = cargo(&["bench", "--no-run", "--locked", "--package"]);
    build.args(["shardgraph-collectives", "--bench", "collectives"]);
    let built = package::executables(&mut build)?;
    let program = built.into_iter().find(|(name, _)| name == "collectives");
    Ok(program.context("cargo built no bench `collectives`")?.1)
}

/// A time for several runs together, beginning now.
pub(crate) struct Limit {
    seconds: f64,
    watch: Stopwatch,
}

impl Limit {
    pub(crate) fn new(seconds: f64) -> Limit {
        Limit {
            seconds,
            watch: Stopwatch::start(),
        }
    }

    /// What is left of it for one more run.
    pub(crate) fn left(&self) -> Result<f64> {
        let left = self.seconds - self.watch.seconds();
        ensure!(
            left > 0.0,
            "the {} s for all measurements are over and not all were made: raise --seconds",
            self.seconds
        );
        Ok(left)
    }
}

/// Runs the program; gives each point as it comes, and returns the skips that it printed.
pub(crate) fn run(
    program: &Path,
    args: &[String],
    seconds: f64,
    mut each: impl FnMut(Point),
) -> Result<Vec<String>> {
    let (mut wrong, mut skips) = (None, Vec::new());
    let mut command = process::command(program);
    let ended =
        process::each_line_within(command.args(args), seconds, |line| {
            match Point::parse(line) {
                Ok(Some(point)) => each(point),
                Ok(None) if line.starts_with("SKIPPED:") => skips.push(line.to_owned()),
                Ok(None) => {}
                Err(error) => wrong = Some(error),
            }
        })?;
    if let Some(error) = wrong {
        return Err(error);
    }
    match ended {
        Ended::InTime(status) if status.success() => Ok(skips),
        Ended::InTime(status) => bail!("{status}: {}", process::shown(&command)),
        Ended::Killed => bail!(
            "not done after {seconds:.0} s: {}",
            process::shown(&command)
        ),
    }
}

/// The lines that the program answers to `input`.
pub(crate) fn ask(program: &Path, mode: &[&str], input: &str) -> Result<Vec<String>> {
    let mut child = process::command(program)
        .args(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // The program reads everything before it answers, so nobody waits for the other.
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{} {mode:?}: {}",
        program.display(),
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

/// The value of `key=` in a line of words.
pub(crate) fn word<'a>(line: &'a str, key: &str) -> Result<&'a str> {
    let mut pairs = line
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    let found = pairs.find(|(name, _)| *name == key);
    Ok(found.with_context(|| format!("no {key} in {line:?}"))?.1)
}

/// The same as a number.
pub(crate) fn number(line: &str, key: &str) -> Result<f64> {
    let text = word(line, key)?;
    text.parse().with_context(|| format!("{key}={text}"))
}

/// A `FIT` line for each back end.
pub(crate) fn fits(program: &Path, points: &[Point], n_cores: usize) -> Result<Vec<String>> {
    let lines: Vec<String> = points.iter().map(Point::line).collect();
    ask(program, &["--fit", &n_cores.to_string()], &lines.join("\n"))
}

/// The flags of the MPI that `cargo xtask ci --only mpi` has put into `target/mpi`.
pub(crate) fn mpi_flags() -> Option<[String; 4]> {
    let folders = std::fs::read_dir(project::root().join("target/mpi")).ok()?;
    folders.flatten().find_map(|folder| {
        let mpiexec = folder.path().join("bin/mpiexec");
        let library = folder.path().join("lib/libmpi_abi.so.1");
        let are_there = mpiexec.exists() && library.exists();
        let [mpiexec, library] = [mpiexec, library].map(|path| path.display().to_string());
        are_there.then(|| {
            [
                "--mpiexec".to_owned(),
                mpiexec,
                "--library".to_owned(),
                library,
            ]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "POINT backend=tcp op=all_reduce redop=sum root=-1 ranks=4 bytes=1000000000 count=250000000 algorithm=auto wrong=0 seconds=2e0,1e0";

    #[test]
    fn a_point_comes_back() {
        let point = Point::parse(LINE).unwrap().unwrap();
        assert_eq!((point.ranks(), point.bytes()), (4, 1_000_000_000));
        assert_eq!(point.best_seconds().to_bits(), 1f64.to_bits());
        let (algorithm, bus) = point.bandwidths_gbs(2.0);
        assert!((algorithm - 0.5).abs() < 1e-9 && (bus - 0.75).abs() < 1e-9);
        assert_eq!(
            point.series(),
            "tcp all_reduce ranks=4 algorithm=auto bytes=1000000000"
        );
        let again = Point::parse(&point.line()).unwrap().unwrap();
        assert_eq!(again.line(), point.line());
        assert_eq!(point.samples().count(), 2);
        assert!(Point::parse("something else").unwrap().is_none());
        assert!(Point::parse("POINT op=x").is_err());
        assert!(Point::parse("POINT bytes=8 ranks=2 seconds=soon").is_err());
    }

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        for (op, wanted) in [
            ("all_gather", 0.75),
            ("broadcast", 1.0),
            ("all_to_all", 0.75),
        ] {
            let line = LINE.replace("all_reduce", op);
            let point = Point::parse(&line).unwrap().unwrap();
            let (_, bus) = point.bandwidths_gbs(1.0);
            assert!((bus - wanted).abs() < 1e-9, "{op}");
        }
    }

    #[test]
    fn words_of_a_line() {
        assert_eq!(word("FIT a=b c=1e-3", "a").unwrap(), "b");
        assert!((number("FIT a=b c=1e-3", "c").unwrap() - 1e-3).abs() < 1e-12);
        assert!(number("FIT a=b", "a").is_err() && word("FIT a=b", "d").is_err());
    }
}
