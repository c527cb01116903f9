//! Edges by number to their buckets: counted first, then written through one buffer a bucket.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use shardgraph_storage::{Hasher, ScratchFile};

use super::super::Head;
use super::super::beside::beside;
use super::super::build::oriented;
use super::super::labels::LabelSpool;
use super::options::ImportStage;
use super::resume_point::ParsedGraph;
use super::sink::{BATCH, Edge};
use crate::Error;

/// Bucket of an edge, and the rows of its ends in their parts.
struct Placed {
    bucket: usize,
    rows: [u32; 2],
}

/// Counts, then writes the edges to their buckets; gives the bytes of the finished file.
pub(super) fn scatter(
    head: &mut Head,
    ranks: &[u32],
    taken: &mut ParsedGraph<'_>,
    out: &Path,
    buffer: usize,
) -> Result<u64, Error> {
    let (partition, directed, is_weighted) = (head.partition, head.is_directed, head.is_weighted);
    let place = |number: u64, edge: &Edge| {
        let (u, v) = match directed {
            true => (edge.u, edge.v),
            false => oriented(number, edge.u, edge.v),
        };
        let (from, to) = (
            partition.place(ranks[u as usize]),
            partition.place(ranks[v as usize]),
        );
        Placed {
            bucket: (from.0 * partition.n_parts + to.0) as usize,
            rows: [from.1, to.1],
        }
    };
    taken
        .sink
        .replay(ImportStage::Counting, partition.n_nodes, |first, edges| {
            for (number, edge) in (first..).zip(edges) {
                let bucket = place(number, edge).bucket;
                head.counts[bucket] += 1;
                head.weights[bucket] += f64::from(edge.weight);
            }
            Ok(())
        })?;
    head.sum_up();
    check_weights(head)?;
    let partial = beside(taken.sink.stem, "partial");
    let at = |e: io::Error| Error::io("write", &partial, e);
    let (file, scratch) = create(&partial).map_err(at)?;
    let mut buckets = Buckets::new(head, &file, buffer);
    let mut placed = Vec::with_capacity(BATCH);
    taken
        .sink
        .replay(ImportStage::Dealing, partition.n_nodes, |first, edges| {
            placed.clear();
            placed.extend(
                (first..)
                    .zip(edges)
                    .map(|(number, edge)| place(number, edge)),
            );
            for (placed, edge) in placed.iter().zip(edges) {
                let weight = is_weighted.then_some(edge.weight);
                buckets
                    .push(placed.bucket, placed.rows, weight)
                    .map_err(at)?;
            }
            Ok(())
        })?;
    head.hashes = buckets.finish().map_err(at)?;
    taken.release(); // files that make room
    write_head(head, &taken.labels, &file).map_err(at)?;
    file.sync_all().map_err(at)?;
    scratch
        .rename(out)
        .map_err(|e| Error::io("write", out, e))?;
    Ok(head.file_bytes())
}

/// Edges that all have weight 0 would never be drawn.
fn check_weights(head: &Head) -> Result<(), Error> {
    if head.n_edges() == 0 || head.weights.iter().any(|&weight| weight > 0.0) {
        return Ok(());
    }
    let what = "all edges of the graph have weight 0: expected one above 0";
    Err(Error::graph(what))
}

fn create(path: &Path) -> io::Result<(File, ScratchFile)> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    Ok((file, ScratchFile::new(path.to_owned())))
}

fn write_head(head: &mut Head, labels: &LabelSpool, file: &File) -> io::Result<()> {
    let mut start = BufWriter::with_capacity(1 << 20, file);
    head.write(&mut start, &|out| labels.write(out))?;
    start.flush()
}

/// Bytes of an edge: two rows and a weight.
const LARGEST_RECORD: usize = 12;

/// One buffer a bucket, and where its next records go.
struct Buckets<'f> {
    file: &'f File,
    pending: Vec<Vec<u8>>,
    offsets: Vec<u64>,
    hashes: Vec<Hasher>,
    buffer: usize,
}

impl<'f> Buckets<'f> {
    fn new(head: &Head, file: &'f File, buffer: usize) -> Buckets<'f> {
        let n_buckets = head.counts.len();
        // Most of many buckets are small: none has room for more than its edges.
        let room = |bucket: usize| {
            let edges = usize::try_from(head.counts[bucket]).unwrap_or(usize::MAX);
            edges.saturating_mul(LARGEST_RECORD).min(buffer)
        };
        Buckets {
            file,
            pending: (0..n_buckets)
                .map(|b| Vec::with_capacity(room(b)))
                .collect(),
            offsets: (0..n_buckets)
                .map(|b| head.bytes() + head.offset(b))
                .collect(),
            hashes: vec![Hasher::new(); n_buckets],
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
        match pending.len() + LARGEST_RECORD > self.buffer {
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
        Ok(self
            .hashes
            .into_iter()
            .map(|hasher| hasher.finish())
            .collect())
    }
}
