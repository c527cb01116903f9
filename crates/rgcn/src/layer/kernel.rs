//! The two passes of a layer over its sources: messages forward, gradients backward.
//!
//! A pass loads each source once, works through its relations, and is done with it: nothing of the
//! size of relations times nodes exists. The products use no fused multiply-add and tiles do not
//! depend on the processor, so the bits do not either.

use std::ops::Range;

use super::gradient_rows::GradientRows;
use super::pass::{Inputs, Pass, Updates, by_width, finish, groups, sizes};
use super::plan::LayerPlan;
use super::products::{AT_ONCE, Live, contract_some, expand_live, fold};
use super::sums::Sums;
use super::values::add_scaled;

/// Sends the messages of some sources into `sums`.
///
/// # Complexity
/// pairs * stride multiplications and messages * width additions; each source's row is read once.
pub(crate) fn forward<S: Sums>(
    pass: Pass<'_>,
    sources: Range<usize>,
    inputs: Inputs<'_>,
    sums: &mut S,
) {
    by_width!(pass.shape.width, forward_of(pass, sources, inputs, sums));
}

/// Takes the gradients of the output's rows back to some sources, and adds those of the table to
/// `table`.
///
/// # Complexity
/// Twice [`forward`]'s; each source's row is read and written once. Pairs that send to rows without
/// a gradient cost no more than their messages, and a source that has no other is left alone where
/// the rule leaves it as it is.
pub(crate) fn backward(
    pass: Pass<'_>,
    sources: Range<usize>,
    outputs: &GradientRows<'_>,
    updates: &mut Updates<'_>,
    table: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_of(pass, sources, outputs, updates, table)
    );
}

