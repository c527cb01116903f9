//! Random programs over the operations of this crate: eager, planned and f64 reference agree.

use proptest::prelude::*;
use shardgraph_collectives::threads;
use shardgraph_device::Device;
use shardgraph_ops::{Binary, Loss};

use crate::operations::{ArgmaxRows, Elementwise};
use crate::testing::{Choice, Naive, bits, random_op, slots_are_apart};
use crate::tests::gpus;
use crate::{Ctx, Eager, Error, Params, Recorder, Shape, Var, gradient};

/// Values larger than this are not used further.
const MAX_LEN: usize = 2000;

/// Runs the choices, and ends in a loss that sees every value.
fn random_program(
    ctx: &mut dyn Ctx,
    params: &Params,
    n_ranks: usize,
    choices: &[Choice],
) -> Result<(Var, Vec<Var>), Error> {
    let ids: Vec<_> = params.ids().collect();
    let params: Vec<Var> = ids
        .iter()
        .map(|&id| ctx.param(id))
        .collect::<Result<_, _>>()?;
    let mut pool = params.clone();
    for &choice in choices {
        match random_op(ctx, &pool, n_ranks, choice)? {
            Some(var) if ctx.shape(var).len() <= MAX_LEN => pool.push(var),
            _ => {}
        }
    }
    let mut total = None;
    for x in pool {
        let row = ctx.sum_rows(x)?;
        let shape = ctx.shape(row);
        let target = ctx.input(shape, &vec![0.5; shape.len()])?;
        let loss = ctx.loss(Loss::Huber { delta: 1.0 }, row, target)?;
        total = Some(match total {
            None => loss,
            Some(sum) => ctx.add(sum, loss)?,
        });
    }
    Ok((total.unwrap(), params))
}

/// Three small matrices.
fn params() -> impl Strategy<Value = Params> {
    (1usize..6).prop_flat_map(|width| {
        let values = prop::collection::vec(
            (-64i32..64).prop_map(|i| (i as f32 + 0.37) / 64.0),
            2 * width * width + width,
        );
        values.prop_map(move |values| {
            let (mut params, mut values) = (Params::new(), values.into_iter());
            for (name, rows) in [("w", width), ("square", width), ("row", 1)] {
                params.add(name, Shape::new(rows, width), || values.next().unwrap());
            }
            params
        })
    })
}

/// Runs a program eagerly and planned on each rank, and compares every bit; rank 0's eager values come back.
fn eager_is_planned(
    params: &Params,
    device: &Device,
    n_ranks: u32,
    choices: &[Choice],
) -> Vec<(Var, Vec<f32>)> {
    let results = threads::run(n_ranks, |mut comm| {
        let device = device.new_stream().unwrap();
        let (rank, size) = (comm.rank(), comm.size());
        let mut recorder = Recorder::new(params, rank, size);
        let n_ranks = size as usize;
        let (loss, _) = random_program(&mut recorder, params, n_ranks, choices).unwrap();
        recorder.output("loss", loss);
        recorder.output_param_gradient(loss).unwrap();
        let plan = recorder.plan();
        slots_are_apart(&plan);
        slots_are_apart(&plan.clone().resident());
        let mut grads = Vec::new();
        let mut planned = plan.clone().load(&device).unwrap();
        planned.poisons = true;
        planned.run(&mut comm, params).unwrap();
        let mut kept = plan.resident().load(&device).unwrap();
        kept.run(&mut comm, params).unwrap();
        kept.run_again(&mut comm).unwrap();
        for grad in [planned.param_gradient(), kept.param_gradient()] {
            grads.push(bits(&grad.unwrap()));
        }
        let mut eager = Eager::new(&device, &mut comm, params);
        let (loss, _) = random_program(&mut eager, params, n_ranks, choices).unwrap();
        let values = eager.all_values().unwrap();
        let grad = eager.param_gradient(loss).unwrap();
        assert_eq!(
            bits(&eager.values(loss).unwrap()),
            bits(&planned.read("loss").unwrap())
        );
        assert!(grads.iter().all(|planned| *planned == bits(&grad)));
        let pool = eager.into_pool().poisoned();
        let mut again = Eager::new(&device, &mut comm, params).with_pool(pool);
        let (loss, _) = random_program(&mut again, params, n_ranks, choices).unwrap();
        assert_eq!(bits(&again.param_gradient(loss).unwrap()), bits(&grad));
        values
    });
    results.into_iter().next().unwrap().unwrap()
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec(any::<[u8; 4]>().prop_map(Choice::from), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_interpreters_agree(params in params(), n_ranks in 1u32..=3, choices in choices()) {
        let eager = eager_is_planned(&params, &Device::host(), n_ranks, &choices);
        if n_ranks == 1 {
            let mut shapes = Recorder::new(&params, 0, 1);
            let (loss, vars) = random_program(&mut shapes, &params, 1, &choices).unwrap();
            gradient(&mut shapes, loss, &vars).unwrap();
            let mut naive = Naive::new(&params);
            random_program(&mut naive, &params, 1, &choices).unwrap();
            // What an element may be off by grows with all that it was made of; steps are no part of the comparison.
            let mut largest = 1.0f64;
            for (i, (var, values)) in eager.iter().enumerate() {
                let var = *var;
                prop_assert_eq!(values.len(), shapes.shape(var).len());
                let function = naive.op(var).downcast().map(|Elementwise(function)| function);
                let steps = matches!(function, Some(Binary::WherePositive))
                    || naive.op(var).downcast::<ArgmaxRows>().is_some();
                largest = naive.values(var).iter().fold(largest, |m, x| m.max(x.abs()));
                if steps || largest > 1e4 {
                    break;
                }
                for (got, want) in values.iter().zip(naive.values(var)) {
                    let off = (f64::from(*got) - want).abs();
                    prop_assert!(off <= 1e-4 * largest, "{} of {}: {} {}", i, naive.op(var).name(), got, want);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn eager_is_planned_on_devices(params in params(), n_ranks in 1u32..=3, choices in choices()) {
        for device in gpus() {
            eager_is_planned(&params, &device, n_ranks, &choices);
        }
    }
}
