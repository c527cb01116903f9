//! The gradient, written once: the adjoint of each operation in operations of the same set.

use std::sync::Arc;

use shardgraph_device::{Binary, Unary};

use crate::{Axis, Ctx, Error, ErrorKind, Op, Shape, Var};

/// The derivatives of `loss` by each variable of `wrt`, or `None` where the loss does not depend on it.
///
/// The derivative of a replicated variable is replicated, that of a sharded one is sharded alike. Derivatives are new
/// values of the same interpreter, so a gradient can be checked for shapes without being computed.
///
/// # Errors
/// When `loss` is not `[1, 1]`, when an operation fails, or for the second derivative of a loss.
/// # Complexity
/// At most two operations for each operation between `wrt` and `loss`, and an addition for each repeated use.
pub fn gradient(ctx: &mut dyn Ctx, loss: Var, wrt: &[Var]) -> Result<Vec<Option<Var>>, Error> {
    if ctx.shape(loss) != Shape::new(1, 1) {
        return Err(ErrorKind::Shape {
            op: "gradient",
            given: vec![ctx.shape(loss)],
            expected: "the loss is [1, 1]".to_string(),
        }
        .into());
    }
    let needed = depends_on(ctx, loss, wrt);
    let mut adjoints: Vec<Option<Var>> = vec![None; loss.index() + 1];
    adjoints[loss.index()] = Some(ctx.input(Shape::new(1, 1), &[1.0])?);
    for index in (0..=loss.index()).rev() {
        let Some(dy) = adjoints[index].filter(|_| needed[index]) else {
            continue;
        };
        let var = Var(index as u32);
        let op = ctx.op(var).clone();
        let wanted = |operand: Var| needed[operand.index()];
        for (operand, term) in adjoint(ctx, &op, var, dy, &wanted)? {
            let slot = &mut adjoints[operand.index()];
            *slot = Some(match *slot {
                None => term,
                Some(sum) => ctx.add(sum, term)?,
            });
        }
    }
    let of = |var: &Var| adjoints.get(var.index()).copied().flatten();
    Ok(wrt.iter().map(of).collect())
}

/// Which values up to `loss` depend on a variable of `wrt`.
fn depends_on(ctx: &dyn Ctx, loss: Var, wrt: &[Var]) -> Vec<bool> {
    let mut depends = vec![false; loss.index() + 1];
    for index in 0..=loss.index() {
        let var = Var(index as u32);
        let from_operands = |op: &Op| match op {
            Op::Detach { .. } | Op::ArgmaxRows { .. } => false,
            op => op.operands().iter().any(|x| depends[x.index()]),
        };
        depends[index] = wrt.contains(&var) || from_operands(ctx.op(var));
    }
    depends
}

