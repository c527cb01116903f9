//! The deterministic mode: coefficients from standing tables, then one update a row, in a fixed order.

use super::draws::{Purpose, philox};
use super::host::{HostSamples, coefficient, loss_of_sample};
use super::{EdgeOrder, Element, FallingRate, OP, Samples, Tables, Trainer};
use shardgraph_device::{Arg, Buffer, Error, Launch};

/// What the first pass over a batch leaves behind, on the host but for the coefficients.
pub(super) struct Pass {
    pub(super) sources: Vec<u32>,
    /// `n_negatives + 1` for each source.
    pub(super) targets: Vec<u32>,
    /// `rate * (label - sigmoid)` of each target.
    pub(super) factors: Buffer,
    losses: Vec<f32>,
}

/// The terms of each row's gradient: `factors[place] * row[other]` of the other table, in sample order.
#[derive(Debug, PartialEq)]
struct Terms {
    rows: Vec<u32>,
    offsets: Vec<u64>,
    others: Vec<u32>,
    places: Vec<u32>,
}

impl Terms {
    /// Groups (row, other, place) by row; the order within a row stays.
    fn new(mut terms: Vec<(u32, u32, u32)>) -> Self {
        terms.sort_by_key(|term| term.0); // stable
        let mut grouped = Terms {
            rows: Vec::new(),
            offsets: vec![0],
            others: terms.iter().map(|term| term.1).collect(),
            places: terms.iter().map(|term| term.2).collect(),
        };
        for run in terms.chunk_by(|a, b| a.0 == b.0) {
            grouped.rows.push(run[0].0);
            let end = grouped.offsets[grouped.offsets.len() - 1] + run.len() as u64;
            grouped.offsets.push(end);
        }
        grouped
    }
}

impl Trainer {
    pub(super) fn step_in_batches<T: Element>(
        &mut self,
        batch: u32,
        samples: &Samples<'_>,
        rate: f32,
        mut tables: Tables<'_, T>,
        losses: Option<&mut Buffer>,
    ) -> Result<(), Error> {
        let batch = u64::from(batch);
        let (mut done, mut all_losses) = (0, Vec::new());
        while done < samples.count {
            let first = samples.first + done;
            let count = (batch - first % batch).min(samples.count - done);
            let order = match samples.order {
                EdgeOrder::Listed { first } => EdgeOrder::Listed {
                    first: first.wrapping_add(done) % samples.edges.len() as u64,
                },
                EdgeOrder::Drawn => EdgeOrder::Drawn,
            };
            let part = Samples {
                order,
                first,
                count,
                ..*samples
            };
            let pass = self.pass(&part, rate, &tables)?;
            self.apply(&pass, first, &mut tables)?;
            all_losses.extend_from_slice(&pass.losses);
            done += count;
        }
        match losses {
            Some(losses) => self.device.write(&all_losses, losses),
            None => Ok(()),
        }
    }

