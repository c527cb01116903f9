//! The crate's one error: a kind, a place in a file where there is one, and a sentence that says what would have been right.

use std::{io, path::Path};

use shardgraph_error::{Class, Escaped, SourcePos};

/// What went wrong, coarsely: enough to choose an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read or write; [`std::error::Error::source`] holds its error.
    Io,
    /// The text or bytes are not what the format asks for at the named place.
    Syntax,
    /// A number is well-formed but not one that its field can hold: a negative or NaN cost, bytes beyond 2^62.
    OutOfRange,
    /// The compressed stream is damaged, ends early or expands suspiciously.
    Compression,
    /// The file is valid but holds something that this crate has no meaning for.
    Unsupported,
    /// The ops and tensors do not make a computation graph: a cycle, a dangling input, a tensor without producer, two ops of one name.
    Graph,
    /// More ops, tensors or uses than u32 ids address, or sums that leave 2^62.
    TooLarge,
    /// A device set, an option or another argument is not valid.
    Argument,
    /// A schedule breaks the rules of the performance model.
    Schedule,
}

/// Everything that this crate's functions can fail with.
///
/// ```
/// use shardgraph_costgraph::{ErrorKind, GraphBuilder, OpSpec};
///
/// let mut builder = GraphBuilder::new("loop");
/// let a = builder.op(OpSpec::new("a", 1));
/// let b = builder.op(OpSpec::new("b", 1));
/// builder.control(a, b);
/// builder.control(b, a);
/// let error = builder.build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Graph);
/// assert_eq!(error.to_string(), "the graph has a cycle: `a` -> `b` -> `a`");
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
    /// An error without a place.
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

    /// What went wrong, coarsely.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The class of the failure: the program's exit code. A schedule that breaks the rules is none of the user's.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.0.kind {
            ErrorKind::Schedule => Class::NoAnswer,
            _ => Class::Input,
        }
    }

    /// Where it went wrong; all fields are empty when no file was involved.
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

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind};

    #[test]
    fn a_file_s_name_cannot_forge_a_line() {
        let error = Error::new(ErrorKind::Syntax, "expected a cost").or_at("a\nb.json", 3, 0);
        assert_eq!(error.to_string(), "a\\nb.json:3: expected a cost");
    }

    #[test]
    fn a_name_in_a_message_cannot_forge_a_line() {
        let error = Error::new(ErrorKind::Graph, "op `\u{1b}[31ma\nverified` é");
        assert_eq!(error.to_string(), "op `\\u{1b}[31ma\\nverified` é");
    }
}
