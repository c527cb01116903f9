//! Dense products that read both factors where they are: packing them first, as a large product does, would take longer
//! than the product where there are few rows, or few terms in each sum.

use std::array::from_fn;

use pulp::{Simd, WithSimd};

use crate::MatMul;

/// `out = a * b` for row-major matrices with elements.
///
/// Each element is one sum in ascending order of the inner index, in fused steps where the processor has them.
pub(super) struct Unpacked<'a> {
    pub(super) inner: usize,
    pub(super) cols: usize,
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) out: &'a mut [f32],
}

impl Unpacked<'_> {
    /// Whether a product comes here: where packing does not pay, and a large product adds in the same order, so that a
    /// row's bits do not depend on the number of rows. With one or two terms, many, or one column, those have ways of their own.
    pub(super) fn takes(shape: MatMul) -> bool {
        let is_plain = !shape.transpose_a && !shape.transpose_b;
        let has_one_order = shape.cols > 1 && (3..=256).contains(&shape.inner);
        is_plain && has_one_order && (shape.rows <= 8 || shape.inner <= 32)
    }
}

impl WithSimd for Unpacked<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (inner, cols, b) = (self.inner, self.cols, self.b);
        let is_wide = S::F32_LANES >= 16; // then there are 32 registers, else 16
        let n_rows = if is_wide { 8 } else { 4 };
        let rows = self.a.chunks(n_rows * inner);
        for (a, out) in rows.zip(self.out.chunks_mut(n_rows * cols)) {
            match (out.len() == n_rows * cols, is_wide) {
                (true, true) => strips::<S, 8, 2>(simd, a, (b, inner, cols), out),
                (true, false) => strips::<S, 4, 2>(simd, a, (b, inner, cols), out),
                (false, _) => {
                    for (a, out) in a.chunks_exact(inner).zip(out.chunks_exact_mut(cols)) {
                        strips::<S, 1, 8>(simd, a, (b, inner, cols), out);
                    }
                }
            }
        }
    }
}

/// `R` rows, in strips of at most `MAX` vectors of columns: as many sums as a processor keeps in its registers.
#[inline(always)]
fn strips<S: Simd, const R: usize, const MAX: usize>(
    simd: S,
    a: &[f32],
    (b, inner, cols): (&[f32], usize, usize),
    out: &mut [f32],
) {
    let a: [&[f32]; R] = from_fn(|r| &a[r * inner..][..inner]);
    for first in (0..cols).step_by(MAX * S::F32_LANES) {
        let end = cols.min(first + MAX * S::F32_LANES);
        let columns = (first, end, cols);
        match (end - first).div_ceil(S::F32_LANES) {
            1 => strip::<S, R, 1>(simd, a, b, columns, out),
            2 => strip::<S, R, 2>(simd, a, b, columns, out),
            _ if MAX == 2 => unreachable!("two vectors at most"),
            3 => strip::<S, R, 3>(simd, a, b, columns, out),
            4 => strip::<S, R, 4>(simd, a, b, columns, out),
            5 => strip::<S, R, 5>(simd, a, b, columns, out),
            6 => strip::<S, R, 6>(simd, a, b, columns, out),
            7 => strip::<S, R, 7>(simd, a, b, columns, out),
            _ => strip::<S, R, 8>(simd, a, b, columns, out),
        }
    }
}

/// The columns `first..end` of `R` rows: `V` vectors, of which the last may be part of one.
#[inline(always)]
fn strip<S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: [&[f32]; R],
    b: &[f32],
    (first, end, cols): (usize, usize, usize),
    out: &mut [f32],
) {
    let last = first + (V - 1) * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for (k, b) in b.chunks_exact(cols).enumerate() {
        let (full, _) = S::as_simd_f32s(&b[first..last]);
        let part = simd.partial_load_f32s(&b[last..end]);
        let columns: [S::f32s; V] = from_fn(|v| if v + 1 < V { full[v] } else { part });
        for r in 0..R {
            let factor = simd.splat_f32s(a[r][k]);
            for v in 0..V {
                sums[r][v] = simd.mul_add_e_f32s(factor, columns[v], sums[r][v]);
            }
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_exact_mut(cols)) {
        let (full, _) = S::as_mut_simd_f32s(&mut out[first..last]);
        full.copy_from_slice(&sums[..V - 1]);
        simd.partial_store_f32s(&mut out[last..end], sums[V - 1]);
    }
}
