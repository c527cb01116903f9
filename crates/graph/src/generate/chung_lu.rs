//! Chung-Lu graphs: expected degrees that fall as a power law, by geometric skipping along nodes of
//! falling weight.

use shardgraph_random::{KeyedRng, ln};

use crate::{EdgeSink, Error};

/// The expected degrees: node i has a share of (i + 1)^(-1 / (exponent - 1)).
fn weights(n: u32, mean_degree: f64, exponent: f64) -> Vec<f64> {
    let power = -1.0 / (exponent - 1.0);
    let shares = (1..=n).map(|i| exp(power * ln(f64::from(i))));
    let mut weights: Vec<f64> = shares.collect();
    let factor = mean_degree * f64::from(n) / weights.iter().sum::<f64>();
    weights.iter_mut().for_each(|weight| *weight *= factor);
    weights
}

/// Pair u < v is an edge with probability min(1, w_u w_v / W). It falls with v, so a skip drawn for
/// the last probability goes never too far, and the node that it meets is kept by the ratio of its
/// probability to that.
pub(super) fn stream(
    n: u32,
    mean_degree: f64,
    exponent: f64,
    seed: u64,
    sink: &mut dyn EdgeSink,
) -> Result<(), Error> {
    let weights = weights(n, mean_degree, exponent);
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return Ok(());
    }
    for u in 0..n {
        let mut random = KeyedRng::new(seed, "chung-lu", u64::from(u));
        let of_pair = |v: u64| (weights[u as usize] * weights[v as usize] / total).min(1.0);
        let mut v = u64::from(u) + 1;
        let mut p = if v < u64::from(n) { of_pair(v) } else { 0.0 };
        while v < u64::from(n) && p > 0.0 {
            if p < 1.0 {
                v = v.saturating_add(random.geometric(KeyedRng::inverse_ln_q(p)));
            }
            if v >= u64::from(n) {
                break;
            }
            let own = of_pair(v);
            if random.chance(own / p) {
                sink.edge(u, v as u32, 1.0)?;
            }
            p = own;
            v += 1;
        }
    }
    Ok(())
}

/// e^x for a moderate x, by operations that IEEE 754 defines exactly: the platform's may differ in
/// its last bit, and with it a graph.
fn exp(x: f64) -> f64 {
    let n = (x / std::f64::consts::LN_2).round();
    let rest = x - n * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for k in (1..=14).rev() {
        sum = 1.0 + sum * rest / f64::from(k);
    }
    sum * 2f64.powi(n as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_that_of_the_platform() {
        for i in -400..=400 {
            let x = f64::from(i) / 20.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn weights_fall_as_a_power_and_have_the_mean() {
        let weights = weights(1000, 7.0, 3.0);
        assert!((weights.iter().sum::<f64>() - 7000.0).abs() < 1e-6);
        // (4)^(-1/2) is a half.
        assert!((weights[3] / weights[0] - 0.5).abs() < 1e-12);
    }

    /// Counts of each pair over many small graphs, beside its probability.
    #[test]
    fn pairs_have_their_probabilities() {
        struct Counts([[u32; 6]; 6]);
        impl EdgeSink for Counts {
            fn edge(&mut self, u: u32, v: u32, _: f32) -> Result<(), Error> {
                self.0[u as usize][v as usize] += 1;
                Ok(())
            }
        }
        let mut counts = Counts([[0; 6]; 6]);
        for seed in 0..4000 {
            stream(6, 2.0, 2.2, seed, &mut counts).unwrap();
        }
        let weights = weights(6, 2.0, 2.2);
        for u in 0..6 {
            for v in u + 1..6 {
                let p = (weights[u] * weights[v] / 12.0).min(1.0);
                let (seen, expected) = (f64::from(counts.0[u][v]), 4000.0 * p);
                assert!(
                    (seen - expected).abs() <= 150.0,
                    "{u} {v}: {seen} for {expected}"
                );
            }
        }
    }
}
