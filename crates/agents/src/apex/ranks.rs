//! Ape-X on ranks: which rank does what, and all of them as threads of one process.

mod actor_rank;
mod learner_rank;
mod shard_rank;

use actor_rank::run_actor;
use learner_rank::ApexLearning;
pub(super) use shard_rank::run_shard;

use super::actor::{Actor, ActorNumber};
use super::config::ApexConfig;
use super::message::tag;
use super::shard::Shard;
use crate::dqn::layout_of;
use crate::error::Error;
use crate::topology::{LEARNER, Port, Topology, TopologyRun};

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Learner,
    /// With its number among the shards.
    Shard(u32),
    /// With its number among the actors.
    Actor(ActorNumber),
}

impl Role {
    /// Rank 0 learns, the next ones are shards, the rest act.
    fn of(rank: u32, n_ranks: u32, n_shards: u32) -> Role {
        match rank {
            LEARNER => Role::Learner,
            shard if shard <= n_shards => Role::Shard(shard - 1),
            actor => Role::Actor(ActorNumber {
                index: actor - 1 - n_shards,
                n_actors: n_ranks - 1 - n_shards,
            }),
        }
    }
}

impl Topology for ApexConfig {
    const STOP: u32 = tag::STOP;
    const DONE: u32 = tag::DONE;
    type Learning = ApexLearning;

    fn n_ranks(&self) -> u32 {
        ApexConfig::n_ranks(self)
    }

    fn part_of(&self, rank: u32) -> &'static str {
        match rank <= self.n_shards {
            true => "shard",
            false => "actor",
        }
    }

    fn first_actor(&self) -> u32 {
        1 + self.n_shards
    }

    fn least_epsilon(&self, n_ranks: u32) -> Result<Option<f32>, Error> {
        let n_actors = n_ranks - self.first_actor();
        let last = ActorNumber {
            index: n_actors - 1,
            n_actors,
        };
        last.exploration(self).map(Some)
    }

    fn learning(run: TopologyRun<'_, ApexConfig>) -> Result<ApexLearning, Error> {
        ApexLearning::new(run)
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
            Role::Actor(number) => {
                let actor = Actor::new(
                    apex,
                    &environments,
                    config.environment.n_environments,
                    config.seed,
                    number,
                    &options.device,
                )?;
                run_actor(port, apex, actor, options.stop_at.unwrap_or(config.steps))
            }
        }
    }
}
