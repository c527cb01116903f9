//! Tables that several threads update at once.
//!
//! Every number is read and written as a relaxed atomic, so that a race is defined: a thread sees some value that some thread
//! wrote. A row is read number by number into a copy, worked on there, and the change is added to the row number by number:
//! the processor's vector registers do the arithmetic, but not the traffic. This costs about half the rate of tables that a
//! thread has to itself.

use pulp::{Arch, Simd, WithSimd};

use super::super::element::private::Element as _;
use super::super::{Element, Mode, OP, Samples, Settings};
use super::queue::{Prefetch, Queue};
use super::{HostSamples, Scratch, adagrad_step, kernel, mix, word_of_slot};
use shardgraph_device::{Buffer, Error};

/// Tables in host memory that several threads may update at once; copies are views of the same rows.
#[derive(Debug)]
pub struct SharedTables<'a, T: Element> {
    vertex: &'a [T::Atomic],
    context: &'a [T::Atomic],
}

impl<T: Element> Clone for SharedTables<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for SharedTables<'_, T> {}

impl<'a, T: Element> SharedTables<'a, T> {
    /// One table for both ends of an edge.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::OtherDevice`] for a table that is not in host memory.
    pub fn order1(table: &'a mut Buffer<T>) -> Result<Self, Error> {
        let both = T::shared(table.on_host_mut(OP)?);
        Ok(Self {
            vertex: both,
            context: both,
        })
    }

    /// Vertices and contexts apart.
    ///
    /// # Errors
    /// As [`SharedTables::order1`].
    pub fn order2(vertex: &'a mut Buffer<T>, context: &'a mut Buffer<T>) -> Result<Self, Error> {
        Ok(Self {
            vertex: T::shared(vertex.on_host_mut(OP)?),
            context: T::shared(context.on_host_mut(OP)?),
        })
    }

    /// The same tables with their roles exchanged.
    #[must_use]
    pub fn exchanged(self) -> Self {
        Self {
            vertex: self.context,
            context: self.vertex,
        }
    }

    /// Numbers of the vertex and of the context table.
    pub(in super::super) fn lens(&self) -> (usize, usize) {
        (self.vertex.len(), self.context.len())
    }
}

/// One thread's samples, one after the other, on tables that others update meanwhile. The caller has checked that every row that
/// a sample names exists.
pub(in super::super) fn together<T: Element>(
    settings: Settings,
    samples: &Samples<'_>,
    rate: f32,
    tables: SharedTables<'_, T>,
    squares: Option<SharedTables<'_, f32>>,
) -> Result<(), Error> {
    let drawn = HostSamples::new(settings, samples)?;
    Arch::new().dispatch(Together {
        tables,
        squares,
        queue: Queue::new(&drawn, samples.count, (size_of::<T>(), 1)),
        scratch: Scratch::new(settings, false),
        rate,
        is_atomic: settings.mode == Mode::Atomic,
        count: samples.count,
    });
    Ok(())
}

struct Together<'a, T: Element> {
    tables: SharedTables<'a, T>,
    squares: Option<SharedTables<'a, f32>>,
    queue: Queue<'a>,
    scratch: Scratch,
    rate: f32,
    is_atomic: bool,
    count: u64,
}

impl<T: Element> WithSimd for Together<'_, T> {
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

impl<T: Element> Together<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const R: usize>(mut self, simd: S) {
        let ahead = Prefetch {
            vertex: self.tables.vertex.as_ptr(),
            context: self.tables.context.as_ptr(),
        };
        for i in 0..self.count {
            self.queue.advance(i, ahead);
            self.gather::<S, R>(simd, i);
            let random = self.queue.drawn.rounding_word::<T>(i);
            match self.is_atomic {
                true => self.scatter(i, |cell, addend, lane| {
                    T::add(cell, addend, mix(random.wrapping_add(lane)));
                }),
                false => self.scatter(i, |cell, addend, lane| {
                    T::nudge(cell, addend, mix(random.wrapping_add(lane)));
                }),
            }
        }
    }

    /// Copies the rows of sample `i` and works out the gradients.
    #[inline(always)]
    fn gather<S: Simd, const R: usize>(&mut self, simd: S, i: u64) {
        let (source, targets) = self.queue.sample(i);
        let (tables, scratch) = (self.tables, &mut self.scratch);
        let dim = scratch.source.len();
        copy_row::<T>(&tables.vertex[source as usize * dim..], &mut scratch.source);
        for (&target, row) in targets.iter().zip(scratch.rows.chunks_exact_mut(dim)) {
            copy_row::<T>(&tables.context[target as usize * dim..], row);
        }
        let copies = scratch.rows.as_mut_ptr();
        let mut rows = [copies; super::MAX_SLOTS];
        for (slot, row) in rows.iter_mut().enumerate() {
            *row = copies.wrapping_add(slot * dim);
        }
        let rows = &rows[..targets.len()];
        // SAFETY: `scratch.rows` has a row of `dim` numbers for each target.
        unsafe { kernel::dots::<S, R>(simd, &scratch.source, rows, &mut scratch.dots) };
        match self.squares {
            None => {
                scratch.weigh(targets.len(), self.rate);
                scratch.steps = scratch.weights;
            }
            Some(squares) => {
                scratch.weigh(targets.len(), 1.0);
                let mean = kernel::mean_square::<S, R>(simd, &scratch.source);
                for (slot, &target) in targets.iter().enumerate() {
                    let weight = scratch.weights[slot];
                    let square = weight * weight * mean;
                    let of_target = &squares.context[target as usize];
                    scratch.steps[slot] = weight * adagrad(self.rate, of_target, square);
                }
            }
        }
        // SAFETY: as above; the copies are not written.
        unsafe { kernel::update::<S, false>(simd, rows, scratch) };
        if let Some(squares) = self.squares {
            let mean = kernel::mean_square::<S, R>(simd, &scratch.gradient);
            let scale = adagrad(self.rate, &squares.vertex[source as usize], mean);
            scratch.gradient.iter_mut().for_each(|g| *g *= scale);
        }
    }

    /// Adds the changes of sample `i` to its rows; the last argument of `add` is different for each number.
    #[inline(always)]
    fn scatter(&self, i: u64, add: impl Fn(&T::Atomic, f32, u32)) {
        let (source, targets) = self.queue.sample(i);
        let (tables, scratch) = (self.tables, &self.scratch);
        let dim = scratch.source.len();
        for (slot, &target) in targets.iter().enumerate() {
            let row = &tables.context[target as usize * dim..][..dim];
            let step = scratch.steps[slot];
            for (lane, (cell, &v)) in (word_of_slot(0, slot)..).zip(row.iter().zip(&scratch.source))
            {
                add(cell, step * v, lane);
            }
        }
        let row = &tables.vertex[source as usize * dim..][..dim];
        for (lane, (cell, &g)) in (0..).zip(row.iter().zip(&scratch.gradient)) {
            add(cell, g, lane);
        }
    }
}

#[inline(always)]
fn copy_row<T: Element>(row: &[T::Atomic], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(row) {
        *to = T::load(from);
    }
}

/// As `adagrad_step`, on a sum that others add to meanwhile.
#[inline(always)]
fn adagrad(
    rate: f32,
    sum: &<f32 as super::super::element::private::Element>::Atomic,
    square: f32,
) -> f32 {
    let mut now = f32::load(sum);
    let step = adagrad_step(rate, &mut now, square);
    f32::add(sum, square, 0);
    step
}
