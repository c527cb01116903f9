//! The update of samples that share their negatives, up to [`BLOCK`] of them at a time.
//!
//! The negatives' rows are read once for a block and stand still in it; what its samples add to them is summed up beside and added at its
//! end, as a small product of matrices. The edges' own rows are updated sample by sample: where a row would come twice, what is before it
//! is finished first. Sums go over the columns in the same lanes, and over the samples in the same order, whatever the registers hold.

#![expect(
    clippy::needless_range_loop,
    reason = "several arrays of registers go by one index, which is unrolled"
)]

use std::ops::Range;

use pulp::Simd;

use super::super::draws::mix;
use super::super::element::Element;
use super::half_rows::{round_row, widen_row, word_of_slot};
use super::kernel::{WIDTH, dots, load, store};
use super::lanes::equal;
use super::logistic::{loss_of_sample, sigmoid_of_less};
use super::queue::{Prefetch, Queue};
use super::scratch::{MAX_SLOTS, Raw};

/// Samples of a block, where so many share their negatives.
pub(super) const BLOCK: usize = 16;
/// The most samples of a run: their rows, and those of the run behind, fit a first-level cache of 32 KiB.
pub(super) const RUN: usize = 8;
/// Negatives that are worked on together: their sums and a sample's row fill AVX2's registers.
const TILE: usize = 5;

/// Takes the words of a block's samples apart: 2^32 over the golden ratio, odd.
const SPREAD: u32 = 0x9E37_79B9;

/// Places for the samples of a block, and so many that a run may be read whole wherever it begins.
const ROOM: usize = BLOCK + RUN;

/// A number for each sample of a run: that of sample `i` is in lane `i % RUN`.
type OfRun = [f32; RUN];

/// Working memory of a block.
pub(super) struct Block {
    dim: usize,
    sources: [u32; ROOM],
    targets: [u32; ROOM],
    /// By target, the edge's own first.
    dots: Vec<OfRun>,
    /// `rate * (label - sigmoid(dots))`.
    weights: Vec<OfRun>,
    /// 1 for the edge's own target, -1 for negatives.
    signs: Vec<OfRun>,
    /// The negatives' rows as the block found them.
    negatives: Vec<f32>,
    /// What is to be added to each of them.
    sums: Vec<f32>,
    /// fp16: the sources' rows in f32, then the targets'.
    copies: Vec<f32>,
    /// The rows of the edges' ends: those of the table, or the copies.
    ends: [(*mut f32, *mut f32); BLOCK],
}

impl Block {
    pub(super) fn new(dim: usize, n_negatives: usize, in_place: bool) -> Block {
        let n_copies = if in_place { 1 } else { 2 * BLOCK };
        let mut signs = vec![[-1.0; RUN]; n_negatives + 1];
        signs[0] = [1.0; RUN];
        Block {
            dim,
            sources: [0; ROOM],
            targets: [0; ROOM],
            dots: vec![[0.0; RUN]; n_negatives + 1],
            weights: vec![[0.0; RUN]; n_negatives + 1],
            signs,
            negatives: vec![0.0; n_negatives * dim],
            sums: vec![0.0; n_negatives * dim],
            copies: vec![0.0; n_copies * dim],
            ends: [(std::ptr::null_mut(), std::ptr::null_mut()); BLOCK],
        }
    }

    /// The first sample from `first` on, before `end`, with a row of one from `first` on, or the one behind [`RUN`].
    #[inline(always)]
    fn end_of_run<S: Simd>(&self, first: usize, end: usize, has_one_table: bool) -> usize {
        let end = end.min(first + RUN);
        for sample in first + 1..end {
            let (source, target) = (self.sources[sample], self.targets[sample]);
            let same_as = |ids: &[u32; ROOM], id| {
                let (from, _) = ids[first..].as_chunks::<RUN>();
                equal::<S>(&from[0], id)
            };
            let mut same = same_as(&self.sources, source) | same_as(&self.targets, target);
            if has_one_table {
                same |= same_as(&self.sources, target) | same_as(&self.targets, source);
            }
            if same & ((1 << (sample - first)) - 1) != 0 {
                return sample;
            }
        }
        end
    }

