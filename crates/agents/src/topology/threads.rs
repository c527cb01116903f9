//! All ranks of a topology as threads of one process.

use shardgraph_collectives::Deadline;
use shardgraph_collectives::messages::{Limits, Office};

use super::{Port, TopologyOutcome};
use crate::error::{Error, ErrorKind};

/// The ports of all ranks, the learner's first. All have joined before one can be lost.
pub(crate) fn ports(n_ranks: u32, deadline: Deadline) -> Result<Vec<Port>, Error> {
    let office = Office::new(n_ranks, Limits::default());
    let port = |rank| Ok(Port::new(office.join(rank)?, deadline));
    (0..n_ranks).map(port).collect()
}

/// Runs the learner on this thread and each other rank on its own, and gives how all ended.
pub(crate) fn run_ranks(
    mut ports: Vec<Port>,
    learn: impl FnOnce(Port) -> Result<TopologyOutcome, Error>,
    other: &(dyn Fn(&Port) -> Result<(), Error> + Sync),
) -> (Result<TopologyOutcome, Error>, Vec<Result<(), Error>>) {
    let others = ports.split_off(1);
    std::thread::scope(|scope| {
        let spawn = |port: Port| scope.spawn(move || other(&port));
        let others: Vec<_> = others.into_iter().map(spawn).collect();
        let learner = ports
            .pop()
            .ok_or_else(|| Error::internal("a run without a learner"));
        let outcome = learner.and_then(learn);
        let panicked = |_| Err(Error::internal("a rank panicked"));
        let ended = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(panicked));
        (outcome, ended.collect())
    })
}

/// The learner's outcome. Where the run has failed, what ended another rank explains more than that a rank is lost.
pub(crate) fn outcome_of(
    (outcome, others): (Result<TopologyOutcome, Error>, Vec<Result<(), Error>>),
) -> Result<TopologyOutcome, Error> {
    let is_cause = |error: &Error| !matches!(error.kind(), ErrorKind::Topology(_));
    let failed = outcome.as_ref().is_err_and(|error| !is_cause(error));
    let mut causes = others.into_iter().filter_map(Result::err).filter(is_cause);
    match causes.next() {
        Some(cause) if failed => Err(cause),
        _ => outcome,
    }
}
