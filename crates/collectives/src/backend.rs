//! The seam between [`Comm`](crate::Comm) and the ways in which ranks reach each other.
//!
//! `Comm` checks arguments, numbers and records operations, remembers failures and builds the exact
//! sum out of two all-reduces. A back end moves the data, compares the headers, and keeps the
//! timeout.

use std::any::Any;
use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::error::CommErrorKind;
use crate::op::{Call, Op};
use crate::rank_end::RankEnd;
use crate::timeout::Timeout;
use crate::watch::Look;

/// Something that ranks of one process hand to each other.
pub(crate) type Shared = Arc<dyn Any + Send + Sync>;

/// One rank's access to its peers. `solo`, `threads`, `tcp` and `mpi` have one, and `dry_run` has one
/// without peers; NCCL moves buffers of devices and is no backend (see `shardgraph_device::nccl`).
pub(crate) trait Backend: Send {
    fn rank(&self) -> u32;

    fn size(&self) -> u32;

    /// Runs one operation, whose arguments fit on this rank. `call` is what peers must agree with.
    /// Every wait ends by `timeout`; when this returns, with or without an error, no peer reads or
    /// writes the operation's buffers.
    fn run(&mut self, op: Op<'_>, call: &Call, timeout: Timeout) -> Result<(), CommErrorKind>;

    /// True where all ranks are threads of this process.
    fn shares_memory(&self) -> bool;

    /// Gives `item` to every rank, and returns the items of all ranks, in rank order. Called only
    /// where memory is shared.
    fn exchange(
        &mut self,
        item: Shared,
        call: &Call,
        timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind>;

    /// Tells the peers that nothing more will come from this rank. They get `PeerLost` or
    /// `Aborted`. The first such message counts.
    fn abort(&mut self, end: &RankEnd);

    /// A look at this world without an operation, cheap enough for every few milliseconds; `None`
    /// where there is no way to look. It tells of ranks that were lost, panicked or gave up. One
    /// that has left in order is no failure: it may have done its part of all that there is to do.
    fn watch(&self) -> Option<Look> {
        None
    }

    /// Replaces the choice by size from now on. All ranks do the same; operations without a choice
    /// take no notice.
    fn use_algorithm(&mut self, _algorithm: Option<Algorithm>) {}
}
