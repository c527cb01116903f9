//! IMPALA on ranks: the learner with its bounded queue, and the actors.

mod actor_rank;
mod learner_rank;

use std::collections::BTreeSet;

use actor_rank::run_actor;
use learner_rank::LearnerRank;

use super::actor::Actor;
use super::config::ImpalaConfig;
use super::tag;
use crate::error::Error;
use crate::run::TrainProgress;
use crate::topology::{Port, Topology, TopologyOutcome, TopologyRun};

impl Topology for ImpalaConfig {
    const STOP: u32 = tag::STOP;
    const DONE: u32 = tag::DONE;

    fn n_ranks(&self) -> u32 {
        ImpalaConfig::n_ranks(self)
    }

    fn part_of(&self, _: u32) -> &'static str {
        "actor"
    }

    fn learn(
        run: TopologyRun<'_, ImpalaConfig>,
        port: &Port,
        progress: &mut dyn FnMut(&TrainProgress),
    ) -> Result<(TopologyOutcome, BTreeSet<u32>), Error> {
        LearnerRank::new(run, port)?.run(progress)
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
