//! A rank that acts.

use shardgraph_collectives::messages::Event;

use super::tag;
use crate::error::Error;
use crate::impala::actor::Actor;
use crate::impala::config::ImpalaConfig;
use crate::impala::trajectory::Unroll;
use crate::topology::{LEARNER, Port, learner_lost, read_weights};

/// Acts until the learner has enough, or for `budget` steps.
pub(in crate::impala) fn run_actor(
    port: &Port,
    impala: &ImpalaConfig,
    actor: Actor,
    budget: u64,
) -> Result<(), Error> {
    let mut rank = ActorRank {
        port,
        actor,
        n_unacknowledged: 1, // the hello
        is_stopped: false,
    };
    rank.tell(tag::HELLO, &[])?;
    let max_unacknowledged = if impala.lock_step {
        1
    } else {
        impala.max_unacknowledged
    };
    let mut unroll = Unroll::default();
    let mut is_first = true;
    loop {
        rank.wait(if is_first { 1 } else { max_unacknowledged })?;
        is_first = false;
        if rank.is_stopped || rank.actor.n_steps >= budget {
            return rank.tell(tag::DONE, &[]);
        }
        rank.actor.collect(&mut unroll)?;
        rank.tell(tag::UNROLL, &unroll.to_bytes())?;
        rank.n_unacknowledged += 1;
    }
}

struct ActorRank<'a> {
    port: &'a Port,
    actor: Actor,
    n_unacknowledged: usize,
    is_stopped: bool,
}

impl ActorRank<'_> {
    /// Takes in what has come, and waits until another unroll may be on its way.
    fn wait(&mut self, max_unacknowledged: usize) -> Result<(), Error> {
        while let Some(event) = self.port.poll() {
            self.take(event)?;
        }
        while !self.is_stopped && self.n_unacknowledged >= max_unacknowledged {
            self.take(self.port.recv("the learner to take its unrolls")?)?;
        }
        Ok(())
    }

    /// Where the learner has left, what it said before comes first: perhaps that the run is over.
    fn tell(&mut self, tag: u32, bytes: &[u8]) -> Result<(), Error> {
        let is_taken = self.port.send(LEARNER, tag, bytes)?;
        while !is_taken && !self.is_stopped {
            self.take(self.port.recv("the learner's last word")?)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Lost {
                rank: LEARNER, why, ..
            } if !self.is_stopped => {
                return Err(learner_lost(self.port.rank(), &why));
            }
            Event::Message {
                tag: tag::TAKEN,
                bytes,
                ..
            } => {
                let (version, weights) = read_weights(&bytes)?;
                if !weights.is_empty() {
                    self.actor.set_weights(version, &weights)?;
                }
                let left = self.n_unacknowledged.checked_sub(1);
                self.n_unacknowledged =
                    left.ok_or_else(|| Error::internal("an unroll was acknowledged twice"))?;
            }
            Event::Message { tag: tag::STOP, .. } => self.is_stopped = true,
            Event::Message { tag, .. } => {
                return Err(Error::internal(format!(
                    "an actor was sent a message of kind {tag}"
                )));
            }
            _ => {}
        }
        Ok(())
    }
}
