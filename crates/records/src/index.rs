//! `bench-results/README.md`: every figure with its command, its record and how it compares with the paper.

use std::fs;

use anyhow::{Context as _, Result};

use crate::figure::{Better, Figure, FigureClaim, OfRows};
use crate::paths;
use crate::record::{Record, results};
use crate::row::{Measured, Row};
use crate::statistics::{shown, summary};

/// The index.
const FILE: &str = "bench-results/README.md";

const HEAD: &str = "# Records\n\n\
Made by `cargo xtask bench --index` from the definitions in `benches/` and the records here; edits are lost.\n\n\
A record is a folder with `latest.md` (to read), `latest.json` (for programs), `latest.svg` (where there is an axis) and \
`raw.csv.zst` (every sample: `series,run,metric,value,unit`). A new record replaces the old one; git has that.\n\n\
- `ours` is the number that stands for the figure, with its name and row: the row that its definition's `[claim]` names, else the \
first time of the record. `best peer` is the least time of a peer in the same run.\n\
- State: `reproduced` and `differs` compare with the paper's number, or with what it says in words; `measured`: the paper has no \
number for it, or it is a suite of ours; `not run`; `needs a GPU`.\n\
- `seconds` is the job without reading; `wall_seconds` the whole process as seen from outside; `peak_rss_bytes` the kernel's \
high-water mark of the process.\n\
- A record marked **dirty** was made with changes that were not committed; one marked **loaded** beside other work on the machine. \
Load was not recorded before schema version 2.\n\n";

/// Writes the index.
///
/// # Errors
/// A definition or record that does not read, or an index that cannot be written.
pub fn write() -> Result<()> {
    let text = text(&Figure::load_all()?)?;
    fs::write(paths::root().join(FILE), text).context(FILE)
}

fn text(figures: &[Figure]) -> Result<String> {
    let mut text = String::from(HEAD);
    let mut group = "";
    for figure in figures {
        if figure.group != group {
            group = &figure.group;
            let kind = if figure.is_of_paper() {
                "paper"
            } else {
                "suite"
            };
            text.push_str(&format!(
                "\n## {group}\n\n| {kind} | figure | command | record | paper's number | ours | best peer | state |\n|---|---|---|---|---|---|---|---|\n"
            ));
        }
        text.push_str(&line(figure, Record::of(figure)?.as_ref()));
    }
    let known: Vec<String> = figures.iter().map(Figure::path).collect();
    let mut without = String::new();
    for path in records()?.into_iter().filter(|path| !known.contains(path)) {
        without.push_str(&format!("- [{path}]({path}/latest.md)\n"));
    }
    if !without.is_empty() {
        text.push_str(&format!("\n## Records whose program is gone\n\n{without}"));
    }
    Ok(text)
}

/// Folders that hold a record, as `group/figure`.
fn records() -> Result<Vec<String>> {
    let results = results();
    let mut records = Vec::new();
    for group in fs::read_dir(&results)?.filter_map(Result::ok) {
        if !group.path().is_dir() {
            continue;
        }
        for figure in fs::read_dir(group.path())?.filter_map(Result::ok) {
            let names = [group.file_name(), figure.file_name()];
            records.push(
                names
                    .map(|name| name.to_string_lossy().into_owned())
                    .join("/"),
            );
        }
    }
    records.sort();
    Ok(records)
}

fn line(figure: &Figure, record: Option<&Record>) -> String {
    let claimed = Claimed::of(&figure.claim.clone().unwrap_or_default(), record);
    let peer = record.and_then(best_peer);
    let cells = [
        figure.group.clone(),
        figure.title.clone(),
        format!(
            "`{}`",
            record.map_or(figure.command(), |record| record.command.clone())
        ),
        record.map_or(String::new(), |record| origin(figure, record)),
        claimed.paper,
        claimed.ours,
        peer.map_or(String::new(), |(name, value)| {
            format!("{} ({name})", shown(value))
        }),
        state(figure, record, claimed.is_reproduced).to_owned(),
    ];
    format!(
        "| {} |\n",
        cells.map(|cell| cell.replace('|', "\\|")).join(" | ")
    )
}

/// Link, date, revision, and what makes the record doubtful.
fn origin(figure: &Figure, record: &Record) -> String {
    let revision: String = record.revision.chars().take(8).collect();
    let mut text = format!(
        "[{}]({}/latest.md) of {} at {revision} on {}",
        figure.name,
        figure.path(),
        record.date,
        record.host.label
    );
    if record.is_dirty {
        text.push_str(", **dirty**");
    }
    if record.is_loaded() {
        text.push_str(", **loaded**");
    }
    text
}

fn state(figure: &Figure, record: Option<&Record>, is_reproduced: Option<bool>) -> &'static str {
    match (record, is_reproduced) {
        (None, _) if figure.group == "gpu" => "needs a GPU",
        (None, _) => "not run",
        (Some(_), Some(true)) => "reproduced",
        (Some(_), Some(false)) => "differs",
        (Some(_), None) => "measured",
    }
}

/// A claim beside what was measured.
#[derive(Debug, Default, PartialEq)]
struct Claimed {
    paper: String,
    ours: String,
    is_reproduced: Option<bool>,
}

