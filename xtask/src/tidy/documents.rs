//! Checks on documents: commands exist, dependencies have their line, no path of somebody's machine.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;

use super::Finding;
use super::code::{is_word, line_of};
use crate::project::Project;

/// Every command of the binary, written by its own tests.
const REFERENCE: &str = "docs/reference/commands.md";

/// Documents name only commands that exist.
pub(crate) fn commands(project: &Project) -> Vec<Finding> {
    let known = Known::of(project);
    let mut findings = Vec::new();
    // Records keep the commands of their time.
    let pages = project.with_extension("md");
    for (path, text) in pages.filter(|(path, _)| !path.starts_with("bench-results/")) {
        for (at, span) in code_spans(text) {
            if let Some(wrong) = wrong_command(span, &known) {
                findings.push(format!(
                    "{path}:{}: there is no `{wrong}`",
                    line_of(text, at)
                ));
            }
        }
    }
    findings
}

/// What commands can name.
struct Known {
    /// Of the binary.
    subcommands: BTreeSet<String>,
    /// `paper/figure` or `suite/figure` of `benches/`.
    figures: BTreeSet<String>,
}

impl Known {
    fn of(project: &Project) -> Known {
        let figure = |path: &String| {
            let path = path.strip_prefix("benches/")?.strip_suffix(".toml")?;
            path.contains('/').then(|| path.to_owned())
        };
        Known {
            subcommands: subcommands(project),
            figures: project.files.keys().filter_map(figure).collect(),
        }
    }

    /// Whether there is a figure of this name, or a folder of figures.
    fn has_figure(&self, name: &str) -> bool {
        let is_it = |path: &String| path == name || path.split('/').next() == Some(name);
        self.figures.iter().any(is_it)
    }
}

/// The figure or suite behind `cargo xtask repro` or `bench` that no definition has.
fn wrong_figure(words: &[&str], known: &Known) -> Option<String> {
    let at = words
        .windows(2)
        .position(|pair| pair == ["cargo", "xtask"])?;
    let mut names = words[at + 2..].iter().take_while(|word| is_figure(word));
    let wrong = match *names.next()? {
        "repro" => {
            let paper = names.next()?;
            let mut paths = names.map(|figure| format!("{paper}/{figure}"));
            match known.has_figure(paper) {
                false => Some((*paper).to_owned()),
                true => paths.find(|path| !known.has_figure(path)),
            }
        }
        "bench" => names
            .find(|name| !known.has_figure(name))
            .map(|name| (*name).to_owned()),
        _ => None,
    };
    wrong.map(|name| format!("definition of {name}"))
}

/// A name, or two with a slash.
fn is_figure(word: &str) -> bool {
    word.split('/').all(is_name)
}

/// The command in one line of code that does not exist, if there is one.
fn wrong_command(line: &str, known: &Known) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    for window in words.windows(3) {
        if window[..2] == ["cargo", "xtask"]
            && is_name(window[2])
            && !xtask_commands().any(|name| name == window[2])
        {
            return Some(window.join(" "));
        }
    }
    if let Some(wrong) = wrong_figure(&words, known) {
        return Some(wrong);
    }
    for (position, pair) in words.windows(2).enumerate() {
        // `cargo run ... -- solve` or `shardgraph solve`, perhaps behind a folder.
        let is_run = pair[0] == "--"
            && words[..position]
                .windows(2)
                .any(|pair| pair == ["cargo", "run"]);
        let is_binary = pair[0] == "shardgraph" || pair[0].ends_with("/shardgraph");
        if (is_run || is_binary) && is_name(pair[1]) && !known.subcommands.contains(pair[1]) {
            return Some(pair.join(" "));
        }
    }
    None
}

/// A plain lower-case word, as commands are; not a flag, a placeholder or punctuation.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| is_word(c) || c == '-')
}

/// The code of a document: lines of fenced blocks and `spans`, with their place.
fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let mut spans = Vec::new();
    let mut in_fence = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if in_fence {
            spans.push((at, line));
        } else {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (at, span)));
        }
        at += line.len();
    }
    spans
}

/// The words behind `cargo xtask`.
fn xtask_commands() -> impl Iterator<Item = String> {
    let command = crate::Xtask::command();
    let names = command.get_subcommands().map(|of| of.get_name().to_owned());
    names.collect::<Vec<String>>().into_iter()
}

/// The subcommands of the binary, nested ones too: the words of the headings of the generated reference.
fn subcommands(project: &Project) -> BTreeSet<String> {
    let lines = project.text(REFERENCE).lines();
    let headings = lines.filter_map(|line| line.strip_prefix("## shardgraph "));
    let names = headings.flat_map(|heading| heading.split(' '));
    names.chain(["help"]).map(str::to_owned).collect()
}

