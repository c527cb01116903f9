//! `cargo xtask report`: a record as one HTML file that needs no script, no other file and no network.

use std::path::PathBuf;

use anyhow::Result;
use shardgraph_records::report;

/// What the flags say.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Record, such as opengraphgym-mg/fig9, its folder or its latest.json
    record: PathBuf,
    /// Another record, to which ratios are taken
    #[arg(long, value_name = "RECORD")]
    against: Option<PathBuf>,
    /// The file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let record = report::read(&args.record)?;
    let previous = args.against.as_deref().map(report::read).transpose()?;
    report::write(&record, previous.as_ref(), &args.out)?;
    println!("{}", args.out.display());
    Ok(())
}
