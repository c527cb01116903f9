//! The shape of every operation's result, worked out before any memory is taken.

use std::cmp::Ordering;

use shardgraph_device::{Binary, Loss, Unary};

use crate::{Axis, BatchLayout, Error, ErrorKind, Op, ParamId, Params, Shape, Var};

/// The rank's place in the world, for the operations whose shapes depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

/// Adds an operation to those that are written down and not computed, unless it is a parameter that is there already.
pub(crate) fn write_down(
    nodes: &mut Vec<(Op, Shape)>,
    op: Op,
    params: &Params,
    world: World,
) -> Result<Var, Error> {
    if let Op::Param(id) = op
        && let Some(var) = known_param(nodes, id)
    {
        return Ok(var);
    }
    let shape = infer(
        &op,
        |var| nodes[var.index()].1,
        |id| params.shape(id),
        world,
    )?;
    nodes.push((op, shape));
    Ok(Var(nodes.len() as u32 - 1))
}

/// The variable that already stands for a parameter: all its uses share one, and so one gradient.
pub(crate) fn known_param(nodes: &[(Op, Shape)], id: ParamId) -> Option<Var> {
    let is_it = |node: &(Op, Shape)| matches!(node.0, Op::Param(other) if other == id);
    nodes.iter().position(is_it).map(|i| Var(i as u32))
}

/// Whether an input is given as many values as it has elements.
pub(crate) fn check_values(op: &'static str, shape: Shape, given: usize) -> Result<(), Error> {
    match given == shape.len() {
        true => Ok(()),
        false => Err(ErrorKind::Shape {
            op,
            given: vec![shape],
            expected: format!("{given} values were given"),
        }
        .into()),
    }
}

/// The result's shape.
pub(crate) fn infer(
    op: &Op,
    shape: impl Fn(Var) -> Shape,
    param: impl Fn(ParamId) -> Shape,
    world: World,
) -> Result<Shape, Error> {
    let given: Vec<Shape> = op.operands().into_iter().map(&shape).collect();
    let result = match op {
        Op::Input(leaf) => Ok(leaf.shape),
        Op::Param(id) => Ok(param(*id)),
        Op::MatMul {
            transpose_a,
            transpose_b,
            ..
        } => matmul(given[0], *transpose_a, given[1], *transpose_b),
        Op::ShardMatMul {
            transpose_w,
            layout,
            ..
        } => layout_rows(given[0], layout).and_then(|x| matmul(x, false, given[1], *transpose_w)),
        Op::ShardOuter { layout, .. } => layout_rows(given[0], layout)
            .and_then(|x| layout_rows(given[1], layout).map(|y| Shape::new(x.cols, y.cols))),
        Op::Linear { .. } => linear(given[0], given[1], given[2]),
        Op::Unary { .. } | Op::Binary { .. } => bounds(op).and_then(|()| same(&given)),
        Op::Scale { .. }
        | Op::Relu { .. }
        | Op::LogSoftmax { .. }
        | Op::ArgmaxRows { .. }
        | Op::Detach { .. }
        | Op::AllReduce { .. }
        | Op::Enter { .. } => Ok(given[0]),
        Op::Concat { axis, .. } => concat(given[0], given[1], *axis),
        Op::Slice {
            axis, start, len, ..
        } => slice(given[0], *axis, *start, *len),
        Op::Pad {
            axis, start, total, ..
        } => pad(given[0], *axis, *start, *total),
        Op::Gather { index, .. } => {
            in_table(index, given[0].rows).map(|()| Shape::new(index.len(), given[0].cols))
        }
        Op::Scatter { index, n_rows, .. } => scatter(given[0], index, *n_rows),
        Op::SumRows { .. } => Ok(Shape::new(1, given[0].cols)),
        Op::RepeatRow { n_rows, .. } => match given[0].rows {
            1 => Ok(Shape::new(*n_rows, given[0].cols)),
            _ => Err("a single row is expected".to_string()),
        },
        Op::StateSum { layout, .. } => {
            layout_rows(given[0], layout).map(|x| Shape::new(layout.n_states(), x.cols))
        }
        Op::StateBroadcast { layout, .. } => match given[0].rows == layout.n_states() {
            true => Ok(Shape::new(layout.n_rows(), given[0].cols)),
            false => Err(format!(
                "{} rows, one a state, are expected",
                layout.n_states()
            )),
        },
        Op::Propagate { graphs, .. } => layout_rows(given[0], graphs.layout()),
        Op::AllGather { counts, .. } => gathered(given[0], counts, world, true),
        Op::ReduceScatter { counts, .. } => gathered(given[0], counts, world, false),
        Op::Loss { loss, .. } => delta(*loss).and_then(|()| same(&given).map(|_| Shape::new(1, 1))),
        Op::LossGrad { .. } => match given[2] == Shape::new(1, 1) {
            true => same(&given[..2]),
            false => Err("the upstream derivative is [1, 1]".to_string()),
        },
    };
    result.map_err(|expected| {
        ErrorKind::Shape {
            op: op.name(),
            given,
            expected,
        }
        .into()
    })
}

