//! All ranks of a topology as threads of one process.

use std::thread::Builder;

use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Limits, Router};

use super::port::Port;
use crate::error::Error;
use crate::run::TrainOutcome;

/// The ports of all ranks, the learner's first. All have joined before one can be lost.
pub(crate) fn ports(n_ranks: u32, deadline: Timeout) -> Result<Vec<Port>, Error> {
    let router = Router::new(n_ranks, Limits::default());
    let port = |rank| Ok(Port::new(router.join(rank)?, deadline));
    (0..n_ranks).map(port).collect()
}

/// Runs the learner on this thread and each other rank on its own, and gives how all ended.
pub(crate) fn run_ranks(
    mut ports: Vec<Port>,
    learn: impl FnOnce(Port) -> Result<TrainOutcome, Error>,
    other: &(dyn Fn(&Port) -> Result<(), Error> + Sync),
) -> Ended {
    let others = ports.split_off(1);
    std::thread::scope(|scope| {
        let spawn = |port: Port| {
            let builder = Builder::new().name(format!("rank {}", port.rank()));
            builder.spawn_scoped(scope, move || other(&port))
        };
        let refused = |error| Error::internal(format!("the system gives no more threads: {error}"));
        // Where one cannot be, the learner leaves, and with it those that are there already.
        let others: Result<Vec<_>, _> = others.into_iter().map(spawn).collect();
        let others = match others.map_err(refused) {
            Ok(others) => others,
            Err(error) => {
                ports.clear();
                return Ended {
                    learner: Err(error),
                    others: Vec::new(),
                };
            }
        };
        let learner = ports
            .pop()
            .ok_or_else(|| Error::internal("a run without a learner"));
        let learner = learner.and_then(learn);
        let panicked = |_| Err(Error::internal("a rank panicked"));
        let ended = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(panicked));
        Ended {
            learner,
            others: ended.collect(),
        }
    })
}

/// Ends of the ranks of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) learner: Result<TrainOutcome, Error>,
    /// Those of the ranks from 1 on.
    pub(crate) others: Vec<Result<(), Error>>,
}

impl Ended {
    /// The learner's outcome, in which each rank that was lost has its reason. Where the run has failed, what ended another rank explains
    /// more than that a rank is lost.
    pub(crate) fn outcome(self) -> Result<TrainOutcome, Error> {
        let is_cause = |error: &Error| !error.is_lost_rank();
        let causes = (1u32..).zip(self.others);
        let mut causes = causes.filter_map(|(rank, ended)| ended.err().map(|error| (rank, error)));
        match self.learner {
            Err(error) if is_cause(&error) => Err(error),
            Err(error) => {
                let cause = causes.find(|(_, cause)| is_cause(cause));
                Err(cause.map_or(error, |(_, cause)| cause))
            }
            Ok(mut outcome) => {
                for (rank, cause) in causes {
                    let is_of_rank = |lost: &&mut String| is_of(rank, lost);
                    if let Some(lost) = outcome.lost.iter_mut().find(is_of_rank) {
                        lost.push_str(&format!(": {cause}"));
                    }
                }
                Ok(outcome)
            }
        }
    }
}

/// Whether this tells of the loss of a rank, as `actor 3: it left`.
fn is_of(rank: u32, lost: &str) -> bool {
    let name = lost.split(':').next().unwrap_or_default();
    name.ends_with(&format!(" {rank}"))
}
