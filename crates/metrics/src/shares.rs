//! Shares of right answers: the Wilson interval and the confusion matrix.

/// 95 % interval of the share of right answers: its lower and upper end.
///
/// ```
/// use shardgraph_metrics::wilson_interval;
///
/// let (low, high) = wilson_interval(8, 10);
/// assert!((low - 0.490).abs() < 1e-3 && (high - 0.943).abs() < 1e-3);
/// ```
///
/// # Source
/// Wilson, "Probable inference, the law of succession, and statistical inference" (1927): the
/// score interval.
#[must_use]
pub fn wilson_interval(n_right: u64, n: u64) -> (f64, f64) {
    let (n, z) = (n.max(1) as f64, 1.959_964);
    let share = n_right as f64 / n;
    let spread = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 / (1.0 + z * z / n);
    let middle = share + z * z / (2.0 * n);
    let (low, high) = (scale * (middle - spread), scale * (middle + spread));
    (low.max(0.0), high.min(1.0))
}

/// Counts of `(class, predicted)` pairs: `matrix[class][predicted]`.
///
/// # Panics
/// For a class that is not below `n_classes`.
#[must_use]
pub fn confusion_matrix(
    n_classes: u32,
    pairs: impl IntoIterator<Item = (u32, u32)>,
) -> Vec<Vec<u64>> {
    let n_classes = n_classes as usize;
    let mut matrix = vec![vec![0; n_classes]; n_classes];
    for (class, predicted) in pairs {
        matrix[class as usize][predicted as usize] += 1;
    }
    matrix
}
