//! The loop of a run in one thread, for the algorithms that have one: metrics, checkpoints, and the way back from them.

use std::path::Path;

use shardgraph_device::Device;
use shardgraph_runs::{Checkpoint, Folder};

use crate::config::AgentConfig;
use crate::dqn::FILES;
use crate::episodes::{Episode, EpisodeStatistics};
use crate::error::Error;
use crate::run::{RunOptions, Start, TrainProgress};
use crate::topology::{Books, TopologyOutcome};

/// An algorithm with all that decides how its run goes on.
pub(crate) trait Local: Sized {
    /// Before its first step.
    fn new(config: &AgentConfig, device: &Device) -> Result<Self, Error>;

    /// Where a checkpoint was made.
    fn of_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<Self, Error>;

    fn to_checkpoint(&self) -> Result<Checkpoint, Error>;

    /// The smallest part of the run: some steps, and the updates that are due then.
    fn advance(&mut self) -> Result<Advance, Error>;

    fn config(&self) -> &AgentConfig;
    fn n_steps(&self) -> u64;
    fn n_updates(&self) -> u64;
    fn episodes(&self) -> &EpisodeStatistics;
    fn weights(&self) -> &[f32];
    fn export(&self, path: &Path) -> Result<(), Error>;
}

/// What [`Local::advance`] did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Advance {
    pub(crate) n_steps: u64,
    /// How many updates old the weights were that acted.
    pub(crate) lag: u64,
    pub(crate) episodes: Vec<Episode>,
    /// Losses, where there is a line of them.
    pub(crate) scalars: Vec<(&'static str, f32)>,
}

/// Runs to the last step.
pub(crate) fn train_locally<L: Local>(
    start: &Start,
    options: &RunOptions,
    progress: &mut dyn FnMut(&TrainProgress),
) -> Result<TopologyOutcome, Error> {
    let (mut run, folder) = begin::<L>(start, options)?;
    let counters = (run.n_steps(), run.n_updates());
    let with = (folder, options.stop_at);
    let mut books = Books::open(run.config().clone(), counters, run.episodes().clone(), with)?;
    while !books.is_full() {
        let done = run.advance()?;
        let is_due = books.count(done.n_steps, &done.episodes, done.lag, progress)?;
        if !done.scalars.is_empty() {
            books.log(&done.scalars)?;
        }
        if is_due {
            books.write_checkpoint(&run.to_checkpoint()?)?;
        }
    }
    let learned = (run.n_updates(), run.weights());
    books.finish(&run.to_checkpoint()?, learned, |path| run.export(path))
}

fn begin<L: Local>(start: &Start, options: &RunOptions) -> Result<(L, Option<Folder>), Error> {
    match start {
        Start::New { config, folder } => {
            let run = L::new(config, &options.device)?;
            let folder = folder
                .as_deref()
                .map(|path| Folder::of_new_run(path, FILES));
            Ok((run, folder.transpose()?))
        }
        Start::Resumed { folder } => {
            let (folder, checkpoint) = Folder::of_old_run(folder, FILES)?;
            Ok((
                L::of_checkpoint(&checkpoint, &options.device)?,
                Some(folder),
            ))
        }
    }
}
