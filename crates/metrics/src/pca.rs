//! Principal component analysis: the plane of the two largest variances.

use shardgraph_random::KeyedRng;

const MAX_STEPS: usize = 500;
/// Sine of the angle by which an axis may still turn when the iteration ends.
const TOLERANCE: f64 = 1e-7;

/// Rows on the plane of their two principal axes.
#[derive(Clone, Debug, PartialEq)]
pub struct PrincipalPlane {
    /// Coordinates along the first axis and the second; the mean of all is (0, 0).
    pub points: Vec<[f64; 2]>,
    /// The axes' shares of the variance, between 0 and 1.
    pub shares: [f64; 2],
}

/// Principal component analysis of rows of `dim` numbers; `rng` draws the first axes.
///
/// ```
/// use shardgraph_random::KeyedRng;
/// use shardgraph_metrics::principal_plane;
///
/// let rows = [1.0, 2.0, 0.0, 2.0, 4.0, 0.0, 3.0, 6.0, 0.0]; // on one line
/// let plane = principal_plane(&rows, 3, &mut KeyedRng::new(1, "example", 0));
/// assert!((plane.shares[0] - 1.0).abs() < 1e-9 && plane.points[1][0].abs() < 1e-9);
/// ```
///
/// # Panics
/// For a `dim` of 0.
///
/// # Complexity
/// O(n dim) for each of at most 500 steps.
///
/// # Determinism
/// The largest component of an axis is positive, so that it has one direction.
///
/// # Source
/// Orthogonal iteration (Golub and Van Loan, "Matrix Computations", 7.3.2).
#[must_use]
pub fn principal_plane(rows: &[f32], dim: usize, rng: &mut KeyedRng) -> PrincipalPlane {
    let rows = centered(rows, dim);
    let total: f64 = rows.iter().flatten().map(|x| x * x).sum();
    let axes = principal_axes(&rows, dim, rng);
    let project = |row: &Vec<f64>| axes.each_ref().map(|axis| dot(row, axis));
    let points: Vec<[f64; 2]> = rows.iter().map(project).collect();
    let share = |axis: usize| {
        let along: f64 = points.iter().map(|point| point[axis].powi(2)).sum();
        if total > 0.0 { along / total } else { 0.0 }
    };
    PrincipalPlane {
        shares: [share(0), share(1)],
        points,
    }
}

fn centered(rows: &[f32], dim: usize) -> Vec<Vec<f64>> {
    let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect();
    let mut rows: Vec<Vec<f64>> = rows.chunks_exact(dim).map(row).collect();
    let n = rows.len().max(1) as f64;
    let mut mean = vec![0.0; dim];
    for row in &rows {
        for (mean, x) in mean.iter_mut().zip(row) {
            *mean += x / n;
        }
    }
    for row in &mut rows {
        for (x, mean) in row.iter_mut().zip(&mean) {
            *x -= mean;
        }
    }
    rows
}

/// Two orthogonal directions of the most variance; zeros where no variance is left.
fn principal_axes(rows: &[Vec<f64>], dim: usize, rng: &mut KeyedRng) -> [Vec<f64>; 2] {
    let mut axes = [0, 1].map(|_| (0..dim).map(|_| rng.normal()).collect::<Vec<f64>>());
    orthonormalise(&mut axes);
    for _ in 0..MAX_STEPS {
        let mut next = [vec![0.0; dim], vec![0.0; dim]];
        for row in rows {
            for (next, axis) in next.iter_mut().zip(&axes) {
                add_scaled(next, dot(row, axis), row);
            }
        }
        orthonormalise(&mut next);
        let turned = |(a, b): (&Vec<f64>, &Vec<f64>)| 1.0 - dot(a, b).powi(2).min(1.0);
        let farthest = axes.iter().zip(&next).map(turned).fold(0.0, f64::max);
        axes = next;
        if farthest < TOLERANCE * TOLERANCE {
            break;
        }
    }
    axes.map(directed)
}

/// The axis with a positive largest component.
fn directed(axis: Vec<f64>) -> Vec<f64> {
    let largest = axis
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let sign = match largest.unwrap_or(0.0) < 0.0 {
        true => -1.0,
        false => 1.0,
    };
    axis.into_iter().map(|x| sign * x).collect()
}

/// Gram-Schmidt; an axis that vanishes beside the first becomes zeros.
fn orthonormalise(axes: &mut [Vec<f64>; 2]) {
    let [first, second] = axes;
    let before = dot(second, second).sqrt();
    normalise(first, 0.0);
    // Twice is enough (Kahan and Parlett).
    for _ in 0..2 {
        let along = dot(first, second);
        for (x, f) in second.iter_mut().zip(first.iter()) {
            *x -= along * f;
        }
    }
    normalise(second, 1e-12 * before);
}

fn normalise(axis: &mut [f64], least: f64) {
    let norm = dot(axis, axis).sqrt();
    let factor = if norm > least { norm.recip() } else { 0.0 };
    axis.iter_mut().for_each(|x| *x *= factor);
}

fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, x) in to.iter_mut().zip(from) {
        *to += factor * x;
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
