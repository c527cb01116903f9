//! A pass of a layer over its sources: what it reads, and what becomes of the gradients.

use std::ops::Range;

use super::coefficients::{Coefficients, WeightScheme};
use super::optimiser::{Moments, Rule};
use super::plan::LayerPlan;
use super::shape::{TileShape, tile_of};
use super::values::largest_magnitude;

/// The numbers of the sources.
#[derive(Clone, Copy)]
pub(crate) enum Inputs<'a> {
    /// A row of parameters for each source, in the shape's layout.
    Rows(&'a [f32]),
    /// Activations of the layer before, `n_inputs` for each source.
    Activations(&'a [f32]),
}

impl<'a> Inputs<'a> {
    /// The row of a source; `spread` has room for one.
    #[inline(always)]
    pub(crate) fn row<'r>(self, shape: TileShape, source: usize, spread: &'r mut [f32]) -> &'r [f32]
    where
        'a: 'r,
    {
        match self {
            Inputs::Rows(rows) => &rows[source * shape.stride..][..shape.stride],
            Inputs::Activations(inputs) => {
                let inputs = &inputs[source * shape.n_inputs..][..shape.n_inputs];
                shape.spread(inputs, spread);
                spread
            }
        }
    }
}

/// The use of the sources' gradients.
pub(crate) enum Updates<'a> {
    /// Each source's row takes a step at once; `largest` follows the greatest magnitude of all
    /// rows, where it is wanted.
    Rows {
        rows: &'a mut [f32],
        moments: &'a mut Moments,
        rule: Rule,
        largest: Option<&'a mut f32>,
    },
    /// The gradients of rows that others step: a copy of each source's row, and the sum of its
    /// gradients, `stride` for each.
    Sums {
        rows: &'a [f32],
        gradients: &'a mut [f32],
    },
    /// The gradients of activations, `n_inputs` for each source.
    Activations {
        inputs: &'a [f32],
        gradients: &'a mut [f32],
    },
}

impl Updates<'_> {
    /// Uses up the gradient of a source that has none; `gradient` has room for one.
    #[inline(always)]
    pub(crate) fn pass_over(&mut self, shape: TileShape, source: usize, gradient: &mut [f32]) {
        match self {
            Updates::Rows { rule, .. } if !rule.keeps_unused() => {
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
            Updates::Activations { gradients, .. } => {
                gradients[source * shape.n_inputs..][..shape.n_inputs].fill(0.0);
            }
        }
    }
}

/// The input of a pass: some sources of a plan, and a row of the table for each relation.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) plan: &'a LayerPlan,
    pub(crate) shape: TileShape,
    pub(crate) table: &'a [f32],
    /// The table in short, where a relation has one number for all outputs of a k and these are
    /// whole vectors: `n_terms` for each relation, which all fit in the first-level cache.
    pub(crate) short: Option<&'a [f32]>,
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
        let is_short = coefficients.scheme == WeightScheme::Coefficients
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

/// The instructions that the kernels of single widths are compiled for: AVX2 on x86-64, on other
/// processors those that the whole program is compiled for.
#[derive(Clone, Copy)]
pub(crate) struct Vectors(#[cfg(target_arch = "x86_64")] pulp::x86::V3);

impl Vectors {
    /// None where the processor lacks the instructions.
    #[inline]
    pub(crate) fn of_processor() -> Option<Vectors> {
        #[cfg(target_arch = "x86_64")]
        return pulp::x86::V3::try_new().map(Vectors);
        #[cfg(not(target_arch = "x86_64"))]
        Some(Vectors())
    }

    /// Runs a function compiled for the instructions.
    #[inline(always)]
    pub(crate) fn run<R>(self, function: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        return self.0.vectorize(function);
        #[cfg(not(target_arch = "x86_64"))]
        function()
    }
}

/// Calls a pass for the widths that have kernels of their own, and else the general one, which
/// gives the same bits.
///
/// Kernels for AVX-512 take no less time: a message is one or a few vectors of AVX2.
macro_rules! by_width {
    ($width:expr, $pass:ident $args:tt) => {
        match ($crate::layer::pass::Vectors::of_processor(), $width) {
            (Some(vectors), 2) => vectors.run(#[inline(always)] || $pass::<2, 32> $args),
            (Some(vectors), 3) => vectors.run(#[inline(always)] || $pass::<3, 24> $args),
            (Some(vectors), 4) => vectors.run(#[inline(always)] || $pass::<4, 32> $args),
            (Some(vectors), 8) => vectors.run(#[inline(always)] || $pass::<8, 32> $args),
            (Some(vectors), 10) => vectors.run(#[inline(always)] || $pass::<10, 40> $args),
            (Some(vectors), 11) => vectors.run(#[inline(always)] || $pass::<11, 88> $args),
            (Some(vectors), 16) => vectors.run(#[inline(always)] || $pass::<16, 32> $args),
            (Some(vectors), 32) => vectors.run(#[inline(always)] || $pass::<32, 32> $args),
            (Some(vectors), 64) => vectors.run(#[inline(always)] || $pass::<64, 64> $args),
            (Some(vectors), _) => vectors.run(#[inline(always)] || $pass::<0, 0> $args),
            (None, _) => $pass::<0, 0> $args,
        }
    };
}
pub(crate) use by_width;

/// Sources of which messages are made, or gradients gathered, before the others' turn: rows of the
/// output lie anywhere, and a loop that does nothing but go to them has many of its cache misses
/// under way at a time.
const GROUP: usize = 32;

/// A range in groups of [`GROUP`], the last one shorter.
pub(crate) fn groups(sources: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = sources.end;
    sources
        .step_by(GROUP)
        .map(move |start| start..(start + GROUP).min(end))
}

/// The width and the tile, as constants where the pass is made for them.
#[inline(always)]
pub(crate) fn sizes<const W: usize, const T: usize>(shape: TileShape) -> (usize, usize) {
    match W {
        0 => (shape.width, shape.tile()),
        _ => (W, T),
    }
}

/// Uses up a source's gradient.
#[inline(always)]
pub(crate) fn finish(shape: TileShape, source: usize, gradient: &[f32], updates: &mut Updates<'_>) {
    match updates {
        Updates::Rows {
            rows,
            moments,
            rule,
            largest,
        } => {
            let range = source * shape.stride..(source + 1) * shape.stride;
            let row = &mut rows[range.clone()];
            rule.step(row, gradient, moments.of(range));
            if let Some(largest) = largest {
                **largest = largest.max(largest_magnitude(row));
            }
        }
        Updates::Sums { gradients, .. } => {
            gradients[source * shape.stride..][..shape.stride].copy_from_slice(gradient);
        }
        Updates::Activations { gradients, .. } => {
            let sums = &mut gradients[source * shape.n_inputs..][..shape.n_inputs];
            sums.fill(0.0);
            shape.gather(gradient, sums);
        }
    }
}
