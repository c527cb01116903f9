//! The update on the processor: one sample after the other.

mod block;
mod half;
mod kernel;
mod lanes;
mod queue;
mod run;

use pulp::{Arch, Simd, WithSimd};

use super::draws::{Purpose, draw, mix, philox, philox_slots};
use super::{DOT_CLAMP, EdgeOrder, Element, MAX_NEGATIVES, OP, Samples, Settings, Tables};
use block::Block;
use queue::{Prefetch, Queue};
use run::Run;
use shardgraph_device::{Buffer, Error};

/// Negatives that are drawn together, so that the generator becomes vector code.
const SLOTS: usize = 8;

/// Sigmoids that are computed together.
const SIDE_BY_SIDE: usize = 8;

/// Targets of a sample: its edge's own, and the negatives.
const MAX_SLOTS: usize = MAX_NEGATIVES as usize + 1;

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
        let alias = weights.map(|w| w.pairs.on_host(OP)).transpose()?;
        let (drawn, first_edge): (Option<&[u32]>, u64) = match samples.order {
            EdgeOrder::Listed { first } => (None, first % (samples.edges.len() as u64).max(1)),
            EdgeOrder::Drawn => (alias, 0),
        };
        Ok(Self {
            pairs: samples.edges.pairs.on_host(OP)?,
            drawn,
            negatives: samples.negatives.pairs.on_host(OP)?,
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
            Some(_) => self.edge_by_weight(i),
            None => (self.first_edge + i) % (self.pairs.len() as u64 / 2),
        };
        let (source, target) = self.ends(edge);
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

    /// The edge of sample `i`, where edges are drawn.
    #[inline(always)]
    fn edge_by_weight(&self, i: u64) -> u64 {
        let words = philox(self.settings.seed, self.first + i, 0, Purpose::Edge as u32);
        u64::from(draw(self.drawn.unwrap_or_default(), words))
    }

    /// The source and the target of an edge.
    #[inline(always)]
    fn ends(&self, edge: u64) -> (u32, u32) {
        let pair = &self.pairs[2 * edge as usize..][..2];
        match self.reversed {
            false => (pair[0], pair[1]),
            true => (pair[1], pair[0]),
        }
    }

    /// Whether sample `i` is the first of those that share its negatives.
    #[inline(always)]
    fn begins_group(&self, i: u64) -> bool {
        let group = u64::from(self.settings.group);
        group == 1 || (self.first + i).is_multiple_of(group)
    }

    /// The group of the first sample, which begins there.
    fn first_group(&self) -> u64 {
        self.first / u64::from(self.settings.group)
    }

    /// The word that decides how fp16 rows are rounded; f32 rows round to nearest.
    #[inline(always)]
    fn rounding_word<T>(&self, i: u64) -> u32 {
        let sample = self.first + i;
        match size_of::<T>() {
            2 => philox(self.settings.seed, sample, 0, Purpose::Rounding as u32)[0],
            _ => 0,
        }
    }
}

/// `rate * (label - sigmoid(dot))`.
#[inline(always)]
pub(super) fn coefficient(dot: f32, positive: bool, rate: f32) -> f32 {
    let sign = if positive { 1.0 } else { -1.0 };
    sign * sigmoid_of_less(sign * dot, rate)
}

/// `rate * sigmoid(-x)`.
#[inline(always)]
fn sigmoid_of_less(x: f32, rate: f32) -> f32 {
    rate / (1.0 + exp(x.clamp(-DOT_CLAMP, DOT_CLAMP)))
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
    let shifted = x * std::f32::consts::LOG2_E + TO_WHOLE;
    let k = shifted - TO_WHOLE;
    let r = (x - k * LN_2.0) - k * LN_2.1;
    let tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0));
    let sum = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)));
    // `k` as a whole number stands in the last bits of `shifted`: no conversion, so that loops become vector code.
    let exponent = shifted.to_bits().wrapping_sub(TO_WHOLE.to_bits());
    f32::from_bits(exponent.wrapping_add(127) << 23) * sum
}

