//! Scores of several runs as one number with an interval.

use shardgraph_random::KeyedRng;

/// Resamples of a bootstrap.
const N_RESAMPLES: u64 = 2000;

/// A number and the interval that holds it in 95 of 100 samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The mean of the middle half of some scores: a quarter of them, rounded down, is left out at each end. NaN where there are none.
///
/// ```
/// use shardgraph_agents::interquartile_mean;
/// assert_eq!(interquartile_mean(&[9.0, 1.0, 2.0, 3.0]), 2.5);
/// ```
pub fn interquartile_mean(scores: &[f64]) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n_cut = sorted.len() / 4;
    let middle = &sorted[n_cut..sorted.len() - n_cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// [`interquartile_mean`] with a percentile bootstrap over the runs.
///
/// # Source
/// Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice, NeurIPS 2021.
/// # Determinism
/// By `seed`.
/// # Complexity
/// O(n log n) for each of 2000 resamples.
///
/// ```
/// use shardgraph_agents::interquartile_interval;
/// let scores = [500.0, 480.0, 490.0, 120.0, 495.0, 500.0, 470.0, 500.0];
/// let of = interquartile_interval(&scores, 1);
/// assert!(of.low <= of.value && of.value <= of.high && of.low > 120.0);
/// ```
pub fn interquartile_interval(scores: &[f64], seed: u64) -> Interval {
    let value = interquartile_mean(scores);
    if scores.is_empty() {
        return Interval {
            value,
            low: value,
            high: value,
        };
    }
    let resample = |index: u64| {
        let mut stream = KeyedRng::new(seed, "bootstrap", index);
        let drawn = scores
            .iter()
            .map(|_| scores[stream.below(scores.len() as u64) as usize]);
        interquartile_mean(&drawn.collect::<Vec<f64>>())
    };
    let mut means: Vec<f64> = (0..N_RESAMPLES).map(resample).collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((N_RESAMPLES - 1) as f64 * share).round() as usize];
    Interval {
        value,
        low: at(0.025),
        high: at(0.975),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "what is compared with == is exact")]

    use super::*;

    #[test]
    fn the_middle_half_is_by_hand() {
        assert!(interquartile_mean(&[]).is_nan());
        assert_eq!(interquartile_mean(&[7.0]), 7.0);
        assert_eq!(interquartile_mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(
            interquartile_mean(&[100.0, 1.0, 2.0, 3.0, 4.0, -50.0, 5.0, 3.0]),
            3.0
        );
    }

    /// Of normal scores the width of the interval is that of theory within a third: the deviation of the mean of the middle half of n is
    /// about 1.09 / sqrt n.
    #[test]
    fn the_interval_is_as_wide_as_theory_has_it() {
        let mut stream = KeyedRng::new(3, "test", 0);
        let scores: Vec<f64> = (0..200).map(|_| stream.normal()).collect();
        let of = interquartile_interval(&scores, 1);
        let expected = 2.0 * 1.96 * 1.09 / 200f64.sqrt();
        let width = of.high - of.low;
        assert!((width / expected - 1.0).abs() < 0.34, "{width} {expected}");
        assert!(of.low < 0.0 + 0.15 && of.high > -0.15);
        assert_eq!(of, interquartile_interval(&scores, 1));
    }
}
