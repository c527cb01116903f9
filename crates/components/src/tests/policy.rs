//! Drawing actions: the right frequencies, nothing of probability 0, bad logits.

use shardgraph_autodiff::Params;
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use super::{assert_close, normals, rows, run};
use crate::{SoftmaxPolicy, check, naive};

fn policy(n_actions: u32) -> SoftmaxPolicy {
    SoftmaxPolicy::build("policy", &Space::discrete(n_actions).unwrap()).unwrap()
}

#[test]
fn actions_come_as_often_as_their_probabilities_say() {
    let (n, logits) = (20_000, [0.3f32, -1.0, 1.5, -1e9]);
    let probabilities = naive::softmax(&logits.map(f64::from));
    let (mut actions, mut stream) = (Vec::new(), KeyedRng::new(3, "act", 0));
    policy(4)
        .sample_into(&logits.repeat(n), &mut stream, &mut actions)
        .unwrap();
    assert_eq!(actions.len(), n);
    let mut chi_square = 0.0;
    for (action, p) in probabilities.iter().enumerate().take(3) {
        let count = actions.iter().filter(|&&a| a as usize == action).count() as f64;
        let expected = p * n as f64;
        chi_square += (count - expected).powi(2) / expected;
    }
    assert!(chi_square < 13.8, "{chi_square}"); // 2 degrees of freedom: 1 in 1000
    assert!(!actions.contains(&3));
}

#[test]
fn equal_streams_give_equal_actions() {
    let logits = normals(300, 1);
    let draw = || {
        let mut actions = vec![7];
        let mut stream = KeyedRng::new(3, "act", 5);
        policy(3)
            .sample_into(&logits, &mut stream, &mut actions)
            .unwrap();
        actions
    };
    assert_eq!(draw(), draw());
    assert_eq!(draw()[0], 7); // behind what was there
}

#[test]
fn bad_logits_are_refused_by_row() {
    for bad in [f32::NAN, f32::INFINITY] {
        let logits = [0.0, 1.0, 0.0, bad];
        let error =
            policy(2).sample_into(&logits, &mut KeyedRng::new(1, "act", 0), &mut Vec::new());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("`policy`, SoftmaxPolicy::sample_into: row 1: expected"),
            "{error}"
        );
    }
    let mut stream = KeyedRng::new(1, "act", 0);
    let nothing = [f32::NEG_INFINITY; 2];
    assert!(
        policy(2)
            .sample_into(&nothing, &mut stream, &mut Vec::new())
            .is_err()
    );
    assert!(
        policy(2)
            .sample_into(&[0.0; 3], &mut stream, &mut Vec::new())
            .is_err()
    );
    assert!(SoftmaxPolicy::build("policy", &Space::boxed(&[2], 0.0, 1.0).unwrap()).is_err());
}

#[test]
fn log_probabilities_and_entropy_are_their_formulas() {
    let logits = normals(12, 9);
    let of = policy(4);
    let out = run(&Params::new(), &[(4, &logits)], |ctx, x| {
        let log = of.log_probabilities(ctx, x[0])?;
        Ok(vec![log, of.entropy(ctx, log)?])
    });
    let rows = logits.chunks(4).map(|row| {
        let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        naive::softmax(&row)
    });
    let probabilities: Vec<Vec<f64>> = rows.collect();
    let logs: Vec<f64> = probabilities.iter().flatten().map(|p| p.ln()).collect();
    let entropies: Vec<f64> = probabilities.iter().map(|p| naive::entropy(p)).collect();
    assert_close(&out[0], &logs, 1e-5);
    assert_close(&out[1], &entropies, 1e-5);
}

#[test]
fn the_policy_passes_the_check() {
    let of = policy(3);
    let checked = check("policy", &Params::new(), &[rows(3)], 8, |ctx, x| {
        let log = of.log_probabilities(ctx, x[0])?;
        Ok(vec![log, of.entropy(ctx, log)?])
    });
    assert_eq!(checked.unwrap().n_unclear, 0);
}