    /// From dot products to weights.
    #[inline(always)]
    fn weigh(&mut self, rate: f32) {
        // One loop over all, which becomes vector code.
        let dots = self.dots.as_flattened().iter();
        let signs = self.signs.as_flattened();
        let weights = self.weights.as_flattened_mut();
        for ((weight, dot), sign) in weights.iter_mut().zip(dots).zip(signs) {
            *weight = sign * sigmoid_of_less(sign * dot, rate);
        }
    }

    /// The losses of a run, where they are wanted.
    #[inline(always)]
    fn give_losses(&self, run: Range<usize>, losses: &mut Option<&mut [f32]>) {
        if let Some(losses) = losses {
            for sample in run {
                losses[sample] = self.loss(sample);
            }
        }
    }

    fn loss(&self, sample: usize) -> f32 {
        loss_of_sample(self.dots.iter().map(|dots| dots[sample % RUN]))
    }
}

/// What the kernels are compiled for besides any columns and negatives: LINE's own.
pub(super) const USUAL: (usize, usize) = (128, 5);

impl Block {
    /// Columns and negatives; where `IS_USUAL`, constants.
    #[inline(always)]
    fn shape<const IS_USUAL: bool>(&self) -> (usize, usize) {
        match IS_USUAL {
            true => USUAL,
            false => (self.dim, self.weights.len() - 1),
        }
    }

    /// Whether these are [`USUAL`].
    pub(super) fn is_usual(&self) -> bool {
        self.shape::<false>() == USUAL
    }
}

/// The tables of a call, and its rate.
pub(super) struct Call<T> {
    pub(super) tables: Raw<T>,
    pub(super) rate: f32,
}

/// Updates `n` samples from `first` on, which share their negatives, at most [`BLOCK`]; gives their losses where there is room.
///
/// # Safety
/// The rows of all samples exist in the tables, and nothing else reads or writes these meanwhile. `block` is for their columns and
/// negatives, with copies unless T is f32; these are [`USUAL`] where `IS_USUAL`.
#[inline(always)]
pub(super) unsafe fn samples<T: Element, S: Simd, const R: usize, const IS_USUAL: bool>(
    simd: S,
    queue: &Queue<'_>,
    first: u64,
    n: usize,
    call: &Call<T>,
    block: &mut Block,
    mut losses: Option<&mut [f32]>,
) {
    let (vertex, context) = (call.tables.vertex, call.tables.context);
    let ahead = Prefetch { vertex, context };
    let random = queue.drawn.rounding_word::<T>(first);
    let negatives = &queue.sample(first).1[1..];
    // SAFETY: rows of the table.
    unsafe { take_negatives::<T, S, IS_USUAL>(negatives, call, block) };
    for sample in 0..n {
        let (source, targets) = queue.sample(first + sample as u64);
        (block.sources[sample], block.targets[sample]) = (source, targets[0]);
    }
    let mut from = 0;
    while from < n {
        let end = block.end_of_run::<S>(from, n, std::ptr::eq(vertex, context));
        // SAFETY: the caller's promise; the rows of the run's edges are different but for the two ends of an edge.
        unsafe {
            for sample in from..end {
                queue.ask_source(first + sample as u64, ahead);
                begin::<T, S, R, IS_USUAL>(simd, sample, call, block);
            }
            block.weigh(call.rate);
            add_up::<S, R, IS_USUAL>(simd, from..end, block);
            for sample in from..end {
                queue.ask_targets(first + sample as u64, ahead);
                let random = mix(random.wrapping_add((sample as u32 + 1).wrapping_mul(SPREAD)));
                finish::<T, S, IS_USUAL>(simd, sample, random, call, block);
            }
        }
        block.give_losses(from..end, &mut losses);
        from = end;
    }
    // SAFETY: as above.
    unsafe { give_negatives::<T, S, IS_USUAL>(negatives, random, call, block) };
}

