//! What a run is made of: trainers, and how they begin.

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{Checkpoint, Ranks};

use crate::advance::Advance;
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

/// A trainer that [`crate::run::train_to_end`] takes to its last step: one rank's part of a run, with all that decides how it goes on.
pub(crate) trait RankTrainer {
    /// Whether the run that goes to this step is over.
    fn is_over(&self, until: u64) -> bool {
        self.standing().n_steps >= until
    }

    /// The smallest part of the run: some steps, and the updates that are due then. All ranks call it, and all get the same report.
    fn advance(&mut self, comm: &mut Comm, timeout: Timeout) -> Result<Advance, Error>;

    /// The checkpoint of this moment, on the first rank; all call it.
    fn to_checkpoint(&self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error>;

    /// Where the run stands.
    fn standing(&self) -> Standing<'_>;

    /// What it learns.
    fn params(&self) -> &Params;
}

/// The trainer of an algorithm whose ranks share each batch, or which has one rank.
pub(crate) trait StartTrainer: RankTrainer + Sized {
    /// Before its first step.
    fn new(config: &AgentConfig, options: &RunOptions, place: Place) -> Result<Self, Error>;

    /// Whether so many ranks can share a batch; one alone, where the algorithm does not say otherwise.
    fn check_ranks(config: &AgentConfig, n_ranks: u32) -> Result<(), Error> {
        let _ = config;
        check_alone(n_ranks)
    }

    /// Where a checkpoint was made, by whatever number of ranks.
    fn of_checkpoint(
        checkpoint: &Checkpoint,
        options: &RunOptions,
        place: Place,
    ) -> Result<Self, Error>;
}
