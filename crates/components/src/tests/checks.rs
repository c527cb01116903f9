//! The check itself: it finds what is wrong with methods that are wrong on purpose.

use std::cell::Cell;

use shardgraph_autodiff::{Axis, Ctx, ParamId, Params, Shape, Var};

use super::{choices, rows, rows_over_time};
use crate::{CheckError, Error, check};

fn params() -> (Params, ParamId) {
    let mut params = Params::new();
    let mut next = 0.2;
    let w = params.add("w", Shape::new(3, 2), || {
        next += 0.1;
        next
    });
    (params, w)
}

fn difference(result: Result<crate::Checked, CheckError>) -> String {
    let error = result.expect_err("the check finds it");
    match &error {
        CheckError::Differs {
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
        (checked.n_derivatives, checked.n_unclear),
        (3 * 6 + 3 + 16 + 16, 0)
    );
    assert!(checked.n_operations > 10);
}

/// The calls of a method in the first case: shape check, eager, eager, plan; after them the
/// differences.
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

/// The gradient of this method lacks a term that its values have: what a wrong adjoint looks like
/// from outside.
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

/// A method of an input and a parameter, by name.
type Named = (
    &'static str,
    fn(&mut dyn Ctx, Var, Var) -> Result<Var, Error>,
);

const METHODS: [Named; 6] = [
    ("tanh", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        Ok(ctx.tanh(y)?)
    }),
    ("relu", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        let (part, above) = (ctx.scale(y, 0.25)?, ctx.relu(y)?);
        Ok(ctx.add(part, above)?)
    }),
    ("log_softmax", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        Ok(ctx.log_softmax(y)?)
    }),
    ("quotient", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        let below = ctx.exp(y)?;
        Ok(ctx.div(y, below)?)
    }),
    ("huber", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        let zero = ctx.scale(y, 0.0)?;
        let delta = 0.5;
        let loss = shardgraph_autodiff::ops::Loss::Huber { delta };
        Ok(ctx.loss(loss, y, zero)?)
    }),
    ("small", |ctx, x, w| {
        let y = ctx.matmul(x, w)?;
        let y = ctx.sigmoid(y)?;
        Ok(ctx.scale(y, 1e-5)?)
    }),
];

/// A part in a hundred is more than differences are off, whatever the size of the derivatives.
#[test]
fn a_slightly_wrong_gradient_is_found() {
    let (params, w) = params();
    for (name, method) in METHODS {
        let right = check("right", &params, &[rows(3)], 1, |ctx, x| {
            let w = ctx.param(w)?;
            Ok(vec![method(ctx, x[0], w)?])
        });
        let right = right.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            right.n_derivatives > 9 * right.n_unclear,
            "{name}: {right:?}"
        );
        for factor in [1.01, 0.99, 1.1, 0.5, -1.0, 0.0] {
            let method = counted(
                |now| now <= 4,
                move |ctx, x, is_wrong| {
                    let w = ctx.param(w)?;
                    let y = method(ctx, x[0], w)?;
                    let constant = ctx.detach(y)?;
                    let [part, rest] = match is_wrong {
                        true => [ctx.scale(y, factor)?, ctx.scale(constant, 1.0 - factor)?],
                        false => [y, ctx.scale(constant, 0.0)?],
                    };
                    Ok(vec![ctx.add(part, rest)?])
                },
            );
            let found = difference(check("wrong", &params, &[rows(3)], 1, method));
            let expected = "the derivative by w[";
            assert!(
                found.starts_with(expected),
                "{name} times {factor}: {found}"
            );
        }
    }
}

/// One element of one parameter, and one that is smaller than the others.
#[test]
fn a_wrong_derivative_among_right_ones_is_found() {
    let params = Params::new();
    let method = counted(
        |now| now <= 4,
        |ctx, x, is_wrong| {
            let small = ctx.slice(x[0], Axis::Cols, 2, 1)?;
            let small = ctx.scale(small, 0.2)?;
            let rest = ctx.slice(x[0], Axis::Cols, 0, 2)?;
            let constant = ctx.detach(small)?;
            let wrong = ctx.scale(small, 1.02)?;
            let constant = ctx.scale(constant, -0.02)?;
            let small = match is_wrong {
                true => ctx.add(wrong, constant)?,
                false => small,
            };
            let all = ctx.concat(rest, small, Axis::Cols)?;
            Ok(vec![ctx.tanh(all)?])
        },
    );
    let found = difference(check("wrong", &params, &[rows(3)], 1, method));
    assert!(found.starts_with("the derivative by input 0[2]"), "{found}");
}

/// What rounding hides is not taken for right: all of it, or a part in thirty, in which an error of
/// one in a hundred has room.
#[test]
fn derivatives_that_rounding_hides_are_not_counted() {
    for (offset, factor) in [(1000.0, 1e-4), (1.0, 1e-3)] {
        let found = difference(check("wrong", &Params::new(), &[rows(3)], 1, |ctx, x| {
            let small = ctx.tanh(x[0])?;
            let small = ctx.scale(small, factor)?;
            let shape = ctx.shape(small);
            let large = ctx.input(shape, &vec![offset; shape.len()])?;
            Ok(vec![ctx.add(large, small)?])
        }));
        assert!(found.contains("could be compared"), "{offset}: {found}");
    }
}

#[test]
fn what_is_detached_or_chosen_is_held_constant() {
    let (params, w) = params();
    let checked = check("right", &params, &[rows(3), choices(2)], 1, |ctx, x| {
        let w = ctx.param(w)?;
        let y = ctx.matmul(x[0], w)?;
        let best = ctx.argmax_rows(y)?;
        let constant = ctx.detach(y)?;
        let loss = shardgraph_autodiff::ops::Loss::Mse;
        let (a, b) = (ctx.mul(y, best)?, ctx.mul(y, constant)?);
        Ok(vec![a, b, ctx.loss(loss, y, x[1])?])
    });
    assert_eq!(checked.unwrap().n_unclear, 0);
}

