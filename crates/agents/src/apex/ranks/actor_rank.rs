//! A rank that acts.

use shardgraph_collectives::messages::Event;

use crate::apex::actor::Actor;
use crate::apex::config::ApexConfig;
use crate::apex::message::tag;
use crate::error::Error;
use crate::topology::common_tag::BEGIN;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{LEARNER, Port, ToLearner, VersionedWeights};

/// Acts until the learner has enough, or for `budget` steps.
pub(in crate::apex) fn run_actor(
    port: &Port,
    apex: &ApexConfig,
    actor: Actor,
    budget: u64,
) -> Result<(), Error> {
    let mut rank = ActorRank {
        port,
        learner: ToLearner::new(port, tag::STOP),
        actor,
        shards: Vec::new(),
        n_shards: apex.n_shards,
        unacknowledged: Vec::new(),
        n_blocks: 0,
        waits_for_weights: false,
        has_weights: false,
        collects_to: if apex.lock_step { u64::MAX } else { budget },
    };
    let max_unacknowledged = match apex.lock_step {
        true => 1,
        false => apex.max_unacknowledged_blocks,
    };
    loop {
        rank.wait_for_room(max_unacknowledged)?;
        if rank.actor.n_steps < budget {
            rank.ask_for_weights(apex.lock_step)?;
        }
        if rank.learner.is_stopped || rank.actor.n_steps >= budget {
            return rank.leave();
        }
        rank.send_block()?;
    }
}

struct ActorRank<'a> {
    port: &'a Port,
    learner: ToLearner<'a>,
    actor: Actor,
    /// The shards that are there, the next one first.
    shards: Vec<u32>,
    n_shards: u32,
    /// Blocks on their way: shard and number.
    unacknowledged: Vec<(u32, u64)>,
    n_blocks: u64,
    waits_for_weights: bool,
    has_weights: bool,
    /// The step that no block goes beyond; as in one thread, in lock step the last block is whole.
    collects_to: u64,
}

impl ActorRank<'_> {
    /// Takes in what has come, and waits until another block may be on its way.
    fn wait_for_room(&mut self, max_unacknowledged: usize) -> Result<(), Error> {
        while let Some(event) = self.port.poll() {
            self.take(event)?;
        }
        while !self.learner.is_stopped
            && (self.unacknowledged.len() >= max_unacknowledged || self.shards.is_empty())
        {
            self.take(self.port.recv("a shard that takes its blocks")?)?;
        }
        Ok(())
    }

    /// Asks where it is time. Only for the first weights, and in lock step, the answer is waited for.
    fn ask_for_weights(&mut self, is_lock_step: bool) -> Result<(), Error> {
        if self.learner.is_stopped {
            return Ok(());
        }
        if self.actor.wants_weights() {
            self.learner
                .send(tag::WEIGHTS_WANTED, &to_bytes(&self.actor.version))?;
            self.actor.asked_for_weights();
            self.waits_for_weights = true;
        }
        while self.waits_for_weights
            && (is_lock_step || !self.has_weights)
            && !self.learner.is_stopped
        {
            self.take(self.port.recv("the learner's weights")?)?;
        }
        Ok(())
    }

    fn send_block(&mut self) -> Result<(), Error> {
        let (block, progress) = self.actor.collect(self.collects_to)?;
        self.learner.send(tag::PROGRESS, &to_bytes(&progress))?;
        if block.rows.is_empty() {
            return Ok(());
        }
        self.n_blocks += 1;
        let bytes = block.to_bytes(self.n_blocks);
        while let Some(&shard) = self.shards.first() {
            if self.port.send(shard, tag::BLOCK, &bytes)? {
                self.unacknowledged.push((shard, self.n_blocks));
                self.shards.rotate_left(1);
                return Ok(());
            }
            self.shards.remove(0);
        }
        Ok(()) // all shards are gone: the block is lost with them
    }

    fn leave(&self) -> Result<(), Error> {
        self.port.send(LEARNER, tag::DONE, &[])?;
        for &shard in &self.shards {
            self.port.send(shard, tag::DONE, &[])?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Error> {
        if self.learner.hear(&event)? {
            return Ok(());
        }
        match event {
            Event::Lost { rank, .. } => {
                self.shards.retain(|shard| *shard != rank);
                self.unacknowledged.retain(|(shard, _)| *shard != rank);
                Ok(())
            }
            Event::Joined { rank, .. } if (1..=self.n_shards).contains(&rank) => {
                if !self.shards.contains(&rank) {
                    self.shards.push(rank);
                }
                Ok(())
            }
            Event::Message { from, tag, bytes } => self.read(from, tag, &bytes),
            _ => Ok(()),
        }
    }

    fn read(&mut self, from: u32, tag: u32, bytes: &[u8]) -> Result<(), Error> {
        match tag {
            BEGIN => self.actor.begin_at(from_bytes("a key", bytes)?),
            tag::TAKEN => {
                // A block that went to the next shard of a number was given up when the one before it was lost.
                let taken = (from, from_bytes("a number", bytes)?);
                self.unacknowledged.retain(|block| *block != taken);
            }
            tag::WEIGHTS => {
                let (version, weights): VersionedWeights = from_bytes("weights", bytes)?;
                if !weights.is_empty() {
                    self.actor.set_weights(version, &weights)?;
                }
                (self.waits_for_weights, self.has_weights) = (false, true);
            }
            _ => {
                return Err(Error::out_of_place("actor", from, tag));
            }
        }
        Ok(())
    }
}
