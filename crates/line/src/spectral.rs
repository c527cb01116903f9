//! Spectral embedding: the eigenvectors of a graph's normalised adjacency matrix, without samples.
//!
//! The matrix is `N = D^-1/2 A D^-1/2`, or the same with a share of the mean degree added to each
//! degree, without which the first eigenvectors of a sparse graph are its small components. The
//! eigenvectors of largest absolute eigenvalue are found by orthogonal iteration on a few more
//! columns than are wanted, and a Rayleigh-Ritz step. The first of a connected graph is the root of
//! the degrees, so products of columns know the degree product; later ones know the communities.
//! The adjacency matrix itself and the logarithms of NetMF are factorised in the same way.

mod jacobi;
#[cfg(test)]
mod tests;

use pulp::{Arch, Simd, WithSimd};
use shardgraph_device::{Buffer, Device, MatMul};
use shardgraph_graph::Graph;
use shardgraph_ops::matmul;
use shardgraph_random::KeyedRng;

use crate::train::WorkerPool;
use crate::{Embedding, Error, NodeLabels};
use jacobi::symmetric_eigen;

const OP: &str = "line spectral";
/// Columns beyond those that are wanted.
const OVERSAMPLING: usize = 16;
/// Applications of the squared matrix.
const STEPS: usize = 6;
/// Rows that a thread makes at a time.
const CHUNK: usize = 1024;
/// Rows whose products are summed up in f32: a sum depends on this, and not on threads.
const BLOCK: usize = 128;
/// Sums of products at most, each of which has memory of its own.
const MAX_SUMS: usize = 64;
/// A column of less than this share of its length before orthogonalisation is none.
const DEPENDENT: f64 = 1e-5;

/// Matrix whose eigenvectors are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpectralMatrix {
    /// The normalised adjacency matrix `D^-1/2 A D^-1/2`; columns have mean square 1.
    Normalised,
    /// The adjacency matrix: a truncated singular value decomposition, each column times the root
    /// of its singular value.
    Adjacency,
    /// NetMF with a window of 1 and one negative: the logarithm of `vol(A) / (d_u d_v)` for each
    /// edge, at least 0, factorised as the adjacency matrix is. Order 2 of LINE approximates it.
    ///
    /// # Source
    /// Qiu et al., "Network embedding as matrix factorization" (2018), theorem 1 and algorithm 3.
    NetMf,
}

/// Matrix, columns and the rest of [`spectral_embedding`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectralConfig {
    /// The matrix; default normalised.
    pub matrix: SpectralMatrix,
    /// Columns; default 128.
    pub dim: usize,
    /// What is added to each degree, in mean degrees; default 0. The adjacency matrix has no use
    /// for it.
    pub regularisation: f32,
    /// Seed of the first basis; default 1.
    pub seed: u64,
    /// Threads; default 1. The result does not depend on them.
    pub threads: usize,
}

impl Default for SpectralConfig {
    fn default() -> SpectralConfig {
        SpectralConfig {
            matrix: SpectralMatrix::Normalised,
            dim: 128,
            regularisation: 0.0,
            seed: 1,
            threads: 1,
        }
    }
}

