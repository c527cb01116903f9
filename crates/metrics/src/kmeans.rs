//! Lloyd's k-means from k-means++ centers.

use shardgraph_random::KeyedRng;

const RESTARTS: u64 = 4;
const MAX_STEPS: usize = 100;

/// Cluster of each row of `dim` numbers: `k` clusters, or one per row if that is less.
///
/// ```
/// use shardgraph_metrics::kmeans;
///
/// let clusters = kmeans(&[0.0, 0.1, 5.0, 5.1], 1, 2, 1);
/// assert_eq!((clusters[0] == clusters[1], clusters[1] == clusters[2]), (true, false));
/// ```
///
/// # Panics
/// Unless the numbers are whole rows.
///
/// # Complexity
/// O(n k dim) for each of at most 100 steps of four runs.
///
/// # Determinism
/// Sums are taken in the order of the rows.
///
/// # Source
/// Lloyd's algorithm from k-means++ centers (Arthur and Vassilvitskii, 2007), the best of four.
#[must_use]
pub fn kmeans(rows: &[f32], dim: usize, k: usize, seed: u64) -> Vec<u32> {
    assert!(
        dim > 0 && rows.len().is_multiple_of(dim),
        "rows of {dim} numbers"
    );
    let n = rows.len() / dim;
    let k = k.clamp(1, n.max(1));
    if n == 0 {
        return Vec::new();
    }
    let data = Rows { rows, dim };
    let runs = (0..RESTARTS).map(|run| {
        let mut rng = KeyedRng::new(seed, "line kmeans", run);
        data.lloyd(data.spread_centers(k, &mut rng))
    });
    let best = runs.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(clusters, _)| clusters).unwrap_or_default()
}

struct Rows<'r> {
    rows: &'r [f32],
    dim: usize,
}

impl Rows<'_> {
    fn row(&self, at: usize) -> &[f32] {
        &self.rows[at * self.dim..][..self.dim]
    }

    fn n(&self) -> usize {
        self.rows.len() / self.dim
    }

    /// k-means++: each next center is a row, drawn by its squared distance to the nearest center.
    fn spread_centers(&self, k: usize, rng: &mut KeyedRng) -> Vec<f64> {
        let center = |at: usize| self.row(at).iter().map(|&x| f64::from(x));
        let mut centers: Vec<f64> = center(rng.below(self.n() as u64) as usize).collect();
        let mut nearest = vec![f64::INFINITY; self.n()];
        while centers.len() < k * self.dim {
            let last = centers.len() - self.dim;
            for (at, nearest) in nearest.iter_mut().enumerate() {
                *nearest = nearest.min(distance(self.row(at), &centers[last..]));
            }
            let mut left = rng.uniform_f64() * nearest.iter().sum::<f64>();
            let is_passed = |d: &f64| {
                left -= d;
                left < 0.0
            };
            let drawn = nearest.iter().position(is_passed);
            // All rows may lie on centers.
            centers.extend(center(drawn.unwrap_or(self.n() - 1)));
        }
        centers
    }

    /// Steps until no row changes its cluster; the clusters and the sum of squared distances.
    fn lloyd(&self, mut centers: Vec<f64>) -> (Vec<u32>, f64) {
        let mut clusters: Vec<u32> = Vec::new();
        let mut total = 0.0;
        for _ in 0..MAX_STEPS {
            let near: Vec<(u32, f64)> =
                (0..self.n()).map(|at| self.nearest(at, &centers)).collect();
            total = near.iter().map(|near| near.1).sum();
            let next: Vec<u32> = near.iter().map(|near| near.0).collect();
            if next == clusters {
                break;
            }
            clusters = next;
            self.move_centers(&mut centers, &near);
        }
        (clusters, total)
    }

    fn nearest(&self, at: usize, centers: &[f64]) -> (u32, f64) {
        let all = centers.chunks_exact(self.dim).zip(0..);
        let all = all.map(|(center, c)| (c, distance(self.row(at), center)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    /// Each center to the mean of its rows; one without rows to the row farthest from its center.
    fn move_centers(&self, centers: &mut [f64], near: &[(u32, f64)]) {
        let mut counts = vec![0u32; centers.len() / self.dim];
        centers.fill(0.0);
        for (at, (c, _)) in near.iter().enumerate() {
            counts[*c as usize] += 1;
            let center = &mut centers[*c as usize * self.dim..][..self.dim];
            for (sum, &x) in center.iter_mut().zip(self.row(at)) {
                *sum += f64::from(x);
            }
        }
        let mut farthest: Vec<usize> = (0..near.len()).collect();
        farthest.sort_by(|&a, &b| near[b].1.total_cmp(&near[a].1).then(a.cmp(&b)));
        let mut farthest = farthest.into_iter();
        for (center, &count) in centers.chunks_exact_mut(self.dim).zip(&counts) {
            if count > 0 {
                center.iter_mut().for_each(|x| *x /= f64::from(count));
            } else if let Some(at) = farthest.next() {
                for (x, &of_row) in center.iter_mut().zip(self.row(at)) {
                    *x = f64::from(of_row);
                }
            }
        }
    }
}

fn distance(row: &[f32], center: &[f64]) -> f64 {
    let squares = row
        .iter()
        .zip(center)
        .map(|(&x, c)| (f64::from(x) - c).powi(2));
    squares.sum()
}
