//! The rank that learns: it asks the shards for batches ahead of its updates, and answers actors between two of them.

use std::collections::{BTreeMap, VecDeque};

use shardgraph_autodiff::Params;
use shardgraph_collectives::messages::Event;
use shardgraph_job::Checkpoint;

use crate::advance::Advance;
use crate::agent::Agent;
use crate::apex::checkpoint::checkpoint_of;
use crate::apex::config::ApexConfig;
use crate::apex::learner::Learner;
use crate::apex::message::{Batch, Progress, tag};
use crate::checkpoint::RunState;
use crate::error::{Error, ErrorKind};
use crate::run::ReplayTotals;
use crate::topology::wire::{from_bytes, to_bytes};
use crate::topology::{Acted, Hub, LearnerState, Learning, Message, TopologyRun};

/// Ape-X's part of the rank that learns: until the actors have made their steps and the shards have nothing left to draw.
pub(crate) struct ApexLearning {
    apex: ApexConfig,
    learner: Learner,
    /// The shards that are there, and whether each has given its last batch.
    shards: BTreeMap<u32, bool>,
    /// Batches that have come, with their shards.
    ready: VecDeque<(u32, Batch)>,
    is_stopping: bool,
    totals: ReplayTotals,
}

impl Learning for ApexLearning {
    fn restore(&mut self, state: LearnerState) -> Result<(), Error> {
        self.learner.restore_all(state)
    }

    /// Events that have come go before updates.
    fn next(&mut self, hub: &mut Hub<'_>, advance: &mut Advance) -> Result<Option<Event>, Error> {
        if let Some(event) = hub.port.poll() {
            return Ok(Some(event));
        }
        if self.shards.is_empty() {
            self.check_shards(hub)?;
        }
        match self.ready.pop_front() {
            Some((shard, batch)) => {
                self.learn(shard, &batch, hub, advance)?;
                Ok(None)
            }
            // Where nothing is left of the deadline, the next check ends the run.
            None if self.shards.is_empty() => Ok(hub.port.recv_within(hub.port.left())),
            None => hub.port.recv("batches and actors").map(Some),
        }
    }

    /// True in a finished run that is resumed, too, where nothing has begun.
    fn is_drained(&self) -> bool {
        let has_all = !self.shards.is_empty() && self.shards.values().all(|is_done| *is_done);
        !self.is_stopping || (has_all && self.ready.is_empty())
    }

    fn join(&mut self, rank: u32, hub: &mut Hub<'_>) -> Result<(), Error> {
        if self.is_shard(rank) {
            // One that is behind its last batch needs no other in its place.
            return match self.shards.contains_key(&rank) {
                true => Ok(()),
                false => self.begin_shard(rank, hub),
            };
        }
        hub.actors.join(rank);
        hub.greet(rank)?;
        if self.is_stopping {
            hub.port.send(rank, tag::STOP, &[])?;
        }
        Ok(())
    }

    fn lose(&mut self, rank: u32, why: &str, hub: &mut Hub<'_>) -> Result<(), Error> {
        if self.shards.get(&rank) == Some(&true) {
            return Ok(()); // behind its last batch it is not missed
        }
        if self.is_shard(rank) {
            self.shards.remove(&rank);
            self.ready.retain(|(shard, _)| *shard != rank);
            hub.run.lose(format!("shard {rank}: {why}"));
            return Ok(());
        }
        hub.actors.lose(rank, why, &mut hub.run);
        match self.is_stopping {
            true => Ok(()),
            false => hub.actors.check(hub.port, hub.run.lost()),
        }
    }

    fn decline(&mut self, rank: u32, why: &str, hub: &mut Hub<'_>) -> Result<(), Error> {
        if self.is_shard(rank) {
            hub.run.lose(format!("shard {rank}: {why}"));
            return Ok(());
        }
        hub.actors.decline(rank, why, hub.port, &mut hub.run)
    }

