//! Looking for the end of a world without an operation: for who waits somewhere else, as for a
//! device.

use crate::error::{CommError, CommErrorKind};
use std::fmt;
use std::sync::Arc;

/// Says why no further operation of a communicator can complete, if that is known. It keeps no rank
/// from leaving.
pub(crate) type Look = Arc<dyn Fn() -> Option<CommErrorKind> + Send + Sync>;

/// A look at a communicator's world from anywhere, made by [`Comm::watch`](crate::Comm::watch): it
/// moves to other threads, and outlives the communicator, of which it then knows nothing more.
///
/// ```
/// use shardgraph_collectives::{Timeout, Op, threads};
///
/// let seen = threads::run(2, |mut comm| {
///     let watch = comm.watch();
///     assert!(watch.failure().is_none());
///     comm.run(Op::Barrier, Timeout::default()).unwrap();
///     if comm.rank() == 1 {
///         comm.abort("disk full");
///         return String::new();
///     }
///     loop {
///         if let Some(failure) = watch.failure() { // while this rank waits for something else
///             return failure.to_string();
///         }
///     }
/// });
/// assert_eq!(seen[0].as_ref().unwrap(), "aborted by rank 1: disk full");
/// ```
#[derive(Clone)]
pub struct Watch {
    look: Option<Look>,
}

impl Watch {
    pub(crate) fn new(look: Option<Look>) -> Watch {
        Watch { look }
    }

    /// As [`Comm::failure`](crate::Comm::failure), but for errors of this rank's own operations,
    /// which their caller knows. Between threads it waits up to 0.2 s for the message of a panic.
    pub fn failure(&self) -> Option<CommError> {
        let kind = self.look.as_ref()?()?;
        Some(CommError::new(kind, [].iter()))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Watch");
        shown.field("can_look", &self.look.is_some()).finish()
    }
}
