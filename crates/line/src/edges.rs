//! Store: a graph's edges in p x p buckets, with degrees and labels of the nodes.
//!
//! Bucket (i, j) holds the edges from part i to part j as rows of the two parts, so an edge takes 8
//! B (12 B with a weight), and training on a bucket needs those parts only. A store lies in memory
//! or in one file, whose head stays in memory (8 B a node); buckets and labels are read on demand.

mod beside;
mod build;
mod head;
mod import;
mod labels;
mod partition;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use shardgraph_graph::Graph;
use shardgraph_storage::FileRange;

use crate::Error;
use crate::memory::{Array, Memory, Purpose};

pub(crate) use head::Head;
pub use import::{
    ImportOptions, ImportProgress, ImportStage, Imported, InputSummary, import_file,
    import_scratch, import_stream,
};
use labels::LabelStream;
pub use labels::NodeLabels;
use partition::DegreePartition;

/// A graph in p x p buckets.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_line::{NodeLabels, Store};
///
/// let karate = builtin::by_name("karate").unwrap();
/// let edges: Vec<(u32, u32)> =
///     (0..34).flat_map(|u| karate.neighbors(u).iter().map(move |&v| (u, v)))
///         .filter(|(u, v)| u < v).collect();
/// let store = Store::from_edges(34, &edges, 2, NodeLabels::numbers(34))?;
/// assert_eq!((store.n_nodes(), store.n_edges(), store.n_parts()), (34, 78, 2));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    pub(crate) head: Head,
    /// Those of a file are read at the first use.
    labels: OnceLock<NodeLabels>,
    edges: Edges,
}

/// Records of the buckets.
#[derive(Debug)]
enum Edges {
    Memory(Vec<u8>),
    File { file: File, path: PathBuf },
}

/// The edges of one bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// (row in part i, row in part j).
    pub(crate) pairs: Array<[u32; 2]>,
    /// As many weights, or none.
    pub(crate) weights: Array<f32>,
}

/// Samples of the buckets in a pass.
#[derive(Debug)]
pub(crate) struct PassSamples<'s> {
    head: &'s Head,
    first: Cow<'s, [u64]>,
}

impl PassSamples<'_> {
    /// Of bucket (i, j).
    pub(crate) fn of(&self, i: u32, j: u32) -> u64 {
        let bucket = self.head.bucket(i, j);
        self.first[bucket + 1] - self.first[bucket]
    }

    /// Of all buckets.
    pub(crate) fn of_all(&self) -> u64 {
        self.first.last().copied().unwrap_or(0)
    }

    /// Of the largest bucket.
    pub(crate) fn largest(&self) -> u64 {
        let of_each = self.first.windows(2).map(|ends| ends[1] - ends[0]);
        of_each.max().unwrap_or(0)
    }
}

impl Store {
    /// A store in memory, without directions of edges.
    ///
    /// A pair that is listed twice is sampled twice.
    ///
    /// # Errors
    /// [`Error::Setting`] unless `n_parts` is a power of two; [`Error::Graph`] for a node that is
    /// not below `n_nodes`, and unless there is a label for each node.
    ///
    /// # Complexity
    /// O(E + V log V) time; 8 B an edge and 12 B a node, and while it is made 16 B an edge and 8 B
    /// a node more.
    pub fn from_edges(
        n_nodes: u32,
        edges: &[(u32, u32)],
        n_parts: u32,
        labels: NodeLabels,
    ) -> Result<Store, Error> {
        build::in_memory(n_nodes, edges, n_parts, labels)
    }

    /// Opens a store's file and reads its head.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for a file that is none, of another version, cut short or
    /// damaged in its head.
    pub fn open(path: &Path) -> Result<Store, Error> {
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let head = Head::read(&mut file, path)?;
        let found = file
            .metadata()
            .map_err(|e| Error::io("read", path, e))?
            .len();
        let expected = head.file_bytes();
        if found != expected {
            return Err(Error::file(
                path,
                format_args!(
                    "expected {expected} bytes by its head, found {found}: import the graph again"
                ),
            ));
        }
        let path = path.to_owned();
        Ok(Store {
            head,
            labels: OnceLock::new(),
            edges: Edges::File { file, path },
        })
    }

