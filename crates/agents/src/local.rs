//! The loop of a run in one thread, for the algorithms that have one: metrics, checkpoints, and the way back from them.

use shardgraph_autodiff::Params;
use shardgraph_job::Checkpoint;

use crate::advance::Advance;
use crate::checkpoint::RunState;
use crate::config::AgentConfig;
use crate::error::Error;
use crate::run::{Start, TrainProgress};
use crate::run_options::RunOptions;
use crate::topology::{Books, TopologyOutcome};

/// An algorithm with all that decides how its run goes on.
pub(crate) trait Local: Sized {
    /// Before its first step.
    fn new(config: &AgentConfig, options: &RunOptions) -> Result<Self, Error>;

    /// Where a checkpoint was made.
    fn of_checkpoint(checkpoint: &Checkpoint, options: &RunOptions) -> Result<Self, Error>;

    fn to_checkpoint(&self) -> Result<Checkpoint, Error>;

    /// The smallest part of the run: some steps, and the updates that are due then.
    fn advance(&mut self) -> Result<Advance, Error>;

    /// Where it stands.
    fn run(&self) -> &RunState;

    /// What it learns.
    fn params(&self) -> &Params;
}

/// Runs to the last step.
pub(crate) fn train_locally<L: Local>(
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    let (mut run, folder) = start.open(
        |config| L::new(config, options),
        |newest| L::of_checkpoint(newest, options),
    )?;
    let mut books = Books::open(run.run().clone(), (folder, options.stop_at))?;
    while !books.is_full() {
        let done = run.advance()?;
        let is_due = books.count(
            done.n_steps,
            (&done.episodes, done.epsilon),
            done.lag,
            progress,
        )?;
        for line in &done.losses {
            books.log(line)?;
        }
        if is_due {
            books.write_checkpoint(&run.to_checkpoint()?)?;
        }
    }
    let learned = (run.run().n_updates, run.params());
    books.finish(&run.to_checkpoint()?, learned)
}
