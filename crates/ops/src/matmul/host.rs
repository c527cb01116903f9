//! Dense products through the f32 kernels of `gemm`, small ones without them; single-threaded: a rank is one thread.

use gemm_common::Parallelism;
use shardgraph_device::MatMul;

use super::microkernel::{Epilogue, Strips};
use super::sparse_rows::SparseRows;
use crate::functions::relu_of;
use crate::simd::arch;

/// `out = op(a) * op(b)`; an empty inner dimension gives zeros.
pub(crate) fn product_on_host(shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) {
    if SparseRows::takes(shape, a, b) {
        sparse(shape, a, b, out);
    } else if Strips::takes(shape) {
        strips(shape, a, b, Epilogue::Nothing, out);
    } else {
        large_product(shape, a, b, out);
    }
}

/// The product with a row added to each of its rows, then `max(., 0)` if `relu`.
pub(super) fn linear_on_host(
    shape: MatMul,
    x: &[f32],
    w: &[f32],
    row: &[f32],
    relu: bool,
    out: &mut [f32],
) {
    if SparseRows::takes(shape, x, w) {
        sparse(shape, x, w, out);
        return add_row(row, relu, out);
    }
    if !Strips::takes(shape) {
        large_product(shape, x, w, out);
        return add_row(row, relu, out);
    }
    let epilogue = match relu {
        true => Epilogue::AddRelu(row),
        false => Epilogue::Add(row),
    };
    strips(shape, x, w, epilogue, out);
}

fn sparse(shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) {
    arch().dispatch(SparseRows { shape, a, b, out });
}

fn strips(shape: MatMul, a: &[f32], b: &[f32], epilogue: Epilogue<'_>, out: &mut [f32]) {
    arch().dispatch(Strips {
        shape,
        a,
        b,
        epilogue,
        out,
    });
}

/// Adds a row to every row of `out`, then takes `max(., 0)` if `relu`.
fn add_row(row: &[f32], relu: bool, out: &mut [f32]) {
    let moved = (row, out);
    arch().dispatch(
        #[inline(always)]
        move || {
            let (row, out) = moved;
            for out in out.chunks_exact_mut(row.len().max(1)) {
                match relu {
                    true => out
                        .iter_mut()
                        .zip(row)
                        .for_each(|(x, &b)| *x = relu_of(*x + b)),
                    false => out.iter_mut().zip(row).for_each(|(x, &b)| *x += b),
                }
            }
        },
    );
}

