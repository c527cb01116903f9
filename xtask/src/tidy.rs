//! `cargo xtask tidy`: the rules of this project that no compiler checks. Also a test.

mod code;
mod documents;
mod imports;
mod kernels;
mod members;
mod numbers;
mod record;
mod sentences;
mod sources;

use std::process::ExitCode;

use anyhow::Result;

use crate::project::Project;

/// A rule that is broken, as `path:line: what to do about it`.
pub(crate) type Finding = String;

/// What the flags say.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lower the counts of xtask/tidy.toml first
    #[arg(long)]
    record: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.record {
        let project = Project::load()?;
        record::lower(&project, &code::sources(&project)?)?;
    }
    let findings = findings(&Project::load()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// Runs every check.
pub(crate) fn findings(project: &Project) -> Result<Vec<Finding>> {
    let members = project.members()?;
    let sources = code::sources(project)?;
    let record = record::Record::read(project)?;
    let checks = [
        sources::heads(project),
        sources::unfinished(&sources),
        sources::forbid_unsafe(&sources, &members),
        sources::words(&sources, &record),
        members::names(&members),
        members::lints(&members),
        members::arrows(&members, &members::allowed(project)?),
        members::shared_versions(&members),
        record::findings(project, &sources, &record),
        kernels::names(project)?,
        documents::commands(project),
        documents::dependencies(project)?,
        documents::machine_paths(project),
        numbers::findings(project),
        sentences::findings(project),
    ];
    Ok(checks.concat())
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
