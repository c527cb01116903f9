//! What can go wrong while a problem is solved or a policy is trained.

use std::fmt;
use std::path::{Path, PathBuf};

use shardgraph_collectives::{CommError, CommErrorKind};
use shardgraph_error::Class;
use shardgraph_job::{JobError, announced_class};
use shardgraph_layers::autodiff;

/// An error of this crate.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or a file that cannot be right; the payload says what and what would be.
    Input(String),
    /// A file that could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A run's folder, or a file in it, that cannot be used.
    Run(shardgraph_job::Error),
    /// A graph could not be read or generated.
    Graph(shardgraph_graph::Error),
    /// An operation of the policy failed.
    Model(autodiff::Error),
    /// A device is missing or refused.
    Device(shardgraph_device::Error),
    /// A rank was lost or did not answer in time.
    Comm(CommError),
    /// The input is right, but no answer came out; the payload says why and what to try.
    NoAnswer(String),
    /// An answer that failed its own check; the payload says where. This is a defect of the program.
    Verification(String),
    /// A state that the program never reaches when it is right; the payload says which.
    Internal(String),
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// What kind of failure this is, for who must tell it apart from others: a program that sets an exit code.
    ///
    /// Where another rank has ended the job for a reason of its own, it is the fault that this rank had.
    pub fn fault(&self) -> Fault {
        if let Some(error) = self.comm_error() {
            return match error.kind() {
                CommErrorKind::Argument { .. } | CommErrorKind::Panicked { .. } => Fault::NoAnswer,
                CommErrorKind::Aborted { why, .. } => {
                    announced_class(why).map_or(Fault::LostRank, Fault::of_class)
                }
                _ => Fault::LostRank,
            };
        }
        match &self.kind {
            ErrorKind::Input(_) | ErrorKind::Io { .. } | ErrorKind::Graph(_) => Fault::Input,
            ErrorKind::Run(error) => match error.class() {
                Class::Input => Fault::Input,
                _ => Fault::NoAnswer,
            },
            ErrorKind::Device(error) => Fault::of_device(error),
            ErrorKind::Model(error) => match error {
                autodiff::Error::Device(error) => Fault::of_device(error),
                autodiff::Error::Setup(_) => Fault::Input,
                _ => Fault::NoAnswer,
            },
            _ => Fault::NoAnswer,
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

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A setting or a file that cannot be right, or that could not be read or written.
    Input,
    /// A device that is missing.
    MissingDevice,
    /// A rank was lost or did not answer in time.
    LostRank,
    /// No answer came out, or one that failed its check.
    NoAnswer,
}

impl Fault {
    /// The fault of a device's error.
    pub fn of_device(error: &shardgraph_device::Error) -> Fault {
        use shardgraph_device::ErrorKind;
        match error.kind() {
            ErrorKind::Unavailable { .. } => Fault::MissingDevice,
            ErrorKind::Collective { .. } => Fault::LostRank,
            ErrorKind::UnknownDevice(_) | ErrorKind::Unsupported { .. } => Fault::Input,
            _ => Fault::NoAnswer,
        }
    }

    fn of_class(class: Class) -> Fault {
        match class {
            Class::Input => Fault::Input,
            Class::MissingDevice => Fault::MissingDevice,
            Class::LostRank => Fault::LostRank,
            Class::NoAnswer => Fault::NoAnswer,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
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
        match self.fault() {
            Fault::Input => Class::Input,
            Fault::NoAnswer => Class::NoAnswer,
            Fault::MissingDevice => Class::MissingDevice,
            Fault::LostRank => Class::LostRank,
        }
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Input(text) | ErrorKind::NoAnswer(text) => f.write_str(text),
            ErrorKind::Io { path, source } => write!(f, "{}: {source}", path.display()),
            ErrorKind::Run(error) => error.fmt(f),
            ErrorKind::Graph(error) => error.fmt(f),
            ErrorKind::Model(error) => error.fmt(f),
            ErrorKind::Device(error) => error.fmt(f),
            ErrorKind::Comm(error) => error.fmt(f),
            ErrorKind::Verification(text) => {
                write!(f, "the answer failed its check, please report this: {text}")
            }
            ErrorKind::Internal(text) => {
                write!(
                    f,
                    "the program contradicts itself, please report this: {text}"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io { source, .. } => Some(source),
            ErrorKind::Run(error) => Some(error),
            ErrorKind::Graph(error) => Some(error),
            ErrorKind::Model(error) => Some(error),
            ErrorKind::Device(error) => Some(error),
            ErrorKind::Comm(error) => Some(error),
            _ => None,
        }
    }
}