    fn read(
        &mut self,
        message: Message<'_>,
        hub: &mut Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error> {
        let Message { from, tag, bytes } = message;
        match tag {
            tag::BATCH => {
                let batch = Batch::from_bytes(self.learner.agent.layout(), bytes)?;
                self.ready.push_back((from, batch));
                Ok(())
            }
            tag::PROGRESS => self.count(&from_bytes("an actor's progress", bytes)?, hub, advance),
            tag::WEIGHTS_WANTED => self.send_weights(from, from_bytes("a version", bytes)?, hub),
            tag::DONE if self.is_shard(from) => self.end_shard(from, bytes),
            tag::DONE => hub.actors.end(from, &mut hub.run),
            _ => Err(Error::out_of_place("learner", from, tag)),
        }
    }

    fn checkpoint(&self, run: &RunState) -> Result<Checkpoint, Error> {
        checkpoint_of(run, &self.learner, None)
    }

    fn n_updates(&self) -> u64 {
        self.learner.n_updates
    }

    fn params(&self) -> &Params {
        self.learner.agent.params()
    }

    fn replayed(&self) -> ReplayTotals {
        self.totals
    }

    fn others_there(&self) -> Vec<u32> {
        self.shards.keys().copied().collect()
    }
}

impl ApexLearning {
    /// At the start of a run.
    pub(super) fn new(run: TopologyRun<'_, ApexConfig>) -> Result<ApexLearning, Error> {
        let (apex, options) = (run.settings, run.options);
        let environments = options.environments_of(run.config)?;
        Ok(ApexLearning {
            learner: Learner::new(apex, &environments, run.config.seed, &options.device)?,
            apex: apex.clone(),
            shards: BTreeMap::new(),
            ready: VecDeque::new(),
            is_stopping: false,
            totals: ReplayTotals::default(),
        })
    }

    fn is_shard(&self, rank: u32) -> bool {
        (1..=self.apex.n_shards).contains(&rank)
    }

    /// Asks for as many batches as may be outstanding.
    fn begin_shard(&mut self, shard: u32, hub: &mut Hub<'_>) -> Result<(), Error> {
        self.shards.insert(shard, false);
        hub.greet(shard)?;
        if self.is_stopping {
            hub.port.send(shard, tag::DONE, &[])?;
        }
        let n_batches = match self.apex.lock_step {
            true => 1,
            false => self.apex.prefetch_batches,
        };
        for _ in 0..n_batches {
            hub.port.send(shard, tag::BATCH_WANTED, &[])?;
        }
        Ok(())
    }

    /// Refuses to go on where no shard is there and none is still to come.
    fn check_shards(&self, hub: &Hub<'_>) -> Result<(), Error> {
        let missing = hub.port.missing();
        let may_come = missing.iter().any(|rank| self.is_shard(*rank));
        if may_come && !hub.port.left().is_zero() {
            return Ok(());
        }
        let why = match hub.run.lost() {
            [] => "none came in time".to_owned(),
            lost => lost.join("; "),
        };
        Err(ErrorKind::Topology(format!(
            "all shards of the replay memory are lost: {why}: resume the run from its newest checkpoint"
        ))
        .into())
    }

    fn learn(
        &mut self,
        shard: u32,
        batch: &Batch,
        hub: &Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error> {
        let update = self.learner.update(&batch.rows, &batch.weights)?;
        let priorities = to_bytes(&(&batch.ids, self.learner.agent.td_errors()));
        // A shard that is lost meanwhile needs neither.
        if hub.port.send(shard, tag::PRIORITIES, &priorities)? {
            hub.port.send(shard, tag::BATCH_WANTED, &[])?;
        }
        if self.learner.n_updates.is_multiple_of(self.apex.log_updates) {
            let scalars = self.learner.scalars(update, hub.run.state.n_steps);
            hub.run.log(scalars, advance);
        }
        Ok(())
    }

    fn count(
        &mut self,
        done: &Progress,
        hub: &mut Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error> {
        let acted = Acted {
            n_steps: done.n_steps,
            episodes: &done.episodes,
            epsilon: Some(done.epsilon),
            lag: self.learner.n_updates.saturating_sub(done.version),
        };
        hub.run.count(&acted, advance);
        match hub.run.is_full() && !self.is_stopping {
            true => self.stop(hub),
            false => Ok(()),
        }
    }

    /// There are steps enough: actors end, and shards once nothing is left to draw.
    fn stop(&mut self, hub: &Hub<'_>) -> Result<(), Error> {
        self.is_stopping = true;
        hub.actors.tell(hub.port, tag::STOP)?;
        for &shard in self.shards.keys() {
            hub.port.send(shard, tag::DONE, &[])?;
        }
        Ok(())
    }

    /// Never waits: an actor that has no room for weights asks again.
    fn send_weights(&mut self, actor: u32, known: u64, hub: &mut Hub<'_>) -> Result<(), Error> {
        let (present, weights) = (self.learner.n_updates, self.learner.agent.weights());
        let message = hub.weights.message(present, weights, Some(known));
        hub.port.try_send(actor, tag::WEIGHTS, message)?;
        Ok(())
    }

    fn end_shard(&mut self, shard: u32, bytes: &[u8]) -> Result<(), Error> {
        self.totals += from_bytes("a shard's totals", bytes)?;
        self.shards.insert(shard, true);
        Ok(())
    }
}
