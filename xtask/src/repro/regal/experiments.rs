//! `cargo xtask repro regal-fig2` to `regal-direct`: figures and tables of the paper about learning, each by rows of `benches/repro/regal-experiments.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use super::super::Options;
use super::super::solver::{Row, files};
use super::{Paper, TEST_EVALUATIONS, TEST_GRAPHS, number_at, text_at, to_json};
use crate::answer::Metric;
use crate::bench::fresh_scratch;
use crate::definition::{string, strings};
use crate::json::Json;
use crate::project;
use crate::record::{Record, Sample};
use crate::statistics::shown;
use crate::toml::{self, Table, Value};

const DEFINITION: &str = "benches/repro/regal-experiments.toml";
/// Steps of training in a `--test` run.
const TEST_STEPS: f64 = 3.0;

/// The keys of a row that the program takes as they are.
const COPIED: [&str; 17] = [
    "kind",
    "nodes",
    "n_train",
    "n_test",
    "steps",
    "measure",
    "objective",
    "decoder",
    "evaluations",
    "reference_evaluations",
    "memory_bytes",
    "bandwidth_gbs",
    "policy",
    "max_ops",
    "n_each",
    "bar",
    "train",
];

type Request = BTreeMap<String, Json>;

/// Redoes the figure or table of the options' name.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let name = options.name;
    refuse(options)?;
    let definition = toml::read(&project::root().join(DEFINITION))?;
    let figure = definition.get(name).and_then(Value::as_table);
    let figure = figure.with_context(|| format!("{DEFINITION} lacks `{name}`"))?;
    let paper = Paper::build()?;
    let mut record = Record::new(options.host.as_deref(), options.shown(name))?;
    let mut work = Work {
        paper: &paper,
        options,
        scratch: fresh_scratch(name)?,
        rows: Vec::new(),
        details: Vec::new(),
        skips: Vec::new(),
    };
    for row in rows_of(figure)? {
        work.row(row)
            .with_context(|| string(row, "series").unwrap_or_default())?;
    }
    let Work {
        rows,
        details,
        skips,
        ..
    } = work;
    record.report = report(figure, &rows)?;
    for skip in &skips {
        record.report.push_str(&format!("- {skip}\n"));
    }
    record.samples = samples(name, figure, &rows)?;
    record.details = Json::Array(details);
    record.files = files(name, figure, &rows)?;
    println!("{}", record.report);
    println!("{name}: {} skipped", skips.len());
    finish(name, &record, options)
}

/// Flags that change nothing here would stand in the record's command all the same.
fn refuse(options: &Options) -> Result<()> {
    let given = [
        ("--set", options.set.is_some()),
        ("--objective", options.objective.is_some()),
        ("--seconds", options.seconds.is_some()),
        ("--quality", options.quality),
        ("--no-learning", options.no_learning),
        ("--runs", options.runs.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => bail!("{flag} says nothing about {}: leave it out", options.name),
        None => Ok(()),
    }
}

/// Writes the record, of a test its pictures alone.
fn finish(name: &str, record: &Record, options: &Options) -> Result<ExitCode> {
    match options.test {
        true => {
            let folder = fresh_scratch(&format!("{name}-test"))?;
            for (file, content) in &record.files {
                fs::write(folder.join(file), content)?;
            }
        }
        false => println!("{name}: written to {}", record.write()?.display()),
    }
    Ok(ExitCode::SUCCESS)
}

fn rows_of(figure: &Table) -> Result<Vec<&Table>> {
    let rows = figure.get("row").and_then(Value::as_array);
    let rows = rows.context("a figure has an array of tables `row`")?;
    let tables: Option<Vec<&Table>> = rows.iter().map(Value::as_table).collect();
    tables.context("`row` holds tables")
}

/// A figure in the making.
struct Work<'a> {
    paper: &'a Paper,
    options: &'a Options,
    /// For policies that several rows use.
    scratch: PathBuf,
    rows: Vec<Row>,
    details: Vec<Json>,
    skips: Vec<String>,
}

