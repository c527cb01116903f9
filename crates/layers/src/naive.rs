//! The reference: algorithms 2 and 3 for one state, in f64, over a dense residual matrix.

/// Everything a reference evaluation needs; matrices are row-major.
pub(crate) struct Model {
    pub(crate) k: usize,
    pub(crate) n_layers: usize,
    pub(crate) theta: [Vec<f64>; 7],
}

/// `x [rows, inner] * w [inner, cols]`.
fn product(x: &[f64], w: &[f64], inner: usize, cols: usize) -> Vec<f64> {
    let rows = x.len() / inner;
    let mut out = vec![0.0; rows * cols];
    for i in 0..rows {
        for j in 0..cols {
            out[i * cols + j] = (0..inner).map(|l| x[i * inner + l] * w[l * cols + j]).sum();
        }
    }
    out
}

fn relu(x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| x.max(0.0)).collect()
}

impl Model {
    /// `adjacency [n, n]` is the residual matrix (weights included), `features [n, f]` starts with the membership.
    pub(crate) fn embed(&self, adjacency: &[f64], features: &[f64], n: usize) -> Vec<f64> {
        let k = self.k;
        let n_features = features.len() / n;
        let first = product(features, &self.theta[0], n_features, k);
        let mut edges = vec![0.0; n * k];
        for v in 0..n {
            for u in 0..n {
                for j in 0..k {
                    edges[v * k + j] += (self.theta[1][j] * adjacency[v * n + u]).max(0.0);
                }
            }
        }
        let second = product(&edges, &self.theta[2], k, k);
        let mut embed = vec![0.0; n * k];
        for _ in 0..self.n_layers {
            let sums = product(adjacency, &embed, n, k);
            let third = product(&sums, &self.theta[3], k, k);
            let total: Vec<f64> = (0..n * k)
                .map(|i| first[i] + second[i] + third[i])
                .collect();
            embed = relu(&total);
        }
        embed
    }

    pub(crate) fn scores(&self, embed: &[f64], n: usize) -> Vec<f64> {
        let k = self.k;
        let sums: Vec<f64> = (0..k)
            .map(|j| (0..n).map(|v| embed[v * k + j]).sum())
            .collect();
        let state = relu(&product(&sums, &self.theta[4], k, k));
        let nodes = relu(&product(embed, &self.theta[5], k, k));
        (0..n)
            .map(|v| {
                let row: Vec<f64> = state
                    .iter()
                    .chain(&nodes[v * k..(v + 1) * k])
                    .copied()
                    .collect();
                row.iter().zip(&self.theta[6]).map(|(h, t)| h * t).sum()
            })
            .collect()
    }
}
