//! The work of a run that learns classes: passes over the whole graph, or batches of nodes.

use std::borrow::Borrow;

use shardgraph_collectives::Comm;

use super::batches::BatchJob;
use super::classes::{self, WholeJob};
use super::memory::Here;
use super::model::Start;
use super::run::RunFolder;
use super::state::State;
use super::{EpochReport, Outcome, RunOptions};
use crate::{Config, Error, Labels, RelationalGraph, device};

/// The part of a run that all ranks share.
pub(super) enum Job<'a> {
    Whole(Box<WholeJob<'a>>),
    Batches(BatchJob<'a>),
}

impl<'a> Job<'a> {
    /// The job of settings and labels, or why they cannot be right.
    pub(super) fn new(
        graph: &'a RelationalGraph,
        labels: &'a Labels,
        config: &'a Config,
        options: &'a RunOptions,
        here: Here,
    ) -> Result<Job<'a>, Error> {
        classes::check(graph, labels, config)?;
        device::check(config, options)?;
        if config.batch > 0 {
            let job = BatchJob::new(graph, labels, config, options)?;
            return Ok(Job::Batches(job));
        }
        let job = WholeJob::new(graph, labels, config, options, here)?;
        Ok(Job::Whole(Box::new(job)))
    }

    /// One rank's run.
    pub(super) fn run(
        &self,
        comm: &mut Comm,
        start: Start<impl Borrow<State>>,
        folder: Option<&mut RunFolder>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Outcome, Error> {
        match self {
            Job::Whole(job) => job.run(comm, start, folder, progress),
            Job::Batches(job) => job.run(comm, start, folder, progress),
        }
    }
}
