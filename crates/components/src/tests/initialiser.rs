//! First values: their bounds, orthogonality, and what they depend on.

use proptest::prelude::*;
use shardgraph_autodiff::{Params, Shape};
use shardgraph_environments::space::Space;

use crate::{
    ActorCritic, ActorCriticShape, EnvironmentSpaces, Error, Gains, Initialisation, Initialiser,
    Linear, Lstm, QNetwork, QNetworkShape,
};

fn weights(rule: Initialisation, scope: &str, shape: Shape, seed: u64) -> Vec<f32> {
    let mut params = Params::new();
    let start = Initialiser { rule, seed };
    Linear::build(&mut params, scope, shape.rows, shape.cols, start).unwrap();
    params.flat().to_vec()
}

proptest! {
    #[test]
    fn orthogonal_matrices_are(
        n in prop_oneof![1usize..6, 31usize..34],
        m in prop_oneof![1usize..6, 63usize..66],
        seed in any::<u64>(),
    ) {
        let all = weights(Initialisation::Orthogonal(Gains::all(2.0)), "w", Shape::new(n, m), seed);
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
    let all = weights(Initialisation::FanIn, "w", Shape::new(64, 200), 3);
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
        Initialisation::Orthogonal(Gains::all(1.0)),
    ] {
        let of = |scope: &str, seed| weights(rule, scope, Shape::new(3, 4), seed);
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

/// The length of the first row or column of each weight matrix, whichever are orthonormal but for
/// the gain.
fn gains(params: &Params) -> Vec<(String, f32)> {
    let weights = params.ids().filter(|&id| params.shape(id).rows > 1);
    let gain = |id| {
        let (shape, values) = (params.shape(id), params.values_of(id));
        let line: Vec<f32> = match shape.rows <= shape.cols {
            true => values[..shape.cols].to_vec(),
            false => values.iter().step_by(shape.cols).copied().collect(),
        };
        let squares: f64 = line.iter().map(|x| f64::from(*x).powi(2)).sum();
        (params.name(id).to_string(), squares.sqrt() as f32)
    };
    weights.map(gain).collect()
}

/// Networks with heads and memories of all kinds.
fn networks(start: Initialiser) -> Params {
    let (observation, action) = (Space::boxed(&[3], -1.0, 1.0), Space::discrete(2));
    let spaces = EnvironmentSpaces {
        observation: &observation.unwrap(),
        action: &action.unwrap(),
    };
    let mut params = Params::new();
    let shape = QNetworkShape {
        hidden: vec![4],
        dueling: None,
    };
    QNetwork::build(&mut params, "q", spaces, &shape, start).unwrap();
    let shape = QNetworkShape {
        hidden: vec![],
        dueling: Some(vec![5]),
    };
    QNetwork::build(&mut params, "dueling", spaces, &shape, start).unwrap();
    let shape = ActorCriticShape {
        hidden: vec![4],
        lstm: Some(3),
    };
    ActorCritic::build(&mut params, "actor", spaces, &shape, start).unwrap();
    params
}

#[test]
fn layers_have_the_gains_of_what_they_are_for() {
    let params = networks(Initialiser {
        rule: Initialisation::Orthogonal(Gains::default()),
        seed: 2,
    });
    let hidden = std::f32::consts::SQRT_2;
    let expected = [
        ("q/torso/0/w", hidden),
        ("q/head/w", 1.0),
        ("dueling/head/value/0/w", hidden),
        ("dueling/head/value/1/w", 1.0),
        ("dueling/head/advantage/0/w", hidden),
        ("dueling/head/advantage/1/w", 1.0),
        ("actor/torso/0/w", hidden),
        ("actor/core/w_x", 1.0),
        ("actor/core/w_h", 1.0),
        ("actor/policy/w", 0.01),
        ("actor/value/w", 1.0),
    ];
    let given = gains(&params);
    assert_eq!(given.len(), expected.len(), "{given:?}");
    for ((name, gain), (expected_name, expected)) in given.iter().zip(expected) {
        assert_eq!(name, expected_name);
        assert!(
            (gain - expected).abs() < 1e-6,
            "{name}: {gain} for {expected}"
        );
    }
}

#[test]
fn gains_are_settings_and_bad_ones_are_refused() {
    let rule: Initialisation = serde_json::from_str(r#"{"orthogonal": {"policy": 0.5}}"#).unwrap();
    let policy = 0.5;
    let gains = Gains {
        policy,
        ..Gains::default()
    };
    assert_eq!(rule, Initialisation::Orthogonal(gains));
    assert!(serde_json::from_str::<Initialisation>(r#"{"orthogonal": {"gain": 1}}"#).is_err());
    for gain in [-1.0, f32::NAN, f32::INFINITY] {
        let start = Initialiser {
            rule: Initialisation::Orthogonal(Gains::all(gain)),
            seed: 1,
        };
        let mut params = Params::new();
        for error in [
            Linear::build(&mut params, "head", 2, 2, start).unwrap_err(),
            Lstm::build(&mut params, "core", 2, 2, start).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        }
        assert!(params.flat().is_empty());
    }
}
