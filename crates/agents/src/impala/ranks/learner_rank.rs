//! The rank that learns: a queue of unrolls, an update whenever it holds a batch, and new weights with each acknowledgement.

use std::collections::{BTreeMap, VecDeque};

use shardgraph_collectives::messages::Event;

use super::tag;
use crate::config::AgentConfig;
use crate::error::Error;
use crate::impala::checkpoint::{checkpoint_of, learner_of};
use crate::impala::config::ImpalaConfig;
use crate::impala::learner::Learner;
use crate::impala::lock_step::scalars;
use crate::impala::trajectory::Unroll;
use crate::run::{RunOptions, Start, TrainProgress};
use crate::topology::{Books, Port, TopologyOutcome, write_weights};
use crate::weights;

/// Learns until the actors have made the steps of the settings.
pub(in crate::impala) fn run_learner(
    port: Port,
    (config, impala): (&AgentConfig, &ImpalaConfig),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    let (learner, books) = learner_of((config, impala), start, options)?;
    let mut rank = LearnerRank {
        port: &port,
        learner,
        books,
        batch_unrolls: impala.batch_unrolls(config.environment.n_environments()),
        log_updates: impala.log_updates,
        queue: VecDeque::new(),
        actors: BTreeMap::new(),
        weights: None,
    };
    while !rank.books.is_full() {
        let event = port.recv("trajectories of actors")?;
        rank.take(event, progress)?;
    }
    for &actor in rank.actors.keys() {
        port.send(actor, tag::STOP, &[])?;
    }
    rank.finish()
}

/// An unroll in the queue.
struct Queued {
    actor: u32,
    unroll: Unroll,
    /// Whether its actor still waits for the learner's word.
    waits: bool,
}

struct LearnerRank<'a> {
    port: &'a Port,
    learner: Learner,
    books: Books,
    batch_unrolls: usize,
    log_updates: u64,
    queue: VecDeque<Queued>,
    /// The actors that are there, and whether they have said that they are done.
    actors: BTreeMap<u32, bool>,
    /// The message with the present weights.
    weights: Option<(u64, Vec<u8>)>,
}

impl LearnerRank<'_> {
    fn take(
        &mut self,
        event: Event,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        match event {
            Event::Joined { rank, .. } => {
                self.actors.insert(rank, false);
                Ok(())
            }
            Event::Lost { rank, why, .. } => {
                if self.actors.remove(&rank) == Some(false) {
                    self.books.lose(format!("actor {rank}: {why}"));
                }
                // What it has made is as good as before; nobody waits for a word on it.
                let of_rank = self.queue.iter_mut().filter(|queued| queued.actor == rank);
                of_rank.for_each(|queued| queued.waits = false);
                self.port.check_actors(self.actors.len(), self.books.lost())
            }
            Event::Message {
                from,
                tag: tag::UNROLL,
                bytes,
            } => self.queue_up(from, Unroll::from_bytes(&bytes)?, progress),
            Event::Message {
                from,
                tag: tag::HELLO,
                ..
            } => self.acknowledge(from, None),
            Event::Message {
                from,
                tag: tag::DONE,
                ..
            } => {
                self.actors.insert(from, true);
                Ok(())
            }
            Event::Message { tag, .. } => Err(Error::internal(format!(
                "the learner was sent a message of kind {tag}"
            ))),
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
        let n_steps = unroll.actions.len() as u64;
        let is_due = self.books.count(n_steps, &unroll.episodes, lag, progress)?;
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
            let books = (self.books.n_steps, &self.books.config, &self.books.episodes);
            self.books
                .write_checkpoint(&checkpoint_of(&self.learner, books, None)?)?;
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
            true => self.books.log(&scalars(losses)),
            false => Ok(()),
        }
    }

    /// Sends the present weights, where the actor has others. Never waits: an actor has room for one word on each of its unrolls.
    fn acknowledge(&mut self, actor: u32, version: Option<u64>) -> Result<(), Error> {
        let present = self.learner.n_updates;
        if self
            .weights
            .as_ref()
            .is_none_or(|(version, _)| *version != present)
        {
            self.weights = Some((
                present,
                write_weights(present, self.learner.params.trained()),
            ));
        }
        let nothing_newer = write_weights(present, &[]);
        let bytes = match &self.weights {
            Some((_, bytes)) if version != Some(present) => bytes,
            _ => &nothing_newer,
        };
        self.port.send(actor, tag::TAKEN, bytes)?;
        Ok(())
    }

    fn finish(self) -> Result<TopologyOutcome, Error> {
        let books = (self.books.n_steps, &self.books.config, &self.books.episodes);
        let checkpoint = checkpoint_of(&self.learner, books, None)?;
        let learned = (self.learner.n_updates, self.learner.params.trained());
        self.books.finish(&checkpoint, learned, |path| {
            weights::write(path, &self.learner.params)
        })
    }
}
