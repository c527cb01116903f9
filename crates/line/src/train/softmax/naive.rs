//! The softmax loss by its definition, in f64, an edge at a time.

/// Rows of nodes and their sums of squares.
#[derive(Clone, Debug)]
pub(super) struct Naive {
    pub(super) rows: Vec<Vec<f64>>,
    pub(super) squares: Vec<f64>,
}

impl Naive {
    /// The sum of the losses of a chunk's edges.
    pub(super) fn loss(rows: &[Vec<f64>], edges: &[[u32; 2]], negatives: &[u32]) -> f64 {
        let dot = |u: u32, v: u32| -> f64 {
            let pairs = rows[u as usize].iter().zip(&rows[v as usize]);
            pairs.map(|(a, b)| a * b).sum()
        };
        let mut loss = 0.0;
        for &[source, target] in edges {
            let others = edges
                .iter()
                .map(|edge| edge[1])
                .chain(negatives.iter().copied());
            let others = others.filter(|&other| other != target);
            let own = dot(source, target).exp();
            let sum: f64 = others.map(|other| dot(source, other).exp()).sum();
            loss -= (own / (own + sum)).ln();
        }
        loss
    }

    /// The gradient of [`Naive::loss`], a row for each node.
    pub(super) fn gradient(
        rows: &[Vec<f64>],
        edges: &[[u32; 2]],
        negatives: &[u32],
    ) -> Vec<Vec<f64>> {
        let mut gradient: Vec<Vec<f64>> = rows.iter().map(|row| vec![0.0; row.len()]).collect();
        let mut add = |to: u32, factor: f64, from: u32| {
            let from = &rows[from as usize];
            let to = gradient[to as usize].iter_mut();
            to.zip(from).for_each(|(to, x)| *to += factor * x);
        };
        let dot = |u: u32, v: u32| -> f64 {
            let pairs = rows[u as usize].iter().zip(&rows[v as usize]);
            pairs.map(|(a, b)| a * b).sum()
        };
        for &[source, target] in edges {
            let others = edges.iter().map(|edge| edge[1]);
            let others = others.chain(negatives.iter().copied());
            let candidates: Vec<u32> = std::iter::once(target)
                .chain(others.filter(|&other| other != target))
                .collect();
            let sum: f64 = candidates.iter().map(|&v| dot(source, v).exp()).sum();
            for (idx, &candidate) in candidates.iter().enumerate() {
                let is_true = if idx == 0 { 1.0 } else { 0.0 };
                let slope = dot(source, candidate).exp() / sum - is_true;
                add(source, slope, candidate);
                add(candidate, slope, source);
            }
        }
        gradient
    }

    /// One Adagrad step along the gradient of the sum of all chunks' losses.
    pub(super) fn step(&mut self, chunks: &[(Vec<[u32; 2]>, Vec<u32>)], rate: f64) {
        let each = chunks
            .iter()
            .map(|(edges, negatives)| Naive::gradient(&self.rows, edges, negatives));
        let gradients: Vec<Vec<Vec<f64>>> = each.collect();
        for (node, row) in self.rows.iter_mut().enumerate() {
            let mut gradient = vec![0.0; row.len()];
            for of_chunk in &gradients {
                let pairs = gradient.iter_mut().zip(&of_chunk[node]);
                pairs.for_each(|(sum, g)| *sum += g);
            }
            let squares: f64 = gradient.iter().map(|g| g * g).sum();
            self.squares[node] += squares / gradient.len() as f64;
            if self.squares[node] > 0.0 {
                let rate = rate / self.squares[node].sqrt();
                row.iter_mut()
                    .zip(&gradient)
                    .for_each(|(x, g)| *x -= rate * g);
            }
        }
    }
}
