//! The losses against their formulas in f64, and through the check.

use proptest::prelude::*;
use shardgraph_autodiff::collectives::Comm;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::{Ctx, Eager, Params, Shape, Var, gradient};
use shardgraph_environments::space::Space;

use super::{assert_close, between, choices, normals, rows, rows_over_time, run, steps_of};
use crate::naive::{self, Transition, td_error};
use crate::{
    DqnBatch, DqnLoss, EnvironmentSpaces, Error, ImpalaBatch, ImpalaLoss, Initialiser,
    PolicyAndValue, QNetwork, QNetworkShape, Reduction, Reinforce, SoftmaxPolicy, TdLoss, VTrace,
    check,
};

fn one_hot(actions: &[usize], n: usize) -> Vec<f32> {
    let row = |&action: &usize| (0..n).map(move |i| f32::from(u8::from(i == action)));
    actions.iter().flat_map(row).collect()
}

/// The probabilities of each row of three actions.
fn probabilities_of_three(logits: &[f32]) -> Vec<Vec<f64>> {
    let rows = logits.chunks(3);
    rows.map(|row| naive::softmax(&f64s(row))).collect()
}

fn f64s(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Loss, TD errors and predictions of matrices of action values.
fn dqn(loss: DqnLoss, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let batch = DqnBatch {
        observations: x[0],
        next_observations: x[0],
        actions: x[3],
        rewards: x[4],
        discounts: x[5],
        weights: x.get(6).copied(),
        next_mask: None,
    };
    let chooser = if loss.double { x[2] } else { x[1] };
    let targets = loss.targets(ctx, x[1], chooser, &batch)?;
    let out = loss.of_values(ctx, x[0], targets, &batch)?;
    Ok(vec![out.loss, out.td_errors, out.predictions])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_dqn_loss_is_its_formula(
        n in prop_oneof![Just(1usize), 31usize..34, Just(128)],
        n_actions in prop_oneof![Just(1usize), 2usize..5, Just(33)],
        (double, is_weighted) in any::<(bool, bool)>(),
        td_loss in prop_oneof![Just(TdLoss::Mse), (0.2f32..2.0).prop_map(|delta| TdLoss::Huber { delta })],
        seed in any::<u64>(),
    ) {
        let [q, next_target, next_online] = [0, 1, 2].map(|i| normals(n * n_actions, seed ^ i));
        let actions: Vec<usize> = (0..n).map(|i| (i * 7 + seed as usize % 5) % n_actions).collect();
        let taken = one_hot(&actions, n_actions);
        let (rewards, weights) = (normals(n, seed ^ 3), normals(n, seed ^ 4));
        let discounts: Vec<f32> = (0..n).map(|i| [0.97, 0.0, 0.9][i % 3]).collect();
        let mut inputs = vec![(n_actions, &q[..]), (n_actions, &next_target), (n_actions, &next_online),
            (n_actions, &taken), (1, &rewards), (1, &discounts)];
        if is_weighted {
            inputs.push((1, &weights));
        }
        let loss = DqnLoss { td_loss, double };
        let out = run(&Params::new(), &inputs, |ctx, x| dqn(loss, ctx, x));
        let row = |x: &[f32], i: usize| f64s(&x[i * n_actions..(i + 1) * n_actions]);
        let errors: Vec<f64> = (0..n).map(|i| td_error(&Transition {
            q: row(&q, i),
            action: actions[i],
            reward: f64::from(rewards[i]),
            discount: f64::from(discounts[i]),
            next_target: row(&next_target, i),
            next_online: row(&next_online, i),
        }, double)).collect();
        let cost = |e: f64| match td_loss {
            TdLoss::Mse => e * e,
            TdLoss::Huber { delta } => naive::huber(e, f64::from(delta)),
        };
        let weight = |i: usize| if is_weighted { f64::from(weights[i]) } else { 1.0 };
        let mean = (0..n).map(|i| weight(i) * cost(errors[i])).sum::<f64>() / n as f64;
        assert_close(&out[0], &[mean], 1e-4);
        assert_close(&out[1], &errors, 1e-5);
        let predictions: Vec<f64> = (0..n).map(|i| f64::from(q[i * n_actions + actions[i]])).collect();
        assert_close(&out[2], &predictions, 0.0);
    }
}

/// Two transitions by hand: the online network prefers action 1 next, the target network action 0.
#[test]
fn double_chooses_by_the_online_network() {
    let columns: [(usize, &[f32]); 6] = [
        (2, &[1.0, 2.0, 3.0, 4.0]),
        (2, &[10.0, 6.0, 10.0, 6.0]),
        (2, &[0.0, 1.0, 0.0, 1.0]),
        (2, &[0.0, 1.0, 1.0, 0.0]),
        (1, &[1.0, 1.0]),
        (1, &[0.5, 0.0]), // the second one terminated
    ];
    let td_errors = |double| {
        let td_loss = TdLoss::Mse;
        let loss = DqnLoss { td_loss, double };
        let out = run(&Params::new(), &columns, |ctx, x| dqn(loss, ctx, x));
        (out[1].clone(), out[0][0])
    };
    assert_eq!(td_errors(false), (vec![-4.0, 2.0], 10.0)); // 2 - (1 + 10 / 2), 3 - 1
    assert_eq!(td_errors(true), (vec![-2.0, 2.0], 4.0)); // 2 - (1 + 6 / 2), 3 - 1
}

#[test]
fn the_dqn_losses_pass_the_check() {
    let spaces = [
        rows(3),
        rows(3),
        rows(3),
        choices(3),
        rows(1),
        between(0.0, 0.99),
        between(0.1, 1.0),
    ];
    for double in [false, true] {
        for td_loss in [TdLoss::Mse, TdLoss::Huber { delta: 1.0 }] {
            for spaces in [&spaces[..], &spaces[..6]] {
                let loss = DqnLoss { td_loss, double };
                let checked = check("dqn_loss", &Params::new(), spaces, 3, |ctx, x| {
                    dqn(loss, ctx, x)
                });
                let checked = checked.unwrap();
                assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
            }
        }
    }
}

/// Observations, next observations, actions, rewards and discounts as a batch.
fn unweighted(x: &[Var]) -> DqnBatch {
    DqnBatch {
        observations: x[0],
        next_observations: x[1],
        actions: x[2],
        rewards: x[3],
        discounts: x[4],
        weights: None,
        next_mask: None,
    }
}

#[test]
fn a_whole_update_passes_the_check_and_leaves_the_target_alone() {
    let spaces = (
        Space::boxed(&[3], -1.0, 1.0).unwrap(),
        Space::discrete(2).unwrap(),
    );
    let shape = QNetworkShape {
        hidden: vec![5],
        dueling: Some(vec![4]),
    };
    let mut params = Params::new();
    let build = |params: &mut Params, scope: &str| {
        let start = Initialiser::default();
        QNetwork::build(
            params,
            scope,
            EnvironmentSpaces::new(&spaces.0, &spaces.1),
            &shape,
            start,
        )
        .unwrap()
    };
    let online = build(&mut params, "online");
    params.freeze_rest();
    let target = build(&mut params, "target");
    assert_eq!(2 * params.trained_len(), params.flat().len());
    let inputs = [rows(3), choices(2), rows(1), between(0.0, 0.99), rows(3)];
    let loss = DqnLoss {
        td_loss: TdLoss::Huber { delta: 1.0 },
        double: true,
    };
    let checked = check("dqn", &params, &inputs, 4, |ctx, x| {
        let batch = DqnBatch {
            observations: x[0],
            actions: x[1],
            rewards: x[2],
            discounts: x[3],
            next_observations: x[4],
            weights: None,
            next_mask: None,
        };
        let out = loss.of_networks(ctx, &online, &target, &batch)?;
        Ok(vec![out.loss, out.td_errors])
    });
    let checked = checked.unwrap();
    assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
}

#[test]
fn double_asks_the_online_network_for_the_choice_alone() {
    let (action, shape) = (Space::discrete(5).unwrap(), QNetworkShape::default());
    let spaces = EnvironmentSpaces {
        observation: &Space::boxed(&[3], -1.0, 1.0).unwrap(),
        action: &action,
    };
    let (mut params, start) = (Params::new(), Initialiser::default());
    let online = QNetwork::build(&mut params, "online", spaces, &shape, start).unwrap();
    let target = QNetwork::build(&mut params, "target", spaces, &shape, start).unwrap();
    let (now, next, taken) = (normals(96, 1), normals(96, 2), one_hot(&[1; 32], 5));
    let (rewards, discounts) = (normals(32, 3), [0.9; 32]);
    let inputs: [(usize, &[f32]); 5] = [
        (3, &now),
        (3, &next),
        (5, &taken),
        (1, &rewards),
        (1, &discounts),
    ];
    let td_errors = |double: bool| {
        let td_loss = TdLoss::Mse;
        let loss = DqnLoss { td_loss, double };
        run(&params, &inputs, |ctx, x| {
            let batch = unweighted(x);
            let out = loss.of_networks(ctx, &online, &target, &batch)?;
            let chooser = if double { &online } else { &target };
            let (q, next) = (online.q_values(ctx, x[0])?, target.q_values(ctx, x[1])?);
            let parts = [q, next, chooser.q_values(ctx, x[1])?, x[2], x[3], x[4]];
            let by_hand = dqn(
                DqnLoss {
                    double: true,
                    ..loss
                },
                ctx,
                &parts,
            )?;
            Ok(vec![out.td_errors, by_hand[1]])
        })
    };
    let (plain, double) = (td_errors(false), td_errors(true));
    assert_eq!((&plain[0], &double[0]), (&plain[1], &double[1]));
    assert_ne!(plain[0], double[0]);
}

fn reinforce(settings: Reinforce, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let policy = SoftmaxPolicy::build("policy", &Space::discrete(3)?)?;
    let out = settings.apply(ctx, &policy, x[0], x.get(3).copied(), x[1], x[2])?;
    Ok([out.loss, out.policy, out.entropy]
        .into_iter()
        .chain(out.baseline)
        .collect())
}

#[test]
fn reinforce_is_its_formula() {
    let (logits, returns, baseline) = (normals(15, 1), normals(5, 2), normals(5, 3));
    let actions = [0, 2, 1, 1, 0];
    let taken = one_hot(&actions, 3);
    let settings = Reinforce {
        normalise: true,
        baseline_coefficient: 0.25,
        entropy_coefficient: 0.1,
    };
    let inputs: [(usize, &[f32]); 4] = [(3, &logits), (3, &taken), (1, &returns), (1, &baseline)];
    let out = run(&Params::new(), &inputs, |ctx, x| {
        reinforce(settings, ctx, x)
    });

    let probabilities = probabilities_of_three(&logits);
    let advantages: Vec<f64> = (0..5)
        .map(|i| f64::from(returns[i]) - f64::from(baseline[i]))
        .collect();
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let average = mean(&advantages);
    let squares: Vec<f64> = advantages.iter().map(|a| (a - average).powi(2)).collect();
    let deviation = (mean(&squares) + 1e-8).sqrt();
    let terms: Vec<f64> = (0..5)
        .map(|i| -probabilities[i][actions[i]].ln() * (advantages[i] - average) / deviation)
        .collect();
    let entropies: Vec<f64> = probabilities.iter().map(|p| naive::entropy(p)).collect();
    let errors: Vec<f64> = advantages.iter().map(|a| a * a).collect();
    let (policy, entropy, baseline) = (mean(&terms), mean(&entropies), mean(&errors));
    let loss = policy + 0.25 * baseline - 0.1 * entropy;
    for (given, expected) in out.iter().zip([loss, policy, entropy, baseline]) {
        assert_close(given, &[expected], 1e-5);
    }
}

/// Whatever they are and however many, nothing is left to learn from: no rounding of their mean is
/// scaled up.
#[test]
fn equal_returns_have_no_advantage() {
    let settings = Reinforce {
        normalise: true,
        entropy_coefficient: 0.0,
        ..Reinforce::default()
    };
    for n in [1, 2, 3, 7, 32, 33, 1000] {
        let (logits, taken) = (normals(3 * n, 1), one_hot(&vec![1; n], 3));
        for value in [0.1, -3.3, 1234.567, 1e7] {
            let inputs: [(usize, &[f32]); 3] = [(3, &logits), (3, &taken), (1, &vec![value; n])];
            let out = run(&Params::new(), &inputs, |ctx, x| {
                reinforce(settings, ctx, x)
            });
            assert_eq!(out[1], [0.0], "{n} returns of {value}");
        }
    }
}

#[test]
fn reinforce_passes_the_check() {
    let spaces = [rows(3), choices(3), rows(1), rows(1)];
    for normalise in [false, true] {
        for spaces in [&spaces[..], &spaces[..3]] {
            let settings = Reinforce {
                normalise,
                ..Reinforce::default()
            };
            let checked = check("reinforce", &Params::new(), spaces, 8, |ctx, x| {
                reinforce(settings, ctx, x)
            });
            let checked = checked.unwrap();
            assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
        }
    }
}

/// The derivatives of a method's first result by its inputs; zeros where it does not depend on one.
pub(super) fn derivatives(
    inputs: &[(usize, &[f32])],
    method: impl Fn(&mut dyn Ctx, &[Var]) -> Result<Vec<Var>, Error>,
) -> Vec<Vec<f32>> {
    let (params, device, mut comm) = (Params::new(), Device::host(), Comm::solo());
    let mut ctx = Eager::new(&device, &mut comm, &params);
    let input = |ctx: &mut Eager<'_>, (width, values): &(usize, &[f32])| {
        let shape = Shape::new(values.len() / width, *width);
        ctx.input(shape, values).unwrap()
    };
    let vars: Vec<Var> = inputs.iter().map(|of| input(&mut ctx, of)).collect();
    let loss = method(&mut ctx, &vars).unwrap()[0];
    let by = gradient(&mut ctx, loss, &vars).unwrap();
    let of = |(var, (_, values)): (Option<Var>, &(usize, &[f32]))| match var {
        Some(var) => ctx.values(var).unwrap(),
        None => vec![0.0; values.len()],
    };
    by.into_iter().zip(inputs).map(of).collect()
}

