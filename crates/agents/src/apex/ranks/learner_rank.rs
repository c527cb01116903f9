//! The rank that learns: it asks the shards for batches ahead of its updates, answers actors between two of them, and keeps the books.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardgraph_collectives::messages::Event;
use shardgraph_job::Checkpoint;

use crate::agent::Agent;
use crate::apex::actor::exploration;
use crate::apex::checkpoint::checkpoint_of;
use crate::apex::config::ApexConfig;
use crate::apex::learner::Learner;
use crate::apex::message::{Batch, Progress, ShardTotals, tag};
use crate::error::{Error, ErrorKind};
use crate::run::TrainProgress;
use crate::topology::common_tag::BEGIN;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{Actors, Books, Port, PresentWeights, TopologyOutcome, TopologyRun};

/// Learns until the actors have made the steps of the settings and the shards have nothing left to draw.
pub(super) struct LearnerRank<'a> {
    port: &'a Port,
    apex: &'a ApexConfig,
    learner: Learner,
    books: Books,
    /// The shards that are there, and whether each has given its last batch.
    shards: BTreeMap<u32, bool>,
    /// Batches that have come, with their shards.
    ready: VecDeque<(u32, Batch)>,
    actors: Actors,
    weights: PresentWeights,
    is_stopping: bool,
    totals: ShardTotals,
}

