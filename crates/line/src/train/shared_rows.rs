//! Modes in which threads of the host share rows: buckets are cut into pieces that threads take.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::bucket_trainer::{LoadedJob, PassRange};
use super::context::OrderContext;
use super::scalar::Scalar;
use super::worker_pool::{WorkerPool, locked, panicked};
use crate::Error;
use crate::kernels::sgns::{EdgeList, SharedTables};
use crate::schedule::BucketPass;

/// Samples of a piece: few enough that a single bucket keeps all threads busy. A multiple of all
/// groups of shared negatives.
const PIECE: u64 = 1 << 14;

/// Some of the samples of a bucket.
struct Piece<'w, T: Scalar> {
    bucket_pass: BucketPass,
    range: Range<u64>,
    tables: SharedTables<'w, T>,
    adagrad_sums: Option<SharedTables<'w, f32>>,
    /// Read by the first thread that needs them.
    edges: Arc<Mutex<Option<Arc<EdgeList>>>>,
}

/// Trains on all jobs.
pub(super) fn train<T: Scalar>(
    context: &OrderContext<'_>,
    jobs: &mut [LoadedJob<T>],
    pool: WorkerPool,
) -> Result<(), Error> {
    let mut pieces = Vec::new();
    for loaded in jobs {
        cut(loaded, &mut pieces)?;
    }
    pieces.reverse(); // the first is the last, and taken first
    pool.for_each(pieces, |piece| train_piece(context, &piece))
}

/// Cuts the samples of a job into pieces.
fn cut<'w, T: Scalar>(
    loaded: &'w mut LoadedJob<T>,
    pieces: &mut Vec<Piece<'w, T>>,
) -> Result<(), Error> {
    let [vertex] = loaded.vertex_rows.as_mut_slice() else {
        return Err(panicked()); // jobs are small in these modes
    };
    let (tables, sums) = match &mut loaded.context_rows {
        None => (
            SharedTables::order1(&mut vertex.values)?,
            vertex.adagrad_sums.as_mut().map(SharedTables::order1),
        ),
        Some(context) => {
            let sums = vertex
                .adagrad_sums
                .as_mut()
                .zip(context.adagrad_sums.as_mut());
            (
                SharedTables::order2(&mut vertex.values, &mut context.values)?,
                sums.map(|(vertex, context)| SharedTables::order2(vertex, context)),
            )
        }
    };
    let sums = sums.transpose()?;
    for &bucket_pass in &loaded.job.bucket_passes {
        let is_first = loaded.job.vertex_parts.contains(&bucket_pass.vertex);
        let edges = Arc::new(Mutex::new(None));
        for first in (0..bucket_pass.n_samples).step_by(PIECE as usize) {
            pieces.push(Piece {
                bucket_pass,
                range: first..bucket_pass.n_samples.min(first + PIECE),
                tables: if is_first { tables } else { tables.exchanged() },
                adagrad_sums: sums.map(|s| if is_first { s } else { s.exchanged() }),
                edges: Arc::clone(&edges),
            });
        }
    }
    Ok(())
}

fn train_piece<T: Scalar>(context: &OrderContext<'_>, piece: &Piece<'_, T>) -> Result<(), Error> {
    let stream = &context.streams[0];
    let edges = {
        let mut held = locked(&piece.edges);
        match &*held {
            Some(edges) => Arc::clone(edges),
            None => {
                let bucket = context.bucket(piece.bucket_pass)?;
                let edges = Arc::new(context.upload(stream, bucket)?);
                *held = Some(Arc::clone(&edges));
                edges
            }
        }
    };
    let range = PassRange {
        stream,
        bucket_pass: piece.bucket_pass,
        edges: &edges,
        samples: piece.range.clone(),
    };
    let (tables, sums) = (piece.tables, piece.adagrad_sums);
    context.clock.updating(|| {
        context.train_range(&range, &mut |trainer, samples, rate| {
            Ok(trainer.step_shared(samples, rate, tables, sums)?)
        })
    })
}
