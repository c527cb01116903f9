//! `shardgraph embed picture`: an embedding on the plane of its two principal axes.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_graph::write_atomic;
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::nodes::{Classes, plane, write_png, write_svg};

use crate::exit::BadInput;
use crate::output_file;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Example:
  shardgraph embed picture --embedding votes.npy --classes groups.csv --out votes.svg

A .svg picture has the nodes' labels as titles; a .png picture has 1600 x 1600 pixels.";

/// Draw an embedding along its two principal axes, as SVG or PNG
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct PictureArgs {
    /// The embedding
    #[arg(long, value_name = "FILE")]
    embedding: PathBuf,
    /// Its form: npy, word2vec-text, word2vec-binary or safetensors [default: by its name]
    #[arg(long, value_name = "FORM")]
    embedding_format: Option<FileFormat>,
    /// Colour the nodes by the first of their classes in this file
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Nodes to show at most, drawn at random; the axes are those of these nodes
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    points: usize,
    /// Seed of the draw
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// The file to write, .svg or .png
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
    let is_png = match args.out.extension().and_then(OsStr::to_str) {
        Some("svg") => false,
        Some("png") => true,
        _ => return Err(wrong("pictures are SVG or PNG: name a .svg or .png file").into()),
    };
    if args.points == 0 {
        return Err(BadInput("points = 0: expected 1 or more".to_owned()).into());
    }
    let inputs = [Some(args.embedding.as_path()), args.classes.as_deref()];
    output_file::check(&args.out, inputs.into_iter().flatten())?;
    let embedding = formats::read(&args.embedding, args.embedding_format)?;
    let read = |path: &PathBuf| Classes::read(path, embedding.labels());
    let classes = args.classes.as_ref().map(read).transpose()?;
    let plane = plane(&embedding, args.points, args.seed);
    write_atomic(&args.out, |out| match is_png {
        true => write_png(&plane, classes.as_ref(), out),
        false => write_svg(&plane, &embedding, classes.as_ref(), out),
    })
    .map_err(|error| wrong(&format!("cannot write: {error}")))?;
    args.report.answer(&Answer {
        nodes: embedding.n_nodes(),
        points: plane.nodes.len(),
        variance_shares: plane.shares,
        out: &args.out,
    })
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.variance_shares;
        writeln!(f, "nodes {}", self.nodes)?;
        writeln!(f, "points {}", self.points)?;
        writeln!(f, "share of the variance {first:.4} {second:.4}")?;
        writeln!(f, "picture {}", self.out.display())
    }
}
