//! Soft actor-critic's parts: squashed draws and losses against their formulas in f64, gradients by
//! differences, and which weights each loss trains.

use proptest::prelude::*;
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Ctx, Eager, ParamId, Params, Shape, Var, gradient};
use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;

use super::{assert_close, normals, rows, run};
use crate::{
    EnvironmentSpaces, Error, Initialiser, SacBatch, SacLoss, SacNetworks, SacOutput, SacPolicy,
    SquashedGaussian, Temperature, TwinCritic, check, naive,
};

/// Columns of an observation, elements of a box, and discrete actions.
const N_INPUTS: usize = 3;
const W: usize = 2;
const N_ACTIONS: usize = 4;
const TARGET_ENTROPY: f32 = -1.5;

struct Parts {
    params: Params,
    policy: SacPolicy,
    temperature: Temperature,
    critics: TwinCritic,
    targets: TwinCritic,
}

fn box_space() -> Space {
    Space::boxed(&[W], -2.0, 2.0).unwrap()
}

fn parts(action: &Space) -> Parts {
    let observation = Space::boxed(&[N_INPUTS], -1.0, 1.0).unwrap();
    let spaces = EnvironmentSpaces {
        observation: &observation,
        action,
    };
    let (mut params, first) = (Params::new(), Initialiser::default());
    let policy = SacPolicy::build(&mut params, "policy", spaces, &[5], first).unwrap();
    let temperature = Temperature::build(&mut params, "temperature", 0.3, true).unwrap();
    let critics = TwinCritic::build(&mut params, "critics", spaces, &[6], first).unwrap();
    params.freeze_rest();
    let targets = TwinCritic::build(&mut params, "targets", spaces, &[6], first).unwrap();
    Parts {
        params,
        policy,
        temperature,
        critics,
        targets,
    }
}

impl Parts {
    fn networks(&self) -> SacNetworks<'_> {
        SacNetworks {
            policy: &self.policy,
            temperature: &self.temperature,
            critics: &self.critics,
            targets: &self.targets,
        }
    }

    /// Of observations, actions, rewards, discounts, next observations and, for a box, both noises.
    fn losses(&self, ctx: &mut dyn Ctx, x: &[Var]) -> Result<SacOutput, Error> {
        let batch = SacBatch {
            observations: x[0],
            actions: x[1],
            rewards: x[2],
            discounts: x[3],
            next_observations: x[4],
            noise: x.get(5).copied(),
            next_noise: x.get(6).copied(),
        };
        let loss = SacLoss {
            target_entropy: TARGET_ENTROPY,
        };
        loss.of_networks(ctx, &self.networks(), &batch)
    }

    fn ids_of(&self, scope: &str) -> Vec<ParamId> {
        let ids = self.params.trained_ids();
        ids.filter(|&id| self.params.name(id).starts_with(scope))
            .collect()
    }

    /// The rows of two layers with relu between, in f64.
    fn mlp(&self, scope: &str, x: &[f64]) -> Vec<f64> {
        let values = |name: &str| {
            let name = format!("{scope}/{name}");
            let id = self.params.ids().find(|&id| self.params.name(id) == name);
            let values = self.params.values_of(id.unwrap()).iter();
            values.map(|&x| f64::from(x)).collect::<Vec<f64>>()
        };
        let layer = |x: &[f64], layer: usize| {
            let (w, b) = (values(&format!("{layer}/w")), values(&format!("{layer}/b")));
            let column = |j: usize| {
                let products = x.iter().enumerate().map(|(i, x)| x * w[i * b.len() + j]);
                b[j] + products.sum::<f64>()
            };
            (0..b.len()).map(column).collect::<Vec<f64>>()
        };
        let hidden: Vec<f64> = layer(x, 0).iter().map(|x| x.max(0.0)).collect();
        layer(&hidden, 1)
    }
}

/// Numbers of a batch, in the order of [`Parts::losses`].
struct Case {
    n: usize,
    lists: Vec<(usize, Vec<f32>)>,
}