#[inline(always)]
fn forward_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    inputs: Inputs<'_>,
    sums: &mut impl Sums,
) {
    let Pass { plan, shape, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut spread = vec![0.0; shape.stride];
    let mut made = vec![0.0; AT_ONCE * tile];
    let mut messages = Vec::new();
    for group in groups(sources) {
        let pairs = plan.pairs(group.start).start..plan.pairs(group.end - 1).end;
        messages.clear();
        for source in group {
            let row = inputs.row(shape, source, &mut spread);
            let relations = &plan.relations[plan.pairs(source)];
            for relations in relations.chunks(AT_ONCE) {
                contract_some::<W, T>(pass, row, relations, &mut made);
                for message in made.chunks_exact_mut(tile).take(relations.len()) {
                    fold(message, width);
                    messages.extend_from_slice(&message[..width]);
                }
            }
        }
        for (pair, message) in pairs.zip(messages.chunks_exact(width)) {
            for &send in plan.sends(pair) {
                sums.add::<W>(send, message);
            }
        }
    }
}

#[inline(always)]
fn backward_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    outputs: &GradientRows<'_>,
    updates: &mut Updates<'_>,
    table_gradient: &mut [f32],
) {
    let Pass { plan, shape, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut spread = vec![0.0; shape.stride];
    let mut live = Live::default();
    let mut collected = Collected::default();
    let mut gradient = vec![0.0; shape.stride];
    for group in groups(sources) {
        gather::<W>(plan, group.clone(), outputs, &mut collected);
        let first = plan.pairs(group.start).start;
        for source in group {
            let pairs = plan.pairs(source);
            let is_live = &collected.is_live[pairs.start - first..pairs.end - first];
            if !is_live.contains(&true) {
                updates.pass_over(shape, source, &mut gradient);
                continue;
            }
            let row = match &*updates {
                Updates::Rows { rows, .. } => &rows[source * shape.stride..][..shape.stride],
                Updates::Sums { rows, .. } => &rows[source * shape.stride..][..shape.stride],
                Updates::Activations { inputs, .. } => {
                    let inputs = &inputs[source * shape.n_inputs..][..shape.n_inputs];
                    shape.spread(inputs, &mut spread);
                    &spread
                }
            };
            live.clear();
            for (pair, _) in pairs.zip(is_live).filter(|(_, is_live)| **is_live) {
                let message = collected.message(pair - first, width);
                live.push(plan.relations[pair], message, tile / width);
            }
            expand_live::<W, T>(pass, row, &live, &mut gradient, table_gradient);
            finish(shape, source, &gradient, updates);
        }
    }
}

/// The gradients of the messages of a group's pairs.
#[derive(Default)]
pub(crate) struct Collected {
    /// A row for each pair.
    pub(crate) messages: Vec<f32>,
    /// True if some row that a pair's message went to has a gradient; else the pair's is zero.
    pub(crate) is_live: Vec<bool>,
}

impl Collected {
    /// That of a pair, counted from the group's first.
    #[inline(always)]
    pub(crate) fn message(&self, pair: usize, width: usize) -> &[f32] {
        &self.messages[pair * width..][..width]
    }
}

/// The gradients of a group's messages: each the weighted sum of those of the rows that it went to.
#[inline(always)]
pub(crate) fn gather<const W: usize>(
    plan: &LayerPlan,
    group: Range<usize>,
    outputs: &GradientRows<'_>,
    collected: &mut Collected,
) {
    let pairs = plan.pairs(group.start).start..plan.pairs(group.end - 1).end;
    let Collected { messages, is_live } = collected;
    messages.clear();
    messages.resize(pairs.len() * outputs.width(), 0.0);
    is_live.clear();
    for (pair, message) in pairs.zip(messages.chunks_exact_mut(outputs.width())) {
        let mut is_any = false;
        for send in plan.sends(pair) {
            if let Some(row) = outputs.row(send.target) {
                add_scaled::<W>(message, send.weight, row);
                is_any = true;
            }
        }
        is_live.push(is_any);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::plan::Send;
    use crate::layer::shape::TileShape;
    use crate::layer::sums::FloatSums;
    use shardgraph_random::KeyedRng;

    fn numbers(stream: &mut KeyedRng, n: usize) -> Vec<f32> {
        (0..n).map(|_| stream.uniform_f32() - 0.5).collect()
    }

    /// Two sources, three relations, three targets; the first source has no pairs of relation 1.
    fn plan() -> LayerPlan {
        let send = |target, weight| Send { target, weight };
        LayerPlan {
            pair_starts: vec![0, 2, 3],
            relations: vec![0, 2, 1],
            send_starts: vec![0, 2, 3, 4],
            sends: vec![send(0, 0.5), send(2, 1.0), send(1, 0.25), send(2, 0.5)],
        }
    }

    /// x[k, o] * a[k, o] summed over k in f64, straight from the definition.
    fn naive_message(shape: TileShape, row: &[f32], weights: &[f32]) -> Vec<f64> {
        let term = |k: usize, o: usize| {
            let at = k * shape.width + o;
            f64::from(row[at]) * f64::from(weights[at])
        };
        let message = |o| (0..shape.n_terms).map(|k| term(k, o)).sum();
        (0..shape.width).map(message).collect()
    }

    fn out(shape: TileShape, inputs: Inputs<'_>, table: &[f32]) -> Vec<f32> {
        let plan = plan();
        let mut out = vec![0.0; 3 * shape.width];
        let pass = Pass {
            plan: &plan,
            shape,
            table,
            short: None,
        };
        forward(pass, 0..2, inputs, &mut FloatSums(&mut out));
        out
    }

    #[test]
    fn messages_of_every_width_are_those_of_the_definition() {
        for width in [1, 2, 3, 4, 5, 7, 8, 10, 11, 16, 17, 32, 64, 70] {
            let shape = TileShape::new(9, width);
            let mut stream = KeyedRng::new(3, "kernel", width as u64);
            let mut rows_of = |n: usize| {
                let mut rows = numbers(&mut stream, n * shape.stride);
                let each = rows.chunks_exact_mut(shape.stride);
                each.for_each(|row| row[shape.len()..].fill(0.0));
                rows
            };
            let (rows, table) = (rows_of(2), rows_of(3));
            let out = out(shape, Inputs::Rows(&rows), &table);
            // Source 0 sends half its message of relation 0 to target 0, and a quarter of that of
            // relation 2 to target 1.
            for (target, relation, weight) in [(0, 0, 0.5), (1, 2, 0.25)] {
                let weights = &table[relation * shape.stride..][..shape.stride];
                let message = naive_message(shape, &rows[..shape.stride], weights);
                for (found, expected) in out[target * width..].iter().zip(message) {
                    let error = f64::from(*found) - weight * expected;
                    assert!(error.abs() < 1e-5, "width {width}: {found} {expected}");
                }
            }
        }
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum()
    }

    /// The pass is linear in the table and in the units: <out, g> is the product of the gradient
    /// with either.
    #[test]
    fn gradients_of_every_width_are_adjoint_to_the_messages() {
        for width in [1, 2, 3, 4, 5, 8, 10, 11, 16, 17, 32, 64] {
            let shape = TileShape::new(6, width);
            let mut stream = KeyedRng::new(4, "kernel", width as u64);
            let (units, other) = (numbers(&mut stream, 12), numbers(&mut stream, 12));
            let table = numbers(&mut stream, 3 * shape.stride);
            let (made, plan) = (numbers(&mut stream, 3 * width), plan());
            let product =
                |units: &[f32]| dot(&out(shape, Inputs::Activations(units), &table), &made);
            let (mut of_units, mut of_table) = (vec![9.0; 12], vec![0.0; 3 * shape.stride]);
            let mut updates = Updates::Activations {
                inputs: &units,
                gradients: &mut of_units,
            };
            let pass = Pass {
                plan: &plan,
                shape,
                table: &table,
                short: None,
            };
            let made = GradientRows::new(&made, width);
            backward(pass, 0..2, &made, &mut updates, &mut of_table);
            let pairs = [
                (dot(&of_units, &units), product(&units)),
                (dot(&of_table, &table), product(&units)),
                (dot(&of_units, &other), product(&other)),
            ];
            for (found, expected) in pairs {
                assert!((found - expected).abs() < 1e-4, "width {width}: {pairs:?}");
            }
        }
    }

    /// One source of three relations, two at once and one more, and one source of one.
    fn plan_of_three() -> LayerPlan {
        let send = |target| Send {
            target,
            weight: 0.5,
        };
        LayerPlan {
            pair_starts: vec![0, 3, 4],
            relations: vec![0, 1, 2, 1],
            send_starts: vec![0, 1, 2, 3, 4],
            sends: vec![send(0), send(1), send(2), send(1)],
        }
    }

    /// The two passes: those that a width has, or the general ones.
    #[derive(Clone, Copy, PartialEq)]
    enum Passes {
        OfWidth,
        General,
    }

    /// Messages, gradients of the rows and of the table: bits.
    fn both_ways(passes: Passes, pass: Pass<'_>, rows: &[f32], made: &[f32]) -> Vec<u32> {
        let (shape, inputs) = (pass.shape, Inputs::Rows(rows));
        let mut out = vec![0.0; made.len()];
        let sums = &mut FloatSums(&mut out);
        let mut gradients = vec![9.0; rows.len()];
        let mut of_table = vec![0.0; pass.table.len()];
        let mut updates = Updates::Sums {
            rows,
            gradients: &mut gradients,
        };
        let made = GradientRows::new(made, shape.width);
        match passes {
            Passes::OfWidth => {
                forward(pass, 0..2, inputs, sums);
                backward(pass, 0..2, &made, &mut updates, &mut of_table);
            }
            Passes::General => {
                forward_of::<0, 0>(pass, 0..2, inputs, sums);
                backward_of::<0, 0>(pass, 0..2, &made, &mut updates, &mut of_table);
            }
        }
        let all = out.iter().chain(&gradients).chain(&of_table);
        all.map(|x| x.to_bits()).collect()
    }

    #[test]
    fn the_general_pass_gives_the_bits_of_each_width_s_kernel() {
        for width in [2, 3, 4, 8, 10, 11, 16, 32, 64] {
            let shape = TileShape::new(7, width);
            let mut stream = KeyedRng::new(6, "kernel", width as u64);
            let rows = numbers(&mut stream, 2 * shape.stride);
            let table = numbers(&mut stream, 3 * shape.stride);
            let (made, plan) = (numbers(&mut stream, 3 * width), plan_of_three());
            let pass = Pass {
                plan: &plan,
                shape,
                table: &table,
                short: None,
            };
            let of_width = both_ways(Passes::OfWidth, pass, &rows, &made);
            let general = both_ways(Passes::General, pass, &rows, &made);
            assert_eq!(of_width, general, "width {width}");
        }
    }

    #[test]
    fn a_table_in_short_gives_the_bits_of_the_whole_one() {
        for width in [8, 16, 32, 64] {
            let shape = TileShape::new(8, width);
            assert_eq!(shape.stride, shape.len(), "width {width}: whole tiles");
            let mut stream = KeyedRng::new(5, "kernel", width as u64);
            let short = numbers(&mut stream, 3 * shape.n_terms);
            let spread = |a: &f32| std::iter::repeat_n(*a, width);
            let table: Vec<f32> = short.iter().flat_map(spread).collect();
            let rows = numbers(&mut stream, 2 * shape.stride);
            let (made, plan) = (numbers(&mut stream, 3 * width), plan_of_three());
            let bits = |short| {
                let pass = Pass {
                    plan: &plan,
                    shape,
                    table: &table,
                    short,
                };
                both_ways(Passes::OfWidth, pass, &rows, &made)
            };
            assert_eq!(bits(Some(&short[..])), bits(None), "width {width}");
        }
    }
}
