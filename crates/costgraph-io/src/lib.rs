//! Files of computation graphs: one function reads seven formats, gzip and Zstandard by content, everything checked; writers of
//! `CostGraphDef`, JSON lines and whole problems.
//!
//! The format is the one asked for, else that of the extension (`.pb`, `.pbtxt`, `.onnx`, `.jsonl`, each also with `.gz` or
//! `.zst`), else what the content looks like. What was assumed or left out stands in the [`Report`].
//!
//! ```
//! use shardgraph_costgraph_io::{Format, ReadOptions, read_bytes};
//!
//! let text = b"node { name: 'a' output_info { size: 8 } compute_cost: 5 }
//!     node { name: 'b' id: 1 input_info { preceding_node: 0 } compute_cost: 7 }";
//! let graphs = read_bytes("tiny.pbtxt", text, &ReadOptions::default())?;
//! assert_eq!(graphs.format(), Format::CostGraphText);
//! let imported = graphs.single()?;
//! assert_eq!((imported.graph.n_ops(), imported.graph.n_uses()), (2, 1));
//! assert_eq!(imported.graph.cost_ns(0, 1), 7);
//! # Ok::<(), shardgraph_costgraph::Error>(())
//! ```

#![forbid(unsafe_code)]

mod amount;
mod cards;
mod cost_graph;
mod cost_graph_binary;
mod cost_graph_text;
mod costs;
mod export;
mod format;
mod jsonl;
mod msr;
mod onnx;
mod pipedream;
mod report;
mod roofline;
mod source;
mod stg;
mod wire;

pub use cards::{NAMED_CARDS, NamedCard};
pub use costs::{Measured, with_costs};
pub use export::{write_cost_graph_text, write_jsonl, write_problem};
pub use format::Format;
pub use report::Report;
pub use roofline::Roofline;

use shardgraph_costgraph::{Error, ErrorKind, Graph};
use std::{collections::BTreeMap, path::Path};

/// Protobuf says much in few bytes: no more ops, tensors and uses than this are made of one file. Real graphs have up to 10^5.
pub(crate) const MAX_PARTS: usize = 1 << 23;

/// Where the weights of an ONNX model go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Weights {
    /// Each is an op of no cost, as TensorFlow's and PyTorch's graphs have them.
    #[default]
    Ops,
    /// They are persistent memory of the op that uses them; one with several users stays an op.
    Persistent,
}

/// Which passes the cost of a PipeDream node covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pass {
    /// Forward and backward, as PipeDream's own planner counts.
    #[default]
    Both,
    /// Forward only.
    Forward,
}

/// How a file is to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// The format; `None` to find out.
    pub format: Option<Format>,
    /// The most bytes, unpacked, that a file may have: 2 GiB, protobuf's own limit, unless said otherwise.
    pub max_bytes: u64,
    /// How many nanoseconds a unit of CostGraphDef's `compute_cost` is: 1 by default, as in the files at hand.
    pub compute_cost_ns: u64,
    /// The sizes of named dimensions in ONNX models ("batch").
    pub dims: BTreeMap<String, u64>,
    /// The size of every other dimension that an ONNX model leaves open: 1 by default.
    pub open_dim: u64,
    /// Where the weights of an ONNX model go.
    pub weights: Weights,
    /// The device for which ONNX ops are costed.
    pub roofline: Roofline,
    /// Which passes the cost of a PipeDream node covers.
    pub pass: Pass,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            format: None,
            max_bytes: 2 << 30,
            compute_cost_ns: 1,
            dims: BTreeMap::new(),
            open_dim: 1,
            weights: Weights::Ops,
            roofline: Roofline::V100,
            pass: Pass::Both,
        }
    }
}

/// A graph and what its reader has to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// What was assumed, left out or found beside it.
    pub report: Report,
}

/// The graphs of one file, read one after the other; only JSON lines can hold more than one.
#[derive(Debug)]
pub struct Graphs {
    file: String,
    content: Vec<u8>,
    format: Format,
    options: ReadOptions,
    at: usize,
    line: u64,
}

/// Opens a file of graphs; `.gz` and `.zst` are unpacked.
///
/// # Errors
/// `Io`; `Compression` for a damaged stream or one that grows suspiciously; `TooLarge` beyond [`ReadOptions::max_bytes`];
/// `Syntax` for content that looks like no format.
pub fn read_graphs(path: &Path, options: &ReadOptions) -> Result<Graphs, Error> {
    let content = source::read_file(path, options.max_bytes)?;
    Graphs::new(path.display().to_string(), content, options)
}