#[test]
fn reinforces_baseline_learns_from_its_own_error_alone() {
    let (logits, one) = (normals(6, 1), one_hot(&[0, 2], 3));
    let inputs: [(usize, &[f32]); 4] =
        [(3, &logits), (3, &one), (1, &[1.0, 3.0]), (1, &[0.5, 1.0])];
    for normalise in [false, true] {
        let settings = Reinforce {
            normalise,
            ..Reinforce::default()
        };
        let by = derivatives(&inputs, |ctx, x| reinforce(settings, ctx, x));
        assert_eq!(by[3], [-0.25, -1.0]); // 0.5 * 2 * (baseline - return) / 2
    }
}

#[test]
fn impalas_corrections_and_targets_are_constants() {
    let (logits, one) = (normals(6, 1), one_hot(&[0, 2], 3));
    let inputs: [(usize, &[f32]); 7] = [
        (3, &logits),
        (1, &[0.5, 1.0]),
        (3, &one),
        (1, &[-50.0, -50.0]), // ratios far above their clips
        (1, &[1.0, 3.0]),
        (1, &[0.5, 0.5]),
        (1, &[4.0]),
    ];
    let by = derivatives(&inputs, |ctx, x| impala(ImpalaLoss::default(), ctx, x));
    assert_eq!(by[1], [-1.5, -2.0]); // 0.5 (V - v) with v = (1 + 5 / 2, 3 + 4 / 2)
    for constant in [3, 4, 5, 6] {
        assert!(by[constant].iter().all(|&x| x == 0.0), "{constant}");
    }
}

