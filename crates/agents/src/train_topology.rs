//! Training by the algorithms that have a topology of their own: one thread, or a learner and what feeds it.

use shardgraph_collectives::messages::Mailbox;

use crate::config::{AgentConfig, Algorithm};
use crate::error::Error;
use crate::memory::{Parts, check_room};
use crate::rank_trainer::check_alone;
use crate::run::{Start, TrainOutcome, TrainProgress, train};
use crate::run_options::RunOptions;
use crate::topology::{TopologyOutcome, TopologyRun};

/// Trains by Ape-X, IMPALA or REINFORCE. Learner, shards and actors are threads of this process; in lock step, and for REINFORCE, there is
/// one thread.
///
/// A folder gets what [`crate::train`] writes.
///
/// # Errors
/// When a setting cannot be right, the folder has another run, a file cannot be written, training diverges, or all shards or the actors are
/// lost. A single one that is lost is named in [`TopologyOutcome::lost`].
/// # Determinism
/// In lock step and for REINFORCE the same bits in every run, also in one that was stopped and resumed. Otherwise what a run learns depends
/// on how its ranks overtake each other.
///
/// ```
/// use shardgraph_agents::{AgentConfig, RunOptions, Start, train_topology};
///
/// let config = AgentConfig::from_toml("
///     steps = 3000
///     environment = { name = 'cartpole', n_environments = 4 }
///     algorithm = { name = 'apex', n_actors = 2, replay = { min_rows = 400 } }
/// ")?;
/// let outcome = train_topology(&Start::New { config, folder: None }, &RunOptions::default(), &mut |_| ())?;
/// assert!(outcome.n_steps >= 3000 && outcome.n_updates > 0 && outcome.lost.is_empty());
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
pub fn train_topology(
    start: &Start,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<TopologyOutcome, Error> {
    let config = start.config()?;
    let environments = options.environments_of(&config)?;
    config.check_on(&environments)?;
    check_room(&config, &environments, Parts::Together)?;
    check_alone(options.n_ranks)?;
    match &config.algorithm {
        Algorithm::Apex(settings) if !settings.lock_step => {
            TopologyRun::new(&config, settings, start, options).on_threads(progress)
        }
        Algorithm::Impala(settings) if !settings.lock_step => {
            TopologyRun::new(&config, settings, start, options).on_threads(progress)
        }
        Algorithm::Apex(_) | Algorithm::Impala(_) | Algorithm::Reinforce(_) => {
            Ok(train(start, options, progress)?.into())
        }
        other => Err(other.is_not("apex, impala or reinforce (`train` runs dqn, ppo and sac)")),
    }
}

impl From<TrainOutcome> for TopologyOutcome {
    fn from(of: TrainOutcome) -> TopologyOutcome {
        TopologyOutcome {
            config: of.config,
            n_steps: of.n_steps,
            n_episodes: of.n_episodes,
            n_updates: of.n_updates,
            mean_return: of.mean_return,
            weights: of.agent.weights().to_vec(),
            lag: of.lag,
            lost: Vec::new(),
            n_inserted: 0,
            n_sampled: 0,
            n_stale: 0,
        }
    }
}

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

/// As [`train_topology`], as one of several processes, whose mailbox is `mailbox`: rank 0 learns and has the outcome; with Ape-X ranks 1 to
/// `n_shards` are shards; the rest act. Processes may come and go, but for the learner: when it ends before its time, all others do, and
/// the run goes on from its checkpoint when all are started again.
///
/// # Errors
/// As [`train_topology`]; on every rank but the first when the learner is lost.
pub fn train_topology_as_process(
    mailbox: Mailbox,
    start: &Start,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&TrainProgress) + Send),
) -> Result<Option<TopologyOutcome>, Error> {
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
