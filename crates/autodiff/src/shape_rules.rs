//! The shape of every result, found before any memory is taken.

use crate::{Error, Op, ParamId, Params, Shape, Var, World};

/// Adds an operation to those that are recorded and not computed, unless it is a parameter that is there already.
pub(crate) fn push(
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
    let shape = infer(&op, |var| nodes[var.index()].1, params, world)?;
    nodes.push((op, shape));
    Ok(Var(nodes.len() as u32 - 1))
}

/// The variable of a parameter that was used before: all its uses share one, and so one gradient.
pub(crate) fn known_param(nodes: &[(Op, Shape)], id: ParamId) -> Option<Var> {
    let is_it = |node: &(Op, Shape)| matches!(node.0, Op::Param(other) if other == id);
    nodes.iter().position(is_it).map(|i| Var(i as u32))
}

/// Refuses another number of values than a shape has elements.
pub(crate) fn check_values(op: &'static str, shape: Shape, given: usize) -> Result<(), Error> {
    match given == shape.len() {
        true => Ok(()),
        false => Err(Error::Shape {
            op,
            given: vec![shape],
            expected: format!("{given} values were given"),
        }),
    }
}

/// The result's shape.
pub(crate) fn infer(
    op: &Op,
    shape: impl Fn(Var) -> Shape,
    params: &Params,
    world: World,
) -> Result<Shape, Error> {
    match op {
        Op::Input(leaf) => Ok(leaf.shape),
        Op::Param(id) => Ok(params.shape(*id)),
        Op::Apply {
            operation,
            operands,
        } => {
            let given: Vec<Shape> = operands.iter().map(|&var| shape(var)).collect();
            let result = operation.shape(&given, world);
            result.map_err(|expected| Error::Shape {
                op: operation.name(),
                given,
                expected,
            })
        }
    }
}
