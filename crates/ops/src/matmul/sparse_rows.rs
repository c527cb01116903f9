//! Dense products whose left factor is mostly zeros, as boards of games and one-hot numbers are: terms of zeros are left out.

use pulp::{Simd, WithSimd};
use shardgraph_device::MatMul;

use crate::simd::arch;

/// `out = op(a) * b`, for a left factor with few elements that are not zero.
///
/// Each element is one sum in ascending order of the inner index, in fused steps where the processor has them: the bits of a
/// dense product whose inner dimension is not cut into parts.
pub(super) struct SparseRows<'a> {
    pub(super) shape: MatMul,
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) out: &'a mut [f32],
}

/// The narrowest right factor: a narrower one is multiplied in the time that it takes to find the zeros.
const MIN_COLS: usize = 32;
/// The shortest rows of the left factor.
const MIN_WIDTH: usize = 64;
/// One in so many elements of the left factor may be other than zero.
const MAX_DENSITY: usize = 4;
/// Elements of the left factor that are looked at before the product.
const N_SAMPLED: usize = 1024;
/// Elements of a row that are multiplied at a time.
const N_FOUND: usize = 256;
/// Elements that are compared with zero at a time.
const CHUNK: usize = 16;
/// Vectors of a strip of columns, whose sums stay in registers.
const MAX_VECTORS: usize = 8;

/// Columns of a row with their elements, of which the first are meant.
type Found = [(u32, f32); N_FOUND];

impl SparseRows<'_> {
    /// Whether a product comes here: where its left factor begins with rows that are mostly zeros, and its right one is
    /// finite, since zeros times anything else are no zeros.
    pub(super) fn takes(shape: MatMul, a: &[f32], b: &[f32]) -> bool {
        let width = row_width(shape);
        // Of sums of one or two terms the dense product has no fused steps.
        if shape.transpose_b || shape.cols < MIN_COLS || width < MIN_WIDTH || shape.inner < 3 {
            return false;
        }
        let n = (N_SAMPLED / width).max(1) * width;
        let sampled = &a[..n.min(a.len())];
        let n_others = sampled.iter().filter(|&&x| x != 0.0).count();
        n_others * MAX_DENSITY <= sampled.len() && are_finite(b)
    }
}

fn are_finite(numbers: &[f32]) -> bool {
    arch().dispatch(
        #[inline(always)]
        move || {
            let both = |are, number: &f32| are & number.is_finite();
            numbers.iter().fold(true, both)
        },
    )
}

/// Elements of a row of the left factor as it lies in memory.
fn row_width(shape: MatMul) -> usize {
    match shape.transpose_a {
        false => shape.inner,
        true => shape.rows,
    }
}

impl WithSimd for SparseRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SparseRows { shape, a, b, out } = self;
        assert_eq!(
            b.len(),
            shape.inner * shape.cols,
            "b has inner * cols elements"
        );
        assert_eq!(
            out.len(),
            shape.rows * shape.cols,
            "out has rows * cols elements"
        );
        assert_eq!(
            a.len(),
            shape.rows * shape.inner,
            "a has rows * inner elements"
        );
        out.fill(0.0);
        let mut found: Found = [(0, 0.0); N_FOUND];
        for (r, row) in a.chunks_exact(row_width(shape).max(1)).enumerate() {
            let mut first = 0;
            while first < row.len() {
                let n;
                (n, first) = find(row, first, &mut found);
                let found = &found[..n];
                let of_row = r * shape.cols..(r + 1) * shape.cols;
                match shape.transpose_a {
                    false => gather(simd, found, b, &mut out[of_row]),
                    true => scatter(simd, found, &b[of_row], out),
                }
            }
        }
    }
}

/// Finds elements other than zero from `first` on; gives their number, and where the search ended.
#[inline(always)]
fn find(row: &[f32], first: usize, found: &mut Found) -> (usize, usize) {
    let (mut n, mut at) = (0, first);
    while at < row.len() && n + CHUNK <= N_FOUND {
        let mut bits = 0u32;
        match row[at..].first_chunk::<CHUNK>() {
            Some(chunk) => {
                for (lane, &x) in chunk.iter().enumerate() {
                    bits |= u32::from(x != 0.0) << lane;
                }
            }
            None => {
                for (lane, &x) in row[at..].iter().enumerate() {
                    bits |= u32::from(x != 0.0) << lane;
                }
            }
        }
        while bits != 0 {
            let column = at + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            found[n] = (column as u32, row[column]);
            n += 1;
        }
        at += CHUNK;
    }
    (n, at)
}

