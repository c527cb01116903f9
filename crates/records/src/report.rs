//! A record as one HTML file that needs no script, no other file and no network.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use shardgraph_plot::{Axis, Cell, Figure as Drawing, Page, Panel, Point, Series, Table};

use crate::chart::{self, with_unit};
use crate::figure::Figure;
use crate::paths;
use crate::record::{self, Record};
use crate::row::{Measured, Row};
use crate::statistics::shown;

/// A report is no larger than this.
const MAX_BYTES: usize = 1 << 20;

/// A wider spread than this share of the median is a warning.
const NOISY: f64 = 0.05;

/// Most rows and dots of a drawing of samples, and most drawings; the table has all.
const MAX_STRIPS: usize = 48;
const MAX_DOTS: usize = 2000;
const MAX_STRIP_PLOTS: usize = 6;

/// Reads a record by its file, its folder or as `PAPER/FIGURE`.
///
/// # Errors
/// When there is none; the error names the file.
pub fn read(name: &Path) -> Result<Record> {
    if name.is_file() {
        return Record::read(name);
    }
    let folder = match name.join("latest.json").is_file() {
        true => name.to_owned(),
        false => record::results().join(name),
    };
    Record::read(&folder.join("latest.json"))
}

/// Writes a record as one HTML file, with ratios to `previous`.
///
/// # Errors
/// A definition that does not read, a file that cannot be written, and rows that alone are larger than a report may be.
pub fn write(record: &Record, previous: Option<&Record>, out: &Path) -> Result<()> {
    replace(out, &Report::new(record, previous)?.html()?)
}

/// Writes beside the file and renames, so that a failure leaves no half of one.
fn replace(out: &Path, html: &str) -> Result<()> {
    let partial = out.with_extension("html.partial");
    fs::write(&partial, html).with_context(|| partial.display().to_string())?;
    fs::rename(&partial, out).with_context(|| out.display().to_string())
}

/// The definition of a record; empty where it is gone.
fn definition(record: &Record) -> Result<Figure> {
    let name = format!("benches/{}/{}.toml", record.group, record.figure);
    let path = paths::root().join(name);
    match path.is_file() {
        true => Figure::load(&path, &record.group),
        false => Ok(Figure::default()),
    }
}

/// What a report is made of.
struct Report<'r> {
    record: &'r Record,
    definition: Figure,
    /// The record that ratios are taken to.
    previous: Option<&'r Record>,
}

