//! `shardgraph completions` and `shardgraph man`: what shells and `man` read, made from the command line's own definition.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::BadInput;
use crate::report;

const COMPLETIONS_EXAMPLE: &str = "\
Examples:
  shardgraph completions bash > ~/.local/share/bash-completion/completions/shardgraph
  shardgraph completions zsh > ~/.zfunc/_shardgraph
  shardgraph completions fish > ~/.config/fish/completions/shardgraph.fish";

const MAN_EXAMPLE: &str = "\
Example:
  shardgraph man ~/.local/share/man/man1";

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLE)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write manual pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLE)]
pub(crate) struct ManArgs {
    /// The folder to write the pages to; it must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "shardgraph", &mut text);
    report::print(&String::from_utf8_lossy(&text))?;
    Ok(())
}

/// Writes the pages.
pub(crate) fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    if !args.folder.is_dir() {
        let text = format!("{}: there is no such folder", args.folder.display());
        return Err(BadInput(text).into());
    }
    clap_mangen::generate_to(command, &args.folder)
        .map_err(|error| BadInput(format!("{}: cannot write: {error}", args.folder.display())))?;
    Ok(())
}
