//! Ranks as processes, on one machine or several, over TCP.
//!
//! All processes come to rank 0, which compares their versions, job and numbers and tells them
//! where the others listen; then every pair of ranks opens two connections, one for data and one
//! for the news that a rank has ended. A rank that hears of an end tells all others first, so that
//! every rank names the one where it began.
//!
//! ```
//! use shardgraph_collectives::{CommError, Timeout, Op, Reduction, tcp};
//!
//! // Threads that act as processes do: each joins over the loopback interface.
//! let sums = tcp::run(3, |mut comm| {
//!     let mut sum = [comm.rank()];
//!     comm.run(Op::AllReduce { buf: (&mut sum).into(), reduction: Reduction::Sum }, Timeout::default())?;
//!     Ok::<_, CommError>(sum)
//! });
//! for sum in sums {
//!     assert_eq!(sum??, [3]);
//! }
//! # Ok::<(), CommError>(())
//! ```
//!
//! # Determinism
//! The same bits as [`threads`](crate::threads) with the same number of ranks: floats are added in
//! rank order.
//!
//! # Complexity
//! For P ranks and n bytes on each: an all-reduce or a broadcast has the
//! [`Algorithm`](crate::Algorithm) that n and P choose; what each sends, and in how many steps,
//! stands there. Every other operation is one step of P - 1 messages at once, and so is the
//! comparison of what the ranks ask for, which goes along with the first step. Scratch memory is
//! about 8 MiB, or 128 KiB for each rank where that is more; descriptors are 2(P - 1) for each
//! communicator.
//!
//! # Source
//! Reducing in parts and gathering them is the scheme of Rabenseifner; here every pair exchanges
//! its part directly, so that the order of additions is fixed.

mod gather;
mod links;
mod mesh;
mod rank;
mod wait_for;
mod world;

use crate::comm::Comm;
use crate::error::{CommError, CommErrorKind, refused};
use crate::join::address::listen;
pub use crate::join::config::{MAX_RANKS, TcpConfig};
pub use crate::join::decline::decline;
pub use crate::join::secret::Secret;
use crate::op::{Call, OpKind};
use crate::operations::Context;
use crate::rank_end::{Cause, RankEnd};
use crate::threads::{Body, results_of};
use crate::timeout::Timeout;
use mesh::connect_all;
use rank::Rank;
use std::net::{Ipv4Addr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, Builder, ThreadId};
use world::World;

/// Makes this process one rank of a world. Returns when all ranks are connected.
///
/// A process comes in that proves that it knows [`TcpConfig::secret`]; without a secret, every
/// process that knows the address, the job and the version. The connections are not encrypted, and
/// what comes over them later is not signed: who can change packets on the way is trusted.
///
/// # Errors
/// On every rank that came: [`CommErrorKind::Timeout`] with the ranks that did not come within the
/// timeout (a rank that cannot reach rank 0 gets [`CommErrorKind::PeerLost`] instead, a second at
/// most later than rank 0); [`CommErrorKind::Launch`] where numbers, versions or addresses do not
/// fit together. [`CommErrorKind::Backend`] where the system refuses.
///
/// ```
/// use shardgraph_collectives::{Timeout, tcp};
///
/// let config = tcp::TcpConfig {
///     rank: 0,
///     size: 1,
///     master_addr: "localhost".into(),
///     master_port: 29500,
///     job: "example".into(),
///     version: env!("CARGO_PKG_VERSION").into(),
///     timeout: Timeout::default(),
///     secret: None,
/// };
/// assert_eq!(tcp::join(&config)?.size(), 1); // alone: no connection is made
/// # Ok::<(), shardgraph_collectives::CommError>(())
/// ```
pub fn join(config: &TcpConfig) -> Result<Comm, CommError> {
    let joined = config
        .check()
        .and_then(|()| match (config.size, config.rank) {
            (1, _) => Ok(None),
            (_, 0) => {
                let listener = listen(config).map_err(|error| config.cannot_listen(&error))?;
                member(config, Some(listener), None).map(Some)
            }
            _ => member(config, None, None).map(Some),
        });
    match joined {
        Ok(None) => Ok(Comm::solo()),
        Ok(Some((_, rank))) => Ok(Comm::over(Box::new(rank))),
        Err(kind) => Err(CommError::new(kind, [].iter())),
    }
}

