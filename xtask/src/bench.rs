//! `cargo xtask bench`: runs the definitions in `benches/` and records every sample.

mod collectives;
mod gpu;
mod micro;
pub(crate) mod points;
mod scaling;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use lexopt::prelude::*;

use crate::answer::{Answer, Metric};
use crate::definition::{Definition, Substitutions, substitute};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample, summaries};
use crate::statistics::shown;

use collectives::COLLECTIVES;
pub(crate) use gpu::{GPU_BENCH, GPU_BENCH_TARGETS, PEER};
use micro::MICRO;
use scaling::SCALING;

/// What did not go as defined.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) skips: Vec<String>,
    pub(crate) failures: Vec<String>,
}

impl Report {
    /// Prints what did not go as defined, and the exit code that says so.
    fn conclude(&self) -> ExitCode {
        for line in self.skips.iter().chain(&self.failures) {
            println!("bench: {line}");
        }
        let (n_failed, n_skipped) = (self.failures.len(), self.skips.len());
        println!("bench: {n_failed} failed, {n_skipped} skipped");
        match n_failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let (mut names, mut list, mut test, mut host) = (Vec::new(), false, false, None);
    let mut results = None;
    while let Some(arg) = args.next()? {
        match arg {
            Value(name) if name == COLLECTIVES && names.is_empty() && !list && !test => {
                return collectives::run(args);
            }
            Value(name) if name == SCALING && names.is_empty() && !list && !test => {
                return scaling::run(args);
            }
            Value(name) if name == MICRO && names.is_empty() && !list && !test => {
                return micro::run(args);
            }
            Value(name) => names.push(name.string()?),
            Long("list") => list = true,
            Long("test") => test = true,
            Long("host") => host = Some(args.value()?.string()?),
            Long("results") => results = Some(PathBuf::from(args.value()?)),
            other => return Err(other.unexpected().into()),
        }
    }
    if list {
        return list_definitions();
    }
    if names == [GPU_BENCH] && !test {
        return gpu::run(results.as_deref(), host.as_deref());
    }
    ensure!(results.is_none(), "--results goes with `bench {GPU_BENCH}`");
    let report = if test {
        test_all(&names)?
    } else {
        measure_all(&names, host.as_deref())?
    };
    Ok(report.conclude())
}

fn list_definitions() -> Result<ExitCode> {
    for definition in Definition::load_all()? {
        println!("{:<20} {}", definition.name, definition.why);
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> Result<Vec<Definition>> {
    let mut definitions = Definition::load_all()?;
    for name in names {
        ensure!(
            definitions
                .iter()
                .any(|definition| definition.name == *name),
            "no bench {name:?}: `cargo xtask bench --list` names them"
        );
    }
    definitions.retain(|definition| names.is_empty() || names.contains(&definition.name));
    Ok(definitions)
}

/// Runs each definition's small command once and checks its answer.
pub(crate) fn test_all(names: &[String]) -> Result<Report> {
    let definitions = chosen(names)?;
    let program = process::build_shardgraph()?;
    let mut report = Report::default();
    for definition in &definitions {
        match test_one(definition, &program) {
            Ok(()) => println!("bench {}: ok", definition.name),
            Err(error) => {
                println!("bench {}: FAILED: {error:#}", definition.name);
                report
                    .failures
                    .push(format!("{}: {error:#}", definition.name));
            }
        }
    }
    if names.is_empty() {
        match collectives::test() {
            Ok(skips) => {
                println!("bench {COLLECTIVES}: ok");
                report.skips.extend(skips);
            }
            Err(error) => report.failures.push(format!("{COLLECTIVES}: {error:#}")),
        }
        match scaling::test(&program) {
            Ok(()) => println!("bench {SCALING}: ok"),
            Err(error) => report.failures.push(format!("{SCALING}: {error:#}")),
        }
        match crate::repro::test_solver(&program) {
            Ok(()) => println!("bench solver figures: ok"),
            Err(error) => report.failures.push(format!("solver figures: {error:#}")),
        }
    }
    Ok(report)
}

fn test_one(definition: &Definition, program: &Path) -> Result<()> {
    let mut same = SameFields::default();
    for variant in definition.variants() {
        let run = Run {
            definition,
            program,
            command: &definition.test_command,
            variant: &variant,
        };
        let (_, answer) = run.once()?;
        // Limits belong to the full size.
        same.check(definition, &answer)?;
    }
    Ok(())
}

fn measure_all(names: &[String], host: Option<&str>) -> Result<Report> {
    let definitions = chosen(names)?;
    let program = process::build_shardgraph()?;
    let command = ["cargo xtask bench", &names.join(" ")].join(" ");
    let mut record = Record::new(host, command.trim_end().to_owned())?;
    let mut report = Report::default();
    let mut details = Vec::new();
    for definition in &definitions {
        let missing = definition.missing();
        if !missing.is_empty() {
            report.skips.push(format!(
                "SKIPPED: {}: no {} in the data folder",
                definition.name,
                missing.join(", ")
            ));
            continue;
        }
        match measure_one(definition, &program) {
            Ok(samples) => {
                record.report.push_str(&section(definition, &samples));
                details.push(detail(definition));
                record.samples.extend(samples);
            }
            Err(error) => report
                .failures
                .push(format!("FAILED: {}: {error:#}", definition.name)),
        }
    }
    for line in report.skips.iter().chain(&report.failures) {
        record.report.push_str(&format!("- {line}\n"));
    }
    record.details = Json::Array(details);
    println!("bench: written to {}", record.write()?.display());
    Ok(report)
}

fn measure_one(definition: &Definition, program: &Path) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut same = SameFields::default();
    for variant in definition.variants() {
        let series = series(&definition.name, &variant);
        let run = Run {
            definition,
            program,
            command: &definition.command,
            variant: &variant,
        };
        for run_idx in 0..definition.repeat {
            let (metrics, answer) = run.once().with_context(|| series.clone())?;
            answer.check_limits(&definition.at_most)?;
            same.check(definition, &answer)?;
            let sample = |metric| Sample {
                series: series.clone(),
                run_idx,
                metric,
            };
            samples.extend(metrics.into_iter().map(sample));
        }
        println!("bench {series}: {}", in_short(&samples, &series));
    }
    Ok(samples)
}

fn series(name: &str, variant: &Substitutions) -> String {
    let values = variant.iter().map(|(key, value)| format!(" {key}={value}"));
    std::iter::once(name.to_owned()).chain(values).collect()
}

/// One run of a definition's command.
struct Run<'a> {
    definition: &'a Definition,
    program: &'a Path,
    command: &'a [String],
    variant: &'a Substitutions,
}

impl Run<'_> {
    /// Runs the command and checks exit code, expected fields and files.
    fn once(&self) -> Result<(Vec<Metric>, Answer)> {
        let scratch = fresh_scratch(&self.definition.name)?;
        let words = substitute(self.command, &places(&scratch, self.variant))?;
        let measured = process::measure(self.program, &words, &scratch)?;
        if measured.exit_code != Some(0) {
            let last = measured
                .stderr
                .lines()
                .last()
                .unwrap_or("nothing on standard error");
            bail!("exit code {:?}: {last}", measured.exit_code);
        }
        let answer = Answer::parse(&measured.stdout)?;
        answer.check_fields(&self.definition.expect)?;
        for file in &self.definition.makes {
            ensure!(scratch.join(file).exists(), "the run left no {file}");
        }
        let mut metrics = answer.metrics.clone();
        metrics.push(Metric::new("wall_seconds", measured.wall_seconds, "s"));
        let peak = measured
            .peak_rss_bytes
            .map(|bytes| Metric::new("peak_rss_bytes", bytes as f64, "B"));
        metrics.extend(peak);
        Ok((metrics, answer))
    }
}

