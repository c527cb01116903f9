//! The update of one sample in vector registers.
//!
//! Numbers are added up in [`WIDTH`] lanes whatever the registers hold, and with fused products: AVX2 and AVX-512 give the same bits.

use pulp::Simd;

use super::lanes::{self, Lanes, TILE};
use super::scratch::{MAX_SLOTS, Raw, Scratch, adagrad_step};

/// Columns that are worked on together: a vector register of the widest.
pub(super) const WIDTH: usize = 16;

/// One update of an f32 table: all dot products, then the targets' rows, then the source's.
///
/// # Safety
/// T is f32. The source is a row of `tables.vertex`, the targets are rows of `tables.context`, at most [`MAX_SLOTS`] of them, and
/// nothing else reads or writes the tables meanwhile; likewise the squares, of one column.
#[inline(always)]
pub(super) unsafe fn sample<T, S: Simd, const R: usize>(
    simd: S,
    source: u32,
    targets: &[u32],
    rate: f32,
    tables: Raw<T>,
    squares: Option<Raw<f32>>,
    scratch: &mut Scratch,
) {
    debug_assert_eq!(size_of::<T>(), size_of::<f32>());
    let (dim, mut rows) = (scratch.source.len(), [std::ptr::null_mut(); MAX_SLOTS]);
    // SAFETY: rows of the tables, the caller's promise.
    unsafe {
        let vertex: *mut f32 = tables.vertex.add(source as usize * dim).cast();
        let as_found = std::slice::from_raw_parts(vertex, dim);
        scratch.source.copy_from_slice(as_found);
        for (slot, &target) in targets.iter().enumerate() {
            rows[slot] = tables.context.add(target as usize * dim).cast();
        }
        let rows = &rows[..targets.len()];
        let scale = descend::<S, R>(simd, source, targets, rows, rate, squares, scratch);
        add_row::<S>(simd, vertex, scale, &scratch.gradient);
    }
}

/// Updates the targets' rows; leaves the gradient of the source's row in `scratch.gradient`, and gives what it is to be multiplied by.
///
/// # Safety
/// `rows` are those of the targets, of as many columns as `scratch.source`, and may be one another; the ids are indices of the squares.
#[inline(always)]
pub(super) unsafe fn descend<S: Simd, const R: usize>(
    simd: S,
    source: u32,
    targets: &[u32],
    rows: &[*mut f32],
    rate: f32,
    squares: Option<Raw<f32>>,
    scratch: &mut Scratch,
) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        dots::<S, R>(simd, &scratch.source, rows, &mut scratch.dots);
        prepare::<S, R>(simd, targets, rate, squares, scratch);
        update::<S, true>(simd, rows, scratch);
        match squares {
            None => 1.0,
            Some(squares) => {
                let mean = mean_square::<S, R>(simd, &scratch.gradient);
                adagrad_step(rate, &mut *squares.vertex.add(source as usize), mean)
            }
        }
    }
}

/// From dot products to weights and steps.
///
/// # Safety
/// The targets are indices of `squares.context`.
#[inline(always)]
unsafe fn prepare<S: Simd, const R: usize>(
    simd: S,
    targets: &[u32],
    rate: f32,
    squares: Option<Raw<f32>>,
    scratch: &mut Scratch,
) {
    let Some(squares) = squares else {
        scratch.weigh(targets.len(), rate);
        scratch.steps = scratch.weights;
        return;
    };
    scratch.weigh(targets.len(), 1.0);
    let mean = mean_square::<S, R>(simd, &scratch.source);
    for (slot, &target) in targets.iter().enumerate() {
        let weight = scratch.weights[slot];
        // SAFETY: the caller's promise.
        let sum = unsafe { &mut *squares.context.add(target as usize) };
        scratch.steps[slot] = weight * adagrad_step(rate, sum, weight * weight * mean);
    }
}

/// The mean of the squares of a row's columns.
#[inline(always)]
pub(super) fn mean_square<S: Simd, const R: usize>(simd: S, row: &[f32]) -> f32 {
    // SAFETY: the row has as many columns as itself.
    let [sum, ..] = unsafe { tile_dots::<S, R, 1>(simd, row, &[row.as_ptr().cast_mut()]) };
    sum / row.len() as f32
}

/// # Safety
/// Each of the rows has as many columns as the source; there are at most [`MAX_SLOTS`].
#[inline(always)]
pub(super) unsafe fn dots<S: Simd, const R: usize>(
    simd: S,
    source: &[f32],
    rows: &[*mut f32],
    out: &mut [f32; MAX_SLOTS],
) {
    let (tiles, rest) = rows.as_chunks::<TILE>();
    let (out_tiles, out_rest) = out[..rows.len()].as_chunks_mut::<TILE>();
    for (rows, out) in tiles.iter().zip(out_tiles) {
        // SAFETY: the caller's promise.
        let dots = unsafe { tile_dots::<S, R, TILE>(simd, source, rows) };
        out.copy_from_slice(&dots[..TILE]);
    }
    for (row, out) in rest.iter().zip(out_rest) {
        // SAFETY: the caller's promise.
        [*out, ..] = unsafe { tile_dots::<S, R, 1>(simd, source, &[*row]) };
    }
}

