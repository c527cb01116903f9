//! Classes of failures, which are the program's exit codes, and the one error of a wrong setting.
//!
//! Every crate has an error of its own with a method `class`; this crate holds what those errors share.
//!
//! ```text
//! graph::Error ─┐
//! solver::Error ┼─ class() ─> Class ─ exit_code() ─> 1, 2, 3 or 4
//! line::Error  ─┘                └─ worse()
//!
//! SettingError { field, given, expected }   one setting outside of its range; its class is Input
//! SourcePos { file, line, column }          position of what a file holds, in front of a message
//! LocatedError<K> { kind, place, message }  error of the readers of files: K is the crate's own enum of kinds
//! words!                                    an enum whose values are words of the command line
//! ```
//!
//! ```
//! use shardgraph_error::{Class, SettingError};
//!
//! let error = SettingError::new("embed_dim", 0, "1 to 4096");
//! assert_eq!(error.to_string(), "`embed_dim`: expected 1 to 4096; found 0");
//! assert_eq!(error.class().exit_code(), 2);
//! assert_eq!(Class::Input.worse(Class::LostRank), Class::LostRank);
//! ```

#![forbid(unsafe_code)]

mod located;
mod source_pos;
mod words;

use std::fmt;

pub use located::{Kind, LocatedError};
pub use source_pos::{Escaped, SourcePos};
pub use words::alternatives;

/// Class of a failure: what the caller can do about it.
///
/// Exit code 0 is success and has no class; 130 belongs to an interrupted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The program found no answer, or its answer failed the check: exit code 1.
    NoAnswer,
    /// An input, a setting or the command line is wrong: exit code 2.
    Input,
    /// A wanted device or library is absent: exit code 3.
    MissingDevice,
    /// A rank died or stopped answering: exit code 4.
    LostRank,
}

impl Class {
    /// All classes, in the order of their exit codes.
    pub const ALL: [Class; 4] = [
        Class::NoAnswer,
        Class::Input,
        Class::MissingDevice,
        Class::LostRank,
    ];

    /// Exit code of a process that ends with such a failure.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Class::NoAnswer => 1,
            Class::Input => 2,
            Class::MissingDevice => 3,
            Class::LostRank => 4,
        }
    }

    /// Class with the given exit code, if there is one.
    ///
    /// ```
    /// use shardgraph_error::Class;
    /// assert!(Class::ALL.iter().all(|&class| Class::from_exit_code(class.exit_code()) == Some(class)));
    /// assert_eq!(Class::from_exit_code(0), None);
    /// ```
    #[must_use]
    pub fn from_exit_code(code: u8) -> Option<Class> {
        Class::ALL
            .into_iter()
            .find(|class| class.exit_code() == code)
    }

    /// The class with the higher exit code, for ranks that failed differently.
    #[must_use]
    pub fn worse(self, other: Class) -> Class {
        self.max(other)
    }
}

/// Error of one setting: its field, the given value and the range that would be right.
///
/// The field has one name in the struct, the settings file and the command line, so a caller can name any of the three.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: expected {expected}; found {given}")]
pub struct SettingError {
    /// Name of the setting; fields of tables have dots, as in `model.hidden`.
    pub field: String,
    /// Value as it was given.
    pub given: String,
    /// Values that are right, as in `1 to 4096`.
    pub expected: String,
}

impl SettingError {
    /// Error of `field`, which was `given` and should have been `expected`.
    pub fn new(
        field: impl Into<String>,
        given: impl fmt::Display,
        expected: impl Into<String>,
    ) -> SettingError {
        SettingError {
            field: field.into(),
            given: given.to_string(),
            expected: expected.into(),
        }
    }

    /// The same error one table further out: `hidden` in `model` becomes `model.hidden`.
    #[must_use]
    pub fn inside(mut self, table: &str) -> SettingError {
        self.field = format!("{table}.{}", self.field);
        self
    }

    /// Always [`Class::Input`].
    #[must_use]
    pub fn class(&self) -> Class {
        Class::Input
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