/// What is added to all of a row's logits changes no probability: nothing but rounding is left of
/// its derivative.
#[test]
fn a_derivative_of_nothing_is_right() {
    let mut params = Params::new();
    let shift = params.add("shift", Shape::new(1, 3), || 0.5);
    let checked = check("right", &params, &[rows(3)], 1, |ctx, x| {
        let (shift, sums) = (ctx.param(shift)?, ctx.input(Shape::new(3, 3), &[1.0; 9])?);
        let shift = ctx.matmul(shift, sums)?;
        let moved = ctx.add_row(x[0], shift)?;
        Ok(vec![ctx.log_softmax(moved)?])
    });
    let checked = checked.unwrap();
    assert!(checked.n_derivatives > 4 * checked.n_unclear, "{checked:?}");
}

/// relu at 0 in the first columns.
fn kinks_in(n_columns: usize, ctx: &mut dyn Ctx, x: Var) -> Result<Vec<Var>, Error> {
    let n_rest = ctx.shape(x).cols - n_columns;
    let first = ctx.slice(x, Axis::Cols, 0, n_columns)?;
    let base = ctx.detach(first)?;
    let at_the_kink = ctx.sub(first, base)?;
    let rest = ctx.slice(x, Axis::Cols, n_columns, n_rest)?;
    Ok(vec![ctx.relu(at_the_kink)?, ctx.tanh(rest)?])
}

#[test]
fn kinks_are_counted_and_not_taken_for_errors() {
    let of = |n_columns| {
        check("wrong", &Params::new(), &[rows(8)], 1, |ctx, x| {
            kinks_in(n_columns, ctx, x[0])
        })
    };
    let checked = of(1).unwrap();
    assert_eq!(checked.n_unclear + checked.n_derivatives, 8 + 16 + 16);
    assert!((1..=10).contains(&checked.n_unclear), "{checked:?}");
    let found = difference(of(5));
    assert!(
        found.contains("of 40 derivatives could not be compared, more than 1 in 4"),
        "{found}"
    );
    let found = difference(of(8));
    assert!(
        found.contains("not one of 40 derivatives by input 0 could be compared"),
        "{found}"
    );
}

/// Of a parameter that only kinks depend on, nothing is known, however many others are right.
#[test]
fn every_parameter_and_input_is_compared_somewhere() {
    let found = difference(check(
        "wrong",
        &Params::new(),
        &[rows(1), rows(8)],
        1,
        |ctx, x| {
            let mut results = kinks_in(1, ctx, x[0])?;
            results.push(ctx.tanh(x[1])?);
            Ok(results)
        },
    ));
    assert!(
        found.contains("derivatives by input 0 could be compared"),
        "{found}"
    );
}

/// A kink anywhere near: `relu(x - base + offset)` has its corner at `-offset`.
#[test]
fn a_kink_at_any_distance_is_no_error() {
    for exponent in 2..14 {
        for sign in [1.0, -1.0] {
            let offset = sign * 0.8f32.powi(2 * exponent);
            let checked = check("right", &Params::new(), &[rows(8)], 1, |ctx, x| {
                let first = ctx.slice(x[0], Axis::Cols, 0, 1)?;
                let base = ctx.detach(first)?;
                let near = ctx.sub(first, base)?;
                let shape = ctx.shape(near);
                let offset = ctx.input(shape, &vec![offset; shape.rows])?;
                let near = ctx.add(near, offset)?;
                Ok(vec![ctx.relu(near)?, ctx.tanh(x[0])?])
            });
            checked.unwrap_or_else(|error| panic!("{offset}: {error}"));
        }
    }
}

#[test]
fn results_that_are_not_finite_are_found() {
    let found = difference(check("wrong", &Params::new(), &[rows(1)], 1, |ctx, x| {
        let negative = ctx.mul(x[0], x[0])?;
        let negative = ctx.scale(negative, -1.0)?;
        Ok(vec![ctx.log(negative)?])
    }));
    assert!(found.starts_with("result 0, element 0 is NaN"), "{found}");
    let found = difference(check("wrong", &Params::new(), &[rows(1)], 1, |ctx, x| {
        let zero = ctx.scale(x[0], 0.0)?;
        let log = ctx.log(zero)?;
        Ok(vec![ctx.exp(log)?]) // 0 again, by a slope of 1 / 0
    }));
    let expected = "the gradient by input 0, element 0 is NaN";
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn the_methods_own_errors_come_through() {
    let (params, w) = params();
    let error = check("wrong", &params, &[rows(4)], 1, |ctx, x| {
        let w = ctx.param(w)?;
        Ok(vec![ctx.matmul(x[0], w)?])
    });
    let error = error.unwrap_err();
    assert!(
        matches!(error, CheckError::Component(Error::Autodiff(_))),
        "{error}"
    );
    let graphs = super::CheckedRows::of(super::Space::graph(1, 0).unwrap());
    let error = check("wrong", &params, &[graphs], 1, |_, x| Ok(x.to_vec()));
    assert!(matches!(
        error.unwrap_err(),
        CheckError::Component(Error::Environments(_))
    ));
}

#[test]
fn a_method_without_parameters_or_results_is_fine() {
    let params = Params::new();
    let checked = check("empty", &params, &[], 1, |_, _| Ok(vec![])).unwrap();
    assert_eq!((checked.n_derivatives, checked.n_unclear), (0, 0));
}