    /// The coefficients of one batch; the tables stand still.
    pub(super) fn pass<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: f32,
        tables: &Tables<'_, T>,
    ) -> Result<Pass, Error> {
        let (vertex, context): (&Buffer<T>, &Buffer<T>) = match tables {
            Tables::Order1(table) => (table, table),
            Tables::Order2 { vertex, context } => (vertex, context),
        };
        match self.device.is_host() {
            true => self.host_pass(samples, rate, vertex, context),
            false => self.launch_pass(samples, rate, vertex, context),
        }
    }

    fn host_pass<T: Element>(
        &self,
        samples: &Samples<'_>,
        rate: f32,
        vertex: &Buffer<T>,
        context: &Buffer<T>,
    ) -> Result<Pass, Error> {
        let (dim, n_slots) = (self.settings.dim, self.settings.n_negatives as usize + 1);
        let (vertex, context) = (vertex.on_host(OP)?, context.on_host(OP)?);
        let drawn = HostSamples::new(self.settings, samples)?;
        let mut targets = vec![0; samples.count as usize * n_slots];
        let (mut sources, mut factors, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        for (i, targets) in (0u64..).zip(targets.chunks_exact_mut(n_slots)) {
            let u = drawn.draw(i, targets, None);
            let source = &vertex[u as usize * dim..][..dim];
            let source: Vec<f32> = source.iter().map(|v| v.get()).collect();
            let rows = targets
                .iter()
                .map(|&target| &context[target as usize * dim..][..dim]);
            let dots: Vec<f32> = rows.map(|row| dot_of(&source, row)).collect();
            let of_slot = |(slot, &dot)| coefficient(dot, slot == 0, rate);
            factors.extend(dots.iter().enumerate().map(of_slot));
            sources.push(u);
            losses.push(loss_of_sample(dots.into_iter()));
        }
        Ok(Pass {
            sources,
            targets,
            factors: factors.into(),
            losses,
        })
    }

    fn launch_pass<T: Element>(
        &mut self,
        samples: &Samples<'_>,
        rate: f32,
        vertex: &Buffer<T>,
        context: &Buffer<T>,
    ) -> Result<Pass, Error> {
        let count = samples.count as usize;
        let n_places = count * (self.settings.n_negatives as usize + 1);
        let (mut losses, mut factors) = (self.device.zeros(count)?, self.device.zeros(n_places)?);
        let (mut sources, mut targets) = (self.device.zeros(count)?, self.device.zeros(n_places)?);
        let mut args = self.job(samples, FallingRate::constant(rate), context.len());
        args.extend([Arg::u32(1), Arg::write(&mut losses)]);
        args.extend([Arg::read(vertex), Arg::read(context)]);
        args.extend([
            Arg::write(&mut sources),
            Arg::write(&mut targets),
            Arg::write(&mut factors),
        ]);
        let shape = self.warps(count as u64, 1);
        let kernel = format!("sgns_coefficients_{}", T::NAME);
        // SAFETY: every edge and negative names a row that exists (checked by `step`); the results have their sizes.
        unsafe { self.device.launch(&kernel, shape, &args)? };
        Ok(Pass {
            sources: self.device.download(&sources)?,
            targets: self.device.download(&targets)?,
            factors,
            losses: self.device.download(&losses)?,
        })
    }

    /// Adds the gradients of a batch: all of them are taken before any row changes.
    fn apply<T: Element>(
        &self,
        pass: &Pass,
        first: u64,
        tables: &mut Tables<'_, T>,
    ) -> Result<(), Error> {
        let (mut of_sources, mut of_targets) = (Vec::new(), Vec::new());
        let n_slots = self.settings.n_negatives as usize + 1;
        for (i, (&source, targets)) in pass
            .sources
            .iter()
            .zip(pass.targets.chunks(n_slots))
            .enumerate()
        {
            for (slot, &target) in targets.iter().enumerate() {
                let place = (i * n_slots + slot) as u32; // below 2^31: checked with the settings
                of_sources.push((source, target, place));
                of_targets.push((target, source, place));
            }
        }
        match tables {
            Tables::Order1(table) => {
                of_sources.extend(of_targets);
                let terms = Terms::new(of_sources);
                let gradients = self.gradients(&terms, &pass.factors, table)?;
                self.add(&terms.rows, &gradients, first, table)
            }
            Tables::Order2 { vertex, context } => {
                let (sources, targets) = (Terms::new(of_sources), Terms::new(of_targets));
                let of_vertex = self.gradients(&sources, &pass.factors, context)?;
                let of_context = self.gradients(&targets, &pass.factors, vertex)?;
                self.add(&sources.rows, &of_vertex, first, vertex)?;
                self.add(&targets.rows, &of_context, first, context)
            }
        }
    }

    /// A row of `sum factors[place] * table[other]` for each row of the terms.
    fn gradients<T: Element>(
        &self,
        terms: &Terms,
        factors: &Buffer,
        table: &Buffer<T>,
    ) -> Result<Buffer, Error> {
        let dim = self.settings.dim;
        let mut gradients = self.device.zeros(terms.rows.len() * dim)?;
        if self.device.is_host() {
            let (factors, table) = (factors.on_host(OP)?, table.on_host(OP)?);
            let rows = gradients.on_host_mut(OP)?.chunks_exact_mut(dim);
            for (range, sum) in terms.offsets.windows(2).zip(rows) {
                for i in range[0] as usize..range[1] as usize {
                    let factor = factors[terms.places[i] as usize];
                    let row = &table[terms.others[i] as usize * dim..][..dim];
                    sum.iter_mut()
                        .zip(row)
                        .for_each(|(s, v)| *s += factor * v.get());
                }
            }
            return Ok(gradients);
        }
        let offsets = self.device.upload(&terms.offsets)?;
        let others = self.device.upload(&terms.others)?;
        let places = self.device.upload(&terms.places)?;
        let args = [
            Arg::read(&offsets),
            Arg::read(&others),
            Arg::read(&places),
            Arg::read(factors),
            Arg::read(table),
            Arg::u32(terms.rows.len() as u32),
            Arg::u32(dim as u32),
            Arg::write(&mut gradients),
        ];
        let kernel = format!("sgns_row_gradients_{}", T::NAME);
        let shape = self.warps(terms.rows.len() as u64, 1);
        // SAFETY: the terms were grouped from rows that exist and places of `factors`.
        unsafe { self.device.launch(&kernel, shape, &args)? };
        Ok(gradients)
    }

    /// `table[rows[r]] += gradients[r]`; the rows are distinct.
    fn add<T: Element>(
        &self,
        rows: &[u32],
        gradients: &Buffer,
        first: u64,
        table: &mut Buffer<T>,
    ) -> Result<(), Error> {
        let (dim, seed) = (self.settings.dim, self.settings.seed);
        if self.device.is_host() {
            let table = table.on_host_mut(OP)?;
            for (&row, gradient) in rows.iter().zip(gradients.on_host(OP)?.chunks_exact(dim)) {
                let to = &mut table[row as usize * dim..][..dim];
                for (column, (to, &g)) in (1u32..).zip(to.iter_mut().zip(gradient)) {
                    let random = match size_of::<T>() {
                        2 => philox(seed, first, row, Purpose::Rounding as u32 + column)[0],
                        _ => 0,
                    };
                    *to = to.plus(g, random);
                }
            }
            return Ok(());
        }
        let row_list = self.device.upload(rows)?;
        let mut args = vec![
            Arg::read(&row_list),
            Arg::read(gradients),
            Arg::u32(rows.len() as u32),
            Arg::u32(dim as u32),
        ];
        if size_of::<T>() == 2 {
            args.extend([Arg::u64(seed), Arg::u64(first)]);
        }
        args.push(Arg::write(table));
        let kernel = format!("sgns_add_rows_{}", T::NAME);
        let shape = Launch::threads(rows.len() * dim, super::launch::BLOCK);
        // SAFETY: one thread an element of the gradients; the rows exist.
        unsafe { self.device.launch(&kernel, shape, &args) }
    }
}

/// Partial sums of a dot product: as many as a few vector registers hold.
const LANES: usize = 32;

#[inline(always)]
fn dot_of<T: Element>(a: &[f32], b: &[T]) -> f32 {
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
