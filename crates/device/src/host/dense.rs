//! Dense products through the crate `gemm`, small ones without it; single-threaded: a rank is one thread.

use gemm::Parallelism;

use super::Host;
use super::unpacked::Unpacked;
use crate::MatMul;

impl Host {
    pub(crate) fn matmul(&self, shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) {
        if !Unpacked::takes(shape) {
            return product(shape, a, b, out);
        }
        self.arch.dispatch(Unpacked {
            inner: shape.inner,
            cols: shape.cols,
            a,
            b,
            out,
        });
    }

    pub(crate) fn block_matmul(
        &self,
        shape: MatMul,
        bounds: &[usize],
        (x, w): (&[f32], &[f32]),
        out: &mut [f32],
    ) {
        for block in bounds.windows(2) {
            let rows = block[1] - block[0];
            let x = &x[block[0] * shape.inner..][..rows * shape.inner];
            let out = &mut out[block[0] * shape.cols..][..rows * shape.cols];
            product(MatMul { rows, ..shape }, x, w, out);
        }
    }

    pub(crate) fn block_outer(
        &self,
        shape: MatMul,
        bounds: &[usize],
        (x, y): (&[f32], &[f32]),
        out: &mut [f32],
    ) {
        let size = shape.rows * shape.cols;
        for (block, out) in bounds.windows(2).zip(out.chunks_exact_mut(size.max(1))) {
            let inner = block[1] - block[0];
            let x = &x[block[0] * shape.rows..][..inner * shape.rows];
            let y = &y[block[0] * shape.cols..][..inner * shape.cols];
            let shape = MatMul {
                inner,
                transpose_a: true,
                transpose_b: false,
                ..shape
            };
            product(shape, x, y, out);
        }
    }
}

/// `out = op(a) * op(b)`; an empty inner dimension gives zeros.
fn product(shape: MatMul, a: &[f32], b: &[f32], out: &mut [f32]) {
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
    let (a_col_stride, a_row_stride) = strides(shape.transpose_a, rows, inner);
    let (b_col_stride, b_row_stride) = strides(shape.transpose_b, inner, cols);
    // SAFETY: the assertions above give each slice exactly the elements that its dimensions and strides address (a
    // row-major matrix, or its transpose), `out` is borrowed mutably, so it overlaps neither `a` nor `b`, and
    // `read_dst = false` means that `out` is only written.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            inner,
            out.as_mut_ptr(),
            1,
            cols as isize,
            false,
            a.as_ptr(),
            a_col_stride,
            a_row_stride,
            b.as_ptr(),
            b_col_stride,
            b_row_stride,
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
    use super::*;

    /// Both ways add in one order, so that a row has the same bits in a small batch and in a large one.
    #[test]
    fn small_products_have_the_bits_of_large_ones() {
        let number = |i: usize| {
            let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            mixed as f32 / 8_388_608.0 - 1.0
        };
        for rows in [1, 2, 7, 8, 9, 33, 100] {
            for inner in [1, 2, 3, 4, 31, 32, 33, 84, 120, 256, 257] {
                for cols in [1, 2, 5, 16, 17, 84, 120, 128, 129] {
                    let shape = MatMul {
                        rows,
                        inner,
                        cols,
                        transpose_a: false,
                        transpose_b: false,
                    };
                    let a: Vec<f32> = (0..rows * inner).map(number).collect();
                    let b: Vec<f32> = (0..inner * cols).map(|i| number(i + 999)).collect();
                    let (mut small, mut large) =
                        (vec![f32::NAN; rows * cols], vec![0.0; rows * cols]);
                    Host::new().matmul(shape, &a, &b, &mut small);
                    product(shape, &a, &b, &mut large);
                    let differ = small
                        .iter()
                        .zip(&large)
                        .any(|(a, b)| a.to_bits() != b.to_bits());
                    assert!(!differ, "{rows} x {inner} x {cols}");
                }
            }
        }
    }
}
