//! `shardgraph embed picture`: an embedding on the plane of its two principal axes.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::nodes::{Classes, plane, svg};
use shardgraph_storage::write_atomic;

use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;
use crate::text::Layout;

const EXAMPLE: &str = "\
Example:
  shardgraph embed picture --model votes.npy --classes groups.csv --out votes.svg

The picture is SVG; each node's label shows under the pointer, and beside its dot where there are
at most 64 nodes and room. A browser prints it, and tools such as rsvg-convert make a PNG of it.";

/// Draw an embedding along its two principal axes, as SVG
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PictureArgs {
    /// A trained model: an embedding
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Its form: npy, npz, word2vec-text, word2vec-binary, safetensors or csv [default: by its name]
    #[arg(long, value_name = "FORM")]
    embedding_format: Option<FileFormat>,
    /// A file of nodes and their classes: the first of a node is its colour
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Nodes to show at most, drawn at random; the axes are those of these nodes
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    points: usize,
    /// Seed of all that is random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// File to write: .svg
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    nodes: usize,
    points: usize,
    variance_shares: [f64; 2],
    out: &'a Path,
}

/// Reads, draws and prints the answer.
pub(crate) fn run(args: &PictureArgs) -> anyhow::Result<()> {
    let wrong = |what: &str| BadInput(format!("{}: {what}", args.out.display()));
    if args.out.extension().is_none_or(|ending| ending != "svg") {
        return Err(wrong("pictures are SVG: name a .svg file").into());
    }
    if args.points == 0 {
        return Err(BadInput("points = 0: expected 1 or more".to_owned()).into());
    }
    let inputs = [Some(args.model.as_path()), args.classes.as_deref()];
    output_file::check(&args.out, inputs.into_iter().flatten())?;
    let embedding = formats::read(&args.model, args.embedding_format)?;
    let read = |path: &PathBuf| Classes::read(path, embedding.labels());
    let classes = args.classes.as_ref().map(read).transpose()?;
    let plane = plane(&embedding, args.points, args.seed);
    let picture = svg(&plane, &embedding, classes.as_ref());
    write_atomic(&args.out, |out| out.write_all(picture.as_bytes()))
        .map_err(|error| wrong(&format!("cannot write: {error}")))?;
    args.report.answer(
        &Answer {
            nodes: embedding.n_nodes(),
            points: plane.nodes.len(),
            variance_shares: plane.shares,
            out: &args.out,
        },
        &Layout::first("points"),
    )
}
