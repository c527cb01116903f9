//! What can go wrong while an agent is made, acts, learns or is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use shardgraph_collectives::CommError;
use shardgraph_error::Class;
use shardgraph_job::{Checkpoint, JobError};

/// An error of this crate.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting that cannot be right.
    Setting {
        /// The setting, with the tables that it is in.
        field: &'static str,
        /// What would be right.
        expected: String,
        /// What there was.
        given: String,
    },
    /// Something that does not fit a component: a space, an observation, weights.
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
    Input(String),
    /// A file that could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Training diverged; the payload says where it shows and what to try.
    Diverged(String),
    /// A component could not be made or did not fit.
    Component(shardgraph_components::Error),
    /// An operation failed.
    Model(shardgraph_autodiff::Error),
    /// A device is missing or refused.
    Device(shardgraph_device::Error),
    /// A rank was lost or did not answer in time.
    Comm(CommError),
    /// The environments refused a step.
    Environment(shardgraph_environments::Error),
    /// The replay memory refused.
    Replay(shardgraph_replay::Error),
    /// The run's folder, a checkpoint or the metrics.
    Run(shardgraph_job::Error),
    /// Ranks that are lost or silent, where the run cannot go on without them; the payload says who, and what to do.
    Topology(String),
    /// A state that the program never reaches when it is right; the payload says which.
    Internal(String),
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
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

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

/// Errors of the crates below, each as the kind of its name.
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
        use shardgraph_device::ErrorKind as Device;
        if self.comm_error().is_some() || self.is_lost_rank() {
            return Class::LostRank;
        }
        match self.device_error().map(shardgraph_device::Error::kind) {
            Some(Device::Unavailable { .. }) => Class::MissingDevice,
            Some(Device::Collective { .. }) => Class::LostRank,
            Some(Device::UnknownDevice(_) | Device::Unsupported { .. }) => Class::Input,
            None if self.is_input() => Class::Input,
            _ => Class::NoAnswer,
        }
    }

    fn comm_error(&self) -> Option<&CommError> {
        Error::comm_error(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Setting {
                field,
                expected,
                given,
            } => write!(
                f,
                "agent settings: `{field}`: expected {expected}, given {given}"
            ),
            ErrorKind::Mismatch {
                component,
                method,
                what,
                expected,
                given,
            } => write!(
                f,
                "{component}::{method}: {what}: expected {expected}, given {given}"
            ),
            ErrorKind::Input(text) | ErrorKind::Diverged(text) | ErrorKind::Topology(text) => {
                f.write_str(text)
            }
            ErrorKind::Io { path, source } => write!(f, "{}: {source}", path.display()),
            ErrorKind::Component(error) => error.fmt(f),
            ErrorKind::Model(error) => error.fmt(f),
            ErrorKind::Device(error) => error.fmt(f),
            ErrorKind::Comm(error) => error.fmt(f),
            ErrorKind::Environment(error) => error.fmt(f),
            ErrorKind::Replay(error) => error.fmt(f),
            ErrorKind::Run(error) => error.fmt(f),
            ErrorKind::Internal(text) => write!(
                f,
                "the program contradicts itself, please report this: {text}"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io { source, .. } => Some(source),
            _ => None, // the others tell their cause themselves
        }
    }
}
