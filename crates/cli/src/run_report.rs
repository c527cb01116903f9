//! `shardgraph report`: the curves of a run, or the table and the curves of a sweep, as one HTML file that needs no script, no other file and no network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use shardgraph_plot::{Axis, Cell, Figure, Page, Panel, Point, Series, Table};

use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;
use crate::sweep_folder::{Row, Sweep, read_sweep};
use crate::text::{Layout, human_number};

/// A curve has no more points than this; each is then the mean of several steps.
const MAX_POINTS: usize = 400;

/// Keys that are no curves: the axis, and a clock that differs in every run.
const NO_CURVES: [&str; 2] = ["step", "wall_time"];

/// A report is no larger than this.
const MAX_BYTES: usize = 1 << 20;

const EXAMPLE: &str = "\
Example:
  shardgraph report my-policy --out my-policy.html";

/// Draw the metrics of a run, or a sweep of runs, as one HTML file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct RunReportArgs {
    /// The folder of a run or of a sweep: what --run named
    run: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    run: &'a Path,
    lines: usize,
    curves: Vec<&'a str>,
    out: &'a Path,
}

/// One metric by step.
type Curve = Vec<(f64, f64)>;

/// Reads the metrics, draws them and prints the answer.
pub(crate) fn run(args: &RunReportArgs) -> anyhow::Result<()> {
    if let Some((sweep, rows)) = read_sweep(&args.run)? {
        return report_sweep(args, &sweep, &rows);
    }
    let metrics = args.run.join("metrics.jsonl");
    output_file::check(&args.out, [metrics.as_path()])?;
    args.report.leave_output_to(Some(&args.out));
    let text = fs::read_to_string(&metrics).map_err(|error| {
        BadInput(format!(
            "{}: {error}: expected the folder of a run, which has metrics, or of a sweep",
            metrics.display()
        ))
    })?;
    let curves = curves(&text).map_err(|why| BadInput(format!("{}:{why}", metrics.display())))?;
    let settings = fs::read_to_string(args.run.join("policy.json")).ok();
    let name = args.run.file_name().unwrap_or(args.run.as_os_str());
    let html = page(&name.to_string_lossy(), &curves, settings.as_deref());
    output_file::write(&args.out, |out| out.write_all(html.as_bytes()))
        .with_context(|| format!("{}: cannot write", args.out.display()))?;
    args.report.answer(
        &Answer {
            run: &args.run,
            lines: text.lines().count(),
            curves: curves.keys().map(String::as_str).collect(),
            out: &args.out,
        },
        &Layout::first("run"),
    )
}

/// What is printed of a sweep.
#[derive(Serialize)]
struct SweepAnswer<'a> {
    run: &'a Path,
    combinations: usize,
    runs: usize,
    out: &'a Path,
}

/// Draws a sweep's table and curves.
fn report_sweep(args: &RunReportArgs, sweep: &Sweep, rows: &[Row]) -> anyhow::Result<()> {
    output_file::check(&args.out, [])?;
    args.report.leave_output_to(Some(&args.out));
    let html = sweep.page(rows)?;
    output_file::write(&args.out, |out| out.write_all(html.as_bytes()))
        .with_context(|| format!("{}: cannot write", args.out.display()))?;
    args.report.answer(
        &SweepAnswer {
            run: &args.run,
            combinations: rows.len(),
            runs: rows.iter().map(|row| row.runs.len()).sum(),
            out: &args.out,
        },
        &Layout::first("run"),
    )
}

/// The numbers of all lines by key; the error is the line and the reason.
fn curves(text: &str) -> Result<BTreeMap<String, Curve>, String> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("{}: {error}", index + 1))?;
        let step = value["step"].as_f64();
        let step = step.ok_or_else(|| format!("{}: expected a number as `step`", index + 1))?;
        for (key, value) in value.as_object().into_iter().flatten() {
            let is_curve = !NO_CURVES.contains(&key.as_str());
            if let Some(value) = value.as_f64().filter(|_| is_curve) {
                curves.entry(key.clone()).or_default().push((step, value));
            }
        }
    }
    Ok(curves)
}

/// Means of neighbouring points, at most [`MAX_POINTS`].
fn thinned(curve: &[(f64, f64)]) -> Curve {
    let run = curve.len().div_ceil(MAX_POINTS).max(1);
    let mean = |points: &[(f64, f64)]| {
        let n = points.len() as f64;
        let (x, y) = points
            .iter()
            .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (x / n, y / n)
    };
    curve.chunks(run).map(mean).collect()
}