/// Adds to a row of the result what the rows of `b` give, by the elements that were found.
#[inline(always)]
fn gather<S: Simd>(simd: S, found: &[(u32, f32)], b: &[f32], out: &mut [f32]) {
    let mut first = 0;
    while first < out.len() {
        let n_vectors = (out.len() - first) / S::F32_LANES;
        first += match n_vectors {
            0 => {
                let cols = out.len();
                let out = &mut out[first..];
                let mut sum = simd.partial_load_f32s(out);
                for &(k, x) in found {
                    let row = k as usize * cols;
                    let row = simd.partial_load_f32s(&b[row + first..row + cols]);
                    sum = simd.mul_add_e_f32s(simd.splat_f32s(x), row, sum);
                }
                simd.partial_store_f32s(out, sum);
                out.len()
            }
            1 => gather_strip::<S, 1>(simd, found, b, out, first),
            2..4 => gather_strip::<S, 2>(simd, found, b, out, first),
            4..8 => gather_strip::<S, 4>(simd, found, b, out, first),
            _ => gather_strip::<S, MAX_VECTORS>(simd, found, b, out, first),
        };
    }
}

/// The same for `V` vectors of columns; gives the number of columns.
#[inline(always)]
fn gather_strip<S: Simd, const V: usize>(
    simd: S,
    found: &[(u32, f32)],
    b: &[f32],
    out: &mut [f32],
    first: usize,
) -> usize {
    let (cols, width) = (out.len(), V * S::F32_LANES);
    let out = vectors_mut::<S, V>(&mut out[first..first + width]);
    let mut sums = *out;
    for &(k, x) in found {
        let row = k as usize * cols + first;
        let row = vectors::<S, V>(&b[row..row + width]);
        let factor = simd.splat_f32s(x);
        for (sum, &column) in sums.iter_mut().zip(row) {
            *sum = simd.mul_add_e_f32s(factor, column, *sum);
        }
    }
    *out = sums;
    width
}

/// Adds a row of `b` to the rows of the result whose elements were found.
#[inline(always)]
fn scatter<S: Simd>(simd: S, found: &[(u32, f32)], row: &[f32], out: &mut [f32]) {
    let mut first = 0;
    while first < row.len() {
        let n_vectors = (row.len() - first) / S::F32_LANES;
        first += match n_vectors {
            0 => {
                let cols = row.len();
                let row = simd.partial_load_f32s(&row[first..]);
                for &(k, x) in found {
                    let at = k as usize * cols;
                    let out = &mut out[at + first..at + cols];
                    let sum = simd.partial_load_f32s(out);
                    let sum = simd.mul_add_e_f32s(simd.splat_f32s(x), row, sum);
                    simd.partial_store_f32s(out, sum);
                }
                cols - first
            }
            1 => scatter_strip::<S, 1>(simd, found, row, out, first),
            2..4 => scatter_strip::<S, 2>(simd, found, row, out, first),
            4..8 => scatter_strip::<S, 4>(simd, found, row, out, first),
            _ => scatter_strip::<S, MAX_VECTORS>(simd, found, row, out, first),
        };
    }
}

/// The same for `V` vectors of columns; gives the number of columns.
#[inline(always)]
fn scatter_strip<S: Simd, const V: usize>(
    simd: S,
    found: &[(u32, f32)],
    row: &[f32],
    out: &mut [f32],
    first: usize,
) -> usize {
    let (cols, width) = (row.len(), V * S::F32_LANES);
    let row = *vectors::<S, V>(&row[first..first + width]);
    for &(k, x) in found {
        let at = k as usize * cols + first;
        let factor = simd.splat_f32s(x);
        let out = vectors_mut::<S, V>(&mut out[at..at + width]);
        for (sum, &column) in out.iter_mut().zip(&row) {
            *sum = simd.mul_add_e_f32s(factor, column, *sum);
        }
    }
    width
}

