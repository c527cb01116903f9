//! `cargo xtask report`: a record as one HTML file that needs no script, no other file and no network.
//!
//! The same record gives the same bytes. Every text of a record is escaped; its JSON is embedded as data where the file stays
//! below a megabyte.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;
use serde_json::Value;

use crate::project;

/// A report is no larger than this.
const MAX_BYTES: usize = 1 << 20;

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--soft:#57606a;--mark:#9a6700}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#30363d;--soft:#9198a1;--mark:#d29922}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}code,pre{font:13px/1.4 ui-monospace,monospace}pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line);border-radius:6px}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}th{color:var(--soft);font-weight:600}\
.soft{color:var(--soft)}.mark{color:var(--mark);font-weight:600}figure{margin:1rem 0;background:#fff;padding:.5rem;border-radius:6px}figure svg{max-width:100%;height:auto}\
details{font-size:13px}@media print{body{margin:0;max-width:none}details{display:none}tr{break-inside:avoid}}";

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let (mut record, mut against, mut out) = (None, None, None);
    while let Some(arg) = args.next()? {
        match arg {
            Long("against") => against = Some(PathBuf::from(args.value()?)),
            Long("out") => out = Some(PathBuf::from(args.value()?)),
            Value(name) if record.is_none() => record = Some(PathBuf::from(name)),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(record) = record else {
        bail!("expected a record, such as opengraphgym-mg/fig9, its folder or its latest.json")
    };
    let file = file_of(&record);
    let current = read(&file)?;
    let previous = against.map(|path| read(&file_of(&path))).transpose()?;
    let picture = fs::read_to_string(file.with_extension("svg")).ok();
    let html = page(&current, previous.as_ref(), picture.as_deref());
    let out = out.unwrap_or_else(|| PathBuf::from("report.html"));
    fs::write(&out, html).with_context(|| out.display().to_string())?;
    println!("{}", out.display());
    Ok(ExitCode::SUCCESS)
}

/// A file, a folder with a record, or `PAPER/FIGURE`.
fn file_of(name: &Path) -> PathBuf {
    if name.is_file() {
        return name.to_owned();
    }
    let folder = match name.is_dir() && name.join("latest.json").is_file() {
        true => name.to_owned(),
        false => project::root().join("bench-results").join(name),
    };
    folder.join("latest.json")
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// The whole page.
fn page(record: &Value, previous: Option<&Value>, picture: Option<&str>) -> String {
    let mut body = String::new();
    let text = |key: &str| escaped(record[key].as_str().unwrap_or_default());
    let _ = write!(
        body,
        "<h1>{}</h1><pre>{}</pre>",
        text("title"),
        text("command")
    );
    body.push_str(&origin(record));
    if let Some(picture) = picture.filter(|picture| picture.trim_start().starts_with("<svg ")) {
        let _ = write!(body, "<figure>{picture}</figure>");
    }
    body.push_str(&rows(record, previous));
    for (key, head) in [("skips", "Not run"), ("notes", "Notes")] {
        let items = list(&record[key]);
        if !items.is_empty() {
            let _ = write!(body, "<h2>{head}</h2><ul>");
            for item in items {
                let _ = write!(
                    body,
                    "<li>{}</li>",
                    escaped(item.as_str().unwrap_or_default())
                );
            }
            body.push_str("</ul>");
        }
    }
    let head = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
        <title>{}</title><style>{STYLE}</style></head><body>",
        text("title")
    );
    // `</script>` must not end the data early.
    let data = record.to_string().replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"record\">{data}</script>");
    let data = match head.len() + body.len() + data.len() < MAX_BYTES {
        true => data,
        false => "<p class=\"soft\">The record is too large to be embedded; its latest.json has every sample.</p>".to_owned(),
    };
    format!("{head}{body}{data}</body></html>\n")
}

/// Where and when it was measured, and what makes it doubtful.
fn origin(record: &Value) -> String {
    let host = &record["host"];
    let mut line = format!(
        "<p class=\"soft\">{} · revision {} · {} · {}, {} cores · {}",
        escaped(record["date"].as_str().unwrap_or_default()),
        escaped(
            record["revision"]
                .as_str()
                .unwrap_or_default()
                .get(..12)
                .unwrap_or_default()
        ),
        escaped(host["label"].as_str().unwrap_or_default()),
        escaped(host["cpu"].as_str().unwrap_or_default()),
        host["n_cores"],
        escaped(host["rustc"].as_str().unwrap_or_default()),
    );
    if record["is_dirty"] == true {
        line.push_str(" · <span class=\"mark\">dirty: changes were not committed</span>");
    }
    match record["load"].as_f64() {
        Some(load) => {
            let _ = write!(line, " · load before {load:.2}");
        }
        None => line.push_str(" · load not recorded"),
    }
    line + "</p>"
}

/// A line for each value of each row.
fn rows(record: &Value, previous: Option<&Value>) -> String {
    let mut table = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>row</th><th>value</th><th>median</th><th>least to most</th>\
        <th>of the paper's</th><th>peer over ours</th>",
    );
    table.push_str(if previous.is_some() {
        "<th>of the previous</th>"
    } else {
        ""
    });
    table.push_str("<th>samples</th></tr></thead><tbody>");
    for row in list(&record["rows"]) {
        let before = previous.and_then(|record| {
            let mut rows = list(&record["rows"]).iter();
            rows.find(|other| {
                ["series", "labels", "x"]
                    .iter()
                    .all(|key| other[*key] == row[*key])
            })
        });
        let values = list(&row["values"]);
        for value in values {
            table.push_str(&line(
                row,
                value,
                values.len() == 1,
                previous.is_some(),
                before,
            ));
        }
        if values.is_empty() {
            let note = escaped(row["note"].as_str().unwrap_or_default());
            let _ = write!(
                table,
                "<tr><td>{}</td><td colspan=\"7\" class=\"soft\">{note}</td></tr>",
                name(row)
            );
        }
    }
    table + "</tbody></table></div>"
}