/// Every dependency of the workspace has its line in ARCHITECTURE.md, and every line its dependency.
pub(crate) fn dependencies(project: &Project) -> Result<Vec<Finding>> {
    let root = toml::from_str::<toml::Table>(project.text("Cargo.toml")).context("Cargo.toml")?;
    let workspace = root.get("workspace").and_then(toml::Value::as_table);
    let table = workspace
        .and_then(|table| table.get("dependencies"))
        .and_then(toml::Value::as_table);
    let used: BTreeSet<&str> = table
        .into_iter()
        .flat_map(|table| table.keys())
        .map(String::as_str)
        .collect();
    let listed: BTreeSet<&str> = listed_dependencies(project.text("ARCHITECTURE.md")).collect();
    let missing = used
        .difference(&listed)
        .filter(|name| !name.starts_with("shardgraph-"));
    let missing =
        missing.map(|name| format!("ARCHITECTURE.md:1: `{name}` has no line under Dependencies"));
    let stale = listed
        .difference(&used)
        .map(|name| format!("ARCHITECTURE.md:1: `{name}` is not a dependency"));
    Ok(missing.chain(stale).collect())
}

/// The names that begin the rows of the table under `## Dependencies`.
fn listed_dependencies(architecture: &str) -> impl Iterator<Item = &str> {
    let section = architecture
        .split_once("\n## Dependencies\n")
        .map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
}

/// Nothing names a folder of the machine that it was written on.
pub(crate) fn machine_paths(project: &Project) -> Vec<Finding> {
    // Put together here so that this file does not find itself.
    let folders = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/t", "mp/"),
    ];
    let mut findings = Vec::new();
    for (path, text) in &project.files {
        for folder in folders {
            for at in text.match_indices(folder).map(|(at, _)| at) {
                // What goes on from a word, a dot or a placeholder is no absolute path.
                let before = text[..at].chars().next_back().unwrap_or(' ');
                if !is_word(before) && before != '.' && before != '}' {
                    findings.push(format!(
                        "{path}:{}: a path of one machine: {folder}",
                        line_of(text, at)
                    ));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    const COMMANDS: &str =
        "# Commands\n\n## shardgraph solve\n\nText.\n\n## shardgraph two-words eval\n";

    #[test]
    fn commands_that_do_not_exist_are_found() {
        let found = |line: &str| {
            commands(&planted(&[
                (REFERENCE, COMMANDS),
                ("benches/regal/fig2.toml", ""),
                ("README.md", line),
            ]))
            .len()
        };
        for good in [
            "`cargo xtask ci` and `cargo xtask <command>`",
            "`shardgraph solve karate`, shardgraph nothing",
            "```\ncargo run --release -- two-words x\n```",
            "```\ncargo xtask repro regal fig2 --test\ncargo xtask bench regal/fig2\ncargo bench -- anything\n```",
            "`shardgraph --help`",
        ] {
            assert_eq!(found(good), 0, "{good}");
        }
        for bad in [
            "`cargo xtask nothing`",
            "`shardgraph place x`",
            "```\ncargo run --release -- nothing karate\n```",
            "```sh\n./target/release/shardgraph nothing\n```",
            "`cargo xtask repro nothing`",
            "`cargo xtask repro regal fig3`",
            "`cargo xtask bench nothing`",
        ] {
            assert_eq!(found(bad), 1, "{bad}");
        }
    }

    #[test]
    fn dependencies_without_a_line_are_found_and_lines_without_a_dependency() {
        let manifest =
            "[workspace.dependencies]\nshardgraph-a = { path = 'a' }\nb = '1'\nc = '1'\n";
        let pages = "# A\n\n## Dependencies\n\n| crate | for |\n|---|---|\n| `b` | x |\n| `d` | y |\n\n## Next\n\n| `c` |\n";
        let project = planted(&[("Cargo.toml", manifest), ("ARCHITECTURE.md", pages)]);
        let findings = dependencies(&project).unwrap();
        assert_eq!(findings.len(), 2);
        assert!(findings[0].contains("`c` has no line") && findings[1].contains("`d` is not"));
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let bad = format!("see {}x and https://host{0}x", concat!("/ho", "me/"));
        assert_eq!(machine_paths(&planted(&[("a.md", &bad)])).len(), 1);
        let fine = "/proc/meminfo and ../shared/data";
        assert!(machine_paths(&planted(&[("a.rs", fine)])).is_empty());
    }
}
