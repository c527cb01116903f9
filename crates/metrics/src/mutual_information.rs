//! Normalised mutual information of two labellings.

use std::collections::BTreeMap;

/// Normalised mutual information: over the mean of the two entropies; 1 where both have one label.
///
/// ```
/// use shardgraph_metrics::mutual_information;
///
/// assert!((mutual_information(&[0, 0, 1, 1], &[5, 5, 3, 3]) - 1.0).abs() < 1e-12);
/// assert!(mutual_information(&[0, 0, 1, 1], &[0, 1, 0, 1]).abs() < 1e-12);
/// ```
///
/// # Panics
/// Unless the two are of one length.
///
/// # Source
/// Strehl and Ghosh (2002), with the arithmetic mean, as in scikit-learn.
#[must_use]
pub fn mutual_information(a: &[u32], b: &[u32]) -> f64 {
    assert_eq!(a.len(), b.len(), "two labellings of the same things");
    let n = a.len() as f64;
    let (mut counts_a, mut counts_b) = (BTreeMap::new(), BTreeMap::new());
    let mut joint: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (&a, &b) in a.iter().zip(b) {
        *counts_a.entry(a).or_insert(0.0) += 1.0;
        *counts_b.entry(b).or_insert(0.0) += 1.0;
        *joint.entry((a, b)).or_default() += 1.0;
    }
    let entropy = |counts: &BTreeMap<u32, f64>| -> f64 {
        counts.values().map(|c| -c / n * (c / n).ln()).sum()
    };
    let mean = (entropy(&counts_a) + entropy(&counts_b)) / 2.0;
    let shared = joint
        .iter()
        .map(|((a, b), c)| c / n * (c * n / (counts_a[a] * counts_b[b])).ln());
    match mean > 0.0 {
        true => shared.sum::<f64>() / mean,
        false => 1.0,
    }
}