impl<'r> Report<'r> {
    fn new(record: &'r Record, previous: Option<&'r Record>) -> Result<Report<'r>> {
        Ok(Report {
            record,
            definition: definition(record)?,
            previous,
        })
    }

    /// The page; where it would be too large, without the samples in the table, which the data has, or without the data.
    fn html(&self) -> Result<String> {
        let data = serde_json::to_string(self.record)?;
        for (has_samples, has_data) in [(true, true), (false, true), (false, false)] {
            let mut page = self.page(has_samples);
            match has_data {
                true => page.data("record", &data),
                false => page.warning(
                    "The record is too large to be embedded: latest.json and raw.csv.zst beside it have every sample.",
                ),
            }
            let html = page.html();
            if html.len() <= MAX_BYTES {
                return Ok(html);
            }
        }
        bail!("the rows alone take more than {MAX_BYTES} bytes")
    }

    fn page(&self, has_samples: bool) -> Page {
        let (record, definition) = (self.record, &self.definition);
        let mut page = Page::new(&record.title);
        if !definition.why.is_empty() {
            page.paragraph(&definition.why);
        }
        page.code(&record.command);
        self.origin(&mut page);
        let is_point = |row: &Row| row.x.is_some() && row.own().is_some();
        if record.rows.iter().any(is_point) {
            page.figure(&chart::drawn(definition, &record.rows));
        }
        page.heading("Rows");
        page.table(&self.rows(has_samples));
        self.strips(&mut page);
        let paper = "What the paper reports, from its own machines";
        lists(&mut page, paper, &definition.paper);
        self.published(&mut page);
        lists(&mut page, "What differs here", &definition.here);
        lists(&mut page, "Not run", &definition.not_run);
        let skips = format!("Skipped: {}", record.skips.len());
        lists(&mut page, &skips, &record.skips);
        lists(&mut page, "Notes", &record.notes);
        page
    }

    /// When, at which revision and where it was measured, and what makes it doubtful.
    fn origin(&self, page: &mut Page) {
        let Record { host, load, .. } = self.record;
        let gib = host
            .memory_bytes
            .map(|bytes| bytes as f64 / f64::from(1 << 30));
        let memory = gib.map_or("unknown".to_owned(), |gib| format!("{gib:.1} GiB"));
        let load = load.map_or("not recorded".to_owned(), shown);
        let mut items = vec![
            format!("{}, revision {}", self.record.date, self.record.revision),
            format!("{}, {}: {}", host.label, self.record.device, host.cpu),
            format!(
                "{} cores, memory {memory}, load before {load}",
                host.n_cores
            ),
            format!("{}, {}", host.system, host.rustc),
        ];
        if let Some(previous) = self.previous {
            let (date, revision) = (&previous.date, &previous.revision);
            items.push(format!("previous: {date}, revision {revision}"));
        }
        page.list(items);
        if self.record.is_dirty {
            page.warning("Dirty: measured with changes that were not committed.");
        }
        if self.record.is_loaded() {
            page.warning("Loaded: measured beside other work on the machine.");
        }
        let values = self.record.rows.iter().flat_map(|row| &row.values);
        let n_noisy = values.filter(|value| is_noisy(value)).count();
        if n_noisy > 0 {
            page.warning(&format!(
                "Noise: {n_noisy} times are spread by more than {} % of their median.",
                NOISY * 100.0
            ));
        }
    }

    /// A line for each value of each row.
    fn rows(&self, has_samples: bool) -> Table {
        let rows = &self.record.rows;
        let columns = Columns {
            aim: self
                .definition
                .series
                .iter()
                .any(|series| !series.at_most.is_empty()),
            paper: rows.iter().any(|row| row.paper.is_some()),
            peer: rows.iter().any(|row| row.peer.is_some()),
            previous: self.previous.is_some(),
            spread: rows
                .iter()
                .any(|row| row.values.iter().any(|value| value.samples.len() > 1)),
            samples: has_samples,
        };
        let mut table = Table::new(columns.heads());
        for row in rows {
            for value in &row.values {
                table.row(columns.cells(&self.ratios(row, value), row, value));
            }
            if row.values.is_empty() {
                let cells = [
                    Cell::text(row.name()),
                    Cell::mark("not run"),
                    Cell::soft(&row.note),
                ];
                table.row(cells);
            }
        }
        table
    }

    /// Quotients of a value and what it stands beside.
    fn ratios(&self, row: &Row, value: &Measured) -> Ratios {
        let ours = value.median();
        // The paper's number and the peer's stand beside the first value of a row.
        let first = row.values.first().filter(|first| first.name == value.name);
        let beside = |number: Option<f64>| number.filter(|_| first.is_some());
        let mut series = self.definition.series.iter();
        let series = series.find(|series| series.name == row.series);
        let aim = series.and_then(|series| series.at_most.get(&value.name)?.as_float());
        let old = self
            .previous
            .and_then(|previous| previous.at(row)?.value(&value.name));
        let over = |above: Option<f64>, below: Option<f64>| {
            above
                .zip(below.filter(|below| *below != 0.0))
                .map(|(above, below)| above / below)
        };
        Ratios {
            aim: over(ours, aim),
            paper: over(ours, beside(row.paper)),
            peer: over(beside(row.peer), ours),
            previous: over(ours, old.and_then(Measured::median)),
        }
    }

    /// Every sample as a dot, a row a line, a drawing a metric.
    fn strips(&self, page: &mut Page) {
        let mut left_out = Vec::new();
        let mut n_drawn = 0;
        for (metric, unit) in self.record.metrics() {
            let measured =
                |row: &'r Row| Some((row, row.value(metric).filter(|_| row.peer.is_none())?));
            let rows: Vec<(&Row, &Measured)> =
                self.record.rows.iter().filter_map(measured).collect();
            if !rows.iter().any(|(_, value)| value.samples.len() > 1) {
                continue;
            }
            let n_dots: usize = rows.iter().map(|(_, value)| value.samples.len()).sum();
            if n_drawn == MAX_STRIP_PLOTS || rows.len() > MAX_STRIPS || n_dots > MAX_DOTS {
                left_out.push(format!("{metric}: {n_dots} samples of {} rows", rows.len()));
                continue;
            }
            if n_drawn == 0 {
                page.heading("Every sample");
            }
            n_drawn += 1;
            page.figure(&strip_plot(metric, unit, &rows));
        }
        lists(page, "Samples that are not drawn", &left_out);
    }

    /// Numbers from other machines, apart from those measured here.
    fn published(&self, page: &mut Page) {
        let mut table = Table::new(["who", "metric", "value", "source"]);
        for row in &self.definition.published {
            table.row([
                Cell::text(&row.who),
                Cell::text(&row.metric),
                Cell::number(shown(row.value)),
                Cell::soft(&row.source),
            ]);
        }
        if !table.is_empty() {
            page.heading("Others' numbers, from other machines");
            page.table(&table);
        }
    }
}