impl<'a> LearnerRank<'a> {
    /// At the start of a run, or where its newest checkpoint was made.
    pub(super) fn new(
        run: TopologyRun<'a, ApexConfig>,
        port: &'a Port,
    ) -> Result<LearnerRank<'a>, Error> {
        let (apex, options) = (run.settings, run.options);
        let environments = options.environments_of(run.config)?;
        let mut learner = Learner::new(apex, &environments, run.config.seed, &options.device)?;
        let restore = |state| learner.restore_all(state);
        let mut books = Books::of_learner(run.start, options, restore)?;
        let n_actors = port.size() - 1 - apex.n_shards;
        books.mean_is_up_to(exploration(apex, (n_actors - 1, n_actors))?);
        Ok(LearnerRank {
            port,
            apex,
            learner,
            books,
            shards: BTreeMap::new(),
            ready: VecDeque::new(),
            actors: Actors::new(1 + apex.n_shards),
            weights: PresentWeights::default(),
            is_stopping: false,
            totals: ShardTotals::default(),
        })
    }

    /// To the end; with the ranks that are there still.
    pub(super) fn run(
        mut self,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TopologyOutcome, BTreeSet<u32>), Error> {
        let is_finished = self.books.is_full(); // before this call
        while !is_finished && !self.is_over()? {
            self.go_on(progress)?;
        }
        let mut there = self.actors.at_work();
        there.extend(self.shards.keys());
        Ok((self.finish()?, there))
    }

    /// Asks for as many batches as may be outstanding.
    fn begin_shard(&mut self, shard: u32) -> Result<(), Error> {
        self.shards.insert(shard, false);
        self.greet(shard)?;
        if self.is_stopping {
            self.port.send(shard, tag::DONE, &[])?;
        }
        let n_batches = match self.apex.lock_step {
            true => 1,
            false => self.apex.prefetch_batches,
        };
        for _ in 0..n_batches {
            self.ask(shard)?;
        }
        Ok(())
    }

    /// Asks for one more batch.
    fn ask(&self, shard: u32) -> Result<(), Error> {
        self.port.send(shard, tag::BATCH_WANTED, &[])?;
        Ok(())
    }

    /// The first word to one that comes.
    fn greet(&mut self, rank: u32) -> Result<(), Error> {
        let key = to_bytes(&self.books.arrival(rank));
        self.port.send(rank, BEGIN, &key)?;
        Ok(())
    }

    fn is_over(&self) -> Result<bool, Error> {
        if self.shards.is_empty() {
            self.check_shards()?;
        }
        let has_all = self.shards.values().all(|is_done| *is_done);
        Ok(self.is_stopping && has_all && self.ready.is_empty())
    }

    /// Refuses to go on where no shard is there and none is still to come.
    fn check_shards(&self) -> Result<(), Error> {
        let missing = self.port.missing();
        let may_come = missing.iter().any(|rank| self.is_shard(*rank));
        if may_come && !self.port.left().is_zero() {
            return Ok(());
        }
        let why = match self.books.lost() {
            [] => "none came in time".to_owned(),
            lost => lost.join("; "),
        };
        Err(ErrorKind::Topology(format!(
            "all shards of the replay memory are lost: {why}: resume the run from its newest checkpoint"
        ))
        .into())
    }

    /// Takes in what has come; then an update, or a wait where there is no batch.
    fn go_on(&mut self, progress: &mut dyn FnMut(&TrainProgress)) -> Result<(), Error> {
        while let Some(event) = self.port.poll() {
            self.take(event, progress)?;
        }
        match self.ready.pop_front() {
            Some((shard, batch)) => self.learn(shard, &batch),
            None if self.is_over()? => Ok(()),
            None if self.shards.is_empty() => match self.port.recv_within(self.port.left()) {
                Some(event) => self.take(event, progress),
                None => Ok(()), // nothing is left of the deadline, which ends the run
            },
            None => {
                let event = self.port.recv("batches and actors")?;
                self.take(event, progress)
            }
        }
    }

    fn learn(&mut self, shard: u32, batch: &Batch) -> Result<(), Error> {
        let update = self.learner.update(&batch.rows, &batch.weights)?;
        let priorities = to_bytes(&(&batch.ids, self.learner.agent.td_errors()));
        // A shard that is lost meanwhile needs neither.
        if self.port.send(shard, tag::PRIORITIES, &priorities)? {
            self.ask(shard)?;
        }
        match self.learner.n_updates.is_multiple_of(self.apex.log_updates) {
            true => {
                let scalars = self.learner.scalars(update, self.books.n_steps());
                self.books.log(&scalars)
            }
            false => Ok(()),
        }
    }

    fn is_shard(&self, rank: u32) -> bool {
        (1..=self.apex.n_shards).contains(&rank)
    }

    fn take(
        &mut self,
        event: Event,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        match event {
            Event::Joined { rank, .. } => self.join(rank),
            Event::Lost { rank, why, .. } => self.lose(rank, &why),
            Event::Rejected { rank, why } if self.is_shard(rank) => {
                self.books.lose(format!("shard {rank}: {why}"));
                Ok(())
            }
            Event::Rejected { rank, why } => {
                let which = (rank, why.as_str());
                self.actors.decline(which, self.port, &mut self.books)
            }
            Event::Message { from, tag, bytes } => self.read(from, tag, &bytes, progress),
            _ => Ok(()),
        }
    }

    fn join(&mut self, rank: u32) -> Result<(), Error> {
        if self.is_shard(rank) {
            // One that is behind its last batch needs no other in its place.
            return match self.shards.contains_key(&rank) {
                true => Ok(()),
                false => self.begin_shard(rank),
            };
        }
        self.actors.join(rank);
        self.greet(rank)?;
        if self.is_stopping {
            self.port.send(rank, tag::STOP, &[])?;
        }
        Ok(())
    }

    fn lose(&mut self, rank: u32, why: &str) -> Result<(), Error> {
        if self.shards.get(&rank) == Some(&true) {
            return Ok(()); // behind its last batch it is not missed
        }
        if self.is_shard(rank) {
            self.shards.remove(&rank);
            self.ready.retain(|(shard, _)| *shard != rank);
            self.books.lose(format!("shard {rank}: {why}"));
            return Ok(());
        }
        self.actors.lose(rank, why, &mut self.books);
        match self.is_stopping {
            true => Ok(()),
            false => self.actors.check(self.port, self.books.lost()),
        }
    }

    fn read(
        &mut self,
        from: u32,
        tag: u32,
        bytes: &[u8],
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        match tag {
            tag::BATCH => {
                self.ready
                    .push_back((from, Batch::from_bytes(self.learner.agent.layout(), bytes)?));
                Ok(())
            }
            tag::PROGRESS => self.count(
                &from_bytes::<Progress>("an actor's progress", bytes)?,
                progress,
            ),
            tag::WEIGHTS_WANTED => self.send_weights(from, from_bytes("a version", bytes)?),
            tag::DONE if self.is_shard(from) => self.end_shard(from, bytes),
            tag::DONE => self.actors.end(from, &mut self.books),
            _ => Err(Error::out_of_place("learner", from, tag)),
        }
    }

    fn count(
        &mut self,
        done: &Progress,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(), Error> {
        let lag = self.learner.n_updates.saturating_sub(done.version);
        let episodes = (&done.episodes[..], Some(done.epsilon));
        let is_due = self.books.count(done.n_steps, episodes, lag, progress)?;
        if is_due {
            self.books.write_checkpoint(&self.checkpoint()?)?;
        }
        if self.books.is_full() && !self.is_stopping {
            self.stop()?;
        }
        Ok(())
    }

    /// There are steps enough: actors end, and shards once nothing is left to draw.
    fn stop(&mut self) -> Result<(), Error> {
        self.is_stopping = true;
        self.actors.tell(self.port, tag::STOP)?;
        for &shard in self.shards.keys() {
            self.port.send(shard, tag::DONE, &[])?;
        }
        Ok(())
    }

    /// Never waits: an actor that has no room for weights asks again.
    fn send_weights(&mut self, actor: u32, known: u64) -> Result<(), Error> {
        let (present, weights) = (self.learner.n_updates, self.learner.agent.weights());
        let message = self.weights.message(present, weights, Some(known));
        self.port.try_send(actor, tag::WEIGHTS, message)?;
        Ok(())
    }

    fn end_shard(&mut self, shard: u32, bytes: &[u8]) -> Result<(), Error> {
        let totals: ShardTotals = from_bytes("a shard's totals", bytes)?;
        self.totals.n_inserted += totals.n_inserted;
        self.totals.n_sampled += totals.n_sampled;
        self.totals.n_stale += totals.n_stale;
        self.shards.insert(shard, true);
        Ok(())
    }

    fn checkpoint(&self) -> Result<Checkpoint, Error> {
        let run = self.books.run_after(self.learner.n_updates);
        checkpoint_of(&run, &self.learner, None)
    }

    fn finish(self) -> Result<TopologyOutcome, Error> {
        let checkpoint = self.checkpoint()?;
        let learned = (self.learner.n_updates, self.learner.agent.params());
        let mut outcome = self.books.finish(&checkpoint, learned)?;
        outcome.n_inserted = self.totals.n_inserted;
        outcome.n_sampled = self.totals.n_sampled;
        outcome.n_stale = self.totals.n_stale;
        Ok(outcome)
    }
}