/// The negatives' rows as they are, with nothing to be added yet.
///
/// # Safety
/// They are rows of the table, as many as the block is for.
#[inline(always)]
unsafe fn take_negatives<T, S: Simd, const IS_USUAL: bool>(
    negatives: &[u32],
    call: &Call<T>,
    block: &mut Block,
) {
    let (dim, n_negatives) = block.shape::<IS_USUAL>();
    for (at, &negative) in negatives[..n_negatives].iter().enumerate() {
        // SAFETY: a row of the table, and one of the copies.
        unsafe {
            let row = call.tables.context.add(negative as usize * dim);
            take_row::<T, S>(row, block.negatives.as_mut_ptr().add(at * dim), dim);
        }
    }
    for sum in &mut block.sums {
        *sum = 0.0;
    }
}

/// Adds to the negatives' rows what is to be added; `random` decides how these are rounded.
///
/// # Safety
/// As [`take_negatives`].
#[inline(always)]
unsafe fn give_negatives<T, S: Simd, const IS_USUAL: bool>(
    negatives: &[u32],
    random: u32,
    call: &Call<T>,
    block: &mut Block,
) {
    let (dim, n_negatives) = block.shape::<IS_USUAL>();
    for (at, &negative) in negatives[..n_negatives].iter().enumerate() {
        // SAFETY: a row of the table, and one of the copies, which is not needed any more.
        unsafe {
            let row = call.tables.context.add(negative as usize * dim);
            let sum = &block.sums[at * dim..][..dim];
            if size_of::<T>() == 4 {
                add_to(row.cast(), sum);
                continue;
            }
            let copy = block.negatives.as_mut_ptr().add(at * dim);
            take_row::<T, S>(row, copy, dim);
            add_to(copy, sum);
            give_row::<T, S>(copy, row, dim, word_of_slot(random, at + 1));
        }
    }
}

/// # Safety
/// The row has as many columns as the sum.
#[inline(always)]
unsafe fn add_to(row: *mut f32, sum: &[f32]) {
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts_mut(row, sum.len()) };
    for column in 0..sum.len() {
        row[column] += sum[column];
    }
}

/// A row as f32.
///
/// # Safety
/// Both have `dim` columns and are not one another.
#[inline(always)]
unsafe fn take_row<T, S: Simd>(from: *const T, to: *mut f32, dim: usize) {
    // SAFETY: the caller's promise; T is f32, or the bits of fp16.
    unsafe {
        match size_of::<T>() {
            4 => std::ptr::copy_nonoverlapping(from.cast(), to, dim),
            _ => widen_row::<S>(from.cast(), to, dim),
        }
    }
}

/// Back to the table.
///
/// # Safety
/// As [`take_row`].
#[inline(always)]
unsafe fn give_row<T, S: Simd>(from: *const f32, to: *mut T, dim: usize, random: u32) {
    // SAFETY: the caller's promise; T is f32, or the bits of fp16.
    unsafe {
        match size_of::<T>() {
            4 => std::ptr::copy_nonoverlapping(from, to.cast(), dim),
            _ => round_row::<S>(from, to.cast(), dim, random),
        }
    }
}

/// The rows of a sample's edge: those of the table, or their copies.
///
/// # Safety
/// As [`samples`].
#[inline(always)]
unsafe fn find_ends<T, S: Simd>(
    sample: usize,
    dim: usize,
    call: &Call<T>,
    block: &mut Block,
) -> (*mut f32, *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let source = call.tables.vertex.add(block.sources[sample] as usize * dim);
        let target = call
            .tables
            .context
            .add(block.targets[sample] as usize * dim);
        if size_of::<T>() == 4 {
            return (source.cast(), target.cast());
        }
        let copies = block.copies.as_mut_ptr();
        let of_source = copies.add(sample * dim);
        take_row::<T, S>(source, of_source, dim);
        // Where both ends are one row, it has one copy.
        if std::ptr::eq(source, target) {
            return (of_source, of_source);
        }
        let of_target = copies.add((BLOCK + sample) * dim);
        take_row::<T, S>(target, of_target, dim);
        (of_source, of_target)
    }
}