/// Gathers and connects. The world is given apart, for `supervise`, which must tell the others of a
/// panic.
fn member(
    config: &TcpConfig,
    listener: Option<TcpListener>,
    supervised: Option<ThreadId>,
) -> Result<(Arc<World>, Rank), CommErrorKind> {
    let gathered = match listener {
        Some(listener) => gather::host(config, listener),
        None => gather::visit(config),
    }?;
    let world = World::new(config.rank, gathered.world, gathered.table);
    for (rank, control) in (0u32..).zip(gathered.controls) {
        if let Some(control) = control {
            world.add_control(rank, control);
        }
    }
    let context = Context {
        call: &Call::new(config.rank, 0, OpKind::Join),
        timeout: config.timeout,
    };
    let data = connect_all(&world, context)?;
    let rank = Rank::new(Arc::clone(&world), data, supervised)?;
    Ok((world, rank))
}

/// Runs `f` once per rank, each on a thread of its own that joins over the loopback interface, and
/// returns what they return, in rank order.
///
/// It is for tests and measurements: the ranks behave as processes do, but for a panic, whose
/// message the others get once it has left `f`; of one that `f` catches itself they hear when `f`
/// returns.
///
/// # Errors
/// As [`threads::run`](crate::threads::run), and what [`join()`] gives.
pub fn run<R: Send>(n_ranks: u32, f: impl Fn(Comm) -> R + Sync) -> Vec<Result<R, CommError>> {
    results_of(n_ranks, f, run_all)
}

fn run_all(n_ranks: u32, f: &Body<'_>) -> Vec<Result<(), CommError>> {
    if n_ranks == 0 {
        return Vec::new();
    }
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        Ok(listener) => listener,
        Err(error) => return vec![Err(CommError::new(refused(error), [].iter()))],
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    let config = |rank| TcpConfig {
        rank,
        size: n_ranks,
        master_addr: Ipv4Addr::LOCALHOST.to_string(),
        master_port: port,
        job: format!("threads at port {port}"),
        version: env!("CARGO_PKG_VERSION").to_string(),
        timeout: Timeout::default(),
        secret: None,
    };
    let mut listener = Some(listener);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..n_ranks)
            .map(|rank| {
                let (config, listener) = (config(rank), listener.take());
                let body = move || supervise(&config, listener, f);
                let name = format!("rank {rank}");
                (rank, Builder::new().name(name).spawn_scoped(scope, body))
            })
            .collect();
        handles
            .into_iter()
            .map(|(rank, handle)| {
                let handle = handle.map_err(|e| CommError::new(refused(e), [].iter()))?;
                handle
                    .join()
                    .unwrap_or_else(|payload| Err(crate::threads::panicked(rank, &*payload)))
            })
            .collect()
    })
}

/// The body of one rank's thread.
fn supervise(
    config: &TcpConfig,
    listener: Option<TcpListener>,
    f: &Body<'_>,
) -> Result<(), CommError> {
    if config.size == 1 {
        let alone = catch_unwind(AssertUnwindSafe(|| f(Comm::solo())));
        return alone.map_err(|payload| crate::threads::panicked(config.rank, &*payload));
    }
    let joined = member(config, listener, Some(thread::current().id()));
    // The world's control connections stay until the panic of its rank has been told.
    let (world, rank) = joined.map_err(|kind| CommError::new(kind, [].iter()))?;
    // Nothing of `f` is looked at after a panic but the payload.
    let result = catch_unwind(AssertUnwindSafe(|| f(Comm::over(Box::new(rank)))));
    result.map_err(|payload| {
        let error = crate::threads::panicked(config.rank, &*payload);
        let why = error.kind().to_string();
        world.tell(&RankEnd::new(Cause::Panicked, Some(world.rank), why));
        error
    })
}
