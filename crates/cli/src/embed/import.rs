//! `shardgraph embed import`: a graph in buckets, once for many trainings; and the same for a single one.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_line::{
    Config, ImportOptions, ImportProgress, ImportStage, Store, import_scratch, import_stream,
};

use crate::exit::BadInput;
use crate::graph_argument::GraphArgs;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::peak_memory::program_bytes;
use crate::{output_file, quantity};

const EXAMPLE: &str = "\
Examples:
  shardgraph embed import follows.txt.gz --directed --memory 4GiB --out follows.store
  shardgraph embed import ba:1000000:4 --out ba.store --format json

An import of a file that was killed once it had read it goes on from there when it is started again.
Then `shardgraph embed follows.store --out follows.npy` trains on it.";

/// How a graph is taken in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Importing")]
pub(crate) struct ImportFlags {
    /// Directions count; order 1 takes edges in both all the same
    #[arg(long)]
    directed: bool,
    /// What importing, and training with --work, may hold in memory
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
    /// Parts of each table, a power of two [default: 16, fewer for less than 4096 nodes, more for tables beyond --memory]
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
    self_loops_dropped: u64,
    zero_weights: u64,
    file_bytes: u64,
    memory_bytes: u64,
    seconds: f64,
    resumed: bool,
    out: &'a Path,
}

/// Imports and prints the answer.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    output_file::check(&args.out, args.graph.file())?;
    let timer = Timer::start(&Device::host());
    let options = args.import.options(&args.graph, args.parts);
    let feed = args.graph.feed(options.id_bytes(), options.directed)?;
    let mut show = Show::new(&args.report);
    let imported = import_stream(
        &args.out,
        &options,
        &mut |progress| show.step(progress),
        feed,
    )?;
    drop(show);
    args.report.answer(&Answer {
        nodes: imported.n_nodes,
        edges: imported.n_edges,
        parts: imported.n_parts,
        self_loops_dropped: imported.self_loops_dropped,
        zero_weights: imported.zero_weights,
        file_bytes: imported.file_bytes,
        memory_bytes: imported.memory,
        seconds: timer.elapsed_s(),
        resumed: imported.is_resumed,
        out: &args.out,
    })
}

impl ImportFlags {
    fn options(&self, graph: &GraphArgs, parts: Option<u32>) -> ImportOptions {
        ImportOptions {
            directed: self.directed,
            weighted: graph.is_weighted(),
            parts,
            // What is left beside the program, but an eighth at least: nodes that do not fit are refused by it.
            memory: self.memory.saturating_sub(program_bytes()).max(self.memory / 8),
            source: graph.source_key(),
            ..ImportOptions::default()
        }
    }
}

/// Progress in thousandths of a stage; while edges are read nobody knows how many there are.
struct Show(Progress);

impl Show {
    fn new(report: &ReportArgs) -> Show {
        Show(Progress::new(report, 1000))
    }

    fn step(&mut self, progress: ImportProgress) {
        let n_edges = progress.n_edges.unwrap_or(u64::MAX / 1000);
        let done = progress.edges.saturating_mul(1000) / n_edges.max(1);
        let stage = match progress.stage {
            ImportStage::Reading => "reading",
            ImportStage::Numbering => "numbering text ids",
            ImportStage::Counting => "counting",
            _ => "dealing",
        };
        self.0
            .update(done, || format!("{stage}, {} edges", progress.edges));
    }
}

/// Opens GRAPH where it is a store; imports it otherwise, to a scratch file beside `near` that has no name any more.
pub(crate) fn opened(
    graph: &GraphArgs,
    flags: &ImportFlags,
    (parts, config): (Option<u32>, &Config),
    near: &Path,
    report: &ReportArgs,
) -> anyhow::Result<Store> {
    if let Some(path) = graph.file().filter(|path| Store::is_store(path)) {
        if flags.directed || graph.is_weighted() || parts.is_some() {
            let what = "directed, weighted and parts were settled when it was imported";
            return Err(BadInput(format!("{}: {what}", path.display())).into());
        }
        return Ok(Store::open(path)?);
    }
    let options = ImportOptions {
        row_bytes: config.row_bytes(),
        least_rows: config.least_rows(),
        ..flags.options(graph, parts)
    };
    let feed = graph.feed(options.id_bytes(), options.directed)?;
    let mut show = Show::new(report);
    let imported = import_scratch(near, &options, &mut |progress| show.step(progress), feed);
    drop(show);
    let (store, imported) = imported?;
    let (loops, zeros) = (imported.self_loops_dropped, imported.zero_weights);
    if loops + zeros > 0 {
        report.note(&format!(
            "dropped {loops} self-loops; {zeros} edges have weight 0"
        ));
    }
    Ok(store)
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "parts {}", self.parts)?;
        writeln!(f, "self-loops dropped {}", self.self_loops_dropped)?;
        writeln!(f, "edges of weight 0 {}", self.zero_weights)?;
        writeln!(f, "file bytes {}", self.file_bytes)?;
        writeln!(f, "memory bytes {}", self.memory_bytes)?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        if self.resumed {
            writeln!(f, "edges were read by an import that was killed")?;
        }
        writeln!(f, "store {}", self.out.display())
    }
}
