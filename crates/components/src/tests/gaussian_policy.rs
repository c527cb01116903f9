//! Normal distributions against their formulas in f64, in PPO's loss too, and the draws of them.

use proptest::prelude::*;
use shardgraph_autodiff::{Ctx, Params, Shape, Var};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use super::{assert_close, normals, rows, run};
use crate::{
    ActionDistribution, ActorCritic, ActorCriticShape, EnvironmentSpaces, Error, GaussianPolicy,
    Initialiser, PolicyAndValue, PpoBatch, PpoLoss, check,
};

const W: usize = 3;

fn space() -> Space {
    Space::boxed(&[W], -1.0, 1.0).unwrap()
}

/// Log-densities and entropies, by the formula.
fn expected(parameters: &[f32], drawn: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let (mut densities, mut entropies) = (Vec::new(), Vec::new());
    for (row, action) in parameters.chunks(2 * W).zip(drawn.chunks(W)) {
        let (mut density, mut entropy) = (1.0f64, 0.0);
        for i in 0..W {
            let (mean, deviation) = (f64::from(row[i]), f64::from(row[W + i]).exp());
            let z = (f64::from(action[i]) - mean) / deviation;
            let tau = std::f64::consts::TAU;
            density *= (-0.5 * z * z).exp() / (deviation * tau.sqrt());
            entropy += 0.5 * (tau * std::f64::consts::E * deviation * deviation).ln();
        }
        densities.push(density.ln());
        entropies.push(entropy);
    }
    (densities, entropies)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn it_is_its_formula(n in prop_oneof![Just(1usize), Just(32), Just(33)], seed in any::<u64>()) {
        let parameters: Vec<f32> = normals(2 * W * n, seed).iter().map(|x| 0.5 * x).collect();
        let drawn = normals(W * n, seed ^ 1);
        let out = run(&Params::new(), &[(2 * W, &parameters), (W, &drawn)], |ctx, x| {
            let policy = ActionDistribution::build("policy", &space())?;
            let out = policy.evaluate(ctx, x[0], None, x[1])?;
            Ok(vec![out.log_probability, out.entropy])
        });
        let (densities, entropies) = expected(&parameters, &drawn);
        assert_close(&out[0], &densities, 1e-4);
        assert_close(&out[1], &entropies, 1e-4);
        let mut on_host = Vec::new();
        let policy = GaussianPolicy::build("policy", &space()).unwrap();
        policy.log_densities_into(&parameters, &drawn, &mut on_host);
        assert_close(&on_host, &densities, 1e-5);
    }
}

fn ppo(ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let n = ctx.shape(x[0]).rows;
    let mut column =
        |seed: u64, width: usize| ctx.input(Shape::new(n, width), &normals(n * width, seed));
    let batch = PpoBatch {
        actions: column(1, W)?,
        mask: None,
        behaviour: column(2, 1)?,
        advantages: column(3, 1)?,
        returns: column(4, 1)?,
        old_values: column(5, 1)?,
    };
    let settings = PpoLoss {
        clip: 0.9,
        entropy_coefficient: 0.1,
        ..PpoLoss::default()
    };
    let outputs = PolicyAndValue {
        logits: x[0],
        values: x[1],
    };
    let policy = ActionDistribution::build("policy", &space())?;
    Ok(vec![settings.apply(ctx, &policy, outputs, &batch)?.loss])
}

/// By finite differences, through means, deviations and values.
#[test]
fn its_gradient_in_the_loss_of_ppo_is_right() {
    let spaces = [rows(2 * W), rows(1)];
    let checked = check("ppo_loss", &Params::new(), &spaces, 7, ppo).unwrap();
    assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
}

/// The network's row: means that depend on the state, deviations that all states share.
#[test]
fn a_network_says_means_and_shared_deviations() {
    let observation = Space::boxed(&[4], -1.0, 1.0).unwrap();
    let mut params = Params::new();
    let (shape, initialiser) = (ActorCriticShape::default(), Initialiser::default());
    let spaces = EnvironmentSpaces {
        observation: &observation,
        action: &space(),
    };
    let network = ActorCritic::build(&mut params, "policy", spaces, &shape, initialiser).unwrap();
    assert_eq!(network.n_actions(), 2 * W);
    let id = params
        .ids()
        .find(|&id| params.name(id) == "policy/log_deviations");
    assert_eq!(params.values_of(id.unwrap()), [0.0; W]);
    let out = run(&params, &[(4, &normals(8, 3))], |ctx, x| {
        Ok(vec![network.apply(ctx, x[0])?.logits])
    });
    let (first, second) = out[0].split_at(2 * W);
    assert_ne!(first[..W], second[..W]);
    assert_eq!((&first[W..], &second[W..]), (&[0.0; W][..], &[0.0; W][..]));
}

#[test]
fn draws_have_the_mean_and_the_deviation() {
    let box_space = Space::boxed(&[1], -4.0, 0.0).unwrap();
    let policy = GaussianPolicy::build("policy", &box_space).unwrap();
    let n = 20_000;
    let parameters = [0.25f32, -1.0].repeat(n);
    let (mut drawn, mut actions) = (Vec::new(), Vec::new());
    let mut stream = KeyedRng::new(3, "draws", 0);
    policy
        .sample_into(&parameters, &mut stream, &mut drawn)
        .unwrap();
    let mean = drawn.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
    let square = drawn
        .iter()
        .map(|&x| (f64::from(x) - mean).powi(2))
        .sum::<f64>()
        / n as f64;
    assert!((mean - 0.25).abs() < 0.01, "{mean}");
    assert!((square.sqrt() - (-1.0f64).exp()).abs() < 0.01, "{square}");
    policy.actions_into(&drawn, &mut actions);
    for (&x, &action) in drawn.iter().zip(&actions) {
        assert_eq!(action, (-2.0 + 2.0 * x).clamp(-4.0, 0.0));
    }
    let mut means = Vec::new();
    policy.means_into(&parameters, &mut means);
    assert_eq!(means, vec![0.25; n]);
}

#[test]
fn what_cannot_be_is_named() {
    let discrete = Space::discrete(2).unwrap();
    let message = GaussianPolicy::build("policy", &discrete)
        .unwrap_err()
        .to_string();
    assert!(message.contains("a box"), "{message}");
    let policy = GaussianPolicy::build("policy", &space()).unwrap();
    let mut stream = KeyedRng::new(3, "draws", 0);
    for (wrong, part) in [(vec![0.0; 5], "rows of 6"), (vec![f32::NAN; 6], "NaN")] {
        let error = policy.sample_into(&wrong, &mut stream, &mut Vec::new());
        let message = error.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
