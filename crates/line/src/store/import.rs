//! From a text file to a store file, in two passes and bounded memory.
//!
//! The first pass reads the text, counts degrees and spills the edges as numbers; the second deals them to buckets through one
//! small buffer a bucket. The file appears under its name when it is complete and on disk.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use shardgraph_graph::{EdgeSink, Labels, ReadOptions, WeightPolicy, stream_graph};

use super::build::{new_head, oriented};
use super::{Fingerprint, Head, NodeLabels, Store, check_parts};
use crate::deal::{Deal, by_falling_degree, ranks_of};
use crate::{Error, ErrorKind};

/// How to import a graph.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Whether directions count.
    pub directed: bool,
    /// Whether edges are sampled by weight (the third column of an edge list).
    pub weighted: bool,
    /// Parts of each table, a power of two; by default [`Store::default_parts`] of the nodes.
    pub parts: Option<u32>,
    /// What importing may hold in memory, in bytes; the reader's own table of ids is not in it.
    pub memory: u64,
    /// How to read the file; its `weights` are set by `weighted`.
    pub read: ReadOptions,
}

impl Default for ImportOptions {
    /// Undirected, without weights, 4 GiB.
    fn default() -> ImportOptions {
        ImportOptions {
            directed: false,
            weighted: false,
            parts: None,
            memory: 4 << 30,
            read: ReadOptions::default(),
        }
    }
}

/// What an import found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Nodes.
    pub n_nodes: u32,
    /// Edges as listed, without loops.
    pub n_edges: u64,
    /// Parts of each table.
    pub n_parts: u32,
    /// Bytes of the file that was written.
    pub file_bytes: u64,
    /// The most that importing held in memory by its own count, in bytes.
    pub memory: u64,
}

/// Reads a graph file (plain, `.gz` or `.zst`) and writes a store's file.
///
/// ```
/// use shardgraph_line::{ImportOptions, Store, import_file};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (text, path) = (folder.path().join("follows.txt"), folder.path().join("follows.store"));
/// std::fs::write(&text, "ann bob\nbob cid\n").unwrap();
/// let imported = import_file(&text, &path, &ImportOptions::default())?;
/// assert_eq!((imported.n_nodes, imported.n_edges), (3, 2));
/// assert_eq!(Store::open(&path)?.labels().get(2), "cid");
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// What the reader refuses; [`ErrorKind::Graph`] for a negative weight; [`ErrorKind::Memory`] where the nodes alone pass
/// the limit; [`ErrorKind::Io`]. No file is left then.
///
/// # Complexity
/// The text is read twice (the first time for the ids), the edges are written twice and read once as numbers. Memory: about
/// 40 B a node and the labels, and up to 1 MiB a bucket.
pub fn import_file(graph: &Path, out: &Path, options: &ImportOptions) -> Result<Imported, Error> {
    let mut read = options.read.clone();
    read.weights = match options.weighted {
        true => WeightPolicy::ThirdColumn,
        false => WeightPolicy::Ignore,
    };
    import_stream(out, options, |sink| {
        let streamed = stream_graph(graph, &read, sink)?;
        Ok((streamed.n_nodes, streamed.labels))
    })
}

