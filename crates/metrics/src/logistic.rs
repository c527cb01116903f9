//! Logistic regression by L-BFGS: small, exact enough for a score, and deterministic.

use pulp::{Arch, Simd, WithSimd};

/// Steps that approximate the inverse Hessian.
const MEMORY: usize = 10;
const MAX_STEPS: usize = 200;
/// The largest gradient (of the mean loss over columns of variance 1) that counts as none.
const TOLERANCE: f64 = 1e-5;

/// A fitted logistic regression.
///
/// ```
/// use shardgraph_metrics::Logistic;
///
/// let features = [0.0, 1.0, 2.0, 3.0];
/// let fitted = Logistic::fit(&features, &[false, false, true, true], 1, 1e-2);
/// assert!(fitted.score(&[0.5]) < 0.0 && fitted.score(&[2.5]) > 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Logistic {
    weights: Vec<f32>,
    bias: f64,
}

/// Rows whose columns are moved and scaled to mean 0 and variance 1: all steps have one size.
struct Problem<'f> {
    features: &'f [f32],
    labels: &'f [bool],
    means: Vec<f64>,
    scales: Vec<f64>,
    l2: f64,
}

impl Logistic {
    /// Fits `labels` to rows of `dim` features: least mean logistic loss plus `l2 / 2` times the
    /// squared weights of the standardised columns (not of the bias).
    ///
    /// # Panics
    /// Unless there is a row of `dim` features for each label.
    ///
    /// # Source
    /// Liu and Nocedal, "On the limited memory BFGS method" (1989), with backtracking by Armijo's
    /// rule.
    #[must_use]
    pub fn fit(features: &[f32], labels: &[bool], dim: usize, l2: f64) -> Logistic {
        Logistic::fit_in_steps(features, labels, dim, l2, MAX_STEPS)
    }

    /// As [`Logistic::fit`], in at most `max_steps` steps of the descent.
    ///
    /// # Panics
    /// As [`Logistic::fit`].
    ///
    /// # Complexity
    /// `4 * dim` FLOP a row and step.
    #[must_use]
    pub fn fit_in_steps(
        features: &[f32],
        labels: &[bool],
        dim: usize,
        l2: f64,
        max_steps: usize,
    ) -> Logistic {
        assert_eq!(
            features.len(),
            dim * labels.len(),
            "a row of features for each label"
        );
        let problem = Problem::new(features, labels, dim, l2);
        problem.as_fitted(&problem.minimise(max_steps))
    }

    /// The log-odds of a row.
    #[must_use]
    pub fn score(&self, row: &[f32]) -> f64 {
        f64::from(dot(&self.weights, row)) + self.bias
    }
}

impl<'f> Problem<'f> {
    fn new(features: &'f [f32], labels: &'f [bool], dim: usize, l2: f64) -> Problem<'f> {
        let n = labels.len().max(1) as f64;
        let rows = || features.chunks_exact(dim.max(1));
        let mut means = vec![0.0; dim];
        for row in rows() {
            for (mean, &x) in means.iter_mut().zip(row) {
                *mean += f64::from(x) / n;
            }
        }
        let mut variances = vec![0.0; dim];
        for row in rows() {
            for ((variance, mean), &x) in variances.iter_mut().zip(&means).zip(row) {
                *variance += (f64::from(x) - mean).powi(2) / n;
            }
        }
        // A column that is the same everywhere says nothing.
        let scale = |variance: f64| {
            if variance > 0.0 {
                variance.sqrt().recip()
            } else {
                0.0
            }
        };
        Problem {
            features,
            labels,
            means,
            scales: variances.into_iter().map(scale).collect(),
            l2,
        }
    }

    /// Weights of the standardised columns, and the bias behind them.
    fn minimise(&self, max_steps: usize) -> Vec<f64> {
        let mut point = vec![0.0; self.means.len() + 1];
        let (mut loss, mut gradient) = self.loss(&point);
        let mut history = History::default();
        for _ in 0..max_steps {
            if gradient.iter().all(|g| g.abs() < TOLERANCE) {
                break;
            }
            let direction = history.direction(&gradient);
            let slope = inner(&direction, &gradient);
            let mut length = 1.0;
            let (next, next_loss, next_gradient) = loop {
                let next: Vec<f64> = point
                    .iter()
                    .zip(&direction)
                    .map(|(x, d)| x + length * d)
                    .collect();
                let (next_loss, next_gradient) = self.loss(&next);
                if next_loss <= loss + 1e-4 * length * slope {
                    break (next, next_loss, next_gradient);
                }
                length /= 2.0;
                if length < 1e-10 {
                    return point; // as low as rounding lets it
                }
            };
            history.push(
                difference(&next, &point),
                difference(&next_gradient, &gradient),
            );
            (point, loss, gradient) = (next, next_loss, next_gradient);
        }
        point
    }

    /// The regression over the columns as they came.
    fn as_fitted(&self, point: &[f64]) -> Logistic {
        let (point, bias) = point.split_at(self.means.len());
        let weights: Vec<f64> = point.iter().zip(&self.scales).map(|(w, s)| w * s).collect();
        Logistic {
            bias: bias[0] - inner(&weights, &self.means),
            weights: weights.into_iter().map(|w| w as f32).collect(),
        }
    }

    /// The mean loss with its penalty, and the gradient.
    fn loss(&self, point: &[f64]) -> (f64, Vec<f64>) {
        let dim = self.means.len();
        let fitted = self.as_fitted(point);
        let n = self.labels.len().max(1) as f64;
        let (mut loss, mut sum, mut columns) = (0.0, 0.0, vec![0.0; dim]);
        // Blocks of f32 sums: fast, and short enough to be exact to what matters.
        let blocks = self
            .features
            .chunks(BLOCK * dim.max(1))
            .zip(self.labels.chunks(BLOCK));
        let mut gradient = vec![0.0f32; dim];
        for (features, labels) in blocks {
            gradient.fill(0.0);
            let block = Arch::new().dispatch(Block {
                fitted: &fitted,
                features,
                labels,
                gradient: &mut gradient,
            });
            loss += block.loss;
            sum += block.factors;
            for (to, &from) in columns.iter_mut().zip(&gradient) {
                *to += f64::from(from);
            }
        }
        let penalty = self.l2 / 2.0 * inner(&point[..dim], &point[..dim]);
        let mut gradient: Vec<f64> = (0..dim)
            .map(|c| (columns[c] - sum * self.means[c]) * self.scales[c] / n + self.l2 * point[c])
            .collect();
        gradient.push(sum / n);
        (loss / n + penalty, gradient)
    }
}

