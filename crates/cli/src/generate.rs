//! `shardgraph generate`: a seeded random graph, or synthetic computation graphs, in a file.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use shardgraph_costgraph::Graph as CostGraph;
use shardgraph_costgraph_io::{write_cost_graph_text, write_jsonl};
use shardgraph_device::{Device, Timer};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Format, WriteOptions, WriteReport, write_graph};

use crate::costgraph_spec::{self, CostGraphSpec};
use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;
use crate::text::Layout;
use crate::world;

const EXAMPLE: &str = "\
Models: er:n:p  ba:n:m  ws:n:k:p  sbm:n:blocks:p_in:p_out  rb:cliques:size:p:r  cl:n:mean:exponent

Computation graphs for `shardgraph place`: costgraph:N or costgraph:N:MIN:MAX, N of them with MIN
to MAX ops. A .jsonl file holds any number, a .pbtxt file one.

Examples:
  shardgraph generate er:3000:0.15 --seed 1 --out random.mtx
  shardgraph generate costgraph:100 --seed 1 --out synthetic.jsonl";

/// Write a seeded random graph, or synthetic computation graphs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct GenerateArgs {
    /// Model and parameters, such as er:3000:0.15 or costgraph:100
    spec: Spec,
    /// Seed of all that is random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// File to write: .mtx, .el, .clq, .graph, .gr and .graphml (.jsonl and .pbtxt for
    /// computation graphs) choose the format, .gz and .zst after those of graphs compress
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Format of the file to write: matrix-market, edge-list, dimacs, metis, pace, gset, ml4co or graphml [default: by extension]
    #[arg(long, value_name = "FORMAT")]
    output_format: Option<Format>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What to generate.
#[derive(Debug, Clone)]
enum Spec {
    Graph(GeneratorSpec),
    CostGraphs(CostGraphSpec),
}

impl FromStr for Spec {
    type Err = BadInput;

    fn from_str(text: &str) -> Result<Self, BadInput> {
        if text.starts_with(costgraph_spec::PREFIX) {
            return Ok(Self::CostGraphs(text.parse()?));
        }
        let spec = text.parse::<GeneratorSpec>();
        let spec = spec.map_err(|error| BadInput(error.to_string()))?;
        Ok(Self::Graph(spec))
    }
}

/// What is printed. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct Answer {
    graph: String,
    seed: u64,
    nodes: u32,
    edges: u64,
    seconds: f64,
    format: &'static str,
    out: String,
}

/// Generates, writes and prints the answer.
pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    world::refuse_processes("generate", None)?;
    output_file::check_named(&args.out, None)?;
    match &args.spec {
        Spec::Graph(spec) => generate_graph(args, spec),
        Spec::CostGraphs(spec) => generate_cost_graphs(args, spec),
    }
}

fn generate_graph(args: &GenerateArgs, spec: &GeneratorSpec) -> anyhow::Result<()> {
    let format = output_file::graph_format(&args.out, args.output_format)?;
    let timer = Timer::start(&Device::host());
    let graph = spec.graph(args.seed)?;
    let options = WriteOptions {
        format: Some(format),
        ..WriteOptions::default()
    };
    let written: WriteReport = write_graph(&args.out, &graph, None, options)?;
    args.report.warning(&written.to_string());
    args.report.answer(
        &Answer {
            graph: spec.to_string(),
            seed: args.seed,
            nodes: graph.n_nodes(),
            edges: graph.n_edges(),
            seconds: timer.elapsed_s(),
            format: written.format.name(),
            out: args.out.display().to_string(),
        },
        &Layout::first("nodes"),
    )
}

/// What is printed of computation graphs. The fields are the keys of the JSON object.
#[derive(Serialize)]
struct CostGraphsAnswer {
    graph: String,
    seed: u64,
    graphs: usize,
    ops: usize,
    tensors: usize,
    edges: usize,
    seconds: f64,
    format: &'static str,
    out: String,
}

fn generate_cost_graphs(args: &GenerateArgs, spec: &CostGraphSpec) -> anyhow::Result<()> {
    let timer = Timer::start(&Device::host());
    let is_text = has_text_extension(&args.out, spec.n_graphs())?;
    if args.output_format.is_some() {
        let message = "--output-format has no name for computation graphs: leave it out";
        return Err(BadInput(message.into()).into());
    }
    let graphs = spec.graphs(args.seed)?;
    let write = |out: &mut dyn Write| -> io::Result<()> {
        let mut out = BufWriter::new(out);
        for graph in &graphs {
            let written = match is_text {
                true => write_cost_graph_text(graph, &mut out),
                false => write_jsonl(graph, &mut out),
            };
            written.map_err(io::Error::other)?;
        }
        out.flush()
    };
    output_file::write(&args.out, write)
        .map_err(|error| BadInput(format!("{}: cannot write: {error}", args.out.display())))?;
    let sum = |count: fn(&CostGraph) -> usize| graphs.iter().map(count).sum();
    args.report.answer(
        &CostGraphsAnswer {
            graph: spec.to_string(),
            seed: args.seed,
            graphs: graphs.len(),
            ops: sum(CostGraph::n_ops),
            tensors: sum(CostGraph::n_tensors),
            edges: sum(CostGraph::n_uses),
            seconds: timer.elapsed_s(),
            format: if is_text { "cost-graph-text" } else { "jsonl" },
            out: args.out.display().to_string(),
        },
        &Layout::first("ops"),
    )
}

/// True for CostGraphDef's text form, which holds one graph, false for JSON lines.
fn has_text_extension(out: &Path, n_graphs: usize) -> Result<bool, BadInput> {
    let extension = out.extension().and_then(|extension| extension.to_str());
    let wrong = |what: &str| Err(BadInput(format!("{}: {what}", out.display())));
    match extension {
        Some("jsonl") => Ok(false),
        Some("pbtxt") if n_graphs == 1 => Ok(true),
        Some("pbtxt") => {
            wrong("a .pbtxt file holds one graph: generate costgraph:1, or name a .jsonl file")
        }
        _ => wrong("expected a name in .jsonl, or in .pbtxt for one graph"),
    }
}
