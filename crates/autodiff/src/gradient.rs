//! Reverse-mode differentiation, written once: each operation's adjoint is made of operations.

use crate::{Adjoint, Ctx, Error, Op, Shape, Var};

/// The derivatives of `loss` by each variable of `wrt`, or `None` where the loss does not depend on it.
///
/// The derivative of a replicated variable is replicated, that of a sharded one is sharded alike. Derivatives are new
/// values of the same interpreter, so a gradient can be checked for shapes without being computed.
///
/// # Errors
/// When `loss` is not `[1, 1]`, when an operation fails, or for the second derivative of a loss.
/// # Complexity
/// A few operations for each one between `wrt` and `loss`, and an addition for each repeated use.
pub fn gradient(ctx: &mut dyn Ctx, loss: Var, wrt: &[Var]) -> Result<Vec<Option<Var>>, Error> {
    if ctx.shape(loss) != Shape::new(1, 1) {
        return Err(Error::Shape {
            op: "gradient",
            given: vec![ctx.shape(loss)],
            expected: "the loss is [1, 1]".to_string(),
        });
    }
    let needed = depends_on(ctx, loss, wrt);
    let mut adjoints: Vec<Option<Var>> = vec![None; loss.index() + 1];
    adjoints[loss.index()] = Some(ctx.input(Shape::new(1, 1), &[1.0])?);
    for index in (0..=loss.index()).rev() {
        let Some(dy) = adjoints[index].filter(|_| needed[index]) else {
            continue;
        };
        let y = Var(index as u32);
        let Op::Apply {
            operation,
            operands,
        } = ctx.op(y).clone()
        else {
            continue;
        };
        if operation.is_constant() {
            continue;
        }
        let wanted: Vec<bool> = operands.iter().map(|x| needed[x.index()]).collect();
        let at = Adjoint {
            operands: &operands,
            y,
            dy,
            wanted: &wanted,
        };
        let terms = operation.adjoint(ctx, &at)?;
        for (operand, term) in operands.iter().zip(terms) {
            let Some(term) = term else { continue };
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

/// For each value up to `loss`, whether it depends on a variable of `wrt`.
fn depends_on(ctx: &dyn Ctx, loss: Var, wrt: &[Var]) -> Vec<bool> {
    let mut depends = vec![false; loss.index() + 1];
    for index in 0..=loss.index() {
        let var = Var(index as u32);
        let op = ctx.op(var);
        let is_constant = op
            .operation()
            .is_some_and(|operation| operation.is_constant());
        let by_operands = !is_constant && op.operands().iter().any(|x| depends[x.index()]);
        depends[index] = wrt.contains(&var) || by_operands;
    }
    depends
}