#[test]
fn dqns_targets_are_constants() {
    let inputs: [(usize, &[f32]); 7] = [
        (2, &[1.0, 2.0]),
        (2, &[3.0, 1.0]),
        (2, &[3.0, 1.0]),
        (2, &[0.0, 1.0]),
        (1, &[1.0]),
        (1, &[0.5]),
        (1, &[0.5]),
    ];
    for inputs in [&inputs[..], &inputs[..6]] {
        let loss = DqnLoss {
            td_loss: TdLoss::Huber { delta: 1.0 },
            double: true,
        };
        let by = derivatives(inputs, |ctx, x| dqn(loss, ctx, x));
        let weight = if inputs.len() == 7 { 0.5 } else { 1.0 };
        assert_eq!(by[0], [0.0, -0.5 * weight]); // the error is 2 - 2.5
        assert_eq!(
            [&by[1], &by[2], &by[4]],
            [&vec![0.0; 2], &vec![0.0; 2], &vec![0.0]]
        );
    }
}

/// With weights or without, a caller's own targets are constants.
#[test]
fn no_gradient_flows_into_targets() {
    let inputs: [(usize, &[f32]); 4] =
        [(2, &[1.0, 2.0]), (1, &[2.5]), (2, &[0.0, 1.0]), (1, &[0.5])];
    for is_weighted in [false, true] {
        let loss = DqnLoss {
            td_loss: TdLoss::Mse,
            double: false,
        };
        let by = derivatives(&inputs, |ctx, x| {
            let batch = DqnBatch {
                observations: x[0],
                next_observations: x[0],
                actions: x[2],
                rewards: x[3],
                discounts: x[3],
                weights: is_weighted.then_some(x[3]),
                next_mask: None,
            };
            Ok(vec![loss.of_values(ctx, x[0], x[1], &batch)?.loss])
        });
        assert_eq!(by[1], [0.0]);
        assert!(by[0][1] != 0.0);
    }
}

