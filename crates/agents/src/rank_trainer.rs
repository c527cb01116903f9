//! What an algorithm is whose ranks share each batch, or which has one rank.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks};

use crate::advance::Advance;
use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::episodes::EpisodeStatistics;
use crate::error::Error;
use crate::run_options::RunOptions;

/// A rank among the ranks of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) n_ranks: u32,
}

impl Place {
    /// In a world of one rank.
    pub(crate) const ALONE: Place = Place {
        rank: 0,
        n_ranks: 1,
    };
}

/// The settings of a run, and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) config: &'a AgentConfig,
    /// Of all environments together.
    pub(crate) n_steps: u64,
    pub(crate) n_updates: u64,
    pub(crate) episodes: &'a EpisodeStatistics,
}

/// Refuses to share what is the work of one rank.
pub(crate) fn check_alone(n_ranks: u32) -> Result<(), Error> {
    match n_ranks {
        1 => Ok(()),
        _ => Err(Error::input(format!(
            "ranks: expected 1, given {n_ranks}: the settings say how many actors and shards there are"
        ))),
    }
}

/// An algorithm in one place: one rank's part of a run, with all that decides how it goes on.
pub(crate) trait RankTrainer {
    /// Before its first step.
    fn new(config: &AgentConfig, options: &RunOptions, place: Place) -> Result<Self, Error>
    where
        Self: Sized;

    /// Whether so many ranks can share a batch; one alone, where the algorithm does not say otherwise.
    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error>
    where
        Self: Sized,
    {
        let _ = config;
        check_alone(n_ranks)
    }

    /// Where a checkpoint was made, by whatever number of ranks.
    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<Self, Error>
    where
        Self: Sized;

    /// The checkpoint of this moment, on the first rank; all call it.
    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error>;

    /// The smallest part of the run: some steps, and the updates that are due then. All ranks call it, and all get the same report.
    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error>;

    /// Where the run stands.
    fn standing(&self) -> Standing<'_>;

    /// What it learns.
    fn params(&self) -> &Params;

    /// The agent alone, when the run has ended.
    fn into_agent(self: Box<Self>, options: &RunOptions) -> Result<Box<dyn Agent + Send>, Error> {
        let mut agent = self.standing().config.agent(options)?;
        agent.set_weights(self.params().trained())?;
        Ok(agent)
    }
}
