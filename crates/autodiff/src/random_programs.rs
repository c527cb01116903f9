//! Random programs over the closed set of operations: shape check, eager, planned and f64 reference agree.

use std::sync::Arc;

use proptest::prelude::*;
use shardgraph_collectives::threads;
use shardgraph_device::{Binary, Device, Loss, Unary};

use crate::naive::Naive;
use crate::plan_tests::bits;
use crate::tests::{Case, View, case, gpus, view};
use crate::{Axis, Ctx, Eager, Error, Op, Plan, Recorder, Shape, ShapeCheck, Var, gradient};

/// Values larger than this are not used further.
const MAX_LEN: usize = 2000;

/// One random operation: which, and three choices of operands and numbers.
type Choice = (u8, u8, u8, u8);

/// The values so far: replicated ones, and ones with this rank's rows.
struct Pool {
    whole: Vec<Var>,
    sharded: Vec<Var>,
}

fn pick(pool: &[Var], choice: u8) -> Var {
    pool[choice as usize % pool.len()]
}

/// The first value from the choice on that fits.
fn fitting(pool: &[Var], choice: u8, fits: impl Fn(Var) -> bool) -> Option<Var> {
    let start = choice as usize % pool.len();
    let turned = pool[start..].iter().chain(&pool[..start]);
    turned.copied().find(|&var| fits(var))
}

fn axis(choice: u8) -> Axis {
    match choice % 2 {
        0 => Axis::Rows,
        _ => Axis::Cols,
    }
}

fn binary(ctx: &mut dyn Ctx, pool: &[Var], (_, a, b, c): Choice) -> Result<Option<Var>, Error> {
    let a = pick(pool, a);
    let b = fitting(pool, b, |b| ctx.shape(b) == ctx.shape(a)).unwrap_or(a);
    let op = [Binary::Add, Binary::Sub, Binary::Mul, Binary::WherePositive][c as usize % 4];
    ctx.apply(Op::Binary { op, a, b }).map(Some)
}

/// A replicated result of replicated operands.
fn whole(
    ctx: &mut dyn Ctx,
    pool: &[Var],
    n_ranks: usize,
    choice: Choice,
) -> Result<Option<Var>, Error> {
    let (kind, a, b, _) = choice;
    let x = pick(pool, a);
    let shape = ctx.shape(x);
    let op = match kind % 22 {
        0 => return product(ctx, pool, choice),
        1 | 2 => return binary(ctx, pool, choice),
        3 => Op::Scale {
            x,
            factor: f32::from(b % 5) * 0.5 - 1.0,
        },
        4 => Op::Relu { x },
        10 => Op::SumRows { x },
        11 => {
            let Some(x) = fitting(pool, a, |x| ctx.shape(x).rows == 1) else {
                return Ok(None);
            };
            let n_rows = 1 + b as usize % 6;
            Op::RepeatRow { x, n_rows }
        }
        12 => Op::AllReduce { x },
        13 => Op::Enter { x },
        14 => Op::AllGather {
            x,
            counts: vec![shape.rows; n_ranks].into(),
        },
        15 if shape.rows.is_multiple_of(n_ranks) => Op::ReduceScatter {
            x,
            counts: vec![shape.rows / n_ranks; n_ranks].into(),
        },
        15 => return Ok(None),
        16..=20 => return function(ctx, pool, choice).map(Some),
        21 => return linear(ctx, pool, choice),
        _ => rearranged(ctx, pool, choice),
    };
    ctx.apply(op).map(Some)
}

/// Functions of one element or one row, on numbers for which they are no larger than what they are given.
fn function(ctx: &mut dyn Ctx, pool: &[Var], (kind, a, b, c): Choice) -> Result<Var, Error> {
    let x = pick(pool, a);
    match kind % 22 {
        16 => {
            let (low, high) = ([-3.0, 0.25][c as usize % 2], 1.0);
            let bounded = ctx.clamp(x, low, high)?;
            ctx.unary([Unary::Exp, Unary::Log][c as usize % 2], bounded)
        }
        17 => ctx.unary([Unary::Tanh, Unary::Sigmoid][c as usize % 2], x),
        18 => {
            let divisor = fitting(pool, b, |y| ctx.shape(y) == ctx.shape(x)).unwrap_or(x);
            let divisor = ctx.clamp(divisor, 0.5, 2.0)?;
            ctx.div(x, divisor)
        }
        19 => ctx.log_softmax(x),
        _ => match c % 2 {
            0 => ctx.argmax_rows(x),
            _ => ctx.detach(x),
        },
    }
}

