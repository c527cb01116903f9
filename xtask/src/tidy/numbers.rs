//! Numbers of documents that a record holds: a marker behind the number says which, and the two must agree.
//!
//! `0.38 <!-- from opengraphgym-mg/fig9 :: series=ER(15000), CSR :: x=1 :: peer -->`: the folder below bench-results, what picks
//! the row (`series`, `x`, or a label of it), and the value (`ours`, `paper`, `peer`, or a name of `values`, of which the median
//! counts); `peer * 1000` scales it, `peer / ours` divides. The number may be shown with as few digits as the page likes.

use std::fs;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use shardgraph_records::row::{Measured, Row};

use super::Finding;
use super::code::line_of;
use crate::project::{self, Project};

const START: &str = "<!-- from ";

/// What a marker needs of a record.
#[derive(Deserialize)]
struct Rows {
    rows: Vec<Row>,
}

/// Every number behind which a marker stands is the record's.
pub(crate) fn findings(project: &Project) -> Vec<Finding> {
    let read = |figure: &str| -> Result<String> {
        let path = project::root().join(format!("bench-results/{figure}/latest.json"));
        fs::read_to_string(&path).with_context(|| format!("there is no record {figure}"))
    };
    let pages = project.with_extension("md");
    let pages = pages.filter(|(path, _)| !path.starts_with("bench-results/"));
    pages
        .flat_map(|(path, text)| in_page(path, text, &read))
        .collect()
}

fn in_page(path: &str, text: &str, read: &dyn Fn(&str) -> Result<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in text.match_indices(START) {
        if let Err(error) = check(text, at, read) {
            findings.push(format!("{path}:{}: {error:#}", line_of(text, at)));
        }
    }
    findings
}

fn check(text: &str, at: usize, read: &dyn Fn(&str) -> Result<String>) -> Result<()> {
    let marker = text[at + START.len()..].split("-->").next();
    let parts: Vec<&str> = marker
        .unwrap_or_default()
        .split(" :: ")
        .map(str::trim)
        .collect();
    let [figure, selectors @ .., expression] = parts.as_slice() else {
        bail!("a marker is FIGURE :: key=value ... :: VALUE");
    };
    let rows: Rows = serde_json::from_str(&read(figure)?)?;
    let mut rows = rows.rows.iter();
    let row = rows
        .find(|row| selectors.iter().all(|selector| has(row, selector)))
        .with_context(|| format!("no row of {figure} has {}", selectors.join(", ")))?;
    if rows.any(|row| selectors.iter().all(|selector| has(row, selector))) {
        bail!("several rows of {figure} have {}", selectors.join(", "));
    }
    let value = evaluate(row, expression)?;
    let shown = number_before(&text[..at]).context("no number stands before the marker")?;
    let digits = shown.split_once('.').map_or(0, |(_, digits)| digits.len());
    let recorded = format!("{value:.digits$}");
    if recorded != shown {
        bail!("the page has {shown}, the record {figure} {recorded} ({value})");
    }
    Ok(())
}

/// The last number of the marker's line, without the commas between thousands.
fn number_before(text: &str) -> Option<String> {
    let line = text.rsplit('\n').next()?;
    let line = line.rsplit("-->").next()?;
    let last = line.rfind(|c: char| c.is_ascii_digit())? + 1;
    let is_part = |c: char| c.is_ascii_digit() || ".,".contains(c);
    let first = line[..last].rfind(|c| !is_part(c)).map_or(0, |at| {
        at + line[at..].chars().next().map_or(1, char::len_utf8)
    });
    let sign = if line[..first].ends_with('-') {
        "-"
    } else {
        ""
    };
    Some(format!("{sign}{}", line[first..last].replace(',', "")))
}

fn has(row: &Row, selector: &str) -> bool {
    let Some((key, wanted)) = selector.split_once('=') else {
        return false;
    };
    match key {
        "series" => row.series == wanted,
        "x" => row.x.is_some() && wanted.parse().ok() == row.x,
        _ => row.labels.iter().any(|(k, v)| k == key && v == wanted),
    }
}

/// `NAME`, `NAME * NUMBER` or `NAME / NAME`.
fn evaluate(row: &Row, expression: &str) -> Result<f64> {
    if let Some((name, factor)) = expression.split_once(" * ") {
        return Ok(value(row, name)? * factor.parse::<f64>()?);
    }
    match expression.split_once(" / ") {
        Some((above, below)) => Ok(value(row, above)? / value(row, below)?),
        None => value(row, expression),
    }
}

fn value(row: &Row, name: &str) -> Result<f64> {
    let found = match name {
        "paper" => row.paper,
        "peer" => row.peer,
        _ => row.value(name).and_then(Measured::median),
    };
    found.with_context(|| format!("the row has no `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{ "rows": [
        { "series": "a", "labels": [["graph", "g"]], "x": 1, "paper": 12.2, "peer": 0.5, "note": "",
          "values": [{ "name": "ours", "unit": "s", "samples": [0.2512, 0.1, 0.9] }] },
        { "series": "a", "labels": [], "x": 2.0, "paper": null, "peer": null,
          "values": [{ "name": "ours", "unit": "s", "samples": [1, 4] }] }
    ] }"#;

    fn found(line: &str) -> String {
        let read = |figure: &str| match figure {
            "s/f" => Ok(RECORD.to_owned()),
            _ => bail!("there is no record {figure}"),
        };
        in_page("a.md", line, &read).join(" ")
    }

    #[test]
    fn numbers_of_the_record_pass_with_any_number_of_digits() {
        for good in [
            "0.25 <!-- from s/f :: series=a :: x=1 :: ours -->",
            "| 251.2 ms<!-- from s/f :: graph=g :: ours * 1000 --> | 12.2 <!-- from s/f :: x=1 :: paper --> |",
            "**2.0x** <!-- from s/f :: x=1 :: peer / ours -->",
            "2.5 <!-- from s/f :: series=a :: x=2 :: ours -->",
            "2,500 <!-- from s/f :: series=a :: x=2 :: ours * 1000 -->",
        ] {
            assert_eq!(found(good), "", "{good}");
        }
    }

    #[test]
    fn other_numbers_and_markers_without_a_value_are_found() {
        for (bad, why) in [
            ("0.26 <!-- from s/f :: x=1 :: ours -->", "has 0.26"),
            ("-0.25 <!-- from s/f :: x=1 :: ours -->", "has -0.25"),
            ("0.25 <!-- from s/f :: series=a :: ours -->", "several rows"),
            ("0.25 <!-- from s/f :: series=b :: ours -->", "no row"),
            ("0.25 <!-- from s/f :: x=2 :: peer -->", "no `peer`"),
            ("0.25 <!-- from s/g :: x=2 :: peer -->", "no record s/g"),
            ("none <!-- from s/f :: x=1 :: ours -->", "no number"),
            ("0.25 <!-- from s/f -->", "a marker is"),
        ] {
            assert!(found(bad).contains(why), "{bad}: {}", found(bad));
        }
    }
}
