//! Checks on Rust sources: heads, what is left open, unsafe code, words that are out of use.

use std::collections::BTreeMap;

use super::Finding;
use super::code::Code;
use super::record::Record;
use crate::project::Project;

/// Crates whose unsafe code is allowed; all others forbid it.
const UNSAFE_CRATES: [&str; 6] = [
    "crates/collectives",
    "crates/device",
    "crates/line",
    "crates/ops",
    "crates/rgcn",
    "crates/solver",
];

/// Every source file opens with `//!`.
pub(crate) fn heads(project: &Project) -> Vec<Finding> {
    let sources = project.with_extension("rs");
    let headless = sources.filter(|(_, text)| !text.starts_with("//! "));
    headless
        .map(|(path, _)| format!("{path}:1: begin with `//! ` and say what this file is for"))
        .collect()
}

/// No test is ignored and nothing is left open.
pub(crate) fn unfinished(sources: &BTreeMap<&str, Code>) -> Vec<Finding> {
    let places = sources.iter().flat_map(|(path, code)| {
        let places = code.unfinished.iter();
        places.map(move |(line, what)| format!("{path}:{line}: {what}"))
    });
    places.collect()
}

/// Every crate root forbids unsafe code, save those that need it.
pub(crate) fn forbid_unsafe(
    sources: &BTreeMap<&str, Code>,
    members: &BTreeMap<String, toml::Table>,
) -> Vec<Finding> {
    let safe = members
        .keys()
        .filter(|folder| !UNSAFE_CRATES.contains(&folder.as_str()));
    let roots =
        safe.flat_map(|folder| ["lib", "main"].map(|root| format!("{folder}/src/{root}.rs")));
    let lacks = |path: &String| {
        sources
            .get(path.as_str())
            .is_some_and(|code| !code.forbids_unsafe)
    };
    roots
        .filter(lacks)
        .map(|path| format!("{path}:1: add `#![forbid(unsafe_code)]`"))
        .collect()
}

/// Identifiers of `crates/` that are out of use: each has a word of the field in its place.
pub(crate) fn words(sources: &BTreeMap<&str, Code>, record: &Record) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, code) in sources
        .iter()
        .filter(|(path, _)| path.starts_with("crates/"))
    {
        for (word, instead) in &record.words {
            if let Some(line) = code.identifiers.get(word) {
                findings.push(format!("{path}:{line}: `{word}` is out of use: {instead}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::{code, planted};
    use super::*;

    #[test]
    fn a_file_without_a_head_is_found() {
        let project = planted(&[
            ("a.rs", "//! Head.\n"),
            ("b.rs", "fn b() {}\n"),
            ("c.md", "x"),
        ]);
        assert_eq!(heads(&project).len(), 1);
        assert!(heads(&project)[0].starts_with("b.rs:1"));
    }

    #[test]
    fn what_is_left_open_is_found() {
        let project = planted(&[("a.rs", "//! A.\n#[ignore]\nfn f() {}\n")]);
        let findings = unfinished(&code::sources(&project).unwrap());
        assert!(findings.len() == 1 && findings[0].starts_with("a.rs:2: `#[ignore]`"));
    }

    #[test]
    fn a_root_that_allows_unsafe_is_found() {
        let members = ["crates/graph", "crates/device"].map(|f| (f.to_owned(), toml::Table::new()));
        let project = planted(&[
            ("crates/graph/src/lib.rs", "//! #![forbid(unsafe_code)]\n"),
            ("crates/device/src/lib.rs", "//! D.\n"),
        ]);
        let findings = forbid_unsafe(&code::sources(&project).unwrap(), &members.into());
        assert_eq!(
            findings,
            ["crates/graph/src/lib.rs:1: add `#![forbid(unsafe_code)]`"]
        );
    }

    #[test]
    fn words_out_of_use_are_found_in_code_alone() {
        let record = Record {
            words: [("Deal".to_owned(), "DegreePartition".to_owned())].into(),
            ..Record::default()
        };
        let found = |source: &str| {
            let project = planted(&[("crates/a/src/lib.rs", source)]);
            words(&code::sources(&project).unwrap(), &record)
        };
        assert!(found("// Deal\nstruct Dealer; const A: &str = \"Deal\";").is_empty());
        let expected = "crates/a/src/lib.rs:2: `Deal` is out of use: DegreePartition";
        assert_eq!(found("\nstruct Deal;"), [expected]);
    }
}
