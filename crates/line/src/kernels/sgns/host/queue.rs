//! The draws of the samples to come, made many at a time, and their rows on the way to the cache.

use super::super::draws::{Purpose, RoundKeys, philox_lanes, pick, round_keys, spot_lanes};
use super::lanes::Lanes;
use super::samples::HostSamples;
use shardgraph_device::prefetch_line;

/// Samples that are drawn together.
const BLOCK: u64 = 32;
/// Draws in a ring: those of this block, and of the next.
const RING: u64 = 2 * BLOCK;
/// Bytes of rows that are on their way to the cache at a time: enough to hide memory's latency, and so few that they do not push one
/// another out of a first-level cache of 32 KiB.
const BYTES_AHEAD: usize = 12 << 10;
/// Samples whose rows are on their way, at least and at most.
const AHEAD: (u64, u64) = (2, 16);
/// Random numbers that are made side by side: their state stays in the registers of AVX2.
const LANES: usize = 8;
/// From so many bytes on, the table of negatives is asked for before it is read.
const FAR: usize = 128 << 10;
/// A cache line.
pub(super) const LINE: usize = 64;

/// The samples of a call, in order.
pub(super) struct Queue<'a> {
    pub(super) drawn: &'a HostSamples<'a>,
    keys: RoundKeys,
    n_slots: usize,
    /// Places of a sample's targets.
    stride: usize,
    count: u64,
    /// Samples that are drawn so far.
    n_drawn: u64,
    /// The edge of the next, where edges come as they are listed.
    next_edge: u64,
    sources: [u32; RING as usize],
    /// `stride` for each: the edge's own, then the negatives, then the edge's own again.
    targets: Vec<u32>,
    /// The negatives of each group of a block: where the draws fall, and what is drawn.
    spots: Vec<u64>,
    negatives: Vec<u32>,
    /// Samples whose rows are on their way to the cache while one is worked on.
    ahead: u64,
}

/// Where the rows are.
pub(super) struct Prefetch<T> {
    pub(super) vertex: *const T,
    pub(super) context: *const T,
}

impl<T> Clone for Prefetch<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Prefetch<T> {}