/// # Safety
/// Each of the rows has as many columns as the source.
#[inline(always)]
pub(super) unsafe fn tile_dots<S: Simd, const R: usize, const K: usize>(
    simd: S,
    source: &[f32],
    rows: &[*mut f32; K],
) -> Lanes<f32> {
    debug_assert_eq!(R * S::F32_LANES, WIDTH);
    let whole = source.len() / WIDTH * WIDTH;
    let mut sums = [[simd.splat_f32s(0.0); R]; K];
    for first in (0..whole).step_by(WIDTH) {
        for register in 0..R {
            let at = first + register * S::F32_LANES;
            // SAFETY: `at + F32_LANES <= whole`, which is within the source and the rows.
            unsafe {
                let source = load::<S>(source.as_ptr().add(at));
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let row = load::<S>(row.add(at));
                    sums[register] = simd.mul_add_e_f32s(source, row, sums[register]);
                }
            }
        }
    }
    // Loops, not closures: those are compiled for the oldest processor. Halves are added to one another, as the lanes are below.
    let mut of_rows = [simd.splat_f32s(0.0); K];
    for k in 0..K {
        let mut width = R / 2;
        while width > 0 {
            for register in 0..width {
                sums[k][register] = simd.add_f32s(sums[k][register], sums[k][register + width]);
            }
            width /= 2;
        }
        of_rows[k] = sums[k][0];
    }
    let mut out = lanes::sums(simd, &of_rows);
    for (column, &value) in source.iter().enumerate().skip(whole) {
        for k in 0..K {
            // SAFETY: a column of the row.
            out[k] += value * unsafe { *rows[k].add(column) };
        }
    }
    out
}

/// `gradient = sum weights[k] * rows[k]`, and where rows are worked on in place, `rows[k] += steps[k] * source`.
///
/// # Safety
/// As [`dots`]; the rows may be written, and may be one another.
#[inline(always)]
pub(super) unsafe fn update<S: Simd, const IN_PLACE: bool>(
    simd: S,
    rows: &[*mut f32],
    scratch: &mut Scratch,
) {
    scratch.gradient.fill(0.0);
    let (tiles, rest) = rows.as_chunks::<TILE>();
    let n_tiled = rows.len() - rest.len();
    for (tile, rows) in tiles.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { update_tile::<S, TILE, IN_PLACE>(simd, rows, tile * TILE, scratch) };
    }
    for (at, row) in (n_tiled..).zip(rest) {
        // SAFETY: the caller's promise.
        unsafe { update_tile::<S, 1, IN_PLACE>(simd, &[*row], at, scratch) };
    }
}

/// # Safety
/// As [`update`].
#[inline(always)]
unsafe fn update_tile<S: Simd, const K: usize, const IN_PLACE: bool>(
    simd: S,
    rows: &[*mut f32; K],
    first_slot: usize,
    scratch: &mut Scratch,
) {
    let (dim, source) = (scratch.source.len(), scratch.source.as_ptr());
    let gradient = scratch.gradient.as_mut_ptr();
    let rows = *rows; // a copy, which stores to rows cannot change
    let (mut weights, mut steps) = ([0.0; K], [0.0; K]);
    weights.copy_from_slice(&scratch.weights[first_slot..first_slot + K]);
    steps.copy_from_slice(&scratch.steps[first_slot..first_slot + K]);
    let (wide_weights, wide_steps) = (splat(simd, &weights), splat(simd, &steps));
    let whole = dim / WIDTH * WIDTH;
    for at in (0..whole).step_by(S::F32_LANES) {
        // SAFETY: `at + F32_LANES <= whole`, which is within the source, the gradient and the rows.
        unsafe {
            let from = load::<S>(source.add(at));
            let mut sum = load::<S>(gradient.add(at));
            for k in 0..K {
                let row = load::<S>(rows[k].add(at));
                sum = simd.mul_add_e_f32s(wide_weights[k], row, sum);
                if IN_PLACE {
                    store::<S>(
                        rows[k].add(at),
                        simd.mul_add_e_f32s(wide_steps[k], from, row),
                    );
                }
            }
            store::<S>(gradient.add(at), sum);
        }
    }
    for at in whole..dim {
        for k in 0..K {
            // SAFETY: a column of the source, the gradient and the rows.
            unsafe {
                let row = *rows[k].add(at);
                *gradient.add(at) += weights[k] * row;
                if IN_PLACE {
                    *rows[k].add(at) = row + steps[k] * *source.add(at);
                }
            }
        }
    }
}

/// Each number in a register of its own.
#[inline(always)]
fn splat<S: Simd, const K: usize>(simd: S, values: &[f32; K]) -> [S::f32s; K] {
    let mut wide = [simd.splat_f32s(0.0); K];
    for k in 0..K {
        wide[k] = simd.splat_f32s(values[k]);
    }
    wide
}

/// `row += scale * addend`.
///
/// # Safety
/// The row has as many columns as the addend.
#[inline(always)]
pub(super) unsafe fn add_row<S: Simd>(simd: S, row: *mut f32, scale: f32, addend: &[f32]) {
    let whole = addend.len() / WIDTH * WIDTH;
    let wide_scale = simd.splat_f32s(scale);
    for at in (0..whole).step_by(S::F32_LANES) {
        // SAFETY: `at + F32_LANES <= whole`.
        unsafe {
            let (old, addend) = (load::<S>(row.add(at)), load::<S>(addend.as_ptr().add(at)));
            store::<S>(row.add(at), simd.mul_add_e_f32s(wide_scale, addend, old));
        }
    }
    for (at, &value) in addend.iter().enumerate().skip(whole) {
        // SAFETY: a column of the row.
        unsafe { *row.add(at) += scale * value };
    }
}

/// # Safety
/// There is a register's worth of numbers.
#[inline(always)]
pub(super) unsafe fn load<S: Simd>(from: *const f32) -> S::f32s {
    // SAFETY: the caller's promise; every pattern of bits is a value.
    unsafe { from.cast::<S::f32s>().read_unaligned() }
}

/// # Safety
/// There is room for a register's worth of numbers.
#[inline(always)]
pub(super) unsafe fn store<S: Simd>(to: *mut f32, value: S::f32s) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<S::f32s>().write_unaligned(value) };
}
