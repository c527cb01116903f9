//! Eigenvalues and eigenvectors of a small symmetric matrix.

/// Sweeps over all pairs of columns at most; ten are enough for a few hundred columns.
const MAX_SWEEPS: usize = 30;
/// Share of the matrix that may be left beside the diagonal.
const TOLERANCE: f64 = 1e-12;

/// Eigenvalues, and the eigenvectors as columns of a row-major matrix.
pub(super) struct Eigen {
    pub(super) values: Vec<f64>,
    pub(super) vectors: Vec<f64>,
}

/// By cyclic Jacobi rotations.
///
/// # Source
/// Golub and Van Loan, "Matrix Computations", 8.5.
pub(super) fn symmetric_eigen(mut matrix: Vec<f64>, n: usize) -> Eigen {
    // Rows of `turned` are the eigenvectors, so that a rotation goes over memory in order.
    let mut turned = vec![0.0; n * n];
    (0..n).for_each(|i| turned[i * n + i] = 1.0);
    let whole: f64 = matrix.iter().map(|x| x * x).sum();
    for _ in 0..MAX_SWEEPS {
        let beside = |i: usize| matrix[i * n..i * n + i].iter().map(|x| x * x).sum::<f64>();
        let rest: f64 = (0..n).map(beside).sum();
        if rest <= TOLERANCE * TOLERANCE * whole {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let (a, b, both) = (matrix[p * n + p], matrix[q * n + q], matrix[p * n + q]);
                if both == 0.0 {
                    continue;
                }
                let theta = (b - a) / (2.0 * both);
                let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
                let rotation = Rotation {
                    p,
                    q,
                    cosine,
                    sine: tangent * cosine,
                };
                rotation.turn_rows(&mut matrix, n);
                rotation.turn_columns(&mut matrix, n);
                rotation.turn_rows(&mut turned, n);
            }
        }
    }
    let values = (0..n).map(|i| matrix[i * n + i]).collect();
    let vectors = (0..n * n).map(|at| turned[(at % n) * n + at / n]).collect();
    Eigen { values, vectors }
}

/// A rotation in the plane of two axes, `p` before `q`.
struct Rotation {
    p: usize,
    q: usize,
    cosine: f64,
    sine: f64,
}

impl Rotation {
    fn turn_rows(&self, matrix: &mut [f64], n: usize) {
        let (before, from_q) = matrix.split_at_mut(self.q * n);
        let rows = before[self.p * n..][..n].iter_mut().zip(&mut from_q[..n]);
        for (a, b) in rows {
            (*a, *b) = (
                self.cosine * *a - self.sine * *b,
                self.sine * *a + self.cosine * *b,
            );
        }
    }

    fn turn_columns(&self, matrix: &mut [f64], n: usize) {
        for row in matrix.chunks_exact_mut(n) {
            let (a, b) = (row[self.p], row[self.q]);
            row[self.p] = self.cosine * a - self.sine * b;
            row[self.q] = self.sine * a + self.cosine * b;
        }
    }
}
