//! Training on processes that come and go: a learner and what feeds it.

use shardgraph_collectives::messages::Mailbox;

use crate::config::{AgentConfig, Algorithm};
use crate::error::Error;
use crate::memory::{Parts, check_room};
use crate::run::{Start, TrainOutcome, TrainProgress};
use crate::run_options::RunOptions;
use crate::topology::TopologyRun;

/// Whether so many processes can train by these settings: what each of them can know before they meet.
///
/// # Errors
/// When a setting cannot be right, the algorithm is of one process, there are too few of them, or others than lock step wants.
///
/// ```
/// use shardgraph_agents::{AgentConfig, RunOptions, check_processes};
/// let config = AgentConfig::named("cartpole-apex").unwrap();
/// let options = RunOptions::default();
/// assert!(check_processes(&config, &options, 3).is_ok()); // the learner, a shard and an actor
/// assert!(check_processes(&config, &options, 2).is_err());
/// ```
pub fn check_processes(
    config: &AgentConfig,
    options: &RunOptions,
    n_processes: u32,
) -> Result<(), Error> {
    config.check_on(&options.environments_of(config)?)?;
    let (parts, least, lock_step) = match &config.algorithm {
        Algorithm::Apex(apex) => {
            let parts = format!("the learner, {} shards and an actor", apex.n_shards);
            (parts, apex.n_shards + 2, apex.lock_step)
        }
        Algorithm::Impala(impala) => ("the learner and an actor".to_owned(), 2, impala.lock_step),
        other => return Err(other.is_not("apex or impala, to train on several processes")),
    };
    if n_processes < least || (lock_step && n_processes > least) {
        let bound = if lock_step { "exactly" } else { "at least" };
        return Err(Error::input(format!(
            "{}: expected {bound} {least} processes, {parts}, given {n_processes}",
            config.algorithm.name()
        )));
    }
    Ok(())
}

/// Trains by Ape-X or IMPALA as one of several processes, whose mailbox is `mailbox`: rank 0 learns and has the outcome; with Ape-X ranks 1 to
/// `n_shards` are shards; the rest act. Processes may come and go, but for the learner: when it ends before its time, all others do, and
/// the run goes on from its checkpoint when all are started again.
///
/// # Errors
/// As [`crate::train`]; on every rank but the first when the learner is lost.
pub fn train_by_messages(
    mailbox: Mailbox,
    start: &Start,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<Option<TrainOutcome>, Error> {
    let config = start.config()?;
    check_processes(&config, options, mailbox.size())?;
    check_room(&config, &options.environments_of(&config)?, Parts::Apart)?;
    match &config.algorithm {
        Algorithm::Apex(settings) => {
            TopologyRun::new(&config, settings, start, options).as_process(mailbox, progress)
        }
        Algorithm::Impala(settings) => {
            TopologyRun::new(&config, settings, start, options).as_process(mailbox, progress)
        }
        other => Err(other.is_not("apex or impala")),
    }
}