/// `-ln sigmoid(dot)` of the edge's own target, `-ln sigmoid(-dot)` of a negative.
pub(super) fn loss_of(dot: f32, positive: bool) -> f32 {
    let x = (if positive { dot } else { -dot }).clamp(-DOT_CLAMP, DOT_CLAMP);
    (-x.abs()).exp().ln_1p() + (-x).max(0.0)
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

/// Where the random bits of a target's row begin.
#[inline(always)]
fn word_of_slot(random: u32, slot: usize) -> u32 {
    random.wrapping_add((slot as u32 + 1).wrapping_mul(0xC2B2_AE35))
}

/// Working memory of one sample.
struct Scratch {
    dots: [f32; MAX_SLOTS],
    /// 1 for the edge's own target, -1 for negatives; from memory, so that all lanes are treated alike.
    signs: [f32; MAX_SLOTS],
    /// What each target's row adds to the source's gradient, per unit of the row.
    weights: [f32; MAX_SLOTS],
    /// What the source's row adds to each target's row, per unit of the row.
    steps: [f32; MAX_SLOTS],
    source: Vec<f32>,
    gradient: Vec<f32>,
    /// The targets' rows, where they cannot be worked on in place.
    rows: Vec<f32>,
    /// The slot whose copy is that of each target: its own, or an earlier one of the same row.
    slots: [usize; MAX_SLOTS],
}

/// Added to a sum of squares before its root is divided by.
///
/// # Source
/// The default of PyTorch's Adagrad.
const EPSILON: f32 = 1e-10;

impl Scratch {
    fn new(settings: Settings, in_place: bool) -> Scratch {
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
    fn weigh(&mut self, n_slots: usize, rate: f32) {
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
    fn loss(&self, n_slots: usize) -> f32 {
        let of_slot = |(slot, &dot)| loss_of(dot, slot == 0);
        self.dots[..n_slots].iter().enumerate().map(of_slot).sum()
    }
}

/// Adds the mean square of a row's gradient to the row's sum, and gives the rate that is left of `rate`.
///
/// # Source
/// Duchi, Hazan, Singer, "Adaptive subgradient methods" (2011), with one sum a row as in Lerer et al., "PyTorch-BigGraph" (2019).
#[inline(always)]
fn adagrad_step(rate: f32, sum: &mut f32, mean_square: f32) -> f32 {
    *sum += mean_square;
    rate / (*sum + EPSILON).sqrt()
}

/// The tables of a call that has them to itself.
#[derive(Clone, Copy)]
struct Raw<T> {
    vertex: *mut T,
    /// The same where one table has both roles.
    context: *mut T,
}

impl<T: Element> Raw<T> {
    fn new(tables: Tables<'_, T>) -> Result<Raw<T>, Error> {
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

/// One sample after the other. `step` has checked that every row that a sample names exists, in the tables and their squares.
pub(super) fn sequential<T: Element>(
    settings: Settings,
    samples: &Samples<'_>,
    rate: f32,
    (tables, squares): (Tables<'_, T>, Option<Tables<'_, f32>>),
    losses: Option<&mut Buffer>,
) -> Result<(), Error> {
    let drawn = HostSamples::new(settings, samples)?;
    let losses = match losses {
        Some(losses) => Some(losses.on_host_mut(OP)?),
        None => None,
    };
    let in_place = size_of::<T>() == 4;
    let block = match settings.group > 1 && squares.is_none() {
        true => Some(Block::new(
            settings.dim,
            settings.n_negatives as usize,
            in_place,
        )),
        false => None,
    };
    let of_block = block.as_ref().map_or(1, |_| block::RUN as u64);
    Arch::new().dispatch(Descent {
        tables: Raw::new(tables)?,
        squares: squares.map(Raw::new).transpose()?,
        queue: Queue::new(&drawn, samples.count, (size_of::<T>(), of_block)),
        scratch: Scratch::new(settings, in_place),
        block,
        losses,
        rate,
        count: samples.count,
    });
    Ok(())
}

/// What [`sequential`] does, for each instruction set.
struct Descent<'a, T> {
    tables: Raw<T>,
    squares: Option<Raw<f32>>,
    queue: Queue<'a>,
    scratch: Scratch,
    /// Where samples share negatives, at a rate that all rows have.
    block: Option<Block>,
    losses: Option<&'a mut [f32]>,
    rate: f32,
    count: u64,
}

impl<T: Element> WithSimd for Descent<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 1>(simd),
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            _ => self.run::<S, 16>(simd),
        }
    }
}

impl<T: Element> Descent<'_, T> {
    /// `R` registers hold [`kernel::WIDTH`] numbers.
    #[inline(always)]
    fn run<S: Simd, const R: usize>(self, simd: S) {
        match self.block.as_ref().map(Block::is_usual) {
            Some(true) => self.run_blocks::<S, R, true>(simd),
            Some(false) => self.run_blocks::<S, R, false>(simd),
            None if self.goes_in_runs() => self.run_runs::<S, R>(simd),
            None => self.run_each::<S, R>(simd),
        }
    }

    /// Whether samples are of the kind that [`run`] is for.
    #[inline(always)]
    fn goes_in_runs(&self) -> bool {
        let n_slots = self.queue.drawn.settings.n_negatives as usize + 1;
        size_of::<T>() == 4 && self.squares.is_none() && n_slots == kernel::TILE
    }

    /// Samples that share negatives, a block at a time.
    #[inline(always)]
    fn run_blocks<S: Simd, const R: usize, const IS_USUAL: bool>(mut self, simd: S) {
        let Some(block) = &mut self.block else {
            return;
        };
        let call = block::Call {
            tables: self.tables,
            rate: self.rate,
        };
        let ahead = Prefetch {
            vertex: self.tables.vertex,
            context: self.tables.context,
        };
        let group = u64::from(self.queue.drawn.settings.group);
        let mut i = 0;
        while i < self.count {
            self.queue.advance_block(i, ahead);
            let (in_group, most) = (i % group, block::BLOCK as u64);
            let left = (group - in_group).min(most - in_group % most);
            let n = left.min(self.count - i) as usize;
            let losses = self.losses.as_mut();
            let losses = losses.map(|losses| &mut losses[i as usize..][..n]);
            // SAFETY: the rows exist (see `sequential`), and `self.tables` came from exclusive borrows.
            unsafe {
                block::samples::<T, S, R, IS_USUAL>(
                    simd,
                    &self.queue,
                    (i, n),
                    &call,
                    block,
                    losses,
                );
            }
            i += n as u64;
        }
    }

    /// Samples of f32 rows with negatives of their own, a run at a time.
    #[inline(always)]
    fn run_runs<S: Simd, const R: usize>(mut self, simd: S) {
        let (tables, rate, dim) = (self.tables, self.rate, self.queue.drawn.settings.dim);
        let ahead = Prefetch {
            vertex: tables.vertex,
            context: tables.context,
        };
        let has_one_table = std::ptr::eq(tables.vertex, tables.context);
        let mut run = Run::new();
        let mut i = 0;
        while i < self.count {
            self.queue.advance_block(i, ahead);
            let queue = &self.queue;
            let n = run::length::<S>(queue, (i, self.count - i), has_one_table);
            // SAFETY: the rows exist (see `sequential`), and `self.tables` came from exclusive borrows.
            unsafe {
                match n {
                    0 => {
                        queue.ask(i, ahead);
                        let (sample, tables) = (queue.sample(i), (tables, None));
                        let scratch = &mut self.scratch;
                        kernel::sample::<T, S, R>(simd, sample, rate, tables, scratch);
                    }
                    _ => {
                        run::samples::<T, S, R>(simd, queue, (i, n), (tables, dim, rate), &mut run)
                    }
                }
            }
            if let Some(losses) = &mut self.losses {
                match n {
                    0 => losses[i as usize] = self.scratch.loss(kernel::TILE),
                    _ => run.give_losses(&mut losses[i as usize..][..n]),
                }
            }
            i += n.max(1) as u64;
        }
    }

    /// One sample after the other.
    #[inline(always)]
    fn run_each<S: Simd, const R: usize>(mut self, simd: S) {
        let ahead = Prefetch {
            vertex: self.tables.vertex,
            context: self.tables.context,
        };
        for i in 0..self.count {
            self.queue.advance(i, ahead);
            let (source, targets) = self.queue.sample(i);
            let (tables, scratch) = ((self.tables, self.squares), &mut self.scratch);
            // SAFETY: the rows exist (see `sequential`), and `self.tables` came from exclusive borrows.
            unsafe {
                match size_of::<T>() {
                    4 => {
                        let sample = (source, targets);
                        kernel::sample::<T, S, R>(simd, sample, self.rate, tables, scratch);
                    }
                    _ => {
                        let random = self.queue.drawn.rounding_word::<T>(i);
                        let sample = half::Sample {
                            source,
                            targets,
                            random,
                            is_first: self.queue.drawn.begins_group(i),
                            is_last: i + 1 == self.count || self.queue.drawn.begins_group(i + 1),
                        };
                        half::sample::<T, S, R>(simd, &sample, self.rate, tables, scratch);
                    }
                }
            }
            if let Some(losses) = &mut self.losses {
                losses[i as usize] = self.scratch.loss(targets.len());
            }
        }
    }
}
