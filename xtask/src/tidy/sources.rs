//! Checks on Rust sources: heads, words that must not occur, unsafe code.

use std::collections::BTreeMap;

use super::Finding;
use super::code::{line_of, without_literals};
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

/// What must not occur in code, and what to write instead.
const BANNED: [(&str, &str); 2] = [
    (
        "#[ignore",
        "run the test, or print `SKIPPED: <what is missing>` and return",
    ),
    ("unimplemented!", "write it, or leave it out"),
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
pub(crate) fn banned_words(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in project.with_extension("rs") {
        let code = without_literals(text);
        for (word, instead) in BANNED {
            for (at, _) in code.match_indices(word) {
                let line = line_of(&code, at);
                findings.push(format!("{path}:{line}: `{word}`: {instead}"));
            }
        }
    }
    findings
}

/// Every crate root forbids unsafe code, save those that need it.
pub(crate) fn forbid_unsafe(
    project: &Project,
    members: &BTreeMap<String, toml::Table>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in members
        .keys()
        .filter(|folder| !UNSAFE_CRATES.contains(&folder.as_str()))
    {
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = format!("{folder}/{root}");
            let text = project.text(&path);
            if !text.is_empty() && !without_literals(text).contains("#![forbid(unsafe_code)]") {
                findings.push(format!("{path}:1: add `#![forbid(unsafe_code)]`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::planted;
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
    fn banned_words_are_found_in_code_only() {
        let project = planted(&[(
            "a.rs",
            "// unimplemented!()\nlet s = \"unimplemented!\";\n#[ignore]\nfn f() { unimplemented!() }",
        )]);
        let findings = banned_words(&project);
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("a.rs:3: `#[ignore`"));
        assert!(findings[1].starts_with("a.rs:4: `unimplemented!`"));
    }

    #[test]
    fn a_root_that_allows_unsafe_is_found() {
        let members = ["crates/graph", "crates/device"].map(|f| (f.to_owned(), toml::Table::new()));
        let project = planted(&[
            ("crates/graph/src/lib.rs", "//! #![forbid(unsafe_code)]\n"),
            ("crates/device/src/lib.rs", "//! D.\n"),
        ]);
        let findings = forbid_unsafe(&project, &members.into());
        assert_eq!(
            findings,
            ["crates/graph/src/lib.rs:1: add `#![forbid(unsafe_code)]`"]
        );
    }
}
