//! The two passes of a layer over its sources: messages forward, gradients backward.
//!
//! A pass loads each source once, works through its relations, and is done with it: nothing of the size of relations times nodes
//! exists. The products use no fused multiply-add and tiles do not depend on the processor, so the bits do not either.

use std::ops::Range;

use pulp::Arch;

use super::coefficients::{Coefficients, Form};
use super::incoming::Incoming;
use super::optimiser::{Moments, Rule};
use super::plan::LayerPlan;
use super::products::{AT_ONCE, Live, add_scaled, contract_some, expand_live, fold};
use super::shape::{Shape, tile_of};
use super::sums::Sums;

/// What the sources bring.
#[derive(Clone, Copy)]
pub(crate) enum Inputs<'a> {
    /// A row of parameters for each source, in the shape's layout.
    Rows(&'a [f32]),
    /// Units of the layer before, `n_units` for each source.
    Units(&'a [f32]),
}

impl<'a> Inputs<'a> {
    /// The row of a source; `spread` has room for one.
    #[inline(always)]
    pub(super) fn row<'r>(self, shape: Shape, source: usize, spread: &'r mut [f32]) -> &'r [f32]
    where
        'a: 'r,
    {
        match self {
            Inputs::Rows(rows) => &rows[source * shape.stride..][..shape.stride],
            Inputs::Units(units) => {
                let units = &units[source * shape.n_units..][..shape.n_units];
                shape.spread(units, spread);
                spread
            }
        }
    }
}

/// What the gradients of the sources become.
pub(crate) enum Updates<'a> {
    /// Each source's row takes a step at once; `largest` follows the greatest magnitude of all rows, where it is wanted.
    Rows {
        rows: &'a mut [f32],
        moments: &'a mut Moments,
        rule: Rule,
        decay: f32,
        largest: Option<&'a mut f32>,
    },
    /// The gradients of rows that others step: a copy of each source's row, and the sum of its gradients, `stride` for each.
    Sums {
        rows: &'a [f32],
        gradients: &'a mut [f32],
    },
    /// The gradients of the units, `n_units` for each source.
    Units {
        units: &'a [f32],
        gradients: &'a mut [f32],
    },
}

impl Updates<'_> {
    /// Uses up the gradient of a source that has none; `gradient` has room for one.
    #[inline(always)]
    pub(super) fn pass_over(&mut self, shape: Shape, source: usize, gradient: &mut [f32]) {
        match self {
            Updates::Rows { rule, decay, .. } if !rule.keeps(*decay) => {
                gradient.fill(0.0);
                finish(shape, source, gradient, self);
            }
            Updates::Rows { rows, largest, .. } => {
                if let Some(largest) = largest {
                    let row = &rows[source * shape.stride..][..shape.stride];
                    **largest = largest.max(largest_magnitude(row));
                }
            }
            Updates::Sums { gradients, .. } => {
                gradients[source * shape.stride..][..shape.stride].fill(0.0);
            }
            Updates::Units { gradients, .. } => {
                gradients[source * shape.n_units..][..shape.n_units].fill(0.0);
            }
        }
    }
}

/// What a pass goes through: some sources of a plan, and a row of the table for each relation.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) plan: &'a LayerPlan,
    pub(crate) shape: Shape,
    pub(crate) table: &'a [f32],
    /// The table in short, where a relation has one number for all outputs of a k and these are whole vectors: `n_terms` for each relation,
    /// which all fit in the first-level cache.
    pub(super) short: Option<&'a [f32]>,
}

impl<'a> Pass<'a> {
    /// Through a plan, with the rows that a layer's relations have.
    pub(crate) fn new(
        plan: &'a LayerPlan,
        coefficients: &'a Coefficients,
        table: &'a [f32],
    ) -> Pass<'a> {
        let shape = coefficients.shape;
        let is_whole = shape.stride == shape.len() && tile_of(shape.width) > 0;
        let is_short = coefficients.form == Form::Coefficients
            && is_whole
            && shape.width.is_multiple_of(VECTOR);
        Pass {
            plan,
            shape,
            table,
            short: is_short.then_some(&coefficients.params),
        }
    }
}

/// Numbers in a SIMD vector of AVX2.
const VECTOR: usize = 8;