impl Work<'_> {
    /// All points of one row of the definition: its methods, and the values of what it varies.
    fn row(&mut self, row: &Table) -> Result<()> {
        let series = string(row, "series")?;
        let papers = numbers(row, "paper");
        let mut xs = numbers(row, "xs");
        if let Some(why) = row.get("absent").and_then(Value::as_str) {
            self.without(
                &series,
                papers.first().copied(),
                &format!("data absent: {why}"),
            );
            return Ok(());
        }
        if xs.is_empty() {
            xs.push(row.get("x").and_then(Value::as_number).unwrap_or(0.0));
        }
        let methods = match row.contains_key("methods") {
            true => strings(row, "methods")?,
            false => vec!["regal".to_owned()],
        };
        let mut request = self.request(row)?;
        let n_xs = if self.options.test { 2 } else { xs.len() };
        for (x_idx, &x) in xs.iter().enumerate().take(n_xs) {
            vary(&mut request, row, x, self.options.test)?;
            for method in &methods {
                let series = match methods.len() {
                    1 => series.clone(),
                    _ => format!("{series}, {method}"),
                };
                request.insert("series".to_owned(), Json::text(&series));
                request.insert("method".to_owned(), Json::text(method));
                request.insert("x".to_owned(), Json::Number(x));
                let paper = papers.get(x_idx).copied().filter(|_| method == &methods[0]);
                let command = string(row, "command").unwrap_or_else(|_| "experiment".to_owned());
                self.points(&command, &request, paper)?;
                share_policy(&mut request, row);
            }
        }
        Ok(())
    }

    /// A row without a number of ours.
    fn without(&mut self, series: &str, paper: Option<f64>, note: &str) {
        println!("{series}: {note}");
        self.rows.push(Row {
            series: series.to_owned(),
            paper,
            note: note.to_owned(),
            ..Row::default()
        });
    }

    /// What the program is asked, but for what varies.
    fn request(&self, row: &Table) -> Result<Request> {
        let mut request = Request::from([
            ("genetic".to_owned(), self.paper.genetic()?),
            (
                "threads".to_owned(),
                Json::Number(f64::from(self.options.threads.unwrap_or(1))),
            ),
        ]);
        for key in COPIED {
            if let Some(value) = row.get(key) {
                request.insert(key.to_owned(), to_json(value));
            }
        }
        let own = row.get("graphs").and_then(Value::as_number);
        let of_test = self.options.test.then_some(TEST_GRAPHS);
        let wanted = self.options.graphs.or(of_test).map(f64::from);
        if let Ok(set) = string(row, "set") {
            let mut source = self.paper.source(&set, wanted.or(own))?;
            let scratch = self.scratch.display().to_string();
            source.insert("kept".to_owned(), Json::text(&scratch));
            request.insert("source".to_owned(), Json::Object(source));
        }
        if let Some(Json::Object(mut train)) = request.remove("train") {
            self.complete(&mut train, row)?;
            request.insert("train".to_owned(), Json::Object(train));
        }
        if let Ok(name) = string(row, "keep") {
            request.insert("keep".to_owned(), Json::text(&self.kept(&name)));
        }
        if let Ok(name) = string(row, "policy_of") {
            request.insert("policy".to_owned(), Json::text(&self.kept(&name)));
        }
        if self.options.test {
            shrink(&mut request);
        }
        Ok(request)
    }

    fn kept(&self, name: &str) -> String {
        let path = self.scratch.join(format!("{name}.safetensors"));
        path.display().to_string()
    }

    /// The training's sources of graphs, and a test's few steps.
    fn complete(&self, train: &mut Request, row: &Table) -> Result<()> {
        let sets = match row.contains_key("train_sets") {
            true => strings(row, "train_sets")?,
            false => Vec::new(),
        };
        let most = self.options.test.then_some(f64::from(TEST_GRAPHS));
        let own = row.get("train_graphs").and_then(Value::as_number);
        let sources = sets.iter().map(|set| self.paper.source(set, most.or(own)));
        let sources: Result<Vec<_>> = sources.map(|source| source.map(Json::Object)).collect();
        train.insert("sources".to_owned(), Json::Array(sources?));
        if let (true, Some(Json::Object(settings))) = (self.options.test, train.get_mut("settings"))
        {
            settings.insert("steps".to_owned(), Json::Number(TEST_STEPS));
            settings.insert("imitation_steps".to_owned(), Json::Number(0.0));
            settings.insert("reward_evaluations".to_owned(), Json::Number(60.0));
            train.insert(
                "n_synthetic".to_owned(),
                Json::Number(f64::from(TEST_GRAPHS)),
            );
        }
        Ok(())
    }

    /// Asks for one request's points.
    fn points(&mut self, command: &str, request: &Request, paper: Option<f64>) -> Result<()> {
        let title = request.get("series").and_then(Json::as_str);
        let title = title.unwrap_or("-").to_owned();
        let json = Json::Object(request.clone());
        let lines = self
            .paper
            .run(command, &json, |line| progress(&title, line))?;
        self.skips.extend(lines.skips.iter().cloned());
        let points = of_key(&lines.objects, "point");
        let unmeasured = of_key(&lines.objects, "unmeasured");
        if points.is_empty() && unmeasured.is_empty() {
            let why = why_nothing(&lines.skips)?;
            self.without(&title, paper, &format!("not measured: {why}"));
        }
        let is_single = points.len() == 1;
        let paper_of_none = paper.filter(|_| points.is_empty());
        self.rows.extend(points.iter().map(|point| Row {
            series: text_at(point, "series").to_owned(),
            x: number_at(point, &["x"]),
            paper: paper.filter(|_| is_single),
            ours: Some(number_at(point, &["y"])),
            note: text_at(point, "note").to_owned(),
            ..Row::default()
        }));
        for line in unmeasured {
            let note = format!("not measured: {}", text_at(line, "note"));
            self.without(text_at(line, "series"), paper_of_none, &note);
        }
        let said = |line: &Json| line.get("trained").is_some() || line.get("timed").is_some();
        let trained = lines.objects.iter().filter(|line| said(line));
        self.details.extend(trained.cloned());
        let ratios = lines
            .objects
            .iter()
            .filter(|line| line.get("graph").is_some());
        let ratios: Vec<Json> = ratios.cloned().collect();
        self.details.push(Json::object([
            ("request", json),
            ("graphs", Json::Array(ratios)),
        ]));
        Ok(())
    }
}

