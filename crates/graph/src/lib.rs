//! Whole graphs in CSR form: readers and writers of eight file formats, original node labels, seeded generators.
//!
//! A file becomes a graph through [`read_graph`], or flows edge by edge into any [`EdgeSink`] through [`stream_graph`];
//! [`generate`] makes random graphs of known models, [`builtin`] holds a few classics, [`write_graph`] writes what was read.
//!
//! ```text
//! file, bytes ── Format, ReadOptions ── stream_graph ──> EdgeSink         numbered nodes, edge by edge
//!                                    ── stream_named ──> NamedEdgeSink    labels as they are written
//!                                    ── read_graph ────> Import { Graph, Labels, ImportReport }
//! generate, builtin, Graph::from_edges ───────────────> Graph
//! GraphBuilder (an EdgeSink) ── Built ──> Graph           sorted neighbour lists, each edge from both ends
//! Graph ── WriteOptions ── write_graph ──> file, WriteReport
//! Error { ErrorKind, SourcePos }                          file, line and reason
//! ```
//!
//! ```
//! use shardgraph_graph::{Format, ReadOptions, read_bytes};
//!
//! let text = b"# who follows whom\nann bob\nbob cid\ncid ann\nann cid\ndan dan\n";
//! let import = read_bytes("follows.txt", text, &ReadOptions::default())?;
//! assert_eq!(import.report.format, Format::EdgeList);
//! assert_eq!((import.graph.n_nodes(), import.graph.n_edges()), (4, 3));
//! assert_eq!((import.report.duplicates_merged, import.report.self_loops_dropped), (1, 1));
//! assert_eq!(import.labels.get(2), "cid");
//! # Ok::<(), shardgraph_graph::Error>(())
//! ```

#![forbid(unsafe_code)]

mod builder;
pub mod builtin;
mod csr;
mod error;
mod format;
pub mod generate;
mod graph;
mod labels;
mod read;
mod report;
mod write;

pub use builder::{Built, EdgeSink, GraphBuilder, NamedEdgeSink, check_edge};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use graph::{Graph, MAX_NODES};
pub use labels::{Interner, Labels};
pub use read::{
    Import, NodeWeights, Policy, ReadOptions, Streamed, StreamedNames, WeightPolicy, read_bytes,
    read_graph, stream_bytes, stream_graph, stream_named,
};
pub use report::{FormatSource, ImportReport, WriteReport};
pub use shardgraph_error::SourcePos;
pub use shardgraph_storage::Compression;
pub use write::{WriteOptions, write_graph};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
