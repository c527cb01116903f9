//! Reports of passes: the mean loss of samples, and the length of rows.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::Order;

/// A pass over the edges that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PassReport {
    /// First or second order; none with the softmax loss.
    pub order: Option<Order>,
    /// Passes of this table so far.
    pub epoch: u32,
    /// Mean loss of samples before their updates: of all with the softmax loss and in less than 16
    /// parts, otherwise of an eighth. None where no sample was looked at.
    pub loss: Option<f64>,
    /// Root of the mean square of the lengths of the vertex rows; none with tables on disk, which
    /// are never in memory as a whole.
    pub row_norm: Option<f64>,
}

impl PassReport {
    /// The kind of table that the pass trained.
    #[must_use]
    pub fn table(&self) -> &'static str {
        name_of(self.order)
    }

    /// A pass of a kind of table, of which no more is known.
    pub(super) fn of_table(table: &str, epoch: u32) -> Option<PassReport> {
        let orders = [None, Some(Order::First), Some(Order::Second)];
        let mut orders = orders.into_iter();
        orders
            .find(|&order| name_of(order) == table)
            .map(|order| PassReport {
                order,
                epoch,
                loss: None,
                row_norm: None,
            })
    }
}

/// The kind of the tables of an order; without one they are those of the softmax loss.
fn name_of(order: Option<Order>) -> &'static str {
    match order {
        None => "softmax",
        Some(Order::First) => "order 1",
        Some(_) => "order 2",
    }
}

/// Losses of a part of a pass, as a checkpoint holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartialLosses {
    units: u64,
    n_samples: u64,
}

/// The sum of losses, the same for any number of threads.
#[derive(Debug, Default)]
pub(super) struct LossSum {
    /// In units of [`UNIT`]: whole numbers have one sum in any order.
    units: AtomicU64,
    n_samples: AtomicU64,
}

/// A loss of 960, the largest of a sample, leaves room for 1.8e10 of them.
const UNIT: f64 = 1.0 / (1 << 20) as f64;

/// Of so many chunks one is looked at, because losses take as long as updates.
const LOOK_EVERY: u64 = 8;

/// With less parts all chunks are looked at.
const MANY_PARTS: u32 = 16;

impl LossSum {
    /// The sum of a pass that goes on.
    pub(super) fn resumed(losses: PartialLosses) -> LossSum {
        LossSum {
            units: AtomicU64::new(losses.units),
            n_samples: AtomicU64::new(losses.n_samples),
        }
    }

    /// The sum since the last [`LossSum::take`].
    pub(super) fn partial(&self) -> PartialLosses {
        PartialLosses {
            units: self.units.load(Ordering::Relaxed),
            n_samples: self.n_samples.load(Ordering::Relaxed),
        }
    }

    /// True if the losses of a chunk, counted over buckets and within them, are to be added.
    pub(super) fn looks_at(n_parts: u32, chunk: u64) -> bool {
        n_parts < MANY_PARTS || chunk.is_multiple_of(LOOK_EVERY)
    }

    /// Adds losses of samples; one that is no number counts as 0, since such rows end the run.
    pub(super) fn add(&self, losses: &[f32]) {
        let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
        self.units
            .fetch_add((sum / UNIT).round() as u64, Ordering::Relaxed);
        self.n_samples
            .fetch_add(losses.len() as u64, Ordering::Relaxed);
    }

    /// The mean since the last call.
    pub(super) fn take(&self) -> Option<f64> {
        let sum = self.units.swap(0, Ordering::Relaxed) as f64 * UNIT;
        match self.n_samples.swap(0, Ordering::Relaxed) {
            0 => None,
            n_samples => Some(sum / n_samples as f64),
        }
    }
}

/// Root of the mean square of the lengths of rows.
pub(crate) fn row_norm(values: &[f32], n_rows: usize) -> f64 {
    let squares: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (squares / n_rows.max(1) as f64).sqrt()
}
