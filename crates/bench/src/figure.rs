//! A figure's definition: `benches/<paper or suite>/<figure>.toml`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use toml::Table;

use crate::paths;
use crate::{data, formula};

/// Papers, and the field's published tables; every other folder of `benches/` is a suite.
pub(crate) const PAPERS: [&str; 6] = [
    "opengraphgym-mg",
    "regal",
    "line",
    "rgcn",
    "rlgraph",
    "field",
];

/// Folder of `benches/` that holds inputs and no definitions.
const INPUTS: &str = "data";

/// What a figure shows, and what it runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// Paper or suite: the folder's name.
    #[serde(skip)]
    pub(crate) group: String,
    /// The file's name.
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) why: String,
    /// What the paper reports.
    #[serde(default)]
    pub(crate) paper: Vec<String>,
    /// What differs here.
    #[serde(default)]
    pub(crate) here: Vec<String>,
    /// What is missing.
    #[serde(default)]
    pub(crate) not_run: Vec<String>,
    /// The axis; without one there is no picture.
    #[serde(default)]
    pub(crate) x: String,
    /// What the first number of a row is.
    #[serde(default)]
    pub(crate) y: String,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) log: bool,
    /// Numbers that others report, from other machines.
    #[serde(default)]
    pub(crate) published: Vec<Published>,
    #[serde(default)]
    pub(crate) claim: Option<Claim>,
    /// Keys that every request of the figure has.
    #[serde(default)]
    pub(crate) common: Table,
    pub(crate) series: Vec<Series>,
}

/// A number reported elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) who: String,
    pub(crate) metric: String,
    pub(crate) value: f64,
    pub(crate) source: String,
}

/// The number that stands for the figure in the index.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// Beginning of the row's key: its series, labels and x.
    #[serde(default)]
    pub(crate) row: String,
    #[serde(default)]
    pub(crate) x: Option<f64>,
    /// Number of the row; absent: its first one.
    #[serde(default)]
    pub(crate) metric: Option<String>,
    /// What is taken of all rows that begin so.
    #[serde(default)]
    pub(crate) of_rows: OfRows,
    /// The paper's number, where the row itself has none.
    #[serde(default)]
    pub(crate) paper: Option<f64>,
    /// The paper's claim in words, where it gives no number.
    #[serde(default)]
    pub(crate) says: String,
    /// Which side of the paper's number counts as reproduced.
    #[serde(default)]
    pub(crate) better: Better,
    /// How far off, as a share of the paper's number, still counts.
    #[serde(default)]
    pub(crate) within: f64,
    /// What a reader of the record found, for a claim in words.
    #[serde(default)]
    pub(crate) holds: Option<bool>,
}

/// Which number stands for the rows that a claim names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OfRows {
    #[default]
    First,
    Median,
    Sum,
}

/// Direction of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    #[default]
    Lower,
    Higher,
    Same,
}

/// How a series is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A command of the binary for each x.
    Command,
    /// Training to each x, and test graphs solved by the policy of that moment.
    Curve,
    /// A script of `crates/bench/peers` beside our numbers of another series.
    Peer,
    /// A function of this crate.
    Measure,
}

/// What x counts, where that matters to a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Ranks,
    Nodes,
}

/// Quotient that a series shows in place of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Derive {
    /// Share of P-fold speed, in place of the seconds.
    Efficiency,
    /// The same beside the seconds.
    Scaling,
}

