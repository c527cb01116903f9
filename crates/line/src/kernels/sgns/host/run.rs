//! The update of samples with [`TILE`] targets of their own in f32 tables, a few samples at a time.
//!
//! The dot products of a run of samples are taken before the first of them is updated: with one sample alone, the processor waits for its
//! weights with nothing else to do. Two samples of a run have no row in common, so that the bits are those of one after the other.

use std::ops::Range;

use pulp::Simd;

use super::kernel::{TILE, WIDTH, load, store, tile_dots};
use super::lanes::{Lanes, has_repeat};
use super::queue::Queue;
use super::{Raw, SIDE_BY_SIDE, loss_of, sigmoid_of_less};
use shardgraph_device::prefetch_line;

/// The most samples of a run. More were no faster, measured.
const RUN: usize = 2;

/// Working memory of a run.
pub(super) struct Run {
    dots: [f32; RUN * SIDE_BY_SIDE],
    /// `rate * (label - sigmoid(dots))`.
    weights: [f32; RUN * SIDE_BY_SIDE],
    /// 1 for an edge's own target, -1 for negatives; from memory, so that all lanes are treated alike.
    signs: [f32; RUN * SIDE_BY_SIDE],
}

impl Run {
    pub(super) fn new() -> Run {
        let mut signs = [-1.0; RUN * SIDE_BY_SIDE];
        signs
            .iter_mut()
            .step_by(SIDE_BY_SIDE)
            .for_each(|sign| *sign = 1.0);
        Run {
            dots: [0.0; RUN * SIDE_BY_SIDE],
            weights: [0.0; RUN * SIDE_BY_SIDE],
            signs,
        }
    }

    /// From dot products to weights.
    #[inline(always)]
    fn weigh(&mut self, rate: f32) {
        for lane in 0..RUN * SIDE_BY_SIDE {
            let sign = self.signs[lane];
            self.weights[lane] = sign * sigmoid_of_less(sign * self.dots[lane], rate);
        }
    }

    /// The losses of the last run's samples.
    pub(super) fn give_losses(&self, losses: &mut [f32]) {
        for (loss, dots) in losses.iter_mut().zip(self.dots.chunks(SIDE_BY_SIDE)) {
            let of_slot = |(slot, &dot)| loss_of(dot, slot == 0);
            *loss = dots[..TILE].iter().enumerate().map(of_slot).sum();
        }
    }
}

/// How many samples from `first` on, of at most `most`, are a run: none of them has a row twice, or one of an earlier one. May be none.
#[inline(always)]
pub(super) fn length<S: Simd>(
    queue: &Queue<'_>,
    (first, most): (u64, u64),
    has_one_table: bool,
) -> usize {
    let (sources, targets) = queue.lanes(first, (RUN as u64).min(most) as usize);
    for n in 0..sources.len() {
        let (source, last) = (sources[n], &targets[n]);
        let mut is_met = sources[..n].contains(&source);
        if has_one_table {
            is_met |= targets[..n + 1].as_flattened().contains(&source);
            is_met |= sources[..n].iter().any(|source| last.contains(source));
        }
        if is_met | has_repeat::<S>(&targets[..n + 1]) {
            return n;
        }
    }
    sources.len()
}

