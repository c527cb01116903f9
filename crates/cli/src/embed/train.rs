//! `shardgraph embed GRAPH`: trains and writes an embedding.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_device::{Device, Timer};
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::{Config, Store, Trained, train};

use super::import::{ImportFlags, Opened};
use super::settings::SettingsArgs;
use crate::graph_argument::GraphArgs;
use crate::output_file;
use crate::progress::Progress;
use crate::report::ReportArgs;

/// Embed the nodes of a graph
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    import: ImportFlags,
    #[command(flatten)]
    settings: SettingsArgs,
    /// The file to write
    #[arg(long, value_name = "FILE", required = true)]
    out: PathBuf,
    /// Its form: npy, word2vec-text, word2vec-binary or safetensors [default: by its name]
    #[arg(long, value_name = "FORM")]
    output_format: Option<FileFormat>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    nodes: u32,
    edges: u64,
    directed: bool,
    weighted: bool,
    parts: u32,
    #[serde(flatten)]
    config: &'a Config,
    first_rate: f32,
    columns: usize,
    samples: u64,
    seconds: f64,
    samples_per_s: f64,
    bytes_per_sample: f64,
    load_seconds: f64,
    out: &'a Path,
}

/// Imports, trains, writes and prints the answer.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let config = args.settings.config(args.graph.seed())?;
    output_file::check(&args.out, args.graph.file())?;
    let timer = Timer::start(&Device::host());
    let opened = Opened::new(&args.graph, &args.import, args.settings.parts, &args.out)?;
    let load_seconds = timer.elapsed_s();
    let store = &opened.store;
    if store.is_directed() && config.order.is_first_too() {
        args.report
            .note("order 1 takes directed edges in both directions");
    }
    let trained = trained(store, &config, &args.report)?;
    formats::write(&args.out, &trained.embedding, args.output_format)?;
    args.report.note(&format!("wrote {}", args.out.display()));
    args.report.answer(&Answer {
        nodes: store.n_nodes(),
        edges: store.n_edges(),
        directed: store.is_directed(),
        weighted: store.is_weighted(),
        parts: store.n_parts(),
        first_rate: config.first_rate(),
        columns: trained.embedding.dim(),
        samples: trained.n_samples,
        seconds: trained.seconds,
        samples_per_s: trained.samples_per_s(),
        bytes_per_sample: config.bytes_per_sample(),
        config: &config,
        load_seconds,
        out: &args.out,
    })
}

fn trained(store: &Store, config: &Config, report: &ReportArgs) -> anyhow::Result<Trained> {
    // Thousandths of the run: its length in samples is known only once it runs.
    let mut show = Progress::new(report, 1000);
    let trained = train(store, config, &Device::host(), &mut |progress| {
        let done = progress.samples * 1000 / progress.n_samples.max(1);
        show.update(done, || "thousandths of the samples".to_owned());
    })?;
    Ok(trained)
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "edges {}", self.edges)?;
        writeln!(f, "columns {}", self.columns)?;
        writeln!(f, "parts {}", self.parts)?;
        writeln!(f, "threads {}", self.config.threads)?;
        writeln!(f, "learning rate {}", self.first_rate)?;
        writeln!(f, "samples {}", self.samples)?;
        writeln!(f, "seconds {:.6}", self.seconds)?;
        writeln!(f, "samples per second {:.0}", self.samples_per_s)?;
        writeln!(f, "load seconds {:.6}", self.load_seconds)?;
        writeln!(f, "embedding file {}", self.out.display())
    }
}
