//! Sparse products: lists gather rows of `x`, bits scatter them; both add in ascending column order.

use super::Host;
use crate::{Adjacency, SparseProduct};

/// Columns of `x` that one pass over the list keeps in registers.
const TILE: usize = 32;

impl Host {
    pub(crate) fn sparse_product(&self, product: SparseProduct<'_>, x: &[f32], out: &mut [f32]) {
        // The closures give away what they captured: see `bits::column_sums`.
        let moved = (x, out);
        match product.adjacency {
            Adjacency::Csr {
                row_ptr,
                columns,
                values: None,
            } => self.arch.dispatch(
                #[inline(always)]
                || lists::<false>(row_ptr, columns, &[], product.width, moved),
            ),
            Adjacency::Csr {
                row_ptr,
                columns,
                values: Some(values),
            } => self.arch.dispatch(
                #[inline(always)]
                || lists::<true>(row_ptr, columns, values, product.width, moved),
            ),
            Adjacency::Bits {
                words,
                words_per_row,
            } => self.arch.dispatch(
                #[inline(always)]
                || bits(words, words_per_row, product, moved),
            ),
            Adjacency::Resident(_) => unreachable!("`Device` hands over slices"),
        }
    }
}

#[inline(always)]
fn lists<const WEIGHTED: bool>(
    row_ptr: &[u64],
    columns: &[u32],
    values: &[f32],
    width: usize,
    (x, out): (&[f32], &mut [f32]),
) {
    if width == 0 {
        return;
    }
    for (bounds, out) in row_ptr.windows(2).zip(out.chunks_exact_mut(width)) {
        let entries = bounds[0] as usize..bounds[1] as usize;
        let columns = &columns[entries.clone()];
        let values = if WEIGHTED { &values[entries] } else { &[] };
        let mut first = 0;
        while first + TILE <= width {
            let sum = tile::<WEIGHTED>(columns, values, width, &x[first..]);
            out[first..first + TILE].copy_from_slice(&sum);
            first += TILE;
        }
        if first < width {
            rest::<WEIGHTED>(columns, values, &x[first..], width, &mut out[first..]);
        }
    }
}

/// The sum of `TILE` adjacent columns of the listed rows.
#[inline(always)]
fn tile<const WEIGHTED: bool>(
    columns: &[u32],
    values: &[f32],
    width: usize,
    x: &[f32],
) -> [f32; TILE] {
    let mut sum = [0.0f32; TILE];
    for (k, &u) in columns.iter().enumerate() {
        let row: &[f32; TILE] = x[u as usize * width..]
            .first_chunk()
            .expect("a column id was checked against the rows of x");
        if WEIGHTED {
            let weight = values[k];
            sum.iter_mut().zip(row).for_each(|(s, &v)| *s += weight * v);
        } else {
            sum.iter_mut().zip(row).for_each(|(s, &v)| *s += v);
        }
    }
    sum
}

/// What is left of a row after its full tiles.
#[inline(always)]
fn rest<const WEIGHTED: bool>(
    columns: &[u32],
    values: &[f32],
    x: &[f32],
    width: usize,
    out: &mut [f32],
) {
    out.fill(0.0);
    for (k, &u) in columns.iter().enumerate() {
        let weight = if WEIGHTED { values[k] } else { 1.0 };
        let row = &x[u as usize * width..][..out.len()];
        out.iter_mut().zip(row).for_each(|(s, &v)| *s += weight * v);
    }
}

#[inline(always)]
fn bits(
    words: &[u64],
    words_per_row: usize,
    product: SparseProduct<'_>,
    (x, out): (&[f32], &mut [f32]),
) {
    let width = product.width;
    out.fill(0.0);
    if width == 0 || words_per_row == 0 {
        return;
    }
    for (row, x) in words.chunks_exact(words_per_row).zip(x.chunks_exact(width)) {
        for (w, &word) in row.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let v = w * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                if v < product.n_rows {
                    let out = &mut out[v * width..][..width];
                    out.iter_mut().zip(x).for_each(|(o, &x)| *o += x);
                }
            }
        }
    }
}
