//! The work of a run that learns classes: passes over the whole graph, or batches of nodes.

use shardgraph_collectives::Comm;
use shardgraph_job::RunRecorder;

use super::batches;
use super::classes::{self, WholeJob};
use super::inputs::Inputs;
use super::memory::Here;
use super::model::Start;
use super::report::{EpochReport, Outcome};
use crate::{Error, device};

/// The part of a run that all ranks share.
pub(super) enum Job<'a> {
    Whole(Box<WholeJob<'a>>),
    Batches(Inputs<'a>),
}

impl<'a> Job<'a> {
    /// The job of settings and labels, or why they cannot be right.
    pub(super) fn new(inputs: Inputs<'a>, here: Here) -> Result<Job<'a>, Error> {
        classes::check(inputs)?;
        let options = inputs.options;
        device::check(inputs.config, options.device.kind(), options.execution)?;
        if inputs.config.batch > 0 {
            batches::check(options)?;
            return Ok(Job::Batches(inputs));
        }
        Ok(Job::Whole(Box::new(WholeJob::new(inputs, here)?)))
    }

    /// One rank's run.
    pub(super) fn run(
        &self,
        comm: &mut Comm,
        start: Start<'_>,
        recorder: Option<RunRecorder>,
        progress: &mut dyn FnMut(&EpochReport),
    ) -> Result<Outcome, Error> {
        match self {
            Job::Whole(job) => job.run(comm, start, recorder, progress),
            Job::Batches(inputs) => batches::run(*inputs, comm, start, recorder, progress),
        }
    }
}
