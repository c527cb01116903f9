//! The host back end: plain loops, compiled for several instruction sets and chosen at run time.

mod dense;
mod functions;
mod neural;
mod sparse;
mod strips;
mod tiles;

use pulp::Arch;

pub(crate) use tiles::{Operand, Tiles};

use crate::{Adam, Binary, Copy2d, Loss};

/// The host back end with the instruction set that this processor has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host {
    arch: Arch,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self { arch: Arch::new() }
    }

    pub(crate) fn binary(&self, op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
        match op {
            Binary::Add => self.zip(a, b, out, |x, y| x + y),
            Binary::Sub => self.zip(a, b, out, |x, y| x - y),
            Binary::Mul => self.zip(a, b, out, |x, y| x * y),
            Binary::Div => self.zip(a, b, out, |x, y| x / y),
            Binary::WherePositive => self.zip(a, b, out, |x, y| if y > 0.0 { x } else { 0.0 }),
            Binary::WhereInside { low, high } => {
                self.zip(
                    a,
                    b,
                    out,
                    move |x, y| {
                        if low <= y && y <= high { x } else { 0.0 }
                    },
                )
            }
        }
    }

    // Loops inside of `dispatch` are compiled once for each instruction set; closures that give away what they captured
    // are inlined there (see `bits::column_sums`).
    fn zip(&self, a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
        let moved = (a, b, out, f);
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (a, b, out, f) = moved;
                for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *out = f(a, b);
                }
            },
        );
    }

    fn map(&self, x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
        let moved = (x, out, f);
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (x, out, f) = moved;
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = f(x);
                }
            },
        );
    }

    pub(crate) fn scale(&self, factor: f32, x: &[f32], out: &mut [f32]) {
        self.map(x, out, move |x| factor * x);
    }

    pub(crate) fn relu(&self, x: &[f32], out: &mut [f32]) {
        self.map(x, out, relu);
    }

    pub(crate) fn gather_rows(&self, width: usize, index: &[u32], x: &[f32], out: &mut [f32]) {
        for (&i, row) in index.iter().zip(out.chunks_exact_mut(width.max(1))) {
            match i {
                u32::MAX => row.fill(0.0),
                i => row.copy_from_slice(&x[i as usize * width..][..width]),
            }
        }
    }

    pub(crate) fn scatter_rows(&self, width: usize, index: &[u32], x: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let moved = (index, x, out);
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (index, x, out) = moved;
                for (&i, row) in index.iter().zip(x.chunks_exact(width.max(1))) {
                    if i != u32::MAX {
                        add_assign(&mut out[i as usize * width..][..width], row);
                    }
                }
            },
        );
    }

    pub(crate) fn scale_rows(&self, width: usize, factors: &[f32], x: &mut [f32]) {
        for (row, &factor) in x.chunks_exact_mut(width.max(1)).zip(factors) {
            row.iter_mut().for_each(|v| *v *= factor);
        }
    }

    pub(crate) fn copy_2d(&self, copy: Copy2d, source: &[f32], target: &mut [f32]) {
        for row in 0..copy.rows {
            let from = copy.source_first + row * copy.source_stride;
            let to = copy.target_first + row * copy.target_stride;
            target[to..to + copy.width].copy_from_slice(&source[from..from + copy.width]);
        }
    }

    pub(crate) fn loss(&self, loss: Loss, pred: &[f32], target: &[f32]) -> f32 {
        let errors = pred.iter().zip(target).map(|(&p, &t)| f64::from(p - t));
        let sum: f64 = match loss {
            Loss::Mse => errors.map(|e| e * e).sum(),
            Loss::Huber { delta } => errors.map(|e| huber(e, f64::from(delta))).sum(),
        };
        (sum / pred.len().max(1) as f64) as f32
    }

    pub(crate) fn loss_grad(
        &self,
        loss: Loss,
        (pred, target): (&[f32], &[f32]),
        upstream: f32,
        out: &mut [f32],
    ) {
        let factor = upstream / pred.len().max(1) as f32;
        for ((out, &p), &t) in out.iter_mut().zip(pred).zip(target) {
            let slope = match loss {
                Loss::Mse => 2.0 * (p - t),
                Loss::Huber { delta } => (p - t).clamp(-delta, delta),
            };
            *out = factor * slope;
        }
    }

    pub(crate) fn adam(
        &self,
        adam: Adam,
        params: &mut [f32],
        grad: &[f32],
        (first, second): (&mut [f32], &mut [f32]),
    ) {
        let moved = (params, first, second);
        let (correction1, correction2) = adam.corrections();
        self.arch.dispatch(
            #[inline(always)]
            move || {
                let (params, first, second) = moved;
                let moments = (first, second);
                // After some steps the corrections are 1: dividing by them takes time and changes nothing.
                match (correction1 < 1.0, correction2 < 1.0) {
                    (false, false) => adam_step(adam, params, grad, moments, |m| m, |v| v),
                    (false, true) => {
                        let second = move |v| v / correction2;
                        adam_step(adam, params, grad, moments, |m| m, second);
                    }
                    (true, _) => {
                        let (first, second) = (move |m| m / correction1, move |v| v / correction2);
                        adam_step(adam, params, grad, moments, first, second);
                    }
                }
            },
        );
    }
}

#[inline(always)]
fn adam_step(
    adam: Adam,
    params: &mut [f32],
    grad: &[f32],
    (first, second): (&mut [f32], &mut [f32]),
    corrected_first: impl Fn(f32) -> f32,
    corrected_second: impl Fn(f32) -> f32,
) {
    for (((p, &g), m), v) in params.iter_mut().zip(grad).zip(first).zip(second) {
        *m = adam.beta1 * *m + (1.0 - adam.beta1) * g;
        *v = adam.beta2 * *v + (1.0 - adam.beta2) * g * g;
        let denominator = corrected_second(*v).sqrt() + adam.epsilon;
        *p -= adam.learning_rate * corrected_first(*m) / denominator;
    }
}

/// In steps of a vector: the compiler's own are longer than most rows.
#[inline(always)]
fn add_assign(target: &mut [f32], row: &[f32]) {
    let (vectors, rest) = target.as_chunks_mut::<8>();
    let (row_vectors, row_rest) = row.as_chunks::<8>();
    for (target, row) in vectors.iter_mut().zip(row_vectors) {
        for (t, &v) in target.iter_mut().zip(row) {
            *t += v;
        }
    }
    for (t, &v) in rest.iter_mut().zip(row_rest) {
        *t += v;
    }
}

/// Not `x < 0.0`: negative zero becomes zero, so that sums with other ranks' zeros keep its bits.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

fn huber(error: f64, delta: f64) -> f64 {
    let size = error.abs();
    if size <= delta {
        0.5 * error * error
    } else {
        delta * (size - 0.5 * delta)
    }
}