#[inline(always)]
fn vectors<S: Simd, const V: usize>(elements: &[f32]) -> &[S::f32s; V] {
    let (vectors, _) = S::as_simd_f32s(elements);
    vectors
        .first_chunk()
        .expect("as many elements as the vectors have")
}

#[inline(always)]
fn vectors_mut<S: Simd, const V: usize>(elements: &mut [f32]) -> &mut [S::f32s; V] {
    let (vectors, _) = S::as_mut_simd_f32s(elements);
    vectors
        .first_chunk_mut()
        .expect("as many elements as the vectors have")
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b};

    use super::super::host::{large_product, product_on_host};
    use super::*;

    /// One in `every` numbers is not zero.
    fn numbers(n: usize, every: usize) -> Vec<f32> {
        let number = |i: usize| {
            let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            match (mixed as usize).is_multiple_of(every) {
                true => mixed as f32 / 8_388_608.0 - 1.0,
                false => 0.0,
            }
        };
        (0..n).map(number).collect()
    }

    fn shapes() -> Vec<MatMul> {
        let mut shapes = Vec::new();
        for (rows, inner) in [
            (1, 64),
            (3, 100),
            (70, 257),
            (64, 512),
            (100, 3),
            (2, 1500),
            (1500, 5),
        ] {
            for cols in [32, 33, 48, 63, 84, 128, 200] {
                for transpose_a in [false, true] {
                    let transpose_b = false;
                    shapes.push(MatMul {
                        rows,
                        inner,
                        cols,
                        transpose_a,
                        transpose_b,
                    });
                }
            }
        }
        shapes
    }

    fn bits_of(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn sparse_products_have_the_bits_of_dense_ones() {
        let mut n_taken = 0;
        for shape in shapes() {
            let MatMul {
                rows, inner, cols, ..
            } = shape;
            let (a, b) = (numbers(rows * inner, 6), numbers(inner * cols, 1));
            if inner > 512 || !SparseRows::takes(shape, &a, &b) {
                continue;
            }
            n_taken += 1;
            let mut out = vec![f32::NAN; rows * cols];
            let mut dense = vec![f32::NAN; rows * cols];
            product_on_host(shape, &a, &b, &mut out);
            large_product(shape, &a, &b, &mut dense);
            assert!(bits_of(&out) == bits_of(&dense), "{shape:?}");
        }
        assert!(n_taken > 40, "{n_taken}");
    }

    #[test]
    fn every_width_of_vectors_is_right() {
        for shape in shapes() {
            check(Scalar, shape);
            check(Scalar128b, shape);
            check(Scalar256b, shape);
            check(Scalar512b, shape);
        }
    }

    /// Against sums in f64; of long rows more elements are found than are multiplied at a time.
    fn check<S: Simd>(simd: S, shape: MatMul) {
        let MatMul {
            rows, inner, cols, ..
        } = shape;
        let (a, b) = (numbers(rows * inner, 4), numbers(inner * cols, 1));
        let mut out = vec![f32::NAN; rows * cols];
        SparseRows {
            shape,
            a: &a,
            b: &b,
            out: &mut out,
        }
        .with_simd(simd);
        for (i, &got) in out.iter().enumerate() {
            let of_a = |k: usize| match shape.transpose_a {
                false => a[i / cols * inner + k],
                true => a[k * rows + i / cols],
            };
            let terms = (0..inner).map(|k| f64::from(of_a(k)) * f64::from(b[k * cols + i % cols]));
            let want: f64 = terms.sum();
            let is_near = (f64::from(got) - want).abs() < 1e-3;
            assert!(
                is_near,
                "{} lanes, {shape:?} {i}: {got} {want}",
                S::F32_LANES
            );
        }
    }

    #[test]
    fn dense_factors_and_infinite_ones_go_elsewhere() {
        let shape = MatMul {
            rows: 8,
            inner: 128,
            cols: 64,
            transpose_a: false,
            transpose_b: false,
        };
        let (a, mut b) = (numbers(8 * 128, 6), numbers(128 * 64, 1));
        assert!(SparseRows::takes(shape, &a, &b));
        assert!(!SparseRows::takes(shape, &numbers(8 * 128, 2), &b));
        b[777] = f32::INFINITY;
        assert!(!SparseRows::takes(shape, &a, &b));
    }
}
