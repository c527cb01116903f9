//! The crate's one error: a kind, a place in a file where there is one, and a sentence that says what would have been right.

use std::{error, fmt, io, path::Path};

/// What went wrong, coarsely: enough to choose an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, write or rename; [`error::Error::source`] holds its error.
    Io,
    /// The text is not what the format asks for at the named line and column.
    Syntax,
    /// A number is well-formed but outside of what the file's own header or this crate allows.
    OutOfRange,
    /// The compressed stream is damaged, ends early or expands suspiciously.
    Compression,
    /// The file is valid, but of a variety that is no undirected graph (complex, rectangular, shortest-path, ...).
    Unsupported,
    /// The input holds something that the [`crate::ReadOptions`] said to refuse.
    Policy,
    /// The graph does not fit this crate's u32 node ids, or a header promises more nodes than is plausible.
    TooLarge,
    /// A generator specification or another argument is not valid.
    Argument,
    /// The receiver of a stream of edges gave up.
    Sink,
}

/// Where in a file an error lies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// The file's name as the caller gave it; empty when there was no file.
    pub file: String,
    /// Line, counted from 1; 0 when no line is meant.
    pub line: u64,
    /// Byte in the line, counted from 1; 0 when no column is meant.
    pub column: u64,
}

/// Everything that this crate's functions can fail with.
///
/// ```
/// use shardgraph_graph::{ErrorKind, Format, ReadOptions, read_bytes};
///
/// let options = ReadOptions { format: Some(Format::Dimacs), ..ReadOptions::default() };
/// let error = read_bytes("tiny.clq", b"p edge 2 1\ne 1 3\n", &options).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::OutOfRange);
/// assert_eq!(error.to_string(), "tiny.clq:2:5: expected a node id from 1 to 2, found `3`");
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    place: Place,
    message: String,
    source: Option<io::Error>,
}

impl Error {
    /// An error without a place; sinks outside of this crate use it with [`ErrorKind::Sink`].
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            place: Place::default(),
            message: message.into(),
            source: None,
        }))
    }

    /// An operating-system error while `doing` (a verb phrase such as "open") `path`.
    #[must_use]
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Error {
        let mut error = Error::new(ErrorKind::Io, format!("cannot {doing}: {source}"));
        error.0.place.file = path.display().to_string();
        error.0.source = Some(source);
        error
    }

    /// The same error, placed in `file` unless it already has a place.
    #[must_use]
    pub fn or_at(mut self, file: &str, line: u64, column: u64) -> Error {
        if self.0.place == Place::default() {
            self.0.place = Place {
                file: file.to_owned(),
                line,
                column,
            };
        }
        self
    }

    /// What went wrong, coarsely.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Where it went wrong; all fields are empty when no file was involved.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The sentence without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, line, column } = &self.0.place;
        if !file.is_empty() {
            write!(f, "{file}:")?;
        }
        if *line > 0 {
            write!(f, "{line}:")?;
        }
        if *column > 0 {
            write!(f, "{column}:")?;
        }
        if self.0.place != Place::default() {
            f.write_str(" ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}
