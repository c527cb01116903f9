//! `shardgraph embed import`: a graph in buckets, once for many trainings; and the same for a single one.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_line::{ImportOptions, Imported, Store, import_stream};

use crate::exit::BadInput;
use crate::graph_argument::GraphArgs;
use crate::report::ReportArgs;
use crate::{output_file, quantity};

const EXAMPLE: &str = "\
Examples:
  shardgraph embed import follows.txt.gz --directed --memory 4GiB --out follows.store
  shardgraph embed import ba:1000000:4 --out ba.store --format json

Then `shardgraph embed follows.store --out follows.npy` trains on it.";

/// How a graph is taken in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Importing")]
pub(crate) struct ImportFlags {
    /// Directions count; order 1 takes edges in both all the same
    #[arg(long)]
    directed: bool,
    /// What importing, and training with --work, may hold in memory, besides the reader's table of ids
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "4GiB")]
    pub(crate) memory: u64,
}

/// Deal a graph's edges to buckets, in a file that can be trained on
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    import: ImportFlags,
    /// Parts of each table, a power of two [default: 16, fewer for less than 4096 nodes]
    #[arg(long, value_name = "N")]
    parts: Option<u32>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    nodes: u32,
    edges: u64,
    parts: u32,
    file_bytes: u64,
    memory_bytes: u64,
    seconds: f64,
    out: &'a Path,
}

/// Imports and prints the answer.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    output_file::check(&args.out, args.graph.file())?;
    let timer = Timer::start(&Device::host());
    let imported = import(&args.graph, &args.import, args.parts, &args.out)?;
    args.report.answer(&Answer {
        nodes: imported.n_nodes,
        edges: imported.n_edges,
        parts: imported.n_parts,
        file_bytes: imported.file_bytes,
        memory_bytes: imported.memory,
        seconds: timer.elapsed_s(),
        out: &args.out,
    })
}

fn import(
    graph: &GraphArgs,
    flags: &ImportFlags,
    parts: Option<u32>,
    out: &Path,
) -> anyhow::Result<Imported> {
    let options = ImportOptions {
        directed: flags.directed,
        weighted: graph.is_weighted(),
        parts,
        memory: flags.memory,
        ..ImportOptions::default()
    };
    Ok(import_stream(out, &options, graph.feed()?)?)
}

/// A store that is opened, or made for this run alone.
pub(crate) struct Opened {
    pub(crate) store: Store,
    _scratch: Option<Scratch>,
}

impl Opened {
    /// Opens GRAPH where it is a store; imports it to a scratch file otherwise.
    pub(crate) fn new(
        graph: &GraphArgs,
        flags: &ImportFlags,
        parts: Option<u32>,
        scratch: &Path,
    ) -> anyhow::Result<Opened> {
        if let Some(path) = graph.file().filter(|path| Store::is_store(path)) {
            if flags.directed || graph.is_weighted() || parts.is_some() {
                let what = "directed, weighted and parts were settled when it was imported";
                return Err(BadInput(format!("{}: {what}", path.display())).into());
            }
            let store = Store::open(path)?;
            return Ok(Opened {
                store,
                _scratch: None,
            });
        }
        import(graph, flags, parts, scratch)?;
        // From here on dropping it removes the file.
        let scratch = Scratch(scratch.to_owned());
        Ok(Opened {
            store: Store::open(&scratch.0)?,
            _scratch: Some(scratch),
        })
    }
}

/// A file that goes away with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody can be told, and the answer is right all the same.
        let _ = fs::remove_file(&self.0);
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "parts {}", self.parts)?;
        writeln!(f, "file bytes {}", self.file_bytes)?;
        writeln!(f, "memory bytes {}", self.memory_bytes)?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(f, "store {}", self.out.display())
    }
}