/// The same for bytes in memory; `name` stands in messages and may end in an extension.
///
/// # Errors
/// As [`read_graphs`], but for opening the file.
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Graphs, Error> {
    let content = source::read_all(name, bytes, options.max_bytes)?;
    Graphs::new(name.to_owned(), content, options)
}

impl Graphs {
    fn new(file: String, content: Vec<u8>, options: &ReadOptions) -> Result<Graphs, Error> {
        let named = || Format::from_path(Path::new(&file));
        let found = options
            .format
            .or_else(named)
            .or_else(|| Format::from_content(&content));
        let Some(format) = found else {
            let names = Format::ALL.map(Format::name).join(", ");
            let message = format!("this looks like none of the formats; name one of {names}");
            return Err(Error::new(ErrorKind::Syntax, message).or_at(&file, 0, 0));
        };
        Ok(Graphs {
            file,
            content,
            format,
            options: options.clone(),
            at: 0,
            line: 0,
        })
    }

    /// The format that the file is read as.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The one graph of the file.
    ///
    /// # Errors
    /// Those of reading it; `Argument` when the file holds several.
    pub fn single(mut self) -> Result<Imported, Error> {
        let first = self.next().unwrap_or_else(|| Err(self.none()))?;
        let n_more = self.remaining();
        if n_more == 0 {
            return Ok(first);
        }
        let message = format!(
            "the file holds {} graphs; say which one by its index, from 0 to {n_more}",
            n_more + 1
        );
        Err(Error::new(ErrorKind::Argument, message).or_at(&self.file, 0, 0))
    }

    /// The graph with that index, counted from 0; the graphs before it are passed over unread.
    ///
    /// # Errors
    /// Those of reading it; `Argument` when the file holds fewer.
    pub fn nth_graph(mut self, index: usize) -> Result<Imported, Error> {
        let n_graphs = self.remaining();
        if index >= n_graphs {
            let message = format!("there is no graph {index}; the file holds {n_graphs}");
            return Err(Error::new(ErrorKind::Argument, message).or_at(&self.file, 0, 0));
        }
        for _ in 0..index {
            self.next_line();
        }
        self.next().unwrap_or_else(|| Err(self.none()))
    }

    /// How many graphs are not read yet, without reading them.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let rest = &self.content[self.at..];
        match self.format {
            Format::Jsonl => rest.split(|&b| b == b'\n').filter(|l| !is_blank(l)).count(),
            _ => usize::from(self.line == 0),
        }
    }

    fn none(&self) -> Error {
        Error::new(ErrorKind::Syntax, "the file holds no graph").or_at(&self.file, 0, 0)
    }

    /// The next line that is not blank, as a range of the content.
    fn next_line(&mut self) -> Option<std::ops::Range<usize>> {
        while self.at < self.content.len() {
            let start = self.at;
            let rest = &self.content[start..];
            let len = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            self.at = (start + len + 1).min(self.content.len());
            self.line += 1;
            if !is_blank(&rest[..len]) {
                return Some(start..start + len);
            }
        }
        None
    }

    /// The one graph of every format but JSON lines; the content is used up.
    fn read_whole(&mut self) -> Result<Imported, Error> {
        let content = std::mem::take(&mut self.content);
        let (file, bytes) = (self.file.as_str(), content.as_slice());
        let graph_name = stem(Path::new(file));
        let report = Report::new(self.format);
        let options = &self.options;
        match self.format {
            Format::CostGraph => cost_graph_binary::read(file, &graph_name, bytes, options, report),
            Format::CostGraphText => {
                cost_graph_text::read(file, &graph_name, bytes, options, report)
            }
            Format::Onnx => onnx::read(file, &graph_name, content.into(), options),
            Format::PipeDream => pipedream::read(file, &graph_name, bytes, options),
            Format::Msr => msr::read(file, &graph_name, bytes),
            Format::Stg => stg::read(file, &graph_name, bytes),
            Format::Jsonl => jsonl::read(file, bytes, 1),
        }
    }
}

impl Iterator for Graphs {
    type Item = Result<Imported, Error>;

    fn next(&mut self) -> Option<Result<Imported, Error>> {
        if self.format == Format::Jsonl {
            let line = self.next_line()?;
            return Some(jsonl::read(&self.file, &self.content[line], self.line));
        }
        if self.line > 0 {
            return None;
        }
        self.line = 1;
        Some(self.read_whole())
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// The file's name without folders, compression and extension: what a graph without a name is called.
fn stem(path: &Path) -> String {
    let name = Path::new(format::unpacked_name(path));
    let stem = name.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
