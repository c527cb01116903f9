//! Tables as a trainer of `job`, whose loop calls for steps and checkpoints: order by order, pass by pass.
//!
//! The answer is written when the loop is over: threads and their tables of negatives are gone then.

use std::path::Path;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, CheckpointSchedule, LoopOptions, Ranks, RunRecorder};

use super::bucket_scheduler::BucketScheduler;
use super::bucket_trainer::LoadedJob;
use super::checkpoint::{Position, TableCheckpoint};
use super::clock::Clock;
use super::context::{OrderContext, RunContext, Stream};
use super::disk_backing::DiskBacking;
use super::disk_use::DiskUse;
use super::export::{Columns, RowsByNode, check_tables, rows_to_values};
use super::partition_buffer::PartitionBuffer;
use super::reports::LossSum;
use super::rows::PartRows;
use super::scalar::Scalar;
use super::{PassReport, Progress, pipeline};
use crate::schedule::{Pass, Step};
use crate::{DiskOptions, Error, Order, Precision};

/// A run from its start, or from its newest checkpoint.
pub(super) struct TableRun<'r> {
    pub(super) context: RunContext<'r>,
    pub(super) clock: &'r Clock,
    /// None with tables in memory.
    pub(super) disk: Option<RunDisk<'r>>,
    /// True: the context table of order 2 is given, where it is in memory.
    pub(super) wants_contexts: bool,
}

/// Disk of a run: its options, its files of rows, and the recorder of its checkpoints and metrics.
pub(super) struct RunDisk<'r> {
    pub(super) options: &'r DiskOptions,
    pub(super) checkpoint: TableCheckpoint,
    pub(super) recorder: &'r mut RunRecorder,
}

/// Tables at the end of a run.
pub(super) struct TrainedTables {
    /// Samples of the run, those before its newest checkpoint included.
    pub(super) samples: u64,
    /// Vertex rows of all orders by node, where they are in memory.
    pub(super) values: Vec<f32>,
    /// Context rows of order 2 by node, where they are asked for.
    pub(super) contexts: Vec<f32>,
    /// Where they are in files.
    pub(super) files: Option<(TableCheckpoint, DiskUse)>,
}

impl TableRun<'_> {
    /// Trains all orders, or what is left of them.
    pub(super) fn train(self, progress: &mut dyn FnMut(Progress)) -> Result<TrainedTables, Error> {
        match self.context.config.precision {
            Precision::Fp32 => self.train_rows_of::<f32>(progress),
            Precision::Fp16 => self.train_rows_of::<u16>(progress),
        }
    }

    fn train_rows_of<T: Scalar>(
        self,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TrainedTables, Error> {
        let (run, clock) = (self.context, self.clock);
        let streams = run.streams()?;
        let orders = run.config.order.each().iter();
        let orders = orders.map(|&order| OrderContext::new(run, order, &streams, clock));
        let orders: Vec<OrderContext<'_>> = orders.collect::<Result<_, Error>>()?;
        let mut start = Position::default();
        let (mut backing, mut recorder, mut schedule) = (None, None, None);
        if let Some(disk) = self.disk {
            start = disk.checkpoint.position();
            let deadline = disk.options.deadline;
            backing = Some(DiskBacking::start(&run, disk.checkpoint, deadline)?);
            recorder = Some(disk.recorder);
            schedule = Some(match disk.options.checkpoint_s > 0.0 {
                true => CheckpointSchedule::new(None, Some(disk.options.checkpoint_s)),
                false => CheckpointSchedule::every_steps(1),
            });
        }
        let train = |loaded: &mut LoadedJob<T>| {
            let first = orders[0].planner.order;
            orders[(loaded.job.order - first) as usize].train_job(loaded)
        };
        let buffer = PartitionBuffer::new(run, backing);
        let scheduler = BucketScheduler::new(&train);
        let trained = scheduler.with_threads(run.n_scheduled_threads(), |scheduler| {
            let mut trainer = TableTrainer {
                orders: &orders,
                scheduler,
                buffer,
                position: start,
                steps: None,
                answer: RowsByNode::default(),
                contexts: self.wants_contexts.then(RowsByNode::default),
            };
            trainer.begin_order()?;
            // The trainer says when it is over.
            let until = u64::MAX;
            let (mut comm, timeout) = (Comm::solo(), Timeout::default());
            shardgraph_job::run(
                &mut trainer,
                &mut Ranks::new(&mut comm, timeout),
                recorder,
                LoopOptions { until, schedule },
                &mut |report| progress(*report),
            )?;
            Ok(TrainedTables {
                samples: trainer.position.samples,
                values: trainer.answer.values,
                contexts: trainer.contexts.unwrap_or_default().values,
                files: trainer.buffer.into_files(),
            })
        })?;
        clock.add_to_device(streams.iter().map(Stream::to_device_bytes).sum());
        Ok(trained)
    }
}

/// Tables between two steps.
struct TableTrainer<'t, T: Scalar> {
    orders: &'t [OrderContext<'t>],
    scheduler: &'t BucketScheduler<'t, T>,
    buffer: PartitionBuffer<'t, T>,
    position: Position,
    /// Steps that are left of the pass; `None` after the last pass of all.
    steps: Option<Pass<'t>>,
    answer: RowsByNode,
    contexts: Option<RowsByNode>,
}

