//! The products of a source's row with the weights of its relations, and their gradients: tiles of
//! sums that stay in registers.
//!
//! Every number is the same sum of the same products in the same order, whatever the function: so
//! they can be chosen by what is fast.

use super::pass::Pass;

/// message = the sum over tiles of row * weights.
#[inline(always)]
pub(crate) fn contract<const T: usize>(row: &[f32], weights: &[f32], message: &mut [f32]) {
    if T == 0 {
        message.fill(0.0);
        let tile = message.len();
        for (x, a) in row.chunks_exact(tile).zip(weights.chunks_exact(tile)) {
            for ((sum, x), a) in message.iter_mut().zip(x).zip(a) {
                *sum += x * a;
            }
        }
        return;
    }
    let mut sums = [0.0; T];
    for (x, a) in row.chunks_exact(T).zip(weights.chunks_exact(T)) {
        for t in 0..T {
            sums[t] += x[t] * a[t];
        }
    }
    message.copy_from_slice(&sums);
}

/// Relations whose messages are made at once where registers hold their tiles: a source's row is
/// read once for both.
pub(crate) const AT_ONCE: usize = 2;
/// Numbers of the longest tile of which two stay in the processor's registers.
const MOST_IN_REGISTERS: usize = 40;

/// A relation's row, whole or in short.
#[derive(Clone, Copy)]
enum Weights<'a> {
    Whole(&'a [f32]),
    Short(&'a [f32]),
}

impl<'a> Pass<'a> {
    #[inline(always)]
    fn weights<const W: usize, const T: usize>(self, relation: u32) -> Weights<'a> {
        let relation = relation as usize;
        match self.short {
            Some(short) if W > 0 && T > 0 => {
                let n_terms = self.shape.n_terms;
                Weights::Short(&short[relation * n_terms..][..n_terms])
            }
            _ => {
                let stride = self.shape.stride;
                Weights::Whole(&self.table[relation * stride..][..stride])
            }
        }
    }
}

/// [`contract`] for up to [`AT_ONCE`] relations, a tile for each.
#[inline(always)]
pub(crate) fn contract_some<const W: usize, const T: usize>(
    pass: Pass<'_>,
    row: &[f32],
    relations: &[u32],
    made: &mut [f32],
) {
    if T > 0
        && T <= MOST_IN_REGISTERS
        && let &[one, other] = relations
    {
        let (first, second) = made.split_at_mut(T);
        match (pass.weights::<W, T>(one), pass.weights::<W, T>(other)) {
            (Weights::Short(one), Weights::Short(other)) => {
                contract_two_short::<W, T>(row, one, other, first, second);
            }
            (Weights::Whole(one), Weights::Whole(other)) => {
                contract_two::<T>(row, one, other, first, second);
            }
            _ => {} // A pass has rows of one kind.
        }
        return;
    }
    let tile = made.len() / AT_ONCE;
    for (&relation, message) in relations.iter().zip(made.chunks_exact_mut(tile)) {
        match pass.weights::<W, T>(relation) {
            Weights::Short(weights) => contract_short::<W, T>(row, weights, message),
            Weights::Whole(weights) => contract::<T>(row, weights, message),
        }
    }
}

/// [`contract`] with one weight for all outputs of a k: the same products in the same order.
#[inline(always)]
fn contract_short<const W: usize, const T: usize>(
    row: &[f32],
    weights: &[f32],
    message: &mut [f32],
) {
    let mut sums = [0.0; T];
    for (x, a) in row.chunks_exact(T).zip(weights.chunks_exact(T / W)) {
        for (k, a) in a.iter().enumerate() {
            for o in k * W..(k + 1) * W {
                sums[o] += x[o] * a;
            }
        }
    }
    message.copy_from_slice(&sums);
}