/// What `dy`, the derivative by the result `y` of `op`, gives to each wanted operand.
fn adjoint(
    ctx: &mut dyn Ctx,
    op: &Op,
    y: Var,
    dy: Var,
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let one = |x: Var, term: Var| Ok(vec![(x, term)]);
    match op {
        Op::Input(_) | Op::Param(_) | Op::ArgmaxRows { .. } | Op::Detach { .. } => Ok(vec![]),
        Op::MatMul { .. } => matmul(ctx, op, dy, wanted),
        Op::Linear { .. } => linear(ctx, op, (y, dy), wanted),
        Op::Unary { op, x } => one(*x, unary(ctx, *op, *x, (y, dy))?),
        Op::LogSoftmax { x } => one(*x, log_softmax(ctx, (y, dy))?),
        Op::ShardMatMul { .. } | Op::ShardOuter { .. } => shard_product(ctx, op, dy, wanted),
        Op::Binary { op, a, b } => binary(ctx, *op, (*a, *b), (y, dy), wanted),
        Op::Scale { x, factor } => one(*x, ctx.scale(dy, *factor)?),
        Op::Relu { x } => one(*x, where_positive(ctx, dy, y)?),
        Op::Concat { a, b, axis } => concat(ctx, (*a, *b), *axis, dy, wanted),
        Op::Slice { x, axis, start, .. } => {
            let (x, axis, start) = (*x, *axis, *start);
            let total = along(ctx.shape(x), axis);
            let pad = Op::Pad {
                x: dy,
                axis,
                start,
                total,
            };
            one(x, ctx.apply(pad)?)
        }
        Op::Pad { x, axis, start, .. } => {
            let len = along(ctx.shape(*x), *axis);
            one(*x, ctx.slice(dy, *axis, *start, len)?)
        }
        Op::Gather { x, index } => {
            let scatter = Op::Scatter {
                x: dy,
                index: Arc::clone(index),
                n_rows: ctx.shape(*x).rows,
            };
            one(*x, ctx.apply(scatter)?)
        }
        Op::Scatter { x, index, .. } => one(*x, ctx.gather(dy, Arc::clone(index))?),
        Op::SumRows { x } => {
            let n_rows = ctx.shape(*x).rows;
            one(*x, ctx.apply(Op::RepeatRow { x: dy, n_rows })?)
        }
        Op::RepeatRow { x, .. } => one(*x, ctx.sum_rows(dy)?),
        Op::StateSum { x, layout } => one(*x, ctx.state_broadcast(dy, layout)?),
        Op::StateBroadcast { x, layout } => one(*x, ctx.state_sum(dy, layout)?),
        Op::Propagate { x, graphs } => one(*x, ctx.propagate(dy, graphs)?),
        // The summands of an all-reduce all get the derivative of its replicated result; a replicated value that
        // enters rank-local work collects the derivatives of all ranks.
        Op::AllReduce { x } => one(*x, dy),
        Op::Enter { x } => one(*x, ctx.all_reduce(dy)?),
        Op::AllGather { x, counts } => {
            let counts = Arc::clone(counts);
            one(*x, ctx.apply(Op::ReduceScatter { x: dy, counts })?)
        }
        Op::ReduceScatter { x, counts } => {
            let counts = Arc::clone(counts);
            one(*x, ctx.apply(Op::AllGather { x: dy, counts })?)
        }
        Op::Loss { loss, pred, target } => {
            let grad = Op::LossGrad {
                loss: *loss,
                pred: *pred,
                target: *target,
                upstream: dy,
            };
            one(*pred, ctx.apply(grad)?)
        }
        Op::LossGrad { .. } => Err(ErrorKind::NoAdjoint(op.name()).into()),
    }
}

fn along(shape: Shape, axis: Axis) -> usize {
    match axis {
        Axis::Rows => shape.rows,
        Axis::Cols => shape.cols,
    }
}

fn matmul(
    ctx: &mut dyn Ctx,
    op: &Op,
    dy: Var,
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let Op::MatMul {
        a,
        b,
        transpose_a,
        transpose_b,
    } = *op
    else {
        unreachable!("called for matmul only");
    };
    let mut terms = Vec::new();
    if wanted(a) {
        let (left, right) = ((dy, false), (b, !transpose_b));
        terms.push((
            a,
            match transpose_a {
                false => ctx.matmul_transposed(left, right)?,
                true => ctx.matmul_transposed((b, transpose_b), (dy, true))?,
            },
        ));
    }
    if wanted(b) {
        terms.push((
            b,
            match transpose_b {
                false => ctx.matmul_transposed((a, !transpose_a), (dy, false))?,
                true => ctx.matmul_transposed((dy, true), (a, transpose_a))?,
            },
        ));
    }
    Ok(terms)
}

fn where_positive(ctx: &mut dyn Ctx, a: Var, b: Var) -> Result<Var, Error> {
    let op = Binary::WherePositive;
    ctx.apply(Op::Binary { op, a, b })
}

fn linear(
    ctx: &mut dyn Ctx,
    op: &Op,
    (y, dy): (Var, Var),
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let Op::Linear { x, w, b, relu } = *op else {
        unreachable!("called for linear only");
    };
    let dz = match relu {
        true => where_positive(ctx, dy, y)?,
        false => dy,
    };
    let mut terms = Vec::new();
    if wanted(x) {
        terms.push((x, ctx.matmul_transposed((dz, false), (w, true))?));
    }
    if wanted(w) {
        terms.push((w, ctx.matmul_transposed((x, true), (dz, false))?));
    }
    if wanted(b) {
        terms.push((b, ctx.sum_rows(dz)?));
    }
    Ok(terms)
}