/// Rows whose gradient is summed in f32.
const BLOCK: usize = 256;

/// Loss and gradient of a few rows, for each instruction set: the same bits on all.
struct Block<'b> {
    fitted: &'b Logistic,
    features: &'b [f32],
    labels: &'b [bool],
    /// To which the gradient by the columns is added.
    gradient: &'b mut [f32],
}

/// Sums over the rows of a block.
struct BlockSums {
    loss: f64,
    /// The gradient by the bias.
    factors: f64,
}

impl WithSimd for Block<'_> {
    type Output = BlockSums;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> BlockSums {
        let (weights, bias) = (&self.fitted.weights[..], self.fitted.bias);
        let dim = weights.len();
        let (mut linear, mut product, mut factors) = (0.0, 1.0f64, 0.0);
        for row in 0..self.labels.len() {
            let (label, features) = (self.labels[row], &self.features[row * dim..][..dim]);
            let x = f64::from(dot(weights, features)) + bias;
            let signed = if label { x } else { -x };
            let e = (-signed.abs()).exp();
            // ln(1 + exp(-signed)); the logarithm is taken of the product, below 2^BLOCK.
            linear += (-signed).max(0.0);
            product *= 1.0 + e;
            let pull = if signed > 0.0 { e } else { 1.0 } / (1.0 + e);
            let factor = if label { -pull } else { pull };
            factors += factor;
            axpy(self.gradient, factor as f32, features);
        }
        BlockSums {
            loss: linear + product.ln(),
            factors,
        }
    }
}

/// `to += factor * from`.
#[inline(always)]
fn axpy(to: &mut [f32], factor: f32, from: &[f32]) {
    for at in 0..to.len().min(from.len()) {
        to[at] += factor * from[at];
    }
}

/// The last steps and how they changed the gradient.
#[derive(Default)]
struct History {
    steps: Vec<(Vec<f64>, Vec<f64>)>,
}

impl History {
    fn push(&mut self, step: Vec<f64>, change: Vec<f64>) {
        if inner(&step, &change) <= 0.0 {
            return; // flat to rounding: it would bend the quadratic the wrong way
        }
        if self.steps.len() == MEMORY {
            self.steps.remove(0);
        }
        self.steps.push((step, change));
    }

    /// Downhill, by the two loops of the L-BFGS recursion.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut shares = Vec::new();
        for (step, change) in self.steps.iter().rev() {
            let share = inner(step, &direction) / inner(step, change);
            add(&mut direction, -share, change);
            shares.push(share);
        }
        if let Some((step, change)) = self.steps.last() {
            let scale = inner(step, change) / inner(change, change);
            direction.iter_mut().for_each(|d| *d *= scale);
        }
        for ((step, change), share) in self.steps.iter().zip(shares.iter().rev()) {
            let back = inner(change, &direction) / inner(step, change);
            add(&mut direction, share - back, step);
        }
        direction
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Running sums of a dot product: a loop over them becomes vector code.
const LANES: usize = 16;

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let n = a.len().min(b.len());
    let whole = n / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let (a, b) = (&a[at..at + LANES], &b[at..at + LANES]);
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut rest = 0.0;
    for at in whole..n {
        rest += a[at] * b[at];
    }
    sums.iter().sum::<f32>() + rest
}
