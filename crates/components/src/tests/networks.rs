//! Fully connected networks and their heads, against their formulas and through the check.

use proptest::prelude::*;
use shardgraph_autodiff::{Params, Shape};
use shardgraph_environments::space::Space;

use super::{assert_close, normals, rows, run};
use crate::{
    ActorCritic, ActorCriticShape, DuelingHead, EnvironmentSpaces, Gains, Initialisation,
    Initialiser, Linear, Mlp, QNetwork, QNetworkShape, check, naive,
};

/// The layers of a scope, in order: weights and biases.
pub(super) fn layers<'a>(params: &'a Params, scope: &str) -> Vec<(&'a [f32], &'a [f32])> {
    let of = |name: String| {
        let id = params.ids().find(|&id| params.name(id) == name);
        id.map(|id| params.values_of(id))
    };
    (0..)
        .map_while(|i| Some((of(format!("{scope}/{i}/w"))?, of(format!("{scope}/{i}/b"))?)))
        .collect()
}

fn naive_mlp(layers: &[(&[f32], &[f32])], row: &[f32]) -> Vec<f64> {
    let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    naive::mlp(layers, &row)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_dueling_head_is_value_plus_centred_advantage(
        n in prop_oneof![Just(1usize), 31usize..34, Just(65)],
        n_actions in prop_oneof![Just(1usize), 2usize..5, Just(33)],
        seed in any::<u64>(),
    ) {
        let mut params = Params::new();
        let start = Initialiser { rule: Initialisation::FanIn, seed };
        let head = DuelingHead::build(&mut params, "head", 5, &[7], n_actions, start).unwrap();
        let x = normals(5 * n, seed);
        let q = run(&params, &[(5, &x)], |ctx, x| Ok(vec![head.q_values(ctx, x[0])?]));
        let (value, advantage) = (layers(&params, "head/value"), layers(&params, "head/advantage"));
        let expected: Vec<f64> = x
            .chunks(5)
            .flat_map(|row| naive::dueling(naive_mlp(&value, row)[0], &naive_mlp(&advantage, row)))
            .collect();
        assert_close(&q[0], &expected, 1e-5);
    }

    #[test]
    fn an_mlp_is_its_layers(
        n in prop_oneof![Just(1usize), 63usize..66],
        hidden in prop::collection::vec(1usize..35, 0..3),
        seed in any::<u64>(),
    ) {
        let mut params = Params::new();
        let start = Initialiser { rule: Initialisation::Orthogonal(Gains::default()), seed };
        let widths = [&hidden[..], &[3]].concat();
        let mlp = Mlp::build(&mut params, "mlp", 4, &widths, start).unwrap();
        let x = normals(4 * n, seed);
        let out = run(&params, &[(4, &x)], |ctx, x| {
            Ok(vec![mlp.apply(ctx, x[0])?, mlp.features(ctx, x[0])?])
        });
        let layers = layers(&params, "mlp");
        prop_assert_eq!(layers.len(), widths.len());
        let expected: Vec<f64> = x.chunks(4).flat_map(|row| naive_mlp(&layers, row)).collect();
        assert_close(&out[0], &expected, 1e-5);
        assert_close(&out[1], &naive::relu(expected), 1e-5);
    }
}

fn spaces() -> (Space, Space) {
    let pair = (Space::boxed(&[3], -1.0, 1.0), Space::discrete(2));
    (pair.0.unwrap(), pair.1.unwrap())
}

#[test]
fn q_networks_pass_the_check() {
    let (observation, action) = spaces();
    for dueling in [None, Some(vec![]), Some(vec![6])] {
        let shape = QNetworkShape {
            hidden: vec![8, 7],
            dueling,
        };
        let (mut params, start) = (Params::new(), Initialiser::default());
        let network = QNetwork::build(
            &mut params,
            "q",
            EnvironmentSpaces::new(&observation, &action),
            &shape,
            start,
        );
        let network = network.unwrap();
        let checked = check("q", &params, &[rows(3)], 1, |ctx, x| {
            Ok(vec![network.q_values(ctx, x[0])?])
        });
        let checked = checked.unwrap();
        assert_eq!(checked.shapes, [Shape::new(2, 2)]);
        assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
    }
}

#[test]
fn an_actor_critics_heads_read_the_same_features() {
    let (observation, action) = spaces();
    let (mut params, start) = (Params::new(), Initialiser::default());
    let shape = ActorCriticShape {
        hidden: vec![9],
        lstm: None,
    };
    let actor = ActorCritic::build(
        &mut params,
        "actor",
        EnvironmentSpaces::new(&observation, &action),
        &shape,
        start,
    );
    let (actor, x) = (actor.unwrap(), normals(3 * 33, 5));
    let out = run(&params, &[(3, &x)], |ctx, x| {
        let out = actor.apply(ctx, x[0])?;
        Ok(vec![out.logits, out.values])
    });
    let of = |i: usize| params.values_of(params.ids().nth(i).unwrap());
    let features = |row: &[f32]| naive::relu(naive_mlp(&layers(&params, "actor/torso"), row));
    for (given, i) in out.iter().zip([2, 4]) {
        let rows = x
            .chunks(3)
            .map(|row| naive::linear(&features(row), of(i), of(i + 1)));
        let expected: Vec<f64> = rows.flatten().collect();
        assert_close(given, &expected, 1e-5);
    }
}

#[test]
fn an_actor_critic_passes_the_check() {
    let (observation, action) = spaces();
    let shape = ActorCriticShape {
        hidden: vec![8],
        lstm: None,
    };
    let mut params = Params::new();
    let start = Initialiser {
        rule: Initialisation::Orthogonal(Gains::default()),
        seed: 3,
    };
    let actor = ActorCritic::build(
        &mut params,
        "actor",
        EnvironmentSpaces::new(&observation, &action),
        &shape,
        start,
    );
    let actor = actor.unwrap();
    let checked = check("actor", &params, &[rows(3)], 1, |ctx, x| {
        let out = actor.apply(ctx, x[0])?;
        Ok(vec![out.logits, out.values])
    });
    let checked = checked.unwrap();
    assert_eq!(checked.shapes, [Shape::new(2, 2), Shape::new(2, 1)]);
    assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
}

/// Each alone, as those that are built of them use them.
#[test]
fn the_parts_of_networks_pass_the_check() {
    let (mut params, start) = (Params::new(), Initialiser::default());
    let linear = Linear::build(&mut params, "linear", 3, 2, start).unwrap();
    let checked = check("linear", &params, &[rows(3)], 1, |ctx, x| {
        Ok(vec![
            linear.apply(ctx, x[0])?,
            linear.apply_relu(ctx, x[0])?,
        ])
    });
    assert!(checked.unwrap().n_derivatives > 30);
    let mut params = Params::new();
    let mlp = Mlp::build(&mut params, "mlp", 3, &[5, 2], start).unwrap();
    let checked = check("mlp", &params, &[rows(3)], 1, |ctx, x| {
        Ok(vec![mlp.apply(ctx, x[0])?, mlp.features(ctx, x[0])?])
    });
    assert!(checked.unwrap().n_derivatives > 60);
    let mut params = Params::new();
    let head = DuelingHead::build(&mut params, "head", 3, &[5], 4, start).unwrap();
    let checked = check("head", &params, &[rows(3)], 1, |ctx, x| {
        Ok(vec![head.q_values(ctx, x[0])?])
    });
    assert!(checked.unwrap().n_derivatives > 120);
}
