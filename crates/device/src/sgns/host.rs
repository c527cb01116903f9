//! The update on the processor, one sample after the other.

use pulp::Arch;

use super::draws::{Purpose, draw, mix, philox};
use super::{DOT_CLAMP, EdgeOrder, Element, OP, Samples, Settings, Tables};
use crate::memory::{on_host, on_host_mut};
use crate::{Buffer, Error};

/// The samples of a call, with their lists in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostSamples<'a> {
    pairs: &'a [u32],
    drawn: Option<&'a [u32]>,
    negatives: &'a [u32],
    settings: Settings,
    first_edge: u64,
    first: u64,
    reversed: bool,
}

impl<'a> HostSamples<'a> {
    pub(super) fn new(settings: Settings, samples: &Samples<'a>) -> Result<Self, Error> {
        let weights = samples.edges.weights.as_ref();
        let alias = weights.map(|w| on_host(OP, &w.pairs)).transpose()?;
        let (drawn, first_edge): (Option<&[u32]>, u64) = match samples.order {
            EdgeOrder::Listed { first } => (None, first % (samples.edges.len() as u64).max(1)),
            EdgeOrder::Drawn => (alias, 0),
        };
        Ok(Self {
            pairs: on_host(OP, &samples.edges.pairs)?,
            drawn,
            negatives: on_host(OP, &samples.negatives.pairs)?,
            settings,
            first_edge,
            first: samples.first,
            reversed: samples.reversed,
        })
    }

    /// The source of sample `i` of the call; its targets go to `targets`, the edge's own first. `before`: those
    /// of sample `i - 1`, whose negatives may be the same.
    pub(super) fn draw(&self, i: u64, targets: &mut [u32], before: Option<&[u32]>) -> u32 {
        let sample = self.first + i;
        let seed = self.settings.seed;
        let edge = match self.drawn {
            Some(table) => u64::from(draw(table, philox(seed, sample, 0, Purpose::Edge as u32))),
            None => (self.first_edge + i) % (self.pairs.len() as u64 / 2),
        };
        let pair = &self.pairs[2 * edge as usize..][..2];
        let (source, target) = match self.reversed {
            false => (pair[0], pair[1]),
            true => (pair[1], pair[0]),
        };
        targets[0] = target;
        let group = sample / u64::from(self.settings.group);
        if let Some(before) = before
            && !sample.is_multiple_of(self.settings.group.into())
        {
            targets[1..].copy_from_slice(&before[1..]);
            return source;
        }
        for (slot, target) in (0u32..).zip(&mut targets[1..]) {
            *target = draw(
                self.negatives,
                philox(seed, group, slot, Purpose::Negative as u32),
            );
        }
        source
    }

    fn rounding_word(&self, i: u64) -> u32 {
        philox(
            self.settings.seed,
            self.first + i,
            0,
            Purpose::Rounding as u32,
        )[0]
    }
}

/// `rate * (label - sigmoid(dot))`.
pub(super) fn coefficient(dot: f32, positive: bool, rate: f32) -> f32 {
    let size = rate / (1.0 + signed(dot, positive).exp());
    if positive { size } else { -size }
}

/// `-ln sigmoid(dot)` of the edge's own target, `-ln sigmoid(-dot)` of a negative.
pub(super) fn loss_of(dot: f32, positive: bool) -> f32 {
    let x = signed(dot, positive);
    (-x.abs()).exp().ln_1p() + (-x).max(0.0)
}

fn signed(dot: f32, positive: bool) -> f32 {
    (if positive { dot } else { -dot }).clamp(-DOT_CLAMP, DOT_CLAMP)
}

/// Partial sums of a dot product: as many as a few vector registers hold.
const LANES: usize = 32;