/// A row for each node: its entries of the eigenvectors of a [`SpectralMatrix`] with the `dim`
/// largest absolute eigenvalues, in that order.
///
/// Columns that the graph has no eigenvector for are 0, as are rows of nodes without an edge.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_line::{SpectralConfig, spectral_embedding};
///
/// let karate = builtin::by_name("karate").unwrap();
/// let config = SpectralConfig { dim: 4, ..SpectralConfig::default() };
/// let rows = spectral_embedding(&karate, &config)?;
/// // The first eigenvector is the root of the degrees.
/// let ratio = |v: u32| rows.row(v)[0].abs() / (karate.degree(v) as f32).sqrt();
/// assert!((ratio(0) - ratio(33)).abs() < 1e-4);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// [`Error::Setting`] for a `dim` or `threads` of 0, and a regularisation below 0.
///
/// # Complexity
/// O((m + n l) l) for m edges, n nodes and l = dim + 16 columns, and 8 n l bytes.
///
/// # Determinism
/// Any number of threads gives the same bits. The entry of largest absolute value in a column is
/// positive.
///
/// # Source
/// Halko, Martinsson, Tropp, "Finding structure with randomness" (2011), algorithms 4.4 and 5.3;
/// the regularisation of Qin and Rohe, "Regularized spectral clustering" (2013).
pub fn spectral_embedding(graph: &Graph, config: &SpectralConfig) -> Result<Embedding, Error> {
    let SpectralConfig {
        matrix,
        dim,
        regularisation,
        seed,
        threads,
    } = *config;
    if dim == 0 {
        return Err(Error::setting("dim", dim, "1 or more columns"));
    }
    if threads == 0 {
        return Err(Error::setting("threads", threads, "1 or more"));
    }
    if !(regularisation >= 0.0 && regularisation.is_finite()) {
        let expected = "a number of 0 or more";
        return Err(Error::setting("regularisation", regularisation, expected));
    }
    let n = graph.n_nodes() as usize;
    if n == 0 {
        return Embedding::new(dim, Vec::new(), NodeLabels::numbers(0));
    }
    let mean_degree = 2.0 * graph.n_edges() as f64 / n as f64;
    let added = f64::from(regularisation) * mean_degree;
    let n_columns = (dim + OVERSAMPLING).min(n);
    let scale = |v| scale(graph, v, added, matrix);
    let iteration = Iteration {
        graph,
        matrix,
        scales: (0..graph.n_nodes()).map(scale).collect(),
        n_columns,
        pool: WorkerPool { n_threads: threads },
    };
    let mut rng = KeyedRng::new(seed, "line spectral", 0);
    let mut basis: Vec<f32> = (0..n * n_columns).map(|_| rng.normal() as f32).collect();
    for _ in 0..STEPS {
        basis = iteration.multiply(&iteration.multiply(&basis)?)?;
        basis = iteration.orthonormalised(&basis)?;
    }
    // Once more: the first time leaves an error of the columns' condition.
    basis = iteration.orthonormalised(&basis)?;
    let image = iteration.multiply(&basis)?;
    let projected = iteration.products(&basis, &image)?;
    let eigen = symmetric_eigen(projected, n_columns);
    let mut order: Vec<usize> = (0..n_columns).collect();
    order.sort_by(|&a, &b| eigen.values[b].abs().total_cmp(&eigen.values[a].abs()));
    order.truncate(dim);
    let mut turn = vec![0.0f32; n_columns * dim];
    for (to, &from) in order.iter().enumerate() {
        for row in 0..n_columns {
            turn[row * dim + to] = eigen.vectors[row * n_columns + from] as f32;
        }
    }
    let mut rows = iteration.turned(&basis, turn, dim)?;
    normalise_columns(&mut rows, dim);
    if matrix != SpectralMatrix::Normalised {
        let roots = order
            .iter()
            .map(|&at| (eigen.values[at].abs() / n as f64).sqrt());
        scale_columns(&mut rows, dim, roots);
    }
    Embedding::new(dim, rows, NodeLabels::numbers(graph.n_nodes()))
}

/// The factor of a node in the entries of its edges, its degree with what is added to it.
fn scale(graph: &Graph, node: u32, added: f64, matrix: SpectralMatrix) -> f32 {
    let degree = match graph.degree(node) {
        0 => return 0.0,
        degree => f64::from(degree) + added,
    };
    let scale = match matrix {
        SpectralMatrix::Normalised => degree.sqrt().recip(),
        SpectralMatrix::Adjacency => 1.0,
        SpectralMatrix::NetMf => (2.0 * graph.n_edges() as f64).sqrt() / degree,
    };
    scale as f32
}

