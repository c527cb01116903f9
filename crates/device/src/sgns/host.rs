//! The update on the processor, one sample after the other.

use pulp::Arch;

use super::draws::{Purpose, draw, mix, philox, philox_slots};
use super::{DOT_CLAMP, EdgeOrder, Element, MAX_NEGATIVES, OP, Samples, Settings, Tables};
use crate::memory::{on_host, on_host_mut};
use crate::{Buffer, Error};

/// Negatives that are drawn together, so that the generator becomes vector code.
const SLOTS: usize = 8;

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
    #[inline(always)]
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
        for (first, targets) in (0u32..).zip(targets[1..].chunks_mut(SLOTS)) {
            let first_slot = first * SLOTS as u32;
            let words = philox_slots::<SLOTS>(seed, group, first_slot, Purpose::Negative as u32);
            for (target, words) in targets.iter_mut().zip(words) {
                *target = draw(self.negatives, words);
            }
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
#[inline(always)]
pub(super) fn coefficient(dot: f32, positive: bool, rate: f32) -> f32 {
    let size = rate / (1.0 + exp(signed(dot, positive)));
    if positive { size } else { -size }
}

/// `e^x` for `x` within [`DOT_CLAMP`], to about 2^-23 of itself: without a call, which costs more than the sum itself.
///
/// With `k` the whole number nearest to `x / ln 2`, it is `2^k e^r`; `e^r` is its Taylor sum, whose rest is below
/// `0.35^7 / 7!`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding it leaves no bit behind the point.
    const TO_WHOLE: f32 = 12_582_912.0;
    /// The first bits of ln 2, so few that a product with `k` is exact, and the rest.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let k = (x * std::f32::consts::LOG2_E + TO_WHOLE) - TO_WHOLE;
    let r = (x - k * LN_2.0) - k * LN_2.1;
    let tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0));
    let sum = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)));
    f32::from_bits(((k as i32 + 127) << 23) as u32) * sum
}

/// `-ln sigmoid(dot)` of the edge's own target, `-ln sigmoid(-dot)` of a negative.
pub(super) fn loss_of(dot: f32, positive: bool) -> f32 {
    let x = signed(dot, positive);
    (-x.abs()).exp().ln_1p() + (-x).max(0.0)
}

#[inline(always)]
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
    /// [`WIDTH`] partial sums of each dot product.
    lanes: Vec<f32>,
    factors: Vec<f32>,
    /// The targets' rows of fp16 tables, widened.
    rows: Vec<f32>,
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
        lanes: vec![0.0; n_targets * WIDTH],
        factors: vec![0.0; n_targets],
        rows: match size_of::<T>() {
            2 => vec![0.0; n_targets * settings.dim],
            _ => Vec::new(),
        },
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

/// One update; without a context table the vertex table has both roles. All dot products come before the first addition.
#[inline(always)]
fn one_sample<T: Element>(
    (source, targets): (u32, &[u32]),
    rate: f32,
    vertex: &mut [T],
    context: Option<&mut [T]>,
    scratch: &mut Scratch,
) {
    let dim = scratch.source.len();
    let u = source as usize * dim;
    for (to, from) in scratch.source.iter_mut().zip(&vertex[u..u + dim]) {
        *to = from.get();
    }
    let read = context.as_deref().unwrap_or(vertex);
    match size_of::<T>() {
        2 => wide_dots(targets, read, scratch),
        _ => all_dots(targets, read, scratch),
    }
    let factors = scratch.factors.iter_mut().zip(&scratch.dots);
    for (slot, (factor, &dot)) in factors.enumerate() {
        *factor = coefficient(dot, slot == 0, rate);
    }
    let written: &mut [T] = context.unwrap_or(vertex);
    match size_of::<T>() {
        2 => update_rows(targets, written, scratch),
        _ => update_all_columns(targets, written, scratch),
    }
    let random = scratch.random;
    add_scaled(&mut vertex[u..u + dim], 1.0, &scratch.gradient, random);
}

/// Columns that are worked on together: a vector register of the widest.
const WIDTH: usize = 16;

