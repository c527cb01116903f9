//! `cargo xtask bench scaling --job JOB`: one job of each system by ranks: seconds, efficiency, bytes that a rank receives, memory of the process over its ranks.
//!
//! The jobs stand in `benches/repro/scaling.toml` as `[[sweep]]`. Rows of more ranks than processors are measured too and say that their ranks share
//! them; beside each stands a projection for a processor a rank, which says that it is one.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use super::share::{Cut, Serial, Step};
use super::{DEFINITION, SCALING, rows};
use crate::answer::{Answer, Metric};
use crate::bench::{fresh_scratch, places};
use crate::definition::{Substitutions, number, string, strings, substitute};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::shown;
use crate::toml::{self, Table};

/// Runs of each row; the shortest counts.
const N_RUNS: u32 = 3;
/// What a row says that nobody measured.
const PROJECTION: &str =
    "projection, not measured: a processor for each rank, what ranks exchange takes no time";
/// The exit code of a run that lacks a device or a library.
const MISSING: i32 = 3;

/// The systems that have a job.
pub(super) const JOBS: [&str; 4] = ["solver", "line", "rgcn", "place"];

/// What ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// Threads of this machine, computing on the host.
    Threads,
    /// Threads with a stream each on one GPU.
    Local,
    /// A GPU each, over NCCL.
    Nccl,
}

/// What is swept.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// A name of [`JOBS`], or all.
    pub(super) job: String,
    pub(super) ranks: Vec<u32>,
    pub(super) backend: Backend,
    pub(super) test: bool,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    n_ranks: u32,
    seconds: Option<f64>,
    efficiency: Option<f64>,
    bytes: Option<f64>,
    memory: Option<f64>,
    /// Whether its ranks share processors.
    is_shared: bool,
    note: String,
}

