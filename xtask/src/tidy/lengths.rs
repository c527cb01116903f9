//! Checks on lengths: no function over the ceiling, no more long functions than there were, no long file.
//!
//! A function's length is its lines of code between the outer braces, without blank lines and comments,
//! as clippy's `too_many_lines` counts it. The ratchet is the number of functions that are long but under the ceiling; it
//! stands in `xtask/ratchet.toml` and only ever goes down.

use anyhow::{Context as _, Result};

use super::Finding;
use super::code::{find_word, is_word, line_of, without_literals};
use crate::project::{self, Project};
use crate::toml;

/// No function is longer.
const MAX_FUNCTION_LINES: usize = 70;
/// Functions longer than this are counted.
const LONG_FUNCTION_LINES: usize = 40;
/// No source file is longer.
const MAX_FILE_LINES: usize = 700;

const RATCHET_FILE: &str = "xtask/ratchet.toml";
const RATCHET_KEY: &str = "n_functions_over_40_lines";

/// A function and where it stands.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    n_lines: usize,
}

/// No function is over the ceiling.
pub(crate) fn functions(project: &Project) -> Vec<Finding> {
    let longer = longer_than(project, MAX_FUNCTION_LINES);
    let message = |(place, n_lines)| {
        format!("{place} has {n_lines} lines of code: cut it to {MAX_FUNCTION_LINES}")
    };
    longer.into_iter().map(message).collect()
}

/// The number of long functions is the recorded one.
pub(crate) fn ratchet(project: &Project) -> Result<Vec<Finding>> {
    let recorded = recorded(project)?;
    let long = longer_than(project, LONG_FUNCTION_LINES);
    let n_long = long.len();
    if n_long < recorded {
        return Ok(vec![format!(
            "{RATCHET_FILE}:1: {n_long} long functions, {recorded} recorded: run `cargo xtask tidy --record`"
        )]);
    }
    if n_long == recorded {
        return Ok(Vec::new());
    }
    let mut findings = vec![format!(
        "{RATCHET_FILE}:1: {n_long} functions over {LONG_FUNCTION_LINES} lines, {recorded} allowed: shorten one of these"
    )];
    findings.extend(
        long.into_iter()
            .map(|(place, n_lines)| format!("{place} has {n_lines} lines of code")),
    );
    Ok(findings)
}

/// Writes the number of long functions, if it went down.
pub(crate) fn lower_the_ratchet(project: &Project) -> Result<String> {
    let n_long = longer_than(project, LONG_FUNCTION_LINES).len();
    let recorded = recorded(project)?;
    if n_long >= recorded {
        return Ok(format!(
            "ratchet: stays at {recorded} ({n_long} long functions)"
        ));
    }
    let text = format!(
        "# Functions with more than 40 lines of code. `cargo xtask tidy --record` lowers it; nothing raises it.\n\
         {RATCHET_KEY} = {n_long}\n"
    );
    std::fs::write(project::root().join(RATCHET_FILE), text)?;
    Ok(format!("ratchet: from {recorded} to {n_long}"))
}

fn recorded(project: &Project) -> Result<usize> {
    let table = toml::parse(project.text(RATCHET_FILE)).context(RATCHET_FILE)?;
    let value = table.get(RATCHET_KEY).and_then(toml::Value::as_integer);
    let value = value.and_then(|value| usize::try_from(value).ok());
    value.with_context(|| format!("{RATCHET_FILE}: expected `{RATCHET_KEY} = <count>`"))
}

/// No source file is over its ceiling.
pub(crate) fn files(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in project.with_extension("rs") {
        let n_lines = text.lines().count();
        if n_lines > MAX_FILE_LINES {
            findings.push(format!(
                "{path}:1: {n_lines} lines: cut it in files of one idea, {MAX_FILE_LINES} at most"
            ));
        }
    }
    findings
}

/// Place and length of every function over `limit`, longest first.
fn longer_than(project: &Project, limit: usize) -> Vec<(String, usize)> {
    let mut longer = Vec::new();
    for (path, text) in project.with_extension("rs") {
        for function in functions_of(text) {
            if function.n_lines > limit {
                longer.push((
                    format!("{path}:{}: `{}`", function.line, function.name),
                    function.n_lines,
                ));
            }
        }
    }
    longer.sort_by_key(|(_, n_lines)| std::cmp::Reverse(*n_lines));
    longer
}

fn functions_of(source: &str) -> Vec<Function> {
    let code = without_literals(source);
    let starts = find_word(&code, "fn");
    starts
        .into_iter()
        .filter_map(|at| function_at(&code, at))
        .collect()
}

/// The function whose `fn` stands at `at`; `None` for a pointer type or a declaration without a body.
fn function_at(code: &str, at: usize) -> Option<Function> {
    let after = code[at + "fn".len()..].trim_start();
    let name: String = after.chars().take_while(|&c| is_word(c)).collect();
    if name.is_empty() {
        return None;
    }
    let body = body_start(code, at)?;
    let end = matching_brace(code, body)?;
    let lines = code[body + 1..end - 1].lines();
    let n_lines = lines.filter(|line| !line.trim().is_empty()).count();
    Some(Function {
        name,
        line: line_of(code, at),
        n_lines,
    })
}

/// The first `{` after the signature; a `;` outside brackets comes first where there is no body.
fn body_start(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(from + offset),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + offset + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    fn function_of(n_lines: usize) -> String {
        format!(
            "fn long(a: [u8; 2]) -> u8 {{\n{}}}\n",
            "    let s = \"}\"; // }\n\n".repeat(n_lines)
        )
    }

    #[test]
    fn measures_code_lines() {
        let source = "trait T { fn declared(&self); }\ntype F = fn(u8);\n/// Docs.\nfn none() {}\n\
            fn one(\n    a: impl Fn() -> u8,\n) where u8: Copy {\n    // why\n\n    a();\n}\n";
        let lengths: Vec<_> = functions_of(source)
            .into_iter()
            .map(|f| (f.name, f.line, f.n_lines))
            .collect();
        assert_eq!(
            lengths,
            [("none".to_owned(), 4, 0), ("one".to_owned(), 5, 1)]
        );
    }

    #[test]
    fn a_function_over_the_ceiling_is_found() {
        assert!(functions(&planted(&[("a.rs", &function_of(70))])).is_empty());
        let findings = functions(&planted(&[("a.rs", &function_of(71))]));
        assert_eq!(
            findings,
            ["a.rs:1: `long` has 71 lines of code: cut it to 70"]
        );
    }

    #[test]
    fn the_ratchet_holds_both_ways() {
        let with_limit = |limit: &str| {
            let limit = format!("{RATCHET_KEY} = {limit}");
            planted(&[
                ("a.rs", &function_of(41)),
                ("b.rs", &function_of(40)),
                (RATCHET_FILE, &limit),
            ])
        };
        assert_eq!(ratchet(&with_limit("1")).unwrap(), Vec::<Finding>::new());
        assert_eq!(ratchet(&with_limit("0")).unwrap().len(), 2);
        assert_eq!(ratchet(&with_limit("2")).unwrap().len(), 1);
        assert!(ratchet(&with_limit("-1")).is_err());
        assert!(ratchet(&planted(&[])).is_err());
    }

    #[test]
    fn a_file_over_its_ceiling_is_found() {
        assert!(files(&planted(&[("a.rs", &"\n".repeat(700))])).is_empty());
        assert_eq!(files(&planted(&[("a.rs", &"\n".repeat(701))])).len(), 1);
    }
}
