//! Training of the orders of a run: pass by pass, step by step.

use shardgraph_device::Timer;

use super::bucket_scheduler::BucketScheduler;
use super::bucket_trainer::LoadedJob;
use super::checkpoint::{Position, TableCheckpoint};
use super::clock::Clock;
use super::context::{OrderContext, RunContext};
use super::disk_backing::DiskBacking;
use super::disk_use::DiskUse;
use super::export::{Columns, check_tables, rows_to_values};
use super::partition_buffer::PartitionBuffer;
use super::reports::{LossSum, PartialLosses};
use super::scalar::Scalar;
use super::{PassReport, Progress, pipeline};
use crate::schedule::{Job, Planner, Step};
use crate::{DiskOptions, Error, Order};

/// A run in progress.
pub(super) struct Run<'r> {
    pub(super) context: RunContext<'r>,
    pub(super) clock: &'r Clock,
    pub(super) progress: &'r mut dyn FnMut(Progress),
    /// Samples of all orders so far.
    pub(super) n_done: u64,
}

/// Disk of a run: its options, checkpoint and use.
pub(super) struct RunDisk<'d> {
    pub(super) options: &'d DiskOptions,
    pub(super) checkpoint: &'d mut TableCheckpoint,
    pub(super) used: &'d mut DiskUse,
}

/// A pass of an order, counted from 0.
#[derive(Clone, Copy)]
struct PassOf {
    order: u32,
    pass: u32,
}

/// Jobs of an order, and the threads that train them.
struct OrderWorkers<'w, T: Scalar> {
    context: &'w OrderContext<'w>,
    scheduler: &'w BucketScheduler<'w, T>,
}