/// [`contract`] for two relations.
#[inline(always)]
fn contract_two<const T: usize>(
    row: &[f32],
    one: &[f32],
    other: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let (mut of_one, mut of_other) = ([0.0; T], [0.0; T]);
    let rows = row.chunks_exact(T).zip(one.chunks_exact(T));
    for ((x, a), b) in rows.zip(other.chunks_exact(T)) {
        for t in 0..T {
            of_one[t] += x[t] * a[t];
        }
        for t in 0..T {
            of_other[t] += x[t] * b[t];
        }
    }
    first.copy_from_slice(&of_one);
    second.copy_from_slice(&of_other);
}

/// [`contract_short`] for two relations.
#[inline(always)]
fn contract_two_short<const W: usize, const T: usize>(
    row: &[f32],
    one: &[f32],
    other: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let (mut of_one, mut of_other) = ([0.0; T], [0.0; T]);
    let rows = row.chunks_exact(T).zip(one.chunks_exact(T / W));
    for ((x, a), b) in rows.zip(other.chunks_exact(T / W)) {
        for (k, (a, b)) in a.iter().zip(b).enumerate() {
            for o in k * W..(k + 1) * W {
                of_one[o] += x[o] * a;
            }
            for o in k * W..(k + 1) * W {
                of_other[o] += x[o] * b;
            }
        }
    }
    first.copy_from_slice(&of_one);
    second.copy_from_slice(&of_other);
}

/// The sum over a tile's terms, left in its first one.
#[inline(always)]
pub(crate) fn fold(message: &mut [f32], width: usize) {
    let (first, others) = message.split_at_mut(width);
    for other in others.chunks_exact(width) {
        for (sum, value) in first.iter_mut().zip(other) {
            *sum += value;
        }
    }
}

/// A tile's first term for each of its terms.
#[inline(always)]
pub(crate) fn repeat(message: &mut [f32], width: usize) {
    let (first, others) = message.split_at_mut(width);
    for other in others.chunks_exact_mut(width) {
        other.copy_from_slice(first);
    }
}

/// A source's pairs that have a gradient.
#[derive(Default)]
pub(crate) struct Live {
    relations: Vec<u32>,
    /// The gradients of their messages, each for all terms of a tile.
    messages: Vec<f32>,
}

impl Live {
    pub(crate) fn clear(&mut self) {
        self.relations.clear();
        self.messages.clear();
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, relation: u32, message: &[f32], n_terms: usize) {
        self.relations.push(relation);
        for _ in 0..n_terms {
            self.messages.extend_from_slice(message);
        }
    }
}

/// gradient = the sum over pairs of weights * message, and each relation's weights_gradient += row
/// * message.
#[inline(always)]
pub(crate) fn expand_live<const W: usize, const T: usize>(
    pass: Pass<'_>,
    row: &[f32],
    live: &Live,
    gradient: &mut [f32],
    table_gradient: &mut [f32],
) {
    let is_in_registers = T > 0 && T <= MOST_IN_REGISTERS;
    match live.relations[..] {
        [relation] if is_in_registers => {
            let stride = pass.shape.stride;
            let place = relation as usize * stride..(relation as usize + 1) * stride;
            let weights = &pass.table[place.clone()];
            let weights_gradient = &mut table_gradient[place];
            expand_one::<T>(&live.messages, row, weights, gradient, weights_gradient);
        }
        _ if is_in_registers => expand_tiles::<W, T>(pass, row, live, gradient, table_gradient),
        _ => expand_rows::<T>(pass, row, live, gradient, table_gradient),
    }
}

/// [`expand_live`], pair by pair.
#[inline(always)]
fn expand_rows<const T: usize>(
    pass: Pass<'_>,
    row: &[f32],
    live: &Live,
    gradient: &mut [f32],
    table_gradient: &mut [f32],
) {
    let stride = pass.shape.stride;
    gradient.fill(0.0);
    let tile = live.messages.len() / live.relations.len().max(1);
    for (&relation, message) in live.relations.iter().zip(live.messages.chunks_exact(tile)) {
        let place = relation as usize * stride..(relation as usize + 1) * stride;
        let weights = &pass.table[place.clone()];
        let weights_gradient = &mut table_gradient[place];
        expand::<T>(message, row, weights, gradient, weights_gradient);
    }
}