fn case(n: usize, seed: u64, is_box: bool) -> Case {
    let list = |width: usize, seed: u64| (width, normals(width * n, seed));
    let actions: Vec<f32> = match is_box {
        true => normals(W * n, seed ^ 1).iter().map(|x| x.tanh()).collect(),
        false => (0..N_ACTIONS * n)
            .map(|i| f32::from(u8::from(i % N_ACTIONS == (i / N_ACTIONS) % 3)))
            .collect(),
    };
    let width = if is_box { W } else { N_ACTIONS };
    let discounts = (0..n).map(|i| if i % 3 == 1 { 0.0 } else { 0.9 });
    let mut lists = vec![
        list(N_INPUTS, seed),
        (width, actions),
        list(1, seed ^ 2),
        (1, discounts.collect()),
        list(N_INPUTS, seed ^ 3),
    ];
    if is_box {
        lists.extend([list(W, seed ^ 4), list(W, seed ^ 5)]);
    }
    Case { n, lists }
}

impl Case {
    fn inputs(&self) -> Vec<(usize, &[f32])> {
        let lists = self.lists.iter();
        lists.map(|(width, list)| (*width, &list[..])).collect()
    }

    fn vars(&self, ctx: &mut dyn Ctx) -> Vec<Var> {
        let var = |(width, values): (usize, &[f32])| {
            let shape = Shape::new(values.len() / width, width);
            ctx.input(shape, values).unwrap()
        };
        self.inputs().into_iter().map(var).collect()
    }

    fn row(&self, list: usize, i: usize) -> Vec<f64> {
        let (width, list) = &self.lists[list];
        let row = list[i * width..(i + 1) * width].iter();
        row.map(|&x| f64::from(x)).collect()
    }

    /// The policy's log-probability and the soft value at one observation, by the formulas; the mean
    /// of both over the actions of a discrete policy.
    fn soft_value(
        &self,
        parts: &Parts,
        critics: &str,
        lists: (usize, usize),
        i: usize,
    ) -> [f64; 2] {
        let (observation, temperature) = (self.row(lists.0, i), f64::from(0.3f32));
        let policy = parts.mlp("policy", &observation);
        let smaller = |input: &[f64], k: usize| {
            let values = ["0", "1"].map(|c| parts.mlp(&format!("{critics}/{c}"), input)[k]);
            values[0].min(values[1])
        };
        if self.lists.len() == 5 {
            let probabilities = naive::softmax(&policy);
            let logs = probabilities.iter().map(|p| p * p.ln()).sum::<f64>();
            let each = probabilities.iter().enumerate();
            let value = each.map(|(k, p)| p * (smaller(&observation, k) - temperature * p.ln()));
            return [logs, value.sum()];
        }
        let (mut log_density, mut actions) = (0.0, Vec::new());
        for (k, noise) in self.row(lists.1, i).into_iter().enumerate() {
            let log = policy[W + k].clamp(-20.0, 2.0);
            let action = (policy[k] + log.exp() * noise).tanh();
            log_density += -0.5 * noise * noise - log - 0.5 * std::f64::consts::TAU.ln();
            log_density -= (1.0 - action * action + 1e-6).ln();
            actions.push(action);
        }
        let value = smaller(&[observation, actions].concat(), 0) - temperature * log_density;
        [log_density, value]
    }

