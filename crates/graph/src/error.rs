//! The crate's error: a kind, a position in a file where there is one, and a sentence that says what would have been right.

use shardgraph_error::{Class, Kind, LocatedError};

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

impl Kind for ErrorKind {
    const IO: Self = Self::Io;
    const COMPRESSION: Self = Self::Compression;

    fn class(self) -> Class {
        Class::Input
    }
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
pub type Error = LocatedError<ErrorKind>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let error = Error::new(ErrorKind::Syntax, "found `\u{1b}[2J`\n").or_at("a\rb", 3, 0);
        assert_eq!(error.to_string(), "a\\rb:3: found `\\u{1b}[2J`\\n");
    }
}
