//! The rank that learns: a queue of unrolls, an update whenever it holds a batch, and new weights with each acknowledgement.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardgraph_collectives::messages::Event;
use shardgraph_job::Checkpoint;

use crate::error::Error;
use crate::impala::checkpoint::checkpoint_of;
use crate::impala::config::ImpalaConfig;
use crate::impala::learner::Learner;
use crate::impala::tag;
use crate::impala::trajectory::Unroll;
use crate::run::TrainProgress;
use crate::topology::common_tag::BEGIN;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{Actors, Books, Port, PresentWeights, TopologyOutcome, TopologyRun};

/// An unroll in the queue.
struct Queued {
    actor: u32,
    unroll: Unroll,
    /// Whether its actor still waits for the learner's word.
    waits: bool,
}

/// Learns until the actors have made the steps of the settings.
pub(super) struct LearnerRank<'a> {
    port: &'a Port,
    learner: Learner,
    books: Books,
    batch_unrolls: usize,
    log_updates: u64,
    queue: VecDeque<Queued>,
    actors: Actors,
    weights: PresentWeights,
    /// The version of the weights that each actor was sent last.
    sent: BTreeMap<u32, u64>,
}

impl<'a> LearnerRank<'a> {
    /// At the start of a run, or where its newest checkpoint was made.
    pub(super) fn new(
        run: TopologyRun<'a, ImpalaConfig>,
        port: &'a Port,
    ) -> Result<LearnerRank<'a>, Error> {
        let (impala, options, config) = (run.settings, run.options, run.config);
        let environments = options.environments_of(config)?;
        let mut learner = Learner::new(impala, &environments, config.seed, &options.device)?;
        let restore = |state| learner.restore_all(state);
        let books = Books::of_learner(run.start, options, restore)?;
        Ok(LearnerRank {
            port,
            learner,
            books,
            batch_unrolls: impala.batch_unrolls(config.environment.n_environments),
            log_updates: impala.log_updates,
            queue: VecDeque::new(),
            actors: Actors::new(1),
            weights: PresentWeights::default(),
            sent: BTreeMap::new(),
        })
    }

    /// To the end; with the actors that are there still.
    pub(super) fn run(
        mut self,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TopologyOutcome, BTreeSet<u32>), Error> {
        // None where a finished run is resumed.
        while !self.books.is_full() {
            let event = self.port.recv("trajectories of actors")?;
            self.take(event, progress)?;
        }
        let actors = self.actors.at_work();
        Ok((self.finish()?, actors))
    }

    fn take(
        &mut self,
        event: Event,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        match event {
            Event::Joined { rank, .. } => {
                self.actors.join(rank);
                self.sent.remove(&rank);
                let key = to_bytes(&self.books.arrival(rank));
                self.port.send(rank, BEGIN, &key)?;
                Ok(())
            }
            Event::Rejected { rank, why } => {
                let which = (rank, why.as_str());
                self.actors.decline(which, self.port, &mut self.books)
            }
            Event::Lost { rank, why, .. } => {
                self.actors.lose(rank, &why, &mut self.books);
                // What it has made is as good as before; nobody waits for a word on it.
                let of_rank = self.queue.iter_mut().filter(|queued| queued.actor == rank);
                of_rank.for_each(|queued| queued.waits = false);
                self.actors.check(self.port, self.books.lost())
            }
            Event::Message {
                from,
                tag: tag::UNROLL,
                bytes,
            } => self.queue_up(from, from_bytes::<Unroll>("an unroll", &bytes)?, progress),
            Event::Message {
                from,
                tag: tag::HELLO,
                ..
            } => self.acknowledge(from, None),
            Event::Message {
                from,
                tag: tag::DONE,
                ..
            } => self.actors.end(from, &mut self.books),
            Event::Message { from, tag, .. } => Err(Error::out_of_place("learner", from, tag)),
            _ => Ok(()),
        }
    }

    /// Takes an unroll in. While the queue is short of a batch, its actor may go on at once; otherwise only after an update has made room.
    fn queue_up(
        &mut self,
        actor: u32,
        unroll: Unroll,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        let lag = self.learner.n_updates.saturating_sub(unroll.version);
        let n_steps = unroll.rewards.len() as u64; // an action may have several parts
        let is_due = self
            .books
            .count(n_steps, (&unroll.episodes, None), lag, progress)?;
        let is_short = self.queue.len() + 1 < self.batch_unrolls;
        if is_short {
            self.acknowledge(actor, Some(unroll.version))?;
        }
        self.queue.push_back(Queued {
            actor,
            unroll,
            waits: !is_short,
        });
        if self.queue.len() >= self.batch_unrolls {
            self.learn()?;
        }
        if is_due {
            self.books.write_checkpoint(&self.checkpoint()?)?;
        }
        Ok(())
    }

    fn learn(&mut self) -> Result<(), Error> {
        let taken: Vec<Queued> = self.queue.drain(..self.batch_unrolls).collect();
        let waiting: Vec<(u32, u64)> = taken
            .iter()
            .filter(|queued| queued.waits)
            .map(|queued| (queued.actor, queued.unroll.version))
            .collect();
        let unrolls: Vec<Unroll> = taken.into_iter().map(|queued| queued.unroll).collect();
        let losses = self.learner.update(&unrolls)?;
        for (actor, version) in waiting {
            self.acknowledge(actor, Some(version))?;
        }
        match self.learner.n_updates.is_multiple_of(self.log_updates) {
            true => self.books.log(&losses.scalars()),
            false => Ok(()),
        }
    }

    /// Sends the present weights, where the actor has others and none are on their way to it: it has room for one list of them and for many
    /// words without, so that this never waits. `known` is what it last said that it had.
    fn acknowledge(&mut self, actor: u32, known: Option<u64>) -> Result<(), Error> {
        let (present, weights) = (self.learner.n_updates, self.learner.params.trained());
        let sent = self.sent.get(&actor);
        let is_on_its_way = sent.is_some_and(|sent| known.is_some_and(|known| known < *sent));
        let known = match is_on_its_way {
            true => Some(present),
            false => known,
        };
        if known != Some(present) {
            self.sent.insert(actor, present);
        }
        let message = self.weights.message(present, weights, known);
        self.port.send(actor, tag::TAKEN, message)?;
        Ok(())
    }

    fn checkpoint(&self) -> Result<Checkpoint, Error> {
        let run = self.books.run_after(self.learner.n_updates);
        checkpoint_of(&run, &self.learner, None)
    }

    fn finish(self) -> Result<TopologyOutcome, Error> {
        let checkpoint = self.checkpoint()?;
        let learned = (self.learner.n_updates, &self.learner.params);
        self.books.finish(&checkpoint, learned)
    }
}
