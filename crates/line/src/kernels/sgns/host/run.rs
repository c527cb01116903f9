//! The update of samples with [`TILE`] targets of their own, a few samples at a time.
//!
//! The dot products of a run of samples are taken before the first of them is updated: with one sample alone, the processor waits for its
//! weights with nothing else to do. Two samples of a run have no row in common, so that the bits are those of one after the other. Rows of fp16 tables are worked on as copies in f32.

use std::ops::Range;

use pulp::Simd;

use super::super::Element;
use super::half_rows::{round_row, widen_row, word_of_slot};
use super::kernel::{WIDTH, load, store, tile_dots};
use super::lanes::{Lanes, TILE, has_repeat};
use super::logistic::{loss_of_sample, sigmoid_of_less};
use super::queue::{LINE, Queue};
use super::scratch::{Raw, SIDE_BY_SIDE};
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
    /// fp16: rows of the samples in f32, the source's and then its targets'.
    copies: Vec<f32>,
}

impl Run {
    /// For rows of `dim` columns, worked on in place or not.
    pub(super) fn new(dim: usize, in_place: bool) -> Run {
        let n_copies = if in_place { 0 } else { RUN * (TILE + 1) };
        let mut signs = [-1.0; RUN * SIDE_BY_SIDE];
        signs
            .iter_mut()
            .step_by(SIDE_BY_SIDE)
            .for_each(|sign| *sign = 1.0);
        Run {
            dots: [0.0; RUN * SIDE_BY_SIDE],
            weights: [0.0; RUN * SIDE_BY_SIDE],
            signs,
            copies: vec![0.0; n_copies * dim],
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
            *loss = loss_of_sample(dots[..TILE].iter().copied());
        }
    }
}

/// How many samples from `first` on, of at most `most`, are a run: none of them has a row twice, or one of an earlier one. May be none.
#[inline(always)]
pub(super) fn length<S: Simd>(
    queue: &Queue<'_>,
    first: u64,
    most: u64,
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

/// Updates a run of samples, given by their numbers.
///
/// # Safety
/// The rows of all samples exist in the tables, of `dim` columns, nothing else reads or writes these meanwhile, and the samples are a
/// run. `run` is for this T and these columns.
#[inline(always)]
pub(super) unsafe fn samples<T: Element, S: Simd, const R: usize>(
    simd: S,
    queue: &Queue<'_>,
    samples: Range<u64>,
    tables: Raw<T>,
    dim: usize,
    rate: f32,
    run: &mut Run,
) {
    let (first, n) = (samples.start, (samples.end - samples.start) as usize);
    let (sources, targets) = queue.lanes(first, n);
    // SAFETY: the caller's promise.
    unsafe {
        let mut wide = [SampleRows::<f32>::NONE; RUN];
        for (sample, (&source, targets)) in sources.iter().zip(targets).enumerate() {
            let rows = SampleRows::of(tables, source, targets, dim);
            wide[sample] = rows.in_f32::<S>(sample, dim, run);
            let source = std::slice::from_raw_parts(wide[sample].source, dim);
            let dots = tile_dots::<S, R, TILE>(simd, source, &wide[sample].targets);
            run.dots[sample * SIDE_BY_SIDE..][..SIDE_BY_SIDE].copy_from_slice(&dots);
        }
        run.weigh(rate);
        for (sample, (&source, targets)) in sources.iter().zip(targets).enumerate() {
            let i = first + sample as u64;
            let (later_source, later_targets) = queue.later(i);
            let later = SampleRows::of(tables, later_source, later_targets, dim);
            let weights = &run.weights[sample * SIDE_BY_SIDE..][..TILE];
            update::<T, S, R>(simd, &wide[sample], &later, weights, dim);
            let random = queue.drawn.rounding_word::<T>(i);
            SampleRows::of(tables, source, targets, dim).take::<S>(&wide[sample], random, dim);
        }
    }
}

/// The rows of a sample.
#[derive(Clone, Copy)]
struct SampleRows<T> {
    source: *mut T,
    targets: [*mut T; TILE],
}

impl<T: Element> SampleRows<T> {
    const NONE: SampleRows<T> = SampleRows {
        source: std::ptr::null_mut(),
        targets: [std::ptr::null_mut(); TILE],
    };

    /// # Safety
    /// The tables have these rows.
    #[inline(always)]
    unsafe fn of(tables: Raw<T>, source: u32, ids: &Lanes<u32>, dim: usize) -> SampleRows<T> {
        let mut targets = [tables.context; TILE];
        // SAFETY: the caller's promise.
        unsafe {
            for (target, &id) in targets.iter_mut().zip(ids) {
                *target = target.add(id as usize * dim);
            }
            SampleRows {
                source: tables.vertex.add(source as usize * dim),
                targets,
            }
        }
    }

    /// Asks for the line of each row that begins at this column.
    #[inline(always)]
    fn ask(&self, column: usize) {
        if !(column * size_of::<T>()).is_multiple_of(LINE) {
            return;
        }
        prefetch_line(self.source.wrapping_add(column));
        for row in self.targets {
            prefetch_line(row.wrapping_add(column));
        }
    }

    /// The rows themselves, or the copies of a run's sample.
    ///
    /// # Safety
    /// T is f32, or the bits of fp16; the rows have `dim` columns, and the run is for these.
    #[inline(always)]
    unsafe fn in_f32<S: Simd>(&self, sample: usize, dim: usize, run: &mut Run) -> SampleRows<f32> {
        if size_of::<T>() == 4 {
            return SampleRows {
                source: self.source.cast(),
                targets: self.targets.map(<*mut T>::cast),
            };
        }
        let copies = run.copies[sample * (TILE + 1) * dim..].as_mut_ptr();
        let mut targets = [copies; TILE];
        // SAFETY: the run has room for the copies of each sample.
        unsafe {
            widen_row::<S>(self.source.cast(), copies, dim);
            for (slot, (target, from)) in targets.iter_mut().zip(self.targets).enumerate() {
                *target = copies.add((slot + 1) * dim);
                widen_row::<S>(from.cast(), *target, dim);
            }
        }
        SampleRows {
            source: copies,
            targets,
        }
    }

    /// Rounds copies back; rows that were worked on in place have nothing to take.
    ///
    /// # Safety
    /// As [`SampleRows::in_f32`], whose copies these are.
    #[inline(always)]
    unsafe fn take<S: Simd>(&self, copies: &SampleRows<f32>, random: u32, dim: usize) {
        if size_of::<T>() == 4 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            round_row::<S>(copies.source, self.source.cast(), dim, random);
            for (slot, (from, to)) in copies.targets.iter().zip(self.targets).enumerate() {
                round_row::<S>(*from, to.cast(), dim, word_of_slot(random, slot));
            }
        }
    }
}

/// Updates the rows of a sample; with each line of theirs, asks for that of a later sample's: memory is busy while the processor is.
///
/// # Safety
/// Each row has `dim` columns, and none of the sample's is another.
#[inline(always)]
unsafe fn update<T: Element, S: Simd, const R: usize>(
    simd: S,
    rows: &SampleRows<f32>,
    later: &SampleRows<T>,
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
unsafe fn update_columns(rows: &SampleRows<f32>, weights: &[f32], columns: Range<usize>) {
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
