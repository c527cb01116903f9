//! Error with a kind, a position in a file where there is one, and a sentence.

use std::{error, fmt, io, path::Path};

use crate::{Class, Escaped, SourcePos};

/// Kinds of a crate's [`LocatedError`]: an enum of that crate.
pub trait Kind: Copy + fmt::Debug + 'static {
    /// Kind of an error of the operating system.
    const IO: Self;
    /// Kind of a damaged compressed stream.
    const COMPRESSION: Self;

    /// Class of the failure: the program's exit code.
    fn class(self) -> Class;
}

/// Error of a kind, with a position in a file where there is one, and a sentence that says what would have been right.
///
/// ```
/// use shardgraph_error::{Class, Kind, LocatedError};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum ErrorKind {
///     Io,
///     Compression,
///     Syntax,
/// }
/// impl Kind for ErrorKind {
///     const IO: Self = Self::Io;
///     const COMPRESSION: Self = Self::Compression;
///     fn class(self) -> Class {
///         Class::Input
///     }
/// }
/// type Error = LocatedError<ErrorKind>;
///
/// let error = Error::new(ErrorKind::Syntax, "expected a cost").or_at("a.json", 3, 0);
/// assert_eq!(error.kind(), ErrorKind::Syntax);
/// assert_eq!(error.to_string(), "a.json:3: expected a cost");
/// ```
#[derive(Debug)]
pub struct LocatedError<K>(Box<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    kind: K,
    place: SourcePos,
    message: String,
    source: Option<io::Error>,
}

impl<K: Kind> LocatedError<K> {
    /// An error without a position.
    #[must_use]
    pub fn new(kind: K, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            place: SourcePos::default(),
            message: message.into(),
            source: None,
        }))
    }

    /// An operating-system error while `doing` (a verb phrase such as "open") `path`.
    #[must_use]
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        let mut error = Self::new(K::IO, format!("cannot {doing}: {source}"));
        error.0.place.file = path.display().to_string();
        error.0.source = Some(source);
        error
    }

    /// The same error at a position in `file`, unless it already has one.
    #[must_use]
    pub fn or_at(mut self, file: &str, line: u64, column: u64) -> Self {
        if self.0.place == SourcePos::default() {
            self.0.place = SourcePos {
                file: file.to_owned(),
                line,
                column,
            };
        }
        self
    }

    /// Kind of the error.
    #[must_use]
    pub fn kind(&self) -> K {
        self.0.kind
    }

    /// Class of the failure, which its kind decides: the program's exit code.
    #[must_use]
    pub fn class(&self) -> Class {
        self.0.kind.class()
    }

    /// Position of the error; all fields are empty when no file was involved.
    #[must_use]
    pub fn place(&self) -> &SourcePos {
        &self.0.place
    }

    /// The sentence without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl<K> fmt::Display for LocatedError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0.place, Escaped(&self.0.message))
    }
}

impl<K: Kind> error::Error for LocatedError<K> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
