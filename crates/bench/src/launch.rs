//! Runs of the `shardgraph` binary: where it is, its words with placeholders filled in, and its ranks as processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::answer::Answer;
use crate::options::Backend;
use crate::paths;
use crate::process::{self, Measured};
use crate::robustness::ranks::Ranks;
use crate::row;

/// The exit code that says that a wanted device or library is missing.
const MISSING: i32 = 3;

/// Values of placeholders.
pub(crate) type Values = BTreeMap<String, String>;

/// The binary of the same build, beside this program.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let name = format!("shardgraph{}", std::env::consts::EXE_SUFFIX);
    let program = own.with_file_name(name);
    ensure!(
        program.exists() || cfg!(test),
        "{} is not built: run this through `cargo xtask bench` or `cargo xtask repro`",
        program.display()
    );
    Ok(program)
}

/// `{scratch}` and `{data}`.
pub(crate) fn places(scratch: &Path) -> Values {
    let text = |path: &Path| path.display().to_string();
    Values::from([
        ("scratch".to_owned(), text(scratch)),
        ("data".to_owned(), text(&paths::data())),
    ])
}

/// Fills placeholders in; one without a value is an error.
pub(crate) fn substitute(words: &[String], values: &Values) -> Result<Vec<String>> {
    let one = |word: &String| {
        let mut word = word.clone();
        for (name, value) in values {
            word = word.replace(&format!("{{{name}}}"), value);
        }
        ensure!(!word.contains('{'), "nothing stands for {word:?}");
        Ok(word)
    };
    words.iter().map(one).collect()
}

/// How a run ended that did not fail.
pub(crate) enum Ran {
    Answer(Answer),
    /// A device or a library is missing, or the machine lacks what the backend needs.
    Missing(String),
}

/// Runs a command by a backend, `n_ranks` being what its `--ranks` says.
pub(crate) fn run(
    program: &Path,
    words: &[String],
    scratch: &Path,
    backend: Backend,
) -> Result<Ran> {
    let mut words = words.to_vec();
    let n_ranks = match backend.is_processes() {
        true => take_ranks(&mut words)?,
        false => 1,
    };
    words.extend(backend.flags().iter().map(|&flag| flag.to_owned()));
    let measured = match backend {
        Backend::Tcp => tcp(program, &words, scratch, n_ranks)?,
        Backend::Mpi => match mpiexec() {
            None => {
                let why = "no MPI under target/mpi: `cargo xtask ci --only mpi` puts one there";
                return Ok(Ran::Missing(why.to_owned()));
            }
            Some(mpi) => {
                process::measure(&mpi.mpiexec, &mpi.words(program, n_ranks, &words), scratch)?
            }
        },
        _ => process::measure(program, &words, scratch)?,
    };
    answer(&measured, &words)
}

/// The line of a program's messages that says why it failed: clap has advice behind it.
fn said(stderr: &str) -> &str {
    let mut lines = stderr.lines();
    let error = lines.clone().find(|line| line.starts_with("error: "));
    error.or_else(|| lines.next_back()).unwrap_or("no message")
}

fn answer(measured: &Measured, words: &[String]) -> Result<Ran> {
    let said = said(&measured.stderr);
    match measured.exit_code {
        Some(0) => (),
        Some(MISSING) => return Ok(Ran::Missing(said.to_owned())),
        _ => bail!("`shardgraph {}`: {said}", words.join(" ")),
    }
    let mut answer = Answer::parse(&measured.stdout)?;
    answer.add("wall_seconds", measured.wall_seconds);
    if let Some(peak) = measured.peak_rss_bytes {
        answer.add("peak_rss_bytes", peak as f64);
    }
    Ok(Ran::Answer(answer))
}

/// Runs a command on the host that has to end well.
pub(crate) fn run_here(program: &Path, words: &[String], scratch: &Path) -> Result<Answer> {
    match run(program, words, scratch, Backend::Threads)? {
        Ran::Answer(answer) => Ok(answer),
        Ran::Missing(why) => bail!("`shardgraph {}`: {why}", words.join(" ")),
    }
}

/// Takes `--ranks P` out of a command: processes are told by their launcher.
fn take_ranks(words: &mut Vec<String>) -> Result<usize> {
    let at = words.iter().position(|word| word == "--ranks");
    let at = at.context("a command without --ranks has no processes to start")?;
    let pair: Vec<String> = words.drain(at..(at + 2).min(words.len())).collect();
    let n_ranks = pair.get(1).and_then(|n| n.parse().ok());
    n_ranks.context("--ranks is followed by no number")
}

