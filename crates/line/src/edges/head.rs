//! Head of a store: all but the records of the buckets, and its form in a file.
//!
//! Little endian: magic (8 B), version, flags, n_nodes, n_parts (u32 each), bytes of the labels
//! (u64); then per bucket, row by row of the grid, count (u64), fingerprint (u64), sum of weights
//! (f64); then by rank degree (f32) and node (u32); the labels (ends as u64 by node, then the
//! text); last the fingerprint of all that. The records of the buckets follow in the same order:
//! row in part i, row in part j (u32 each), and the weight (f32) where there are weights.
//!
//! Labels are not held: they stay in the file until somebody asks for them.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::Path;

use shardgraph_storage::Hasher;

use crate::Error;
use crate::edges::partition::DegreePartition;

pub(crate) const MAGIC: [u8; 8] = *b"SGEDGES\0";
const VERSION: u32 = 2;
const FIXED: usize = 32;
const DIRECTED: u32 = 1;
const WEIGHTED: u32 = 2;
/// Bytes that are read at a time; whole records of buckets and of nodes.
const CHUNK: u64 = 24 << 15;

const NO_STORE: &str = "no edge store: expected a file that `shardgraph embed import` wrote";
const DAMAGED: &str = "damaged in its head: import the graph again";
const SHORT: &str = "cut short in its head: import the graph again";

/// All of a store but the records of its buckets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    pub(crate) partition: DegreePartition,
    pub(crate) is_directed: bool,
    pub(crate) is_weighted: bool,
    /// Edges, fingerprint and sum of weights of each bucket.
    pub(crate) counts: Vec<u64>,
    pub(crate) hashes: Vec<u64>,
    pub(crate) weights: Vec<f64>,
    /// By rank: the degree or sum of weights, and the node.
    pub(crate) degrees: Vec<f32>,
    pub(crate) order: Vec<u32>,
    /// Ends and text.
    pub(crate) label_bytes: u64,
    /// The fingerprint of all of the head, once it is written or read.
    pub(crate) hash: u64,
    /// Of each bucket, the edges before it, and of all; made by [`Head::sum_up`].
    pub(super) starts: Vec<u64>,
}

/// Writes the ends and the text of the labels.
pub(crate) type WriteLabels<'w> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'w;

impl Head {
    /// The number of a bucket.
    pub(crate) fn bucket(&self, i: u32, j: u32) -> usize {
        (i * self.partition.n_parts + j) as usize
    }

    /// Makes the running sums, once counts are known.
    pub(crate) fn sum_up(&mut self) {
        let mut n_edges = 0;
        self.starts = vec![0];
        for count in &self.counts {
            n_edges += count;
            self.starts.push(n_edges);
        }
    }