impl<T: Scalar> TableTrainer<'_, T> {
    /// Samples so far.
    fn samples(&self) -> u64 {
        let of_order = self.steps.as_ref().map_or(0, Pass::samples_before);
        self.position.orders as u64 * self.orders[0].n_samples + of_order
    }

    /// Begins with the order at hand, or goes on within it; there is none after the last.
    fn begin_order(&mut self) -> Result<(), Error> {
        if let Some(context) = self.orders.get(self.position.orders) {
            self.buffer.begin_order(context.planner.order)?;
            self.begin_pass()?;
        }
        Ok(())
    }

    fn begin_pass(&mut self) -> Result<(), Error> {
        let planner = &self.orders[self.position.orders].planner;
        let mut steps = planner.pass(self.position.pass);
        steps.by_ref().take(self.position.step).for_each(drop);
        if steps.is_over() {
            let message = format!(
                "pass {} has no step {}",
                self.position.pass, self.position.step
            );
            return Err(Error::checkpoint(message));
        }
        self.buffer.begin_pass(&steps.visits());
        self.steps = Some(steps);
        Ok(())
    }

    /// Goes on behind the last step of a pass; gives the report of the pass, where one is asked for.
    fn end_pass(&mut self) -> Result<Option<PassReport>, Error> {
        let OrderContext { run, planner, .. } = &self.orders[self.position.orders];
        let epoch = self.position.pass + 1;
        let report = match run.losses {
            None => None,
            Some(losses) => Some(PassReport {
                order: Some(Order::one(planner.order)),
                epoch,
                loss: losses.take(),
                row_norm: self.buffer.row_norm()?,
            }),
        };
        (self.position.pass, self.position.step, self.steps) = (epoch, 0, None);
        if epoch < run.config.epochs {
            self.begin_pass()?;
        } else {
            if let Some(tables) = self.buffer.end_order()? {
                self.gather(&tables)?;
            }
            self.position.orders += 1;
            self.position.pass = 0;
            self.begin_order()?;
        }
        Ok(report)
    }

    /// Writes the rows of the order's tables to the answer.
    fn gather(&mut self, tables: &[Vec<PartRows<T>>]) -> Result<(), Error> {
        let run = &self.orders[self.position.orders].run;
        check_tables(run, tables)?;
        let dim = run.config.dim;
        if let (Some(contexts), Some(table)) = (&mut self.contexts, tables.get(1)) {
            let whole = Columns {
                n_columns: dim,
                first: 0,
            };
            rows_to_values(run, table, whole, contexts)?;
        }
        let columns = Columns {
            n_columns: run.config.columns(),
            first: self.position.orders * dim,
        };
        rows_to_values(run, &tables[0], columns, &mut self.answer)
    }

    fn train_step(&mut self, context: &OrderContext<'_>, step: &Step) -> Result<(), Error> {
        self.buffer.enter(&step.visit)?;
        if context.run.is_on_host() {
            let idle = self.buffer.take_idle(step);
            self.buffer.put_idle(self.scheduler.step(step, idle)?);
            return Ok(());
        }
        for round in &step.rounds {
            let jobs = round.iter().map(|job| self.buffer.take_job(job)).collect();
            for loaded in pipeline::train(context, jobs)? {
                self.buffer.put_job(loaded);
            }
        }
        Ok(())
    }
}

impl<T: Scalar> shardgraph_job::Trainer for TableTrainer<'_, T> {
    type Report = Progress<'static>;
    type Error = Error;

    fn step(&self) -> u64 {
        self.position.n_steps
    }

    fn is_over(&self, _: u64) -> bool {
        self.steps.is_none()
    }

    /// A step: some rounds of a visit.
    fn advance(&mut self, _: &mut Ranks<'_>) -> Result<Progress<'static>, Error> {
        let orders = self.orders;
        let context = &orders[self.position.orders];
        let steps = self.steps.as_mut();
        let steps = steps.expect("a pass that is over is followed by another, or by the end");
        let (step, is_last) = (steps.next(), steps.is_over());
        let step = step.expect("a pass that is not over has a step");
        (context.clock).training(|| self.train_step(context, &step))?;
        self.position.step += 1;
        self.position.n_steps += 1;
        let pass = match is_last {
            true => self.end_pass()?,
            false => None,
        };
        self.position.samples = self.samples();
        Ok(Progress {
            samples: self.position.samples,
            n_samples: orders.len() as u64 * context.n_samples,
            pass,
            is_choice: false,
            trial: None,
        })
    }

    fn record(
        &mut self,
        progress: &Progress<'static>,
        recorder: &mut RunRecorder,
    ) -> Result<(), Error> {
        progress.append_to(recorder, self.position.n_steps)
    }

    fn checkpoint(&mut self, _: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let OrderContext { run, clock, .. } = &self.orders[0];
        let position = Position {
            losses: run.losses.map(LossSum::partial).unwrap_or_default(),
            ..self.position
        };
        clock.training(|| self.buffer.checkpoint(position))
    }

    fn checkpoint_written(&self, _: &Path) -> Result<(), Error> {
        self.buffer.remove_stale_files()
    }
}