/// Ranks as processes over TCP; the answer is that of rank 0.
fn tcp(program: &Path, words: &[String], scratch: &Path, n_ranks: usize) -> Result<Measured> {
    let watch = process::Stopwatch::start();
    let ended = Ranks::over_tcp(program, words, scratch, n_ranks)?.survivors(None)?;
    let wall_seconds = watch.seconds();
    let worst = ended.iter().find(|rank| rank.exit_code != Some(0));
    let shown = worst.or(ended.first()).context("no ranks")?;
    Ok(Measured {
        exit_code: shown.exit_code,
        stdout: std::fs::read_to_string(scratch.join("rank-0.stdout"))?,
        stderr: shown.stderr.clone(),
        wall_seconds,
        peak_rss_bytes: None,
    })
}

/// An installed MPI.
pub(crate) struct Mpi {
    pub(crate) mpiexec: PathBuf,
    pub(crate) library: PathBuf,
}

impl Mpi {
    fn words(&self, program: &Path, n_ranks: usize, words: &[String]) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let mut all = vec!["-n".to_owned(), n_ranks.to_string(), text(program)];
        all.extend(words.iter().cloned());
        all.extend(["--mpi-library".to_owned(), text(&self.library)]);
        all
    }
}

/// The MPI that `cargo xtask ci --only mpi` has put into `target/mpi`.
pub(crate) fn mpiexec() -> Option<Mpi> {
    let folders = std::fs::read_dir(paths::root().join("target/mpi")).ok()?;
    folders.flatten().find_map(|folder| {
        let mpi = Mpi {
            mpiexec: folder.path().join("bin/mpiexec"),
            library: folder.path().join("lib/libmpi_abi.so.1"),
        };
        (mpi.mpiexec.exists() && mpi.library.exists()).then_some(mpi)
    })
}

/// A number of an answer, or two with `/` between them; `x` stands for the point. `a.b` is a field
/// of a field; of a list it is the largest number.
pub(crate) fn number_of(answer: &Answer, text: &str, x: Option<f64>) -> Result<f64> {
    let one = |name: &str| match (name, x, name.parse()) {
        ("x", Some(x), _) => Ok(x),
        (_, _, Ok(number)) => Ok(number),
        _ => answer
            .number(name)
            .or_else(|error| answer.largest(name).ok_or(error)),
    };
    match text.split_once('/') {
        None => one(text),
        Some((above, below)) => Ok(one(above)? / one(below)?),
    }
}

/// Unit of a metric as [`number_of`] takes it.
pub(crate) fn unit_of(text: &str) -> &'static str {
    row::unit_of(text.split('/').next().unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn placeholders_need_a_value() {
        let values = Values::from([("x".to_owned(), "3".to_owned())]);
        assert_eq!(substitute(&words("a {x}"), &values).unwrap(), ["a", "3"]);
        assert!(substitute(&words("{y}"), &values).is_err());
    }

    #[test]
    fn processes_are_started_by_their_number_of_ranks() {
        let mut command = words("solve g --ranks 3 --format json");
        assert_eq!(take_ranks(&mut command).unwrap(), 3);
        assert_eq!(command, words("solve g --format json"));
        assert!(take_ranks(&mut command).is_err());
        assert!(take_ranks(&mut words("solve --ranks")).is_err());
    }

    #[test]
    fn numbers_and_quotients() {
        let text =
            "{\"seconds\": 6, \"steps\": 3, \"bytes\": [4, 8], \"exchange\": {\"bytes\": 7}}";
        let answer = Answer::parse(text).unwrap();
        let number = |text| number_of(&answer, text, Some(2.0)).ok();
        assert_eq!(number("seconds"), Some(6.0));
        assert_eq!(number("seconds/steps"), Some(2.0));
        assert_eq!(number("seconds/x"), Some(3.0));
        assert_eq!(number("bytes/4"), Some(2.0));
        assert_eq!(number("exchange.bytes"), Some(7.0));
        assert_eq!(number("hours"), None);
        assert_eq!(unit_of("seconds/steps"), "s");
    }

    #[test]
    fn a_missing_device_is_no_failure() {
        let measured = |exit_code| Measured {
            exit_code: Some(exit_code),
            stdout: "{}".to_owned(),
            stderr: "a\nno GPU".to_owned(),
            wall_seconds: 1.0,
            peak_rss_bytes: None,
        };
        assert!(matches!(answer(&measured(3), &[]), Ok(Ran::Missing(why)) if why == "no GPU"));
        assert!(matches!(answer(&measured(0), &[]), Ok(Ran::Answer(_))));
        assert!(answer(&measured(1), &[]).is_err());
    }

    #[test]
    fn the_reason_is_shown_and_not_the_advice_behind_it() {
        let refused =
            "error: unexpected argument '--comm' found\n\nFor more information, try '--help'.";
        assert_eq!(said(refused), "error: unexpected argument '--comm' found");
        assert_eq!(said("one\ntwo\n"), "two");
        assert_eq!(said(""), "no message");
    }
}