fn of_key<'l>(lines: &'l [Json], key: &str) -> Vec<&'l Json> {
    lines.iter().filter_map(|line| line.get(key)).collect()
}

/// Why a request has neither a point nor a word about it: what the program skipped.
fn why_nothing(skips: &[String]) -> Result<&str> {
    let skip = skips
        .last()
        .map(|skip| skip.trim_start_matches("SKIPPED:").trim());
    skip.context("the program gave no point, and no reason")
}

/// What a `--test` run takes in place of a row's numbers.
fn shrink(request: &mut Request) {
    let small = [
        ("evaluations", TEST_EVALUATIONS),
        ("reference_evaluations", TEST_EVALUATIONS),
        ("n_train", f64::from(TEST_GRAPHS)),
        ("n_test", f64::from(TEST_GRAPHS)),
        ("steps", TEST_STEPS),
    ];
    for (key, small) in small {
        if let Some(number) = request.get_mut(key) {
            *number = Json::Number(small);
        }
    }
}

/// Sets what the row varies to this value.
fn vary(request: &mut Request, row: &Table, x: f64, is_test: bool) -> Result<()> {
    let Ok(over) = string(row, "over") else {
        return Ok(());
    };
    match over.as_str() {
        "evaluations" if is_test => {}
        "evaluations" => {
            request.insert(over, Json::Number(x));
        }
        "n_rounds" => {
            let rounds = Json::object([("n_rounds", Json::Number(x))]);
            let encoder = Json::object([("graph-network", rounds)]);
            let Some(Json::Object(train)) = request.get_mut("train") else {
                bail!("rounds are varied of a policy that is trained");
            };
            let Some(Json::Object(settings)) = train.get_mut("settings") else {
                bail!("`train` has no settings");
            };
            let policy = settings
                .entry("policy".to_owned())
                .or_insert_with(|| Json::object([]));
            if let Json::Object(policy) = policy {
                policy.insert("encoder".to_owned(), encoder);
            }
        }
        other => bail!("`over = {other:?}`: expected evaluations or n_rounds"),
    }
    Ok(())
}

