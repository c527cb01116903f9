//! The head of a store: what is known of the graph before any bucket is read, and its form in a file.
//!
//! Little endian: magic (8 B), version, flags, n_nodes, n_parts (u32 each), bytes of the labels (u64); then per bucket, row by
//! row of the grid, count (u64), fingerprint (u64), sum of weights (f64); then by rank degree (f32) and node (u32); the labels
//! (ends as u64 by node, then the text); last the fingerprint of all that. The records of the buckets follow in the same order:
//! row in part i, row in part j (u32 each), and the weight (f32) where there are weights.

use std::io::{self, Read, Write};
use std::path::Path;

use super::fingerprint::Fingerprint;
use super::labels::NodeLabels;
use crate::Error;
use crate::deal::Deal;

pub(crate) const MAGIC: [u8; 8] = *b"SGEDGES\0";
const VERSION: u32 = 1;
const FIXED: usize = 32;
const DIRECTED: u32 = 1;
const WEIGHTED: u32 = 2;

/// What is known of a graph before any bucket is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    pub(crate) deal: Deal,
    pub(crate) is_directed: bool,
    pub(crate) is_weighted: bool,
    /// Edges, fingerprint and sum of weights of each bucket.
    pub(crate) counts: Vec<u64>,
    pub(crate) hashes: Vec<u64>,
    pub(crate) weights: Vec<f64>,
    /// By rank: the degree or sum of weights, and the node.
    pub(crate) degrees: Vec<f32>,
    pub(crate) order: Vec<u32>,
    pub(crate) labels: NodeLabels,
}

impl Head {
    /// The number of a bucket.
    pub(crate) fn bucket(&self, i: u32, j: u32) -> usize {
        (i * self.deal.n_parts + j) as usize
    }

    /// Where a bucket's records begin, behind the head.
    pub(crate) fn offset(&self, bucket: usize) -> u64 {
        self.counts[..bucket].iter().sum::<u64>() * self.record_bytes()
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        if self.is_weighted { 12 } else { 8 }
    }

    /// The bucket's share of as many samples as there are edges: differences of rounded sums, so that they add up.
    pub(crate) fn weighted_samples(&self, bucket: usize) -> u64 {
        let n_edges = self.counts.iter().sum::<u64>() as f64;
        let total: f64 = self.weights.iter().sum();
        let upto =
            |b: usize| (self.weights[..b].iter().sum::<f64>() / total * n_edges).round() as u64;
        match total > 0.0 {
            true => upto(bucket + 1) - upto(bucket),
            false => 0,
        }
    }

    /// Bytes of the head in a file.
    pub(crate) fn bytes(&self) -> u64 {
        FIXED as u64
            + 24 * self.counts.len() as u64
            + 8 * u64::from(self.deal.n_nodes)
            + self.labels.bytes()
            + 8
    }

    /// Bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes() + self.counts.iter().sum::<u64>() * self.record_bytes()
    }

    pub(crate) fn hash(&self) -> u64 {
        let mut fingerprint = FingerprintOf(Fingerprint::new());
        let done = self.write_body(&mut fingerprint);
        debug_assert!(done.is_ok());
        fingerprint.0.finish()
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_body(out)?;
        out.write_all(&self.hash().to_le_bytes())
    }

    fn write_body(&self, out: &mut dyn Write) -> io::Result<()> {
        let directed = if self.is_directed { DIRECTED } else { 0 };
        let weighted = if self.is_weighted { WEIGHTED } else { 0 };
        let Deal { n_nodes, n_parts } = self.deal;
        out.write_all(&MAGIC)?;
        for word in [VERSION, directed | weighted, n_nodes, n_parts] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&self.labels.bytes().to_le_bytes())?;
        for ((count, hash), weight) in self.counts.iter().zip(&self.hashes).zip(&self.weights) {
            out.write_all(&count.to_le_bytes())?;
            out.write_all(&hash.to_le_bytes())?;
            out.write_all(&weight.to_le_bytes())?;
        }
        for (degree, node) in self.degrees.iter().zip(&self.order) {
            out.write_all(&degree.to_le_bytes())?;
            out.write_all(&node.to_le_bytes())?;
        }
        self.labels.write(out)
    }

    pub(crate) fn read(file: &mut dyn Read, path: &Path) -> Result<Head, Error> {
        let mut fixed = [0; FIXED];
        let wrong = |what: &str| Error::file(path, what);
        let is_short = |_| wrong("cut short in its head: import the graph again");
        file.read_exact(&mut fixed).map_err(|_| {
            wrong("no edge store: expected a file that `shardgraph embed import` wrote")
        })?;
        if fixed[..8] != MAGIC {
            return Err(wrong(
                "no edge store: expected a file that `shardgraph embed import` wrote",
            ));
        }
        let [version, flags, n_nodes, n_parts] = [8, 12, 16, 20].map(|at| word(&fixed, at));
        if version != VERSION {
            let what = format_args!(
                "an edge store of version {version}, expected {VERSION}: import the graph again"
            );
            return Err(Error::file(path, what));
        }
        if !n_parts.is_power_of_two() || n_parts > 1024 || flags > (DIRECTED | WEIGHTED) {
            return Err(wrong("damaged in its head: import the graph again"));
        }
        let n_buckets = u64::from(n_parts) * u64::from(n_parts);
        let rest = (24 * n_buckets + 8 * u64::from(n_nodes)).saturating_add(long(&fixed, 24));
        let mut body = Vec::new();
        file.take(rest.saturating_add(8))
            .read_to_end(&mut body)
            .map_err(is_short)?;
        if body.len() as u64 != rest.saturating_add(8) {
            return Err(wrong("cut short in its head: import the graph again"));
        }
        let deal = Deal { n_nodes, n_parts };
        let head = Head::decode(deal, flags, &body);
        let head = head.filter(|head| head.hash() == long(&body, rest as usize));
        head.ok_or_else(|| wrong("damaged in its head: import the graph again"))
    }

    fn decode(deal: Deal, flags: u32, body: &[u8]) -> Option<Head> {
        let n_buckets = (deal.n_parts * deal.n_parts) as usize;
        let (buckets, rest) = body.split_at_checked(24 * n_buckets)?;
        let (nodes, rest) = rest.split_at_checked(8 * deal.n_nodes as usize)?;
        let labels = rest.split_at_checked(rest.len().checked_sub(8)?)?.0;
        let (buckets, nodes) = (buckets.chunks_exact(24), nodes.chunks_exact(8));
        Some(Head {
            deal,
            is_directed: flags & DIRECTED != 0,
            is_weighted: flags & WEIGHTED != 0,
            counts: buckets.clone().map(|b| long(b, 0)).collect(),
            hashes: buckets.clone().map(|b| long(b, 8)).collect(),
            weights: buckets.map(|b| f64::from_bits(long(b, 16))).collect(),
            degrees: nodes.clone().map(|n| f32::from_bits(word(n, 0))).collect(),
            order: nodes.map(|n| word(n, 4)).collect(),
            labels: NodeLabels::read(deal.n_nodes, labels)?,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// A writer that keeps nothing but the fingerprint.
///
/// All that is written in front of the labels' text comes in multiples of 4 B, and the text is the last piece.
struct FingerprintOf(Fingerprint);

impl Write for FingerprintOf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
