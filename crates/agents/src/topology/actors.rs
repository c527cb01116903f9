//! The actors that a learner knows of.

use std::collections::{BTreeMap, BTreeSet};

use super::learner_run::LearnerRun;
use super::port::Port;
use crate::error::{Error, ErrorKind};

/// The actors that are there, and whether each has said that nothing more comes of it.
#[derive(Debug)]
pub(crate) struct Actors {
    /// The rank of the first; all behind it act too.
    first: u32,
    there: BTreeMap<u32, bool>,
    has_any_come: bool,
}

impl Actors {
    pub(crate) fn new(first: u32) -> Actors {
        Actors {
            first,
            there: BTreeMap::new(),
            has_any_come: false,
        }
    }

    pub(crate) fn join(&mut self, rank: u32) {
        self.there.insert(rank, false);
        self.has_any_come = true;
    }

    /// Those who are there and have not said that nothing more comes of them.
    pub(crate) fn at_work(&self) -> BTreeSet<u32> {
        let at_work = self.there.iter().filter(|(_, is_done)| !**is_done);
        at_work.map(|(rank, _)| *rank).collect()
    }

    /// Names among the lost an actor that cannot take part.
    ///
    /// # Errors
    /// Where none has come, and all have said that they cannot.
    pub(crate) fn decline(
        &mut self,
        rank: u32,
        why: &str,
        port: &Port,
        run: &mut LearnerRun,
    ) -> Result<(), Error> {
        run.lose(format!("actor {rank}: {why}"));
        let may_come = port.missing().iter().any(|rank| *rank >= self.first);
        match self.has_any_come || may_come {
            true => Ok(()),
            false => Err(all_lost(run.lost())),
        }
    }

    /// An actor has said that nothing more comes of it. Before the run is full that is one which was told to make fewer steps than the learner:
    /// it is named among the lost.
    ///
    /// # Errors
    /// Where no other actor is left, so that nothing would come any more.
    pub(crate) fn end(&mut self, rank: u32, run: &mut LearnerRun) -> Result<(), Error> {
        self.there.insert(rank, true);
        if run.is_full() {
            return Ok(());
        }
        let (n_steps, stop_at) = (run.state.n_steps, run.stop_at());
        run.lose(format!(
            "actor {rank}: it ended at its own last step, when the run was at step {n_steps} of {stop_at}: give all processes the same number of steps"
        ));
        match self.has_any() {
            true => Ok(()),
            false => Err(all_lost(run.lost())),
        }
    }

    /// Whether something may still come of one that is there.
    fn has_any(&self) -> bool {
        self.there.values().any(|is_done| !is_done)
    }

    /// Names among the lost an actor that is gone before it was done.
    pub(crate) fn lose(&mut self, rank: u32, why: &str, run: &mut LearnerRun) {
        if self.there.remove(&rank) == Some(false) {
            let (step, n_left) = (run.state.n_steps, self.at_work().len());
            run.lose(format!(
                "actor {rank}: {why} (at step {step}; actors left: {n_left})"
            ));
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
}

#[cold]
fn all_lost(lost: &[String]) -> Error {
    let text = format!("all actors are lost: {}", lost.join("; "));
    ErrorKind::Topology(text).into()
}
