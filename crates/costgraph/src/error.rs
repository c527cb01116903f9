//! The crate's one error: a kind, a place in a file where there is one, and a sentence that says what would have been right.

use shardgraph_error::{Class, Kind, LocatedError};

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

impl Kind for ErrorKind {
    const IO: Self = Self::Io;
    const COMPRESSION: Self = Self::Compression;

    /// A schedule that breaks the rules is none of the user's.
    fn class(self) -> Class {
        match self {
            ErrorKind::Schedule => Class::NoAnswer,
            _ => Class::Input,
        }
    }
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
pub type Error = LocatedError<ErrorKind>;

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