/// What stands for `{scratch}`, `{data}` and the placeholder that varies.
pub(crate) fn places(scratch: &Path, variant: &Substitutions) -> Substitutions {
    let mut values = variant.clone();
    values.insert("scratch".to_owned(), scratch.display().to_string());
    values.insert("data".to_owned(), project::data().display().to_string());
    values
}

/// An empty folder for the files of one run.
pub(crate) fn fresh_scratch(name: &str) -> Result<PathBuf> {
    let folder = project::target().join("bench").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// The fields that have to be equal in all runs of a definition.
#[derive(Default)]
struct SameFields(Option<Vec<Json>>);

impl SameFields {
    fn check(&mut self, definition: &Definition, answer: &Answer) -> Result<()> {
        let field = |name: &String| {
            answer
                .field(name)
                .cloned()
                .with_context(|| format!("the answer has no `{name}`"))
        };
        let values = definition
            .same
            .iter()
            .map(field)
            .collect::<Result<Vec<Json>>>()?;
        let first = self.0.get_or_insert_with(|| values.clone());
        ensure!(
            *first == values,
            "{:?} differ between runs: {first:?}, {values:?}",
            definition.same
        );
        Ok(())
    }
}

fn in_short(samples: &[Sample], series: &str) -> String {
    let summaries = summaries(samples);
    let of_series = summaries.iter().filter(|((name, _), _)| name == series);
    let words = of_series.map(|((_, metric), (unit, summary))| {
        format!("{metric} {} {unit}", shown(summary.median))
            .trim_end()
            .to_owned()
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The part of a record's README about one definition.
fn section(definition: &Definition, samples: &[Sample]) -> String {
    let mut text = format!("## {}\n\n{}\n\n", definition.name, definition.why);
    text.push_str(&format!(
        "```\nshardgraph {}\n```\n\n",
        definition.command.join(" ")
    ));
    text.push_str(
        "| series | metric | unit | median | min | max | runs |\n|---|---|---|---|---|---|---|\n",
    );
    for ((series, metric), (unit, summary)) in summaries(samples) {
        let numbers = [summary.median, summary.min, summary.max]
            .map(shown)
            .join(" | ");
        text.push_str(&format!(
            "| {series} | {metric} | {unit} | {numbers} | {} |\n",
            definition.repeat
        ));
    }
    if !definition.published.is_empty() {
        text.push_str("\nReported by others, on other machines:\n\n| who | metric | value | source |\n|---|---|---|---|\n");
    }
    for row in &definition.published {
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            row.who,
            row.metric,
            shown(row.value),
            row.source
        ));
    }
    text.push('\n');
    text
}

fn detail(definition: &Definition) -> Json {
    Json::object([
        ("name", Json::text(&definition.name)),
        ("why", Json::text(&definition.why)),
        (
            "command",
            Json::text(&format!("shardgraph {}", definition.command.join(" "))),
        ),
        ("n_runs", Json::Number(f64::from(definition.repeat))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_name_their_variant() {
        let variant = Substitutions::from([("ranks".to_owned(), "2".to_owned())]);
        assert_eq!(series("solve", &variant), "solve ranks=2");
        assert_eq!(series("solve", &Substitutions::new()), "solve");
    }

    #[test]
    fn fields_that_differ_between_runs_are_an_error() {
        let definition = &chosen(&["solve-ranks".to_owned()]).unwrap()[0];
        assert!(!definition.same.is_empty());
        let answer = |objective: u32| {
            Answer::parse(&format!("{{\"objective\": {objective}, \"nodes\": 1}}")).unwrap()
        };
        let mut same = SameFields::default();
        same.check(definition, &answer(14)).unwrap();
        same.check(definition, &answer(14)).unwrap();
        assert!(same.check(definition, &answer(15)).is_err());
        assert!(same.check(definition, &Answer::default()).is_err());
    }

    #[test]
    fn unknown_names_are_an_error() {
        assert!(chosen(&["nothing".to_owned()]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_run_that_fails_its_check_is_an_error() {
        let definition = &chosen(&["solve-er750".to_owned()]).unwrap()[0];
        let folder = fresh_scratch(&format!("xtask-run-test-{}", std::process::id())).unwrap();
        let run = |script: &str| {
            let script = format!("cd {} && {script}", folder.display());
            let command = ["-c".to_owned(), script];
            let run = Run {
                definition,
                program: Path::new("/bin/sh"),
                command: &command,
                variant: &Substitutions::new(),
            };
            run.once().map(|(metrics, _)| metrics)
        };
        fs::write(folder.join("good"), r#"{"verified": true, "seconds": 2}"#).unwrap();
        fs::write(folder.join("bad"), r#"{"verified": false, "seconds": 2}"#).unwrap();
        let metrics = run("cat good").unwrap();
        assert!(metrics.contains(&Metric::new("seconds", 2.0, "s")));
        assert!(metrics.iter().any(|metric| metric.name == "wall_seconds"));
        assert!(run("cat bad").is_err());
        let broken = run("cat good; echo broken >&2; exit 1").unwrap_err();
        assert!(broken.to_string().contains("broken"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
