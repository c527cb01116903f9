//! First values: their bounds, orthogonality, and what they depend on.

use proptest::prelude::*;
use shardgraph_autodiff::Params;

use crate::{Initialisation, Initialiser, Linear};

fn weights(rule: Initialisation, scope: &str, (n, m): (usize, usize), seed: u64) -> Vec<f32> {
    let mut params = Params::new();
    Linear::build(&mut params, scope, n, m, Initialiser { rule, seed }).unwrap();
    params.flat().to_vec()
}

proptest! {
    #[test]
    fn orthogonal_matrices_are(
        n in prop_oneof![1usize..6, 31usize..34],
        m in prop_oneof![1usize..6, 63usize..66],
        seed in any::<u64>(),
    ) {
        let all = weights(Initialisation::Orthogonal { gain: 2.0 }, "w", (n, m), seed);
        let (w, b) = all.split_at(n * m);
        prop_assert!(b.iter().all(|&b| b == 0.0));
        let at = |i: usize, j: usize| f64::from(w[i * m + j]);
        let dot = |i: usize, k: usize| -> f64 {
            match n <= m {
                true => (0..m).map(|j| at(i, j) * at(k, j)).sum(),
                false => (0..n).map(|j| at(j, i) * at(j, k)).sum(),
            }
        };
        for i in 0..n.min(m) {
            for k in 0..n.min(m) {
                let expected = if i == k { 4.0 } else { 0.0 };
                prop_assert!((dot(i, k) - expected).abs() < 1e-5, "{} {}: {}", i, k, dot(i, k));
            }
        }
    }
}

#[test]
fn fan_in_is_uniform_between_its_bounds() {
    let all = weights(Initialisation::FanIn, "w", (64, 200), 3);
    let mean = all.iter().map(|&x| f64::from(x)).sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / all.len() as f64;
    assert!(all.iter().all(|x| x.abs() <= 0.125));
    assert!(all.iter().any(|x| *x > 0.124) && all.iter().any(|x| *x < -0.124));
    assert!(mean.abs() < 0.003 && (variance - 0.125 * 0.125 / 3.0).abs() < 2e-4);
}

#[test]
fn values_depend_on_seed_and_name_alone() {
    for rule in [
        Initialisation::FanIn,
        Initialisation::Orthogonal { gain: 1.0 },
    ] {
        let of = |scope: &str, seed| weights(rule, scope, (3, 4), seed);
        assert_eq!(of("a", 1), of("a", 1));
        assert_ne!(of("a", 1), of("a", 2));
        assert_ne!(of("a", 1), of("b", 1));
        let (mut params, start) = (Params::new(), Initialiser { rule, seed: 1 });
        for scope in ["before", "a"] {
            Linear::build(&mut params, scope, 3, 4, start).unwrap();
        }
        assert_eq!(params.flat()[16..], of("a", 1));
    }
}
