//! Linear layers' last step, element-wise functions, softmax and argmax of rows.

use super::Host;
use super::functions::{clamp, exp, log, sigmoid, tanh};
use crate::Unary;

impl Host {
    /// Adds a row to every row of `out`, then takes `max(., 0)` if `relu`.
    pub(crate) fn add_row(&self, row: &[f32], relu: bool, out: &mut [f32]) {
        let moved = (row, out);
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (row, out) = moved;
                for out in out.chunks_exact_mut(row.len().max(1)) {
                    for (out, &b) in out.iter_mut().zip(row) {
                        let sum = *out + b;
                        *out = if relu { super::relu(sum) } else { sum };
                    }
                }
            },
        );
    }

    pub(crate) fn unary(&self, op: Unary, x: &[f32], out: &mut [f32]) {
        match op {
            Unary::Exp => self.map(x, out, exp),
            Unary::Log => self.map(x, out, log),
            Unary::Tanh => self.map(x, out, tanh),
            Unary::Sigmoid => self.map(x, out, sigmoid),
            Unary::Clamp { low, high } => self.map(x, out, move |x| clamp(x, low, high)),
        }
    }

    pub(crate) fn log_softmax(&self, width: usize, x: &[f32], out: &mut [f32]) {
        let moved = (x, out);
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (x, out) = moved;
                let rows = x.chunks_exact(width.max(1));
                for (x, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
                    log_softmax(x, out);
                }
            },
        );
    }

    pub(crate) fn argmax_rows(&self, width: usize, x: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let rows = x.chunks_exact(width.max(1));
        for (x, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
            out[argmax(x)] = 1.0;
        }
    }
}

#[inline(always)]
fn log_softmax(x: &[f32], out: &mut [f32]) {
    let largest = x
        .iter()
        .fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m });
    for (out, &x) in out.iter_mut().zip(x) {
        *out = exp(x - largest);
    }
    let log_sum = log(out.iter().sum());
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - largest) - log_sum;
    }
}

/// The first column with the largest value; numbers go before NaN.
fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        if x > row[best] || (row[best].is_nan() && !x.is_nan()) {
            best = i;
        }
    }
    best
}
