//! Area under the receiver operating characteristic, ties counted as halves.

/// Chance that a positive's score is above a negative's, ties counted as one half.
///
/// ```
/// use shardgraph_metrics::auc;
///
/// assert_eq!(auc(&[3.0, 2.0], &[2.0, 1.0]), 0.875);
/// ```
///
/// Without a score on either side there is nothing to compare: 0.5.
///
/// # Complexity
/// O(n log n).
///
/// # Source
/// Mann and Whitney (1947): the sum of the ranks of one side, ties with the mean of their ranks.
#[must_use]
pub fn auc(positives: &[f64], negatives: &[f64]) -> f64 {
    if positives.is_empty() || negatives.is_empty() {
        return 0.5;
    }
    let mut all: Vec<(f64, bool)> = positives.iter().map(|&score| (score, true)).collect();
    all.extend(negatives.iter().map(|&score| (score, false)));
    // -0 and 0 are one score.
    all.sort_unstable_by(|a, b| (a.0 + 0.0).total_cmp(&(b.0 + 0.0)));
    let (mut wins, mut n_below) = (0.0, 0.0);
    for ties in all.chunk_by(|a, b| a.0 >= b.0) {
        let n_positives = ties.iter().filter(|(_, is_positive)| *is_positive).count() as f64;
        let n_negatives = ties.len() as f64 - n_positives;
        wins += n_positives * (n_below + n_negatives / 2.0);
        n_below += n_negatives;
    }
    wins / (positives.len() as f64 * negatives.len() as f64)
}
