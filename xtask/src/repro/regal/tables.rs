//! `cargo xtask repro table1`, `table3` and `regal-learned`: all methods on every set, the paper's numbers below ours where it has some.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::super::Options;
use super::{
    Lines, Paper, evaluations, max_graphs, number_at, object, paper_section, peers, percent,
    seconds, text_at, to_json,
};
use crate::answer::Metric;
use crate::definition::{number, string};
use crate::json::Json;
use crate::record::{Record, Sample};
use crate::statistics::shown;
use crate::toml::{Table, Value};

/// The sets that nobody outside has.
const XLA: &str = "XLA test sets: data absent (graphs of a production compiler team, nowhere to be had). Reported by the paper for REGAL: 0.58 % over BRKGA 5K in \
    the runtime of 94 graphs, 3.74 % in the peak memory of 32.\n\n";

/// Runs `table1`.
pub(crate) fn table1(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let report = run_all(&paper, "table1", options)?;
    report.finish(options)
}

/// Runs `regal-learned`: what the shipped policies add where the paper did not look.
pub(crate) fn learned(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let report = run_all(&paper, "regal-learned", options)?;
    report.finish(options)
}

/// Runs `table3`.
pub(crate) fn table3(options: &Options) -> Result<ExitCode> {
    let paper = Paper::build()?;
    let mut report = run_all(&paper, "table3", options)?;
    peers::add(&paper, options, &mut report.record, &mut report.skips)?;
    report.finish(options)
}

/// A record in the making.
struct Report {
    name: &'static str,
    record: Record,
    skips: Vec<String>,
}

