//! What can go wrong while an agent is made, acts, learns or is kept.

use std::path::{Path, PathBuf};

use shardgraph_collectives::CommError;
use shardgraph_error::Class;
use shardgraph_job::{Checkpoint, JobError};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    #[from]
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting that cannot be right.
    #[error("agent settings: `{field}`: expected {expected}, given {given}")]
    Setting {
        /// The setting, with the tables that it is in.
        field: &'static str,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// Something that does not fit a component: a space, an observation, weights.
    #[error("{component}::{method}: {what}: expected {expected}, given {given}")]
    Mismatch {
        /// The component.
        component: &'static str,
        /// Its method.
        method: &'static str,
        /// What does not fit.
        what: String,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// A file, a flag or a name that cannot be right; the payload says what and what would be.
    #[error("{0}")]
    Input(String),
    /// A file that could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Training diverged; the payload says which number is not finite any more.
    #[error(
        "{0} is not finite: training has diverged; try a smaller `learning_rate`, or a `max_gradient_norm`"
    )]
    Diverged(String),
    /// A component could not be made or did not fit.
    #[error(transparent)]
    Component(shardgraph_components::Error),
    /// An operation failed.
    #[error(transparent)]
    Model(shardgraph_autodiff::Error),
    /// A device is missing or refused.
    #[error(transparent)]
    Device(shardgraph_device::Error),
    /// A rank was lost or did not answer in time.
    #[error(transparent)]
    Comm(CommError),
    /// The environments refused a step.
    #[error(transparent)]
    Environment(shardgraph_environments::Error),
    /// The replay memory refused.
    #[error(transparent)]
    Replay(shardgraph_replay::Error),
    /// The run's folder, a checkpoint or the metrics.
    #[error(transparent)]
    Run(shardgraph_job::Error),
    /// Ranks that are lost or silent, where the run cannot go on without them; the payload says who, and what to do.
    #[error("{0}")]
    Topology(String),
    /// A state that the program never reaches when it is right; the payload says which.
    #[error("the program contradicts itself, please report this: {0}")]
    Internal(String),
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The class of the failure: the program's exit code.
    pub fn class(&self) -> Class {
        if let Some(error) = self.comm_error() {
            return error.class();
        }
        match self.device_error() {
            Some(error) => error.class(),
            None if self.is_lost_rank() => Class::LostRank,
            None if self.is_input() => Class::Input,
            None => Class::NoAnswer,
        }
    }

    /// Whether what the user gave cannot be right, or could not be read or written.
    pub fn is_input(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Setting { .. }
                | ErrorKind::Mismatch { .. }
                | ErrorKind::Input(_)
                | ErrorKind::Io { .. }
                | ErrorKind::Run(_)
        )
    }

    /// Whether the run ended because ranks are lost or silent, without which it cannot go on.
    pub fn is_lost_rank(&self) -> bool {
        matches!(self.kind, ErrorKind::Topology(_))
    }

    /// The failed collective operation, where that is the cause.
    pub fn comm_error(&self) -> Option<&CommError> {
        match &self.kind {
            ErrorKind::Comm(error) => Some(error),
            ErrorKind::Model(error) => error.comm_error(),
            _ => None,
        }
    }

    /// The device's error, where that is the cause.
    pub fn device_error(&self) -> Option<&shardgraph_device::Error> {
        match &self.kind {
            ErrorKind::Device(error) => Some(error),
            ErrorKind::Model(error) => error.device_error(),
            _ => None,
        }
    }

    pub(crate) fn input(text: impl Into<String>) -> Self {
        ErrorKind::Input(text.into()).into()
    }

    /// A message that a rank has no use for, of a peer that runs something else.
    pub(crate) fn out_of_place(to: &str, from: u32, tag: u32) -> Self {
        ErrorKind::Topology(format!(
            "rank {from} sent the {to} a message of kind {tag}, which no {to} takes: start the same program on all ranks, and let no other process reach their ports"
        ))
        .into()
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        ErrorKind::Internal(text.into()).into()
    }

    /// A checkpoint of a run in lock step that was made by ranks cannot go on in one thread.
    pub(crate) fn lock_step_on_ranks(checkpoint: &Checkpoint) -> Self {
        Error::input(format!(
            "{}: this run in lock step was on several processes, which keep what is not the learner's: resume it on as many",
            checkpoint.origin()
        ))
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| ErrorKind::Io { path, source }.into()
    }
}

/// Errors of the crates below, each as the kind of its name.
/// A method that checks what it is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) component: &'static str,
    pub(crate) method: &'static str,
}

impl Call {
    pub(crate) fn new(component: &'static str, method: &'static str) -> Call {
        Call { component, method }
    }

    #[cold]
    pub(crate) fn mismatch(
        self,
        what: impl Into<String>,
        expected: impl ToString,
        given: impl ToString,
    ) -> Error {
        ErrorKind::Mismatch {
            component: self.component,
            method: self.method,
            what: what.into(),
            expected: expected.to_string(),
            given: given.to_string(),
        }
        .into()
    }
}

macro_rules! from {
    ($($kind:ident $error:ty),* $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                ErrorKind::$kind(error).into()
            }
        }
    )*};
}
from!(
    Component shardgraph_components::Error,
    Model shardgraph_autodiff::Error,
    Device shardgraph_device::Error,
    Comm CommError,
    Environment shardgraph_environments::Error,
    Replay shardgraph_replay::Error,
);

/// That a number of an agent is not finite any more.
#[cold]
pub(crate) fn diverged(agent: &str, method: &str, what: &str) -> Error {
    ErrorKind::Diverged(format!("{agent}::{method}: {what}")).into()
}

impl From<shardgraph_job::Error> for Error {
    fn from(error: shardgraph_job::Error) -> Self {
        use shardgraph_job::Error as Job;
        match error {
            Job::Comm(error) => ErrorKind::Comm(error).into(),
            Job::Disagreement { .. } | Job::Options(_) => Error::input(error.to_string()),
            Job::DifferentParameters => Error::internal("the ranks trained different weights"),
            error => ErrorKind::Run(error).into(),
        }
    }
}

impl JobError for Error {
    fn class(&self) -> Class {
        Error::class(self)
    }

    fn comm_error(&self) -> Option<&CommError> {
        Error::comm_error(self)
    }
}
