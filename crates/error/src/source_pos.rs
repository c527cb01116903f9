//! Positions in files that errors name, and text of files in messages.

use std::fmt::{self, Write as _};

/// Position in a file.
///
/// ```
/// use shardgraph_error::SourcePos;
/// let pos = SourcePos { file: "a.mtx".into(), line: 3, column: 0 };
/// assert_eq!(format!("{pos}expected a weight"), "a.mtx:3: expected a weight");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SourcePos {
    /// The file's name as the caller gave it; empty when there was no file.
    pub file: String,
    /// Line, counted from 1; 0 when no line is meant.
    pub line: u64,
    /// Byte in the line, counted from 1; 0 when no column is meant.
    pub column: u64,
}

impl fmt::Display for SourcePos {
    /// `file:line:column: ` without the parts that are absent; nothing for no position.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == SourcePos::default() {
            return Ok(());
        }
        if !self.file.is_empty() {
            write!(f, "{}:", Escaped(&self.file))?;
        }
        for number in [self.line, self.column] {
            if number > 0 {
                write!(f, "{number}:")?;
            }
        }
        f.write_str(" ")
    }
}

/// Text whose control characters are escaped: names come from files, and none may end the line or steer the terminal.
#[derive(Debug)]
pub struct Escaped<'a>(pub &'a str);

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
