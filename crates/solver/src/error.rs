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
    Graph(#[from] shardgraph_graph::Error),
    /// An operation of the policy failed.
    #[error(transparent)]
    Model(#[from] autodiff::Error),
    /// A device is missing or refused.
    #[error(transparent)]
    Device(#[from] shardgraph_device::Error),
    /// A rank was lost or did not answer in time.
    #[error(transparent)]
    Comm(#[from] CommError),
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

    /// A word that names nothing of its kind.
    pub(crate) fn word(kind: &str, given: &str, expected: &str) -> Self {
        Self::input(format!("`{given}` is no {kind}: expected {expected}"))
    }

    pub(crate) fn input(text: impl Into<String>) -> Self {
        ErrorKind::Input(text.into()).into()
    }

    pub(crate) fn unbounded_scores() -> Self {
        Self::no_answer(
            "the scores leave the range of numbers: the weights of this policy, or of the edges, are too large",
        )
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

impl<E> From<E> for Error
where
    ErrorKind: From<E>,
{
    fn from(error: E) -> Self {
        let kind = error.into();
        Self { kind }
    }
}

impl From<shardgraph_job::Error> for ErrorKind {
    fn from(error: shardgraph_job::Error) -> Self {
        use shardgraph_job::Error as Job;
        match error {
            Job::Comm(error) => Self::Comm(error),
            Job::Disagreement { .. } | Job::Options(_) => Self::Input(error.to_string()),
            Job::DifferentParameters => {
                Self::Internal("the ranks trained different parameters".to_owned())
            }
            error => Self::Run(error),
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

impl From<shardgraph_components::Error> for ErrorKind {
    fn from(error: shardgraph_components::Error) -> Self {
        match error {
            shardgraph_components::Error::Autodiff(error) => Self::Model(error),
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<shardgraph_environments::Error> for ErrorKind {
    fn from(error: shardgraph_environments::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
