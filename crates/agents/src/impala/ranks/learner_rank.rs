//! The rank that learns: a queue of unrolls, an update whenever it holds a batch, and new weights with each acknowledgement.

use std::collections::{BTreeMap, VecDeque};

use shardgraph_autodiff::Params;
use shardgraph_collectives::messages::Event;
use shardgraph_job::Checkpoint;

use crate::advance::Advance;
use crate::checkpoint::RunState;
use crate::error::Error;
use crate::impala::checkpoint::checkpoint_of;
use crate::impala::config::ImpalaConfig;
use crate::impala::learner::Learner;
use crate::impala::tag;
use crate::impala::trajectory::Unroll;
use crate::topology::wire::from_bytes;
use crate::topology::{Acted, Hub, LearnerState, Learning, Message, TopologyRun};

/// An unroll in the queue.
struct Queued {
    actor: u32,
    unroll: Unroll,
    /// Whether its actor still waits for the learner's word.
    waits: bool,
}

/// IMPALA's part of the rank that learns.
pub(crate) struct ImpalaLearning {
    learner: Learner,
    batch_unrolls: usize,
    log_updates: u64,
    queue: VecDeque<Queued>,
    /// The version of the weights that each actor was sent last.
    sent: BTreeMap<u32, u64>,
}

impl Learning for ImpalaLearning {
    fn restore(&mut self, state: LearnerState) -> Result<(), Error> {
        self.learner.restore_all(state)
    }

    fn next(&mut self, hub: &mut Hub<'_>, _: &mut Advance) -> Result<Option<Event>, Error> {
        hub.port.recv("trajectories of actors").map(Some)
    }

    fn join(&mut self, rank: u32, hub: &mut Hub<'_>) -> Result<(), Error> {
        hub.actors.join(rank);
        self.sent.remove(&rank);
        hub.greet(rank)
    }

    fn lose(&mut self, rank: u32, why: &str, hub: &mut Hub<'_>) -> Result<(), Error> {
        hub.actors.lose(rank, why, &mut hub.run);
        // What it has made is as good as before; nobody waits for a word on it.
        let of_rank = self.queue.iter_mut().filter(|queued| queued.actor == rank);
        of_rank.for_each(|queued| queued.waits = false);
        hub.actors.check(hub.port, hub.run.lost())
    }

    fn read(
        &mut self,
        message: Message<'_>,
        hub: &mut Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error> {
        let Message { from, tag, bytes } = message;
        match tag {
            tag::UNROLL => self.queue_up(from, from_bytes("an unroll", bytes)?, hub, advance),
            tag::HELLO => self.acknowledge(from, None, hub),
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
        &self.learner.params
    }
}

impl ImpalaLearning {
    /// At the start of a run.
    pub(super) fn new(run: TopologyRun<'_, ImpalaConfig>) -> Result<ImpalaLearning, Error> {
        let (impala, options, config) = (run.settings, run.options, run.config);
        let environments = options.environments_of(config)?;
        Ok(ImpalaLearning {
            learner: Learner::new(impala, &environments, config.seed, &options.device)?,
            batch_unrolls: impala.batch_unrolls(config.environment.n_environments),
            log_updates: impala.log_updates,
            queue: VecDeque::new(),
            sent: BTreeMap::new(),
        })
    }

    /// Takes an unroll in. While the queue is short of a batch, its actor may go on at once; otherwise only after an update has made room.
    fn queue_up(
        &mut self,
        actor: u32,
        unroll: Unroll,
        hub: &mut Hub<'_>,
        advance: &mut Advance,
    ) -> Result<(), Error> {
        let acted = Acted {
            n_steps: unroll.rewards.len() as u64, // an action may have several parts
            episodes: &unroll.episodes,
            epsilon: None,
            lag: self.learner.n_updates.saturating_sub(unroll.version),
        };
        hub.run.count(&acted, advance);
        let is_short = self.queue.len() + 1 < self.batch_unrolls;
        if is_short {
            self.acknowledge(actor, Some(unroll.version), hub)?;
        }
        self.queue.push_back(Queued {
            actor,
            unroll,
            waits: !is_short,
        });
        match self.queue.len() >= self.batch_unrolls {
            true => self.learn(hub, advance),
            false => Ok(()),
        }
    }

    fn learn(&mut self, hub: &mut Hub<'_>, advance: &mut Advance) -> Result<(), Error> {
        let taken: Vec<Queued> = self.queue.drain(..self.batch_unrolls).collect();
        let waiting: Vec<(u32, u64)> = taken
            .iter()
            .filter(|queued| queued.waits)
            .map(|queued| (queued.actor, queued.unroll.version))
            .collect();
        let unrolls: Vec<Unroll> = taken.into_iter().map(|queued| queued.unroll).collect();
        let losses = self.learner.update(&unrolls)?;
        for (actor, version) in waiting {
            self.acknowledge(actor, Some(version), hub)?;
        }
        if self.learner.n_updates.is_multiple_of(self.log_updates) {
            hub.run.log(losses.scalars(), advance);
        }
        Ok(())
    }

    /// Sends the present weights, where the actor has others and none are on their way to it: it has room for one list of them and for many
    /// words without, so that this never waits. `known` is what it last said that it had.
    fn acknowledge(
        &mut self,
        actor: u32,
        known: Option<u64>,
        hub: &mut Hub<'_>,
    ) -> Result<(), Error> {
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
        let message = hub.weights.message(present, weights, known);
        hub.port.send(actor, tag::TAKEN, message)?;
        Ok(())
    }
}