/// The policy that a row trained serves its other points, unless it is what varies.
fn share_policy(request: &mut Request, row: &Table) {
    let is_new_each_time = string(row, "over").is_ok_and(|over| over == "n_rounds");
    if let (Some(path), false) = (request.get("keep").cloned(), is_new_each_time) {
        request.remove("keep");
        request.remove("train");
        request.insert("policy".to_owned(), path);
    }
}

fn numbers(row: &Table, key: &str) -> Vec<f64> {
    let of = row.get(key).and_then(Value::as_array).unwrap_or_default();
    of.iter().filter_map(Value::as_number).collect()
}

fn progress(title: &str, line: &Json) {
    let number = |key: &str| number_at(line, &[key]);
    if line.get("step").is_some() {
        let reward = number("reward");
        match reward.is_nan() {
            true => println!("{title}: step {}, imitation", number("step")),
            false => println!("{title}: step {}, reward {reward:.4}", number("step")),
        }
    } else if line.get("graph").is_some() {
        let value = if line.get("ratio").is_some() {
            "ratio"
        } else {
            "entropy"
        };
        println!(
            "{title}: {} {value} {:.4}",
            text_at(line, "graph"),
            number(value)
        );
    }
}

fn report(figure: &Table, rows: &[Row]) -> Result<String> {
    let mut text = format!(
        "## {}\n\n{}\n\n| series | {} | paper | ours: {} | note |\n|---|---|---|---|---|\n",
        string(figure, "title")?,
        string(figure, "here")?,
        string(figure, "x")?,
        string(figure, "y")?
    );
    for row in rows {
        let cell = |value: Option<f64>, none: &str| {
            value.map_or(none.to_owned(), |value| format!("{value:.3}"))
        };
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            row.series,
            shown(row.x),
            cell(row.paper, "-"),
            cell(row.ours, "none"),
            row.note
        ));
    }
    text.push('\n');
    Ok(text)
}