impl Report {
    fn finish(mut self, options: &Options) -> Result<ExitCode> {
        for skip in &self.skips {
            self.record.report.push_str(&format!("- {skip}\n"));
        }
        println!("{}", self.record.report);
        println!("{}: {} skipped", self.name, self.skips.len());
        if !options.test {
            println!(
                "{}: written to {}",
                self.name,
                self.record.write()?.display()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn run_all(paper: &Paper, name: &'static str, options: &Options) -> Result<Report> {
    let mut report = Report {
        name,
        record: Record::new(options.host.as_deref(), options.shown(name))?,
        skips: Vec::new(),
    };
    report.record.report = format!(
        "{}\n\n{}\n",
        string(&paper.definition, "why")?,
        settings(paper)?
    );
    let mut details = Vec::new();
    for row in paper.rows(name)? {
        let Some(title) = title(row, options)? else {
            continue;
        };
        let request = request(paper, row, options)?;
        let lines = paper.run("compare", &request, |line| progress(&title, line))?;
        report.skips.extend(lines.skips.iter().cloned());
        let Some(section) = section(&title, &lines, !options.quality) else {
            continue;
        };
        report.record.report.push_str(&section);
        if let Some(table) = row.get("paper").and_then(Value::as_str) {
            report.record.report.push_str(&paper_section(paper, table)?);
        }
        let series = format!("{name} {title}").replace(',', "");
        let mut samples = samples(&series, &lines);
        samples.retain(|sample| !options.quality || sample.metric.name != "seconds");
        report.record.samples.extend(samples);
        details.push(detail(request, &lines));
    }
    let has_paper = |row: &&Table| row.contains_key("paper");
    if paper.rows(name)?.iter().any(has_paper) {
        report.record.report.push_str(XLA);
        println!("{}", XLA.trim_end());
    }
    report.record.details = Json::Array(details);
    Ok(report)
}

/// What a row is called; none of one that was not asked for.
fn title(row: &Table, options: &Options) -> Result<Option<String>> {
    let (set, objective) = (string(row, "set")?, string(row, "objective")?);
    let is_other =
        |wanted: &Option<String>, own: &str| wanted.as_ref().is_some_and(|name| name != own);
    if is_other(&options.set, &set) || is_other(&options.objective, &objective) {
        return Ok(None);
    }
    Ok(Some(match row.get("title").and_then(Value::as_str) {
        Some(title) => format!("{set}, {objective}, {title}"),
        None => format!("{set}, {objective}"),
    }))
}

/// The genetic algorithm's numbers, plain and tuned.
fn settings(paper: &Paper) -> Result<String> {
    let shown = |table: &Table| {
        let pairs = table.iter();
        let pairs = pairs.map(|(key, value)| format!("{key} {}", to_json(value)));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("- brkga: {}\n", shown(paper.table("genetic")?));
    for (name, value) in paper.table("tuned")? {
        let table = value.as_table().context("`tuned` holds tables")?;
        text.push_str(&format!("- tuned-brkga, {name}: {}\n", shown(table)));
    }
    Ok(text)
}

fn request(paper: &Paper, row: &Table, options: &Options) -> Result<Json> {
    let tuned = paper.table("tuned")?.get(&string(row, "tuned")?);
    let tuned = tuned.and_then(Value::as_table).context("no such [tuned]")?;
    let of_row = match row.get("evaluations").and_then(Value::as_number) {
        Some(number) if !options.test => number,
        _ => evaluations(paper, options)?,
    };
    let settings = Json::object([
        ("evaluations", Json::Number(of_row)),
        (
            "threads",
            Json::Number(f64::from(options.threads.unwrap_or(1))),
        ),
        ("genetic", paper.genetic()?),
        ("tuned", object(tuned)),
    ]);
    let source = paper.source(&string(row, "set")?, max_graphs(options))?;
    let mut request = std::collections::BTreeMap::from([
        ("source".to_owned(), Json::Object(source)),
        ("options".to_owned(), settings),
        (
            "seconds".to_owned(),
            Json::Number(seconds(options, number(row, "seconds")?)),
        ),
    ]);
    let keys = [
        "objective",
        "candidates",
        "memory_bytes",
        "best_of",
        "bandwidth_gbs",
    ];
    let learned = ["policy", "policy_decoder"];
    let learned = learned.iter().filter(|_| !options.no_learning);
    for &key in keys.iter().chain(learned) {
        if let Some(value) = row.get(key) {
            request.insert(key.to_owned(), to_json(value));
        }
    }
    Ok(Json::Object(request))
}

fn progress(title: &str, line: &Json) {
    if let Some(comparison) = line.get("comparison") {
        println!(
            "{title}: {} ({} ops), {:.0} s",
            text_at(comparison, "graph"),
            number_at(line, &["n_ops"]),
            number_at(line, &["elapsed"])
        );
    }
}

/// The table of one set, with times or without; `None` where it was skipped.
fn section(title: &str, lines: &Lines, has_seconds: bool) -> Option<String> {
    let summary = lines.objects.iter().find_map(|line| line.get("summary"))?;
    let count = |key: &str| number_at(summary, &[key]);
    let graphs: Vec<f64> = compared(lines)
        .map(|line| number_at(line, &["n_ops"]))
        .collect();
    let seconds = shown(count("seconds").round());
    let times = match has_seconds {
        true => format!(", {seconds} s. Seconds by the clock on the wall, without the replay"),
        false => String::new(),
    };
    let mut columns = COLUMNS.to_vec();
    columns.extend(has_seconds.then_some("seconds"));
    let mut text = format!(
        "## {title}\n\n{} of {} graphs ({} to {} ops; {} were cut off by the time limit){times}.\n\n| {} |\n|{}\n",
        count("done"),
        count("available"),
        graphs.iter().copied().fold(f64::INFINITY, f64::min),
        graphs.iter().copied().fold(0.0, f64::max),
        count("chosen") - count("done"),
        columns.join(" | "),
        "---|".repeat(columns.len()),
    );
    let methods = summary.get("methods").and_then(Json::as_array)?;
    for method in methods {
        let mut cells = method_cells(method, lines);
        if has_seconds {
            cells.push(format!("{:.4}", number_at(method, &["seconds"])));
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let best_of = count("best_of_improvement");
    if best_of.is_finite() {
        text.push_str(&format!(
            "\nThe best of BRKGA, greedy, XLA's list order and seeded BRKGA: {} % over BRKGA 5K.\n",
            percent(best_of)
        ));
    }
    text.push('\n');
    Some(text)
}

const COLUMNS: [&str; 8] = [
    "method",
    "decoder",
    "% improvement over BRKGA 5K, +- its standard error",
    "% gap from best of the table",
    "% gap to the bound",
    "wins / ties / losses",
    "worst %",
    "does not fit",
];

fn method_cells(method: &Json, lines: &Lines) -> Vec<String> {
    let number = |key: &str| number_at(method, &[key]);
    let fraction = |key: &str| percent(number(key));
    vec![
        text_at(method, "method").to_owned(),
        text_at(method, "decoder").to_owned(),
        format!(
            "{} +- {}",
            fraction("improvement"),
            percent(standard_error(&improvements(method, lines)))
        ),
        fraction("gap_to_best"),
        fraction("gap"),
        format!(
            "{} / {} / {}",
            number("n_wins"),
            number("n_ties"),
            number("n_losses")
        ),
        fraction("worst_improvement"),
        number("n_unfit").to_string(),
    ]
}

/// What a method improves on each graph where it and what it is compared with fit.
fn improvements(method: &Json, lines: &Lines) -> Vec<f64> {
    let is_its = |row: &&Json| {
        ["method", "decoder"].map(|key| text_at(row, key))
            == ["method", "decoder"].map(|key| text_at(method, key))
    };
    let rows = compared(lines).filter_map(|line| line.get("comparison")?.get("rows")?.as_array());
    let own = rows.filter_map(|rows| rows.iter().find(is_its));
    let improvements = own.map(|row| number_at(row, &["improvement"]));
    improvements.filter(|x| x.is_finite()).collect()
}

/// Of a mean of these numbers; NaN for fewer than two.
fn standard_error(of: &[f64]) -> f64 {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let squares: f64 = of.iter().map(|x| (x - mean) * (x - mean)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

fn compared(lines: &Lines) -> impl Iterator<Item = &Json> {
    let lines = lines.objects.iter();
    lines.filter(|line| line.get("comparison").is_some())
}

fn samples(series: &str, lines: &Lines) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (run_idx, line) in (0..).zip(compared(lines)) {
        let Some(comparison) = line.get("comparison") else {
            continue;
        };
        let (key, unit) = match text_at(comparison, "objective") {
            "memory" => ("peak_bytes", "B"),
            _ => ("runtime_ns", "ns"),
        };
        let mut add = |series: String, name: &str, value: f64, unit: &str| {
            samples.push(Sample {
                series,
                run_idx,
                metric: Metric::new(name, value, unit),
            });
        };
        let bound = number_at(comparison, &["lower_bound"]);
        add(format!("{series} bound"), key, bound, unit);
        for row in comparison
            .get("rows")
            .and_then(Json::as_array)
            .unwrap_or_default()
        {
            let name = format!(
                "{series} {}/{}",
                text_at(row, "method"),
                text_at(row, "decoder")
            );
            add(name.clone(), key, number_at(row, &[key]), unit);
            add(name, "seconds", number_at(row, &["seconds"]), "s");
        }
    }
    samples
}

/// The request, and the graphs by the number of their samples.
fn detail(request: Json, lines: &Lines) -> Json {
    let name = |line: &Json| {
        let graph = line.get("comparison").map_or("-", |c| text_at(c, "graph"));
        Json::text(graph)
    };
    Json::object([
        ("request", request),
        ("graphs", Json::Array(compared(lines).map(name).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn lines() -> Lines {
        let objects = [
            r#"{"n_ops": 7, "elapsed": 1, "comparison": {"graph": "g", "objective": "memory", "lower_bound": 5,
                "rows": [{"method": "heft", "decoder": null, "peak_bytes": 9, "seconds": 0.5}]}}"#,
            r#"{"summary": {"done": 1, "chosen": 3, "available": 4, "seconds": 1.2, "best_of_improvement": null, "methods": [{"method":
                "heft", "decoder": null, "improvement": -0.5, "gap_to_best": 0.0, "gap": 0.8, "n_wins": 0, "n_ties": 0, "n_losses": 1,
                "worst_improvement": -0.5, "n_unfit": 0, "seconds": 0.5}]}}"#,
        ];
        Lines {
            objects: objects
                .iter()
                .map(|text| json::parse(text).unwrap())
                .collect(),
            skips: Vec::new(),
        }
    }

    #[test]
    fn a_section_says_what_was_cut() {
        let text = section("x", &lines(), true).unwrap();
        assert!(
            text.contains("1 of 4 graphs (7 to 7 ops; 2 were cut off"),
            "{text}"
        );
        assert!(
            text.contains(
                "| heft | - | -50.00 +- - | 0.00 | 80.00 | 0 / 0 / 1 | -50.00 | 0 | 0.5000 |"
            ),
            "{text}"
        );
        assert!(!text.contains("The best of"));
        let text = section("x", &lines(), false).unwrap();
        assert!(
            text.contains("| -50.00 | 0 |\n") && !text.contains("econds"),
            "{text}"
        );
        assert!(section("x", &Lines::default(), true).is_none());
    }

    #[test]
    fn the_standard_error_is_that_worked_out_by_hand() {
        // Deviations -1, 0, 1: a variance of 1.
        assert!((standard_error(&[1.0, 2.0, 3.0]) - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!(standard_error(&[1.0]).is_nan());
    }

    #[test]
    fn samples_are_numbered_by_graph() {
        let samples = samples("t", &lines());
        let rows: Vec<(&str, &str, f64)> = samples
            .iter()
            .map(|s| (s.series.as_str(), s.metric.name.as_str(), s.metric.value))
            .collect();
        assert_eq!(
            rows,
            [
                ("t bound", "peak_bytes", 5.0),
                ("t heft/-", "peak_bytes", 9.0),
                ("t heft/-", "seconds", 0.5)
            ]
        );
    }
}