    /// True if a file begins as a store does.
    #[must_use]
    pub fn is_store(path: &Path) -> bool {
        let mut magic = [0; 8];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0));
        read.is_ok() && magic == head::MAGIC
    }

    /// Number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        self.head.partition.n_nodes
    }

    /// Number of edges as listed.
    #[must_use]
    pub fn n_edges(&self) -> u64 {
        self.head.n_edges()
    }

    /// Number of parts of each table.
    #[must_use]
    pub fn n_parts(&self) -> u32 {
        self.head.partition.n_parts
    }

    /// True if order 2 takes edges from their source to their target only.
    #[must_use]
    pub fn is_directed(&self) -> bool {
        self.head.is_directed
    }

    /// True if edges have weights.
    #[must_use]
    pub fn is_weighted(&self) -> bool {
        self.head.is_weighted
    }

    /// Labels of the nodes by id; those of a file are read at the first call, and stay in memory.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for labels that are damaged.
    pub fn labels(&self) -> Result<&NodeLabels, Error> {
        if let (None, Edges::File { file, path }) = (self.labels.get(), &self.edges) {
            let mut bytes = vec![0; self.head.label_bytes as usize];
            file.read_exact_at(&mut bytes, self.head.labels_at())
                .map_err(|e| Error::io("read", path, e))?;
            let read = NodeLabels::read(self.n_nodes(), &bytes);
            let labels = read.ok_or_else(|| Error::file(path, DAMAGED_LABELS))?;
            // Another thread may have been first, with the same.
            let _ = self.labels.set(labels);
        }
        let labels = self.labels.get();
        labels.ok_or_else(|| Error::File(DAMAGED_LABELS.to_owned()))
    }

    /// Gives the labels in the order of their nodes, without having all in memory.
    pub(crate) fn each_label(
        &self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let (None, Edges::File { file, .. }) = (self.labels.get(), &self.edges) {
            let (start, n_nodes) = (self.head.labels_at(), self.n_nodes());
            let text = start + 8 * u64::from(n_nodes);
            let bytes = |at, end| {
                let file = Some(file);
                BufReader::with_capacity(1 << 20, FileRange { file, at, end })
            };
            let ends = start + self.head.label_bytes;
            let mut labels = LabelStream::new(bytes(start, text), bytes(text, ends));
            return (0..n_nodes).try_for_each(|_| take(labels.next()?));
        }
        let labels = self.labels().map_err(io::Error::other)?;
        labels.iter().try_for_each(|label| take(label.as_bytes()))
    }

    /// Hash of this graph, with its parts and order of edges.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.head.hash
    }

    /// Default number of parts for `n_nodes` nodes: a power of two.
    ///
    /// 16 where each part then has 256 rows or more, and up to 128 where parts would have more than
    /// 12288. Fewer than some hundred rows give too small a choice of negatives; some thousands of
    /// 512 bytes stay in the processor's cache.
    #[must_use]
    pub fn default_parts(n_nodes: u32) -> u32 {
        let most = (n_nodes / 256).clamp(1, 16);
        let needed = n_nodes.div_ceil(12288).next_power_of_two().min(128);
        needed.max(1 << most.ilog2())
    }

    pub(crate) fn partition(&self) -> DegreePartition {
        self.head.partition
    }

    /// The node of a row of a part.
    pub(crate) fn node(&self, part: u32, row: u32) -> u32 {
        self.head.order[self.head.partition.rank(part, row) as usize]
    }

    /// Degrees, or sums of weights, of a part's rows.
    pub(crate) fn degrees_of(&self, part: u32) -> Vec<f32> {
        let partition = self.head.partition;
        let degree = |row| self.head.degrees[partition.rank(part, row) as usize];
        (0..partition.n_rows(part)).map(degree).collect()
    }

    /// Samples of each bucket in a pass of as many samples as there are edges: see
    /// [`Head::first_samples`].
    pub(crate) fn samples(&self, phase: f64) -> PassSamples<'_> {
        PassSamples {
            head: &self.head,
            first: self.head.first_samples(phase),
        }
    }

    /// The edges as a graph without directions and weights; an edge that is listed twice is one.
    ///
    /// # Errors
    /// As training, for buckets that cannot be read; [`Error::Graph`] for too many edges.
    ///
    /// # Complexity
    /// O(E log E) time; 8 B an edge, and 24 B more while the graph is made.
    pub fn graph(&self) -> Result<Graph, Error> {
        let mut edges = Vec::with_capacity(self.n_edges() as usize);
        let memory = Memory::default();
        for i in 0..self.n_parts() {
            for j in 0..self.n_parts() {
                let bucket = self.bucket(i, j, &memory)?;
                let pairs = bucket.pairs.iter();
                edges.extend(pairs.map(|&[u, v]| (self.node(i, u), self.node(j, v))));
            }
        }
        Ok(Graph::from_edges(self.n_nodes(), &edges)?)
    }

    /// Bytes of the store in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        let edges = match &self.edges {
            Edges::Memory(bytes) => bytes.len() as u64,
            Edges::File { .. } => 0,
        };
        self.head.held_bytes() + edges
    }

    /// Edges of bucket (i, j).
    pub(crate) fn n_edges_of(&self, i: u32, j: u32) -> u64 {
        self.head.counts[self.head.bucket(i, j)]
    }

    /// Reads bucket (i, j); a dry run makes room for one of as many edges.
    pub(crate) fn bucket(&self, i: u32, j: u32, memory: &Memory) -> Result<Bucket, Error> {
        let bucket = self.head.bucket(i, j);
        let start = self.head.offset(bucket);
        let n_edges = self.head.counts[bucket] as usize;
        let len = n_edges * self.head.record_bytes() as usize;
        match &self.edges {
            Edges::Memory(bytes) => {
                Ok(self.decode(n_edges, &bytes[start as usize..][..len], memory))
            }
            Edges::File { file, path } => {
                let mut bytes = memory.zeros::<u8>(Purpose::Edges, len);
                if memory.is_dry() {
                    return Ok(self.decode(n_edges, &bytes, memory));
                }
                file.read_exact_at(&mut bytes, self.head.bytes() + start)
                    .map_err(|e| Error::io("read", path, e))?;
                if shardgraph_storage::hash(&bytes) != self.head.hashes[bucket] {
                    let what = format_args!("bucket ({i}, {j}) is damaged: import the graph again");
                    return Err(Error::file(path, what));
                }
                let decoded = self.decode(n_edges, &bytes, memory);
                match self.has_rows(&decoded, i, j) {
                    true => Ok(decoded),
                    false => {
                        let what = format_args!("bucket ({i}, {j}) names rows that are not there");
                        Err(Error::file(path, what))
                    }
                }
            }
        }
    }

    /// A right hash does not promise right rows: the file may come from another program.
    fn has_rows(&self, bucket: &Bucket, i: u32, j: u32) -> bool {
        let (n_from, n_to) = (self.partition().n_rows(i), self.partition().n_rows(j));
        bucket
            .pairs
            .iter()
            .all(|&[from, to]| from < n_from && to < n_to)
            && bucket.weights.iter().all(|&w| w >= 0.0 && w.is_finite())
    }

    fn decode(&self, n_edges: usize, bytes: &[u8], memory: &Memory) -> Bucket {
        let record = self.head.record_bytes() as usize;
        let word = |bytes: &[u8], at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let records = bytes.chunks_exact(record);
        let weights = match self.head.is_weighted {
            true => {
                let weights = records.clone().map(|r| f32::from_bits(word(r, 8)));
                memory.collect(Purpose::Edges, n_edges, weights)
            }
            false => Array::default(),
        };
        let pairs = records.map(|r| [word(r, 0), word(r, 4)]);
        Bucket {
            pairs: memory.collect(Purpose::Edges, n_edges, pairs),
            weights,
        }
    }
}

const DAMAGED_LABELS: &str = "the labels are damaged: import the graph again";

/// Refuses what is no power of two, or too many parts for a bucket number.
pub(crate) fn check_parts(n_parts: u32) -> Result<(), Error> {
    match n_parts.is_power_of_two() && n_parts <= 1024 {
        true => Ok(()),
        false => Err(Error::setting(
            "parts",
            n_parts,
            "a power of two up to 1024",
        )),
    }
}

pub(crate) fn check_edge(n_nodes: u32, u: u32, v: u32) -> Result<(), Error> {
    match u.max(v) < n_nodes {
        true => Ok(()),
        false => Err(Error::graph(format!(
            "edge ({u}, {v}): expected nodes below {n_nodes}"
        ))),
    }
}