/// A product whose factors are packed first.
pub(super) fn large_product(shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) {
    let MatMul {
        rows, inner, cols, ..
    } = shape;
    assert_eq!(a.len(), rows * inner, "a has rows * inner elements");
    assert_eq!(b.len(), inner * cols, "b has inner * cols elements");
    assert_eq!(out.len(), rows * cols, "out has rows * cols elements");
    if inner == 0 {
        out.fill(0.0);
    }
    if rows == 0 || cols == 0 || inner == 0 {
        return;
    }
    let strides = |transposed: bool, height: usize, width: usize| {
        if transposed {
            (height as isize, 1)
        } else {
            (1, width as isize)
        }
    };
    let a_strides = strides(shape.transpose_a, rows, inner);
    let b_strides = strides(shape.transpose_b, inner, cols);
    // The kernels prefer outputs in column-major order. A row-major output is that of the transposed product b^T a^T.
    let is_transposed = cols > 1;
    let ([m, n], left, right) = match is_transposed {
        true => (
            [cols, rows],
            (b.as_ptr(), b_strides.1, b_strides.0),
            (a.as_ptr(), a_strides.1, a_strides.0),
        ),
        false => (
            [rows, cols],
            (a.as_ptr(), a_strides.0, a_strides.1),
            (b.as_ptr(), b_strides.0, b_strides.1),
        ),
    };
    let (out_col_stride, out_row_stride) = match is_transposed {
        true => (cols as isize, 1),
        false => (1, cols as isize),
    };
    // SAFETY: the assertions above give each slice exactly the elements that its dimensions and strides address (a
    // row-major matrix, or its transpose), `out` is borrowed mutably, so it overlaps neither `a` nor `b`, and
    // `read_dst = false` means that `out` is only written.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            m,
            n,
            inner,
            out.as_mut_ptr(),
            out_col_stride,
            out_row_stride,
            false,
            left.0,
            left.1,
            left.2,
            right.0,
            right.1,
            right.2,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b, Simd, WithSimd};

    use super::*;

    /// Around the widths of vectors, strips and blocks of rows, and the layers of a small network.
    const SIZES: [usize; 16] = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 49, 84, 120, 257];
    const AROUND: usize = 40;

    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        let number = |i: usize| {
            let mixed = ((i + seed) as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            match mixed % 7 {
                0 => -0.0,
                _ => mixed as f32 / 8_388_608.0 - 1.0,
            }
        };
        (0..n).map(number).collect()
    }

    fn bits_of(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Values with NaN on both sides: whoever reads past an end gets it.
    #[derive(Clone)]
    struct Between(Vec<f32>);

    impl Between {
        fn new(values: &[f32]) -> Self {
            let edge = [f32::NAN; AROUND];
            Self([&edge, values, &edge].concat())
        }

        fn get(&mut self) -> &mut [f32] {
            let end = self.0.len() - AROUND;
            &mut self.0[AROUND..end]
        }

        fn edges_are_whole(&self) -> bool {
            let end = self.0.len() - AROUND;
            let (low, high) = (&self.0[..AROUND], &self.0[end..]);
            low.iter().chain(high).all(|x| x.is_nan())
        }
    }

    fn shapes() -> impl Iterator<Item = MatMul> {
        let ways = [(false, false), (true, false), (false, true), (true, true)];
        let of_way = |(transpose_a, transpose_b)| {
            let shape = move |rows, inner, cols| MatMul {
                rows,
                inner,
                cols,
                transpose_a,
                transpose_b,
            };
            let cols = move |rows, inner| SIZES.map(|cols| shape(rows, inner, cols));
            let inner = move |rows| SIZES.into_iter().flat_map(move |inner| cols(rows, inner));
            SIZES.into_iter().flat_map(inner)
        };
        ways.into_iter().flat_map(of_way)
    }

    fn element(shape: MatMul, a: &[f32], b: &[f32], at: (usize, usize, usize)) -> (f32, f32) {
        let (row, k, col) = at;
        let a = match shape.transpose_a {
            false => a[row * shape.inner + k],
            true => a[k * shape.rows + row],
        };
        let b = match shape.transpose_b {
            false => b[k * shape.cols + col],
            true => b[col * shape.inner + k],
        };
        (a, b)
    }

    /// All ways add in one order, so that a row has the same bits in a small batch and in a large one; and none reads or
    /// writes beside its matrices.
    #[test]
    fn products_have_the_bits_of_large_ones() {
        for shape in shapes().filter(|&shape| Strips::takes(shape)) {
            let MatMul {
                rows, inner, cols, ..
            } = shape;
            let mut a = Between::new(&numbers(rows * inner, 0));
            let mut b = Between::new(&numbers(inner * cols, 999));
            let mut out = Between::new(&vec![f32::NAN; rows * cols]);
            let mut large = vec![0.0; rows * cols];
            product_on_host(shape, a.get(), b.get(), out.get());
            large_product(shape, a.get(), b.get(), &mut large);
            assert!(bits_of(out.get()) == bits_of(&large), "{shape:?}");
            assert!(out.edges_are_whole(), "{shape:?}");
        }
    }

    /// What is plainly right: each sum in f64.
    #[test]
    fn products_match_naive() {
        let few = |shape: &MatMul| shape.rows * shape.inner * shape.cols < 20_000;
        for shape in shapes().filter(few) {
            let MatMul {
                rows, inner, cols, ..
            } = shape;
            let (a, b) = (numbers(rows * inner, 3), numbers(inner * cols, 77));
            let mut out = vec![f32::NAN; rows * cols];
            product_on_host(shape, &a, &b, &mut out);
            for (i, &got) in out.iter().enumerate() {
                let terms = (0..inner).map(|k| element(shape, &a, &b, (i / cols, k, i % cols)));
                let want: f64 = terms.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
                assert!((f64::from(got) - want).abs() < 1e-4, "{shape:?} {i}");
            }
        }
    }

    /// Vectors of 1, 4, 8 and 16 elements, whatever this processor has: none reads or writes beside its matrices.
    #[test]
    fn every_width_of_vectors_is_right() {
        let few = |shape: &MatMul| {
            Strips::takes(*shape) && shape.rows * shape.inner * shape.cols < 20_000
        };
        for shape in shapes().filter(few) {
            let row = numbers(shape.cols, 5);
            for epilogue in [
                Epilogue::Nothing,
                Epilogue::Add(&row),
                Epilogue::AddRelu(&row),
            ] {
                check_vectors(Scalar, shape, epilogue);
                check_vectors(Scalar128b, shape, epilogue);
                check_vectors(Scalar256b, shape, epilogue);
                check_vectors(Scalar512b, shape, epilogue);
            }
        }
    }

    fn check_vectors<S: Simd>(simd: S, shape: MatMul, epilogue: Epilogue<'_>) {
        let MatMul {
            rows, inner, cols, ..
        } = shape;
        let mut a = Between::new(&numbers(rows * inner, 3));
        let mut b = Between::new(&numbers(inner * cols, 77));
        let mut out = Between::new(&vec![f32::NAN; rows * cols]);
        let strips = Strips {
            shape,
            a: a.get(),
            b: b.get(),
            epilogue,
            out: out.get(),
        };
        strips.with_simd(simd);
        for (i, &got) in out.get().iter().enumerate() {
            let at = |k| (i / cols, k, i % cols);
            let terms = (0..inner).map(|k| element(shape, a.get(), b.get(), at(k)));
            let sum: f64 = terms.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
            let want = match epilogue {
                Epilogue::Nothing => sum,
                Epilogue::Add(row) => sum + f64::from(row[i % cols]),
                Epilogue::AddRelu(row) => (sum + f64::from(row[i % cols])).max(0.0),
            };
            let is_near = (f64::from(got) - want).abs() < 1e-4;
            assert!(is_near, "{} lanes, {shape:?} {i}", S::F32_LANES);
        }
        assert!(out.edges_are_whole(), "{} lanes, {shape:?}", S::F32_LANES);
    }

    /// NaN and infinity reach the sums that they are terms of, zeros beside them or not, and no other sum.
    #[test]
    fn what_is_no_number_stays_in_its_row_and_column() {
        for shape in shapes().filter(|&shape| Strips::takes(shape)) {
            let MatMul {
                rows, inner, cols, ..
            } = shape;
            let (mut a, mut b) = (vec![0.0; rows * inner], vec![0.0; inner * cols]);
            let (row, col, k) = (rows - 1, cols / 2, inner / 2);
            let at_a = if shape.transpose_a {
                k * rows + row
            } else {
                row * inner + k
            };
            let at_b = if shape.transpose_b {
                col * inner + k
            } else {
                k * cols + col
            };
            a[at_a] = f32::NAN;
            b[at_b] = f32::INFINITY;
            let mut out = vec![0.0; rows * cols];
            product_on_host(shape, &a, &b, &mut out);
            for (i, x) in out.iter().enumerate() {
                let is_hit = i / cols == row || i % cols == col;
                assert_eq!(x.is_nan(), is_hit, "{shape:?} {i}");
            }
        }
    }

    /// A layer has the bits of its product, the added row and relu, each by itself; also where sums are NaN or below 0.
    #[test]
    fn layers_have_the_bits_of_their_parts() {
        let is_plain = |shape: &MatMul| !shape.transpose_a && !shape.transpose_b;
        for shape in shapes().filter(is_plain) {
            let MatMul {
                rows, inner, cols, ..
            } = shape;
            let (mut x, w) = (numbers(rows * inner, 5), numbers(inner * cols, 55));
            x[inner * (rows / 2)] = f32::NAN;
            let row = numbers(cols, 555);
            let mut parts = vec![0.0; rows * cols];
            large_product(shape, &x, &w, &mut parts);
            let repeated = row.repeat(rows);
            let sum = parts.iter().zip(&repeated).map(|(x, b)| x + b);
            let sum: Vec<f32> = sum.collect();
            for relu in [false, true] {
                let mut want = sum.clone();
                if relu {
                    want.iter_mut().for_each(|x| *x = relu_of(*x));
                }
                let mut out = Between::new(&vec![f32::NAN; rows * cols]);
                linear_on_host(shape, &x, &w, &row, relu, out.get());
                assert!(bits_of(out.get()) == bits_of(&want), "{shape:?} {relu}");
                assert!(out.edges_are_whole(), "{shape:?} {relu}");
            }
        }
    }
}
