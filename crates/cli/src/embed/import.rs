//! `shardgraph embed import`: a graph in buckets, once for many trainings; and the same for a single one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_line::{
    Config, DeviceMemory, ImportOptions, ImportProgress, ImportStage, Imported, Store,
    has_unfinished_run, import_scratch, import_stream, lock_work_folder,
};
use shardgraph_storage::write_atomic;

use crate::exit::BadInput;
use crate::graph_argument::GraphArgs;
use crate::peak_memory::program_bytes;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::text::Layout;
use crate::{output_file, quantity};

const EXAMPLE: &str = "\
Examples:
  shardgraph embed import follows.txt.gz --directed --memory-limit 4GiB --out follows.store
  shardgraph embed import ba:1000000:4 --out ba.store --format json

An import of a file that was killed once it had read it goes on from there when it is started
again. Then `shardgraph embed follows.store --out follows.npy` trains on it.";

/// How a graph is taken in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Importing")]
pub(crate) struct ImportFlags {
    /// Directions count; order 1 takes edges in both all the same
    #[arg(long)]
    directed: bool,
    /// Memory that this process may hold: in preprocessing, and in training with --work
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "4GiB")]
    pub(crate) memory_limit: u64,
}

/// Deal a graph's edges to buckets, in a file that can be trained on
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    import: ImportFlags,
    /// Parts of each table, a power of two [default: 16, fewer for less than 4096 nodes, up to 128 for more than 196608, more for tables beyond --memory-limit]
    #[arg(long, value_name = "N")]
    parts: Option<u32>,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: String,
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
    output_file::check_file(&args.out, args.graph.file())?;
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
    note(&args.report, &imported);
    args.report.answer(
        &Answer {
            graph: args.graph.argument(),
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
        },
        &Layout::first("edges"),
    )
}

impl ImportFlags {
    fn options(&self, graph: &GraphArgs, parts: Option<u32>) -> ImportOptions {
        ImportOptions {
            directed: self.directed,
            weighted: graph.is_weighted(),
            parts,
            memory: self.beside_program(),
            source: graph.source_key(),
            ..ImportOptions::default()
        }
    }
}

impl ImportFlags {
    /// What importing may hold: less the program itself, where that leaves half and more.
    fn beside_program(&self) -> u64 {
        let left = self
            .memory_limit
            .checked_sub(program_bytes(DeviceKind::Host));
        let left = left.filter(|&left| left >= self.memory_limit / 2);
        left.unwrap_or(self.memory_limit)
    }

    /// For a run of these settings.
    fn training_options(
        &self,
        graph: &GraphArgs,
        parts: PartsArgs,
        config: &Config,
    ) -> ImportOptions {
        ImportOptions {
            row_bytes: config.row_bytes(),
            device: parts.device,
            ..self.options(graph, parts.parts)
        }
    }
}

/// Parts of a graph that is imported to be trained on.
#[derive(Clone, Copy)]
pub(crate) struct PartsArgs {
    /// As the user says.
    pub(crate) parts: Option<u32>,
    /// Memory of the device that has all tables; none on the host, and for tables on disk.
    pub(crate) device: Option<DeviceMemory>,
}

/// Progress in thousandths of a stage; while edges are read nobody knows how many there are.
struct Show(Progress);

impl Show {
    fn new(report: &ReportArgs) -> Show {
        Show(Progress::new(report, 1000, "thousandths"))
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
    parts: PartsArgs,
    config: &Config,
    near: &Path,
    report: &ReportArgs,
) -> anyhow::Result<Store> {
    if let Some(path) = graph.file().filter(|path| Store::is_store(path)) {
        if flags.directed || graph.is_weighted() || parts.parts.is_some() {
            let what = "directed, weighted and parts were settled when it was imported";
            return Err(BadInput(format!("{}: {what}", path.display())).into());
        }
        return Ok(Store::open(path)?);
    }
    let options = flags.training_options(graph, parts, config);
    let feed = graph.feed(options.id_bytes(), options.directed)?;
    let mut show = Show::new(report);
    let imported = import_scratch(near, &options, &mut |progress| show.step(progress), feed);
    drop(show);
    let (store, imported) = imported?;
    note(report, &imported);
    Ok(store)
}

fn note(report: &ReportArgs, imported: &Imported) {
    if imported.n_nodes == 0 {
        report.warning("the graph is empty");
    }
    let (loops, zeros) = (imported.self_loops_dropped, imported.zero_weights);
    if loops + zeros > 0 {
        report.note(&format!(
            "dropped {loops} self-loops; {zeros} edges have weight 0"
        ));
    }
}

/// A graph in buckets that stays in the folder of a run until the run is over: one that goes on does not read its text again.
pub(crate) struct KeptStore {
    store: PathBuf,
    /// Says of which file, taken in how. Written before the store is.
    origin: PathBuf,
}

impl KeptStore {
    fn of(work: &Path) -> KeptStore {
        KeptStore {
            store: work.join("graph-of-run.store"),
            origin: work.join("graph-of-run.txt"),
        }
    }

