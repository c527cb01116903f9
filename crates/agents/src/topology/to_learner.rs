//! An actor's words to the learner.

use shardgraph_collectives::messages::Event;

use super::port::common_tag::REFUSAL;
use super::port::{LEARNER, Port, learner_lost, learner_refused};
use crate::error::Error;

/// Where an actor speaks to the learner, and whether that has said that there are steps enough.
pub(crate) struct ToLearner<'a> {
    port: &'a Port,
    /// The tag of that word.
    stop: u32,
    pub(crate) is_stopped: bool,
}

impl ToLearner<'_> {
    pub(crate) fn new(port: &Port, stop: u32) -> ToLearner<'_> {
        ToLearner {
            port,
            stop,
            is_stopped: false,
        }
    }

    /// Sends a message. Where the learner has left, what it said before comes first: perhaps that the run is over.
    ///
    /// # Errors
    /// When it has left without that.
    pub(crate) fn send(&mut self, tag: u32, bytes: &[u8]) -> Result<(), Error> {
        let mut is_heard = self.port.send(LEARNER, tag, bytes)?;
        while !is_heard && !self.is_stopped {
            let event = self.port.recv("the learner's last word")?;
            is_heard = self.hear(&event)?;
        }
        Ok(())
    }

    /// Whether an event was the learner's last word.
    ///
    /// # Errors
    /// When the learner has left without it, or cannot go on.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<bool, Error> {
        match event {
            Event::Lost { rank, why, .. } if *rank == LEARNER && !self.is_stopped => {
                return Err(learner_lost(self.port.rank(), why));
            }
            Event::Message {
                from: LEARNER,
                tag: REFUSAL,
                bytes,
            } => return Err(learner_refused(bytes)),
            Event::Message { from, tag, .. } if *from == LEARNER && *tag == self.stop => {
                self.is_stopped = true;
            }
            _ => return Ok(false),
        }
        Ok(self.is_stopped)
    }
}
