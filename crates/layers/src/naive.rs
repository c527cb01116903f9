//! The reference: algorithms 2 and 3 for one state, in f64, over a dense residual matrix.

/// Everything a reference evaluation needs; matrices are row-major.
pub(crate) struct Model {
    pub(crate) k: usize,
    pub(crate) n_layers: usize,
    pub(crate) theta: [Vec<f64>; 7],
}

/// `x [rows, inner] * w [inner, cols]`.
pub(crate) fn product(x: &[f64], w: &[f64], inner: usize, cols: usize) -> Vec<f64> {
    let rows = x.len() / inner;
    let mut out = vec![0.0; rows * cols];
    for i in 0..rows {
        for j in 0..cols {
            out[i * cols + j] = (0..inner).map(|l| x[i * inner + l] * w[l * cols + j]).sum();
        }
    }
    out
}

pub(crate) fn relu(x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| x.max(0.0)).collect()
}

impl Model {
    /// `adjacency [n, n]` is the residual matrix (weights included), `features [n, f]` starts with
    /// the membership.
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

/// GraphSAGE in f64; `theta` is `input`, then `own` and `mean` of each layer.
pub(crate) fn graph_sage(
    theta: &[Vec<f64>],
    k: usize,
    adjacency: &[f64],
    features: &[f64],
    n: usize,
) -> Vec<f64> {
    let f = features.len() / n;
    let mut inputs = Vec::new();
    let mut total = Vec::new();
    for v in 0..n {
        let row = &adjacency[v * n..][..n];
        let positive: f64 = row.iter().filter(|w| **w > 0.0).sum();
        let negative: f64 = -row.iter().filter(|w| **w < 0.0).sum::<f64>();
        inputs.extend_from_slice(&features[v * f..][..f]);
        inputs.extend([positive, negative]);
        total.push(positive + negative);
    }
    let mut embed = relu(&product(&inputs, &theta[0], f + 2, k));
    for layer in theta[1..].chunks_exact(2) {
        let mut mean = product(adjacency, &embed, n, k);
        for (i, mean) in mean.iter_mut().enumerate() {
            *mean = if total[i / k] > 0.0 {
                *mean / total[i / k]
            } else {
                0.0
            };
        }
        let own = product(&embed, &layer[0], k, k);
        let mean = product(&mean, &layer[1], k, k);
        let both: Vec<f64> = own.iter().zip(mean).map(|(a, b)| a + b).collect();
        embed = relu(&both);
    }
    embed
}

/// The head with a hidden layer in f64; `theta` is `node`, `mean`, `bias`, `out`.
pub(crate) fn mlp_scores(theta: &[Vec<f64>], k: usize, embed: &[f64], n: usize) -> Vec<f64> {
    let mean: Vec<f64> = (0..k)
        .map(|j| (0..n).map(|v| embed[v * k + j]).sum::<f64>() / n as f64)
        .collect();
    let of_state = product(&mean, &theta[1], k, k);
    let mut hidden = product(embed, &theta[0], k, k);
    for (i, hidden) in hidden.iter_mut().enumerate() {
        *hidden += of_state[i % k] + theta[2][i % k];
    }
    product(&relu(&hidden), &theta[3], k, 1)
}