/// A line of the figure, or some.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Series {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Values of `{x}`: numbers, or words that become labels.
    #[serde(default)]
    pub(crate) xs: Vec<Point>,
    /// Those of a test; absent: the same.
    #[serde(default)]
    pub(crate) test_xs: Vec<Point>,
    #[serde(default)]
    pub(crate) by: Option<By>,
    #[serde(default)]
    pub(crate) runs: Option<u32>,
    /// Numbers that stand for placeholders, `{nodes}` for example.
    #[serde(default)]
    pub(crate) sizes: Table,
    /// What a test changes in `sizes` or in `request`.
    #[serde(default)]
    pub(crate) test: Table,
    /// Data that the series needs, as `benches/data.toml` names it.
    #[serde(default)]
    pub(crate) data: Vec<String>,
    /// x and the paper's number there.
    #[serde(default)]
    pub(crate) paper: Vec<(f64, f64)>,

    // A command.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) test_command: Vec<String>,
    /// Run before each command, into the same scratch folder.
    #[serde(default)]
    pub(crate) prepare: Vec<String>,
    /// A command by whose number that of `command` is divided.
    #[serde(default)]
    pub(crate) over: Vec<String>,
    /// A number of the answer, or two with `/` between; absent: every number.
    #[serde(default)]
    pub(crate) metric: Option<String>,
    /// Further numbers of the answer, which may be absent.
    #[serde(default)]
    pub(crate) extra: Vec<String>,
    #[serde(default)]
    pub(crate) scale: Option<f64>,
    #[serde(default)]
    pub(crate) derive: Option<Derive>,
    #[serde(default)]
    pub(crate) formula: Option<formula::Formula>,
    /// Fields that the answer has to have.
    #[serde(default)]
    pub(crate) expect: Table,
    /// Numbers that the answer may not exceed at full size.
    #[serde(default)]
    pub(crate) at_most: Table,
    /// Fields that are equal in all runs.
    #[serde(default)]
    pub(crate) same: Vec<String>,
    /// Files that the run leaves in the scratch folder.
    #[serde(default)]
    pub(crate) makes: Vec<String>,
    /// Why ranks of this command have no GPU.
    #[serde(default)]
    pub(crate) no_devices: Option<String>,

    // A curve.
    #[serde(default)]
    pub(crate) settings: String,
    #[serde(default)]
    pub(crate) train: Vec<String>,
    #[serde(default)]
    pub(crate) resume: Vec<String>,
    /// Table of optima.
    #[serde(default)]
    pub(crate) optima: String,
    #[serde(default)]
    pub(crate) tests: Vec<Tested>,

    // A peer.
    #[serde(default)]
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) against: String,
    #[serde(default)]
    pub(crate) packages: Vec<String>,

    // A measurement, or a peer's request.
    #[serde(default)]
    pub(crate) measure: String,
    #[serde(default)]
    pub(crate) request: Table,
    /// Numbers of a line that tell rows apart.
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// Order of columns; those that are not named stand behind.
    #[serde(default)]
    pub(crate) columns: Vec<String>,
}

/// A value of x.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Point {
    Number(f64),
    Word(String),
}

/// Graphs that a curve's policies are tested on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tested {
    pub(crate) spec: String,
    #[serde(default)]
    pub(crate) paper: Vec<(f64, f64)>,
}

impl Figure {
    /// All definitions, papers first.
    pub(crate) fn load_all() -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for folder in entries(&paths::root().join("benches"))? {
            let (path, group) = folder;
            if path.is_dir() && group != INPUTS {
                figures.extend(of_folder(&path, &group)?);
            }
        }
        let place = |figure: &Figure| {
            let paper = PAPERS.iter().position(|paper| *paper == figure.group);
            let number = figure.name.find(|c: char| c.is_ascii_digit()).map(|at| {
                let digits = figure.name[at..].chars().take_while(char::is_ascii_digit);
                digits.collect::<String>().parse::<u32>().unwrap_or(0)
            });
            (
                paper.unwrap_or(PAPERS.len()),
                figure.group.clone(),
                number.is_none() || !figure.name.starts_with("fig"),
                number,
                figure.name.clone(),
            )
        };
        figures.sort_by_key(place);
        Ok(figures)
    }

    fn load(path: &Path, group: &str) -> Result<Figure> {
        let read = || -> Result<Figure> {
            let mut figure: Figure = toml::from_str(&fs::read_to_string(path)?)?;
            figure.group = group.to_owned();
            let stem = path.file_stem().unwrap_or_default();
            figure.name = stem.to_string_lossy().into_owned();
            figure.check()?;
            Ok(figure)
        };
        read().with_context(|| path.display().to_string())
    }

    /// Group and name, as commands and folders have them.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    pub(crate) fn is_of_paper(&self) -> bool {
        PAPERS.contains(&self.group.as_str())
    }

    /// The command that makes its record.
    pub(crate) fn command(&self) -> String {
        match self.is_of_paper() {
            true => format!("cargo xtask repro {} {}", self.group, self.name),
            false => format!("cargo xtask bench {}", self.path()),
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.series.is_empty(), "a figure has series");
        let says_why = !self.why.is_empty() || !self.paper.is_empty();
        ensure!(says_why, "say why it exists, or what the paper reports");
        for (at, series) in self.series.iter().enumerate() {
            let before: Vec<&str> = self.series[..at].iter().map(|s| s.name.as_str()).collect();
            series
                .check(&before)
                .with_context(|| format!("series {:?}", series.name))?;
        }
        Ok(())
    }
}