fn lists(page: &mut Page, head: &str, items: &[String]) {
    if !items.is_empty() {
        page.heading(head);
        page.list(items);
    }
}

/// Counts that vary by seed are no noise; times are.
fn is_noisy(value: &Measured) -> bool {
    let is_time = ["s", "ms", "ns", "1/s"].contains(&value.unit.as_str());
    is_time
        && value
            .summary()
            .is_some_and(|summary| summary.spread() > NOISY)
}

fn strip_plot(metric: &str, unit: &str, rows: &[(&Row, &Measured)]) -> Drawing {
    let samples = || rows.iter().flat_map(|(_, value)| &value.samples);
    let least = samples().copied().fold(f64::INFINITY, f64::min);
    let most = samples().copied().fold(f64::NEG_INFINITY, f64::max);
    let label = with_unit(metric, unit);
    // Rows that differ by more than twenty times would hide each other's spread.
    let axis = match least > 0.0 && most > 20.0 * least {
        true => Axis::log(label),
        false => Axis::linear(label).from_zero(),
    };
    let points = rows.iter().zip(0_u32..).flat_map(|((_, value), at)| {
        let point = move |x: &f64| Point::from((*x, f64::from(at))).with_text(shown(*x));
        value.samples.iter().map(point)
    });
    let names = rows.iter().map(|(row, _)| row.name());
    let height = 30.0 + 18.0 * rows.len() as f64;
    let panel = Panel::new(axis, Axis::named("", names)).sized(520.0, height);
    let panel = panel.with(Series::points("", points).faint().coloured(0));
    Drawing::new(metric, format!("Every sample of {metric}, a line a row.")).panel(panel)
}

/// Which optional columns the table of rows has.
struct Columns {
    aim: bool,
    paper: bool,
    peer: bool,
    previous: bool,
    spread: bool,
    samples: bool,
}

struct Ratios {
    aim: Option<f64>,
    paper: Option<f64>,
    peer: Option<f64>,
    previous: Option<f64>,
}

impl Columns {
    fn heads(&self) -> Vec<&'static str> {
        let mut heads = vec!["row", "value", "median"];
        let optional = [
            (self.spread, "least to most"),
            (self.spread, "spread"),
            (self.aim, "of the aim"),
            (self.paper, "paper"),
            (self.paper, "of the paper's"),
            (self.peer, "peer"),
            (self.peer, "peer over ours"),
            (self.previous, "of the previous"),
        ];
        let there = optional.iter().filter(|(is_there, _)| *is_there);
        heads.extend(there.map(|(_, head)| *head));
        heads.push(if self.samples { "samples" } else { "note" });
        if self.samples {
            heads.push("note");
        }
        heads
    }

    fn cells(&self, ratios: &Ratios, row: &Row, value: &Measured) -> Vec<Cell> {
        let name = with_unit(&value.name, &value.unit);
        let summary = value.summary();
        let mut cells = vec![Cell::text(row.name()), Cell::text(name)];
        cells.push(Cell::number(
            summary.map_or(String::new(), |all| shown(all.median)),
        ));
        if self.spread {
            cells.extend(spread(value));
        }
        let beside = |number: Option<f64>, ratio: Option<f64>| number.filter(|_| ratio.is_some());
        for (is_there, number) in [
            (self.aim, ratios.aim),
            (self.paper, beside(row.paper, ratios.paper)),
            (self.paper, ratios.paper),
            (self.peer, beside(row.peer, ratios.peer)),
            (self.peer, ratios.peer),
            (self.previous, ratios.previous),
        ] {
            if is_there {
                cells.push(Cell::number(number.map_or(String::new(), shown)));
            }
        }
        if self.samples {
            let all: Vec<String> = value
                .samples
                .iter()
                .map(|sample| sample.to_string())
                .collect();
            cells.push(Cell::number(all.len().to_string()).unfolding(all.join(" ")));
        }
        cells.push(Cell::soft(&row.note));
        cells
    }
}

