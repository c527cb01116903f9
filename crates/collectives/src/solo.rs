//! A world of one rank: every operation is a plain copy, without locks and without waits.

use crate::backend::{Backend, Shared};
use crate::error::CommErrorKind;
use crate::op::{Call, Op, typed};
use crate::rank_end::RankEnd;
use crate::timeout::Timeout;

pub(crate) struct Solo;

impl Backend for Solo {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn run(&mut self, op: Op<'_>, _call: &Call, _timeout: Timeout) -> Result<(), CommErrorKind> {
        match op {
            Op::AllReduce { .. } | Op::Broadcast { .. } | Op::Barrier => {}
            Op::AllGather { send, recv }
            | Op::AllGatherV { send, recv, .. }
            | Op::ReduceScatterV { send, recv, .. }
            | Op::AllToAllV { send, recv, .. } => {
                typed!(send, recv, |send, recv| recv.copy_from_slice(send));
            }
        }
        Ok(())
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn exchange(
        &mut self,
        item: Shared,
        _call: &Call,
        _timeout: Timeout,
    ) -> Result<Vec<Shared>, CommErrorKind> {
        Ok(vec![item])
    }

    fn abort(&mut self, _end: &RankEnd) {}
}
