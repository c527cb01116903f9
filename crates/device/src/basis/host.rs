//! Basis decomposition of one-hot features on the processor: one pass over the sources.

use pulp::Arch;

use super::{BasisShape, Descent, OP, Range, Relational};
use crate::memory::on_host;
use crate::{Buffer, Error};

/// The graph and the coefficients, in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<'a> {
    offsets: &'a [u64],
    relations: &'a [u32],
    ranks: &'a [u32],
    coefficients: &'a [f32],
    shape: BasisShape,
}

impl<'a> Operands<'a> {
    pub(super) fn new(
        graph: &'a Relational,
        shape: BasisShape,
        coefficients: &'a Buffer,
    ) -> Result<Self, Error> {
        Ok(Self {
            offsets: on_host(OP, graph.by_source.offsets())?,
            relations: on_host(OP, &graph.pair_relations)?,
            ranks: on_host(OP, &graph.ranks)?,
            coefficients: on_host(OP, coefficients)?,
            shape,
        })
    }

    /// The coefficients of a pair.
    #[inline(always)]
    fn of_pair(&self, pair: usize) -> &'a [f32] {
        let n_bases = self.shape.n_bases;
        &self.coefficients[self.relations[pair] as usize * n_bases..][..n_bases]
    }

    #[inline(always)]
    fn pairs_of(&self, source: usize) -> std::ops::Range<usize> {
        self.offsets[source] as usize..self.offsets[source + 1] as usize
    }
}

pub(super) fn pairs(operands: Operands<'_>, bases: &[f32], out: &mut [f32]) {
    let BasisShape { n_bases, width } = operands.shape;
    out.fill(0.0);
    if n_bases * width == 0 {
        return;
    }
    let moved = (bases, out); // see `segments`
    Arch::new().dispatch(
        #[inline(always)]
        || pairs_of_sources(operands, moved),
    );
}

#[inline(always)]
fn pairs_of_sources(operands: Operands<'_>, (bases, out): (&[f32], &mut [f32])) {
    let BasisShape { n_bases, width } = operands.shape;
    for (source, block) in bases.chunks_exact(n_bases * width).enumerate() {
        for pair in operands.pairs_of(source) {
            let out = &mut out[pair * width..][..width];
            for (&a, v) in operands.of_pair(pair).iter().zip(block.chunks_exact(width)) {
                out.iter_mut().zip(v).for_each(|(o, &v)| *o += a * v);
            }
        }
    }
}

/// The gradients of a range's bases, and the dot product of each pair's gradient with each basis of its source.
pub(super) fn gradients(
    operands: Operands<'_>,
    range: &Range,
    (bases, grad_pairs): (&[f32], &[f32]),
    dots: &mut [f32],
    grad_bases: &mut [f32],
) {
    let moved = (dots, grad_bases);
    Arch::new().dispatch(
        #[inline(always)]
        || gradients_of_sources(operands, range, (bases, grad_pairs), moved),
    );
}

#[inline(always)]
fn gradients_of_sources(
    operands: Operands<'_>,
    range: &Range,
    (bases, grad_pairs): (&[f32], &[f32]),
    (dots, grad_bases): (&mut [f32], &mut [f32]),
) {
    let size = operands.shape.n_bases * operands.shape.width;
    for source in sources(range) {
        let block = &bases[source * size..][..size];
        let grad = &mut grad_bases[source * size..][..size];
        of_source(operands, source, (block, grad_pairs), dots, grad);
    }
}

/// As [`gradients`], but each source's bases take their step at once.
pub(super) fn step(
    operands: Operands<'_>,
    range: &Range,
    descent: Descent,
    grad_pairs: &[f32],
    dots: &mut [f32],
    bases: &mut [f32],
) {
    let moved = (dots, bases);
    Arch::new().dispatch(
        #[inline(always)]
        || step_of_sources(operands, range, descent, grad_pairs, moved),
    );
}

#[inline(always)]
fn step_of_sources(
    operands: Operands<'_>,
    range: &Range,
    descent: Descent,
    grad_pairs: &[f32],
    (dots, bases): (&mut [f32], &mut [f32]),
) {
    let size = operands.shape.n_bases * operands.shape.width;
    let mut grad = vec![0.0f32; size];
    for source in sources(range) {
        let block = &mut bases[source * size..][..size];
        of_source(operands, source, (block, grad_pairs), dots, &mut grad);
        for (v, &g) in block.iter_mut().zip(&grad) {
            *v -= descent.rate * (g + descent.decay * *v);
        }
    }
}

fn sources(range: &Range) -> std::ops::Range<usize> {
    range.first_source as usize..(range.first_source + range.n_sources) as usize
}

#[inline(always)]
fn of_source(
    operands: Operands<'_>,
    source: usize,
    (block, grad_pairs): (&[f32], &[f32]),
    dots: &mut [f32],
    grad: &mut [f32],
) {
    let BasisShape { n_bases, width } = operands.shape;
    grad.fill(0.0);
    for pair in operands.pairs_of(source) {
        let g = &grad_pairs[pair * width..][..width];
        let dots = &mut dots[operands.ranks[pair] as usize * n_bases..][..n_bases];
        for (b, (&a, dot)) in operands.of_pair(pair).iter().zip(dots).enumerate() {
            let v = &block[b * width..][..width];
            *dot = v.iter().zip(g).map(|(&v, &g)| v * g).sum();
            let grad = &mut grad[b * width..][..width];
            grad.iter_mut().zip(g).for_each(|(t, &g)| *t += a * g);
        }
    }
}
