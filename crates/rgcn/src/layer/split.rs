//! The backward pass in its two halves, for ranks that work on others' sources: the gradients of
//! the relations where the pair is worked on, those of the sources where they are owned.

use std::ops::Range;

use super::gradient_rows::GradientRows;
use super::kernel::{Collected, gather};
use super::pass::{Inputs, Pass, Updates, by_width, finish, groups, sizes};
use super::products::repeat;
use super::values::is_live;

/// The gradients of the messages of some sources, put in the place of their pairs in `messages`, and
/// those of the table added to `table`.
///
/// # Complexity
/// As [`super::kernel::forward`]'s.
pub(crate) fn backward_table(
    pass: Pass<'_>,
    sources: Range<usize>,
    outputs: &GradientRows<'_>,
    inputs: Inputs<'_>,
    table: &mut [f32],
    messages: &mut [f32],
) {
    by_width!(
        pass.shape.width,
        backward_table_of(pass, sources, outputs, inputs, table, messages)
    );
}

/// Takes the gradients of the messages of all pairs of some sources back to the sources.
///
/// # Complexity
/// As [`super::kernel::forward`]'s without the sums.
pub(crate) fn backward_sources(
    pass: Pass<'_>,
    sources: Range<usize>,
    messages: &[f32],
    updates: &mut Updates<'_>,
) {
    by_width!(
        pass.shape.width,
        backward_sources_of(pass, sources, messages, updates)
    );
}

#[inline(always)]
fn backward_table_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    outputs: &GradientRows<'_>,
    inputs: Inputs<'_>,
    table: &mut [f32],
    messages: &mut [f32],
) {
    let Pass { plan, shape, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut spread = vec![0.0; shape.stride];
    let mut message = vec![0.0; tile];
    let mut collected = Collected::default();
    for group in groups(sources) {
        gather::<W>(plan, group.clone(), outputs, &mut collected);
        let first = plan.pairs(group.start).start;
        for source in group {
            let pairs = plan.pairs(source);
            let is_live = &collected.is_live[pairs.start - first..pairs.end - first];
            if !is_live.contains(&true) {
                continue;
            }
            let row = inputs.row(shape, source, &mut spread);
            for (pair, _) in pairs.zip(is_live).filter(|(_, is_live)| **is_live) {
                message[..width].copy_from_slice(collected.message(pair - first, width));
                repeat(&mut message, width);
                let place = plan.relations[pair] as usize * shape.stride;
                add_products(&message, row, &mut table[place..][..shape.stride]);
            }
        }
        messages[first * width..][..collected.messages.len()].copy_from_slice(&collected.messages);
    }
}

#[inline(always)]
fn backward_sources_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    messages: &[f32],
    updates: &mut Updates<'_>,
) {
    let Pass {
        plan, shape, table, ..
    } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    let mut gradient = vec![0.0; shape.stride];
    for source in sources {
        let pairs = plan.pairs(source);
        if !is_live(&messages[pairs.start * width..pairs.end * width]) {
            updates.pass_over(shape, source, &mut gradient);
            continue;
        }
        gradient.fill(0.0);
        for pair in pairs {
            message[..width].copy_from_slice(&messages[pair * width..][..width]);
            repeat(&mut message, width);
            let place = plan.relations[pair] as usize * shape.stride;
            add_products(&message, &table[place..][..shape.stride], &mut gradient);
        }
        finish(shape, source, &gradient, updates);
    }
}

/// sums += factors * message, tile by tile: half of what the whole pass does for a pair, in the
/// same order.
#[inline(always)]
fn add_products(message: &[f32], factors: &[f32], sums: &mut [f32]) {
    let tile = message.len();
    for (x, sum) in factors.chunks_exact(tile).zip(sums.chunks_exact_mut(tile)) {
        for t in 0..tile {
            sum[t] += x[t] * message[t];
        }
    }
}