    /// Whether it is there, of the graph that `origin` describes. Nothing is changed; what a run that was broken off stands on is not replaced.
    fn is_of(&self, work: &Path, origin: &str) -> Result<bool, BadInput> {
        let (path, is_there) = (self.origin.display(), self.store.exists());
        let Ok(found) = std::fs::read_to_string(&self.origin) else {
            let store = self.store.display();
            return match is_there {
                true => Err(BadInput(format!(
                    "{store}: not of a run here: take another folder"
                ))),
                false => Ok(false),
            };
        };
        if !found.starts_with(ORIGIN) {
            return Err(BadInput(format!(
                "{path}: not of a run here: take another folder"
            )));
        }
        if found == origin {
            return Ok(is_there);
        }
        if has_unfinished_run(work) {
            let what = "a run was broken off here on another graph, on this file before it changed, or with other --memory-limit, --parts or directions";
            let then =
                "take another folder, or remove graph-of-run.* to read this graph for that run";
            return Err(BadInput(format!("{path}: {what}: {then}")));
        }
        Ok(false)
    }

    /// Says of which graph the store will be, and makes way for it.
    fn begin(&self, origin: &str) -> anyhow::Result<()> {
        gone(&self.store)?;
        write_atomic(&self.origin, |out| out.write_all(origin.as_bytes()))
            .with_context(|| format!("cannot write {}", self.origin.display()))
    }

    /// Removes it, once the run is over.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        gone(&self.store)?;
        gone(&self.origin)
    }
}

/// Removes a file, if it is there.
fn gone(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The first words of a file that says of which graph a kept store is.
const ORIGIN: &str = "The graph of a run of shardgraph embed:";

/// Of which file, taken in how.
fn origin(source: &str, options: &ImportOptions) -> String {
    let how = (options.directed, options.weighted, options.parts);
    let sizes = (options.memory, options.row_bytes);
    format!("{ORIGIN} {source}\n{how:?} {sizes:?}\n")
}

/// As [`opened`]; the import of a file is kept in the folder `work`, or found there.
pub(crate) fn kept(
    graph: &GraphArgs,
    flags: &ImportFlags,
    parts: PartsArgs,
    config: &Config,
    work: &Path,
    report: &ReportArgs,
) -> anyhow::Result<(Store, Option<KeptStore>)> {
    let options = flags.training_options(graph, parts, config);
    let is_store = graph.file().is_some_and(Store::is_store);
    let Some(source) = options.source.as_ref().filter(|_| !is_store) else {
        return Ok((
            opened(graph, flags, parts, config, &work.join("edges"), report)?,
            None,
        ));
    };
    // Not two processes at once, for as long as the import takes; training locks the folder itself.
    let _lock = lock_work_folder(work)?;
    let (kept, origin) = (KeptStore::of(work), origin(source, &options));
    if kept.is_of(work, &origin)? {
        report.note("the graph was read by a run that was broken off");
        return Ok((Store::open(&kept.store)?, Some(kept)));
    }
    let feed = graph.feed(options.id_bytes(), options.directed)?;
    kept.begin(&origin)?;
    let mut show = Show::new(report);
    let imported = import_stream(
        &kept.store,
        &options,
        &mut |progress| show.step(progress),
        feed,
    );
    drop(show);
    if imported.is_err() {
        let _ = std::fs::remove_file(&kept.origin); // the error is what matters
    }
    note(report, &imported?);
    Ok((Store::open(&kept.store)?, Some(kept)))
}
