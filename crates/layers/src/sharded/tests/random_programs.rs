//! Random programs over all operations: recorded shapes, eager, planned and f64 reference agree.

use proptest::prelude::*;
use shardgraph_autodiff::collectives::threads;
use shardgraph_autodiff::device::Device;
use shardgraph_autodiff::operations::{ArgmaxRows, Elementwise};
use shardgraph_autodiff::ops::{Binary, Loss};
use shardgraph_autodiff::testing::{
    Choice, binary, bits, fitting, pick, poisoned_pool, poisoned_program, random_op,
    slots_are_apart,
};
use shardgraph_autodiff::{Axis, Ctx, Eager, Error, Recorder, Shape, Var, gradient};

use super::reference::naive;
use super::{Case, ShardedOps, View, case, gpus, view};

/// Values larger than this are not used further.
const MAX_LEN: usize = 2000;

/// The values so far: replicated ones, and ones with this rank's rows.
struct Pool {
    whole: Vec<Var>,
    sharded: Vec<Var>,
}

/// One operation on sharded rows; its result and whether that is sharded.
fn sharded(
    ctx: &mut dyn Ctx,
    pool: &Pool,
    view: &View,
    choice: Choice,
) -> Result<Option<(Var, bool)>, Error> {
    let Choice { kind, a, b, c } = choice;
    let layout = &view.layout;
    let x = pick(&pool.sharded, a);
    let cols = ctx.shape(x).cols;
    let result = match kind % 12 {
        0 => {
            let turn = c % 2 == 1;
            let fits = |w: Var| {
                cols == if turn {
                    ctx.shape(w).cols
                } else {
                    ctx.shape(w).rows
                }
            };
            let Some(w) = fitting(&pool.whole, b, fits) else {
                return Ok(None);
            };
            ctx.shard_matmul(x, (w, turn), layout)?
        }
        1 => {
            let y = pick(&pool.sharded, b);
            return Ok(Some((ctx.shard_outer(x, y, layout)?, false)));
        }
        2 => return Ok(Some((ctx.state_sum(x, layout)?, false))),
        3 => {
            let fits = |y: Var| ctx.shape(y).rows == layout.n_states();
            let Some(y) = fitting(&pool.whole, b, fits) else {
                return Ok(None);
            };
            ctx.state_broadcast(y, layout)?
        }
        4 | 5 => ctx.propagate(x, &view.propagation)?,
        6 => ctx.relu(x)?,
        7 => ctx.scale(x, f32::from(b % 5) * 0.5 - 1.0)?,
        8 => ctx.concat(x, pick(&pool.sharded, b), Axis::Cols)?,
        9 => ctx.tanh(x)?,
        10 => ctx.log_softmax(x)?,
        _ => return Ok(binary(ctx, &pool.sharded, choice)?.map(|var| (var, true))),
    };
    Ok(Some((result, true)))
}

/// Runs the choices, and ends in a loss that sees every value.
fn random_program(
    ctx: &mut dyn Ctx,
    case: &Case,
    view: &View,
    n_ranks: usize,
    choices: &[Choice],
) -> Result<(Var, Vec<Var>), Error> {
    let ids: Vec<_> = case.params.ids().collect();
    let params: Vec<Var> = ids
        .iter()
        .map(|&id| ctx.param(id))
        .collect::<Result<_, _>>()?;
    let features = Shape::new(view.layout.n_rows(), case.width);
    let mut pool = Pool {
        whole: params.clone(),
        sharded: vec![ctx.input(features, &view.features)?],
    };
    for &choice in choices {
        let made = match choice.kind < 128 {
            true => random_op(ctx, &pool.whole, n_ranks, choice)?.map(|var| (var, false)),
            false => sharded(ctx, &pool, view, choice)?,
        };
        match made {
            Some((var, true)) if ctx.shape(var).cols <= 8 => pool.sharded.push(var),
            Some((var, false)) if ctx.shape(var).len() <= MAX_LEN => pool.whole.push(var),
            _ => {}
        }
    }
    for x in pool.sharded {
        pool.whole.push(ctx.state_sum(x, &view.layout)?);
    }
    let mut total = None;
    for x in pool.whole {
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

/// Runs a program eagerly and planned on each rank, and compares every bit; rank 0's eager values come back.
fn eager_is_planned(
    case: &Case,
    device: &Device,
    n_ranks: u32,
    choices: &[Choice],
) -> Vec<(Var, Vec<f32>)> {
    let results = threads::run(n_ranks, |mut comm| {
        let device = device.new_stream().unwrap();
        let (rank, size) = (comm.rank(), comm.size());
        let view = view(case, rank, size);
        let mut recorder = Recorder::new(&case.params, rank, size);
        let n_ranks = size as usize;
        let (loss, _) = random_program(&mut recorder, case, &view, n_ranks, choices).unwrap();
        recorder.output("loss", loss);
        recorder.output_param_gradient(loss).unwrap();
        let plan = recorder.plan();
        slots_are_apart(&plan);
        slots_are_apart(&plan.clone().resident());
        let mut grads = Vec::new();
        let mut planned = poisoned_program(plan.clone().load(&device).unwrap());
        planned.run(&mut comm, &case.params).unwrap();
        let mut kept = plan.resident().load(&device).unwrap();
        kept.run(&mut comm, &case.params).unwrap();
        kept.run_again(&mut comm).unwrap();
        for grad in [planned.param_gradient(), kept.param_gradient()] {
            grads.push(bits(&grad.unwrap()));
        }
        let mut eager = Eager::new(&device, &mut comm, &case.params);
        let (loss, _) = random_program(&mut eager, case, &view, n_ranks, choices).unwrap();
        let values = eager.all_values().unwrap();
        let grad = eager.param_gradient(loss).unwrap();
        assert_eq!(
            bits(&eager.values(loss).unwrap()),
            bits(&planned.read("loss").unwrap())
        );
        assert!(grads.iter().all(|planned| *planned == bits(&grad)));
        let pool = poisoned_pool(eager.into_pool());
        let mut again = Eager::new(&device, &mut comm, &case.params).with_pool(pool);
        let (loss, _) = random_program(&mut again, case, &view, n_ranks, choices).unwrap();
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
    fn all_interpreters_agree(case in case(), n_ranks in 1u32..=3, choices in choices()) {
        let eager = eager_is_planned(&case, &Device::host(), n_ranks, &choices);
        if n_ranks == 1 {
            let view = view(&case, 0, 1);
            let mut shapes = Recorder::new(&case.params, 0, 1);
            let (loss, params) = random_program(&mut shapes, &case, &view, 1, &choices).unwrap();
            gradient(&mut shapes, loss, &params).unwrap();
            let mut naive = naive(&case.params);
            random_program(&mut naive, &case, &view, 1, &choices).unwrap();
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
    fn eager_is_planned_on_devices(case in case(), n_ranks in 1u32..=3, choices in choices()) {
        for device in gpus() {
            eager_is_planned(&case, &device, n_ranks, &choices);
        }
    }
}
