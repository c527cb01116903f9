//! A figure's definition: `benches/<paper or suite>/<figure>.toml`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use toml::Table;

use crate::paths;
use crate::{data, formula};

/// Papers, and the field's published tables; every other folder of `benches/` is a suite.
pub const PAPERS: [&str; 6] = [
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figure {
    /// Paper or suite: the folder's name.
    #[serde(skip)]
    pub group: String,
    /// The file's name.
    #[serde(skip)]
    pub name: String,
    /// What it is called in the paper, with its subject.
    pub title: String,
    /// Why it exists.
    pub why: String,
    /// What the paper reports.
    pub paper: Vec<String>,
    /// What differs here.
    pub here: Vec<String>,
    /// What is missing.
    pub not_run: Vec<String>,
    /// The axis; without one there is no picture.
    pub x: String,
    /// What the first number of a row is.
    pub y: String,
    /// Unit of that number.
    pub unit: String,
    /// Both axes are logarithmic.
    pub log: bool,
    /// Numbers that others report, from other machines.
    pub published: Vec<Published>,
    /// The number that stands for the figure.
    pub claim: Option<FigureClaim>,
    /// Keys that every request of the figure has.
    pub common: Table,
    /// What is measured.
    pub series: Vec<Series>,
}

/// A number reported elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Program or paper.
    pub who: String,
    /// What was measured.
    pub metric: String,
    /// The number.
    pub value: f64,
    /// Where it stands.
    pub source: String,
}

/// The number that stands for the figure in the index.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FigureClaim {
    /// Beginning of the row's key: its series, labels and x.
    pub row: String,
    /// The row's place on the axis.
    pub x: Option<f64>,
    /// Number of the row; absent: its first one.
    pub metric: Option<String>,
    /// What is taken of all rows that begin so.
    pub of_rows: OfRows,
    /// The paper's number, where the row itself has none.
    pub paper: Option<f64>,
    /// The paper's claim in words, where it gives no number.
    pub says: String,
    /// Which side of the paper's number counts as reproduced.
    pub better: Better,
    /// How far off, as a share of the paper's number, still counts.
    pub within: f64,
    /// What a reader of the record found, for a claim in words.
    pub holds: Option<bool>,
}

/// Which number stands for the rows that a claim names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfRows {
    /// The first row's.
    #[default]
    First,
    /// The median of all.
    Median,
    /// The sum of all.
    Sum,
}

/// Direction of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Below the paper's number.
    #[default]
    Lower,
    /// Above it.
    Higher,
    /// At it.
    Same,
}

/// How a series is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A command of the binary for each x.
    #[default]
    Command,
    /// Training to each x, and test graphs solved by the policy of that moment.
    Curve,
    /// A script of `crates/bench/peers` beside our numbers of another series.
    Peer,
    /// A function of the crate `bench`.
    Measure,
}

/// What x counts, where that matters to a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Ranks.
    Ranks,
    /// Nodes of a generated graph.
    Nodes,
}

/// Quotient that a series shows in place of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Derive {
    /// Share of P-fold speed, in place of the seconds.
    Efficiency,
    /// The same beside the seconds.
    Scaling,
}

/// A line of the figure, or some.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Series {
    /// Name in tables and legends.
    pub name: String,
    /// How it is measured.
    pub kind: Kind,
    /// Values of `{x}`: numbers, or words that become labels.
    pub xs: Vec<Point>,
    /// Those of a test; absent: the same.
    pub test_xs: Vec<Point>,
    /// What x counts.
    pub by: Option<By>,
    /// Runs of each point.
    pub runs: Option<u32>,
    /// Numbers that stand for placeholders, `{nodes}` for example.
    pub sizes: Table,
    /// What a test changes in `sizes` or in `request`.
    pub test: Table,
    /// Data that the series needs, as `benches/data.toml` names it.
    pub data: Vec<String>,
    /// x and the paper's number there.
    pub paper: Vec<(f64, f64)>,
    /// Of a command: its words.
    pub command: Vec<String>,
    /// The words in a test.
    pub test_command: Vec<String>,
    /// Run before each command, into the same scratch folder.
    pub prepare: Vec<String>,
    /// A command by whose number that of `command` is divided.
    pub over: Vec<String>,
    /// A number of the answer, or two with `/` between; absent: every number.
    pub metric: Option<String>,
    /// Further numbers of the answer, which may be absent.
    pub extra: Vec<String>,
    /// Factor of every number.
    pub scale: Option<f64>,
    /// Quotient that is shown.
    pub derive: Option<Derive>,
    /// Formula whose value is the paper's number.
    pub formula: Option<formula::Formula>,
    /// Fields that the answer has to have.
    pub expect: Table,
    /// Numbers that the answer may not exceed at full size.
    pub at_most: Table,
    /// Fields that are equal in all runs.
    pub same: Vec<String>,
    /// Files that the run leaves in the scratch folder.
    pub makes: Vec<String>,
    /// Why ranks of this command have no GPU.
    pub no_devices: Option<String>,
    /// Of a curve: a file of settings.
    pub settings: String,
    /// Words of the command that trains.
    pub train: Vec<String>,
    /// Words of the command that goes on.
    pub resume: Vec<String>,
    /// Table of optima.
    pub optima: String,
    /// Graphs that the policies are tested on.
    pub tests: Vec<Tested>,
    /// Of a peer: its script.
    pub script: String,
    /// The series that it stands beside.
    pub against: String,
    /// Packages of Python that it needs.
    pub packages: Vec<String>,
    /// Of a measurement: its name.
    pub measure: String,
    /// What a measurement or a peer is asked for.
    pub request: Table,
    /// Numbers of a line that tell rows apart.
    pub labels: Vec<String>,
    /// Order of columns; those that are not named stand behind.
    pub columns: Vec<String>,
}

/// A value of x.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Point {
    /// A place on the axis.
    Number(f64),
    /// A label.
    Word(String),
}

/// Graphs that a curve's policies are tested on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// Generator spec.
    pub spec: String,
    /// x and the paper's number there.
    #[serde(default)]
    pub paper: Vec<(f64, f64)>,
}

impl Figure {
    /// All definitions, papers first.
    ///
    /// # Errors
    /// A definition that does not read, with its file.
    pub fn load_all() -> Result<Vec<Figure>> {
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

    /// Reads one definition.
    ///
    /// # Errors
    /// A mistake in it, with its file.
    pub fn load(path: &Path, group: &str) -> Result<Figure> {
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
    pub fn path(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// Whether it belongs to a paper.
    pub fn is_of_paper(&self) -> bool {
        PAPERS.contains(&self.group.as_str())
    }

    /// The command that makes its record.
    pub fn command(&self) -> String {
        match self.is_of_paper() {
            true => format!("cargo xtask repro {} {}", self.group, self.name),
            false => format!("cargo xtask bench {}", self.path()),
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.title.is_empty(), "a figure has a title");
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
    pub fn of_paper(&self, x: Option<f64>) -> Option<f64> {
        at(&self.paper, x?)
    }
}

impl Tested {
    /// The paper's number at x.
    pub fn of_paper(&self, x: f64) -> Option<f64> {
        at(&self.paper, x)
    }
}

fn at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let found = points.iter().find(|(other, _)| (other - x).abs() < 1e-9);
    found.map(|(_, y)| *y)
}

impl Point {
    /// Its number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Point::Number(number) => Some(*number),
            Point::Word(_) => None,
        }
    }

    /// As it stands in a command.
    pub fn text(&self) -> String {
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