impl Backend {
    pub(super) fn parse(text: &str) -> Result<Backend> {
        match text {
            "threads" => Ok(Backend::Threads),
            "local" => Ok(Backend::Local),
            "nccl" => Ok(Backend::Nccl),
            _ => bail!("--backend: expected threads, local or nccl, found {text:?}"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Backend::Threads => "threads",
            Backend::Local => "local",
            Backend::Nccl => "nccl",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Backend::Threads => &[],
            Backend::Local => &["--device", "cuda"],
            Backend::Nccl => &["--device", "cuda", "--comm", "nccl"],
        }
    }
}

/// `1..6` with both ends, or `1,2,4`.
pub(super) fn parse_ranks(text: &str) -> Result<Vec<u32>> {
    let one = |word: &str| -> Result<u32> {
        let number = word
            .trim()
            .parse()
            .ok()
            .filter(|&n| (1..=1024).contains(&n));
        number.with_context(|| format!("--ranks: expected 1..6 or 1,2,4, found {text:?}"))
    };
    let all: Vec<u32> = match text.split_once("..") {
        Some((first, last)) => (one(first)?..=one(last.trim_start_matches('='))?).collect(),
        None => text.split(',').map(one).collect::<Result<_>>()?,
    };
    ensure!(!all.is_empty(), "--ranks: no number in {text:?}");
    Ok(all)
}

/// Runs the command.
pub(super) fn run(wanted: &Wanted, host: Option<&str>) -> Result<ExitCode> {
    let known = wanted.job == "all" || JOBS.contains(&wanted.job.as_str());
    ensure!(
        known,
        "--job: expected {} or all, found {:?}",
        JOBS.join(", "),
        wanted.job
    );
    let ranks: Vec<String> = wanted.ranks.iter().map(u32::to_string).collect();
    let command = format!(
        "cargo xtask bench {SCALING} --job {} --ranks {} --backend {}",
        wanted.job,
        ranks.join(","),
        wanted.backend.name()
    );
    let mut record = Record::new(host, command)?;
    let program = process::build_shardgraph()?;
    let text = sections(wanted, &program, &mut record.samples)?;
    println!("{text}");
    record.report = text;
    if !wanted.test {
        println!("bench: written to {}", record.write()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The small run of CI's bench stage: every job has rows with seconds, bytes and memory, and the other back ends say why they have none, or have some.
pub(super) fn test(program: &Path) -> Result<()> {
    for backend in [Backend::Threads, Backend::Local, Backend::Nccl] {
        let wanted = Wanted {
            job: "all".to_owned(),
            ranks: vec![1, 2],
            backend,
            test: true,
        };
        let text = sections(&wanted, program, &mut Vec::new())?;
        for job in JOBS {
            ensure!(text.contains(&format!("## {job}: ")), "no rows of {job}");
        }
        let is_measured = text.contains(" | measured");
        ensure!(
            is_measured || backend != Backend::Threads,
            "no row was measured:\n{text}"
        );
    }
    Ok(())
}

fn sections(wanted: &Wanted, program: &Path, samples: &mut Vec<Sample>) -> Result<String> {
    let table = toml::read(&project::root().join(DEFINITION))?;
    let mut text = String::new();
    for sweep in rows(&table, "sweep")? {
        let job = string(sweep, "job")?;
        if wanted.job != "all" && wanted.job != job {
            continue;
        }
        let name = string(sweep, "name")?;
        let found = measured(wanted, sweep, program).with_context(|| name.clone())?;
        let all = with_projections(sweep, found)?;
        text.push_str(&section(wanted, sweep, &all)?);
        samples.extend(all.iter().flat_map(|row| row.samples(&name)));
    }
    Ok(text)
}

/// The rows that were measured, or one that says why there are none.
fn measured(wanted: &Wanted, sweep: &Table, program: &Path) -> Result<Vec<Row>> {
    let is_elsewhere = wanted.backend != Backend::Threads;
    if is_elsewhere && sweep.get("devices").is_none() {
        let why = string(sweep, "no_devices")?;
        return Ok(vec![Row::not_run(wanted.ranks[0], &why)]);
    }
    let n_cores = std::thread::available_parallelism()?.get();
    let mut found: Vec<Row> = Vec::new();
    for &n_ranks in &wanted.ranks {
        let row = match shortest(wanted, sweep, (program, n_ranks))? {
            Ok(row) => row,
            Err(why) => {
                found.push(Row::not_run(n_ranks, &why));
                break;
            }
        };
        let is_shared = wanted.backend == Backend::Threads && n_ranks as usize > n_cores;
        found.push(Row {
            is_shared,
            note: match is_shared {
                true => format!("measured; {n_ranks} ranks share {n_cores} processors"),
                false => "measured".to_owned(),
            },
            ..row
        });
    }
    let alone = found.iter().find(|row| row.n_ranks == 1);
    if let Some(alone) = alone.and_then(|row| row.seconds) {
        for row in &mut found {
            let efficiency = |seconds| alone / (f64::from(row.n_ranks) * seconds);
            row.efficiency = row.seconds.map(efficiency);
        }
    }
    Ok(found)
}

/// The shortest of the runs, or why it cannot run here.
fn shortest(
    wanted: &Wanted,
    sweep: &Table,
    (program, n_ranks): (&Path, u32),
) -> Result<Result<Row, String>> {
    let n_runs = if wanted.test { 1 } else { N_RUNS };
    let mut best: Option<Row> = None;
    for _ in 0..n_runs {
        let row = match one_run(wanted, sweep, (program, n_ranks))? {
            Ok(row) => row,
            Err(why) => return Ok(Err(why)),
        };
        let is_shorter = best.as_ref().is_none_or(|best| row.seconds < best.seconds);
        if is_shorter {
            best = Some(row);
        }
    }
    Ok(Ok(best.context("no runs")?))
}

fn one_run(
    wanted: &Wanted,
    sweep: &Table,
    (program, n_ranks): (&Path, u32),
) -> Result<Result<Row, String>> {
    let scratch = fresh_scratch(&format!("{SCALING}-sweep"))?;
    let ranks = Substitutions::from([("ranks".to_owned(), n_ranks.to_string())]);
    let values = places(&scratch, &ranks);
    let prefix = if wanted.test { "test_" } else { "" };
    if sweep.get("prepare").is_some() {
        let words = substitute(&strings(sweep, "prepare")?, &values)?;
        process::stdout_of(process::command(program).args(&words))?;
    }
    let mut words = substitute(&strings(sweep, &format!("{prefix}command"))?, &values)?;
    words.extend(wanted.backend.flags().iter().map(|&flag| flag.to_owned()));
    let measured = process::measure(program, &words, &scratch)?;
    let last = measured.stderr.lines().last().unwrap_or("no message");
    match measured.exit_code {
        Some(0) => (),
        Some(MISSING) => return Ok(Err(last.to_owned())),
        _ => bail!("`shardgraph {}`: {last}", words.join(" ")),
    }
    let answer = Answer::parse(&measured.stdout)?;
    let metric = string(sweep, "metric")?;
    let seconds = answer.number(&metric)? * number(sweep, "scale").unwrap_or(1.0);
    Ok(Ok(Row {
        n_ranks,
        seconds: Some(seconds),
        efficiency: None,
        bytes: bytes(sweep, &answer, n_ranks)?,
        memory: measured
            .peak_rss_bytes
            .map(|peak| peak as f64 / f64::from(n_ranks)),
        is_shared: false,
        note: String::new(),
    }))
}

/// Bytes that a rank takes in for what one row times, as the program counted them, in a field of its answer or, behind a dot, of an object there;
/// of a list the largest; nothing where the program counts none. One rank exchanges none.
fn bytes(sweep: &Table, answer: &Answer, n_ranks: u32) -> Result<Option<f64>> {
    let Ok(name) = string(sweep, "counted") else {
        return Ok(Some(0.0));
    };
    if n_ranks == 1 {
        return Ok(Some(0.0));
    }
    let (outer, inner) = name.split_once('.').unwrap_or((&name, ""));
    let field = answer.field(outer);
    let field = if inner.is_empty() {
        field
    } else {
        field.and_then(|object| object.get(inner))
    };
    let most = match field {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Array(all)) => all.iter().filter_map(Json::as_number).fold(0.0, f64::max),
        Some(other) => other
            .as_number()
            .with_context(|| format!("{name} is no number"))?,
    };
    Ok(Some(most / number(sweep, "counted_over").unwrap_or(1.0)))
}

/// What a serial share is fitted to.
fn steps(found: &[Row]) -> Vec<Step> {
    let step = |row: &Row| {
        Some(Step {
            n_ranks: row.n_ranks,
            seconds: row.seconds?,
            exchanged: 0.0,
        })
    };
    found
        .iter()
        .filter(|row| row.n_ranks > 1)
        .filter_map(step)
        .collect()
}

/// Behind each row of more ranks than processors one for a processor a rank.
fn with_projections(sweep: &Table, found: Vec<Row>) -> Result<Vec<Row>> {
    let n_cores = std::thread::available_parallelism()?.get() as u32;
    let alone = found.iter().find(|row| row.n_ranks == 1);
    let Some(alone) = alone.and_then(|row| row.seconds) else {
        return Ok(found);
    };
    let n_pieces = number(sweep, "pieces")? as u32;
    let steps = steps(&found);
    let here = Cut {
        n_pieces,
        n_at_once: n_cores,
    };
    let serial = Serial::fit(alone, &steps, here);
    let apart = Cut {
        n_pieces,
        n_at_once: u32::MAX,
    };
    let mut all = Vec::new();
    for row in found {
        let (n_ranks, bytes) = (row.n_ranks, row.bytes);
        let is_shared = row.is_shared;
        all.push(row);
        if is_shared {
            let seconds = serial.seconds(alone, apart, n_ranks);
            all.push(Row {
                n_ranks,
                seconds: Some(seconds),
                efficiency: Some(alone / (f64::from(n_ranks) * seconds)),
                bytes,
                memory: None,
                is_shared: false,
                note: PROJECTION.to_owned(),
            });
        }
    }
    Ok(all)
}

fn section(wanted: &Wanted, sweep: &Table, all: &[Row]) -> Result<String> {
    let words = strings(
        sweep,
        if wanted.test {
            "test_command"
        } else {
            "command"
        },
    )?;
    let mut text = format!(
        "## {}: {}, back end {}\n\n{}.\n\n```\nshardgraph {} {}\n```\n\n| ranks | {} | efficiency | bytes that a rank receives, by its operations | peak bytes of the process / ranks | |\n|---|---|---|---|---|---|\n",
        string(sweep, "job")?,
        string(sweep, "name")?,
        wanted.backend.name(),
        match wanted.test {
            true => format!(
                "{}; here in the small size of the test",
                string(sweep, "why")?
            ),
            false => string(sweep, "why")?,
        },
        words.join(" "),
        wanted.backend.flags().join(" "),
        string(sweep, "unit")?,
    );
    for row in all {
        let cell = |value: Option<f64>| value.map_or(String::new(), shown);
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            row.n_ranks,
            cell(row.seconds),
            cell(row.efficiency),
            bytes_cell(row),
            cell(row.memory),
            row.note
        ));
    }
    text.push('\n');
    Ok(text)
}

/// The closed form makes no neighbour sums, whose bytes are what the program counts.
fn bytes_cell(row: &Row) -> String {
    match (row.bytes, row.seconds) {
        (Some(bytes), _) => shown(bytes),
        (None, Some(_)) => "not counted".to_owned(),
        (None, None) => String::new(),
    }
}

impl Row {
    fn not_run(n_ranks: u32, why: &str) -> Row {
        Row {
            n_ranks,
            seconds: None,
            efficiency: None,
            bytes: None,
            memory: None,
            is_shared: false,
            note: format!("not run: {why}"),
        }
    }