fn samples(name: &str, figure: &Table, rows: &[Row]) -> Result<Vec<Sample>> {
    let unit = string(figure, "unit")?;
    let ours = rows.iter().filter_map(|row| Some((row, row.ours?)));
    let sample = |(row, value): (&Row, f64)| Sample {
        series: format!("{name} {} {}", row.series.replace(',', ""), row.x),
        run_idx: 0,
        metric: Metric::new("ours", value, &unit),
    };
    Ok(ours.map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn definition() -> Table {
        toml::read(&project::root().join(DEFINITION)).unwrap()
    }

    #[test]
    fn every_figure_is_a_command_and_has_rows_that_say_what_they_measure() {
        let definition = definition();
        let names = super::super::super::names();
        assert!(definition.len() >= 9);
        for (name, figure) in &definition {
            assert!(names.contains(&name.as_str()), "{name}");
            let figure = figure.as_table().unwrap();
            assert!(report(figure, &[]).unwrap().contains("| paper | ours"));
            let mut kept = Vec::new();
            for row in rows_of(figure).unwrap() {
                if row.contains_key("command") {
                    continue;
                }
                if row.contains_key("absent") {
                    assert!(row.contains_key("paper"), "{name}");
                    continue;
                }
                let sources = ["policy", "policy_of", "train"];
                let n_sources = sources.iter().filter(|key| row.contains_key(**key)).count();
                let needs_none = strings(row, "methods").is_ok_and(|methods| {
                    let learned = ["regal", "seeded-regal", "idrs"];
                    methods.iter().all(|of| !learned.contains(&of.as_str()))
                });
                let n_needed = usize::from(!needs_none);
                assert_eq!(n_sources, n_needed, "{name}: one policy a row");
                kept.extend(string(row, "keep"));
                if let Ok(of) = string(row, "policy_of") {
                    assert!(kept.contains(&of), "{name}: {of}");
                }
                let is_curve = string(row, "measure").unwrap() == "curve";
                assert_eq!(row.contains_key("set"), !is_curve, "{name}");
            }
        }
    }

    #[test]
    fn flags_that_change_nothing_are_refused() {
        let options = Options {
            name: "regal-fig2",
            graphs: Some(3),
            ..Options::default()
        };
        assert!(refuse(&options).is_ok());
        for wrong in [
            Options {
                quality: true,
                ..Options::default()
            },
            Options {
                set: Some("msr".to_owned()),
                ..Options::default()
            },
        ] {
            assert!(refuse(&wrong).is_err());
        }
    }

    #[test]
    fn what_was_not_measured_has_no_number() {
        let figure =
            toml::parse("title = \"T\"\nhere = \"\"\nx = \"x\"\ny = \"y\"\nunit = \"1\"").unwrap();
        let rows = [
            Row {
                series: "a".to_owned(),
                note: "not measured: 0 of 3 graphs".to_owned(),
                paper: Some(0.5),
                ..Row::default()
            },
            Row {
                series: "b".to_owned(),
                ours: Some(0.0),
                ..Row::default()
            },
        ];
        let text = report(&figure, &rows).unwrap();
        assert!(
            text.contains("| 0.500 | none | not measured: 0 of 3 graphs |"),
            "{text}"
        );
        assert!(text.contains("| - | 0.000 |"), "{text}");
        let samples = samples("f", &figure, &rows).unwrap();
        assert_eq!(samples.len(), 1, "only what was measured");
        assert_eq!(
            why_nothing(&["SKIPPED: no file".to_owned()]).unwrap(),
            "no file"
        );
        assert!(why_nothing(&[]).is_err());
    }

    #[test]
    fn what_a_row_varies_is_set_and_nothing_else() {
        let row = |over: &str| Table::from([("over".to_owned(), Value::String(over.to_owned()))]);
        let text =
            r#"{"evaluations": 5, "train": {"settings": {"policy": {"placement_levels": 8}}}}"#;
        let Json::Object(mut request) = json::parse(text).unwrap() else {
            panic!("an object");
        };
        vary(&mut request, &Table::new(), 7.0, false).unwrap();
        assert_eq!(Json::Object(request.clone()), json::parse(text).unwrap());
        vary(&mut request, &row("evaluations"), 7.0, false).unwrap();
        vary(&mut request, &row("n_rounds"), 3.0, false).unwrap();
        let expected = r#"{"evaluations": 7, "train": {"settings": {"policy": {"placement_levels": 8,
            "encoder": {"graph-network": {"n_rounds": 3}}}}}}"#;
        assert_eq!(
            Json::Object(request.clone()),
            json::parse(expected).unwrap()
        );
        assert!(vary(&mut request, &row("seeds"), 3.0, false).is_err());
    }

    #[test]
    fn a_policy_that_was_trained_serves_the_other_points() {
        let Json::Object(mut request) = json::parse(r#"{"train": {}, "keep": "a"}"#).unwrap()
        else {
            panic!("an object");
        };
        share_policy(&mut request, &Table::new());
        assert_eq!(
            Json::Object(request),
            json::parse(r#"{"policy": "a"}"#).unwrap()
        );
    }
}