fn impala(settings: ImpalaLoss, ctx: &mut dyn Ctx, x: &[Var]) -> Result<Vec<Var>, Error> {
    let policy = SoftmaxPolicy::build("policy", &Space::discrete(3)?)?;
    let outputs = PolicyAndValue {
        logits: x[0],
        values: x[1],
    };
    let batch = ImpalaBatch {
        actions: x[2],
        behaviour: x[3],
        rewards: x[4],
        discounts: x[5],
        bootstrap: x[6],
        rows: steps_of(ctx, x[1], x[6]),
    };
    let out = settings.apply(ctx, &policy, outputs, &batch)?;
    Ok([out.loss, out.policy, out.entropy]
        .into_iter()
        .chain(out.baseline)
        .collect())
}

#[test]
fn impalas_loss_is_its_formula() {
    let (logits, values, behaviour, rewards) =
        (normals(12, 1), normals(4, 2), normals(4, 3), normals(4, 4));
    let behaviour: Vec<f32> = behaviour.iter().map(|x| -x.abs() - 0.1).collect();
    let actions = [0, 2, 1, 1];
    let (taken, discounts, bootstrap) = (one_hot(&actions, 3), [0.9, 0.9, 0.0, 0.9], [0.7]);
    let inputs: [(usize, &[f32]); 7] = [
        (3, &logits),
        (1, &values),
        (3, &taken),
        (1, &behaviour),
        (1, &rewards),
        (1, &discounts),
        (1, &bootstrap),
    ];
    let settings = ImpalaLoss {
        entropy_coefficient: 0.01,
        ..ImpalaLoss::default()
    };
    let out = run(&Params::new(), &inputs, |ctx, x| impala(settings, ctx, x));

    let probabilities = probabilities_of_three(&logits);
    let logs: Vec<f64> = (0..4).map(|i| probabilities[i][actions[i]].ln()).collect();
    let trajectory = naive::Trajectory {
        log_ratios: (0..4).map(|i| logs[i] - f64::from(behaviour[i])).collect(),
        rewards: f64s(&rewards),
        discounts: f64s(&discounts),
        values: f64s(&values),
        bootstrap: f64::from(bootstrap[0]),
    };
    let (targets, advantages) = naive::v_trace(&trajectory, VTrace::default());
    let policy: f64 = (0..4).map(|i| -logs[i] * advantages[i]).sum();
    let baseline: f64 = (0..4)
        .map(|i| (f64::from(values[i]) - targets[i]).powi(2))
        .sum();
    let entropy: f64 = probabilities.iter().map(|p| naive::entropy(p)).sum();
    let baseline = 0.5 * baseline;
    let loss = policy + 0.5 * baseline - 0.01 * entropy;
    for (given, expected) in out.iter().zip([loss, policy, entropy, baseline]) {
        assert_close(given, &[expected], 1e-5);
    }
}

