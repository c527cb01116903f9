//! Ape-X on ranks: which rank does what, and all of them as threads of one process.

mod actor_rank;
mod learner_rank;
mod shard_rank;

use std::collections::BTreeSet;

use actor_rank::run_actor;
use learner_rank::LearnerRank;
pub(super) use shard_rank::run_shard;

use super::actor::Actor;
use super::config::ApexConfig;
use super::message::tag;
use super::shard::Shard;
use crate::dqn::layout_of;
use crate::error::Error;
use crate::run::TrainProgress;
use crate::topology::{LEARNER, Port, Topology, TopologyOutcome, TopologyRun};

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

impl Topology for ApexConfig {
    const STOP: u32 = tag::STOP;
    const DONE: u32 = tag::DONE;

    fn n_ranks(&self) -> u32 {
        ApexConfig::n_ranks(self)
    }

    fn part_of(&self, rank: u32) -> &'static str {
        match rank <= self.n_shards {
            true => "shard",
            false => "actor",
        }
    }

    fn learn(
        run: TopologyRun<'_, ApexConfig>,
        port: &Port,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TopologyOutcome, BTreeSet<u32>), Error> {
        LearnerRank::new(run, port)?.run(progress)
    }

    fn feed(run: TopologyRun<'_, ApexConfig>, port: &Port) -> Result<(), Error> {
        let TopologyRun {
            config,
            settings: apex,
            options,
            ..
        } = run;
        let environments = options.environments_of(config)?;
        match Role::of(port.rank(), port.size(), apex.n_shards) {
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
}