/// As [`import_file`], from anything that gives edges: `feed` gives them to the sink and returns the number of nodes and their
/// labels.
///
/// # Errors
/// As [`import_file`], and those of `feed`.
pub fn import_stream(
    out: &Path,
    options: &ImportOptions,
    feed: impl FnOnce(&mut dyn EdgeSink) -> Result<(u32, Labels), shardgraph_graph::Error>,
) -> Result<Imported, Error> {
    check_parts(options.parts.unwrap_or(1))?;
    let mut spill = Spill::create(beside(out, "spill"), options.weighted)?;
    let (n_nodes, labels) = feed(&mut spill)?;
    let labels = NodeLabels::of_graph(&labels);
    let n_parts = options
        .parts
        .unwrap_or_else(|| Store::default_parts(n_nodes));
    let per_node = 20 * u64::from(n_nodes) + labels.bytes();
    let n_buckets = u64::from(n_parts) * u64::from(n_parts);
    let left = options.memory.saturating_sub(per_node);
    let buffer = (left / n_buckets).min(1 << 20) / 12 * 12;
    if buffer < 1200 {
        let message = format!(
            "memory = {}: importing {n_nodes} nodes in {n_parts} parts takes {} bytes: raise the limit or take fewer parts",
            options.memory,
            per_node + 1200 * n_buckets
        );
        return Err(Error::new(ErrorKind::Memory, message));
    }
    spill.degrees.resize(n_nodes as usize, 0.0);
    let order = by_falling_degree(&spill.degrees);
    let mut head = new_head(Deal { n_nodes, n_parts }, &spill.degrees, order, labels);
    head.is_directed = options.directed;
    head.is_weighted = options.weighted;
    let ranks = ranks_of(&head.order);
    let file_bytes = scatter(&mut head, &ranks, spill, out, buffer as usize)?;
    Ok(Imported {
        n_nodes,
        n_edges: head.counts.iter().sum(),
        n_parts,
        file_bytes,
        memory: per_node + buffer * n_buckets,
    })
}

/// `NAME.what` in the same folder.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// A file that goes away with this value, unless it is renamed.
struct Scratch(Option<PathBuf>);

impl Scratch {
    fn rename(mut self, to: &Path) -> io::Result<()> {
        if let Some(from) = self.0.take() {
            fs::rename(from, to)?;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that led here matters more than one of tidying up.
            let _ = fs::remove_file(path);
        }
    }
}

/// The edges as numbers on disk, and the degrees so far.
struct Spill {
    out: BufWriter<File>,
    path: PathBuf,
    is_weighted: bool,
    n_edges: u64,
    degrees: Vec<f32>,
    _scratch: Scratch,
}

impl Spill {
    fn create(path: PathBuf, is_weighted: bool) -> Result<Spill, Error> {
        let file = File::create(&path).map_err(|e| Error::io("create", &path, &e))?;
        Ok(Spill {
            out: BufWriter::with_capacity(1 << 20, file),
            _scratch: Scratch(Some(path.clone())),
            path,
            is_weighted,
            n_edges: 0,
            degrees: Vec::new(),
        })
    }

    /// Gives every edge with its number to `take`.
    fn replay(
        &mut self,
        mut take: impl FnMut(u64, u32, u32, f32) -> io::Result<()>,
    ) -> Result<(), Error> {
        let at = |e: io::Error| Error::io("read", &self.path, &e);
        self.out.flush().map_err(at)?;
        let file = File::open(&self.path).map_err(at)?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        let mut record = [0; 12];
        for number in 0..self.n_edges {
            input.read_exact(&mut record).map_err(at)?;
            let word = |i: usize| [record[i], record[i + 1], record[i + 2], record[i + 3]];
            let (u, v) = (u32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)));
            take(number, u, v, f32::from_le_bytes(word(8)))
                .map_err(|e| Error::io("write the buckets of", &self.path, &e))?;
        }
        Ok(())
    }
}

impl EdgeSink for Spill {
    fn edge(&mut self, u: u32, v: u32, weight: f32) -> Result<(), shardgraph_graph::Error> {
        let weight = if self.is_weighted { weight } else { 1.0 };
        if weight < 0.0 || !weight.is_finite() {
            let message = format!("expected a weight of 0 or more, found {weight}");
            let kind = shardgraph_graph::ErrorKind::Sink;
            return Err(shardgraph_graph::Error::new(kind, message));
        }
        let largest = u.max(v) as usize;
        if largest >= self.degrees.len() {
            self.degrees.resize(largest + 1, 0.0);
        }
        self.degrees[u as usize] += weight;
        self.degrees[v as usize] += weight;
        self.n_edges += 1;
        let write = || -> io::Result<()> {
            self.out.write_all(&u.to_le_bytes())?;
            self.out.write_all(&v.to_le_bytes())?;
            self.out.write_all(&weight.to_le_bytes())
        };
        let mut write = write;
        write().map_err(|e| shardgraph_graph::Error::io("write", &self.path, e))
    }
}

