//! The update of half-precision tables: rows become f32, are worked on there, and are rounded at random when they go back.
//!
//! Negatives that samples share are in f32 from the first of these samples to the last: a row is converted, and rounded, once for the
//! group. A row that is in a group's copies already, as another negative, target or (with one table for both roles) source, is worked on
//! there.

use pulp::Simd;

use super::half_rows::{round_row, widen_row, word_of_slot};
use super::kernel::{add_row, descend};
use super::scratch::{MAX_SLOTS, Raw, Scratch};

/// A sample, and where it stands among those that share its negatives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    pub(super) source: u32,
    pub(super) targets: &'a [u32],
    /// Decides how rows are rounded.
    pub(super) random: u32,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// One update.
///
/// # Safety
/// T is the bits of half-precision numbers. The source is a row of `tables.vertex`, the targets are rows of `tables.context`, at most
/// [`MAX_SLOTS`] of them, and nothing else reads or writes the tables between the first and the last sample of a group; likewise the
/// squares, of one column. `scratch.rows` has room for all targets.
#[inline(always)]
pub(super) unsafe fn sample<T, S: Simd, const R: usize>(
    simd: S,
    sample: &Sample<'_>,
    rate: f32,
    tables: Raw<T>,
    squares: Option<Raw<f32>>,
    scratch: &mut Scratch,
) {
    debug_assert_eq!(size_of::<T>(), size_of::<u16>());
    let (vertex, context): (*mut u16, *mut u16) = (tables.vertex.cast(), tables.context.cast());
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let copies = scratch.rows.as_mut_ptr();
    // SAFETY: rows of the tables and of `scratch.rows`, the caller's promise.
    unsafe {
        take_targets::<S>(context, sample, scratch);
        let mut rows = [copies; MAX_SLOTS];
        for (row, &slot) in rows.iter_mut().zip(&scratch.slots[..targets.len()]) {
            *row = copies.add(slot * dim);
        }
        let of_source = vertex.add(sample.source as usize * dim);
        // With one table, the source's row may be among the copies.
        let found = match std::ptr::eq(vertex, context) {
            true => targets.iter().position(|&target| target == sample.source),
            false => None,
        };
        match found {
            Some(slot) => {
                let copy = std::slice::from_raw_parts(rows[slot], dim);
                scratch.source.copy_from_slice(copy);
            }
            None => widen_row::<S>(of_source, scratch.source.as_mut_ptr(), dim),
        }
        let (source, rows) = (sample.source, &rows[..targets.len()]);
        let scale = descend::<S, R>(simd, source, targets, rows, rate, squares, scratch);
        match found {
            Some(slot) => add_row::<S>(simd, rows[slot], scale, &scratch.gradient),
            None => {
                let source = scratch.source.as_mut_ptr();
                add_row::<S>(simd, source, scale, &scratch.gradient);
                round_row::<S>(source, of_source, dim, sample.random);
            }
        }
        give_back::<S>(context, sample, scratch);
    }
}

/// Copies the target's row and, at the beginning of a group, the negatives', each row once.
///
/// # Safety
/// As [`sample`].
#[inline(always)]
unsafe fn take_targets<S: Simd>(context: *const u16, sample: &Sample<'_>, scratch: &mut Scratch) {
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let end = if sample.is_first { targets.len() } else { 1 };
    // The edge's own target comes last: if it is a negative too, that is the copy that stays.
    for slot in (1..end).chain([0]) {
        let before = match slot {
            0 => &targets[1..],
            _ => &targets[1..slot],
        };
        let same = before.iter().position(|&row| row == targets[slot]);
        scratch.slots[slot] = same.map_or(slot, |at| scratch.slots[at + 1]);
        if same.is_none() {
            // SAFETY: the caller's promise.
            unsafe {
                let row = context.add(targets[slot] as usize * dim);
                widen_row::<S>(row, scratch.rows.as_mut_ptr().add(slot * dim), dim);
            }
        }
    }
}

/// Rounds the target's row and, at the end of a group, the negatives', back to the table.
///
/// # Safety
/// As [`sample`].
#[inline(always)]
unsafe fn give_back<S: Simd>(context: *mut u16, sample: &Sample<'_>, scratch: &Scratch) {
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let end = if sample.is_last { targets.len() } else { 1 };
    for (slot, &target) in targets.iter().enumerate().take(end) {
        if scratch.slots[slot] != slot {
            continue;
        }
        let word = word_of_slot(sample.random, slot);
        // SAFETY: the caller's promise.
        unsafe {
            let row = context.add(target as usize * dim);
            round_row::<S>(scratch.rows.as_ptr().add(slot * dim), row, dim, word);
        }
    }
}
