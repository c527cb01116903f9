//! The commands of README.md and docs/use: every block of `sh` is run as a reader would paste it, in one folder a page.
//!
//! What a block needs beside the program stands behind its `sh`: `needs=NAME` is a program on the path, `slow` is not run here. A
//! download (`curl -LO URL`) is taken from the data folder beside the checkout. Lines of `cargo` and `git` are for the checkout; where
//! they run a command of the program, that is run. What is not run is printed and counted. A block of `text` behind one of `sh` shows
//! some of its output: each line's words must come in the output, in that order; its numbers may be others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::finish;

/// A fenced block: what stands behind its fence, its lines, and the line where it begins.
struct Block {
    info: String,
    lines: Vec<String>,
    at: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            if !is_open {
                blocks.push(Block {
                    info: info.trim().to_owned(),
                    lines: Vec::new(),
                    at: index + 1,
                });
            }
            is_open = !is_open;
        } else if is_open && let Some(block) = blocks.last_mut() {
            block.lines.push(line.to_owned());
        }
    }
    blocks
}

/// What became of a block.
enum Outcome {
    Ran { output: String },
    Skipped(String),
}

/// Why a block is not run here, if so.
fn obstacle(block: &Block) -> Option<String> {
    for word in block.info.split_whitespace().skip(1) {
        match word.split_once('=') {
            Some(("needs", program)) if !is_on_path(program) => {
                return Some(format!("no program {program}"));
            }
            Some(("needs", _)) => {}
            _ if word == "slow" => return Some("it is slow".to_owned()),
            _ => panic!("a block of `sh` does not know `{word}`"),
        }
    }
    None
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A file of this name anywhere below the data folder.
fn data(name: &str, folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let is_it = |path: &&PathBuf| path.file_name().is_some_and(|found| found == name);
    let here = paths.iter().find(is_it).cloned();
    here.or_else(|| {
        let mut folders = paths.iter().filter(|path| path.is_dir());
        folders.find_map(|path| data(name, path))
    })
}

/// The lines that a shell runs here; `Err` says what is missing.
fn script(block: &Block, folder: &Path) -> Result<Vec<String>, String> {
    let mut script = Vec::new();
    for line in &block.lines {
        if let Some(url) = line.strip_prefix("curl -LO ") {
            let name = url.rsplit('/').next().unwrap_or_default();
            let file = data(name, &root().join("../shared/data"));
            let file = file.ok_or_else(|| format!("no file {name}"))?;
            fs::copy(file, folder.join(name)).unwrap();
        } else if let Some(rest) = line.strip_prefix("cargo run --release -- ") {
            script.push(format!("shardgraph {rest}"));
        } else if line.starts_with("cargo ") || line.starts_with("git ") {
            println!("SKIPPED: {line} (it needs the checkout)");
        } else {
            script.push(line.clone());
        }
    }
    Ok(script)
}

fn run_block(block: &Block, folder: &Path) -> Outcome {
    let lines = match obstacle(block) {
        Some(reason) => Err(reason),
        None => script(block, folder),
    };
    let lines = match lines {
        Ok(lines) if lines.is_empty() => {
            return Outcome::Skipped("it needs the checkout".to_owned());
        }
        Ok(lines) => lines,
        Err(reason) => return Outcome::Skipped(reason),
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_shardgraph"));
    let folders = binary.parent().into_iter().map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
    let run = finish(
        Command::new("sh")
            .args(["-e", "-c", &lines.join("\n")])
            .current_dir(folder)
            .env("PATH", path)
            .stdin(Stdio::null()),
    );
    assert_eq!(run.code, Some(0), "line {}: {lines:?}\n{run:?}", block.at);
    Outcome::Ran { output: run.stdout }
}

/// Words without digits, so that a page need not change with a time or a seed.
fn words(line: &str) -> Vec<&str> {
    let words = line.split_whitespace();
    words
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Whether the words come in this order in the line.
fn shows(output: &str, shown: &str) -> bool {
    let mut output = words(output).into_iter();
    words(shown)
        .iter()
        .all(|word| output.any(|next| next == *word))
}

/// Runs the blocks of a page one after the other; counts what ran and what did not.
fn run_page(path: &Path) -> (usize, usize) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = tempfile::tempdir().unwrap();
    let (mut n_run, mut n_skipped) = (0, 0);
    let mut last = None;
    for block in blocks(&fs::read_to_string(path).unwrap()) {
        if block.info.split_whitespace().next() == Some("sh") {
            match run_block(&block, folder.path()) {
                Outcome::Ran { output } => {
                    n_run += 1;
                    last = Some(output);
                }
                Outcome::Skipped(reason) => {
                    println!("SKIPPED: {name}, line {} ({reason})", block.at);
                    n_skipped += 1;
                    last = None;
                }
            }
        } else if block.info == "text"
            && let Some(output) = last.take()
        {
            let mut lines = output.lines();
            for shown in &block.lines {
                assert!(
                    lines.any(|line| shows(line, shown)),
                    "{name}, line {}: the program does not print `{shown}`, or not there:\n{output}",
                    block.at
                );
            }
        }
    }
    (n_run, n_skipped)
}

#[test]
fn commands_of_the_pages_work() {
    let mut pages = vec![root().join("README.md")];
    let entries = fs::read_dir(root().join("docs/use")).unwrap();
    pages.extend(entries.map(|entry| entry.unwrap().path()));
    pages.sort();
    let mut n_run = 0;
    for page in &pages {
        let (run, skipped) = run_page(page);
        println!("{}: {run} blocks run, {skipped} skipped", page.display());
        n_run += run;
    }
    assert!(
        n_run >= pages.len(),
        "{n_run} blocks on {} pages",
        pages.len()
    );
}

#[test]
fn words_of_the_output_are_compared_and_its_numbers_are_not() {
    assert!(shows("mean return 202.350", "mean return 9"));
    assert!(shows("ben\t6.7\tknown", "ben known"));
    assert!(!shows("mean return 202.350", "mean reward 202.350"));
    assert!(!shows("known ben", "ben known"));
    let found = blocks("a\n```sh slow\nx y\n```\n```text\nz\n```\n");
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].info.as_str(), found[0].at), ("sh slow", 2));
    assert_eq!(found[1].lines, ["z"]);
    assert!(obstacle(&found[0]).is_some());
}

/// All files below some folders, as paths from the root.
fn sources(folders: &[&str]) -> Vec<String> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        match path.is_dir() && !path.ends_with("target") {
            true => open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            ),
            false => found.push(path.to_str().unwrap().to_owned()),
        }
    }
    found
}

#[test]
fn source_files_that_the_architecture_names_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sources = sources(&["crates", "cuda", "xtask", "tests", "benches"]);
    let quoted = text.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted
        .filter(|word| {
            [".rs", ".cu", ".cuh", ".cpp"]
                .iter()
                .any(|end| word.ends_with(end))
        })
        .filter(|word| !word.contains([' ', '*']))
        .collect();
    assert!(named.len() >= 10, "{named:?}");
    for name in named {
        let end = format!("/{name}");
        assert!(sources.iter().any(|path| path.ends_with(&end)), "{name}");
    }
}
