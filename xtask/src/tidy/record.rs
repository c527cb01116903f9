//! Rules that are not kept everywhere yet: `xtask/tidy.toml` counts what breaks them, and the counts only go down.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Finding;
use super::code::Code;
use super::imports;
use crate::project::{self, Project};

/// The record.
pub(crate) const FILE: &str = "xtask/tidy.toml";

const MAX_FILE_LINES: usize = 600;

/// What `xtask/tidy.toml` holds.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// Files above 600 lines.
    pub(crate) long_files: Vec<String>,
    /// Functions with a tuple pattern as an argument, of all crates: code moves between them.
    pub(crate) tuple_arguments: usize,
    /// Files of the largest circle of imports, by crate; 3 files are fine.
    pub(crate) import_circles: BTreeMap<String, usize>,
    /// Identifiers that are out of use, with the word that took their place.
    pub(crate) words: BTreeMap<String, String>,
}

impl Record {
    pub(crate) fn read(project: &Project) -> Result<Record> {
        toml::from_str(project.text(FILE)).context(FILE)
    }
}

/// What breaks a rule beyond the record.
pub(crate) fn findings(
    project: &Project,
    sources: &BTreeMap<&str, Code>,
    record: &Record,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, n_lines) in long_files(project) {
        if !record.long_files.contains(&path) {
            findings.push(format!(
                "{path}:1: {n_lines} lines: cut it in files of one idea, {MAX_FILE_LINES} at most"
            ));
        }
    }
    let counts = tuple_arguments(sources);
    let n_places: usize = counts.values().sum();
    let allowed = record.tuple_arguments;
    if n_places > allowed {
        let counts = counts.iter().map(|(krate, n)| format!("{krate} {n}"));
        findings.push(format!(
            "{FILE}:1: {n_places} functions with a tuple pattern as an argument, {allowed} allowed: make a struct ({})",
            counts.collect::<Vec<String>>().join(", ")
        ));
    }
    for (krate, circle) in imports::largest_circles(sources) {
        let allowed = record
            .import_circles
            .get(&krate)
            .copied()
            .unwrap_or(imports::MAX_FILES);
        if circle.len() > allowed {
            findings.push(format!(
                "crates/{krate}:1: {} files import each other in a circle, {allowed} allowed: {}",
                circle.len(),
                circle.join(" ")
            ));
        }
    }
    findings
}

/// Functions with a tuple pattern as an argument, by crate.
fn tuple_arguments(sources: &BTreeMap<&str, Code>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (path, code) in sources {
        let inner = path.strip_prefix("crates/");
        if let Some((krate, _)) = inner.and_then(|path| path.split_once('/')) {
            *counts.entry(krate.to_owned()).or_default() += code.tuple_arguments.len();
        }
    }
    counts
}

/// Lowers every count of the record to what is found; raises none.
pub(crate) fn lower(project: &Project, sources: &BTreeMap<&str, Code>) -> Result<()> {
    let mut record = Record::read(project)?;
    let long: Vec<String> = long_files(project)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    record.long_files.retain(|path| long.contains(path));
    let n_tuples = tuple_arguments(sources).values().sum();
    record.tuple_arguments = record.tuple_arguments.min(n_tuples);
    let circles = imports::largest_circles(sources);
    let n_files = |krate: &String| circles.get(krate).map_or(0, Vec::len);
    lower_to(&mut record.import_circles, n_files, imports::MAX_FILES);
    std::fs::write(project::root().join(FILE), text(&record)?)?;
    println!("tidy: wrote {FILE}");
    Ok(())
}

/// Takes the smaller counts, and drops those that the rule allows anyway.
fn lower_to(counts: &mut BTreeMap<String, usize>, found: impl Fn(&String) -> usize, free: usize) {
    for (krate, count) in counts.iter_mut() {
        *count = found(krate).min(*count);
    }
    counts.retain(|_, count| *count > free);
}

fn text(record: &Record) -> Result<String> {
    let mut text = String::from(
        "# What `cargo xtask tidy` lets pass for now; `--record` lowers the counts, nothing raises them.\n\n\
         # Files above 600 lines.\nlong_files = [\n",
    );
    for path in &record.long_files {
        writeln!(text, "  \"{path}\",")?;
    }
    let n_tuples = record.tuple_arguments;
    text.push_str("]\n\n# Functions with a tuple pattern as an argument.\n");
    writeln!(text, "tuple_arguments = {n_tuples}")?;
    text.push_str("\n# Files of the largest circle of imports.\n[import_circles]\n");
    for (krate, count) in &record.import_circles {
        writeln!(text, "{krate} = {count}")?;
    }
    text.push_str("\n# Identifiers out of use, each with what took its place: add a line when one is gone.\n[words]\n");
    for (word, instead) in &record.words {
        writeln!(text, "{word} = \"{instead}\"")?;
    }
    Ok(text)
}

fn long_files(project: &Project) -> Vec<(String, usize)> {
    let files = project.with_extension("rs");
    let long = files.map(|(path, text)| (path.to_owned(), text.lines().count()));
    long.filter(|(_, n_lines)| *n_lines > MAX_FILE_LINES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{code, planted};
    use super::*;

    const RECORD: &str =
        "long_files = ['old.rs']\ntuple_arguments = 1\n[import_circles]\n[words]\n";

    #[test]
    fn only_what_is_beyond_the_record_is_found() {
        let long = "//! L.\n".repeat(601);
        let one = "//! A.\nfn f((a, b): (u8, u8)) {}\n";
        let two = "//! A.\nfn f((a, b): (u8, u8)) {}\nfn g((a, b): (u8, u8)) {}\n";
        let found = |name: &str, source: &str| {
            let files = [
                (FILE, RECORD),
                (name, long.as_str()),
                ("crates/a/src/lib.rs", source),
            ];
            let project = planted(&files);
            let record = Record::read(&project).unwrap();
            findings(&project, &code::sources(&project).unwrap(), &record).len()
        };
        assert_eq!(found("old.rs", one), 0);
        assert_eq!(found("new.rs", one), 1);
        assert_eq!(found("old.rs", two), 1);
    }

    #[test]
    fn the_record_reads_back_and_only_goes_down() {
        let record = Record {
            long_files: vec!["a.rs".to_owned()],
            tuple_arguments: 2,
            import_circles: BTreeMap::new(),
            words: [("Deal".to_owned(), "DegreePartition".to_owned())].into(),
        };
        let again: Record = toml::from_str(&text(&record).unwrap()).unwrap();
        assert_eq!(again, record);
        let mut counts = BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 5)]);
        lower_to(&mut counts, |krate| if krate == "a" { 7 } else { 0 }, 0);
        assert_eq!(counts, [("a".to_owned(), 2)].into());
    }
}
