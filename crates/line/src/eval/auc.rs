//! The area under the receiver operating characteristic, ties counted as halves.

/// The chance that an edge's score is above another pair's, ties counted as one half.
///
/// ```
/// use shardgraph_line::eval::auc;
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
pub fn auc(edges: &[f64], others: &[f64]) -> f64 {
    if edges.is_empty() || others.is_empty() {
        return 0.5;
    }
    let mut all: Vec<(f64, bool)> = edges.iter().map(|&score| (score, true)).collect();
    all.extend(others.iter().map(|&score| (score, false)));
    // -0 and 0 are one score.
    all.sort_unstable_by(|a, b| (a.0 + 0.0).total_cmp(&(b.0 + 0.0)));
    let (mut wins, mut n_below) = (0.0, 0.0);
    for ties in all.chunk_by(|a, b| a.0 >= b.0) {
        let n_edges = ties.iter().filter(|(_, is_edge)| *is_edge).count() as f64;
        let n_others = ties.len() as f64 - n_edges;
        wins += n_edges * (n_below + n_others / 2.0);
        n_below += n_others;
    }
    wins / (edges.len() as f64 * others.len() as f64)
}
