//! Random operations on replicated values.

use std::sync::Arc;

use shardgraph_ops::{Binary, Unary};

use crate::{Axis, Ctx, Error, Plan, Shape, Var};

/// One random operation: which, and three choices of operands and numbers.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// Which operation.
    pub kind: u8,
    /// The first operand.
    pub a: u8,
    /// The second operand or a number.
    pub b: u8,
    /// The third operand or a number.
    pub c: u8,
}

impl From<[u8; 4]> for Choice {
    fn from([kind, a, b, c]: [u8; 4]) -> Self {
        Self { kind, a, b, c }
    }
}

/// A value of the pool.
pub fn pick(pool: &[Var], choice: u8) -> Var {
    pool[choice as usize % pool.len()]
}

/// The first value from the choice on that fits.
pub fn fitting(pool: &[Var], choice: u8, fits: impl Fn(Var) -> bool) -> Option<Var> {
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

/// An element-wise operation of two values of one shape.
///
/// # Errors
/// Those of the context.
pub fn binary(ctx: &mut dyn Ctx, pool: &[Var], choice: Choice) -> Result<Option<Var>, Error> {
    let Choice { a, b, c, .. } = choice;
    let a = pick(pool, a);
    let b = fitting(pool, b, |b| ctx.shape(b) == ctx.shape(a)).unwrap_or(a);
    let op = [Binary::Add, Binary::Sub, Binary::Mul, Binary::WherePositive][c as usize % 4];
    ctx.binary(op, a, b).map(Some)
}

/// A replicated result of replicated operands.
///
/// # Errors
/// The interpreter's.
pub fn random_op(
    ctx: &mut dyn Ctx,
    pool: &[Var],
    n_ranks: usize,
    choice: Choice,
) -> Result<Option<Var>, Error> {
    let Choice { kind, a, b, .. } = choice;
    let x = pick(pool, a);
    let shape = ctx.shape(x);
    match kind % 24 {
        0 => product(ctx, pool, choice),
        1 | 2 => binary(ctx, pool, choice),
        3 => ctx.scale(x, f32::from(b % 5) * 0.5 - 1.0).map(Some),
        4 => ctx.relu(x).map(Some),
        10 => ctx.sum_rows(x).map(Some),
        11 => match fitting(pool, a, |x| ctx.shape(x).rows == 1) {
            Some(x) => ctx.repeat_row(x, 1 + b as usize % 6).map(Some),
            None => Ok(None),
        },
        12 => ctx.all_reduce(x).map(Some),
        13 => ctx.copy_to_ranks(x).map(Some),
        14 => ctx
            .all_gather(x, vec![shape.rows; n_ranks].into())
            .map(Some),
        15 if shape.rows.is_multiple_of(n_ranks) => {
            let counts = vec![shape.rows / n_ranks; n_ranks];
            ctx.reduce_scatter(x, counts.into()).map(Some)
        }
        15 => Ok(None),
        16..=20 => function(ctx, pool, choice).map(Some),
        21 => linear(ctx, pool, choice),
        22 => ctx.row_sums(x).map(Some),
        23 => match fitting(pool, a, |x| ctx.shape(x).cols == 1) {
            Some(x) => ctx.broadcast_column(x, 1 + b as usize % 6).map(Some),
            None => Ok(None),
        },
        _ => rearranged(ctx, pool, choice).map(Some),
    }
}

/// Functions of one element or one row, on numbers for which they are no larger than what they are given.
fn function(ctx: &mut dyn Ctx, pool: &[Var], choice: Choice) -> Result<Var, Error> {
    let Choice { kind, a, b, c } = choice;
    let x = pick(pool, a);
    match kind % 24 {
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

fn linear(ctx: &mut dyn Ctx, pool: &[Var], choice: Choice) -> Result<Option<Var>, Error> {
    let Choice { a, b, c, .. } = choice;
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

fn product(ctx: &mut dyn Ctx, pool: &[Var], choice: Choice) -> Result<Option<Var>, Error> {
    let Choice { a, b, c, .. } = choice;
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

/// A value that can stand below or beside `x`.
fn neighbour(ctx: &dyn Ctx, pool: &[Var], x: Var, choice: u8, axis: Axis) -> Var {
    let shape = ctx.shape(x);
    let fits = |y: Var| match axis {
        Axis::Rows => ctx.shape(y).cols == shape.cols,
        Axis::Cols => ctx.shape(y).rows == shape.rows,
    };
    fitting(pool, choice, fits).unwrap_or(x)
}

/// Elements in other places: joined, cut, padded, gathered, scattered.
fn rearranged(ctx: &mut dyn Ctx, pool: &[Var], choice: Choice) -> Result<Var, Error> {
    let Choice { kind, a, b, c } = choice;
    let x = pick(pool, a);
    let (shape, axis) = (ctx.shape(x), axis(c));
    let (n_rows, b) = (shape.rows, b as usize);
    let len = shape.along(axis);
    match kind % 24 {
        5 => {
            let below = neighbour(ctx, pool, x, b as u8, axis);
            ctx.concat(x, below, axis)
        }
        6 => {
            let start = b % len;
            ctx.slice(x, axis, start, 1 + c as usize % (len - start))
        }
        7 => ctx.pad(x, axis, b % 3, b % 3 + len + c as usize % 3),
        8 => ctx.gather(x, index(n_rows, 1 + b % 9, c)),
        _ => ctx.scatter(x, index(1 + b % 7, n_rows, c), 1 + b % 7),
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

/// Checks that no two values whose lifetimes meet share an element: lifetimes are found again from the steps.
///
/// # Panics
/// Where two share one.
pub fn slots_are_apart(plan: &Plan) {
    let last_use = |i: usize| {
        let node = plan.steps[i].node;
        let reads = |step: &crate::plan::Step| step.reads.contains(&node);
        let named = plan.outputs.named.iter().map(|(_, var)| *var);
        let mut outputs = named.chain(plan.outputs.gradient.iter().flatten().flatten().copied());
        match outputs.any(|var| plan.alias_of[var.index()] == node) {
            true => plan.steps.len(),
            false => plan.steps.iter().rposition(reads).unwrap_or(i).max(i),
        }
    };
    let last: Vec<usize> = (0..plan.steps.len()).map(last_use).collect();
    for (i, a) in plan.steps.iter().enumerate() {
        assert_eq!(a.slot.len(), plan.nodes[a.node as usize].1.len());
        for (j, b) in plan.steps.iter().enumerate().skip(i + 1) {
            let overlap = a.slot.start < b.slot.end && b.slot.start < a.slot.end;
            let is_empty = a.slot.is_empty() || b.slot.is_empty();
            assert!(is_empty || !overlap || last[i] < j, "steps {i} and {j}");
        }
    }
}