/// Each column times its factor.
fn scale_columns(rows: &mut [f32], dim: usize, factors: impl Iterator<Item = f64>) {
    let factors: Vec<f32> = factors.map(|factor| factor as f32).collect();
    for row in rows.chunks_exact_mut(dim) {
        row.iter_mut()
            .zip(&factors)
            .for_each(|(x, factor)| *x *= factor);
    }
}

/// Each column to mean square 1 and a largest entry above 0.
fn normalise_columns(rows: &mut [f32], dim: usize) {
    let n = rows.len() / dim;
    for column in 0..dim {
        let entries = || rows[column..].iter().step_by(dim).copied();
        let squares: f64 = entries().map(|x| f64::from(x).powi(2)).sum();
        let largest = entries().fold(0.0f32, |a, b| if b.abs() > a.abs() { b } else { a });
        let factor = match squares > 0.0 {
            true => ((n as f64 / squares).sqrt() as f32).copysign(largest),
            false => 0.0,
        };
        rows[column..]
            .iter_mut()
            .step_by(dim)
            .for_each(|x| *x *= factor);
    }
}

/// What each step of the iteration needs. Matrices are row-major, a row for each node.
struct Iteration<'g> {
    graph: &'g Graph,
    matrix: SpectralMatrix,
    /// Of each node, [`scale`].
    scales: Vec<f32>,
    n_columns: usize,
    pool: WorkerPool,
}

impl Iteration<'_> {
    /// The entry of an edge.
    fn entry(&self, node: usize, neighbor: usize) -> f32 {
        let product = self.scales[node] * self.scales[neighbor];
        match self.matrix {
            SpectralMatrix::Normalised | SpectralMatrix::Adjacency => product,
            SpectralMatrix::NetMf => product.max(1.0).ln(),
        }
    }

    /// The matrix times `x`.
    fn multiply(&self, x: &[f32]) -> Result<Vec<f32>, Error> {
        self.each_chunk(self.n_columns, |first_node, rows| {
            Arch::new().dispatch(NeighborSums {
                iteration: self,
                x,
                first_node,
                rows,
            });
            Ok(())
        })
    }

    /// `x` times a matrix of `dim` columns.
    fn turned(&self, x: &[f32], turn: Vec<f32>, dim: usize) -> Result<Vec<f32>, Error> {
        let (width, device, turn) = (self.n_columns, Device::host(), Buffer::from(turn));
        self.each_chunk(dim, |first_node, rows| {
            let shape = MatMul {
                rows: rows.len() / dim,
                inner: width,
                cols: dim,
                transpose_a: false,
                transpose_b: false,
            };
            let x = Buffer::from(x[first_node * width..][..shape.rows * width].to_vec());
            let mut out = Buffer::from(vec![0.0; rows.len()]);
            matmul(&device, shape, &x, &turn, &mut out)?;
            rows.copy_from_slice(out.on_host(OP)?);
            Ok(())
        })
    }

    /// Makes new rows of `width` numbers, 0 at first, a chunk of nodes at a time.
    fn each_chunk(
        &self,
        width: usize,
        make: impl Fn(usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.scales.len() * width];
        let chunks = out.chunks_mut(CHUNK * width).enumerate().collect();
        self.pool.for_each(chunks, |chunk: (usize, &mut [f32])| {
            let (at, rows) = chunk;
            make(at * CHUNK, rows)
        })?;
        Ok(out)
    }

    /// The transpose of `a` times `b`, a symmetric matrix.
    fn products(&self, a: &[f32], b: &[f32]) -> Result<Vec<f64>, Error> {
        let width = self.n_columns;
        let n_rows = self.scales.len().div_ceil(MAX_SUMS).max(CHUNK);
        let starts: Vec<usize> = (0..a.len()).step_by(n_rows * width).collect();
        let sums = self.pool.map(&starts, |start| {
            let range = start..(start + n_rows * width).min(a.len());
            block_products(&a[range.clone()], &b[range], width)
        })?;
        let mut total = vec![0.0f64; width * width];
        for sum in sums {
            for (total, x) in total.iter_mut().zip(sum) {
                *total += x;
            }
        }
        // Rounding leaves a difference.
        for i in 0..width {
            for j in 0..i {
                total[j * width + i] = total[i * width + j];
            }
        }
        Ok(total)
    }

    /// Makes the columns orthonormal; one that depends on earlier ones becomes 0.
    ///
    /// # Source
    /// Cholesky QR: Stathopoulos and Wu, "A block orthogonalization procedure" (2002).
    fn orthonormalised(&self, x: &[f32]) -> Result<Vec<f32>, Error> {
        let width = self.n_columns;
        let lower = cholesky(self.products(x, x)?, width);
        self.turned(x, inverse_of_transpose(&lower, width), width)
    }
}