fn linear(ctx: &mut dyn Ctx, pool: &[Var], (_, a, b, c): Choice) -> Result<Option<Var>, Error> {
    let x = pick(pool, a);
    let Some(w) = fitting(pool, b, |w| ctx.shape(w).rows == ctx.shape(x).cols) else {
        return Ok(None);
    };
    let row = Shape::new(1, ctx.shape(w).cols);
    match fitting(pool, c, |b| ctx.shape(b) == row) {
        Some(b) if c % 2 == 0 => ctx.linear(x, w, b).map(Some),
        Some(b) => ctx.linear_relu(x, w, b).map(Some),
        None => Ok(None),
    }
}

fn product(ctx: &mut dyn Ctx, pool: &[Var], (_, a, b, c): Choice) -> Result<Option<Var>, Error> {
    let x = pick(pool, a);
    let shape = ctx.shape(x);
    let (turn_a, turn_b) = (b % 2 == 1, c % 2 == 1);
    let inner = if turn_a { shape.rows } else { shape.cols };
    let fits = |y: Var| {
        let y = ctx.shape(y);
        inner == if turn_b { y.cols } else { y.rows }
    };
    match fitting(pool, c, fits) {
        Some(y) => ctx.matmul_transposed((x, turn_a), (y, turn_b)).map(Some),
        None => Ok(None),
    }
}

/// What can stand below or beside `x`.
fn neighbour(ctx: &dyn Ctx, pool: &[Var], (x, b): (Var, u8), axis: Axis) -> Var {
    let shape = ctx.shape(x);
    let fits = |y: Var| match axis {
        Axis::Rows => ctx.shape(y).cols == shape.cols,
        Axis::Cols => ctx.shape(y).rows == shape.rows,
    };
    fitting(pool, b, fits).unwrap_or(x)
}

/// Elements in other places: joined, cut, padded, gathered, scattered.
fn rearranged(ctx: &dyn Ctx, pool: &[Var], (kind, a, b, c): Choice) -> Op {
    let x = pick(pool, a);
    let (shape, axis) = (ctx.shape(x), axis(c));
    let b = b as usize;
    let len = match axis {
        Axis::Rows => shape.rows,
        Axis::Cols => shape.cols,
    };
    match kind % 22 {
        5 => Op::Concat {
            a: x,
            b: neighbour(ctx, pool, (x, b as u8), axis),
            axis,
        },
        6 => {
            let start = b % len;
            let len = 1 + c as usize % (len - start);
            Op::Slice {
                x,
                axis,
                start,
                len,
            }
        }
        7 => {
            let (start, total) = (b % 3, b % 3 + len + c as usize % 3);
            Op::Pad {
                x,
                axis,
                start,
                total,
            }
        }
        _ => by_index((x, shape.rows), kind % 22 == 8, (b, c)),
    }
}

/// A gather or a scatter of a table of `n_rows` rows.
fn by_index((x, n_rows): (Var, usize), gathers: bool, (b, c): (usize, u8)) -> Op {
    match gathers {
        true => Op::Gather {
            x,
            index: index(n_rows, 1 + b % 9, c),
        },
        false => Op::Scatter {
            x,
            index: index(1 + b % 7, n_rows, c),
            n_rows: 1 + b % 7,
        },
    }
}

/// `len` row numbers of a table, some of them none.
fn index(n_rows: usize, len: usize, seed: u8) -> Arc<[u32]> {
    let number = |i: usize| match (i * 7 + seed as usize) % (n_rows + 1) {
        row if row == n_rows => u32::MAX,
        row => row as u32,
    };
    (0..len).map(number).collect()
}

