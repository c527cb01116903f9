//! Ape-X on ranks: which rank does what, and all of them as threads of one process.

mod actor_rank;
mod learner_rank;
mod shard_rank;

use actor_rank::run_actor;
pub(super) use learner_rank::run_learner;
pub(super) use shard_rank::run_shard;

use shardgraph_collectives::messages::Mailbox;

use super::actor::Actor;
use super::config::ApexConfig;
use super::shard::Shard;
use crate::config::AgentConfig;
use crate::dqn::layout_of;
use crate::error::Error;
use crate::run::{Start, TrainProgress};
use crate::run_options::RunOptions;
use crate::topology::{LEARNER, Port, TopologyOutcome, outcome_of, ports, run_ranks};

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Learner,
    /// With its number among the shards.
    Shard(u32),
    /// With its number among the actors, and how many there are.
    Actor(u32, u32),
}

impl Role {
    /// Rank 0 learns, the next ones are shards, the rest act.
    fn of(rank: u32, n_ranks: u32, n_shards: u32) -> Role {
        match rank {
            LEARNER => Role::Learner,
            shard if shard <= n_shards => Role::Shard(shard - 1),
            actor => Role::Actor(actor - 1 - n_shards, n_ranks - 1 - n_shards),
        }
    }
}

/// All ranks as threads.
pub(crate) fn train_on_threads(
    settings: (&AgentConfig, &ApexConfig),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    let n_ranks = settings.1.n_ranks();
    let ports = ports(n_ranks, options.deadline)?;
    let learn = |port| run_learner(port, settings, start, options, progress);
    outcome_of(run_ranks(ports, learn, &|port| {
        run_other(port, settings, n_ranks, options)
    }))
}

/// This process' rank of several. Only the learner has an outcome.
pub(crate) fn train_as_process(
    mailbox: Mailbox,
    (config, apex): (&AgentConfig, &ApexConfig),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<Option<TopologyOutcome>, Error> {
    let n_ranks = mailbox.size();
    let rank = mailbox.rank();
    let port = Port::of_process(mailbox, options.deadline);
    match rank {
        LEARNER => run_learner(port, (config, apex), start, options, progress).map(Some),
        _ => run_other(&port, (config, apex), n_ranks, options).map(|()| None),
    }
}

pub(super) fn run_other(
    port: &Port,
    (config, apex): (&AgentConfig, &ApexConfig),
    n_ranks: u32,
    options: &RunOptions,
) -> Result<(), Error> {
    let environments = options.environments_of(config)?;
    match Role::of(port.rank(), n_ranks, apex.n_shards) {
        Role::Learner => Err(Error::internal("the learner's rank has another part")),
        Role::Shard(index) => run_shard(
            port,
            apex,
            Shard::new(apex, layout_of(environments.spaces())?, config.seed, index)?,
        ),
        Role::Actor(index, n_actors) => {
            let actor = Actor::new(
                apex,
                (&environments, config.environment.n_environments),
                config.seed,
                (index, n_actors),
                &options.device,
            )?;
            run_actor(port, apex, actor, options.stop_at.unwrap_or(config.steps))
        }
    }
}