/// [`expand_live`], tile by tile and each through all pairs: the row's and its gradient's numbers
/// are read and written once.
#[inline(always)]
fn expand_tiles<const W: usize, const T: usize>(
    pass: Pass<'_>,
    row: &[f32],
    live: &Live,
    gradient: &mut [f32],
    table_gradient: &mut [f32],
) {
    let (stride, n_terms) = (pass.shape.stride, pass.shape.n_terms);
    let messages = live.messages.as_chunks::<T>().0;
    let tiles = row.as_chunks::<T>().0.iter();
    for (at, (x, dx)) in tiles.zip(gradient.as_chunks_mut::<T>().0).enumerate() {
        let (x, mut sums) = (*x, [0.0; T]);
        match pass.short {
            Some(short) if W > 0 => {
                for (&relation, message) in live.relations.iter().zip(messages) {
                    let place = relation as usize * stride + at * T;
                    add_products::<T>(&mut table_gradient[place..][..T], &x, message);
                    let place = relation as usize * n_terms + at * (T / W);
                    for (k, a) in short[place..][..T / W].iter().enumerate() {
                        for o in k * W..(k + 1) * W {
                            sums[o] += a * message[o];
                        }
                    }
                }
            }
            _ => {
                for (&relation, message) in live.relations.iter().zip(messages) {
                    let place = relation as usize * stride + at * T;
                    add_products::<T>(&mut table_gradient[place..][..T], &x, message);
                    let a = &pass.table[place..][..T];
                    for t in 0..T {
                        sums[t] += a[t] * message[t];
                    }
                }
            }
        }
        *dx = sums;
    }
}

/// gradient = weights * message and weights_gradient += row * message: a source with one pair needs
/// no sums.
#[inline(always)]
fn expand_one<const T: usize>(
    message: &[f32],
    row: &[f32],
    weights: &[f32],
    gradient: &mut [f32],
    weights_gradient: &mut [f32],
) {
    let mut factor = [0.0; T];
    factor.copy_from_slice(&message[..T]);
    let read = row
        .as_chunks::<T>()
        .0
        .iter()
        .zip(weights.as_chunks::<T>().0);
    let written = gradient.as_chunks_mut::<T>().0.iter_mut();
    let written = written.zip(weights_gradient.as_chunks_mut::<T>().0);
    for ((x, a), (dx, da)) in read.zip(written) {
        let (x, a, mut sums) = (*x, *a, *da);
        for t in 0..T {
            sums[t] += x[t] * factor[t];
        }
        *da = sums;
        for t in 0..T {
            // A sum begins at zero: a product that is -0 leaves it so.
            sums[t] = 0.0 + a[t] * factor[t];
        }
        *dx = sums;
    }
}

/// sum += x * message, through an array.
#[inline(always)]
fn add_products<const T: usize>(sum: &mut [f32], x: &[f32; T], message: &[f32; T]) {
    let mut sums = [0.0; T];
    sums.copy_from_slice(sum);
    for t in 0..T {
        sums[t] += x[t] * message[t];
    }
    sum.copy_from_slice(&sums);
}

/// gradient += weights * message and weights_gradient += row * message, tile by tile.
#[inline(always)]
pub(crate) fn expand<const T: usize>(
    message: &[f32],
    row: &[f32],
    weights: &[f32],
    gradient: &mut [f32],
    weights_gradient: &mut [f32],
) {
    let tile = if T == 0 { message.len() } else { T };
    let read = row.chunks_exact(tile).zip(weights.chunks_exact(tile));
    let written = gradient
        .chunks_exact_mut(tile)
        .zip(weights_gradient.chunks_exact_mut(tile));
    let message = &message[..tile];
    for ((x, a), (dx, da)) in read.zip(written) {
        for t in 0..tile {
            dx[t] += a[t] * message[t];
            da[t] += x[t] * message[t];
        }
    }
}
