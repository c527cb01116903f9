//! A rank that is a shard of the memory.

use std::collections::BTreeMap;

use shardgraph_collectives::messages::Event;

use crate::apex::config::ApexConfig;
use crate::apex::message::{Batch, Block, Priorities, tag};
use crate::apex::shard::Shard;
use crate::error::Error;
use crate::run::ReplayTotals;
use crate::topology::common_tag::{BEGIN, REFUSAL};
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{LEARNER, Port, learner_lost, learner_refused};

/// Serves actors and the learner until the learner says that the run is over.
pub(in crate::apex) fn run_shard(
    port: &Port,
    apex: &ApexConfig,
    shard: Shard,
) -> Result<(), Error> {
    let mut rank = ShardRank {
        port,
        is_lock_step: apex.lock_step,
        n_shards: apex.n_shards,
        shard,
        is_done: BTreeMap::new(),
        unacknowledged: Vec::new(),
        n_wanted: 0,
        n_unanswered: 0,
        is_stopping: false,
        has_said_done: false,
    };
    while !rank.take(port.recv("blocks of actors and questions of the learner")?)? {
        rank.serve()?;
    }
    Ok(())
}

struct ShardRank<'a> {
    port: &'a Port,
    is_lock_step: bool,
    n_shards: u32,
    shard: Shard,
    /// The actors that are there, and whether no more blocks come of them.
    is_done: BTreeMap<u32, bool>,
    /// Blocks that are in the memory and whose actors are still kept waiting: actor and number.
    unacknowledged: Vec<(u32, u64)>,
    /// Batches that the learner waits for.
    n_wanted: u64,
    /// Batches whose new priorities have not come.
    n_unanswered: u64,
    /// Whether the learner has said that there are steps enough.
    is_stopping: bool,
    has_said_done: bool,
}

impl ShardRank<'_> {
    /// Takes in an event; true when the run is over.
    fn take(&mut self, event: Event) -> Result<bool, Error> {
        match event {
            Event::Joined { rank, .. } if rank > self.n_shards => {
                self.is_done.insert(rank, false);
            }
            Event::Lost {
                rank: LEARNER, why, ..
            } => return Err(learner_lost(self.port.rank(), &why)),
            Event::Lost { rank, .. } => {
                // An actor that leaves behind its last block has said so before.
                if self.is_done.get(&rank) == Some(&false) {
                    self.is_done.remove(&rank);
                }
                self.unacknowledged.retain(|(actor, _)| *actor != rank);
            }
            Event::Message { from, tag, bytes } => return self.read(from, tag, &bytes),
            _ => {}
        }
        Ok(false)
    }

    fn read(&mut self, from: u32, tag: u32, bytes: &[u8]) -> Result<bool, Error> {
        match tag {
            tag::BLOCK => {
                let (block, number) = Block::from_bytes(self.shard.layout(), bytes)?;
                self.shard.insert(&block)?;
                self.unacknowledged.push((from, number));
            }
            BEGIN => self.shard.begin_at(from_bytes("a key", bytes)?),
            REFUSAL if from == LEARNER => return Err(learner_refused(bytes)),
            tag::BATCH_WANTED => self.n_wanted += 1,
            tag::PRIORITIES => {
                // Without a batch out there they are of rows that another shard of this number had.
                if let Some(left) = self.n_unanswered.checked_sub(1) {
                    let priorities: Priorities = from_bytes("priorities", bytes)?;
                    self.shard.update(&priorities.ids, &priorities.td_errors)?;
                    self.n_unanswered = left;
                }
            }
            tag::DONE if from == LEARNER => self.is_stopping = true,
            tag::DONE => {
                self.is_done.insert(from, true);
            }
            tag::STOP => return Ok(true),
            _ => {
                return Err(Error::out_of_place("shard", from, tag));
            }
        }
        Ok(false)
    }

    /// Sends what is due: batches, acknowledgements, and the last word.
    fn serve(&mut self) -> Result<(), Error> {
        while self.n_wanted > 0 && self.shard.limiter.may_sample() {
            self.shard.sample()?;
            let bytes = Batch::bytes_of(&self.shard.drawn());
            self.port.send(LEARNER, tag::BATCH, &bytes)?;
            self.n_wanted -= 1;
            self.n_unanswered += 1;
        }
        let keeps_step = !self.is_lock_step || self.n_unanswered == 0;
        if keeps_step && self.shard.limiter.may_insert() {
            for (actor, number) in self.unacknowledged.drain(..) {
                self.port.send(actor, tag::TAKEN, &to_bytes(&number))?;
            }
        }
        self.say_done()
    }

    /// Once, when the learner has steps enough, nothing comes any more, nothing is left to draw, and all priorities are back.
    fn say_done(&mut self) -> Result<(), Error> {
        let has_all = self.is_stopping && self.is_done.values().all(|done| *done);
        let is_idle = self.n_unanswered == 0 && !self.shard.limiter.may_sample();
        if !has_all || !is_idle || self.has_said_done {
            return Ok(());
        }
        self.has_said_done = true;
        let totals = ReplayTotals {
            n_inserted: self.shard.limiter.n_inserted,
            n_sampled: self.shard.limiter.n_sampled,
            n_stale: self.shard.memory.n_stale_updates(),
        };
        self.port.send(LEARNER, tag::DONE, &to_bytes(&totals))?;
        Ok(())
    }
}
