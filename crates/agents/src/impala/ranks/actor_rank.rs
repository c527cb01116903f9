//! A rank that acts.

use shardgraph_collectives::messages::Event;

use crate::error::Error;
use crate::impala::actor::Actor;
use crate::impala::config::ImpalaConfig;
use crate::impala::tag;
use crate::impala::trajectory::Unroll;
use crate::topology::common_tag::BEGIN;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{Port, ToLearner, VersionedWeights};

/// Acts until the learner has enough, or for `budget` steps.
pub(in crate::impala) fn run_actor(
    port: &Port,
    impala: &ImpalaConfig,
    actor: Actor,
    budget: u64,
) -> Result<(), Error> {
    let mut rank = ActorRank {
        port,
        learner: ToLearner::new(port, tag::STOP),
        actor,
        n_unacknowledged: 1, // the hello
        has_weights: false,
    };
    rank.learner.send(tag::HELLO, &[])?;
    let max_unacknowledged = if impala.lock_step {
        1
    } else {
        impala.max_unacknowledged
    };
    let mut unroll = Unroll::default();
    loop {
        rank.wait(max_unacknowledged)?;
        if rank.learner.is_stopped || rank.actor.n_steps >= budget {
            return rank.learner.send(tag::DONE, &[]);
        }
        rank.actor.collect(&mut unroll)?;
        rank.learner.send(tag::UNROLL, &to_bytes(&unroll))?;
        rank.n_unacknowledged += 1;
    }
}

struct ActorRank<'a> {
    port: &'a Port,
    learner: ToLearner<'a>,
    actor: Actor,
    n_unacknowledged: usize,
    has_weights: bool,
}

impl ActorRank<'_> {
    /// Takes in what has come, and waits until another unroll may be on its way.
    fn wait(&mut self, max_unacknowledged: usize) -> Result<(), Error> {
        while let Some(event) = self.port.poll() {
            self.take(event)?;
        }
        while !self.learner.is_stopped
            && (self.n_unacknowledged >= max_unacknowledged || !self.has_weights)
        {
            self.take(self.port.recv("the learner to take its unrolls")?)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Error> {
        if self.learner.hear(&event)? {
            return Ok(());
        }
        match event {
            Event::Message {
                tag: tag::TAKEN,
                bytes,
                ..
            } => {
                let (version, weights): VersionedWeights = from_bytes("weights", &bytes)?;
                self.has_weights = true;
                if !weights.is_empty() {
                    self.actor.set_weights(version, &weights)?;
                }
                let left = self.n_unacknowledged.checked_sub(1);
                self.n_unacknowledged =
                    left.ok_or_else(|| Error::internal("an unroll was acknowledged twice"))?;
            }
            Event::Message {
                tag: BEGIN, bytes, ..
            } => self.actor.begin_at(from_bytes("a key", &bytes)?),
            Event::Message { from, tag, .. } => {
                return Err(Error::out_of_place("actor", from, tag));
            }
            _ => {}
        }
        Ok(())
    }
}
