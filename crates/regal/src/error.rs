//! What can go wrong in this crate: options that make no sense, files that are no policy, and what the crates below report.

use shardgraph_error::Class;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shardgraph_components::autodiff::collectives::CommError;

/// An error of this crate; [`Error::kind`] says which.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option is out of its range; the sentence says which, and what would have been right.
    Options(String),
    /// A policy does not serve what it is asked for, or a file is none; the sentence names it and says what would have been right.
    Policy(String),
    /// A file that cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Training has diverged; the sentence says where.
    Diverged(String),
    /// The graph, the devices or a schedule: [`shardgraph_costgraph`] reports it.
    Graph(shardgraph_costgraph::Error),
    /// The genetic algorithm's numbers or threads: [`shardgraph_brkga`] reports it.
    Genetic(shardgraph_brkga::Error),
    /// A network: [`shardgraph_components`] reports it.
    Network(shardgraph_components::Error),
    /// A step of the policy gradient: [`shardgraph_agents`] reports it.
    Learning(shardgraph_agents::Error),
    /// Other ranks of a training run: [`shardgraph_components::autodiff::collectives`] reports it.
    Ranks(CommError),
    /// This rank could not begin, for a reason that it tells itself.
    LostRank(u32),
    /// The folder of a training run: [`shardgraph_job`] reports it.
    Run(shardgraph_job::Error),
}

impl Error {
    /// Which error this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// True when the options, the graph, the devices, a file or a folder are to blame; false for threads that do not start, for
    /// schedules that break the rules, for training that has diverged and for networks that do not compute.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match &self.kind {
            ErrorKind::Options(_) | ErrorKind::Policy(_) | ErrorKind::Io { .. } => true,
            ErrorKind::Diverged(_)
            | ErrorKind::Network(_)
            | ErrorKind::Ranks(_)
            | ErrorKind::LostRank(_) => false,
            ErrorKind::Graph(error) => error.kind() != shardgraph_costgraph::ErrorKind::Schedule,
            ErrorKind::Genetic(error) => {
                !matches!(error.kind(), shardgraph_brkga::ErrorKind::Threads { .. })
            }
            ErrorKind::Learning(error) => error.is_input(),
            ErrorKind::Run(error) => error.class() == Class::Input,
        }
    }

    pub(crate) fn options(message: impl Into<String>) -> Error {
        ErrorKind::Options(message.into()).into()
    }

    pub(crate) fn policy(message: impl Into<String>) -> Error {
        ErrorKind::Policy(message.into()).into()
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| ErrorKind::Io { path, source }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind }
    }
}

impl From<shardgraph_costgraph::Error> for Error {
    fn from(error: shardgraph_costgraph::Error) -> Error {
        ErrorKind::Graph(error).into()
    }
}

impl From<shardgraph_brkga::Error> for Error {
    fn from(error: shardgraph_brkga::Error) -> Error {
        ErrorKind::Genetic(error).into()
    }
}

impl From<shardgraph_components::Error> for Error {
    fn from(error: shardgraph_components::Error) -> Error {
        ErrorKind::Network(error).into()
    }
}

impl From<shardgraph_components::autodiff::Error> for Error {
    fn from(error: shardgraph_components::autodiff::Error) -> Error {
        shardgraph_components::Error::from(error).into()
    }
}

impl From<shardgraph_agents::Error> for Error {
    fn from(error: shardgraph_agents::Error) -> Error {
        ErrorKind::Learning(error).into()
    }
}

impl From<CommError> for Error {
    fn from(error: CommError) -> Error {
        ErrorKind::Ranks(error).into()
    }
}

impl From<shardgraph_job::Error> for Error {
    fn from(error: shardgraph_job::Error) -> Error {
        use shardgraph_job::Error as Job;
        match error {
            Job::Comm(error) => ErrorKind::Ranks(error).into(),
            Job::Disagreement { .. } | Job::Options(_) => Error::options(error.to_string()),
            error => ErrorKind::Run(error).into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Options(message)
            | ErrorKind::Policy(message)
            | ErrorKind::Diverged(message) => f.write_str(message),
            ErrorKind::Io { path, source } => write!(f, "{}: {source}", path.display()),
            ErrorKind::Graph(error) => error.fmt(f),
            ErrorKind::Genetic(error) => error.fmt(f),
            ErrorKind::Network(error) => error.fmt(f),
            ErrorKind::Learning(error) => error.fmt(f),
            ErrorKind::Ranks(error) => error.fmt(f),
            ErrorKind::LostRank(rank) => {
                write!(
                    f,
                    "rank {rank} could not begin; it says why in its own output"
                )
            }
            ErrorKind::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
