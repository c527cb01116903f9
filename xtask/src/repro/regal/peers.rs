//! The part of `table3` about time by size: our searches, whole, beside the engines of PyPI with a decoder that decodes nothing.

use std::fs;

use anyhow::{Result, ensure};

use super::super::Options;
use super::{Paper, evaluations, number_at, object, percent, python, text_at};
use crate::answer::{Metric, parse_metric};
use crate::bench::fresh_scratch;
use crate::definition::{number, strings};
use crate::json::Json;
use crate::process;
use crate::project;
use crate::record::{Record, Sample, summaries};
use crate::statistics::shown;
use crate::toml::Value;

const SCHEDULES: &str = "xtask/peers/brkga_schedules.py";
const SCRIPT: &str = "xtask/peers/brkga_engines.py";

/// Others' numbers, which no package registry lets one measure in the same run.
const ELSEWHERE: &str = "Measured elsewhere, on another machine (2 cores, often loaded): brkga_mp_ipr in C++ 3.1.1 with a decoder of the same logic, \
    5060 evaluations, one thread:\n\n| ops | seconds |\n|---|---|\n| 52 | 0.030 |\n| 127 | 0.093 |\n| 1002 | 1.04 |\n| 10002 | 14.0 |\n\n";

/// Times the sizes and adds them to a record.
pub(super) fn add(
    paper: &Paper,
    options: &Options,
    record: &mut Record,
    skips: &mut Vec<String>,
) -> Result<()> {
    let evaluations = evaluations(paper, options)?;
    let request = timings_request(paper, options, evaluations)?;
    let lines = paper.run("timings", &request, |line| {
        println!(
            "sizes: {} ops, {}",
            number_at(line, &["n_ops"]),
            text_at(line, "series")
        );
    })?;
    let first = record.samples.len();
    let max_keys = number(paper.table("peers")?, "max_keys")?;
    let mut keys: Vec<String> = Vec::new();
    for line in &lines.objects {
        let n_keys = number_at(line, &["n_keys"]);
        if n_keys <= max_keys && !keys.contains(&n_keys.to_string()) {
            keys.push(n_keys.to_string());
        }
        record.samples.extend(samples(line));
    }
    if options.test {
        // Engines in Python take their time whatever the number of evaluations.
        keys.clear();
    }
    let peers = engines(paper, &keys, evaluations, skips)?;
    record.samples.extend(peers);
    let section = section(&record.samples[first..]);
    record.report.push_str(&section);
    let found = schedules(paper, options, evaluations, skips)?;
    record.report.push_str(&schedules_section(&found));
    record
        .samples
        .extend(found.iter().flat_map(schedule_samples));
    record.report.push_str(ELSEWHERE);
    Ok(())
}

fn timings_request(paper: &Paper, options: &Options, evaluations: f64) -> Result<Json> {
    let mut sizes = paper.table("sizes")?.clone();
    if options.test {
        sizes.insert("n_ops".to_owned(), Value::Array(vec![Value::Integer(50)]));
        sizes.insert("runs".to_owned(), Value::Integer(1));
    }
    sizes.insert("evaluations".to_owned(), Value::Integer(evaluations as i64));
    Ok(object(&sizes))
}

/// The engines of PyPI on whole problems, with the paper's decoder in Python, and ours: a line for each graph and engine.
fn schedules(
    paper: &Paper,
    options: &Options,
    evaluations: f64,
    skips: &mut Vec<String>,
) -> Result<Vec<Json>> {
    let peers = paper.table("peers")?;
    let python = match python::environment("brkga", &strings(peers, "packages")?)? {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: peers on schedules: {why}");
            skips.push(format!("SKIPPED: peers on schedules: {why}"));
            return Ok(Vec::new());
        }
    };
    let folder = fresh_scratch("table3")?;
    let graphs = match options.test {
        true => 1.0,
        false => number(peers, "graphs")?,
    };
    let request = Json::object([
        ("folder", Json::text(&folder.display().to_string())),
        ("only_large", Json::Boolean(true)),
        ("large", Json::Number(graphs)),
        ("evaluations", Json::Number(evaluations)),
        ("genetic", paper.genetic()?),
    ]);
    paper.run("problems", &request, |_| ())?;
    let mut run = process::command(python);
    run.arg(project::root().join(SCHEDULES));
    run.arg(folder.join("problems.jsonl"))
        .arg(evaluations.to_string());
    for key in ["population", "elites", "mutants", "rho"] {
        run.arg(number(paper.table("genetic")?, key)?.to_string());
    }
    let mut found = String::new();
    let succeeded = process::each_line(&mut run, |line| {
        found.push_str(line);
        found.push('\n');
        println!("peers: {} searches", found.lines().count());
    })?;
    ensure!(succeeded, "{SCHEDULES} failed");
    fs::write(folder.join("found.jsonl"), found)?;
    Ok(paper.run("found", &request, |_| ())?.objects)
}