fn line(
    row: &Value,
    value: &Value,
    is_only: bool,
    has_previous: bool,
    before: Option<&Value>,
) -> String {
    let samples: Vec<f64> = list(&value["samples"])
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    let median = median(&samples);
    // The paper's number and the peer's stand for the row, which has one value then.
    let of = |other: Option<f64>| is_only.then_some(()).and(other);
    let ratio = |above: Option<f64>, below: Option<f64>| match (above, below) {
        (Some(above), Some(below)) if below != 0.0 => format!("{:.3}", above / below),
        _ => String::new(),
    };
    let old = before.and_then(|row| {
        let same = list(&row["values"])
            .iter()
            .find(|old| old["name"] == value["name"])?;
        let samples: Vec<f64> = list(&same["samples"])
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        self::median(&samples)
    });
    let mut line = format!(
        "<tr><td>{}</td><td>{} <span class=\"soft\">{}</span></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        name(row),
        escaped(value["name"].as_str().unwrap_or_default()),
        escaped(value["unit"].as_str().unwrap_or_default()),
        median.map_or(String::new(), shown),
        range(&samples),
        ratio(median, of(row["paper"].as_f64())),
        ratio(of(row["peer"].as_f64()), median),
    );
    if has_previous {
        let _ = write!(line, "<td class=\"n\">{}</td>", ratio(median, old));
    }
    let all: Vec<String> = samples.iter().map(|sample| shown(*sample)).collect();
    let _ = write!(
        line,
        "<td><details><summary>{}</summary>{}</details></td></tr>",
        all.len(),
        all.join(" ")
    );
    line
}

/// Series, labels, place on the axis and note.
fn name(row: &Value) -> String {
    let mut parts: Vec<String> = vec![escaped(row["series"].as_str().unwrap_or_default())];
    for label in list(&row["labels"]) {
        parts.push(escaped(label[1].as_str().unwrap_or_default()));
    }
    parts.retain(|part| !part.is_empty());
    if let Some(x) = row["x"].as_f64() {
        parts.push(format!("at {}", shown(x)));
    }
    parts.join(" · ")
}

fn range(samples: &[f64]) -> String {
    if samples.len() < 2 {
        return String::new();
    }
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", shown(least), shown(most))
}

fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(f64::midpoint(sorted[(sorted.len() - 1) / 2], upper))
}

/// Whole numbers in full, others with four significant digits.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let mut decimals = 3;
    while decimals < 12 && value.abs() < 10_f64.powi(3 - decimals) {
        decimals += 1;
    }
    let decimals = usize::try_from(decimals).unwrap_or(3);
    format!("{value:.decimals$}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(note: &str, samples: &[f64]) -> Value {
        serde_json::json!({
            "title": "<b>Title</b>", "command": "cargo xtask repro a b", "date": "2026-01-01", "revision": "0123456789abcdef",
            "is_dirty": true, "load": null, "host": { "label": "h", "cpu": "c", "n_cores": 2, "rustc": "r" },
            "rows": [{ "series": "ours </script>", "labels": [["k", "v"]], "x": 2.0, "paper": 8.0, "peer": 1.0, "note": note,
                "values": [{ "name": "seconds", "unit": "s", "samples": samples }] },
                { "series": "peer", "labels": [], "x": null, "paper": null, "peer": null, "note": note, "values": [] }],
            "skips": ["no <data>"], "notes": []
        })
    }

    #[test]
    fn a_page_has_every_sample_its_ratios_and_no_markup_of_the_record() {
        let html = page(
            &record("not run", &[0.25, 4.0, 0.5]),
            Some(&record("", &[1.0])),
            Some("<svg ></svg>"),
        );
        for part in [
            "&lt;b&gt;Title",
            "ours &lt;/script&gt; · v · at 2",
            "dirty",
            "0.2500 4 0.5000",
            ">0.062",
            ">2.000",
            ">0.500",
            "not run",
            "no &lt;data&gt;",
            "<figure><svg >",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(
            html.matches("</script>").count(),
            1,
            "the end of the data alone"
        );
        for absent in ["<b>", "http", "src=", "<link"] {
            assert!(!html.contains(absent), "{absent}");
        }
        assert_eq!(
            html,
            page(
                &record("not run", &[0.25, 4.0, 0.5]),
                Some(&record("", &[1.0])),
                Some("<svg ></svg>")
            )
        );
    }

    #[test]
    fn a_large_record_is_not_embedded() {
        let note = "x".repeat(MAX_BYTES / 2);
        let html = page(&record(&note, &[1.0]), None, None);
        assert!(html.contains("too large to be embedded") && html.len() < MAX_BYTES);
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(
            [0.000_160_12, 0.25, 12.345, 1234.5, 3.0].map(shown),
            ["0.0001601", "0.2500", "12.345", "1234.500", "3"]
        );
    }
}
