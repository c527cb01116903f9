//! What the ranks of Ape-X tell each other.

use serde::{Deserialize, Serialize};
use shardgraph_replay::{ColumnLayout, ItemId, Rows};

use super::shard::DrawnBatch;
use crate::episodes::Episode;
use crate::error::Error;
use crate::topology::wire::{Bytes, from_bytes, to_bytes};

/// The kinds of messages.
pub(super) mod tag {
    /// Actor to shard: [`super::Block`] behind its number.
    pub(in super::super) const BLOCK: u32 = 1;
    /// Shard to actor: the number of a block that is in the memory.
    pub(in super::super) const TAKEN: u32 = 2;
    /// Actor to learner: [`super::Progress`].
    pub(in super::super) const PROGRESS: u32 = 3;
    /// Actor to learner: the version that it has.
    pub(in super::super) const WEIGHTS_WANTED: u32 = 4;
    /// Learner to actor: a version, and its weights unless the actor has them.
    pub(in super::super) const WEIGHTS: u32 = 5;
    /// Learner to shard: it wants one more batch.
    pub(in super::super) const BATCH_WANTED: u32 = 6;
    /// Shard to learner: [`super::Batch`].
    pub(in super::super) const BATCH: u32 = 7;
    /// Learner to shard: [`super::Priorities`].
    pub(in super::super) const PRIORITIES: u32 = 8;
    /// Learner to actors: there are steps enough; to shards: the run is over.
    pub(in super::super) const STOP: u32 = 9;
    /// Actor to everybody: no more blocks come of it. Learner to shards: there are steps enough. Shard to learner: no more batches.
    pub(in super::super) const DONE: u32 = 10;
}

/// Transitions and their first TD errors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub(super) rows: Rows,
    pub(super) td_errors: Vec<f32>,
}

impl Block {
    pub(super) fn to_bytes(&self, number: u64) -> Vec<u8> {
        to_bytes(&(number, Bytes(&self.rows.to_bytes()), &self.td_errors))
    }

    pub(super) fn from_bytes(layout: &ColumnLayout, bytes: &[u8]) -> Result<(Block, u64), Error> {
        let (number, rows, td_errors) = from_bytes("a block", bytes)?;
        let rows = read_rows(layout, rows)?;
        Ok((Block { rows, td_errors }, number))
    }
}

fn read_rows(layout: &ColumnLayout, Bytes(bytes): Bytes<'_>) -> Result<Rows, Error> {
    let mut rows = Rows::new(layout.clone());
    rows.restore(bytes)?;
    Ok(rows)
}

/// What an actor has done since it last said so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) n_steps: u64,
    /// The version of its weights.
    pub(super) version: u64,
    /// The probability of its random actions.
    pub(super) epsilon: f32,
    /// The episodes that ended.
    pub(super) episodes: Vec<Episode>,
}

/// A drawn batch, and what the shard has done so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    pub(super) ids: Vec<ItemId>,
    pub(super) weights: Vec<f32>,
    pub(super) rows: Rows,
}

impl Batch {
    pub(super) fn bytes_of(drawn: &DrawnBatch<'_>) -> Vec<u8> {
        to_bytes(&(drawn.ids, drawn.weights, Bytes(&drawn.rows.to_bytes())))
    }

    pub(super) fn from_bytes(layout: &ColumnLayout, bytes: &[u8]) -> Result<Batch, Error> {
        let (ids, weights, rows) = from_bytes("a batch", bytes)?;
        let rows = read_rows(layout, rows)?;
        Ok(Batch { ids, weights, rows })
    }
}

/// The TD errors of a batch's rows after its update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Priorities {
    pub(super) ids: Vec<ItemId>,
    pub(super) td_errors: Vec<f32>,
}