    fn samples(&self, name: &str) -> Vec<Sample> {
        let is_projection = self.note == PROJECTION;
        let prefix = if is_projection { "projected_" } else { "" };
        let numbers = [
            ("seconds", self.seconds, "s"),
            ("efficiency", self.efficiency, "1"),
            ("received_bytes_by_operation", self.bytes, "B"),
            ("process_bytes_per_rank", self.memory, "B"),
        ];
        let sample = |(metric, value, unit): (&str, Option<f64>, &str)| {
            Some(Sample {
                series: format!("{name} ranks={}", self.n_ranks),
                run_idx: 0,
                metric: Metric::new(&format!("{prefix}{metric}"), value?, unit),
            })
        };
        numbers.into_iter().filter_map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_has_a_sweep_of_every_job() {
        let table = toml::read(&project::root().join(DEFINITION)).unwrap();
        let all = rows(&table, "sweep").unwrap();
        for job in JOBS {
            let is_it = |sweep: &&&Table| string(sweep, "job").is_ok_and(|name| name == job);
            assert!(all.iter().any(|sweep| is_it(&sweep)), "{job}");
        }
        for sweep in all {
            let name = string(sweep, "name").unwrap();
            for key in ["command", "test_command"] {
                let words = strings(sweep, key).unwrap();
                assert!(words.contains(&"{ranks}".to_owned()), "{name}");
            }
            assert!(number(sweep, "pieces").unwrap() >= 2.0, "{name}");
            let is_counted = sweep.get("counted").is_some()
                || string(sweep, "why").unwrap().contains("nothing is sent");
            assert!(is_counted, "{name}: no bytes");
            let is_told = sweep.get("devices").is_some() || string(sweep, "no_devices").is_ok();
            assert!(is_told, "{name}: no word on other back ends");
        }
    }

    #[test]
    fn ranks_are_spans_and_lists() {
        assert_eq!(parse_ranks("1..6").unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(parse_ranks("1,2,4").unwrap(), [1, 2, 4]);
        for wrong in ["", "0", "6..1", "1..x", "2000", "a"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
        assert!(Backend::parse("mpi").is_err());
    }

    #[test]
    fn only_rows_of_shared_processors_are_projected_and_say_so() {
        let row = |n_ranks, seconds, note: &str| Row {
            n_ranks,
            seconds: Some(seconds),
            efficiency: None,
            bytes: Some(8.0),
            memory: Some(1.0),
            is_shared: note.contains("share"),
            note: note.to_owned(),
        };
        let sweep = toml::parse("pieces = 1000").unwrap();
        let found = vec![
            row(1, 8.0, "measured"),
            row(1000, 9.0, "measured; 1000 ranks share 2 processors"),
        ];
        let all = with_projections(&sweep, found.clone()).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[..2], found[..]);
        let last = &all[2];
        assert!(last.note.starts_with("projection, not measured"));
        assert_eq!((last.memory, last.n_ranks), (None, 1000));
        // With no row to fit, all of the work is cut.
        assert!((last.seconds.unwrap() - 0.008).abs() < 1e-9);
        let samples = last.samples("x");
        assert!(
            samples
                .iter()
                .all(|sample| sample.metric.name.starts_with("projected_"))
        );
        assert!(
            all[0]
                .samples("x")
                .iter()
                .all(|sample| !sample.metric.name.starts_with("proj"))
        );
    }

    /// A program whose seconds are 8 over its ranks, and which has no GPU.
    #[cfg(unix)]
    #[test]
    fn rows_are_what_the_program_says() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = fresh_scratch(&format!("sweep-test-{}", std::process::id())).unwrap();
        let program = folder.join("program");
        let script = "#!/bin/sh\ncase \"$*\" in *cuda*) echo 'error: no GPU here' >&2; exit 3;; *broken*) exit 1;; esac\necho \"{\\\"seconds\\\": $(awk \"BEGIN {print 8 / $2}\"), \\\"sent\\\": [3, 40]}\"\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let sweep = |command: &str| {
            let text = format!(
                "command = [\"{command}\", \"{{ranks}}\"]\ntest_command = [\"x\", \"{{ranks}}\"]\nmetric = \"seconds\"\ncounted = \"sent\"\ncounted_over = 4\npieces = 8\ndevices = true\n"
            );
            toml::parse(&text).unwrap()
        };
        let wanted = |backend| Wanted {
            job: "solver".to_owned(),
            ranks: vec![1, 2],
            backend,
            test: false,
        };
        let found = measured(&wanted(Backend::Threads), &sweep("solve"), &program).unwrap();
        let numbers: Vec<_> = found
            .iter()
            .map(|row| (row.seconds, row.efficiency, row.bytes))
            .collect();
        let expected = [
            (Some(8.0), Some(1.0), Some(0.0)),
            (Some(4.0), Some(1.0), Some(10.0)),
        ];
        assert_eq!(numbers, expected);
        // In whatever order.
        let upwards = wanted(Backend::Threads);
        let downwards = Wanted {
            ranks: vec![2, 1],
            ..upwards
        };
        let found = measured(&downwards, &sweep("solve"), &program).unwrap();
        assert_eq!(found[0].efficiency, Some(1.0));
        let absent = measured(&wanted(Backend::Nccl), &sweep("solve"), &program).unwrap();
        assert_eq!(absent.len(), 1);
        assert_eq!(absent[0].note, "not run: error: no GPU here");
        assert!(measured(&wanted(Backend::Threads), &sweep("broken"), &program).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
