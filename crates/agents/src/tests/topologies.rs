//! The parts of a topology's run, for the tests of Ape-X and IMPALA.

use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainProgress};
use crate::run_options::RunOptions;
use crate::topology::{Port, Topology, TopologyOutcome, TopologyRun};

pub(crate) fn train_on_threads<S: Topology>(
    (config, settings): (&AgentConfig, &S),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    TopologyRun::new(config, settings, start, options).on_threads(progress)
}

pub(crate) fn run_learner<S: Topology>(
    port: Port,
    (config, settings): (&AgentConfig, &S),
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    TopologyRun::new(config, settings, start, options).learn(port, progress)
}

/// The part of a rank that does not learn.
pub(crate) fn feed<S: Topology>(
    port: &Port,
    (config, settings): (&AgentConfig, &S),
    options: &RunOptions,
) -> Result<(), Error> {
    let start = &Start::New {
        config: config.clone(),
        folder: None,
    };
    S::feed(TopologyRun::new(config, settings, start, options), port)
}
