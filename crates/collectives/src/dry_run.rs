//! A rank without peers: operations do nothing.

use crate::backend::{Backend, Shared};
use crate::error::CommErrorKind;
use crate::op::{Call, Op};
use crate::rank_end::RankEnd;
use crate::timeout::Timeout;

pub(crate) struct DryRun {
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Backend for DryRun {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn run(&mut self, _op: Op<'_>, _call: &Call, _timeout: Timeout) -> Result<(), CommErrorKind> {
        Ok(())
    }

    /// There is nothing to share with.
    fn shares_memory(&self) -> bool {
        false
    }

    /// The item for each rank: never called, as no memory is shared.
    fn exchange(
        &mut self,
        item: Shared,
        _call: &Call,
        _timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Ok(vec![item; self.size as usize])
    }

    fn abort(&mut self, _end: &RankEnd) {}
}
