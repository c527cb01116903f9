//! IMPALA on ranks: the learner with its bounded queue, and the actors.

mod actor_rank;
mod learner_rank;

use actor_rank::run_actor;
use learner_rank::ImpalaLearning;

use super::actor::Actor;
use super::config::ImpalaConfig;
use super::tag;
use crate::error::Error;
use crate::topology::{Port, Topology, TopologyRun};

impl Topology for ImpalaConfig {
    const STOP: u32 = tag::STOP;
    const DONE: u32 = tag::DONE;
    type Learning = ImpalaLearning;

    fn n_ranks(&self) -> u32 {
        ImpalaConfig::n_ranks(self)
    }

    fn part_of(&self, _: u32) -> &'static str {
        "actor"
    }

    fn first_actor(&self) -> u32 {
        1
    }

    fn learning(run: TopologyRun<'_, ImpalaConfig>) -> Result<ImpalaLearning, Error> {
        ImpalaLearning::new(run)
    }

    fn feed(run: TopologyRun<'_, ImpalaConfig>, port: &Port) -> Result<(), Error> {
        let (config, options) = (run.config, run.options);
        let actor = Actor::new(
            run.settings,
            &options.environments_of(config)?,
            config.environment.n_environments,
            config.seed,
            port.rank() - 1,
            &options.device,
        )?;
        let budget = options.stop_at.unwrap_or(config.steps);
        run_actor(port, run.settings, actor, budget)
    }
}
