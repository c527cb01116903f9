//! `cargo xtask repro train-default`: trains the shipped policies again and compares the files.
//!
//! The commands and the pairs of files stand in `benches/repro/train-default.toml`.

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

const DEFINITION: &str = "benches/repro/train-default.toml";

/// A training command, the file that it makes and the one that the project ships.
struct Pair {
    command: Vec<String>,
    made: String,
    shipped: String,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let table = toml::read(&project::root().join(DEFINITION))?;
    let pairs = pairs(&table)?;
    let program = process::build_shardgraph()?;
    let mut n_different = 0;
    for pair in &pairs {
        let scratch = fresh_scratch("train-default")?;
        let words = substitute(&pair.command, &places(&scratch, &Substitutions::new()))?;
        let mut train = process::command(&program);
        println!("$ {}", process::shown(train.args(&words)));
        process::check(&mut train)?;
        n_different += u32::from(!settle(pair, &scratch, &project::root(), options.accept)?);
    }
    println!(
        "train-default: {} of {} files differ",
        n_different,
        pairs.len()
    );
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
        Ok(Pair {
            command: strings(row, "command")?,
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
    fn the_definition_reads() {
        let table = toml::read(&project::root().join(DEFINITION)).unwrap();
        let pairs = pairs(&table).unwrap();
        assert!(!pairs.is_empty());
        for Pair { command, .. } in pairs {
            assert_eq!(command[0], "train");
            assert!(command.iter().any(|word| word.contains("{scratch}")));
        }
    }

    #[test]
    fn files_that_differ_are_found_and_can_be_accepted() {
        let folder = project::target().join(format!("xtask-settle-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("made"), "new").unwrap();
        let pair = Pair {
            command: Vec::new(),
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
