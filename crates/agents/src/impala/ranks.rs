//! IMPALA on ranks: the learner with its bounded queue, the actors, and all of them as threads of one process.

mod actor_rank;
mod learner_rank;

use actor_rank::run_actor;
pub(super) use learner_rank::run_learner;

use shardgraph_collectives::messages::Mailbox;

use super::actor::Actor;
use super::config::ImpalaConfig;
use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainProgress};
use crate::run_options::RunOptions;
use crate::topology::{LEARNER, Port, TopologyOutcome, outcome_of, ports, run_ranks};

/// All ranks as threads.
pub(crate) fn train_on_threads(
    settings: (&AgentConfig, &ImpalaConfig),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    let ports = ports(settings.1.n_ranks(), options.deadline)?;
    let learn = |port| run_learner(port, settings, start, options, progress);
    outcome_of(run_ranks(ports, learn, &|port| {
        act(port, settings, options)
    }))
}

/// This process' rank of several. Only the learner has an outcome.
pub(crate) fn train_as_process(
    mailbox: Mailbox,
    (config, impala): (&AgentConfig, &ImpalaConfig),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<Option<TopologyOutcome>, Error> {
    let rank = mailbox.rank();
    let port = Port::of_process(mailbox, options.deadline);
    match rank {
        LEARNER => run_learner(port, (config, impala), start, options, progress).map(Some),
        _ => act(&port, (config, impala), options).map(|()| None),
    }
}

pub(super) fn act(
    port: &Port,
    (config, impala): (&AgentConfig, &ImpalaConfig),
    options: &RunOptions,
) -> Result<(), Error> {
    let environments = options.environments_of(config)?;
    let actor = Actor::new(
        impala,
        &environments,
        config.environment.n_environments,
        config.seed,
        port.rank() - 1,
        &options.device,
    )?;
    run_actor(port, impala, actor, options.stop_at.unwrap_or(config.steps))
}
