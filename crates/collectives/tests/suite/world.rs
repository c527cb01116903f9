//! What the tests share: timeouts, free ports, a world of threads, and the kind of error of each
//! rank.

use shardgraph_collectives::{Comm, CommError, CommErrorKind, Op, Reduction, Timeout, threads};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// For waits that must never expire in a test that passes.
pub(crate) fn patient() -> Timeout {
    Timeout::after(Duration::from_secs(120))
}

pub(crate) fn short() -> Timeout {
    Timeout::after(Duration::from_millis(50))
}

/// For waits that expire once every other rank has come, also on a busy machine.
pub(crate) fn unhurried() -> Timeout {
    Timeout::after(Duration::from_millis(500))
}

/// A port that is free, and that the system gives to nobody who does not ask for it by number.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own_part = std::process::id() * 61;
    let port = || 10_000 + (own_part + NEXT.fetch_add(1, Ordering::Relaxed)) % 22_000;
    let ports = std::iter::repeat_with(|| u16::try_from(port()).expect("below 32000"));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let port = ports.take(22_000).find(is_free);
    port.expect("a free port from 10000 to 31999")
}

pub(crate) fn all_reduce(
    comm: &mut Comm,
    buf: &mut [f32],
    timeout: Timeout,
) -> Result<(), CommError> {
    let op = Op::AllReduce {
        buf: buf.into(),
        reduction: Reduction::Sum,
    };
    comm.run(op, timeout)
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
