//! Training on buckets: the samples of a job, in chunks of one learning rate.

use shardgraph_device::Buffer;

use super::context::{OrderContext, Stream};
use super::reports::LossSum;
use super::rows::PartRows;
use super::scalar::Scalar;
use super::worker_pool::panicked;
use crate::Error;
use crate::kernels::sgns::{EdgeList, EdgeOrder, Samples, Settings, Tables, Trainer};
use crate::schedule::{BucketPass, Job};

/// Samples with one learning rate.
const CHUNK: u64 = 1 << 13;

/// A job with the rows that it works on.
#[derive(Debug)]
pub(super) struct LoadedJob<T: Scalar> {
    pub(super) job: Job,
    pub(super) vertex_rows: Vec<PartRows<T>>,
    pub(super) context_rows: Option<PartRows<T>>,
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
                .updating(|| self.train_bucket(stream, bucket_pass, &edges, loaded))?;
        }
        Ok(())
    }

    /// Trains on one bucket, in chunks with a learning rate each.
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
        let Some(negatives) = &stream.negatives[bucket_pass.context as usize] else {
            return Ok(()); // no edge ends there
        };
        let settings = Settings {
            group: config.shared_negatives_in(negatives.len() as u32),
            ..self.settings
        };
        let mut trainer = Trainer::new(&stream.device, settings)?;
        if let Some(most) = config.edges_in_flight {
            trainer.limit_samples_in_flight(most / self.streams.len() as u32);
        }
        for first in (0..bucket_pass.n_samples).step_by(CHUNK as usize) {
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
                count: CHUNK.min(bucket_pass.n_samples - first),
            };
            let rate = self.learning_rate(bucket_pass.first_sample + first);
            let chunk = bucket_pass.number + first / CHUNK;
            let looks = LossSum::looks_at(store.n_parts(), chunk);
            let mut step = |losses: Option<&mut Buffer>| {
                let rows = RowsOfStep {
                    vertex: &mut *vertex,
                    context: context.as_deref_mut(),
                };
                step_rows(&mut trainer, &samples, rate, rows, losses)
            };
            match self.run.losses.filter(|_| looks) {
                None => step(None)?,
                Some(sum) => {
                    let mut losses = stream.device.zeros(samples.count as usize)?;
                    step(Some(&mut losses))?;
                    sum.add(&stream.device.download(&losses)?);
                }
            }
        }
        Ok(())
    }
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
    rate: f32,
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
    match sums {
        None => trainer.step(samples, rate, tables, losses)?,
        Some(sums) => trainer.step_adagrad(samples, rate, tables, sums, losses)?,
    }
    Ok(())
}
