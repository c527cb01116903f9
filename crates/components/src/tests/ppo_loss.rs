//! The loss of PPO against its formula in f64, its gradient through the check, and its masks.

use proptest::prelude::*;
use shardgraph_autodiff::{Ctx, Params, Var};
use shardgraph_environments::space::Space;

use super::{assert_close, normals, rows, run};
use crate::{ActionDistribution, Error, PolicyAndValue, PpoBatch, PpoLoss, check, naive};

/// An action of two parts, with 3 and 2 choices.
fn policy() -> Result<ActionDistribution, Error> {
    let parts = vec![Space::discrete(3)?, Space::discrete(2)?];
    ActionDistribution::build("policy", &Space::tuple(parts)?)
}

fn ppo(settings: PpoLoss, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let outputs = PolicyAndValue {
        logits: x[0],
        values: x[1],
    };
    let batch = PpoBatch {
        actions: x[2],
        behaviour: x[3],
        advantages: x[4],
        returns: x[5],
        old_values: x[6],
        mask: x.get(7).copied(),
    };
    let out = settings.apply(ctx, &policy()?, outputs, &batch)?;
    Ok(vec![out.loss, out.policy, out.value, out.entropy, out.kl])
}

struct Case {
    logits: Vec<f32>,
    values: Vec<f32>,
    choices: Vec<[usize; 2]>,
    taken: Vec<f32>,
    behaviour: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    old_values: Vec<f32>,
    mask: Vec<f32>,
}

/// The first choice of each part is taken, or the last; the middle one of the first part may be forbidden.
fn case(n: usize, seed: u64, has_mask: bool) -> Case {
    let choices: Vec<[usize; 2]> = (0..n).map(|i| [2 * (i % 2), (i / 2) % 2]).collect();
    let taken = choices.iter().flat_map(|&[a, b]| {
        let first = (0..3).map(move |i| f32::from(u8::from(i == a)));
        first.chain((0..2).map(move |i| f32::from(u8::from(i == b))))
    });
    let forbidden = |i: usize| if has_mask && i % 5 == 1 { -1e9 } else { 0.0 };
    Case {
        logits: normals(5 * n, seed),
        values: normals(n, seed ^ 1),
        taken: taken.collect(),
        choices,
        behaviour: normals(n, seed ^ 2)
            .iter()
            .map(|x| -1.5 + 0.3 * x)
            .collect(),
        advantages: normals(n, seed ^ 3),
        returns: normals(n, seed ^ 4),
        old_values: normals(n, seed ^ 5),
        mask: (0..5 * n).map(forbidden).collect(),
    }
}

impl Case {
    fn inputs(&self, has_mask: bool) -> Vec<(usize, &[f32])> {
        let mut inputs: Vec<(usize, &[f32])> = vec![
            (5, &self.logits),
            (1, &self.values),
            (5, &self.taken),
            (1, &self.behaviour),
            (1, &self.advantages),
            (1, &self.returns),
            (1, &self.old_values),
        ];
        if has_mask {
            inputs.push((5, &self.mask));
        }
        inputs
    }

    /// Policy, value, entropy and divergence, by the formulas.
    fn expected(&self, settings: PpoLoss) -> [f64; 4] {
        let n = self.values.len();
        let clip = f64::from(settings.clip);
        let mut sums = [0.0; 4];
        for i in 0..n {
            let row = &self.logits[5 * i..5 * i + 5];
            let row: Vec<f64> = row
                .iter()
                .zip(&self.mask[5 * i..])
                .map(|(&x, &mask)| f64::from(x) + f64::from(mask))
                .collect();
            let (first, second) = (naive::softmax(&row[..3]), naive::softmax(&row[3..]));
            let [a, b] = self.choices[i];
            let log_ratio = (first[a] * second[b]).ln() - f64::from(self.behaviour[i]);
            let (ratio, advantage) = (log_ratio.exp(), f64::from(self.advantages[i]));
            let clipped = ratio.clamp(1.0 - clip, 1.0 + clip) * advantage;
            sums[0] -= (ratio * advantage).min(clipped);
            let [value, target, old] = [self.values[i], self.returns[i], self.old_values[i]];
            let [value, target, old] = [value, target, old].map(f64::from);
            let mut square = (value - target).powi(2);
            if let Some(clip) = settings.value_clip.map(f64::from) {
                let moved = old + (value - old).clamp(-clip, clip);
                square = square.max((moved - target).powi(2));
            }
            sums[1] += 0.5 * square;
            let entropy = |p: &[f64]| -> f64 {
                let terms = p.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln());
                terms.sum()
            };
            sums[2] += entropy(&first) + entropy(&second);
            sums[3] += ratio - 1.0 - log_ratio;
        }
        sums.map(|sum| sum / n as f64)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn it_is_its_formula(
        n in prop_oneof![Just(1usize), Just(32), Just(33)],
        value_clip in prop_oneof![Just(None), Just(Some(0.2f32))],
        has_mask in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let settings = PpoLoss { value_clip, ..PpoLoss::default() };
        let case = case(n, seed, has_mask);
        let out = run(&Params::new(), &case.inputs(has_mask), |ctx, x| ppo(settings, ctx, x));
        let [policy, value, entropy, kl] = case.expected(settings);
        assert_close(&out[0], &[policy + 0.5 * value - 0.01 * entropy], 1e-4);
        for (out, expected) in out[1..].iter().zip([policy, value, entropy, kl]) {
            assert_close(out, &[expected], 1e-4);
        }
    }
}

/// By finite differences; the behaviour, the advantages and the targets are constants of a run.
#[test]
fn its_gradient_is_right() {
    for (value_clip, has_mask) in [(None, false), (Some(0.3), true)] {
        let settings = PpoLoss {
            value_clip,
            entropy_coefficient: 0.1,
            ..PpoLoss::default()
        };
        let spaces = [rows(5), rows(1)];
        let checked = check("ppo_loss", &Params::new(), &spaces, 7, |ctx, x| {
            let case = case(ctx.shape(x[0]).rows, 3, has_mask);
            let inputs = case.inputs(has_mask);
            let mut all = vec![x[0], x[1]];
            for (width, values) in &inputs[2..] {
                let shape = shardgraph_autodiff::Shape::new(values.len() / width, *width);
                all.push(ctx.input(shape, values)?);
            }
            Ok(vec![ppo(settings, ctx, &all)?[0]])
        });
        let checked = checked.unwrap();
        assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
    }
}

#[test]
fn settings_that_cannot_be_right_are_named() {
    let wrong = [
        (
            PpoLoss {
                clip: 0.0,
                ..PpoLoss::default()
            },
            "clip",
        ),
        (
            PpoLoss {
                value_clip: Some(-1.0),
                ..PpoLoss::default()
            },
            "value_clip",
        ),
        (
            PpoLoss {
                entropy_coefficient: f32::NAN,
                ..PpoLoss::default()
            },
            "entropy_coefficient",
        ),
    ];
    for (settings, name) in wrong {
        let message = settings.check().unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
}
