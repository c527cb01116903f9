//! One update of a double DQN with the 4-120-84-2 net of CleanRL's CartPole example: the loss, in plain operations.

use shardgraph_autodiff::ops::{Binary, Loss};
use shardgraph_autodiff::{Axis, Ctx, Error, ParamId, Params, Shape, Var};

/// Widths of the layers.
const WIDTHS: [usize; 4] = [4, 120, 84, 2];

/// Weights and biases of one net.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Net {
    layers: [(ParamId, ParamId); 3],
}

impl Net {
    /// Adds a net's parameters, filled by a fixed rule.
    pub(crate) fn build(params: &mut Params, name: &str) -> Self {
        let mut seed = name.len() as u32;
        let mut init = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 24) as f32 * 0.4 - 0.2
        };
        let mut layer = |i: usize| {
            let (inner, outer) = (WIDTHS[i], WIDTHS[i + 1]);
            (
                params.add(
                    &format!("{name}/{i}/w"),
                    Shape::new(inner, outer),
                    &mut init,
                ),
                params.add(&format!("{name}/{i}/b"), Shape::new(1, outer), &mut init),
            )
        };
        Self {
            layers: [layer(0), layer(1), layer(2)],
        }
    }

    /// The action values `[batch, 2]` of observations `[batch, 4]`.
    pub(crate) fn q(&self, ctx: &mut dyn Ctx, observations: Var) -> Result<Var, Error> {
        let mut h = observations;
        for (i, (w, b)) in self.layers.into_iter().enumerate() {
            let (w, b) = (ctx.param(w)?, ctx.param(b)?);
            h = ctx.matmul(h, w)?;
            h = ctx.add_row(h, b)?;
            if i + 1 < self.layers.len() {
                h = ctx.relu(h)?;
            }
        }
        Ok(h)
    }
}

/// A batch of transitions.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    /// Number of transitions.
    pub(crate) n: usize,
    /// `[n, 4]`.
    pub(crate) observations: Vec<f32>,
    /// `[n, 4]`.
    pub(crate) next_observations: Vec<f32>,
    /// `[n, 2]`: 1 for the action that was taken.
    pub(crate) actions: Vec<f32>,
    /// `[n, 1]`.
    pub(crate) rewards: Vec<f32>,
    /// `[n, 1]`: the discount, 0 where the episode has terminated.
    pub(crate) discounts: Vec<f32>,
}

impl Batch {
    /// A batch filled by a fixed rule.
    pub(crate) fn new(n: usize, seed: usize) -> Self {
        let values = |len: usize, step: usize| {
            let value = |i: usize| ((i * step + seed) % 97) as f32 / 48.5 - 1.0;
            (0..len).map(value).collect::<Vec<f32>>()
        };
        let one_hot = |i: usize| f32::from(u8::from((i / 2 + seed) % 3 % 2 == i % 2));
        Self {
            n,
            observations: values(4 * n, 31),
            next_observations: values(4 * n, 37),
            actions: (0..2 * n).map(one_hot).collect(),
            rewards: vec![1.0; n],
            discounts: (0..n)
                .map(|i| {
                    if (i + seed).is_multiple_of(9) {
                        0.0
                    } else {
                        0.99
                    }
                })
                .collect(),
        }
    }
}

/// The loss of an update: Huber of `Q(s, a)` against `r + discount * Q'(s', argmax Q(s', .))` (van Hasselt et al. 2016).
///
/// The set has no argmax by rows; with two actions a comparison of the two columns is one.
pub(crate) fn loss(ctx: &mut dyn Ctx, nets: [Net; 2], batch: &Batch) -> Result<Var, Error> {
    let [online, target] = nets;
    let (wide, pair, one) = (
        Shape::new(batch.n, 4),
        Shape::new(batch.n, 2),
        Shape::new(batch.n, 1),
    );
    let observations = ctx.input(wide, &batch.observations)?;
    let next = ctx.input(wide, &batch.next_observations)?;
    let actions = ctx.input(pair, &batch.actions)?;
    let rewards = ctx.input(one, &batch.rewards)?;
    let discounts = ctx.input(one, &batch.discounts)?;
    let ones = ctx.input(Shape::new(2, 1), &[1.0, 1.0])?;
    let q = online.q(ctx, observations)?;
    let taken = ctx.mul(q, actions)?;
    let taken = ctx.matmul(taken, ones)?;
    let choice = online.q(ctx, next)?;
    let left = ctx.slice(choice, Axis::Cols, 0, 1)?;
    let right = ctx.slice(choice, Axis::Cols, 1, 1)?;
    let better = ctx.sub(left, right)?;
    let values = target.q(ctx, next)?;
    let left = ctx.slice(values, Axis::Cols, 0, 1)?;
    let right = ctx.slice(values, Axis::Cols, 1, 1)?;
    let gain = ctx.sub(left, right)?;
    let gain = ctx.binary(Binary::WherePositive, gain, better)?;
    let value = ctx.add(right, gain)?; // the left one where the left action is the better one
    let value = ctx.mul(value, discounts)?;
    let targets = ctx.add(rewards, value)?;
    ctx.loss(Loss::Huber { delta: 1.0 }, taken, targets)
}