/// Lowest and highest sample, and their distance over the median.
fn spread(value: &Measured) -> [Cell; 2] {
    let several = value.summary().filter(|_| value.samples.len() > 1);
    let Some(all) = several else {
        return [Cell::number(""), Cell::number("")];
    };
    let spread = format!("{:.1} %", 100.0 * all.spread());
    let range = format!("{} to {}", shown(all.min), shown(all.max));
    let spread = match is_noisy(value) {
        true => Cell::mark(spread),
        false => Cell::number(spread),
    };
    [Cell::number(range), spread]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(note: &str, samples: &[f64]) -> Record {
        let value = serde_json::json!({
            "schema_version": 2, "group": "no", "figure": "such", "title": "<b>Title</b>", "command": "cargo xtask repro a b", "date": "2026-01-01",
            "revision": "0123456789abcdef", "is_dirty": true, "load": null, "device": "host",
            "host": { "label": "h", "cpu": "c", "n_cores": 2, "memory_bytes": null, "system": "s", "rustc": "r" },
            "rows": [{ "series": "ours </script>", "labels": [["k", "v"]], "x": 2.0, "paper": 8.0, "peer": 1.0, "note": note,
                "values": [{ "name": "seconds", "unit": "s", "samples": samples }] },
                { "series": "ours", "labels": [], "x": 2.0, "paper": 8.0, "peer": null, "note": note,
                "values": [{ "name": "seconds", "unit": "s", "samples": samples }] },
                { "series": "peer", "labels": [], "x": null, "paper": null, "peer": null, "note": note, "values": [] }],
            "skips": ["no <data>"], "notes": []
        });
        serde_json::from_value(value).unwrap()
    }

    fn html(record: &Record, previous: Option<&Record>) -> String {
        Report::new(record, previous).unwrap().html().unwrap()
    }

    #[test]
    fn a_page_has_every_sample_its_ratios_and_no_markup_of_the_record() {
        let (now, old) = (record("note", &[0.25, 4.0, 0.5]), record("", &[1.0]));
        let page = html(&now, Some(&old));
        for part in [
            "&lt;b&gt;Title",
            "ours &lt;/script&gt; · v · at 2",
            "Dirty:",
            "Noise: 2 times",
            "0.25 4 0.5",
            ">0.06250<",
            ">2<",
            ">0.5000<",
            "not run",
            "<h2>Skipped: 1</h2>\n<ul><li>no &lt;data&gt;",
            "Every sample of seconds",
            "paper: ours",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("</script>").count(), 1, "the end of the data");
        assert!(!page.contains("<b>"));
        assert_eq!(page, html(&now, Some(&old)));
    }

    #[test]
    fn a_large_record_leaves_samples_to_its_data_and_then_data_to_its_files() {
        let many = record("", &vec![0.123_456_789; 60_000]);
        let page = html(&many, None);
        assert!(page.len() <= MAX_BYTES && page.contains("too large to be embedded"));
        let some = record("", &vec![0.123_456_789; 30_000]);
        let page = html(&some, None);
        assert!(page.contains("id=\"record\"") && !page.contains("<details>"));
        let noted = record(&"x".repeat(MAX_BYTES), &[1.0]);
        assert!(Report::new(&noted, None).unwrap().html().is_err());
    }

    #[test]
    fn every_record_of_the_project_has_a_report() {
        let mut n_reports = 0;
        for figure in Figure::load_all().unwrap() {
            if let Some(record) = Record::of(&figure).unwrap() {
                assert!(html(&record, None).len() <= MAX_BYTES, "{}", record.title);
                n_reports += 1;
            }
        }
        assert!(n_reports > 50, "{n_reports}");
    }
}