fn schedules_section(found: &[Json]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "## Engines on whole problems\n\nThe smallest graphs of the synthetic set, the same numbers for all, the paper's decoder: ours in Rust, \
         the engines of PyPI with `{SCHEDULES}` in Python, whose best chromosomes decode to the same runtimes here. One thread; theirs is processor time.\n\n\
         | graph | ops | engine | runtime | above the bound % | evaluations | seconds |\n|---|---|---|---|---|---|---|\n"
    );
    for line in found {
        let number = |key: &str| number_at(line, &[key]);
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {:.3} |\n",
            text_at(line, "graph"),
            number("n_ops"),
            text_at(line, "engine"),
            number("value"),
            percent(number("value") / number("bound") - 1.0),
            number("evaluations"),
            number("seconds"),
        ));
    }
    text.push('\n');
    text
}

fn schedule_samples(line: &Json) -> [Sample; 2] {
    let sample = |name: &str, unit: &str| Sample {
        series: format!(
            "schedules {} {}",
            text_at(line, "graph"),
            text_at(line, "engine")
        ),
        run_idx: 0,
        metric: Metric::new(name, number_at(line, &[name]), unit),
    };
    [sample("value", "ns"), sample("seconds", "s")]
}

fn samples(line: &Json) -> Vec<Sample> {
    let series = format!(
        "sizes {} ops: shardgraph, {}",
        number_at(line, &["n_ops"]),
        text_at(line, "series")
    );
    let seconds = line
        .get("seconds")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let sample = |(run_idx, seconds): (u32, &Json)| Sample {
        // A comma would end the column of raw.csv.
        series: series.replace(',', ";"),
        run_idx,
        metric: Metric::new("seconds", seconds.as_number().unwrap_or(f64::NAN), "s"),
    };
    (0..).zip(seconds).map(sample).collect()
}

/// Seconds of as many evaluations by the engines of PyPI, at these lengths of chromosomes.
fn engines(
    paper: &Paper,
    keys: &[String],
    evaluations: f64,
    skips: &mut Vec<String>,
) -> Result<Vec<Sample>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let python = match python::environment("brkga", &strings(paper.table("peers")?, "packages")?)? {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: peers: {why}");
            skips.push(format!("SKIPPED: peers: {why}"));
            return Ok(Vec::new());
        }
    };
    let mut run = process::command(python);
    run.arg(project::root().join(SCRIPT)).args(keys);
    let (mut samples, mut wrong) = (Vec::new(), None);
    let succeeded = process::each_line(&mut run, |line| {
        println!("peers: {line}");
        if let Some(metric) = line.strip_prefix("METRIC:") {
            match parse_metric(metric) {
                Ok(metric) => samples.push(engine_sample(&metric, evaluations, &samples)),
                Err(error) => wrong = Some(error),
            }
        }
    })?;
    if let Some(error) = wrong {
        return Err(error);
    }
    if !succeeded {
        skips.push(format!("SKIPPED: peers: {SCRIPT} failed"));
    }
    Ok(samples)
}

/// A line gives microseconds for one evaluation.
fn engine_sample(metric: &Metric, evaluations: f64, before: &[Sample]) -> Sample {
    let series = metric.name.trim_end_matches("/evaluation").to_owned();
    let series = format!("sizes {series}: engine alone");
    let n_before = before
        .iter()
        .filter(|sample| sample.series == series)
        .count();
    Sample {
        run_idx: n_before as u32,
        series,
        metric: Metric::new("seconds", metric.value * 1e-6 * evaluations, "s"),
    }
}

fn section(samples: &[Sample]) -> String {
    let mut text = String::from(
        "## By size\n\nWatts-Strogatz graphs of A.1.4, two devices, 5000 evaluations. Ours are whole searches, by the clock on the wall; \
         the engines of PyPI decode nothing (processor time, the same lengths of chromosomes, all in this run), so a decoder's time comes on top.\n\n\
         | series | seconds, best | median | runs |\n|---|---|---|---|\n",
    );
    for ((series, _), (_, summary)) in summaries(samples) {
        let n_runs = samples
            .iter()
            .filter(|sample| sample.series == series)
            .count();
        text.push_str(&format!(
            "| {series} | {} | {} | {n_runs} |\n",
            shown(summary.min),
            shown(summary.median)
        ));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn lines_of_both_kinds_become_seconds() {
        let line = json::parse(
            r#"{"n_ops": 52, "n_keys": 318, "series": "a, b", "seconds": [0.5, 0.25]}"#,
        )
        .unwrap();
        let mut all = samples(&line);
        assert_eq!(all[1].series, "sizes 52 ops: shardgraph; a; b");
        for _ in 0..2 {
            let metric = parse_metric("pymoo keys=318/evaluation:100.000:us").unwrap();
            all.push(engine_sample(&metric, 5000.0, &all));
        }
        assert_eq!(all[3].run_idx, 1);
        assert!((all[3].metric.value - 0.5).abs() < 1e-9);
        let text = section(&all);
        assert!(
            text.contains("| sizes pymoo keys=318: engine alone | 0.5000 | 0.5000 | 2 |"),
            "{text}"
        );
        assert!(text.contains("| 0.2500 | 0.3750 | 2 |"), "{text}");
    }
}
