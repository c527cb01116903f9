//! The modes in which threads of the host share rows: the buckets of a step are cut into pieces, which threads take in turn.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use shardgraph_device::sgns::{EdgeList, SharedTables};

use super::cell::Cell;
use super::plan::Leg;
use super::step::{Shared, Work, in_turn, locked, panicked};
use crate::Error;

/// Samples of a piece: few enough that a single bucket keeps all threads busy. A multiple of all groups of shared negatives.
const PIECE: u64 = 1 << 14;

/// Some of the samples of a bucket.
struct Piece<'w, T: Cell> {
    leg: Leg,
    range: Range<u64>,
    tables: SharedTables<'w, T>,
    squares: Option<SharedTables<'w, f32>>,
    /// Read by the first who wants them.
    edges: Arc<Mutex<Option<Arc<EdgeList>>>>,
}

/// Does all jobs.
pub(super) fn run<T: Cell>(
    shared: &Shared<'_>,
    jobs: &mut [Work<T>],
    n_threads: usize,
) -> Result<(), Error> {
    let mut pieces = Vec::new();
    for work in jobs {
        cut(work, &mut pieces)?;
    }
    pieces.reverse(); // the first is the last, and taken first
    in_turn(pieces, n_threads, |piece| train(shared, &piece))
}

/// Cuts the samples of a job into pieces.
fn cut<'w, T: Cell>(work: &'w mut Work<T>, pieces: &mut Vec<Piece<'w, T>>) -> Result<(), Error> {
    let Work {
        job,
        firsts,
        second,
    } = work;
    let [first] = firsts.as_mut_slice() else {
        return Err(panicked()); // jobs are small in these modes
    };
    let (tables, squares) = match second {
        None => (
            SharedTables::order1(&mut first.cells)?,
            first.squares.as_mut().map(SharedTables::order1),
        ),
        Some(second) => {
            let squares = first.squares.as_mut().zip(second.squares.as_mut());
            (
                SharedTables::order2(&mut first.cells, &mut second.cells)?,
                squares.map(|(first, second)| SharedTables::order2(first, second)),
            )
        }
    };
    let squares = squares.transpose()?;
    for &leg in &job.legs {
        let is_first = job.firsts.contains(&leg.vertex);
        let edges = Arc::new(Mutex::new(None));
        for first in (0..leg.n_samples).step_by(PIECE as usize) {
            pieces.push(Piece {
                leg,
                range: first..leg.n_samples.min(first + PIECE),
                tables: if is_first { tables } else { tables.exchanged() },
                squares: squares.map(|s| if is_first { s } else { s.exchanged() }),
                edges: Arc::clone(&edges),
            });
        }
    }
    Ok(())
}

fn train<T: Cell>(shared: &Shared<'_>, piece: &Piece<'_, T>) -> Result<(), Error> {
    let lane = &shared.lanes[0];
    let edges = {
        let mut held = locked(&piece.edges);
        match &*held {
            Some(edges) => Arc::clone(edges),
            None => {
                let edges = Arc::new(shared.upload(lane, shared.bucket(piece.leg)?)?);
                *held = Some(Arc::clone(&edges));
                edges
            }
        }
    };
    let (tables, squares, range) = (piece.tables, piece.squares, piece.range.clone());
    shared.update_clock(|| {
        shared.chunks(
            lane,
            piece.leg,
            &edges,
            range,
            &mut |trainer, samples, rate| Ok(trainer.step_shared(samples, rate, tables, squares)?),
        )
    })
}