impl Run<'_> {
    /// Trains one order in memory, and writes its columns to the rows of all orders; with `contexts`
    /// the context table of order 2 there.
    pub(super) fn train_in_memory<T: Scalar>(
        &mut self,
        order: u32,
        columns: Columns,
        values: &mut Vec<f32>,
        contexts: Option<&mut Vec<f32>>,
    ) -> Result<(), Error> {
        let run = self.context;
        let planner = run.planner(order)?;
        let context = OrderContext::new(run, &planner, self.clock)?;
        let mut buffer = PartitionBuffer::<T>::in_memory(run, order)?;
        self.with_workers(&context, order, |this, workers| {
            for pass in 0..run.config.epochs {
                for step in planner.pass(pass) {
                    this.train_step(workers, &mut buffer, &step)?;
                }
                let row_norm = match run.losses {
                    None => None,
                    Some(_) => Some(buffer.row_norm()?),
                };
                this.report_pass(&context, PassOf { order, pass }, row_norm);
            }
            Ok(())
        })?;
        let tables = buffer.into_tables();
        check_tables(&run, &tables)?;
        if let (Some(contexts), Some(table)) = (contexts, tables.get(1)) {
            let whole = Columns {
                n_columns: run.config.dim,
                first: 0,
            };
            rows_to_values(&run, table, whole, contexts)?;
        }
        rows_to_values(&run, &tables[0], columns, values)
    }

    /// Trains one order, or what is left of it, with its rows on disk.
    pub(super) fn train_on_disk<T: Scalar>(
        &mut self,
        order: u32,
        at: usize,
        disk: &mut RunDisk<'_>,
    ) -> Result<(), Error> {
        let run = self.context;
        let start = disk.checkpoint.position();
        let planner = run.planner(order)?;
        let context = OrderContext::new(run, &planner, self.clock)?;
        let (checkpoint, used) = (&mut *disk.checkpoint, &mut *disk.used);
        let backing = DiskBacking::start(&run, order, checkpoint, used, disk.options.deadline)?;
        let mut buffer = PartitionBuffer::<T>::on_disk(run, order, backing);
        let options = disk.options;
        let start = Position {
            orders: at,
            ..start
        };
        self.with_workers(&context, order, |this, workers| {
            this.train_passes(&planner, workers, &mut buffer, start, options)
        })?;
        drop(buffer);
        disk.checkpoint.forget(order, 1);
        let orders = at + 1;
        let position = Position {
            orders,
            ..Position::default()
        };
        disk.checkpoint.commit(position, self.n_done)
    }

    /// Runs `body` with the threads of an order, and counts its time as training.
    fn with_workers<T: Scalar>(
        &mut self,
        context: &OrderContext<'_>,
        order: u32,
        body: impl FnOnce(&mut Self, &OrderWorkers<'_, T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let train = |loaded: &mut LoadedJob<T>| context.train_job(loaded);
        let scheduler = BucketScheduler::new(order as usize - 1, &train);
        let clock = self.clock;
        scheduler.with_threads(context.n_scheduled_threads(), |scheduler| {
            let workers = OrderWorkers { context, scheduler };
            clock.training(|| body(self, &workers))
        })?;
        clock.add_to_device(context.to_device_bytes());
        Ok(())
    }

    /// All passes of an order from a position on, with checkpoints between steps and at the end.
    fn train_passes<T: Scalar>(
        &mut self,
        planner: &Planner<'_>,
        workers: &OrderWorkers<'_, T>,
        buffer: &mut PartitionBuffer<'_, T>,
        start: Position,
        options: &DiskOptions,
    ) -> Result<(), Error> {
        let (mut timer, mut pause) = (Timer::wall(), options.checkpoint_s);
        let n_passes = self.context.config.epochs;
        for pass in start.pass..n_passes {
            let mut steps = planner.pass(pass);
            let first = if pass == start.pass { start.step } else { 0 };
            steps.by_ref().take(first).for_each(drop);
            buffer.begin_pass(&steps.visits());
            for (step, todo) in (first + 1..).zip(steps) {
                buffer.enter(&todo)?;
                self.train_step(workers, buffer, &todo)?;
                if timer.elapsed_s() >= pause {
                    let took = Timer::wall();
                    let losses = self.context.losses.map(LossSum::partial);
                    let position = Position {
                        pass,
                        step,
                        losses: losses.unwrap_or_default(),
                        ..start
                    };
                    buffer.checkpoint(position, self.n_done)?;
                    pause = options.pause_after(took.elapsed_s());
                    timer = Timer::wall();
                }
            }
            let order = planner.order;
            self.report_pass(workers.context, PassOf { order, pass }, None);
        }
        let position = Position {
            pass: n_passes,
            step: 0,
            losses: PartialLosses::default(),
            ..start
        };
        buffer.checkpoint(position, self.n_done)
    }

    /// Reports a pass, where that is asked for.
    fn report_pass(&mut self, context: &OrderContext<'_>, of: PassOf, row_norm: Option<f64>) {
        let Some(losses) = self.context.losses else {
            return;
        };
        let report = PassReport {
            order: Some(Order::one(of.order)),
            epoch: of.pass + 1,
            loss: losses.take(),
            row_norm,
        };
        self.tell(context, Some(report));
    }

    /// Tells how far the run is.
    fn tell(&mut self, context: &OrderContext<'_>, pass: Option<PassReport>) {
        let n_orders = self.context.config.order.each().len() as u64;
        (self.progress)(Progress {
            samples: self.n_done,
            n_samples: n_orders * context.n_samples,
            pass,
            is_choice: false,
            trial: None,
        });
    }

    fn train_step<T: Scalar>(
        &mut self,
        workers: &OrderWorkers<'_, T>,
        buffer: &mut PartitionBuffer<'_, T>,
        step: &Step,
    ) -> Result<(), Error> {
        let context = workers.context;
        if context.run.is_on_host() {
            let idle = buffer.take_idle(step);
            buffer.put_idle(workers.scheduler.step(step, idle)?);
        } else {
            for round in &step.rounds {
                let jobs = round.iter().map(|job| buffer.take_job(job)).collect();
                for loaded in train_round(context, jobs)? {
                    buffer.put_job(loaded);
                }
            }
        }
        self.n_done += step.jobs().map(Job::n_samples).sum::<u64>();
        self.tell(context, None);
        Ok(())
    }
}

/// Trains the jobs of a round on a device and gives the rows back, in no particular order.
fn train_round<T: Scalar>(
    context: &OrderContext<'_>,
    mut jobs: Vec<LoadedJob<T>>,
) -> Result<Vec<LoadedJob<T>>, Error> {
    // The longest first, so that no stream is left alone with it at the end.
    jobs.sort_by_key(|loaded| loaded.job.n_samples());
    pipeline::train(context, jobs)
}