/// Finds the rows of a sample's edge and takes its dot products.
///
/// # Safety
/// As [`samples`].
#[inline(always)]
unsafe fn begin<T, S: Simd, const R: usize, const IS_USUAL: bool>(
    simd: S,
    sample: usize,
    call: &Call<T>,
    block: &mut Block,
) {
    let (dim, n_negatives) = block.shape::<IS_USUAL>();
    // SAFETY: the caller's promise.
    unsafe {
        let ends = find_ends::<T, S>(sample, dim, call, block);
        block.ends[sample] = ends;
        let mut rows = [ends.1; MAX_SLOTS];
        let n_slots = n_negatives + 1;
        for slot in 1..n_slots {
            rows[slot] = block.negatives.as_mut_ptr().add((slot - 1) * dim);
        }
        let mut out = [0.0; MAX_SLOTS];
        let source = std::slice::from_raw_parts(ends.0, dim);
        dots::<S, R>(simd, source, &rows[..n_slots], &mut out);
        let of_slots = block.dots.as_mut_ptr();
        for slot in 0..n_slots {
            (*of_slots.add(slot))[sample % RUN] = out[slot];
        }
    }
}

/// `sums[k] += sum of weights[k] * source` over the samples of a run.
///
/// # Safety
/// As [`samples`]; the rows are as the dot products found them.
#[inline(always)]
unsafe fn add_up<S: Simd, const R: usize, const IS_USUAL: bool>(
    simd: S,
    run: Range<usize>,
    block: &mut Block,
) {
    let (dim, n_negatives) = block.shape::<IS_USUAL>();
    let whole = n_negatives / TILE * TILE;
    // SAFETY: the caller's promise.
    unsafe {
        for first in (0..whole).step_by(TILE) {
            add_up_tile::<S, R, TILE>(simd, run.clone(), first, dim, block);
        }
        for first in whole..n_negatives {
            add_up_tile::<S, R, 1>(simd, run.clone(), first, dim, block);
        }
    }
}