/// The page, with every step as data; where that would be too large, with the points that are drawn.
fn page(name: &str, curves: &BTreeMap<String, Curve>, settings: Option<&str>) -> String {
    let drawn: BTreeMap<String, Curve> = curves
        .iter()
        .map(|(key, curve)| (key.clone(), thinned(curve)))
        .collect();
    let mut page = Page::new(name);
    page.table(&summary(curves));
    let n_steps = curves.values().map(Vec::len).max().unwrap_or(0);
    if n_steps > MAX_POINTS {
        let run = n_steps.div_ceil(MAX_POINTS);
        page.paragraph(&format!("A point of a curve is the mean of {run} steps."));
    }
    for (key, curve) in &drawn {
        page.figure(&figure(name, key, curve));
    }
    if let Some(settings) = settings {
        page.heading("Settings");
        page.code(settings);
    }
    let data = |curves| serde_json::json!({ "run": name, "curves": curves }).to_string();
    let every_step = data(curves);
    if page.n_bytes() + every_step.len() < MAX_BYTES * 9 / 10 {
        page.data("run", &every_step);
    } else {
        page.warning(
            "Embedded are the points that are drawn; metrics.jsonl of the run has every step.",
        );
        page.data("run", &data(&drawn));
    }
    page.html()
}

/// First, last, least and most of each metric.
fn summary(curves: &BTreeMap<String, Curve>) -> Table {
    let mut table = Table::new(["metric", "points", "first", "last", "least", "most"]);
    for (key, curve) in curves {
        let values = || curve.iter().map(|point| point.1);
        let (first, last) = (values().next(), values().next_back());
        let (least, most) = (values().reduce(f64::min), values().reduce(f64::max));
        let numbers = [first, last, least, most].into_iter().flatten();
        let numbers = numbers.map(|value| Cell::number(human_number(value)));
        let head = [Cell::text(key), Cell::number(curve.len().to_string())];
        table.row(head.into_iter().chain(numbers));
    }
    table
}

fn figure(name: &str, key: &str, curve: &Curve) -> Figure {
    let panel = Panel::new(Axis::linear("step").from_zero(), Axis::linear(key)).sized(620.0, 220.0);
    let panel = panel.with(Series::curve("", curve.iter().copied().map(Point::from)));
    Figure::new(key, format!("{key} by step of the run {name}")).panel(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_the_numbers_of_each_key() {
        let text = "{\"step\":1,\"loss\":null,\"a/b\":2}\n{\"step\":2,\"loss\":0.5,\"wall_time\":9,\"name\":\"x\"}\n";
        let found = curves(text).unwrap();
        let keys: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a/b", "loss"]);
        assert_eq!(found["loss"], [(2.0, 0.5)]);
        assert!(
            curves("{\"step\":1}\n{\"ste")
                .unwrap_err()
                .starts_with("2: ")
        );
        assert!(curves("{\"loss\":1}").unwrap_err().contains("`step`"));
    }

    #[test]
    fn long_curves_become_means() {
        let curve: Curve = (0..1000)
            .map(|i| (f64::from(i), f64::from(i % 2)))
            .collect();
        let thin = thinned(&curve);
        assert!(thin.len() <= MAX_POINTS && thin.len() > MAX_POINTS / 2);
        assert_eq!(thin[0], (1.0, 1.0 / 3.0));
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn a_page_is_the_same_every_time_small_and_without_requests() {
        let text: String = (0..100_000)
            .map(|i| format!("{{\"step\":{i},\"loss\":{i}.5,\"</script>\":1}}\n"))
            .collect();
        let curves = curves(&text).unwrap();
        let html = page("<run>", &curves, Some("{ \"a\": \"<b>\" }"));
        assert_eq!(html, page("<run>", &curves, Some("{ \"a\": \"<b>\" }")));
        assert!(html.len() < 1 << 20 && html.contains("&lt;run&gt;") && html.contains("&lt;b&gt;"));
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(!html.contains("src=") && !html.contains("<link"));
        assert!(html.contains("mean of 250 steps") && html.contains("metrics.jsonl of the run"));
    }

    #[test]
    fn a_short_run_is_embedded_whole() {
        let text: String = (0..1000)
            .map(|i| format!("{{\"step\":{i},\"loss\":{i}}}\n"))
            .collect();
        let html = page("run", &curves(&text).unwrap(), None);
        assert!(
            html.contains("[998.0,998.0],[999.0,999.0]"),
            "the last two steps"
        );
    }
}