fn unary(ctx: &mut dyn Ctx, op: Unary, x: Var, (y, dy): (Var, Var)) -> Result<Var, Error> {
    match op {
        Unary::Exp => ctx.mul(dy, y),
        Unary::Log => ctx.div(dy, x),
        // dy (1 - y^2), and dy y (1 - y).
        Unary::Tanh => {
            let once = ctx.mul(dy, y)?;
            let twice = ctx.mul(once, y)?;
            ctx.sub(dy, twice)
        }
        Unary::Sigmoid => {
            let once = ctx.mul(dy, y)?;
            let twice = ctx.mul(once, y)?;
            ctx.sub(once, twice)
        }
        Unary::Clamp { low, high } => {
            let op = Binary::WhereInside { low, high };
            ctx.apply(Op::Binary { op, a: dy, b: x })
        }
    }
}

/// `dy - softmax(x) * (the sum of dy's row)`: products with ones sum a row and spread it again.
fn log_softmax(ctx: &mut dyn Ctx, (y, dy): (Var, Var)) -> Result<Var, Error> {
    let cols = ctx.shape(y).cols;
    let ones = vec![1.0; cols];
    let column = ctx.input(Shape::new(cols, 1), &ones)?;
    let row = ctx.input(Shape::new(1, cols), &ones)?;
    let sums = ctx.matmul(dy, column)?;
    let sums = ctx.matmul(sums, row)?;
    let softmax = ctx.exp(y)?;
    let part = ctx.mul(softmax, sums)?;
    ctx.sub(dy, part)
}

fn shard_product(
    ctx: &mut dyn Ctx,
    op: &Op,
    dy: Var,
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let mut terms = Vec::new();
    match op {
        Op::ShardMatMul {
            x,
            w,
            transpose_w,
            layout,
        } => {
            if wanted(*x) {
                terms.push((*x, ctx.shard_matmul(dy, (*w, !transpose_w), layout)?));
            }
            if wanted(*w) {
                let (left, right) = if *transpose_w { (dy, *x) } else { (*x, dy) };
                let outer = Op::ShardOuter {
                    x: left,
                    y: right,
                    layout: Arc::clone(layout),
                };
                terms.push((*w, ctx.apply(outer)?));
            }
        }
        Op::ShardOuter { x, y, layout } => {
            if wanted(*x) {
                terms.push((*x, ctx.shard_matmul(*y, (dy, true), layout)?));
            }
            if wanted(*y) {
                terms.push((*y, ctx.shard_matmul(*x, (dy, false), layout)?));
            }
        }
        other => unreachable!("{} is no sharded product", other.name()),
    }
    Ok(terms)
}

fn binary(
    ctx: &mut dyn Ctx,
    op: Binary,
    (a, b): (Var, Var),
    (y, dy): (Var, Var),
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let mut terms = Vec::new();
    if wanted(a) {
        terms.push((
            a,
            match op {
                Binary::Add | Binary::Sub => dy,
                Binary::Mul => ctx.mul(dy, b)?,
                Binary::Div => ctx.div(dy, b)?,
                Binary::WherePositive | Binary::WhereInside { .. } => {
                    ctx.apply(Op::Binary { op, a: dy, b })?
                }
            },
        ));
    }
    if wanted(b) {
        match op {
            Binary::Add => terms.push((b, dy)),
            Binary::Sub => terms.push((b, ctx.scale(dy, -1.0)?)),
            Binary::Mul => terms.push((b, ctx.mul(dy, a)?)),
            Binary::Div => {
                let share = ctx.div(dy, b)?;
                let product = ctx.mul(share, y)?;
                terms.push((b, ctx.scale(product, -1.0)?));
            }
            // A step: its derivative is 0 wherever it exists.
            Binary::WherePositive | Binary::WhereInside { .. } => {}
        }
    }
    Ok(terms)
}

fn concat(
    ctx: &mut dyn Ctx,
    (a, b): (Var, Var),
    axis: Axis,
    dy: Var,
    wanted: &dyn Fn(Var) -> bool,
) -> Result<Vec<(Var, Var)>, Error> {
    let (len_a, len_b) = (along(ctx.shape(a), axis), along(ctx.shape(b), axis));
    let mut terms = Vec::new();
    if wanted(a) {
        terms.push((a, ctx.slice(dy, axis, 0, len_a)?));
    }
    if wanted(b) {
        terms.push((b, ctx.slice(dy, axis, len_a, len_b)?));
    }
    Ok(terms)
}