/// Calls a pass for the widths that have kernels of their own, and else the general one.
macro_rules! by_width {
    ($width:expr, $pass:ident $args:tt) => {
        match $width {
            2 => Arch::new().dispatch(#[inline(always)] || $pass::<2, 32> $args),
            3 => Arch::new().dispatch(#[inline(always)] || $pass::<3, 24> $args),
            4 => Arch::new().dispatch(#[inline(always)] || $pass::<4, 32> $args),
            8 => Arch::new().dispatch(#[inline(always)] || $pass::<8, 32> $args),
            10 => Arch::new().dispatch(#[inline(always)] || $pass::<10, 40> $args),
            11 => Arch::new().dispatch(#[inline(always)] || $pass::<11, 88> $args),
            16 => Arch::new().dispatch(#[inline(always)] || $pass::<16, 32> $args),
            32 => Arch::new().dispatch(#[inline(always)] || $pass::<32, 32> $args),
            64 => Arch::new().dispatch(#[inline(always)] || $pass::<64, 64> $args),
            _ => Arch::new().dispatch(#[inline(always)] || $pass::<0, 0> $args),
        }
    };
}
pub(super) use by_width;

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

/// Takes the gradients `made` of the output's rows back to some sources, and adds those of the table to `table`.
///
/// # Complexity
/// Twice [`forward`]'s; each source's row is read and written once. Pairs that send to rows without a gradient cost no more than their messages,
/// and a source that has no other is left alone where the rule leaves it as it is.
pub(crate) fn backward(
    pass: Pass<'_>,
    sources: Range<usize>,
    made: &Incoming<'_>,
    updates: &mut Updates<'_>,
    table: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_of(pass, sources, made, updates, table)
    );
}

/// Sources of which messages are made, or gradients gathered, before the others' turn: rows of the output lie anywhere, and a loop that does
/// nothing but go to them has many of its cache misses under way at a time.
const GROUP: usize = 32;

/// A range in groups of [`GROUP`], the last one shorter.
pub(super) fn groups(sources: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = sources.end;
    sources
        .step_by(GROUP)
        .map(move |start| start..(start + GROUP).min(end))
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
    made: &Incoming<'_>,
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
        gather::<W>(plan, group.clone(), made, &mut collected);
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
                Updates::Units { units, .. } => {
                    let units = &units[source * shape.n_units..][..shape.n_units];
                    shape.spread(units, &mut spread);
                    &spread
                }
            };
            live.clear();
            for (pair, _) in pairs.zip(is_live).filter(|(_, is_live)| **is_live) {
                let message = collected.message(pair - first, width);
                live.push(plan.relations[pair], message, tile / width);
            }
            let written = (&mut gradient[..], &mut *table_gradient);
            expand_live::<W, T>(pass, row, &live, written);
            finish(shape, source, &gradient, updates);
        }
    }
}

/// The width and the tile, as constants where the pass is made for them.
#[inline(always)]
pub(super) fn sizes<const W: usize, const T: usize>(shape: Shape) -> (usize, usize) {
    match W {
        0 => (shape.width, shape.width),
        _ => (W, T),
    }
}

/// The gradients of the messages of a group's pairs.
#[derive(Default)]
pub(super) struct Collected {
    /// A row for each pair.
    pub(super) messages: Vec<f32>,
    /// Whether some row that a pair's message went to has a gradient; else the pair's is zero.
    pub(super) is_live: Vec<bool>,
}

impl Collected {
    /// That of a pair, counted from the group's first.
    #[inline(always)]
    pub(super) fn message(&self, pair: usize, width: usize) -> &[f32] {
        &self.messages[pair * width..][..width]
    }
}

/// The gradients of a group's messages: each the weighted sum of those of the rows that it went to.
#[inline(always)]
pub(super) fn gather<const W: usize>(
    plan: &LayerPlan,
    group: Range<usize>,
    made: &Incoming<'_>,
    collected: &mut Collected,
) {
    let pairs = plan.pairs(group.start).start..plan.pairs(group.end - 1).end;
    let Collected { messages, is_live } = collected;
    messages.clear();
    messages.resize(pairs.len() * made.width(), 0.0);
    is_live.clear();
    for (pair, message) in pairs.zip(messages.chunks_exact_mut(made.width())) {
        let mut is_any = false;
        for send in plan.sends(pair) {
            if let Some(row) = made.row(send.target) {
                add_scaled::<W>(message, send.weight, row);
                is_any = true;
            }
        }
        is_live.push(is_any);
    }
}

/// Uses up a source's gradient.
#[inline(always)]
pub(super) fn finish(shape: Shape, source: usize, gradient: &[f32], updates: &mut Updates<'_>) {
    match updates {
        Updates::Rows {
            rows,
            moments,
            rule,
            decay,
            largest,
        } => {
            let range = source * shape.stride..(source + 1) * shape.stride;
            let row = &mut rows[range.clone()];
            rule.step(row, gradient, *decay, moments.of(range));
            if let Some(largest) = largest {
                **largest = largest.max(largest_magnitude(row));
            }
        }
        Updates::Sums { gradients, .. } => {
            gradients[source * shape.stride..][..shape.stride].copy_from_slice(gradient);
        }
        Updates::Units { gradients, .. } => {
            let sums = &mut gradients[source * shape.n_units..][..shape.n_units];
            sums.fill(0.0);
            shape.gather(gradient, sums);
        }
    }
}

/// The greatest magnitude; infinite where a value is not a number.
#[inline(always)]
pub(crate) fn largest_magnitude(values: &[f32]) -> f32 {
    // Magnitudes order like the integers that encode them, infinities and NaN above all.
    let largest = values
        .iter()
        .fold(0u32, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    f32::from_bits(largest.min(0x7f80_0000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::Send;
    use crate::model::sums::FloatSums;
    use shardgraph_graph::random::Stream;

    fn numbers(stream: &mut Stream, n: usize) -> Vec<f32> {
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
    fn naive_message(shape: Shape, row: &[f32], weights: &[f32]) -> Vec<f64> {
        let term = |k: usize, o: usize| {
            let at = k * shape.width + o;
            f64::from(row[at]) * f64::from(weights[at])
        };
        let message = |o| (0..shape.n_terms).map(|k| term(k, o)).sum();
        (0..shape.width).map(message).collect()
    }

    fn out(shape: Shape, inputs: Inputs<'_>, table: &[f32]) -> Vec<f32> {
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
            let shape = Shape::new(9, width);
            let mut stream = Stream::new(3, "kernel", width as u64);
            let mut rows_of = |n: usize| {
                let mut rows = numbers(&mut stream, n * shape.stride);
                let each = rows.chunks_exact_mut(shape.stride);
                each.for_each(|row| row[shape.len()..].fill(0.0));
                rows
            };
            let (rows, table) = (rows_of(2), rows_of(3));
            let out = out(shape, Inputs::Rows(&rows), &table);
            // Source 0 sends half its message of relation 0 to target 0, and a quarter of that of relation 2 to target 1.
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

    /// The pass is linear in the table and in the units: <out, g> is the product of the gradient with either.
    #[test]
    fn gradients_of_every_width_are_adjoint_to_the_messages() {
        for width in [1, 2, 3, 4, 5, 8, 10, 11, 16, 17, 32, 64] {
            let shape = Shape::new(6, width);
            let mut stream = Stream::new(4, "kernel", width as u64);
            let (units, other) = (numbers(&mut stream, 12), numbers(&mut stream, 12));
            let table = numbers(&mut stream, 3 * shape.stride);
            let (made, plan) = (numbers(&mut stream, 3 * width), plan());
            let product = |units: &[f32]| dot(&out(shape, Inputs::Units(units), &table), &made);
            let (mut of_units, mut of_table) = (vec![9.0; 12], vec![0.0; 3 * shape.stride]);
            let mut updates = Updates::Units {
                units: &units,
                gradients: &mut of_units,
            };
            let pass = Pass {
                plan: &plan,
                shape,
                table: &table,
                short: None,
            };
            let made = Incoming::new(&made, width);
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

    /// Messages, gradients of the rows and of the table: bits.
    fn both_ways(pass: Pass<'_>, rows: &[f32], made: &[f32]) -> Vec<u32> {
        let shape = pass.shape;
        let mut out = vec![0.0; made.len()];
        forward(pass, 0..2, Inputs::Rows(rows), &mut FloatSums(&mut out));
        let mut gradients = vec![9.0; rows.len()];
        let mut of_table = vec![0.0; pass.table.len()];
        let mut updates = Updates::Sums {
            rows,
            gradients: &mut gradients,
        };
        let made = Incoming::new(made, shape.width);
        backward(pass, 0..2, &made, &mut updates, &mut of_table);
        let all = out.iter().chain(&gradients).chain(&of_table);
        all.map(|x| x.to_bits()).collect()
    }

    #[test]
    fn a_table_in_short_gives_the_bits_of_the_whole_one() {
        for width in [8, 16, 32, 64] {
            let shape = Shape::new(8, width);
            assert_eq!(shape.stride, shape.len(), "width {width}: whole tiles");
            let mut stream = Stream::new(5, "kernel", width as u64);
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
                both_ways(pass, &rows, &made)
            };
            assert_eq!(bits(Some(&short[..])), bits(None), "width {width}");
        }
    }

    #[test]
    fn the_largest_magnitude_knows_what_is_no_number() {
        assert_eq!(
            largest_magnitude(&[1.0, -3.0, 2.0]).to_bits(),
            3f32.to_bits()
        );
        assert!(largest_magnitude(&[1.0, f32::NAN]).is_infinite());
        assert_eq!(largest_magnitude(&[]).to_bits(), 0);
    }
}
