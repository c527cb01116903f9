//! A topology: one rank learns, the others feed it, as threads of one process or as a process each.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;
use shardgraph_collectives::Comm;
use shardgraph_collectives::messages::Mailbox;
use shardgraph_job::{Checkpoint, Ranks};

use super::actors::Actors;
use super::farewell::see_off;
use super::learner_group::LearnerState;
use super::learner_rank::{Hub, LearnerRank, Learning};
use super::learner_run::LearnerRun;
use super::port::{LEARNER, Port};
use super::threads::{ports, run_ranks};
use super::weights::PresentWeights;
use crate::checkpoint::{RunState, restore};
use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainOutcome, TrainProgress, train_to_end};
use crate::run_options::RunOptions;

/// The settings of an algorithm whose ranks have parts of their own.
pub(crate) trait Topology: Sized + Sync {
    /// The kind of the learner's last message to a rank.
    const STOP: u32;
    /// The kind of a rank's last message to the learner.
    const DONE: u32;
    /// Its part of the rank that learns.
    type Learning: Learning;

    /// How many ranks there are in one process.
    fn n_ranks(&self) -> u32;

    /// What a rank is that does not learn.
    fn part_of(&self, rank: u32) -> &'static str;

    /// The rank of the first actor; all behind it act too.
    fn first_actor(&self) -> u32;

    /// Where actors explore differently, the probability of random actions of the one that explores the least.
    fn least_epsilon(&self, n_ranks: u32) -> Result<Option<f32>, Error> {
        let _ = n_ranks;
        Ok(None)
    }

    /// What learns, at the start of a run.
    fn learning(run: TopologyRun<'_, Self>) -> Result<Self::Learning, Error>;

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

/// What an algorithm adds to `run.json` of a run in lock step in one process.
#[derive(Deserialize)]
struct OwnPart {
    lock_step: Option<IgnoredAny>,
    actor_episodes: Option<IgnoredAny>,
}

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
    ) -> Result<TrainOutcome, Error> {
        let ports = ports(self.settings.n_ranks(), self.options.deadline)?;
        let learn = |port| self.learn(port, progress);
        run_ranks(ports, learn, &|port| S::feed(self, port)).outcome()
    }

    /// This process' rank of several. Only the learner has an outcome.
    pub(crate) fn as_process(
        self,
        mailbox: Mailbox,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<Option<TrainOutcome>, Error> {
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
    ) -> Result<TrainOutcome, Error> {
        let ended = self
            .learn_to_end(&port, progress)
            .inspect_err(|error| port.leave_with(error));
        let (mut outcome, there) = ended?;
        for (absent, why) in see_off(&port, there, S::STOP, S::DONE) {
            let part = self.settings.part_of(absent);
            outcome.lost.push(format!("{part} {absent}: {why}"));
        }
        Ok(outcome)
    }

    /// Learns until the run is over and written; gives the ranks that are still to be seen off.
    fn learn_to_end(
        self,
        port: &Port,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TrainOutcome, BTreeSet<u32>), Error> {
        let (start, options) = (self.start, self.options);
        let mut learning = S::learning(self)?;
        let mut comm = Comm::solo();
        let mut alone = Ranks::new(&mut comm, options.deadline);
        let place = start.place();
        let (state, taken) = place.load(
            &mut alone,
            |_| Ok(RunState::first(self.config, 1, &options.device)),
            |_, newest| self.restore(&mut learning, newest),
        )?;
        let mut recorder = place.open(&mut alone, taken)?;
        let least_epsilon = self.settings.least_epsilon(port.size())?;
        let hub = Hub {
            port,
            run: LearnerRun::new(state, options.stop_at, least_epsilon)?,
            actors: Actors::new(self.settings.first_actor()),
            weights: PresentWeights::default(),
        };
        let mut learner = LearnerRank { hub, learning };
        let mut outcome = train_to_end(
            &mut learner,
            &mut alone,
            recorder.as_mut(),
            start,
            options,
            progress,
        )?;
        outcome.lost = learner.hub.run.lost().to_vec();
        outcome.replayed = learner.learning.replayed();
        Ok((outcome, learner.there()))
    }

    /// Takes over the learner of a checkpoint; where the run stood then.
    fn restore(self, learning: &mut S::Learning, newest: &Checkpoint) -> Result<RunState, Error> {
        let (state, own) = RunState::of::<OwnPart>(newest, &self.options.device)?;
        if own.lock_step.is_some() || own.actor_episodes.is_some() {
            return Err(Error::input(format!(
                "{}: this run in lock step was in one process, and its checkpoint holds the actor too: resume it in one process",
                newest.origin()
            )));
        }
        restore(newest, |tensors| {
            learning.restore(LearnerState::of_tensors(state.n_updates, tensors)?)
        })?;
        Ok(state)
    }
}