    /// Of critics, policy and all, and the entropy.
    fn expected(&self, parts: &Parts) -> [f64; 4] {
        let (mut critic, mut policy, mut logs) = (0.0, 0.0, 0.0);
        for i in 0..self.n {
            let [_, next] = self.soft_value(parts, "targets", (4, 6), i);
            let target = self.row(2, i)[0] + self.row(3, i)[0] * next;
            let (observation, action) = (self.row(0, i), self.row(1, i));
            for name in ["critics/0", "critics/1"] {
                let value = match self.lists.len() {
                    5 => {
                        let values = parts.mlp(name, &observation);
                        values.iter().zip(&action).map(|(q, a)| q * a).sum()
                    }
                    _ => parts.mlp(name, &[&observation[..], &action].concat())[0],
                };
                critic += 0.5 * (value - target).powi(2);
            }
            let [log, value] = self.soft_value(parts, "critics", (0, 5), i);
            (policy, logs) = (policy - value, logs + log);
        }
        let n = self.n as f64;
        let [critic, policy, logs] = [critic, policy, logs].map(|sum| sum / n);
        let log_temperature = f64::from(0.3f32).ln();
        let of_temperature = -log_temperature * (logs + f64::from(TARGET_ENTROPY));
        [critic, policy, critic + policy + of_temperature, -logs]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_losses_are_their_formulas(
        n in prop_oneof![Just(1usize), Just(32), Just(33)], seed in any::<u64>(), is_box in any::<bool>()
    ) {
        let action = if is_box { box_space() } else { Space::discrete(N_ACTIONS as u32).unwrap() };
        let (parts, case) = (parts(&action), case(n, seed, is_box));
        let out = run(&parts.params, &case.inputs(), |ctx, x| {
            let out = parts.losses(ctx, x)?;
            Ok(vec![out.critic, out.policy, out.loss, out.entropy])
        });
        let given: Vec<f32> = out.concat();
        // An action near its bound leaves few digits of the density's logarithm in 32 bits.
        assert_close(&given, &case.expected(&parts), 2e-3);
    }
}

/// By finite differences, through weights, actions, noise and observations.
#[test]
fn the_gradient_is_right() {
    let parts = parts(&box_space());
    let widths = [N_INPUTS, W, 1, 1, N_INPUTS, W, W];
    let spaces: Vec<_> = widths.map(rows).into();
    let checked = check("sac_loss", &parts.params, &spaces, 7, |ctx, x| {
        Ok(vec![parts.losses(ctx, x)?.loss])
    })
    .unwrap();
    assert!(checked.n_derivatives > 3 * checked.n_unclear, "{checked:?}");
}

#[test]
fn the_gradient_is_right_for_discrete_actions() {
    let parts = parts(&Space::discrete(N_ACTIONS as u32).unwrap());
    let spaces: Vec<_> = [N_INPUTS, N_ACTIONS, 1, 1, N_INPUTS].map(rows).into();
    let checked = check("sac_loss", &parts.params, &spaces, 7, |ctx, x| {
        Ok(vec![parts.losses(ctx, x)?.loss])
    })
    .unwrap();
    assert!(checked.n_derivatives > 3 * checked.n_unclear, "{checked:?}");
}

/// The critics' loss moves the critics alone, the policy's loss the policy alone.
#[test]
fn each_loss_trains_its_own_weights() {
    for is_box in [true, false] {
        let action = match is_box {
            true => box_space(),
            false => Space::discrete(N_ACTIONS as u32).unwrap(),
        };
        let (parts, case) = (parts(&action), case(8, 3, is_box));
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, &parts.params);
        let inputs = case.vars(&mut ctx);
        let out = parts.losses(&mut ctx, &inputs).unwrap();
        for (loss, trained, others) in [
            (out.critic, "critics", ["policy", "temperature"]),
            (out.policy, "policy", ["critics", "temperature"]),
        ] {
            let mut derivatives = |scope: &str| {
                let ids = parts.ids_of(scope).into_iter();
                let vars: Vec<Var> = ids.map(|id| ctx.param(id).unwrap()).collect();
                gradient(&mut ctx, loss, &vars).unwrap()
            };
            assert!(
                derivatives(trained).iter().all(Option::is_some),
                "{trained}"
            );
            for other in others {
                assert!(derivatives(other).iter().all(Option::is_none), "{other}");
            }
        }
    }
}

