//! V-trace against the paper's sum, in f64, and what it is on policy.

use proptest::prelude::*;

use super::{assert_close, between, normals, rows, rows_over_time, run, steps_of};
use crate::naive::{Trajectory, v_trace};
use crate::{Error, VTrace, VTraceInputs, check};
use shardgraph_autodiff::{Ctx, Params, Var};

fn apply(v_trace: VTrace, ctx: &mut dyn Ctx, vars: &[Var]) -> Result<Vec<Var>, Error> {
    let inputs = VTraceInputs {
        log_ratios: vars[0],
        rewards: vars[1],
        discounts: vars[2],
        values: vars[3],
        bootstrap: vars[4],
        rows: steps_of(ctx, vars[3], vars[4]),
    };
    let out = v_trace.apply(ctx, &inputs)?;
    Ok(vec![out.targets, out.advantages])
}

/// Every `n_batch`-th number from `b` on.
fn trajectory(columns: &[Vec<f32>; 5], n_batch: usize, b: usize) -> Trajectory {
    let of = |i: usize| {
        let column = columns[i].iter().skip(b).step_by(n_batch);
        column.map(|&x| f64::from(x)).collect::<Vec<f64>>()
    };
    Trajectory {
        log_ratios: of(0),
        rewards: of(1),
        discounts: of(2),
        values: of(3),
        bootstrap: of(4)[0],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn targets_and_advantages_are_the_papers(
        n_steps in prop_oneof![Just(1usize), 2usize..6, 31usize..34],
        n_batch in prop_oneof![Just(1usize), Just(3), Just(33)],
        (rho_bar, c_bar, lambda) in (0.5f32..3.0, 0.5f32..3.0, 0.5f32..1.0),
        seed in any::<u64>(),
    ) {
        let n = n_steps * n_batch;
        let discount = |i: usize| if (i as u64 ^ seed).is_multiple_of(5) { 0.0 } else { 0.97 };
        let columns = [
            normals(n, seed),
            normals(n, seed ^ 1),
            (0..n).map(discount).collect(),
            normals(n, seed ^ 2),
            normals(n_batch, seed ^ 3),
        ];
        let inputs: Vec<(usize, &[f32])> = columns.iter().map(|column| (1, &column[..])).collect();
        let settings = VTrace { rho_bar, c_bar, lambda };
        let out = run(&Params::new(), &inputs, |ctx, vars| apply(settings, ctx, vars));
        for b in 0..n_batch {
            let expected = v_trace(&trajectory(&columns, n_batch, b), settings);
            let of = |i: usize| out[i].iter().skip(b).step_by(n_batch).copied().collect::<Vec<f32>>();
            // Errors of later steps come back multiplied by clipped ratios, so the largest target is the scale.
            let scale = expected.0.iter().chain(&expected.1).fold(1.0, |max: f64, x| max.max(x.abs()));
            assert_close(&of(0), &expected.0, 2e-5 * scale);
            assert_close(&of(1), &expected.1, 2e-5 * scale);
        }
    }
}

/// Remark 1 of the paper: with equal policies the targets are the n-step returns.
#[test]
fn on_policy_targets_are_returns() {
    let columns: [&[f32]; 5] = [
        &[0.0; 3],
        &[1.0, 2.0, 4.0],
        &[0.5; 3],
        &[9.0, -3.0, 5.0],
        &[8.0],
    ];
    let inputs = columns.map(|column| (1, column));
    let out = run(&Params::new(), &inputs, |ctx, vars| {
        apply(VTrace::default(), ctx, vars)
    });
    assert_eq!(out[0], [4.0, 6.0, 8.0]); // 8 = 4 + 8 / 2, 6 = 2 + 8 / 2, 4 = 1 + 6 / 2
    assert_eq!(out[1], [-5.0, 9.0, 3.0]); // the targets less the values
}

#[test]
fn it_passes_the_check_and_no_gradient_flows() {
    let inputs = [
        rows_over_time(1),
        rows_over_time(1),
        between(0.0, 0.99).over_time(),
        rows_over_time(1),
        rows(1),
    ];
    let checked = check("v_trace", &Params::new(), &inputs, 2, |ctx, vars| {
        apply(VTrace::default(), ctx, vars)
    });
    assert_eq!(checked.unwrap().n_unclear, 0); // everything is detached: all derivatives are 0
}
