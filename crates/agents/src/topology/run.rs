//! A topology: one rank learns, the others feed it, as threads of one process or as a process each.

use std::collections::BTreeSet;

use shardgraph_collectives::messages::Mailbox;

use super::farewell::see_off;
use super::outcome::TopologyOutcome;
use super::port::{LEARNER, Port};
use super::threads::{outcome_of, ports, run_ranks};
use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainProgress};
use crate::run_options::RunOptions;

/// The settings of an algorithm whose ranks have parts of their own.
pub(crate) trait Topology: Sized + Sync {
    /// The kind of the learner's last message to a rank.
    const STOP: u32;
    /// The kind of a rank's last message to the learner.
    const DONE: u32;

    /// How many ranks there are in one process.
    fn n_ranks(&self) -> u32;

    /// What a rank is that does not learn.
    fn part_of(&self, rank: u32) -> &'static str;

    /// Learns until the run is over; the ranks that are still to be seen off.
    fn learn(
        run: TopologyRun<'_, Self>,
        port: &Port,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TopologyOutcome, BTreeSet<u32>), Error>;

    /// The part of every rank but the learner's.
    fn feed(run: TopologyRun<'_, Self>, port: &Port) -> Result<(), Error>;
}

/// What all ranks of a run are told.
#[derive(Debug)]
pub(crate) struct TopologyRun<'a, S> {
    pub(crate) config: &'a AgentConfig,
    /// Of the algorithm, out of `config`.
    pub(crate) settings: &'a S,
    pub(crate) start: &'a Start,
    pub(crate) options: &'a RunOptions,
}

impl<S> Clone for TopologyRun<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for TopologyRun<'_, S> {}

impl<'a, S> TopologyRun<'a, S> {
    pub(crate) fn new(
        config: &'a AgentConfig,
        settings: &'a S,
        start: &'a Start,
        options: &'a RunOptions,
    ) -> TopologyRun<'a, S> {
        TopologyRun {
            config,
            settings,
            start,
            options,
        }
    }
}

impl<S: Topology> TopologyRun<'_, S> {
    /// All ranks as threads.
    pub(crate) fn on_threads(
        self,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<TopologyOutcome, Error> {
        let ports = ports(self.settings.n_ranks(), self.options.deadline)?;
        let learn = |port| self.learn(port, progress);
        outcome_of(run_ranks(ports, learn, &|port| S::feed(self, port)))
    }

    /// This process' rank of several. Only the learner has an outcome.
    pub(crate) fn as_process(
        self,
        mailbox: Mailbox,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<Option<TopologyOutcome>, Error> {
        let port = Port::of_process(mailbox, self.options.deadline);
        match port.rank() {
            LEARNER => self.learn(port, progress).map(Some),
            _ => S::feed(self, &port).map(|()| None),
        }
    }

    /// The learner's part; the others hear why it fails.
    pub(crate) fn learn(
        self,
        port: Port,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<TopologyOutcome, Error> {
        let ended = S::learn(self, &port, progress).inspect_err(|error| port.leave_with(error));
        let (mut outcome, there) = ended?;
        for (absent, why) in see_off(&port, there, (S::STOP, S::DONE)) {
            let part = self.settings.part_of(absent);
            outcome.lost.push(format!("{part} {absent}: {why}"));
        }
        Ok(outcome)
    }
}