#[test]
fn impalas_loss_passes_the_check() {
    let spaces = [
        rows_over_time(3),
        rows_over_time(1),
        choices(3).over_time(),
        between(-3.0, -0.1).over_time(),
        rows_over_time(1),
        between(0.0, 0.99).over_time(),
        rows(1),
    ];
    for reduction in [Reduction::Sum, Reduction::Mean] {
        let settings = ImpalaLoss {
            reduction,
            ..ImpalaLoss::default()
        };
        let checked = check("impala_loss", &Params::new(), &spaces, 8, |ctx, x| {
            impala(settings, ctx, x)
        });
        let checked = checked.unwrap();
        assert!(checked.n_derivatives > 9 * checked.n_unclear, "{checked:?}");
    }
}

/// Of the next state's actions the best one is forbidden: the target is the value of the second.
#[test]
fn targets_are_among_the_actions_that_the_next_state_allows() {
    let inputs: [(usize, &[f32]); 5] = [
        (3, &[1.0, 9.0, 2.0]),
        (3, &[0.0, -1e9, 0.0]),
        (1, &[0.5]),
        (1, &[0.5]),
        (3, &[1.0, 0.0, 0.0]),
    ];
    let target = |has_mask: bool, double: bool| {
        let td_loss = TdLoss::Mse;
        let out = run(&Params::new(), &inputs, |ctx, x| {
            let batch = DqnBatch {
                observations: x[0],
                next_observations: x[0],
                actions: x[4],
                rewards: x[2],
                discounts: x[3],
                weights: None,
                next_mask: has_mask.then_some(x[1]),
            };
            let loss = DqnLoss { td_loss, double };
            Ok(vec![loss.targets(ctx, x[0], x[0], &batch)?])
        });
        out[0][0]
    };
    for double in [false, true] {
        assert_eq!(target(true, double), 1.5);
        assert_eq!(target(false, double), 5.0);
    }
}
