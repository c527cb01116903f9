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

    /// An actor has said that nothing more comes of it. Before the run is full that is one which was told to make fewer steps than the learner:
    /// it is named in the books.
    ///
    /// # Errors
    /// Where no other actor is left, so that nothing would come any more.
    pub(crate) fn end(&mut self, rank: u32, books: &mut Books) -> Result<(), Error> {
        self.there.insert(rank, true);
        if books.is_full() {
            return Ok(());
        }
        let (n_steps, stop_at) = (books.n_steps(), books.stop_at());
        books.lose(format!(
            "actor {rank}: it ended at its own last step, when the run was at step {n_steps} of {stop_at}: give all processes the same number of steps"
        ));
        match self.has_any() {
            true => Ok(()),
            false => Err(all_lost(books.lost())),
        }
    }

    /// Whether something may still come of one that is there.
    fn has_any(&self) -> bool {
        self.there.values().any(|is_done| !is_done)
    }

    /// Names in the books an actor that is gone before it was done.
    pub(crate) fn lose(&mut self, rank: u32, why: &str, books: &mut Books) {
        if self.there.remove(&rank) == Some(false) {
            books.lose(format!("actor {rank}: {why}"));
        }
    }

    /// Refuses to go on where all actors are gone and none can come back.
    pub(crate) fn check(&self, port: &Port, lost: &[String]) -> Result<(), Error> {
        if self.has_any() || lost.is_empty() || port.may_return() {
            return Ok(());
        }
        Err(all_lost(lost))
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

#[cold]
fn all_lost(lost: &[String]) -> Error {
    let text = format!("all actors are lost: {}", lost.join("; "));
    ErrorKind::Topology(text).into()
}
