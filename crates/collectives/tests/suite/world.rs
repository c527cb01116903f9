//! What the fault tests share: a world of threads with a short deadline, and the kind of error of each rank.

use shardgraph_collectives::{Comm, CommError, CommErrorKind, Deadline, Op, Reduction, threads};
use std::time::Duration;

/// For waits that must never expire in a test that passes.
pub(crate) fn patient() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

pub(crate) fn short() -> Deadline {
    Deadline::after(Duration::from_millis(50))
}

pub(crate) fn all_reduce(
    comm: &mut Comm,
    buf: &mut [f32],
    deadline: Deadline,
) -> Result<(), CommError> {
    let op = Op::AllReduce {
        buf: buf.into(),
        reduction: Reduction::Sum,
    };
    comm.run(op, deadline)
}

/// What each rank's operation returned; no rank may panic.
pub(crate) fn outcomes(
    n_ranks: u32,
    f: impl Fn(Comm) -> Result<(), CommError> + Sync,
) -> Vec<Result<(), CommErrorKind>> {
    let results = threads::run(n_ranks, f).into_iter();
    results
        .map(|rank| {
            rank.expect("no panic")
                .map_err(|error| error.kind().clone())
        })
        .collect()
}
