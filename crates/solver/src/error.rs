//! What can go wrong while a problem is solved or a policy is trained.

use std::path::{Path, PathBuf};

use shardgraph_collectives::CommError;
use shardgraph_error::Class;
use shardgraph_job::{JobError, class_of_comm};
use shardgraph_layers::autodiff;

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
    /// A setting or a file that cannot be right; the payload says what and what would be.
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
    /// A run's folder, or a file in it, that cannot be used.
    #[error(transparent)]
    Run(shardgraph_job::Error),
    /// A graph could not be read or generated.
    #[error(transparent)]
    Graph(shardgraph_graph::Error),
    /// An operation of the policy failed.
    #[error(transparent)]
    Model(autodiff::Error),
    /// A device is missing or refused.
    #[error(transparent)]
    Device(shardgraph_device::Error),
    /// A rank was lost or did not answer in time.
    #[error(transparent)]
    Comm(CommError),
    /// The input is right, but no answer came out; the payload says why and what to try.
    #[error("{0}")]
    NoAnswer(String),
    /// The caller has ended the work before there was an answer ([`SolveOptions::cancelled`](crate::SolveOptions::cancelled)).
    #[error("cancelled before there was an answer")]
    Cancelled,
    /// An answer that failed its own check; the payload says where. This is a defect of the program.
    #[error("the answer failed its check, please report this: {0}")]
    Verification(String),
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
    ///
    /// Where another rank has ended the job for a reason of its own, it is the class of that rank's failure.
    pub fn class(&self) -> Class {
        if let Some(error) = self.comm_error() {
            return class_of_comm(error);
        }
        match &self.kind {
            ErrorKind::Input(_) | ErrorKind::Io { .. } | ErrorKind::Graph(_) => Class::Input,
            ErrorKind::Run(error) if error.class() == Class::Input => Class::Input,
            ErrorKind::Device(error) => error.class(),
            ErrorKind::Model(error) => error.class(),
            _ => Class::NoAnswer,
        }
    }

    /// The failed collective operation, where that is the cause.
    pub fn comm_error(&self) -> Option<&CommError> {
        match &self.kind {
            ErrorKind::Comm(error) => Some(error),
            ErrorKind::Model(error) => error.comm_error(),
            _ => None,
        }
    }

    pub(crate) fn input(text: impl Into<String>) -> Self {
        ErrorKind::Input(text.into()).into()
    }

    pub(crate) fn no_answer(text: impl Into<String>) -> Self {
        ErrorKind::NoAnswer(text.into()).into()
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        ErrorKind::Internal(text.into()).into()
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| ErrorKind::Io { path, source }.into()
    }
}

impl From<shardgraph_job::Error> for Error {
    fn from(error: shardgraph_job::Error) -> Self {
        use shardgraph_job::Error as Job;
        match error {
            Job::Comm(error) => ErrorKind::Comm(error).into(),
            Job::Disagreement { .. } | Job::Options(_) => Error::input(error.to_string()),
            Job::DifferentParameters => Error::internal("the ranks trained different parameters"),
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

impl From<autodiff::Error> for Error {
    fn from(error: autodiff::Error) -> Self {
        ErrorKind::Model(error).into()
    }
}

impl From<shardgraph_device::Error> for Error {
    fn from(error: shardgraph_device::Error) -> Self {
        ErrorKind::Device(error).into()
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Self {
        ErrorKind::Comm(error).into()
    }
}

impl From<shardgraph_graph::Error> for Error {
    fn from(error: shardgraph_graph::Error) -> Self {
        ErrorKind::Graph(error).into()
    }
}

impl From<shardgraph_components::Error> for Error {
    fn from(error: shardgraph_components::Error) -> Self {
        match error {
            shardgraph_components::Error::Autodiff(error) => error.into(),
            error => Self::internal(error.to_string()),
        }
    }
}

impl From<shardgraph_environments::Error> for Error {
    fn from(error: shardgraph_environments::Error) -> Self {
        Self::internal(error.to_string())
    }
}