/// Updates a run of `n` samples from `first` on.
///
/// # Safety
/// T is f32. The rows of all samples exist in the tables, of `dim` columns, nothing else reads or writes these meanwhile, and the samples
/// are a run.
#[inline(always)]
pub(super) unsafe fn samples<T, S: Simd, const R: usize>(
    simd: S,
    queue: &Queue<'_>,
    (first, n): (u64, usize),
    (tables, dim, rate): (Raw<T>, usize, f32),
    run: &mut Run,
) {
    debug_assert_eq!(size_of::<T>(), size_of::<f32>());
    let (vertex, context): (*mut f32, *mut f32) = (tables.vertex.cast(), tables.context.cast());
    let (sources, targets) = queue.lanes(first, n);
    // SAFETY: the caller's promise.
    unsafe {
        for (sample, (&source, targets)) in sources.iter().zip(targets).enumerate() {
            let source = std::slice::from_raw_parts(vertex.add(source as usize * dim), dim);
            let rows = rows_of(context, targets, dim);
            let dots = tile_dots::<S, R, TILE>(simd, source, &rows);
            run.dots[sample * SIDE_BY_SIDE..][..SIDE_BY_SIDE].copy_from_slice(&dots);
        }
        run.weigh(rate);
        for (sample, (&source, targets)) in sources.iter().zip(targets).enumerate() {
            let later = queue.later(first + sample as u64);
            let rows = [(source, targets), later].map(|(source, targets)| Rows {
                source: vertex.add(source as usize * dim),
                targets: rows_of(context, targets, dim),
            });
            let weights = &run.weights[sample * SIDE_BY_SIDE..][..TILE];
            update::<S, R>(simd, &rows, weights, dim);
        }
    }
}

/// The rows of a sample.
struct Rows {
    source: *mut f32,
    targets: [*mut f32; TILE],
}

impl Rows {
    /// Asks for the line of each row that begins at this column.
    #[inline(always)]
    fn ask(&self, column: usize) {
        prefetch_line(self.source.wrapping_add(column));
        for row in self.targets {
            prefetch_line(row.wrapping_add(column));
        }
    }
}

/// # Safety
/// These are rows of the table.
#[inline(always)]
unsafe fn rows_of(table: *mut f32, ids: &Lanes<u32>, dim: usize) -> [*mut f32; TILE] {
    let mut rows = [table; TILE];
    for slot in 0..TILE {
        // SAFETY: the caller's promise.
        rows[slot] = unsafe { table.add(ids[slot] as usize * dim) };
    }
    rows
}

/// Updates the rows of a sample; with each line of theirs, asks for that of a later sample's: memory is busy while the processor is.
///
/// # Safety
/// Each row has `dim` columns, and none of the sample's is another.
#[inline(always)]
unsafe fn update<S: Simd, const R: usize>(
    simd: S,
    [rows, later]: &[Rows; 2],
    weights: &[f32],
    dim: usize,
) {
    let (source, targets) = (rows.source, rows.targets);
    let mut wide = [simd.splat_f32s(0.0); TILE];
    for k in 0..TILE {
        wide[k] = simd.splat_f32s(weights[k]);
    }
    let whole = dim / WIDTH * WIDTH;
    for line in (0..whole).step_by(WIDTH) {
        later.ask(line);
        for register in 0..R {
            let at = line + register * S::F32_LANES;
            // SAFETY: `at + F32_LANES <= whole`, which is within the rows.
            unsafe {
                let from = load::<S>(source.add(at));
                let mut sum = simd.splat_f32s(0.0);
                for k in 0..TILE {
                    let row = load::<S>(targets[k].add(at));
                    sum = simd.mul_add_e_f32s(wide[k], row, sum);
                    store::<S>(targets[k].add(at), simd.mul_add_e_f32s(wide[k], from, row));
                }
                store::<S>(source.add(at), simd.add_f32s(sum, from));
            }
        }
    }
    if whole < dim {
        later.ask(whole);
        // SAFETY: the caller's promise.
        unsafe { update_columns(rows, weights, whole..dim) };
    }
}

/// As [`update`], for the columns behind the last whole register.
///
/// # Safety
/// As [`update`].
#[inline(always)]
unsafe fn update_columns(rows: &Rows, weights: &[f32], columns: Range<usize>) {
    let (source, targets) = (rows.source, rows.targets);
    for at in columns {
        // SAFETY: a column of the rows.
        unsafe {
            let (from, mut sum) = (*source.add(at), 0.0);
            for k in 0..TILE {
                let row = *targets[k].add(at);
                sum += weights[k] * row;
                *targets[k].add(at) = row + weights[k] * from;
            }
            *source.add(at) = from + sum;
        }
    }
}
