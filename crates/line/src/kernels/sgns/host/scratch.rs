//! Working memory of one sample, and the tables that it works on.

use super::super::{Element, MAX_NEGATIVES, OP, Settings, Tables};
use super::logistic::{loss_of_sample, sigmoid_of_less};
use shardgraph_device::Error;

/// Sigmoids that are computed together.
pub(super) const SIDE_BY_SIDE: usize = 8;

/// Targets of a sample: its edge's own, and the negatives.
pub(super) const MAX_SLOTS: usize = MAX_NEGATIVES as usize + 1;

/// Working memory of one sample.
pub(super) struct Scratch {
    pub(super) dots: [f32; MAX_SLOTS],
    /// 1 for the edge's own target, -1 for negatives; from memory, so that all lanes are treated alike.
    pub(super) signs: [f32; MAX_SLOTS],
    /// What each target's row adds to the source's gradient, per unit of the row.
    pub(super) weights: [f32; MAX_SLOTS],
    /// What the source's row adds to each target's row, per unit of the row.
    pub(super) steps: [f32; MAX_SLOTS],
    pub(super) source: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    /// The targets' rows, where they cannot be worked on in place.
    pub(super) rows: Vec<f32>,
    /// The slot whose copy is that of each target: its own, or an earlier one of the same row.
    pub(super) slots: [usize; MAX_SLOTS],
}

/// Added to a sum of squares before its root is divided by.
///
/// # Source
/// The default of PyTorch's Adagrad.
const EPSILON: f32 = 1e-10;

impl Scratch {
    pub(super) fn new(settings: Settings, in_place: bool) -> Scratch {
        let n_targets = settings.n_negatives as usize + 1;
        let n_copied = if in_place { 0 } else { n_targets };
        let mut signs = [-1.0; MAX_SLOTS];
        signs[0] = 1.0;
        Scratch {
            signs,
            dots: [0.0; MAX_SLOTS],
            weights: [0.0; MAX_SLOTS],
            steps: [0.0; MAX_SLOTS],
            source: vec![0.0; settings.dim],
            gradient: vec![0.0; settings.dim],
            rows: vec![0.0; n_copied * settings.dim],
            slots: [0; MAX_SLOTS],
        }
    }

    /// `weights = rate * (label - sigmoid(dots))`.
    #[inline(always)]
    pub(super) fn weigh(&mut self, n_slots: usize, rate: f32) {
        let (dots, _) = self.dots.as_chunks::<SIDE_BY_SIDE>();
        let (weights, _) = self.weights.as_chunks_mut::<SIDE_BY_SIDE>();
        let (signs, _) = self.signs.as_chunks::<SIDE_BY_SIDE>();
        let chunks = dots.iter().zip(weights).zip(signs);
        for ((dots, weights), signs) in chunks.take(n_slots.div_ceil(SIDE_BY_SIDE)) {
            for lane in 0..SIDE_BY_SIDE {
                weights[lane] = signs[lane] * sigmoid_of_less(signs[lane] * dots[lane], rate);
            }
        }
    }

    /// The loss of the last sample.
    pub(super) fn loss(&self, n_slots: usize) -> f32 {
        loss_of_sample(self.dots[..n_slots].iter().copied())
    }
}

/// Adds the mean square of a row's gradient to the row's sum, and gives the rate that is left of `rate`.
///
/// # Source
/// Duchi, Hazan, Singer, "Adaptive subgradient methods" (2011), with one sum a row as in Lerer et al., "PyTorch-BigGraph" (2019).
#[inline(always)]
pub(super) fn adagrad_step(rate: f32, sum: &mut f32, mean_square: f32) -> f32 {
    *sum += mean_square;
    rate / (*sum + EPSILON).sqrt()
}

/// The tables of a call that has them to itself.
#[derive(Clone, Copy)]
pub(super) struct Raw<T> {
    pub(super) vertex: *mut T,
    /// The same where one table has both roles.
    pub(super) context: *mut T,
}

impl<T: Element> Raw<T> {
    pub(super) fn new(tables: Tables<'_, T>) -> Result<Raw<T>, Error> {
        Ok(match tables {
            Tables::Order1(table) => {
                let both = table.on_host_mut(OP)?.as_mut_ptr();
                Raw {
                    vertex: both,
                    context: both,
                }
            }
            Tables::Order2 { vertex, context } => Raw {
                vertex: vertex.on_host_mut(OP)?.as_mut_ptr(),
                context: context.on_host_mut(OP)?.as_mut_ptr(),
            },
        })
    }
}