/// The derivatives of the sum of all losses by a part's weights are those of the part's own loss: no loss
/// leaks into another's weights.
#[test]
fn the_sum_trains_each_part_by_its_own_loss() {
    for is_box in [true, false] {
        let action = match is_box {
            true => box_space(),
            false => Space::discrete(N_ACTIONS as u32).unwrap(),
        };
        let (parts, case) = (parts(&action), case(8, 3, is_box));
        let (device, mut comm) = (Device::host(), Comm::solo());
        let mut ctx = Eager::new(&device, &mut comm, &parts.params);
        let inputs = case.vars(&mut ctx);
        let out = parts.losses(&mut ctx, &inputs).unwrap();
        let mut derivatives = |loss: Var, scope: &str| {
            let ids = parts.ids_of(scope).into_iter();
            let vars: Vec<Var> = ids.map(|id| ctx.param(id).unwrap()).collect();
            let found = gradient(&mut ctx, loss, &vars).unwrap().into_iter();
            let values = found.map(|var| ctx.values(var.unwrap()).unwrap());
            values.collect::<Vec<_>>().concat()
        };
        for (own, scope) in [(out.critic, "critics"), (out.policy, "policy")] {
            let expected: Vec<f64> = derivatives(own, scope).iter().map(|&x| x.into()).collect();
            assert!(expected.iter().any(|x| x.abs() > 1e-3), "{scope}");
            assert_close(&derivatives(out.loss, scope), &expected, 1e-6);
        }
        // It falls where the policy's entropy is above the target.
        let of_temperature = derivatives(out.loss, "temperature");
        let excess = ctx.values(out.entropy).unwrap()[0] - TARGET_ENTROPY;
        assert_close(&of_temperature, &[excess.into()], 1e-6);
    }
}

/// By differences in f64 of `u a + v log pi(a)`, where nothing is a constant but the noise.
#[test]
fn a_draw_is_differentiated_through_its_noise() {
    let policy = SquashedGaussian::build("policy", &Space::boxed(&[1], 0.0, 4.0).unwrap()).unwrap();
    let value = |mean: f64, log: f64, noise: f64, [u, v]: [f64; 2]| {
        let action = (mean + log.exp() * noise).tanh();
        let normal = -0.5 * noise * noise - log - 0.5 * std::f64::consts::TAU.ln();
        u * action + v * (normal - (1.0 - action * action + 1e-6).ln())
    };
    for (mean, log, noise) in [
        (0.3f32, -0.5f32, 0.7f32),
        (-0.6, 0.1, -0.4),
        (0.0, -1.0, 2.0),
    ] {
        for factors in [[1.0, 0.0], [0.0, 1.0], [0.5, -2.0]] {
            let at = |mean: f64, log: f64| value(mean, log, noise.into(), factors);
            let (m, l, h) = (f64::from(mean), f64::from(log), 1e-5);
            let by_mean = (at(m + h, l) - at(m - h, l)) / (2.0 * h);
            let by_log = (at(m, l + h) - at(m, l - h)) / (2.0 * h);
            let given = run(
                &Params::new(),
                &[(2, &[mean, log]), (1, &[noise])],
                |ctx, x| {
                    let draw = policy.draw(ctx, x[0], x[1])?;
                    let of_action = ctx.scale(draw.actions, factors[0] as f32)?;
                    let of_density = ctx.scale(draw.log_density, factors[1] as f32)?;
                    let sum = ctx.add(of_action, of_density)?;
                    let found = gradient(ctx, sum, &x[..1])?;
                    Ok(found.into_iter().flatten().collect())
                },
            );
            assert_close(&given[0], &[by_mean, by_log], 1e-4);
        }
    }
}

/// The density of squashed elements has the integral 1 over the box.
#[test]
fn the_density_is_one_in_all() {
    let policy = SquashedGaussian::build("policy", &Space::boxed(&[1], 0.0, 4.0).unwrap()).unwrap();
    for (mean, log) in [(0.0f32, 0.0f32), (0.8, -1.0), (-1.0, 0.5)] {
        let n = 4001;
        let noise: Vec<f32> = (0..n)
            .map(|i| -6.0 + 12.0 * i as f32 / (n - 1) as f32)
            .collect();
        let parameters = [mean, log].repeat(n);
        let out = run(
            &Params::new(),
            &[(2, &parameters), (1, &noise)],
            |ctx, x| {
                let draw = policy.draw(ctx, x[0], x[1])?;
                Ok(vec![draw.actions, draw.log_density])
            },
        );
        let density = |i: usize| f64::from(out[1][i]).exp();
        let width = |i: usize| f64::from(out[0][i + 1] - out[0][i]);
        let integral: f64 = (0..n - 1)
            .map(|i| 0.5 * (density(i) + density(i + 1)) * width(i))
            .sum();
        assert!((integral - 1.0).abs() < 2e-3, "{mean} {log}: {integral}");
    }
}

