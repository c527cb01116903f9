//! What can go wrong in this crate: options that make no sense, and what the crates below report.

use std::fmt;

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
    /// The graph, the devices or a schedule: [`shardgraph_costgraph`] reports it.
    Graph(shardgraph_costgraph::Error),
    /// The genetic algorithm's numbers or threads: [`shardgraph_brkga`] reports it.
    Genetic(shardgraph_brkga::Error),
}

impl Error {
    /// Which error this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// True when the options, the graph or the devices are to blame; false for threads that do not start and for schedules that
    /// break the rules.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match &self.kind {
            ErrorKind::Options(_) => true,
            ErrorKind::Graph(error) => error.kind() != shardgraph_costgraph::ErrorKind::Schedule,
            ErrorKind::Genetic(error) => {
                !matches!(error.kind(), shardgraph_brkga::ErrorKind::Threads { .. })
            }
        }
    }

    pub(crate) fn options(message: impl Into<String>) -> Error {
        let kind = ErrorKind::Options(message.into());
        Error { kind }
    }
}

impl From<shardgraph_costgraph::Error> for Error {
    fn from(error: shardgraph_costgraph::Error) -> Error {
        let kind = ErrorKind::Graph(error);
        Error { kind }
    }
}

impl From<shardgraph_brkga::Error> for Error {
    fn from(error: shardgraph_brkga::Error) -> Error {
        let kind = ErrorKind::Genetic(error);
        Error { kind }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Options(message) => f.write_str(message),
            ErrorKind::Graph(error) => error.fmt(f),
            ErrorKind::Genetic(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
