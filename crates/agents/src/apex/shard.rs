//! A shard of the replay memory: takes blocks, gives batches, changes priorities.

use shardgraph_random::KeyedRng;
use shardgraph_replay::{
    ColumnLayout, ItemId, Prioritization, PrioritizedBatch, PrioritizedMemory, Rows,
};

use super::config::ApexConfig;
use super::limiter::Limiter;
use super::message::Block;
use crate::error::Error;

/// A prioritised memory and the ratio of draws to inserts.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) memory: PrioritizedMemory,
    pub(super) limiter: Limiter,
    beta: f32,
    seed: u64,
    /// The number of this shard.
    index: u64,
    pub(super) n_batches: u64,
    drawn: PrioritizedBatch,
    rows: Rows,
}

/// The batch that a shard drew last, with its importance weights.
#[derive(Debug)]
pub(super) struct DrawnBatch<'a> {
    pub(super) ids: &'a [ItemId],
    pub(super) weights: &'a [f32],
    pub(super) rows: &'a Rows,
}

impl Shard {
    pub(super) fn new(
        apex: &ApexConfig,
        layout: ColumnLayout,
        seed: u64,
        index: u32,
    ) -> Result<Shard, Error> {
        let replay = &apex.replay;
        let prioritization = Prioritization {
            alpha: replay.alpha,
            epsilon: replay.epsilon,
        };
        Ok(Shard {
            rows: Rows::new(layout.clone()),
            memory: PrioritizedMemory::new(layout, replay.capacity, prioritization)?,
            limiter: Limiter {
                samples_per_insert: replay.samples_per_insert,
                min_rows: replay.min_rows as u64,
                tolerance: if apex.lock_step {
                    0.0
                } else {
                    replay.tolerance
                },
                batch_size: apex.batch_size as u64,
                n_inserted: 0,
                n_sampled: 0,
            },
            beta: replay.beta,
            seed,
            index: index.into(),
            n_batches: 0,
            drawn: PrioritizedBatch::default(),
        })
    }

    /// Of a shard that is not the first of its number, before its first draw: other chances than those that were before it.
    pub(super) fn begin_at(&mut self, key: u64) {
        if key > 0 {
            self.seed = KeyedRng::new(self.seed, "apex shard that came later", key).next_u64();
        }
    }

    pub(super) fn insert(&mut self, block: &Block) -> Result<(), Error> {
        self.memory
            .insert_rows_with(&block.rows, &block.td_errors)?;
        self.limiter.n_inserted += block.rows.len() as u64;
        Ok(())
    }

    /// Draws a batch, which is what [`Shard::drawn`] then gives. Call it only where the limiter allows it.
    pub(super) fn sample(&mut self) -> Result<(), Error> {
        let n_rows = self.limiter.batch_size;
        let key = self.index << 40 | self.n_batches;
        let mut stream = KeyedRng::new(self.seed, "apex replay", key);
        self.memory.sample_into(
            n_rows as usize,
            self.beta,
            &mut || stream.uniform_f64(),
            &mut self.drawn,
        )?;
        self.memory.gather_into(&self.drawn.ids, &mut self.rows)?;
        self.n_batches += 1;
        self.limiter.n_sampled += n_rows;
        Ok(())
    }

    /// The columns of its rows.
    pub(super) fn layout(&self) -> &ColumnLayout {
        self.rows.layout()
    }

    /// The last batch.
    pub(super) fn drawn(&self) -> DrawnBatch<'_> {
        DrawnBatch {
            ids: &self.drawn.ids,
            weights: &self.drawn.weights,
            rows: &self.rows,
        }
    }

    /// Changes the priorities of the rows that are still there.
    pub(super) fn update(&mut self, ids: &[ItemId], td_errors: &[f32]) -> Result<(), Error> {
        self.memory.update(ids, td_errors)?;
        Ok(())
    }

    /// As [`Shard::update`], of the last batch.
    pub(super) fn update_drawn(&mut self, td_errors: &[f32]) -> Result<(), Error> {
        self.memory.update(&self.drawn.ids, td_errors)?;
        Ok(())
    }
}