/// The dot products of the source with all targets.
///
/// The lanes of each are put down before they are summed up in a loop of its own: the compiler then keeps them in vector
/// registers, and does not cut them in two for the sake of the last additions.
#[inline(always)]
fn all_dots<T: Element>(targets: &[u32], table: &[T], scratch: &mut Scratch) {
    let dim = scratch.source.len();
    for (&target, lanes) in targets.iter().zip(scratch.lanes.chunks_exact_mut(WIDTH)) {
        let row = &table[target as usize * dim..][..dim];
        let mut sums = [0.0; WIDTH];
        let blocks = scratch.source.chunks_exact(WIDTH);
        for (source, row) in blocks.zip(row.chunks_exact(WIDTH)) {
            for lane in 0..WIDTH {
                sums[lane] += source[lane] * row[lane].get();
            }
        }
        lanes.copy_from_slice(&sums);
        for column in dim / WIDTH * WIDTH..dim {
            lanes[column % WIDTH] += scratch.source[column] * row[column].get();
        }
    }
    let all_lanes = scratch.lanes.chunks_exact_mut(WIDTH);
    for (dot, lanes) in scratch.dots.iter_mut().zip(all_lanes) {
        let mut width = WIDTH / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        *dot = lanes[0];
    }
}

/// As [`all_dots`], from rows that are widened first: a loop that only converts becomes vector code.
#[inline(always)]
fn wide_dots<T: Element>(targets: &[u32], table: &[T], scratch: &mut Scratch) {
    let dim = scratch.source.len();
    let mut rows = std::mem::take(&mut scratch.rows);
    for (&target, wide) in targets.iter().zip(rows.chunks_exact_mut(dim)) {
        let row = &table[target as usize * dim..][..dim];
        for (to, from) in wide.iter_mut().zip(row) {
            *to = from.get();
        }
    }
    let slots: [u32; MAX_NEGATIVES as usize + 1] = std::array::from_fn(|slot| slot as u32);
    all_dots(&slots[..targets.len()], &rows, scratch);
    scratch.rows = rows;
}

/// Updates the targets' rows one by one, and sums their gradient.
#[inline(always)]
fn update_rows<T: Element>(targets: &[u32], table: &mut [T], scratch: &mut Scratch) {
    let dim = scratch.source.len();
    scratch.gradient.fill(0.0);
    for (slot, (&target, &factor)) in (1u32..).zip(targets.iter().zip(&scratch.factors)) {
        let row = &mut table[target as usize * dim..][..dim];
        for (to, from) in scratch.gradient.iter_mut().zip(&*row) {
            *to += factor * from.get();
        }
        let random = scratch.random.wrapping_add(slot.wrapping_mul(0xC2B2_AE35));
        add_scaled(row, factor, &scratch.source, random);
    }
}

/// Updates the targets' rows, [`WIDTH`] columns of all of them at a time.
#[inline(always)]
fn update_all_columns<T: Element>(targets: &[u32], table: &mut [T], scratch: &mut Scratch) {
    let dim = scratch.source.len();
    for first in (0..dim / WIDTH * WIDTH).step_by(WIDTH) {
        update_columns::<T, WIDTH>(first, targets, table, scratch);
    }
    for first in dim / WIDTH * WIDTH..dim {
        update_columns::<T, 1>(first, targets, table, scratch);
    }
}

/// Updates `N` columns of all targets' rows, and sums their gradient: what is added up stays in a register.
#[inline(always)]
fn update_columns<T: Element, const N: usize>(
    first: usize,
    targets: &[u32],
    table: &mut [T],
    scratch: &mut Scratch,
) {
    let dim = scratch.source.len();
    let mut source = [0.0; N];
    source.copy_from_slice(&scratch.source[first..first + N]);
    let mut gradient = [0.0; N];
    for (slot, (&target, &factor)) in (1u32..).zip(targets.iter().zip(&scratch.factors)) {
        let row = &mut table[target as usize * dim + first..][..N];
        let random = scratch.random.wrapping_add(slot.wrapping_mul(0xC2B2_AE35));
        for lane in 0..N {
            gradient[lane] += factor * row[lane].get();
            let word = random.wrapping_add((first + lane) as u32);
            row[lane] = row[lane].plus(factor * source[lane], mix(word));
        }
    }
    scratch.gradient[first..first + N].copy_from_slice(&gradient);
}
