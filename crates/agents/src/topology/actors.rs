//! The actors that a learner knows of.

use std::collections::BTreeMap;

use shardgraph_collectives::messages::Event;

use super::{Books, Port};
use crate::error::{Error, ErrorKind};

/// The actors that are there, and whether each has said that nothing more comes of it.
#[derive(Debug, Default)]
pub(crate) struct Actors {
    there: BTreeMap<u32, bool>,
}

impl Actors {
    pub(crate) fn join(&mut self, rank: u32) {
        self.there.insert(rank, false);
    }

    /// An actor has said that nothing more comes of it.
    pub(crate) fn end(&mut self, rank: u32) {
        self.there.insert(rank, true);
    }

    /// Names in the books an actor that is gone before it was done.
    pub(crate) fn lose(&mut self, rank: u32, why: &str, books: &mut Books) {
        if self.there.remove(&rank) == Some(false) {
            books.lose(format!("actor {rank}: {why}"));
        }
    }

    /// Refuses to go on where all actors are gone and none can come back.
    pub(crate) fn check(&self, port: &Port, lost: &[String]) -> Result<(), Error> {
        if !self.there.is_empty() || lost.is_empty() || port.may_return() {
            return Ok(());
        }
        let text = format!("all actors are lost: {}", lost.join("; "));
        Err(ErrorKind::Topology(text).into())
    }

    /// Sends all of them a word without content.
    pub(crate) fn tell(&self, port: &Port, tag: u32) -> Result<(), Error> {
        for &actor in self.there.keys() {
            port.send(actor, tag, &[])?;
        }
        Ok(())
    }

    /// Takes leave when the run is over and written: whoever is there, and whoever comes meanwhile, hears the tag `stop`, and is waited for
    /// until it says `done`. Who does not answer within the deadline is left alone.
    pub(crate) fn see_off(mut self, port: &Port, (stop, done): (u32, u32)) {
        self.there.retain(|_, is_done| !*is_done);
        let hears = |rank: u32| port.send(rank, stop, &[]).unwrap_or(false);
        self.there.retain(|&rank, _| hears(rank));
        while !self.there.is_empty() {
            match port.recv("the actors' last word") {
                Ok(Event::Message { from, tag, .. }) if tag == done => {
                    self.there.remove(&from);
                }
                Ok(Event::Joined { rank, .. }) if hears(rank) => self.join(rank),
                Ok(Event::Lost { rank, .. }) => drop(self.there.remove(&rank)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}
