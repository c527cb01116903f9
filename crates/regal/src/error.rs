//! What can go wrong in this crate: options that make no sense, files that are no policy, and what the crates below report.

use shardgraph_error::Class;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_components::autodiff::collectives::CommError;
use shardgraph_job::JobError;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option is out of its range; the sentence says which, and what would have been right.
    #[error("{0}")]
    Options(String),
    /// A policy does not serve what it is asked for, or a file is none; the sentence names it and says what would have been right.
    #[error("{0}")]
    Policy(String),
    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Training has diverged; the sentence says where.
    #[error("{0}")]
    Diverged(String),
    /// The graph, the devices or a schedule: [`shardgraph_costgraph`] reports it.
    #[error(transparent)]
    Graph(#[from] shardgraph_costgraph::Error),
    /// The genetic algorithm's numbers or threads: [`shardgraph_brkga`] reports it.
    #[error(transparent)]
    Genetic(#[from] shardgraph_brkga::Error),
    /// A network: [`shardgraph_components`] reports it.
    #[error(transparent)]
    Network(#[from] shardgraph_components::Error),
    /// A step of the policy gradient: [`shardgraph_agents`] reports it.
    #[error(transparent)]
    Learning(#[from] shardgraph_agents::Error),
    /// Other ranks of a training run: [`shardgraph_components::autodiff::collectives`] reports it.
    #[error(transparent)]
    Ranks(#[from] CommError),
    /// The folder of a training run: [`shardgraph_job`] reports it.
    #[error(transparent)]
    Run(shardgraph_job::Error),
}

impl Error {
    /// Which error this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The class of the failure: the program's exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        match &self.kind {
            ErrorKind::Options(_) | ErrorKind::Policy(_) | ErrorKind::Io { .. } => Class::Input,
            ErrorKind::Diverged(_) | ErrorKind::Network(_) => Class::NoAnswer,
            ErrorKind::Ranks(error) => error.class(),
            ErrorKind::Graph(error) => error.class(),
            ErrorKind::Genetic(error) => error.class(),
            ErrorKind::Learning(error) if error.is_input() => Class::Input,
            ErrorKind::Run(error) if error.class() == Class::Input => Class::Input,
            ErrorKind::Learning(_) | ErrorKind::Run(_) => Class::NoAnswer,
        }
    }

    /// True when the options, the graph, the devices, a file or a folder are to blame.
    #[must_use]
    pub fn is_input(&self) -> bool {
        self.class() == Class::Input
    }

    pub(crate) fn options(message: impl Into<String>) -> Error {
        ErrorKind::Options(message.into()).into()
    }

    /// A word that names nothing of its kind.
    pub(crate) fn word(kind: &str, given: &str, expected: &str) -> Error {
        Error::options(format!("`{given}` is no {kind}: expected {expected}"))
    }

    pub(crate) fn policy(message: impl Into<String>) -> Error {
        ErrorKind::Policy(message.into()).into()
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
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

impl From<shardgraph_components::autodiff::Error> for ErrorKind {
    fn from(error: shardgraph_components::autodiff::Error) -> Self {
        Self::Network(error.into())
    }
}

impl From<shardgraph_job::Error> for ErrorKind {
    fn from(error: shardgraph_job::Error) -> Self {
        use shardgraph_job::Error as Job;
        match error {
            Job::Comm(error) => Self::Ranks(error),
            Job::Disagreement { .. } | Job::Options(_) => Self::Options(error.to_string()),
            error => Self::Run(error),
        }
    }
}

impl JobError for Error {
    fn class(&self) -> Class {
        Error::class(self)
    }

    fn comm_error(&self) -> Option<&CommError> {
        match &self.kind {
            ErrorKind::Ranks(error) => Some(error),
            _ => None,
        }
    }
}
