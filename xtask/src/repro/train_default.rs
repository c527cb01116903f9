//! `cargo xtask repro train-default` and `regal-policies`: train the shipped policies again and compare the files.
//!
//! The commands and the pairs of files stand in `benches/repro/train-default.toml` and `regal-policies.toml`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::Options;
use crate::bench::{fresh_scratch, places};
use crate::definition::{Substitutions, string, strings, substitute};
use crate::process;
use crate::project;
use crate::toml::{self, Table, Value};

/// Training commands in the order of their running, the file that they make and the one that the project ships.
struct Pair {
    commands: Vec<Vec<String>>,
    made: String,
    shipped: String,
}

/// Runs `train-default`: the policies of the solver.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    remake("train-default", options)
}

/// Runs `regal-policies`: those of `place`.
pub(crate) fn regal(options: &Options) -> Result<ExitCode> {
    remake("regal-policies", options)
}

fn definition(name: &str) -> Result<Vec<Pair>> {
    let path = project::root().join(format!("benches/repro/{name}.toml"));
    pairs(&toml::read(&path)?)
}

fn remake(name: &str, options: &Options) -> Result<ExitCode> {
    let pairs = definition(name)?;
    let program = process::build_shardgraph()?;
    let mut n_different = 0;
    for pair in &pairs {
        let scratch = fresh_scratch(name)?;
        let places = places(&scratch, &Substitutions::new());
        for command in &pair.commands {
            let mut train = process::command(&program);
            train.args(substitute(command, &places)?);
            println!("$ {}", process::shown(&train));
            process::check(&mut train)?;
        }
        n_different += u32::from(!settle(pair, &scratch, &project::root(), options.accept)?);
    }
    println!("{name}: {n_different} of {} files differ", pairs.len());
    Ok(if n_different == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn pairs(table: &Table) -> Result<Vec<Pair>> {
    let rows = table
        .get("policy")
        .and_then(Value::as_array)
        .context("no [[policy]] in the definition")?;
    let pair = |row: &Value| {
        let row = row
            .as_table()
            .context("`policy` is to be an array of tables")?;
        let start = row.get("start").map(|_| strings(row, "start"));
        let commands = start.into_iter().chain([strings(row, "command")]);
        Ok(Pair {
            commands: commands.collect::<Result<_>>()?,
            made: string(row, "made")?,
            shipped: string(row, "shipped")?,
        })
    };
    rows.iter().map(pair).collect()
}

/// True if both files hold the same bytes, or were made to.
fn settle(pair: &Pair, scratch: &Path, root: &Path, accept: bool) -> Result<bool> {
    let made = scratch.join(&pair.made);
    let bytes = fs::read(&made).with_context(|| format!("training left no {}", made.display()))?;
    let shipped = root.join(&pair.shipped);
    let is_same = fs::read(&shipped).is_ok_and(|shipped| shipped == bytes);
    if is_same {
        println!("same bytes: {} and {}", pair.made, pair.shipped);
    } else if accept {
        fs::create_dir_all(shipped.parent().unwrap_or(root))?;
        fs::write(&shipped, &bytes).with_context(|| shipped.display().to_string())?;
        println!("replaced: {}", pair.shipped);
    } else {
        println!("DIFFERENT: {} and {}", made.display(), pair.shipped);
    }
    Ok(is_same || accept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_read() {
        for (name, first_words, n_commands) in [
            ("train-default", vec!["train"], vec![1; 7]),
            ("regal-policies", vec!["place", "train"], vec![2, 1, 1]),
        ] {
            let pairs = definition(name).unwrap();
            let lengths: Vec<usize> = pairs.iter().map(|pair| pair.commands.len()).collect();
            assert_eq!(lengths, n_commands);
            for Pair {
                commands, shipped, ..
            } in pairs
            {
                assert!(project::root().join(shipped).exists());
                for command in commands {
                    assert_eq!(command[..first_words.len()], first_words);
                    assert!(command.iter().any(|word| word.contains("{scratch}")));
                }
            }
        }
    }

    #[test]
    fn files_that_differ_are_found_and_can_be_accepted() {
        let folder = project::target().join(format!("xtask-settle-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("made"), "new").unwrap();
        let pair = Pair {
            commands: Vec::new(),
            made: "made".into(),
            shipped: "policies/shipped".into(),
        };
        let settle = |accept| settle(&pair, &folder, &folder, accept).unwrap();
        assert!(!settle(false));
        assert!(settle(true));
        assert!(settle(false));
        fs::write(folder.join("policies/shipped"), "old").unwrap();
        assert!(!settle(false));
        fs::remove_dir_all(&folder).unwrap();
    }
}
