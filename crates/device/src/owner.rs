//! What keeps memory allocated that a buffer has only a part of.

use std::fmt;
use std::sync::Arc;

/// A value that gives memory back when it is dropped: a lease of an arena, pages of the system.
pub(crate) trait Owner: fmt::Debug + Send + Sync {}

impl<T: fmt::Debug + Send + Sync> Owner for T {}

/// An owner that several parts may have.
pub(crate) type SharedOwner = Arc<dyn Owner>;