impl<'a> Queue<'a> {
    /// `cell` is the length of a number of the tables; `block` the samples that are worked on together.
    pub(super) fn new(
        drawn: &'a HostSamples<'a>,
        count: u64,
        cell: usize,
        block: u64,
    ) -> Queue<'a> {
        let n_slots = drawn.settings.n_negatives as usize + 1;
        let n_groups = BLOCK as usize + 1;
        let n_draws = (n_groups * (n_slots - 1)).next_multiple_of(LANES);
        // A sample's own two rows, and its share of the negatives'.
        let n_rows = 2.0 + (n_slots - 1) as f64 / f64::from(drawn.settings.group);
        let bytes = n_rows * (drawn.settings.dim * cell) as f64;
        // Negatives are copied two at a time.
        let stride = (n_slots + 1).next_multiple_of(LANES);
        Queue {
            drawn,
            keys: round_keys(drawn.settings.seed),
            n_slots,
            stride,
            count,
            n_drawn: 0,
            next_edge: drawn.first_edge,
            sources: [0; RING as usize],
            targets: vec![0; RING as usize * stride],
            spots: vec![0; n_draws],
            negatives: vec![0; n_draws + 1],
            ahead: ((BYTES_AHEAD as f64 / bytes) as u64).clamp(AHEAD.0.max(block), AHEAD.1),
        }
    }

    /// Sample `i`: its source and its targets.
    #[inline(always)]
    pub(super) fn sample(&self, i: u64) -> (u32, &[u32]) {
        let slot = (i % RING) as usize;
        let targets = &self.targets[slot * self.stride..][..self.n_slots];
        (self.sources[slot], targets)
    }

    /// Samples from `i` on, at most `n`, with so few negatives that their targets are [`Lanes`]: the sources and the targets.
    #[inline(always)]
    pub(super) fn lanes(&self, i: u64, n: usize) -> (&[u32], &[Lanes<u32>]) {
        let slot = (i % RING) as usize;
        let end = (slot + n).min(RING as usize);
        let (targets, _) = self.targets.as_chunks();
        (&self.sources[slot..end], &targets[slot..end])
    }

    /// Draws what is wanted from sample `i` on, and asks for the rows of a later one (of the first few, at the beginning).
    #[inline(always)]
    pub(super) fn advance<T>(&mut self, i: u64, ahead: Prefetch<T>) {
        self.draw_from(i);
        let first = if i == 0 { 0 } else { i + self.ahead };
        for later in first..self.count.min(i + self.ahead + 1) {
            self.prefetch(later, ahead);
        }
    }

    /// Draws what is wanted from sample `i` on: no more than the ring holds.
    #[inline(always)]
    pub(super) fn draw_from(&mut self, i: u64) {
        while self.n_drawn < self.count.min(i + BLOCK) {
            self.draw_block();
        }
    }

    /// As [`Queue::advance`], for samples that are worked on in blocks of so many: their rows are asked for by [`Queue::ask_source`] and
    /// [`Queue::ask_targets`], between the work on the block before, but for those of the first block.
    #[inline(always)]
    pub(super) fn advance_block<T>(&mut self, i: u64, ahead: Prefetch<T>) {
        self.draw_from(i);
        if i == 0 {
            for later in 0..self.count.min(self.ahead) {
                self.prefetch(later, ahead);
            }
        }
    }

    /// The sample whose rows are to be asked for while sample `i` is worked on, as [`Queue::lanes`]; the last, where there is none.
    #[inline(always)]
    pub(super) fn later(&self, i: u64) -> (u32, &Lanes<u32>) {
        let slot = ((i + self.ahead).min(self.count - 1) % RING) as usize;
        (self.sources[slot], &self.targets.as_chunks().0[slot])
    }

    /// Asks for the rows of a later sample than `i`.
    #[inline(always)]
    pub(super) fn ask<T>(&self, i: u64, ahead: Prefetch<T>) {
        let later = i + self.ahead;
        if later < self.count {
            self.prefetch(later, ahead);
        }
    }

    /// Asks for the source's row of a later sample than `i`.
    #[inline(always)]
    pub(super) fn ask_source<T>(&self, i: u64, ahead: Prefetch<T>) {
        let later = i + self.ahead;
        if later < self.count {
            prefetch_row(ahead.vertex, self.sample(later).0, self.drawn.settings.dim);
        }
    }

    /// Asks for the targets' rows of a later sample than `i`; negatives that are shared, once.
    #[inline(always)]
    pub(super) fn ask_targets<T>(&self, i: u64, ahead: Prefetch<T>) {
        let later = i + self.ahead;
        if later < self.count {
            self.prefetch_targets(later, ahead);
        }
    }

    #[inline(always)]
    fn draw_block(&mut self) {
        let (first, end) = (self.n_drawn, self.count.min(self.n_drawn + BLOCK));
        let group = u64::from(self.drawn.settings.group);
        let first_group = first / group;
        self.draw_negatives(first_group, (end - 1) / group - first_group + 1);
        let n_negatives = self.n_slots - 1;
        let (mut at, mut left) = (0, group - first % group);
        for i in first..end {
            let slot = (i % RING) as usize;
            let (source, target) = self.edge(i);
            self.sources[slot] = source;
            let targets = &mut self.targets[slot * self.stride..][..self.stride];
            targets[0] = target;
            for k in (0..n_negatives).step_by(2) {
                let two: [u32; 2] = [self.negatives[at + k], self.negatives[at + k + 1]];
                targets[1 + k..][..2].copy_from_slice(&two);
            }
            for lane in &mut targets[self.n_slots..] {
                *lane = target;
            }
            left -= 1;
            if left == 0 {
                (at, left) = (at + n_negatives, group);
            }
        }
        self.n_drawn = end;
    }

    /// The edge of sample `i`, which is the next.
    #[inline(always)]
    fn edge(&mut self, i: u64) -> (u32, u32) {
        let drawn = self.drawn;
        let edge = match drawn.drawn {
            Some(_) => drawn.edge_by_weight(i),
            None => {
                let n_edges = drawn.pairs.len() as u64 / 2;
                let next = self.next_edge + 1;
                std::mem::replace(&mut self.next_edge, if next == n_edges { 0 } else { next })
            }
        };
        drawn.ends(edge)
    }

    /// The negatives of so many groups.
    #[inline(always)]
    fn draw_negatives(&mut self, first_group: u64, n_groups: u64) {
        let n_negatives = self.n_slots as u64 - 1;
        if n_negatives == 0 {
            return;
        }
        let n = ((n_groups * n_negatives) as usize).next_multiple_of(LANES);
        let pairs = self.drawn.negatives;
        let n_pairs = (pairs.len() / 2) as u32; // at most so many, see `AliasTable::upload`
        let is_far = size_of_val(pairs) >= FAR;
        let first_group = self.drawn.first_group().wrapping_add(first_group);
        let (mut groups, mut slots) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            groups[lane] = first_group.wrapping_add(lane as u64 / n_negatives);
            slots[lane] = lane as u64 % n_negatives;
        }
        // Slots stay below 64: the product's first bits are the quotient.
        let inverse = (1 << 16) / n_negatives + 1;
        for spots in self.spots[..n].as_chunks_mut::<LANES>().0 {
            let words = philox_lanes(&self.keys, groups, slots, Purpose::Negative as u32);
            *spots = spot_lanes(n_pairs, words);
            for lane in 0..LANES {
                let next = slots[lane] + LANES as u64;
                let n_passed = (next * inverse) >> 16;
                groups[lane] = groups[lane].wrapping_add(n_passed);
                slots[lane] = next - n_passed * n_negatives;
            }
            if is_far {
                for spot in spots {
                    prefetch_line(pairs.as_ptr().wrapping_add(2 * (*spot >> 32) as usize));
                }
            }
        }
        for (negative, &spot) in self.negatives[..n].iter_mut().zip(&self.spots[..n]) {
            *negative = pick(pairs, spot);
        }
    }

    /// Asks for the rows of a sample; negatives that are shared, once.
    #[inline(always)]
    fn prefetch<T>(&self, i: u64, ahead: Prefetch<T>) {
        prefetch_row(ahead.vertex, self.sample(i).0, self.drawn.settings.dim);
        self.prefetch_targets(i, ahead);
    }

    #[inline(always)]
    fn prefetch_targets<T>(&self, i: u64, ahead: Prefetch<T>) {
        let (_, targets) = self.sample(i);
        // Where samples share negatives, the first tells whether these are the last one's: a division would cost more than all of this.
        let is_shared = self.drawn.settings.group > 1 && targets.len() > 1;
        let n_new = match is_shared && i > 0 && self.sample(i - 1).1[1] == targets[1] {
            true => 1,
            false => targets.len(),
        };
        for &target in &targets[..n_new] {
            prefetch_row(ahead.context, target, self.drawn.settings.dim);
        }
    }
}

/// Asks for a row's cache lines.
#[inline(always)]
fn prefetch_row<T>(table: *const T, row: u32, dim: usize) {
    let start = table.wrapping_add(row as usize * dim).cast::<u8>();
    let n_lines = (dim * size_of::<T>()).div_ceil(LINE);
    let whole = n_lines / 4 * 4;
    for line in (0..whole).step_by(4) {
        let start = start.wrapping_add(line * LINE);
        prefetch_line(start);
        prefetch_line(start.wrapping_add(LINE));
        prefetch_line(start.wrapping_add(2 * LINE));
        prefetch_line(start.wrapping_add(3 * LINE));
    }
    for line in whole..n_lines {
        prefetch_line(start.wrapping_add(line * LINE));
    }
}