type Rule = Result<Shape, String>;

fn matmul(a: Shape, transpose_a: bool, b: Shape, transpose_b: bool) -> Rule {
    let (rows, inner) = if transpose_a {
        (a.cols, a.rows)
    } else {
        (a.rows, a.cols)
    };
    let (inner_b, cols) = if transpose_b {
        (b.cols, b.rows)
    } else {
        (b.rows, b.cols)
    };
    if inner == inner_b {
        Ok(Shape::new(rows, cols))
    } else {
        Err(format!(
            "the inner dimensions {inner} and {inner_b} must be equal"
        ))
    }
}

fn linear(x: Shape, w: Shape, b: Shape) -> Rule {
    let product = matmul(x, false, w, false)?;
    match b == Shape::new(1, product.cols) {
        true => Ok(product),
        false => Err(format!("the added row is [1, {}]", product.cols)),
    }
}

/// Whether the bounds of an element-wise operation ascend, if it has any.
fn bounds(op: &Op) -> Result<(), String> {
    match op {
        Op::Unary {
            op: Unary::Clamp { low, high },
            ..
        }
        | Op::Binary {
            op: Binary::WhereInside { low, high },
            ..
        } if low.partial_cmp(high).is_none_or(Ordering::is_gt) => {
            Err(format!("the bounds {low} and {high} must ascend"))
        }
        _ => Ok(()),
    }
}

/// Whether a loss turns linear somewhere above 0, if it does.
fn delta(loss: Loss) -> Result<(), String> {
    match loss {
        Loss::Huber { delta } if delta.is_nan() || delta <= 0.0 => {
            Err(format!("the delta {delta} of a Huber loss must be above 0"))
        }
        _ => Ok(()),
    }
}

fn layout_rows(x: Shape, layout: &BatchLayout) -> Rule {
    if x.rows == layout.n_rows() {
        Ok(x)
    } else {
        Err(format!(
            "this rank has {} rows of the batch",
            layout.n_rows()
        ))
    }
}

fn same(shapes: &[Shape]) -> Rule {
    if shapes.windows(2).all(|pair| pair[0] == pair[1]) {
        Ok(shapes[0])
    } else {
        Err("equal shapes are expected".to_string())
    }
}

fn concat(a: Shape, b: Shape, axis: Axis) -> Rule {
    match axis {
        Axis::Rows if a.cols == b.cols => Ok(Shape::new(a.rows + b.rows, a.cols)),
        Axis::Cols if a.rows == b.rows => Ok(Shape::new(a.rows, a.cols + b.cols)),
        Axis::Rows => Err("equal numbers of columns are expected".to_string()),
        Axis::Cols => Err("equal numbers of rows are expected".to_string()),
    }
}

fn along(x: Shape, axis: Axis) -> usize {
    match axis {
        Axis::Rows => x.rows,
        Axis::Cols => x.cols,
    }
}

fn with_length(x: Shape, axis: Axis, len: usize) -> Shape {
    match axis {
        Axis::Rows => Shape::new(len, x.cols),
        Axis::Cols => Shape::new(x.rows, len),
    }
}

fn slice(x: Shape, axis: Axis, start: usize, len: usize) -> Rule {
    match start.checked_add(len) {
        Some(end) if end <= along(x, axis) => Ok(with_length(x, axis, len)),
        _ => Err(format!("a slice of {len} from {start} must lie inside")),
    }
}

fn pad(x: Shape, axis: Axis, start: usize, total: usize) -> Rule {
    match start.checked_add(along(x, axis)) {
        Some(end) if end <= total => Ok(with_length(x, axis, total)),
        _ => Err(format!("it must fit into {total} from {start}")),
    }
}

fn in_table(index: &[u32], n_rows: usize) -> Result<(), String> {
    match index
        .iter()
        .find(|&&i| i != u32::MAX && i as usize >= n_rows)
    {
        None => Ok(()),
        Some(i) => Err(format!("row {i} does not exist")),
    }
}

fn scatter(x: Shape, index: &[u32], n_rows: usize) -> Rule {
    if index.len() != x.rows {
        return Err(format!("{} rows, one an index, are expected", index.len()));
    }
    in_table(index, n_rows).map(|()| Shape::new(n_rows, x.cols))
}

/// Own rows to all rows (`whole`), or all rows to own rows.
fn gathered(x: Shape, counts: &[usize], world: World, whole: bool) -> Rule {
    if counts.len() != world.size as usize {
        return Err(format!(
            "one row count for each of the {} ranks is expected, {} are given",
            world.size,
            counts.len()
        ));
    }
    let (own, all) = (counts[world.rank as usize], counts.iter().sum());
    let (wanted, result) = if whole { (own, all) } else { (all, own) };
    if x.rows == wanted {
        Ok(Shape::new(result, x.cols))
    } else {
        Err(format!("{wanted} rows are expected"))
    }
}
