//! The check itself: it finds what is wrong with methods that are wrong on purpose.

use std::cell::Cell;

use shardgraph_autodiff::{Axis, Ctx, ParamId, Params, Shape, Var};

use super::{choices, rows, rows_over_time};
use crate::{Error, ErrorKind, check};

fn params() -> (Params, ParamId) {
    let mut params = Params::new();
    let mut next = 0.2;
    let w = params.add("w", Shape::new(3, 2), || {
        next += 0.1;
        next
    });
    (params, w)
}

fn difference(result: Result<crate::Checked, Error>) -> String {
    let error = result.err().expect("the check finds it");
    match error.kind() {
        ErrorKind::Check {
            component,
            difference,
        } => {
            assert_eq!(component, "wrong");
            difference.clone()
        }
        _ => panic!("{error}"),
    }
}

#[test]
fn it_says_what_it_looked_at() {
    let (params, w) = params();
    let checked = check("right", &params, &[rows_over_time(3)], 1, |ctx, x| {
        let w = ctx.param(w)?;
        let y = ctx.matmul(x[0], w)?;
        Ok(vec![ctx.tanh(y)?, x[0]])
    });
    let checked = checked.unwrap();
    assert_eq!(checked.shapes, [Shape::new(10, 2), Shape::new(10, 3)]);
    // The parameter's 6 and of the inputs 3, 16 of 18, 16 of 30.
    assert_eq!(
        (checked.n_derivatives, checked.n_kinks),
        (3 * 6 + 3 + 16 + 16, 0)
    );
    assert!(checked.n_operations > 10);
}

/// The calls of a method in the first case: shape check, eager, eager, plan; after them the differences.
fn counted<'a>(
    wrong: impl Fn(u32) -> bool + 'a,
    method: impl Fn(&mut dyn Ctx, &[Var], bool) -> Result<Vec<Var>, Error> + 'a,
) -> impl Fn(&mut dyn Ctx, &[Var]) -> Result<Vec<Var>, Error> + 'a {
    let n_calls = Cell::new(0);
    move |ctx, x| {
        n_calls.set(n_calls.get() + 1);
        method(ctx, x, wrong(n_calls.get()))
    }
}

#[test]
fn a_method_that_differs_from_run_to_run_is_found() {
    let (params, w) = params();
    for (call, other) in [(3, "another"), (4, "the plan")] {
        let method = counted(
            |now| now == call,
            |ctx, x, is_wrong| {
                let w = ctx.param(w)?;
                let y = ctx.matmul(x[0], w)?;
                Ok(vec![ctx.scale(y, if is_wrong { 1.5 } else { 1.0 })?])
            },
        );
        let found = difference(check("wrong", &params, &[rows(3)], 1, method));
        assert!(
            found.starts_with("result 0, element 0: an eager run gives"),
            "{found}"
        );
        assert!(found.contains(&format!(", {other} ")), "{found}");
        assert!(found.ends_with("(batch 1, 1 time steps)"), "{found}");
    }
}

#[test]
fn shapes_that_differ_are_found() {
    for call in [1, 2, 3, 4] {
        let method = counted(
            |now| now == call,
            |ctx, x, is_wrong| match is_wrong {
                true => Ok(vec![ctx.slice(x[0], Axis::Cols, 0, 2)?]),
                false => Ok(vec![x[0]]),
            },
        );
        let found = difference(check("wrong", &Params::new(), &[rows(3)], 1, method));
        let (one, other) = if call == 1 { (2, 3) } else { (3, 2) };
        let expected =
            format!("the shapes are [1, {one}] for the shape check, [1, {other}] for a run");
        assert!(found.starts_with(&expected), "{found}");
    }
}

/// The gradient of this method lacks a term that its values have: what a wrong adjoint looks like from outside.
#[test]
fn a_wrong_gradient_is_found() {
    let (params, w) = params();
    let method = counted(
        |now| now <= 4,
        |ctx, x, is_wrong| {
            let w = ctx.param(w)?;
            let y = ctx.matmul(x[0], w)?;
            let squashed = ctx.tanh(y)?;
            let other = match is_wrong {
                true => ctx.detach(y)?,
                false => y,
            };
            Ok(vec![ctx.mul(squashed, other)?])
        },
    );
    let found = difference(check("wrong", &params, &[rows(3)], 1, method));
    assert!(found.starts_with("the derivative by w["), "{found}");
    assert!(found.contains("differences say"), "{found}");
}

