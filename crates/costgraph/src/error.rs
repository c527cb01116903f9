//! The crate's one error: a kind, a place in a file where there is one, and a sentence that says what would have been right.

use std::fmt::{self, Write};
use std::{io, path::Path};

use shardgraph_error::Class;

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
    place: Place,
    message: String,
    source: Option<io::Error>,
}

impl Error {
    /// An error without a place.
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
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The sentence without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Place::default() {
            return Ok(());
        }
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        for number in [self.line, self.column] {
            if number > 0 {
                write!(f, "{number}:")?;
            }
        }
        f.write_str(" ")
    }
}

/// A message whose control characters are escaped. Names come from files: none may end the line or steer the terminal.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c.is_control() {
                true => write!(f, "{}", c.escape_default())?,
                false => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, ErrorKind};

    #[test]
    fn a_name_in_a_message_cannot_forge_a_line() {
        let error = Error::new(ErrorKind::Graph, "op `\u{1b}[31ma\nverified` é");
        assert_eq!(error.to_string(), "op `\\u{1b}[31ma\\nverified` é");
    }
}