    /// Of each bucket, the samples of a pass before it, and of all.
    ///
    /// Without weights these are its edges. With them a bucket has its share of as many as there
    /// are edges, cut to a whole number behind `phase` (0 to 1) samples: where that is drawn anew
    /// for each pass, a bucket has its share in the mean, however small.
    pub(crate) fn first_samples(&self, phase: f64) -> Cow<'_, [u64]> {
        if !self.is_weighted {
            return Cow::Borrowed(&self.starts);
        }
        let (n_edges, total) = (self.n_edges(), self.weights.iter().sum::<f64>());
        let mut sum = 0.0;
        let ends = self.weights.iter().map(|weight| {
            sum += weight;
            match sum < total {
                true => ((sum / total * n_edges as f64 + phase) as u64).min(n_edges),
                false if total > 0.0 => n_edges,
                false => 0,
            }
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// Edges of all buckets.
    pub(crate) fn n_edges(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Where a bucket's records begin, behind the head.
    pub(crate) fn offset(&self, bucket: usize) -> u64 {
        self.starts[bucket] * self.record_bytes()
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        if self.is_weighted { 12 } else { 8 }
    }

    /// Bytes of the head in memory, and of the samples of a pass.
    pub(crate) fn held_bytes(&self) -> u64 {
        let of_buckets = [&self.counts, &self.hashes, &self.starts];
        let of_buckets: usize = of_buckets.iter().map(|of| size_of_val(&of[..])).sum();
        let of_nodes = size_of_val(&self.degrees[..]) + size_of_val(&self.order[..]);
        // With weights a pass has samples of its own.
        let of_pass = match self.is_weighted {
            true => size_of_val(&self.starts[..]),
            false => 0,
        };
        (of_buckets + size_of_val(&self.weights[..]) + of_nodes + of_pass) as u64
    }

    fn bucket_bytes(&self) -> u64 {
        24 * u64::from(self.partition.n_parts) * u64::from(self.partition.n_parts)
    }

    /// Where the labels begin in a file.
    pub(crate) fn labels_at(&self) -> u64 {
        FIXED as u64 + self.bucket_bytes() + 8 * u64::from(self.partition.n_nodes)
    }

    /// Bytes of the head in a file.
    pub(crate) fn bytes(&self) -> u64 {
        self.labels_at() + self.label_bytes + 8
    }

    /// Bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes() + self.n_edges() * self.record_bytes()
    }

    /// Writes the head and its fingerprint, and keeps that.
    pub(crate) fn write(
        &mut self,
        out: &mut dyn Write,
        labels: &WriteLabels<'_>,
    ) -> io::Result<()> {
        let mut marked = Marked::new(&mut *out);
        self.write_body(&mut marked)?;
        labels(&mut marked)?;
        self.hash = marked.hash();
        out.write_all(&self.hash.to_le_bytes())
    }

    fn write_body(&self, out: &mut dyn Write) -> io::Result<()> {
        let directed = if self.is_directed { DIRECTED } else { 0 };
        let weighted = if self.is_weighted { WEIGHTED } else { 0 };
        let DegreePartition { n_nodes, n_parts } = self.partition;
        out.write_all(&MAGIC)?;
        for word in [VERSION, directed | weighted, n_nodes, n_parts] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&self.label_bytes.to_le_bytes())?;
        for ((count, hash), weight) in self.counts.iter().zip(&self.hashes).zip(&self.weights) {
            out.write_all(&count.to_le_bytes())?;
            out.write_all(&hash.to_le_bytes())?;
            out.write_all(&weight.to_le_bytes())?;
        }
        for (degree, node) in self.degrees.iter().zip(&self.order) {
            out.write_all(&degree.to_le_bytes())?;
            out.write_all(&node.to_le_bytes())?;
        }
        Ok(())
    }

    /// Reads a head and goes through its labels, which it checks and does not keep.
    pub(crate) fn read(file: &mut dyn Read, path: &Path) -> Result<Head, Error> {
        let mut fixed = [0; FIXED];
        file.read_exact(&mut fixed)
            .map_err(|_| Error::file(path, NO_STORE))?;
        let mut head = Head::fixed(&fixed, path)?;
        let n_nodes = u64::from(head.partition.n_nodes);
        let mut file = Chunks {
            file,
            path,
            marked: Marked::new(io::sink()),
        };
        file.marked.update(&fixed);
        file.each(head.bucket_bytes(), |bytes| {
            for bucket in bytes.chunks_exact(24) {
                head.counts.push(long(bucket, 0));
                head.hashes.push(long(bucket, 8));
                head.weights.push(f64::from_bits(long(bucket, 16)));
            }
        })?;
        file.each(8 * n_nodes, |bytes| {
            for node in bytes.chunks_exact(8) {
                head.degrees.push(f32::from_bits(word(node, 0)));
                head.order.push(word(node, 4));
            }
        })?;
        file.each(head.label_bytes, |_| ())?;
        let mut stored = 0;
        head.hash = file.marked.hash();
        file.each(8, |bytes| stored = long(bytes, 0))?;
        if head.hash != stored || !head.is_plausible() {
            return Err(Error::file(path, DAMAGED));
        }
        head.sum_up();
        Ok(head)
    }

    /// A head of which nothing but the fixed part is known.
    fn fixed(bytes: &[u8; FIXED], path: &Path) -> Result<Head, Error> {
        if bytes[..8] != MAGIC {
            return Err(Error::file(path, NO_STORE));
        }
        let [version, flags, n_nodes, n_parts] = [8, 12, 16, 20].map(|at| word(bytes, at));
        if version != VERSION {
            let what = format_args!(
                "an edge store of version {version}, expected {VERSION}: import the graph again"
            );
            return Err(Error::file(path, what));
        }
        let label_bytes = long(bytes, 24);
        let is_wrong =
            !n_parts.is_power_of_two() || n_parts > 1024 || flags > (DIRECTED | WEIGHTED);
        if is_wrong || label_bytes < 8 * u64::from(n_nodes) {
            return Err(Error::file(path, DAMAGED));
        }
        Ok(Head {
            partition: DegreePartition { n_nodes, n_parts },
            is_directed: flags & DIRECTED != 0,
            is_weighted: flags & WEIGHTED != 0,
            counts: Vec::new(),
            hashes: Vec::new(),
            weights: Vec::new(),
            degrees: Vec::new(),
            order: Vec::new(),
            label_bytes,
            hash: 0,
            starts: Vec::new(),
        })
    }

    /// What a right fingerprint does not promise: the file may come from another program.
    fn is_plausible(&self) -> bool {
        let total = |sum: u64, count: &u64| sum.checked_add(*count);
        let n_edges = self.counts.iter().try_fold(0u64, total);
        let mut seen = vec![false; self.order.len()];
        let is_new = |node: &u32| {
            let seen = seen.get_mut(*node as usize);
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        let is_number = |weight: f64| weight >= 0.0 && weight.is_finite();
        n_edges.is_some_and(|n| n < 1 << 56)
            && self.label_bytes < 1 << 56
            && self.weights.iter().all(|&weight| is_number(weight))
            && self.degrees.iter().all(|&d| is_number(f64::from(d)))
            && self.order.iter().all(is_new)
    }
}

/// A file that is read in pieces, each of which goes into a fingerprint.
struct Chunks<'f> {
    file: &'f mut dyn Read,
    path: &'f Path,
    marked: Marked<io::Sink>,
}

impl Chunks<'_> {
    /// The next `n` bytes, [`CHUNK`] at a time.
    fn each(&mut self, n: u64, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut bytes = vec![0; n.min(CHUNK) as usize];
        let mut left = n;
        while left > 0 {
            let piece = &mut bytes[..left.min(CHUNK) as usize];
            self.file
                .read_exact(piece)
                .map_err(|_| Error::file(self.path, SHORT))?;
            self.marked.update(piece);
            take(piece);
            left -= piece.len() as u64;
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Writer that passes everything on and hashes it.
struct Marked<W> {
    out: W,
    hasher: Hasher,
}

impl<W: Write> Marked<W> {
    fn new(out: W) -> Marked<W> {
        Marked {
            out,
            hasher: Hasher::new(),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

impl<W: Write> Write for Marked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
