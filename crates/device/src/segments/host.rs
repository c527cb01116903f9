//! Segment sums on the processor.

use pulp::Arch;

/// Items that are added up before their sum is added to the total: rounding errors grow with the block and the number
/// of blocks, not with the length of the segment.
const ADDED_AT_ONCE: usize = 256;

/// Lists over the rows of a matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lists<'a> {
    pub(super) offsets: &'a [u64],
    /// Absent: item `i` is row `i`.
    pub(super) index: Option<&'a [u32]>,
    /// Absent: 1.
    pub(super) weights: Option<&'a [f32]>,
}

pub(super) fn sum(lists: Lists<'_>, width: usize, x: &[f32], out: &mut [f32]) {
    if width == 0 {
        return;
    }
    // The closure gives away what it captured, so it is an FnOnce and is inlined where the instruction set is known. One
    // that only borrows is called through a shim that may stay outside, compiled for the oldest processor.
    let moved = (x, out);
    Arch::new().dispatch(
        #[inline(always)]
        || sum_rows(lists, width, moved),
    );
}

#[inline(always)]
fn sum_rows(lists: Lists<'_>, width: usize, (x, out): (&[f32], &mut [f32])) {
    let mut partial = vec![0.0f32; width];
    for (bounds, out) in lists.offsets.windows(2).zip(out.chunks_exact_mut(width)) {
        let items = bounds[0] as usize..bounds[1] as usize;
        out.fill(0.0);
        if items.len() <= ADDED_AT_ONCE {
            add_items(lists, items, x, out);
            continue;
        }
        for first in items.clone().step_by(ADDED_AT_ONCE) {
            partial.fill(0.0);
            let end = items.end.min(first + ADDED_AT_ONCE);
            add_items(lists, first..end, x, &mut partial);
            out.iter_mut().zip(&partial).for_each(|(o, &p)| *o += p);
        }
    }
}

#[inline(always)]
fn add_items(lists: Lists<'_>, items: std::ops::Range<usize>, x: &[f32], out: &mut [f32]) {
    let width = out.len();
    for item in items {
        let row = lists.index.map_or(item, |index| index[item] as usize);
        let row = &x[row * width..][..width];
        match lists.weights {
            None => out.iter_mut().zip(row).for_each(|(o, &v)| *o += v),
            Some(weights) => {
                let weight = weights[item];
                out.iter_mut().zip(row).for_each(|(o, &v)| *o += weight * v);
            }
        }
    }
}

/// Copies the row of each segment to its items.
pub(super) fn spread(offsets: &[u64], width: usize, rows: &[f32], out: &mut [f32]) {
    if width == 0 {
        return;
    }
    for (bounds, row) in offsets.windows(2).zip(rows.chunks_exact(width)) {
        let items = bounds[0] as usize * width..bounds[1] as usize * width;
        for out in out[items].chunks_exact_mut(width) {
            out.copy_from_slice(row);
        }
    }
}
