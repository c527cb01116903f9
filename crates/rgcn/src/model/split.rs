//! The backward pass in its two halves, for ranks that work on others' sources: the gradients of the relations where the pair is worked on,
//! those of the sources where they are owned.

use std::ops::Range;

use pulp::Arch;

use super::kernel::{Inputs, Pass, Updates, by_width, finish, gather, groups, repeat, sizes};

/// The gradients of the messages of some sources, pair after pair into `messages`, and those of the table added to `table`.
///
/// # Complexity
/// As [`super::kernel::forward`]'s.
pub(super) fn backward_table(
    pass: Pass<'_>,
    sources: Range<usize>,
    made: &[f32],
    inputs: Inputs<'_>,
    (table, messages): (&mut [f32], &mut Vec<f32>),
) {
    by_width!(
        pass.shape.width,
        backward_table_of(pass, sources, made, inputs, table, messages)
    );
}

/// Takes the gradients of the messages of all pairs of some sources back to the sources.
///
/// # Complexity
/// As [`super::kernel::forward`]'s without the sums.
pub(super) fn backward_sources(
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
    made: &[f32],
    inputs: Inputs<'_>,
    table: &mut [f32],
    messages: &mut Vec<f32>,
) {
    let Pass { plan, shape, .. } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut spread = vec![0.0; shape.stride];
    let mut message = vec![0.0; tile];
    let mut group_messages = Vec::new();
    for group in groups(sources) {
        gather::<W>(plan, group.clone(), made, width, &mut group_messages);
        let mut collected = group_messages.chunks_exact(width);
        for source in group {
            let row = inputs.row(shape, source, &mut spread);
            for (pair, collected) in plan.pairs(source).zip(&mut collected) {
                message[..width].copy_from_slice(collected);
                repeat(&mut message, width);
                let place = plan.relations[pair] as usize * shape.stride;
                add_products(&message, row, &mut table[place..][..shape.stride]);
            }
        }
        messages.extend_from_slice(&group_messages);
    }
}

#[inline(always)]
fn backward_sources_of<const W: usize, const T: usize>(
    pass: Pass<'_>,
    sources: Range<usize>,
    messages: &[f32],
    updates: &mut Updates<'_>,
) {
    let Pass { plan, shape, table } = pass;
    let (width, tile) = sizes::<W, T>(shape);
    let mut message = vec![0.0; tile];
    let mut gradient = vec![0.0; shape.stride];
    for source in sources {
        gradient.fill(0.0);
        for pair in plan.pairs(source) {
            message[..width].copy_from_slice(&messages[pair * width..][..width]);
            repeat(&mut message, width);
            let place = plan.relations[pair] as usize * shape.stride;
            add_products(&message, &table[place..][..shape.stride], &mut gradient);
        }
        finish(shape, source, &gradient, updates);
    }
}

/// sums += factors * message, tile by tile: half of what the whole pass does for a pair, in the same order.
#[inline(always)]
fn add_products(message: &[f32], factors: &[f32], sums: &mut [f32]) {
    let tile = message.len();
    for (x, sum) in factors.chunks_exact(tile).zip(sums.chunks_exact_mut(tile)) {
        for t in 0..tile {
            sum[t] += x[t] * message[t];
        }
    }
}
