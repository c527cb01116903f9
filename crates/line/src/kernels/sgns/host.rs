//! The update on the processor: one sample after the other.

mod block;
mod half;
mod half_rows;
mod kernel;
mod lanes;
mod logistic;
mod queue;
mod run;
mod samples;
mod scratch;

use pulp::{Arch, Simd, WithSimd};

use super::{Element, OP, Samples, Settings, Tables};
use block::Block;
use queue::{Prefetch, Queue};
use run::Run;
use scratch::{Raw, Scratch};
use shardgraph_device::{Buffer, Error};

#[cfg(test)]
pub(super) use logistic::exp;
pub(super) use logistic::{coefficient, loss_of_sample};
pub(super) use samples::HostSamples;

/// One sample after the other. `step` has checked that every row that a sample names exists, in the tables and their squares.
pub(super) fn sequential<T: Element>(
    settings: Settings,
    samples: &Samples<'_>,
    rate: f32,
    tables: Tables<'_, T>,
    squares: Option<Tables<'_, f32>>,
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
        queue: Queue::new(&drawn, samples.count, size_of::<T>(), of_block),
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

/// Whether loops are made for the usual shapes, too: on x86-64 processors without AVX2, which are
/// rare, the general ones give the same bits.
const fn has_vectors<S: Simd>() -> bool {
    cfg!(not(target_arch = "x86_64")) || S::F32_LANES > 1
}

impl<T: Element> Descent<'_, T> {
    /// `R` registers hold [`kernel::WIDTH`] numbers.
    #[inline(always)]
    fn run<S: Simd, const R: usize>(self, simd: S) {
        match self.block.as_ref().map(Block::is_usual) {
            Some(true) if has_vectors::<S>() => self.run_blocks::<S, R, true>(simd),
            Some(_) => self.run_blocks::<S, R, false>(simd),
            None if has_vectors::<S>() && self.goes_in_runs() => self.run_runs::<S, R>(simd),
            None => self.run_each::<S, R>(simd),
        }
    }

    /// Whether samples are of the kind that [`run`] is for.
    #[inline(always)]
    fn goes_in_runs(&self) -> bool {
        let n_slots = self.queue.drawn.settings.n_negatives as usize + 1;
        self.squares.is_none() && n_slots == lanes::TILE
    }

    /// Samples that share negatives, a block at a time.
    #[inline(always)]
    fn run_blocks<S: Simd, const R: usize, const IS_USUAL: bool>(mut self, simd: S) {
        let ahead = self.ahead();
        let Some(block) = &mut self.block else {
            return;
        };
        let call = block::Call {
            tables: self.tables,
            rate: self.rate,
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
                block::samples::<T, S, R, IS_USUAL>(simd, &self.queue, i, n, &call, block, losses);
            }
            i += n as u64;
        }
    }

    /// Samples with negatives of their own, a run at a time.
    #[inline(always)]
    fn run_runs<S: Simd, const R: usize>(mut self, simd: S) {
        let (tables, rate, dim) = (self.tables, self.rate, self.queue.drawn.settings.dim);
        let ahead = self.ahead();
        let has_one_table = std::ptr::eq(tables.vertex, tables.context);
        let mut run = Run::new(dim, size_of::<T>() == 4);
        let mut i = 0;
        while i < self.count {
            self.queue.advance_block(i, ahead);
            let queue = &self.queue;
            let n = run::length::<S>(queue, i, self.count - i, has_one_table);
            if n == 0 {
                queue.ask(i, ahead);
                self.one::<S, R>(simd, i);
                i += 1;
                continue;
            }
            // SAFETY: the rows exist (see `sequential`), and `self.tables` came from exclusive borrows.
            unsafe {
                run::samples::<T, S, R>(simd, queue, i..i + n as u64, tables, dim, rate, &mut run)
            };
            if let Some(losses) = &mut self.losses {
                run.give_losses(&mut losses[i as usize..][..n]);
            }
            i += n as u64;
        }
    }

    /// One sample after the other.
    #[inline(always)]
    fn run_each<S: Simd, const R: usize>(mut self, simd: S) {
        let ahead = self.ahead();
        for i in 0..self.count {
            self.queue.advance(i, ahead);
            self.one::<S, R>(simd, i);
        }
    }

    fn ahead(&self) -> Prefetch<T> {
        Prefetch {
            vertex: self.tables.vertex,
            context: self.tables.context,
        }
    }

    /// Sample `i` alone.
    #[inline(always)]
    fn one<S: Simd, const R: usize>(&mut self, simd: S, i: u64) {
        let (source, targets) = self.queue.sample(i);
        let (tables, squares) = (self.tables, self.squares);
        let (rate, scratch) = (self.rate, &mut self.scratch);
        // SAFETY: the rows exist (see `sequential`), and `self.tables` came from exclusive borrows.
        unsafe {
            match size_of::<T>() {
                4 => {
                    kernel::sample::<T, S, R>(
                        simd, source, targets, rate, tables, squares, scratch,
                    );
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
                    half::sample::<T, S, R>(simd, &sample, rate, tables, squares, scratch);
                }
            }
        }
        if let Some(losses) = &mut self.losses {
            losses[i as usize] = self.scratch.loss(targets.len());
        }
    }
}