/// Counts, then deals the edges to their buckets; the bytes of the finished file.
fn scatter(
    head: &mut Head,
    ranks: &[u32],
    mut spill: Spill,
    out: &Path,
    buffer: usize,
) -> Result<u64, Error> {
    let (deal, directed) = (head.deal, head.is_directed);
    let place = |number: u64, u: u32, v: u32| {
        let (u, v) = if directed {
            (u, v)
        } else {
            oriented(number, u, v)
        };
        let (from, to) = (deal.place(ranks[u as usize]), deal.place(ranks[v as usize]));
        ((from.0 * deal.n_parts + to.0) as usize, from.1, to.1)
    };
    spill.replay(|number, u, v, weight| {
        let bucket = place(number, u, v).0;
        head.counts[bucket] += 1;
        head.weights[bucket] += f64::from(weight);
        Ok(())
    })?;
    let partial = beside(out, "partial");
    let at = |e: io::Error| Error::io("write", &partial, &e);
    let scratch = Scratch(Some(partial.clone()));
    let file = File::create(&partial).map_err(at)?;
    let mut buckets = Buckets::new(head, &file, buffer);
    let is_weighted = head.is_weighted;
    spill.replay(|number, u, v, weight| {
        let (bucket, row, to) = place(number, u, v);
        buckets.push(bucket, [row, to], is_weighted.then_some(weight))
    })?;
    head.hashes = buckets.finish().map_err(at)?;
    let mut start = BufWriter::new(&file);
    head.write(&mut start)
        .and_then(|()| start.flush())
        .map_err(at)?;
    drop(start);
    file.sync_all().map_err(at)?;
    scratch
        .rename(out)
        .map_err(|e| Error::io("write", out, &e))?;
    Ok(head.file_bytes())
}

/// One buffer a bucket, and where its next records go.
struct Buckets<'f> {
    file: &'f File,
    pending: Vec<Vec<u8>>,
    offsets: Vec<u64>,
    hashes: Vec<Fingerprint>,
    buffer: usize,
}

impl<'f> Buckets<'f> {
    fn new(head: &Head, file: &'f File, buffer: usize) -> Buckets<'f> {
        let n_buckets = head.counts.len();
        Buckets {
            file,
            pending: vec![Vec::new(); n_buckets],
            offsets: (0..n_buckets)
                .map(|b| head.bytes() + head.offset(b))
                .collect(),
            hashes: vec![Fingerprint::new(); n_buckets],
            buffer,
        }
    }

    fn push(&mut self, bucket: usize, pair: [u32; 2], weight: Option<f32>) -> io::Result<()> {
        let pending = &mut self.pending[bucket];
        pending.extend(pair[0].to_le_bytes());
        pending.extend(pair[1].to_le_bytes());
        if let Some(weight) = weight {
            pending.extend(weight.to_le_bytes());
        }
        match pending.len() + 12 > self.buffer {
            true => self.flush(bucket),
            false => Ok(()),
        }
    }

    fn flush(&mut self, bucket: usize) -> io::Result<()> {
        let bytes = &mut self.pending[bucket];
        self.file.write_all_at(bytes, self.offsets[bucket])?;
        self.offsets[bucket] += bytes.len() as u64;
        self.hashes[bucket].update(bytes);
        bytes.clear();
        Ok(())
    }

    /// The buckets' fingerprints, once all is written.
    fn finish(mut self) -> io::Result<Vec<u64>> {
        for bucket in 0..self.pending.len() {
            self.flush(bucket)?;
        }
        Ok(self.hashes.into_iter().map(Fingerprint::finish).collect())
    }
}
