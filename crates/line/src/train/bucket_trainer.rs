//! Training on buckets: the samples of a job, in chunks of one learning rate; on a device a bucket in one launch.

use shardgraph_device::Buffer;

use super::context::{OrderContext, Stream};
use super::reports::LossSum;
use super::rows::{PartRows, with_host};
use super::scalar::Scalar;
use super::worker_pool::panicked;
use crate::Error;
use crate::kernels::sgns::{EdgeList, EdgeOrder, FallingRate, Samples, Settings, Tables, Trainer};
use crate::memory::Purpose;
use crate::schedule::{BucketPass, Job};

/// Samples with one learning rate, where it does not fall within a launch.
const CHUNK: u64 = 1 << 13;

/// Rows of a bucket's part for each sample in flight, unless the settings say how many samples those are: of samples that meet on a
/// row, one works with what the other has not written yet.
const ROWS_PER_SAMPLE: u32 = 8;

/// A job with the rows that it works on.
#[derive(Debug)]
pub(super) struct LoadedJob<T: Scalar> {
    pub(super) job: Job,
    pub(super) vertex_rows: Vec<PartRows<T>>,
    pub(super) context_rows: Option<PartRows<T>>,
}

impl<T: Scalar> LoadedJob<T> {
    /// The rows of all its parts.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut PartRows<T>> {
        self.vertex_rows.iter_mut().chain(&mut self.context_rows)
    }
}