/// One operation on sharded rows; its result and whether that is sharded.
fn sharded(
    ctx: &mut dyn Ctx,
    pool: &Pool,
    view: &View,
    choice: Choice,
) -> Result<Option<(Var, bool)>, Error> {
    let (kind, a, b, c) = choice;
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
            let (y, layout) = (pick(&pool.sharded, b), Arc::clone(layout));
            return Ok(Some((ctx.apply(Op::ShardOuter { x, y, layout })?, false)));
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
        let made = match choice.0 < 128 {
            true => whole(ctx, &pool.whole, n_ranks, choice)?.map(|var| (var, false)),
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

/// No two values whose lives meet share an element: lives are found again by reading the steps as they stand.
fn places_are_apart(plan: &Plan) {
    let last_use = |i: usize| {
        let node = plan.steps[i].node;
        let reads = |step: &crate::plan::Step| step.reads.contains(&node);
        let named = plan.outputs.named.iter().map(|(_, var)| *var);
        let mut outputs = named.chain(plan.outputs.gradient.iter().flatten().flatten().copied());
        match outputs.any(|var| plan.stands_for[var.index()] == node) {
            true => plan.steps.len(),
            false => plan.steps.iter().rposition(reads).unwrap_or(i).max(i),
        }
    };
    let last: Vec<usize> = (0..plan.steps.len()).map(last_use).collect();
    for (i, a) in plan.steps.iter().enumerate() {
        assert_eq!(a.place.len(), plan.nodes[a.node as usize].1.len());
        for (j, b) in plan.steps.iter().enumerate().skip(i + 1) {
            let overlap = a.place.start < b.place.end && b.place.start < a.place.end;
            let is_empty = a.place.is_empty() || b.place.is_empty();
            assert!(is_empty || !overlap || last[i] < j, "steps {i} and {j}");
        }
    }
}

/// Runs a program eagerly and planned on each rank, and compares every bit; rank 0's eager values come back.
fn eager_is_planned(
    case: &Case,
    device: &Device,
    n_ranks: u32,
    choices: &[Choice],
) -> Vec<Vec<f32>> {
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
        places_are_apart(&plan);
        places_are_apart(&plan.clone().resident());
        let mut grads = Vec::new();
        let mut planned = plan.clone().load(&device).unwrap();
        planned.poisons = true;
        planned.run(&mut comm, &case.params).unwrap();
        let mut kept = plan.resident().load(&device).unwrap();
        kept.run(&mut comm, &case.params).unwrap();
        kept.run_again(&mut comm).unwrap();
        for grad in [planned.param_gradient(), kept.param_gradient()] {
            grads.push(bits(&grad.unwrap()));
        }
        let mut eager = Eager::new(&device, &mut comm, &case.params);
        let (loss, _) = random_program(&mut eager, case, &view, n_ranks, choices).unwrap();
        let values = (0..=loss.0)
            .map(|i| eager.values(Var(i)).unwrap())
            .collect::<Vec<_>>();
        let grad = eager.param_gradient(loss).unwrap();
        assert_eq!(
            bits(&eager.values(loss).unwrap()),
            bits(&planned.read("loss").unwrap())
        );
        assert!(grads.iter().all(|planned| *planned == bits(&grad)));
        let spare = eager.into_spare().poisoned();
        let mut again = Eager::new(&device, &mut comm, &case.params).with_spare(spare);
        let (loss, _) = random_program(&mut again, case, &view, n_ranks, choices).unwrap();
        assert_eq!(bits(&again.param_gradient(loss).unwrap()), bits(&grad));
        values
    });
    results.into_iter().next().unwrap().unwrap()
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec(any::<Choice>(), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_interpreters_agree(case in case(), n_ranks in 1u32..=3, choices in choices()) {
        let eager = eager_is_planned(&case, &Device::host(), n_ranks, &choices);
        if n_ranks == 1 {
            let view = view(&case, 0, 1);
            let mut shapes = ShapeCheck::new(&case.params, 1);
            let (loss, params) = random_program(&mut shapes, &case, &view, 1, &choices).unwrap();
            gradient(&mut shapes, loss, &params).unwrap();
            let mut naive = Naive::new(&case.params);
            random_program(&mut naive, &case, &view, 1, &choices).unwrap();
            // What an element may be off by grows with all that it was made of; steps are no part of the comparison.
            let mut largest = 1.0f64;
            for (i, values) in eager.iter().enumerate() {
                let var = Var(i as u32);
                prop_assert_eq!(values.len(), shapes.shape(var).len());
                let steps = matches!(
                    naive.op(var),
                    Op::Binary { op: Binary::WherePositive, .. } | Op::ArgmaxRows { .. }
                );
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