/// A part in a hundred is more than differences of smooth functions are off.
#[test]
fn a_slightly_wrong_gradient_is_found() {
    let (params, w) = params();
    let method = counted(
        |now| now <= 4,
        |ctx, x, is_wrong| {
            let w = ctx.param(w)?;
            let y = ctx.matmul(x[0], w)?;
            let y = ctx.sigmoid(y)?;
            let part = match is_wrong {
                true => ctx.detach(y)?,
                false => y,
            };
            let (most, part) = (ctx.scale(y, 0.9375)?, ctx.scale(part, 0.0625)?);
            Ok(vec![ctx.add(most, part)?])
        },
    );
    let found = difference(check("wrong", &params, &[rows(3)], 1, method));
    assert!(found.starts_with("the derivative by w["), "{found}");
}

#[test]
fn what_is_detached_or_chosen_is_held_constant() {
    let (params, w) = params();
    let checked = check("right", &params, &[rows(3), choices(2)], 1, |ctx, x| {
        let w = ctx.param(w)?;
        let y = ctx.matmul(x[0], w)?;
        let best = ctx.argmax_rows(y)?;
        let constant = ctx.detach(y)?;
        let loss = shardgraph_autodiff::device::Loss::Mse;
        let (a, b) = (ctx.mul(y, best)?, ctx.mul(y, constant)?);
        Ok(vec![a, b, ctx.loss(loss, y, x[1])?])
    });
    assert_eq!(checked.unwrap().n_kinks, 0);
}

#[test]
fn kinks_are_counted_and_not_taken_for_errors() {
    let checked = check("right", &Params::new(), &[rows(3)], 1, |ctx, x| {
        let base = ctx.detach(x[0])?;
        let at_the_kink = ctx.sub(x[0], base)?;
        Ok(vec![ctx.relu(at_the_kink)?, ctx.tanh(x[0])?])
    });
    let found = checked.unwrap_err().to_string();
    assert!(
        found.contains("not one derivative could be compared"),
        "{found}"
    );
    let checked = check("right", &Params::new(), &[rows(3), rows(2)], 1, |ctx, x| {
        let base = ctx.detach(x[0])?;
        let at_the_kink = ctx.sub(x[0], base)?;
        let smooth = ctx.tanh(x[1])?;
        Ok(vec![ctx.relu(at_the_kink)?, smooth])
    });
    let checked = checked.unwrap();
    assert_eq!(
        (checked.n_kinks, checked.n_derivatives),
        (3 + 9 + 6, 2 + 6 + 4)
    );
}

#[test]
fn results_that_are_not_finite_are_found() {
    let found = difference(check("wrong", &Params::new(), &[rows(1)], 1, |ctx, x| {
        let negative = ctx.mul(x[0], x[0])?;
        let negative = ctx.scale(negative, -1.0)?;
        Ok(vec![ctx.log(negative)?])
    }));
    assert!(found.starts_with("result 0, element 0 is NaN"), "{found}");
}

#[test]
fn the_methods_own_errors_come_through() {
    let (params, w) = params();
    let error = check("wrong", &params, &[rows(4)], 1, |ctx, x| {
        let w = ctx.param(w)?;
        Ok(vec![ctx.matmul(x[0], w)?])
    });
    let error = error.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Autodiff(_)), "{error}");
    let graphs = super::RankedSpace::new(super::Space::graph(1, 0).unwrap()).with_batch();
    let error = check("wrong", &params, &[graphs], 1, |_, x| Ok(x.to_vec()));
    assert!(matches!(
        error.unwrap_err().kind(),
        ErrorKind::Environments(_)
    ));
}

#[test]
fn a_method_without_parameters_or_results_is_fine() {
    let params = Params::new();
    let checked = check("empty", &params, &[], 1, |_, _| Ok(vec![])).unwrap();
    assert_eq!((checked.n_derivatives, checked.n_kinks), (0, 0));
}
