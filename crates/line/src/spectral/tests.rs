//! Spectral embedding: eigenvectors of graphs whose spectrum is known, and the same bits for any
//! number of threads.

use super::*;
use proptest::prelude::*;

fn config(dim: usize) -> SpectralConfig {
    SpectralConfig {
        dim,
        ..SpectralConfig::default()
    }
}

fn dense(graph: &Graph, regularisation: f32) -> Vec<f64> {
    let n = graph.n_nodes() as usize;
    let mut matrix = vec![0.0; n * n];
    let mean = 2.0 * graph.n_edges() as f64 / n as f64;
    let degree = |v: u32| f64::from(graph.degree(v)) + f64::from(regularisation) * mean;
    for (u, v) in graph.edges() {
        let entry = (degree(u) * degree(v)).sqrt().recip();
        matrix[u as usize * n + v as usize] = entry;
        matrix[v as usize * n + u as usize] = entry;
    }
    matrix
}

fn random_graph(n_nodes: u32, n_edges: usize, seed: u64) -> Graph {
    let mut rng = KeyedRng::new(seed, "spectral test", 0);
    let edges: Vec<(u32, u32)> = (0..n_edges)
        .map(|_| (rng.below_u32(n_nodes), rng.below_u32(n_nodes)))
        .filter(|(u, v)| u != v)
        .collect();
    Graph::from_edges(n_nodes, &edges).unwrap()
}

/// The eigenvalue of a column, and the largest entry of `N x - value x`.
fn eigenvalue_and_residual(matrix: &[f64], rows: &Embedding, column: usize) -> (f64, f64) {
    let n = rows.n_nodes();
    let entry = |v: u32| f64::from(rows.row(v)[column]);
    let x: Vec<f64> = (0..n as u32).map(entry).collect();
    let image: Vec<f64> = matrix
        .chunks_exact(n)
        .map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum())
        .collect();
    let squares: f64 = x.iter().map(|x| x * x).sum();
    let value = x.iter().zip(&image).map(|(x, y)| x * y).sum::<f64>() / squares;
    let rests = image.iter().zip(&x).map(|(y, x)| (y - value * x).abs());
    (value, rests.fold(0.0, f64::max))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Graphs of no more nodes than the basis has columns: the eigenvectors are exact.
    #[test]
    fn columns_are_eigenvectors_by_descending_absolute_value(
        n_nodes in 6u32..18, n_edges in 20usize..60, seed in 0u64..100,
        regularisation in 0.0f32..2.0,
    ) {
        let graph = random_graph(n_nodes, n_edges, seed);
        let config = SpectralConfig { regularisation, seed, ..config(3) };
        let rows = spectral_embedding(&graph, &config).unwrap();
        let matrix = dense(&graph, regularisation);
        let mut expected = symmetric_eigen(matrix.clone(), n_nodes as usize).values;
        expected.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        for column in 0..3 {
            let (value, rest) = eigenvalue_and_residual(&matrix, &rows, column);
            let near = (value.abs() - expected[column].abs()).abs();
            prop_assert!(near < 1e-3 && rest < 2e-2, "{column}: {value} {expected:?} {rest}");
        }
    }
}

/// With as many columns as nodes, products of rows are the matrix with positive eigenvalues.
#[test]
fn rows_of_factorisations_make_the_matrix_again() {
    let graph = random_graph(12, 30, 5);
    let volume = 2.0 * graph.n_edges() as f64;
    let entry = |matrix, u, v| match matrix {
        SpectralMatrix::Adjacency => 1.0,
        _ => (volume / f64::from(graph.degree(u) * graph.degree(v)))
            .max(1.0)
            .ln(),
    };
    for matrix in [SpectralMatrix::Adjacency, SpectralMatrix::NetMf] {
        let config = SpectralConfig {
            matrix,
            ..config(12)
        };
        let rows = spectral_embedding(&graph, &config).unwrap();
        let mut expected = vec![0.0; 144];
        for (u, v) in graph.edges() {
            expected[12 * u as usize + v as usize] = entry(matrix, u, v);
            expected[12 * v as usize + u as usize] = entry(matrix, u, v);
        }
        let eigen = symmetric_eigen(expected, 12);
        for u in 0..12u32 {
            for v in 0..12u32 {
                let pairs = rows.row(u).iter().zip(rows.row(v));
                let found: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let column = |v: u32, k: usize| eigen.vectors[12 * v as usize + k];
                let terms = (0..12).map(|k| column(u, k) * eigen.values[k].abs() * column(v, k));
                let expected: f64 = terms.sum();
                assert!(
                    (found - expected).abs() < 1e-3,
                    "{matrix:?} {u} {v}: {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn jacobi_rotations_keep_the_matrix() {
    let n = 7;
    let mut rng = KeyedRng::new(1, "jacobi test", 0);
    let mut matrix = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let x = rng.normal();
            (matrix[i * n + j], matrix[j * n + i]) = (x, x);
        }
    }
    let eigen = symmetric_eigen(matrix.clone(), n);
    for i in 0..n {
        for j in 0..n {
            let entry: f64 = (0..n)
                .map(|k| eigen.vectors[i * n + k] * eigen.values[k] * eigen.vectors[j * n + k])
                .sum();
            assert!((entry - matrix[i * n + j]).abs() < 1e-10, "{i} {j}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let graph = random_graph(2500, 8000, 3);
    let rows = |threads| {
        let config = SpectralConfig {
            threads,
            ..config(5)
        };
        spectral_embedding(&graph, &config).unwrap()
    };
    assert_eq!(rows(1), rows(3));
}

/// A star has two eigenvalues that are not 0, and a node without an edge has no entry at all.
#[test]
fn what_has_no_eigenvector_is_zero() {
    let edges: Vec<(u32, u32)> = (1..30).map(|leaf| (0, leaf)).collect();
    let graph = Graph::from_edges(31, &edges).unwrap();
    let rows = spectral_embedding(&graph, &config(6)).unwrap();
    let largest = |column: usize| {
        let entries = (0..31).map(|v| rows.row(v)[column].abs());
        entries.fold(0.0, f32::max)
    };
    assert!(largest(0) > 1.0 && largest(1) > 1.0);
    assert!((2..6).all(|column| largest(column) == 0.0), "{rows:?}");
    assert!(rows.row(30).iter().all(|&x| x == 0.0));
    let empty = spectral_embedding(&Graph::from_edges(3, &[]).unwrap(), &config(2)).unwrap();
    assert!(empty.values().iter().all(|&x| x == 0.0));
    assert!(spectral_embedding(&graph, &config(0)).is_err());
    let below = SpectralConfig {
        regularisation: -1.0,
        ..config(2)
    };
    let error = spectral_embedding(&graph, &below).unwrap_err().to_string();
    assert!(error.starts_with("regularisation = -1"), "{error}");
}