impl OrderContext<'_> {
    /// Trains on the buckets of a job.
    pub(super) fn train_job<T: Scalar>(&self, loaded: &mut LoadedJob<T>) -> Result<(), Error> {
        // A bucket without samples may have no weight either, and weights whose sum is 0 are
        // refused.
        let mut bucket_passes = loaded.job.bucket_passes.clone();
        bucket_passes.retain(|bucket_pass| bucket_pass.n_samples > 0);
        let stream = &self.streams[0];
        for bucket_pass in bucket_passes {
            let edges = self.upload(stream, self.bucket(bucket_pass)?)?;
            self.clock
                .updating(|| self.train_bucket(stream, bucket_pass, &edges.list, loaded))?;
        }
        Ok(())
    }

    /// Makes room for all that a bucket takes, as [`OrderContext::train_job`] does.
    pub(super) fn make_room(&self, bucket_pass: BucketPass) -> Result<(), Error> {
        let stream = &self.streams[0];
        let _edges = self.upload(stream, self.bucket(bucket_pass)?)?;
        self.each_launch(stream, bucket_pass, |_, _| Ok(()))
    }

    /// Trains on one bucket.
    pub(super) fn train_bucket<T: Scalar>(
        &self,
        stream: &Stream,
        bucket_pass: BucketPass,
        edges: &EdgeList,
        loaded: &mut LoadedJob<T>,
    ) -> Result<(), Error> {
        let parts = &loaded.job.vertex_parts;
        let at = parts.iter().position(|&part| part == bucket_pass.vertex);
        let (vertex, mut context) = match (at, &mut loaded.context_rows) {
            (Some(at), context) => (&mut loaded.vertex_rows[at], context.as_mut()),
            (None, Some(context)) => (context, loaded.vertex_rows.first_mut()),
            (None, None) => return Err(panicked()), // no plan has such a pass
        };
        let (config, store) = (self.run.config, self.run.store);
        let Some(negatives) = &stream.negatives[bucket_pass.context as usize].table else {
            return Ok(()); // no edge ends there
        };
        let settings = Settings {
            group: config.shared_negatives_in(negatives.len() as u32),
            ..self.settings
        };
        let mut trainer = Trainer::new(&stream.device, settings)?;
        match config.edges_in_flight {
            Some(most) => trainer.limit_samples_in_flight(most / self.streams.len() as u32),
            None => {
                let n_rows = vertex.values.len() / settings.dim;
                trainer.limit_samples_in_flight(n_rows as u32 / ROWS_PER_SAMPLE);
            }
        }
        self.each_launch(stream, bucket_pass, |launch, losses| {
            let LaunchSamples { first, count } = launch;
            let order = match store.is_weighted() {
                false => EdgeOrder::Listed { first },
                true => EdgeOrder::Drawn,
            };
            let samples = Samples {
                edges,
                negatives,
                order,
                reversed: bucket_pass.is_reversed,
                // A bucket has fewer than 2^32 samples (`Planner::check`): no number serves twice.
                first: (bucket_pass.number << 32) + first,
                count,
            };
            let rates = [first, first + count]
                .map(|sample| self.learning_rate(bucket_pass.first_sample + sample));
            let mut step = |rate: StepRate, losses: Option<&mut Buffer>| {
                let rows = RowsOfStep {
                    vertex: &mut *vertex,
                    context: context.as_deref_mut(),
                };
                step_rows(&mut trainer, &samples, rate, rows, losses)
            };
            match losses {
                None if count > CHUNK => {
                    let slope = (rates[1] - rates[0]) / count as f32;
                    let first = rates[0];
                    step(StepRate::Falling(FallingRate { first, slope }), None)
                }
                losses => step(StepRate::Constant(rates[0]), losses),
            }
        })
    }

    /// Gives all samples of a bucket, launch by launch, with room for the losses of those that are looked at, and
    /// adds these up.
    fn each_launch(
        &self,
        stream: &Stream,
        bucket_pass: BucketPass,
        mut train: impl FnMut(LaunchSamples, Option<&mut Buffer>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut first = 0;
        while first < bucket_pass.n_samples {
            let (count, looks) = self.next_launch(bucket_pass, first);
            let launch = LaunchSamples { first, count };
            first += count;
            let Some(sum) = self.run.losses.filter(|_| looks) else {
                train(launch, None)?;
                continue;
            };
            let mut held = self.run.hold_on(&stream.device, Purpose::Losses);
            held.set(count * size_of::<f32>() as u64);
            if self.run.memory.is_dry() {
                continue;
            }
            let mut losses = stream.device.zeros(count as usize)?;
            train(launch, Some(&mut losses))?;
            with_host(&stream.device, &losses, |losses| {
                sum.add(losses);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// How many samples of a bucket the next step takes from `first` on, and whether their losses are wanted.
    ///
    /// A launch on a device takes all that are left, with a rate that falls from sample to sample: a chunk is less than a launch
    /// costs. Losses are wanted of one chunk a bucket there.
    fn next_launch(&self, bucket_pass: BucketPass, first: u64) -> (u64, bool) {
        let left = bucket_pass.n_samples - first;
        let is_one_launch = self.takes_a_bucket_at_once();
        let looks = match is_one_launch {
            true => first == 0 && self.run.losses.is_some(),
            false => {
                let chunk = bucket_pass.number + first / CHUNK;
                LossSum::looks_at(self.run.store.n_parts(), chunk)
            }
        };
        match is_one_launch && !looks {
            true => (left, false),
            false => (left.min(CHUNK), looks),
        }
    }
}

/// Consecutive samples of a bucket that one launch takes.
#[derive(Clone, Copy)]
struct LaunchSamples {
    first: u64,
    count: u64,
}

/// The learning rate of a step.
enum StepRate {
    Constant(f32),
    /// Of one launch on a device, without losses.
    Falling(FallingRate),
}

/// Rows of a step; without context rows, the vertex rows have both roles.
struct RowsOfStep<'r, T: Scalar> {
    vertex: &'r mut PartRows<T>,
    context: Option<&'r mut PartRows<T>>,
}

/// A step on rows of one owner.
fn step_rows<T: Scalar>(
    trainer: &mut Trainer,
    samples: &Samples<'_>,
    rate: StepRate,
    rows: RowsOfStep<'_, T>,
    losses: Option<&mut Buffer>,
) -> Result<(), Error> {
    let RowsOfStep { vertex, context } = rows;
    let (tables, sums) = match context {
        None => (
            Tables::Order1(&mut vertex.values),
            vertex.adagrad_sums.as_mut().map(Tables::Order1),
        ),
        Some(context) => {
            let sums = vertex
                .adagrad_sums
                .as_mut()
                .zip(context.adagrad_sums.as_mut());
            let tables = Tables::Order2 {
                vertex: &mut vertex.values,
                context: &mut context.values,
            };
            let sums = sums.map(|(vertex, context)| Tables::Order2 { vertex, context });
            (tables, sums)
        }
    };
    match (rate, sums) {
        (StepRate::Constant(rate), None) => trainer.step(samples, rate, tables, losses)?,
        (StepRate::Constant(rate), Some(sums)) => {
            trainer.step_adagrad(samples, rate, tables, sums, losses)?;
        }
        // Adagrad is the host's alone.
        (StepRate::Falling(rate), _) => trainer.step_falling(samples, rate, tables)?,
    }
    Ok(())
}