/// # Safety
/// As [`add_up`]; there are K negatives from `first` on.
#[inline(always)]
unsafe fn add_up_tile<S: Simd, const R: usize, const K: usize>(
    simd: S,
    run: Range<usize>,
    first: usize,
    dim: usize,
    block: &mut Block,
) {
    let whole = dim / WIDTH * WIDTH;
    let sums = block.sums[first * dim..].as_mut_ptr();
    for at in (0..whole).step_by(WIDTH) {
        let mut wide = [[simd.splat_f32s(0.0); R]; K];
        // SAFETY: columns of the sums and of the sources' rows.
        unsafe {
            for k in 0..K {
                for register in 0..R {
                    wide[k][register] = load::<S>(sums.add(k * dim + at + register * S::F32_LANES));
                }
            }
            add_samples::<S, R, K>(simd, run.clone(), first, at, &mut wide, block);
            for k in 0..K {
                for register in 0..R {
                    store::<S>(
                        sums.add(k * dim + at + register * S::F32_LANES),
                        wide[k][register],
                    );
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { add_up_columns(run, first, K, whole..dim, block) };
}

/// Adds the samples of a run to the sums of K negatives, for the columns of R registers from `at` on.
///
/// # Safety
/// As [`add_up_tile`].
#[inline(always)]
unsafe fn add_samples<S: Simd, const R: usize, const K: usize>(
    simd: S,
    run: Range<usize>,
    first: usize,
    at: usize,
    wide: &mut [[S::f32s; R]; K],
    block: &Block,
) {
    let weights = &block.weights[first + 1..][..K];
    for sample in run {
        let mut of_source = [simd.splat_f32s(0.0); R];
        for register in 0..R {
            // SAFETY: columns of the source's row.
            of_source[register] =
                unsafe { load::<S>(block.ends[sample].0.add(at + register * S::F32_LANES)) };
        }
        for k in 0..K {
            let weight = simd.splat_f32s(weights[k][sample % RUN]);
            for register in 0..R {
                let sum = wide[k][register];
                wide[k][register] = simd.mul_add_e_f32s(weight, of_source[register], sum);
            }
        }
    }
}

/// As [`add_up_tile`], for the columns behind the last whole register.
///
/// # Safety
/// As [`add_up_tile`].
#[inline(always)]
unsafe fn add_up_columns(
    run: Range<usize>,
    first: usize,
    n: usize,
    columns: Range<usize>,
    block: &mut Block,
) {
    let dim = columns.end;
    for column in columns {
        for k in first..first + n {
            let weights = &block.weights[k + 1];
            for sample in run.clone() {
                // SAFETY: a column of a source's row.
                let of_source = unsafe { *block.ends[sample].0.add(column) };
                block.sums[k * dim + column] += weights[sample % RUN] * of_source;
            }
        }
    }
}

/// Updates the rows of a sample's edge.
///
/// # Safety
/// As [`samples`].
#[inline(always)]
unsafe fn finish<T, S: Simd, const IS_USUAL: bool>(
    simd: S,
    sample: usize,
    random: u32,
    call: &Call<T>,
    block: &mut Block,
) {
    let (dim, n_negatives) = block.shape::<IS_USUAL>();
    let whole = n_negatives / TILE * TILE;
    // SAFETY: the caller's promise.
    unsafe {
        match whole {
            0 => update_ends::<S, 0, true>(simd, sample, 0, dim, block),
            _ => update_ends::<S, TILE, true>(simd, sample, 0, dim, block),
        }
        for first in (TILE..whole).step_by(TILE) {
            update_ends::<S, TILE, false>(simd, sample, first, dim, block);
        }
        for first in whole..n_negatives {
            update_ends::<S, 1, false>(simd, sample, first, dim, block);
        }
        if size_of::<T>() == 4 {
            return;
        }
        let ends = block.ends[sample];
        let source = call.tables.vertex.add(block.sources[sample] as usize * dim);
        give_row::<T, S>(ends.0, source, dim, random);
        if ends.0 != ends.1 {
            let target = call
                .tables
                .context
                .add(block.targets[sample] as usize * dim);
            give_row::<T, S>(ends.1, target, dim, word_of_slot(random, 0));
        }
    }
}

/// Adds K negatives' rows to the source's; before these, where `OWN`, the edge's own rows to one another.
///
/// # Safety
/// As [`samples`]; there are K negatives from `first` on.
#[inline(always)]
unsafe fn update_ends<S: Simd, const K: usize, const OWN: bool>(
    simd: S,
    sample: usize,
    first: usize,
    dim: usize,
    block: &mut Block,
) {
    let (source, target) = block.ends[sample];
    let negatives = block.negatives[first * dim..].as_ptr();
    let wide_own = simd.splat_f32s(block.weights[0][sample % RUN]);
    let mut wide = [simd.splat_f32s(0.0); K];
    for k in 0..K {
        wide[k] = simd.splat_f32s(block.weights[first + k + 1][sample % RUN]);
    }
    let whole = dim / WIDTH * WIDTH;
    for at in (0..whole).step_by(S::F32_LANES) {
        // SAFETY: columns of the rows.
        unsafe {
            let mut sum = load::<S>(source.add(at));
            if OWN {
                let of_target = load::<S>(target.add(at));
                store::<S>(
                    target.add(at),
                    simd.mul_add_e_f32s(wide_own, sum, of_target),
                );
                // Again: it may be the target's.
                sum = simd.mul_add_e_f32s(wide_own, of_target, load::<S>(source.add(at)));
            }
            for k in 0..K {
                sum = simd.mul_add_e_f32s(wide[k], load::<S>(negatives.add(k * dim + at)), sum);
            }
            store::<S>(source.add(at), sum);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { update_columns::<OWN>(sample, first, K, whole..dim, block) };
}

/// As [`update_ends`], for the columns behind the last whole register.
///
/// # Safety
/// As [`update_ends`].
#[inline(always)]
unsafe fn update_columns<const OWN: bool>(
    sample: usize,
    first: usize,
    n: usize,
    columns: Range<usize>,
    block: &mut Block,
) {
    let dim = columns.end;
    let ((source, target), own) = (block.ends[sample], block.weights[0][sample % RUN]);
    for at in columns {
        // SAFETY: columns of the rows.
        unsafe {
            if OWN {
                let (of_source, of_target) = (*source.add(at), *target.add(at));
                *target.add(at) = of_target + own * of_source;
                *source.add(at) += own * of_target;
            }
            for k in first..first + n {
                *source.add(at) +=
                    block.weights[k + 1][sample % RUN] * block.negatives[k * dim + at];
            }
        }
    }
}
