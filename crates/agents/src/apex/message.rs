//! What the ranks of Ape-X tell each other.

use shardgraph_replay::{ColumnLayout, ItemId, Rows};

use crate::episodes::Episode;
use crate::error::Error;
use crate::topology::{Reader, Writer, episodes_of, episodes_to};

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
        let rows = self.rows.to_bytes();
        Writer::new()
            .u64(number)
            .bytes(&rows)
            .f32s(&self.td_errors)
            .finish()
    }

    /// The block and its number.
    pub(super) fn from_bytes(layout: &ColumnLayout, bytes: &[u8]) -> Result<(Block, u64), Error> {
        let mut reader = Reader::new("a block", bytes);
        let number = reader.u64()?;
        let rows = read_rows(layout, &mut reader)?;
        let td_errors = reader.f32s()?;
        reader.end()?;
        Ok((Block { rows, td_errors }, number))
    }
}

fn read_rows(layout: &ColumnLayout, reader: &mut Reader<'_>) -> Result<Rows, Error> {
    let mut rows = Rows::new(layout.clone());
    rows.restore(reader.bytes()?)?;
    Ok(rows)
}

/// What an actor has done since it last said so.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) n_steps: u64,
    /// The version of its weights.
    pub(super) version: u64,
    /// The probability of its random actions.
    pub(super) epsilon: f32,
    /// The episodes that ended.
    pub(super) episodes: Vec<Episode>,
}

impl Progress {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = Writer::new().u64(self.n_steps).u64(self.version);
        episodes_to(numbers.f32s(&[self.epsilon]), &self.episodes).finish()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Progress, Error> {
        let mut reader = Reader::new("an actor's progress", bytes);
        let (n_steps, version) = (reader.u64()?, reader.u64()?);
        let [epsilon] = reader.f32s()?[..] else {
            return Err(reader.torn());
        };
        let episodes = episodes_of(&mut reader)?;
        reader.end()?;
        Ok(Progress {
            n_steps,
            version,
            epsilon,
            episodes,
        })
    }
}

/// A drawn batch, and what the shard has done so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    pub(super) ids: Vec<ItemId>,
    pub(super) weights: Vec<f32>,
    pub(super) rows: Rows,
}

impl Batch {
    pub(super) fn bytes_of((ids, weights, rows): (&[ItemId], &[f32], &Rows)) -> Vec<u8> {
        let ids = ids.iter().map(|id| id.0);
        Writer::new()
            .u64s(ids)
            .f32s(weights)
            .bytes(&rows.to_bytes())
            .finish()
    }

    pub(super) fn from_bytes(layout: &ColumnLayout, bytes: &[u8]) -> Result<Batch, Error> {
        let mut reader = Reader::new("a batch", bytes);
        let ids = reader.u64s()?.into_iter().map(ItemId).collect();
        let weights = reader.f32s()?;
        let rows = read_rows(layout, &mut reader)?;
        reader.end()?;
        Ok(Batch { ids, weights, rows })
    }
}

/// The TD errors of a batch's rows after its update.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Priorities {
    pub(super) ids: Vec<ItemId>,
    pub(super) td_errors: Vec<f32>,
}

impl Priorities {
    pub(super) fn bytes_of(ids: &[ItemId], td_errors: &[f32]) -> Vec<u8> {
        Writer::new()
            .u64s(ids.iter().map(|id| id.0))
            .f32s(td_errors)
            .finish()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Priorities, Error> {
        let mut reader = Reader::new("priorities", bytes);
        let ids = reader.u64s()?.into_iter().map(ItemId).collect();
        let td_errors = reader.f32s()?;
        reader.end()?;
        Ok(Priorities { ids, td_errors })
    }
}

/// What a shard has done, as it says with its [`tag::DONE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ShardTotals {
    pub(super) n_inserted: u64,
    pub(super) n_sampled: u64,
    /// Priorities that came for rows that were overwritten meanwhile.
    pub(super) n_stale: u64,
}

impl ShardTotals {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        Writer::new()
            .u64(self.n_inserted)
            .u64(self.n_sampled)
            .u64(self.n_stale)
            .finish()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<ShardTotals, Error> {
        let mut reader = Reader::new("a shard's totals", bytes);
        let (n_inserted, n_sampled, n_stale) = (reader.u64()?, reader.u64()?, reader.u64()?);
        reader.end()?;
        Ok(ShardTotals {
            n_inserted,
            n_sampled,
            n_stale,
        })
    }
}