impl Series {
    fn check(&self, before: &[&str]) -> Result<()> {
        match self.kind {
            Kind::Command => {
                ensure!(!self.command.is_empty(), "a command has words");
                let is_json = |words: &[String]| words.iter().any(|word| word == "json");
                ensure!(is_json(&self.command), "a command answers in JSON");
                ensure!(!self.name.is_empty(), "a series has a name");
            }
            Kind::Curve => {
                ensure!(!self.xs.is_empty(), "a curve has points");
                for words in [&self.train, &self.resume] {
                    ensure!(
                        words.iter().any(|word| word == "{x}"),
                        "training stops at x"
                    );
                }
            }
            Kind::Peer => {
                let is_known = before.contains(&self.against.as_str());
                ensure!(is_known, "no series {:?} before it", self.against);
                ensure!(paths::peer(&self.script).exists(), "no {}", self.script);
            }
            Kind::Measure => {
                ensure!(!self.measure.is_empty(), "a measurement has a name");
            }
        }
        if !self.data.is_empty() {
            let listed = data::list()?;
            for name in &self.data {
                let is_listed = listed.iter().any(|data| data.name == *name);
                ensure!(is_listed, "{} lacks {name}", data::FILE);
            }
        }
        Ok(())
    }

    /// The paper's number at x.
    pub(crate) fn of_paper(&self, x: Option<f64>) -> Option<f64> {
        at(&self.paper, x?)
    }
}

impl Tested {
    pub(crate) fn of_paper(&self, x: f64) -> Option<f64> {
        at(&self.paper, x)
    }
}

fn at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let found = points.iter().find(|(other, _)| (other - x).abs() < 1e-9);
    found.map(|(_, y)| *y)
}

impl Point {
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Point::Number(number) => Some(*number),
            Point::Word(_) => None,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Point::Number(number) => number.to_string(),
            Point::Word(word) => word.clone(),
        }
    }
}

fn of_folder(folder: &Path, group: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (path, name) in entries(folder)? {
        if name.ends_with(".toml") {
            figures.push(Figure::load(&path, group)?);
        }
    }
    Ok(figures)
}

/// Paths and names of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<(std::path::PathBuf, String)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        entries.push((
            entry.path(),
            entry.file_name().to_string_lossy().into_owned(),
        ));
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_of_the_project_reads() {
        let figures = Figure::load_all().unwrap();
        for paper in PAPERS {
            assert!(
                figures.iter().any(|figure| figure.group == paper),
                "{paper}"
            );
        }
        let names: Vec<String> = figures.iter().map(Figure::path).collect();
        let place = |name: &str| names.iter().position(|other| other == name);
        assert!(place("opengraphgym-mg/fig9") < place("opengraphgym-mg/fig10"));
    }

    #[test]
    fn a_definition_with_a_mistake_is_an_error() {
        const HEAD: &str = "title = 't'\nwhy = 'w'\n";
        let read = |text: &str| -> Result<()> {
            let figure: Figure = toml::from_str(&format!("{HEAD}{text}"))?;
            figure.check()
        };
        let command = "[[series]]\nname = 'a'\nkind = 'command'\ncommand = ['solve', 'json']\n";
        read(command).unwrap();
        for wrong in [
            "series = []",
            &format!("{command}repeats = 3"),
            &format!("{command}data = ['graphs/no-such-file']"),
            "[[series]]\nname = 'a'\nkind = 'command'\ncommand = ['solve']",
            "[[series]]\nkind = 'measure'",
            "[[series]]\nkind = 'peer'\nagainst = 'a'\nscript = 'solver_torch.py'",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