#[test]
fn draws_lie_in_the_box() {
    let policy = SquashedGaussian::build("policy", &Space::boxed(&[1], 0.0, 4.0).unwrap()).unwrap();
    let (mut drawn, mut actions, mut back) = (Vec::new(), Vec::new(), Vec::new());
    // The logarithm of the second deviation counts as 2.
    let parameters = [[0.5f32, -40.0], [0.0, 99.0]].concat();
    let mut stream = KeyedRng::new(3, "draws", 0);
    policy
        .sample_into(&parameters, &mut stream, &mut drawn)
        .unwrap();
    assert!((drawn[0] - 0.5f32.tanh()).abs() < 1e-6);
    let noise = {
        let mut stream = KeyedRng::new(3, "draws", 0);
        stream.normal();
        stream.normal()
    };
    assert!((f64::from(drawn[1]) - (2.0f64.exp() * noise).tanh()).abs() < 1e-6);
    policy.actions_into(&drawn, &mut actions);
    assert!(actions.iter().all(|x| (0.0..=4.0).contains(x)));
    policy.drawn_into(&actions, &mut back);
    for (given, expected) in back.iter().zip(&drawn) {
        assert!((given - expected).abs() < 1e-6);
    }
    let mut means = Vec::new();
    policy.means_into(&parameters, &mut means);
    assert_eq!(means, [libm::tanh(0.5) as f32, 0.0]);
    // So it does in the loss.
    let draw = |log: f32| {
        run(
            &Params::new(),
            &[(2, &[0.1, log]), (1, &[0.05])],
            |ctx, x| {
                let draw = policy.draw(ctx, x[0], x[1])?;
                Ok(vec![draw.actions, draw.log_density])
            },
        )
    };
    assert_eq!((draw(99.0), draw(-40.0)), (draw(2.0), draw(-20.0)));
}

#[test]
fn what_cannot_be_is_named() {
    let without_bounds = Space::boxed(&[1], f32::NEG_INFINITY, 1.0).unwrap();
    let error = SquashedGaussian::build("policy", &without_bounds).unwrap_err();
    assert!(
        error.to_string().contains("a box with finite bounds"),
        "{error}"
    );
    let mut params = Params::new();
    let error = Temperature::build(&mut params, "temperature", 0.0, true).unwrap_err();
    assert!(
        error.to_string().contains("the first temperature"),
        "{error}"
    );
    let observation = Space::boxed(&[N_INPUTS], -1.0, 1.0).unwrap();
    let pair = Space::tuple(vec![
        Space::discrete(2).unwrap(),
        Space::discrete(2).unwrap(),
    ]);
    let spaces = EnvironmentSpaces {
        observation: &observation,
        action: &pair.unwrap(),
    };
    let built = SacPolicy::build(&mut params, "policy", spaces, &[4], Initialiser::default());
    assert!(built.unwrap_err().to_string().contains("a discrete one"));
    let parts = parts(&box_space());
    let given = run(&parts.params, &[(N_INPUTS, &[0.0; N_INPUTS])], |ctx, x| {
        let error = parts.critics.values(ctx, x[0], None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the actions: expected 2 columns, given none")
        );
        let error = parts.policy.draw(ctx, x[0], None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the noise: expected 2 columns, given none")
        );
        Ok(Vec::new())
    });
    assert!(given.is_empty());
}

/// A fixed temperature has no parameter and no loss.
#[test]
fn a_temperature_can_be_fixed() {
    let mut params = Params::new();
    let fixed = Temperature::build(&mut params, "temperature", 0.2, false).unwrap();
    assert_eq!((params.flat().len(), fixed.of_params(&params)), (0, 0.2));
    run(&params, &[(1, &[1.0])], |ctx, x| {
        assert!(fixed.loss(ctx, x[0], -1.0)?.is_none());
        Ok(vec![fixed.value(ctx)?])
    });
}