/// Rows of a chunk of nodes: of each, the sum of its neighbours' rows times their entries.
struct NeighborSums<'a> {
    iteration: &'a Iteration<'a>,
    x: &'a [f32],
    first_node: usize,
    rows: &'a mut [f32],
}

impl WithSimd for NeighborSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.iteration.n_columns;
        for (node, out) in (self.first_node..).zip(self.rows.chunks_exact_mut(width)) {
            for &neighbor in self.iteration.graph.neighbors(node as u32) {
                let neighbor = neighbor as usize;
                let factor = self.iteration.entry(node, neighbor);
                let row = &self.x[neighbor * width..][..width];
                // A loop by index: an iterator would be compiled for the oldest processor.
                for at in 0..width {
                    out[at] += factor * row[at];
                }
            }
        }
    }
}

/// The transpose of `a` times `b`: in f32 over [`BLOCK`] rows, then in f64.
fn block_products(a: &[f32], b: &[f32], width: usize) -> Result<Vec<f64>, Error> {
    let device = Device::host();
    let mut total = vec![0.0f64; width * width];
    let mut sums = Buffer::from(vec![0.0; width * width]);
    for (a, b) in a.chunks(BLOCK * width).zip(b.chunks(BLOCK * width)) {
        let shape = MatMul {
            rows: width,
            inner: a.len() / width,
            cols: width,
            transpose_a: true,
            transpose_b: false,
        };
        let [a, b] = [a, b].map(|rows| Buffer::from(rows.to_vec()));
        matmul(&device, shape, &a, &b, &mut sums)?;
        for (total, &sum) in total.iter_mut().zip(sums.on_host(OP)?) {
            *total += f64::from(sum);
        }
    }
    Ok(total)
}

/// The lower factor of a Gram matrix; the row of a dependent column is 0.
fn cholesky(mut gram: Vec<f64>, width: usize) -> Vec<f64> {
    for i in 0..width {
        let own = gram[i * width + i];
        for j in 0..=i {
            let before: f64 = (0..j)
                .map(|k| gram[i * width + k] * gram[j * width + k])
                .sum();
            let rest = gram[i * width + j] - before;
            let pivot = gram[j * width + j];
            gram[i * width + j] = match i == j {
                true if rest > DEPENDENT * own => rest.sqrt(),
                false if pivot > 0.0 => rest / pivot,
                _ => 0.0,
            };
        }
        if gram[i * width + i] == 0.0 {
            gram[i * width..=i * width + i].fill(0.0);
        }
    }
    gram
}

/// The inverse of a lower factor's transpose, with columns of 0 for rows of 0.
fn inverse_of_transpose(lower: &[f64], width: usize) -> Vec<f32> {
    // Column `j` of the result is row `j` of the lower factor's inverse.
    let mut inverse = vec![0.0f64; width * width];
    for row in 0..width {
        let pivot = lower[row * width + row];
        if pivot == 0.0 {
            continue;
        }
        inverse[row * width + row] = 1.0 / pivot;
        for column in 0..row {
            let sum: f64 = (column..row)
                .map(|k| lower[row * width + k] * inverse[k * width + column])
                .sum();
            inverse[row * width + column] = -sum / pivot;
        }
    }
    let entry = |at: usize| inverse[(at % width) * width + at / width] as f32;
    (0..width * width).map(entry).collect()
}