impl Claimed {
    fn of(claim: &FigureClaim, record: Option<&Record>) -> Claimed {
        let rows: Vec<&Row> = record.map_or(Vec::new(), |record| {
            let rows = record.rows.iter();
            rows.filter(|row| claim.fits(row)).collect()
        });
        let measured = claim.measured(&rows);
        let ours = measured.as_ref().map(|(number, _)| *number);
        let paper = claim.paper.or(rows.first().and_then(|row| row.paper));
        let of_numbers = ours
            .zip(paper)
            .map(|(ours, paper)| claim.is_met(ours, paper));
        Claimed {
            paper: paper.map_or_else(|| claim.says.clone(), shown),
            ours: measured.map_or(String::new(), |(_, text)| text),
            is_reproduced: of_numbers.or(claim.holds.filter(|_| record.is_some())),
        }
    }
}

impl FigureClaim {
    fn fits(&self, row: &Row) -> bool {
        let is_at_x = self.x.is_none() || self.x == row.x;
        is_at_x && row.peer.is_none() && row.key().starts_with(&self.row.replace(',', ";"))
    }

    /// The number, and how the index shows it.
    fn measured(&self, rows: &[&Row]) -> Option<(f64, String)> {
        let in_rows: Vec<(&Row, &Measured, f64)> = rows
            .iter()
            .filter_map(|row| {
                let measured = self.of_row(row)?;
                Some((*row, measured, measured.median()?))
            })
            .collect();
        let (row, Measured { name, .. }, first) = in_rows.first()?;
        let numbers: Vec<f64> = in_rows.iter().map(|(_, _, number)| *number).collect();
        let of = numbers.len();
        let (number, origin) = match self.of_rows {
            OfRows::First => (*first, row.key()),
            OfRows::Median => (summary(&numbers)?.median, format!("median of {of} rows")),
            OfRows::Sum => (numbers.iter().sum(), format!("sum of {of} rows")),
        };
        Some((number, format!("{} {name} ({origin})", shown(number))))
    }

    /// The number of a row; of a claim that names neither row nor number, a time alone.
    fn of_row<'a>(&self, row: &'a Row) -> Option<&'a Measured> {
        match &self.metric {
            Some(name) => row.value(name),
            None if self.row.is_empty() => row.values.first().filter(|value| value.unit == "s"),
            None => row.values.first(),
        }
    }

    fn is_met(&self, ours: f64, paper: f64) -> bool {
        let slack = self.within * paper.abs();
        match self.better {
            Better::Lower => ours <= paper + slack,
            Better::Higher => ours >= paper - slack,
            Better::Same => (ours - paper).abs() <= slack,
        }
    }
}

/// The peer that was fastest beside the first of our numbers that has one.
fn best_peer(record: &Record) -> Option<(&str, f64)> {
    let with_peer = || record.rows.iter().filter(|row| row.peer.is_some());
    let first = with_peer().next()?;
    let beside = with_peer().filter(|row| row.ours() == first.ours() && row.x == first.x);
    let named = beside.filter_map(|row| Some((row.series.as_str(), row.peer?)));
    named.min_by(|(_, a), (_, b)| a.total_cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: &str = "title = 'Figure 9'\nwhy = 'W'\nx = 'ranks'\ny = 'seconds'\n[claim]\nrow = 'a'\nx = 1\n[[series]]\nname = 'a'\nkind = 'command'\ncommand = ['json']\npaper = [[1, 12.2]]\n";

    fn record(figure: &Figure, seconds: f64) -> Record {
        let mut record = Record::here(figure, figure.command(), None).unwrap();
        let row = |series: &str, peer| Row {
            series: series.to_owned(),
            x: Some(1.0),
            values: vec![Measured::new("seconds", vec![seconds])],
            paper: Some(12.2),
            peer,
            ..Row::default()
        };
        record.rows = vec![
            row("a", None),
            row("slow", Some(9.0)),
            row("fast", Some(8.0)),
        ];
        record
    }

    #[test]
    fn the_index_compares_with_the_paper_and_the_best_peer() {
        let mut figure: Figure = toml::from_str(FIGURE).unwrap();
        (figure.group, figure.name) = ("opengraphgym-mg".to_owned(), "fig9".to_owned());
        let cells = line(&figure, Some(&record(&figure, 2.0)));
        assert!(
            cells.contains("| 12.20 | 2 seconds (a x=1) | 8 (fast) | reproduced |"),
            "{cells}"
        );
        assert!(
            cells.contains("[fig9](opengraphgym-mg/fig9/latest.md)"),
            "{cells}"
        );
        let cells = line(&figure, Some(&record(&figure, 20.0)));
        assert!(cells.ends_with("| differs |\n"), "{cells}");
        let cells = line(&figure, None);
        assert!(cells.ends_with("|  |  |  |  | not run |\n"), "{cells}");
    }

    #[test]
    fn a_claim_has_a_side() {
        let claim = |better, within| FigureClaim {
            better,
            within,
            ..FigureClaim::default()
        };
        assert!(claim(Better::Lower, 0.0).is_met(1.0, 1.0));
        assert!(!claim(Better::Lower, 0.0).is_met(1.1, 1.0));
        assert!(claim(Better::Lower, 0.2).is_met(1.1, 1.0));
        assert!(claim(Better::Higher, 0.0).is_met(1.1, 1.0));
        assert!(!claim(Better::Same, 0.05).is_met(1.1, 1.0));
    }

    /// The index is what the records say. Run `cargo xtask bench --index` where it is not.
    #[test]
    fn the_index_is_up_to_date() {
        let expected = text(&Figure::load_all().unwrap()).unwrap();
        let found = fs::read_to_string(paths::root().join(FILE)).unwrap();
        assert!(found == expected, "run `cargo xtask bench --index`");
    }
}
