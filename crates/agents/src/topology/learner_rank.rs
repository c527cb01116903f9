//! The rank that learns: one loop of events and updates for all algorithms whose actors are on ranks of their own.

use std::collections::BTreeSet;

use shardgraph_autodiff::Params;
use shardgraph_collectives::messages::Event;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks};

use super::actors::Actors;
use super::learner_group::LearnerState;
use super::learner_run::LearnerRun;
use super::port::{Port, common_tag::BEGIN};
use super::weights::PresentWeights;
use super::wire::to_bytes;
use crate::advance::Advance;
use crate::checkpoint::RunState;
use crate::error::Error;
use crate::rank_trainer::{RankTrainer, Standing};
use crate::run::ReplayTotals;

/// What every learner among ranks has.
pub(crate) struct Hub<'a> {
    pub(crate) port: &'a Port,
    pub(crate) run: LearnerRun,
    pub(crate) actors: Actors,
    pub(crate) weights: PresentWeights,
}

impl Hub<'_> {
    /// The first word to a rank that comes.
    pub(crate) fn greet(&mut self, rank: u32) -> Result<(), Error> {
        let key = to_bytes(&self.run.arrival(rank));
        self.port.send(rank, BEGIN, &key)?;
        Ok(())
    }
}

/// An algorithm's part of the rank that learns.
pub(crate) trait Learning {
    /// Goes on where a checkpoint was made.
    fn restore(&mut self, state: LearnerState) -> Result<(), Error>;

    /// Updates where that is due; else gives the next event, for which it may wait.
    ///
    /// # Errors
    /// Where nothing more can come.
    fn next(&mut self, hub: &mut Hub<'_>, advance: &mut Advance) -> Result<Option<Event>, Error>;

    /// Whether nothing is left to learn from, once there are steps enough.
    fn is_drained(&self) -> bool {
        true
    }

    /// Takes in a rank that comes.
    fn join(&mut self, rank: u32, hub: &mut Hub<'_>) -> Result<(), Error>;

    /// Gives up a rank that is gone.
    fn lose(&mut self, rank: u32, why: &str, hub: &mut Hub<'_>) -> Result<(), Error>;

    /// A rank has come that cannot take part.
    fn decline(&mut self, rank: u32, why: &str, hub: &mut Hub<'_>) -> Result<(), Error> {
        hub.actors.decline(rank, why, hub.port, &mut hub.run)
    }

    /// Takes in a message, and what its sender did into `advance`.
    fn read(
        &mut self,
        message: Message<'_>,
        hub: &mut Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error>;

    /// The checkpoint of a run that stands here.
    fn checkpoint(&self, run: &RunState) -> Result<Checkpoint, Error>;

    fn n_updates(&self) -> u64;

    fn params(&self) -> &Params;

    /// What went through a replay memory.
    fn replayed(&self) -> ReplayTotals {
        ReplayTotals::default()
    }

    /// The ranks that hear of the run's end, the actors excepted.
    fn others_there(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// A message to the learner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) from: u32,
    pub(crate) tag: u32,
    pub(crate) bytes: &'a [u8],
}

/// Learns until the actors have made the steps of the settings, and the algorithm has learned from them.
pub(crate) struct LearnerRank<'a, L> {
    pub(crate) hub: Hub<'a>,
    pub(crate) learning: L,
}

impl<L: Learning> LearnerRank<'_, L> {
    /// The ranks that hear of the run's end.
    pub(crate) fn there(&self) -> BTreeSet<u32> {
        let mut there = self.hub.actors.at_work();
        there.extend(self.learning.others_there());
        there
    }

    fn take(&mut self, event: Event, advance: &mut Advance) -> Result<(), Error> {
        let (learning, hub) = (&mut self.learning, &mut self.hub);
        match event {
            Event::Joined { rank, .. } => learning.join(rank, hub),
            Event::Lost { rank, why, .. } => learning.lose(rank, &why, hub),
            Event::Rejected { rank, why } => learning.decline(rank, &why, hub),
            Event::Message { from, tag, bytes } => {
                let bytes = &bytes[..];
                learning.read(Message { from, tag, bytes }, hub, advance)
            }
            _ => Ok(()),
        }
    }
}

impl<L: Learning> RankTrainer for LearnerRank<'_, L> {
    fn is_over(&self, _: u64) -> bool {
        self.hub.run.is_full() && self.learning.is_drained()
    }

    /// An event, or an update.
    fn advance(&mut self, _: &mut Comm, _: Timeout) -> Result<Advance, Error> {
        let mut advance = Advance::default();
        if let Some(event) = self.learning.next(&mut self.hub, &mut advance)? {
            self.take(event, &mut advance)?;
        }
        self.hub.run.state.n_updates = self.learning.n_updates();
        Ok(advance)
    }

    fn to_checkpoint(&self, _: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        self.learning.checkpoint(&self.hub.run.state).map(Some)
    }

    fn standing(&self) -> Standing<'_> {
        self.hub.run.state.standing()
    }

    fn params(&self) -> &Params {
        self.learning.params()
    }
}
