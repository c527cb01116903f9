//! The crate's error: a kind, a position in a file where there is one, and a sentence that says what would have been right.

use std::{io, path::Path};

use shardgraph_error::{Class, Escaped, SourcePos};

/// Kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, write or rename; [`std::error::Error::source`] holds its error.
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
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Debug, thiserror::Error)]
#[error("{place}{}", Escaped(.message))]
struct Inner {
    kind: ErrorKind,
    place: SourcePos,
    message: String,
    source: Option<io::Error>,
}

impl Error {
    /// An error without a place; sinks outside of this crate use it with [`ErrorKind::Sink`].
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            place: SourcePos::default(),
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
        if self.0.place == SourcePos::default() {
            self.0.place = SourcePos {
                file: file.to_owned(),
                line,
                column,
            };
        }
        self
    }

    /// Always [`Class::Input`]: a file, a specification or an argument is not as it has to be.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::Input
    }

    /// Kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Position of the error; all fields are empty when no file was involved.
    #[must_use]
    pub fn place(&self) -> &SourcePos {
        &self.0.place
    }

    /// The sentence without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl From<shardgraph_storage::Error> for Error {
    fn from(error: shardgraph_storage::Error) -> Error {
        use shardgraph_storage::Error as Storage;
        match error {
            Storage::Io {
                file,
                doing,
                source,
            } => Error::io(doing, Path::new(&file), source),
            Storage::NotReadable { file, reason } => {
                Error::new(ErrorKind::Io, reason).or_at(&file, 0, 0)
            }
            Storage::Compression { file, line, reason } => {
                Error::new(ErrorKind::Compression, reason).or_at(&file, line, 0)
            }
            other => Error::new(ErrorKind::Io, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let error = Error::new(ErrorKind::Syntax, "found `\u{1b}[2J`\n").or_at("a\rb", 3, 0);
        assert_eq!(error.to_string(), "a\\rb:3: found `\\u{1b}[2J`\\n");
    }
}
