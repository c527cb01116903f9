//! Sparse products: lists gather rows of `x`, bits scatter them; both add in ascending column order.

use crate::simd::arch;

/// A block in host memory.
#[derive(Clone, Copy)]
pub(super) enum Slices<'a> {
    Lists {
        row_ptr: &'a [u64],
        columns: &'a [u32],
        values: Option<&'a [f32]>,
    },
    Bits {
        words: &'a [u64],
        words_per_row: usize,
    },
}

/// Columns of `x` that one pass over the list keeps in registers.
const TILE: usize = 32;

/// The product with a block of slices.
///
/// # Errors
/// A column id that `x` does not have: the loops find it where they would read it, without a pass of their own.
pub(super) fn slices_product(
    adjacency: Slices<'_>,
    n_rows: usize,
    width: usize,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), u32> {
    // The closures give away what they captured: see `simd`.
    let moved = (x, out);
    match adjacency {
        Slices::Lists {
            row_ptr,
            columns,
            values: None,
        } => arch().dispatch(
            #[inline(always)]
            move || {
                let (x, out) = moved;
                lists::<false>(row_ptr, columns, &[], width, x, out)
            },
        ),
        Slices::Lists {
            row_ptr,
            columns,
            values: Some(values),
        } => arch().dispatch(
            #[inline(always)]
            move || {
                let (x, out) = moved;
                lists::<true>(row_ptr, columns, values, width, x, out)
            },
        ),
        Slices::Bits {
            words,
            words_per_row,
        } => {
            arch().dispatch(
                #[inline(always)]
                move || {
                    let (x, out) = moved;
                    bits(words, words_per_row, n_rows, width, x, out);
                },
            );
            Ok(())
        }
    }
}

#[inline(always)]
fn lists<const WEIGHTED: bool>(
    row_ptr: &[u64],
    columns: &[u32],
    values: &[f32],
    width: usize,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), u32> {
    if width == 0 {
        return Ok(());
    }
    for (bounds, out) in row_ptr.windows(2).zip(out.chunks_exact_mut(width)) {
        let entries = bounds[0] as usize..bounds[1] as usize;
        let columns = &columns[entries.clone()];
        let values = if WEIGHTED { &values[entries] } else { &[] };
        let mut first = 0;
        while first + TILE <= width {
            let sum = tile::<WEIGHTED>(columns, values, width, &x[first..])?;
            out[first..first + TILE].copy_from_slice(&sum);
            first += TILE;
        }
        if first < width {
            rest::<WEIGHTED>(columns, values, &x[first..], width, &mut out[first..])?;
        }
    }
    Ok(())
}

/// The sum of `TILE` adjacent columns of the listed rows.
#[inline(always)]
fn tile<const WEIGHTED: bool>(
    columns: &[u32],
    values: &[f32],
    width: usize,
    x: &[f32],
) -> Result<[f32; TILE], u32> {
    let mut sum = [0.0f32; TILE];
    for (k, &u) in columns.iter().enumerate() {
        let row = x.get(u as usize * width..);
        let row: &[f32; TILE] = row.and_then(<[f32]>::first_chunk).ok_or(u)?;
        if WEIGHTED {
            let weight = values[k];
            sum.iter_mut().zip(row).for_each(|(s, &v)| *s += weight * v);
        } else {
            sum.iter_mut().zip(row).for_each(|(s, &v)| *s += v);
        }
    }
    Ok(sum)
}

/// What is left of a row after its full tiles.
#[inline(always)]
fn rest<const WEIGHTED: bool>(
    columns: &[u32],
    values: &[f32],
    x: &[f32],
    width: usize,
    out: &mut [f32],
) -> Result<(), u32> {
    out.fill(0.0);
    for (k, &u) in columns.iter().enumerate() {
        let weight = if WEIGHTED { values[k] } else { 1.0 };
        let row = x.get(u as usize * width..);
        let row = row.and_then(|row| row.get(..out.len())).ok_or(u)?;
        out.iter_mut().zip(row).for_each(|(s, &v)| *s += weight * v);
    }
    Ok(())
}

#[inline(always)]
fn bits(
    words: &[u64],
    words_per_row: usize,
    n_rows: usize,
    width: usize,
    x: &[f32],
    out: &mut [f32],
) {
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
                if v < n_rows {
                    let out = &mut out[v * width..][..width];
                    out.iter_mut().zip(x).for_each(|(o, &x)| *o += x);
                }
            }
        }
    }
}
