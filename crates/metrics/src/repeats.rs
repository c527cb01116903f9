//! Mean, spread and interval of one number over repeated runs.

/// Mean and sample standard deviation; the deviation of one value is 0.
#[must_use]
pub fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let (mean, variance) = mean_and_variance(values);
    (mean, variance.sqrt())
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (n - 1.0).max(1.0))
}

/// Standard error of the mean; `None` for fewer than two values.
///
/// ```
/// use shardgraph_metrics::standard_error;
///
/// assert_eq!(standard_error(&[1.0]), None);
/// assert_eq!(standard_error(&[1.0, 3.0]), Some(1.0));
/// ```
#[must_use]
pub fn standard_error(values: &[f64]) -> Option<f64> {
    let variance = || mean_and_variance(values).1;
    (values.len() > 1).then(|| (variance() / values.len() as f64).sqrt())
}

/// Half the width of the mean's 95 % interval by Student's t; `None` for fewer than two values.
///
/// ```
/// use shardgraph_metrics::t_interval;
///
/// assert!((t_interval(&[1.0, 3.0]).unwrap() - 12.706).abs() < 1e-9);
/// ```
#[must_use]
pub fn t_interval(values: &[f64]) -> Option<f64> {
    let half_width =
        || student_t(values.len()) * mean_and_std(values).1 / (values.len() as f64).sqrt();
    (values.len() > 1).then(half_width)
}

/// 97.5 % quantile of Student's t for a sample of `n`, with `n - 1` degrees of freedom.
///
/// Beyond 30 by the first correction to the quantile of the normal distribution.
#[must_use]
pub fn student_t(n: usize) -> f64 {
    const QUANTILES: [f64; 29] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045,
    ];
    let beyond = 1.96 + 2.4 / n.max(2) as f64;
    QUANTILES
        .get(n.saturating_sub(2))
        .copied()
        .unwrap_or(beyond)
}
