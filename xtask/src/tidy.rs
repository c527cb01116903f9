//! `cargo xtask tidy`: the rules of this project that no compiler checks. Also a test.

mod code;
mod documents;
mod imports;
mod kernels;
mod members;
mod numbers;
mod record;
mod sentences;
mod signatures;
mod sources;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use lexopt::prelude::*;

use crate::project::Project;

/// A rule that is broken, as `path:line: what to do about it`.
pub(crate) type Finding = String;

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let mut record = false;
    while let Some(arg) = args.next()? {
        match arg {
            Long("record") => record = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if record {
        record::lower(&Project::load()?)?;
    }
    let findings = findings(&Project::load()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs every check.
pub(crate) fn findings(project: &Project) -> Result<Vec<Finding>> {
    let members = project.members()?;
    let mut findings = Vec::new();
    findings.extend(sources::heads(project));
    findings.extend(sources::banned_words(project));
    findings.extend(sources::forbid_unsafe(project, &members));
    findings.extend(members::names(&members));
    findings.extend(members::lints(&members));
    findings.extend(members::arrows(&members));
    findings.extend(members::shared_versions(&members));
    findings.extend(record::findings(project)?);
    findings.extend(words::findings(project)?);
    findings.extend(kernels::names(project)?);
    findings.extend(documents::commands(project));
    findings.extend(documents::dependencies(project)?);
    findings.extend(documents::machine_paths(project));
    findings.extend(numbers::findings(project));
    findings.extend(sentences::findings(project));
    Ok(findings)
}

#[cfg(test)]
fn planted(files: &[(&str, &str)]) -> Project {
    let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    Project {
        files: files.iter().map(owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        let findings = findings(&Project::load().unwrap()).unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