#[inline(always)]
pub(super) fn dot_of<T: Element>(a: &[f32], b: &[T]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (whole_a, whole_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = whole_a.remainder().iter().zip(whole_b.remainder());
    let rest: f32 = rest.map(|(&a, &b)| a * b.get()).sum();
    for (a, b) in whole_a.zip(whole_b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane].get();
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

/// `row += factor * addend`.
#[inline(always)]
fn add_scaled<T: Element>(row: &mut [T], factor: f32, addend: &[f32], random: u32) {
    for (i, (to, &v)) in (0u32..).zip(row.iter_mut().zip(addend)) {
        *to = to.plus(factor * v, mix(random.wrapping_add(i)));
    }
}

/// Samples whose rows are on their way to the cache while one is worked on: enough for the latency of memory (on tables of
/// 100 MB and more this doubles the rate).
const AHEAD: u64 = 4;

/// The draws of the next samples, in a ring.
struct Lookahead {
    sources: [u32; AHEAD as usize],
    targets: [Vec<u32>; AHEAD as usize],
}

impl Lookahead {
    /// Draws sample `i` of `count` and asks for its rows.
    #[inline(always)]
    fn fetch<T>(&mut self, drawn: &HostSamples<'_>, i: u64, (vertex, context): (&[T], &[T])) {
        let slot = (i % AHEAD) as usize;
        let mut targets = std::mem::take(&mut self.targets[slot]);
        let before =
            (i > 0).then(|| &self.targets[(slot + AHEAD as usize - 1) % AHEAD as usize][..]);
        self.sources[slot] = drawn.draw(i, &mut targets, before);
        prefetch_row(vertex, self.sources[slot], drawn.settings.dim);
        for &target in &targets {
            prefetch_row(context, target, drawn.settings.dim);
        }
        self.targets[slot] = targets;
    }
}

/// Asks for a row's cache lines; does nothing where there is no instruction for it.
#[inline(always)]
fn prefetch_row<T>(table: &[T], row: u32, dim: usize) {
    let row = &table[row as usize * dim..][..dim];
    #[cfg(target_arch = "x86_64")]
    for line in row.chunks(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault; the address is that of a slice that exists.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// Working memory of one sample.
struct Scratch {
    dots: Vec<f32>,
    factors: Vec<f32>,
    source: Vec<f32>,
    gradient: Vec<f32>,
    /// The word that decides how fp16 rows are rounded.
    random: u32,
}

impl Scratch {
    /// The loss of the last sample.
    fn loss(&self) -> f32 {
        let of_slot = |(slot, &dot)| loss_of(dot, slot == 0);
        self.dots.iter().enumerate().map(of_slot).sum()
    }
}

pub(super) fn sequential<T: Element>(
    settings: Settings,
    samples: &Samples<'_>,
    rate: f32,
    tables: Tables<'_, T>,
    losses: Option<&mut Buffer>,
) -> Result<(), Error> {
    let drawn = HostSamples::new(settings, samples)?;
    let n_targets = settings.n_negatives as usize + 1;
    let scratch = Scratch {
        dots: vec![0.0; n_targets],
        factors: vec![0.0; n_targets],
        source: vec![0.0; settings.dim],
        gradient: vec![0.0; settings.dim],
        random: 0,
    };
    let losses = match losses {
        Some(losses) => Some(on_host_mut(OP, losses)?),
        None => None,
    };
    let tables = match tables {
        Tables::Order1(table) => (on_host_mut(OP, table)?, None),
        Tables::Order2 { vertex, context } => {
            (on_host_mut(OP, vertex)?, Some(on_host_mut(OP, context)?))
        }
    };
    let lookahead = Lookahead {
        sources: [0; AHEAD as usize],
        targets: std::array::from_fn(|_| vec![0; n_targets]),
    };
    let moved = (tables, losses, scratch, lookahead); // see `segments`
    Arch::new().dispatch(
        #[inline(always)]
        || all_samples(&drawn, samples.count, rate, moved),
    );
    Ok(())
}

type HostTables<'a, T> = (&'a mut [T], Option<&'a mut [T]>);

type Moved<'a, T> = (HostTables<'a, T>, Option<&'a mut [f32]>, Scratch, Lookahead);

#[inline(always)]
fn all_samples<T: Element>(
    drawn: &HostSamples<'_>,
    count: u64,
    rate: f32,
    ((vertex, mut context), mut losses, mut scratch, mut ring): Moved<'_, T>,
) {
    for i in 0..count.min(AHEAD) {
        ring.fetch(drawn, i, (vertex, context.as_deref().unwrap_or(vertex)));
    }
    for i in 0..count {
        let slot = (i % AHEAD) as usize;
        scratch.random = match size_of::<T>() {
            2 => drawn.rounding_word(i),
            _ => 0, // f32 tables round to nearest
        };
        let draws = (ring.sources[slot], &ring.targets[slot][..]);
        one_sample(draws, rate, vertex, context.as_deref_mut(), &mut scratch);
        if let Some(losses) = &mut losses {
            losses[i as usize] = scratch.loss();
        }
        if i + AHEAD < count {
            ring.fetch(
                drawn,
                i + AHEAD,
                (vertex, context.as_deref().unwrap_or(vertex)),
            );
        }
    }
}

/// One update; without a context table the vertex table has both roles. All targets are read before any is written.
#[inline(always)]
fn one_sample<T: Element>(
    (source, targets): (u32, &[u32]),
    rate: f32,
    vertex: &mut [T],
    context: Option<&mut [T]>,
    scratch: &mut Scratch,
) {
    let dim = scratch.source.len();
    let (u, random) = (source as usize * dim, scratch.random);
    for (to, from) in scratch.source.iter_mut().zip(&vertex[u..u + dim]) {
        *to = from.get();
    }
    scratch.gradient.fill(0.0);
    let read: &[T] = context.as_deref().unwrap_or(vertex);
    for (slot, &target) in targets.iter().enumerate() {
        let row = &read[target as usize * dim..][..dim];
        let dot = dot_of(&scratch.source, row);
        let factor = coefficient(dot, slot == 0, rate);
        scratch.dots[slot] = dot;
        scratch.factors[slot] = factor;
        for (g, v) in scratch.gradient.iter_mut().zip(row) {
            *g += factor * v.get();
        }
    }
    let written: &mut [T] = context.unwrap_or(vertex);
    for (slot, &target) in (1u32..).zip(targets) {
        let row = &mut written[target as usize * dim..][..dim];
        let factor = scratch.factors[slot as usize - 1];
        add_scaled(
            row,
            factor,
            &scratch.source,
            random.wrapping_add(slot.wrapping_mul(0xC2B2_AE35)),
        );
    }
    add_scaled(&mut vertex[u..u + dim], 1.0, &scratch.gradient, random);
}
