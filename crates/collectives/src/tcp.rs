//! Ranks as processes, on one machine or several, over TCP.
//!
//! All processes come to rank 0, which compares their versions, job and numbers and tells them where the others listen; then every pair of
//! ranks opens two connections, one for data and one for the news that a rank has ended. A rank that hears of an end tells all others
//! first, so that every rank names the one where it began.
//!
//! ```
//! use shardgraph_collectives::{CommError, Deadline, Op, Reduction, tcp};
//!
//! // Threads that act as processes do: each joins over the loopback interface.
//! let sums = tcp::run(3, |mut comm| {
//!     let mut sum = [comm.rank()];
//!     comm.run(Op::AllReduce { buf: (&mut sum).into(), reduction: Reduction::Sum }, Deadline::default())?;
//!     Ok::<_, CommError>(sum)
//! });
//! for sum in sums {
//!     assert_eq!(sum??, [3]);
//! }
//! # Ok::<(), CommError>(())
//! ```
//!
//! # Determinism
//! The same bits as [`threads`](crate::threads) with the same number of ranks: floats are added in rank order.
//!
//! # Complexity
//! For P ranks and n bytes on each: an all-reduce or a broadcast is done by the [`Algorithm`](crate::Algorithm) that a table of measurements names for n and P;
//! what each of them sends, and in how many steps, stands there. Every other operation is one step of P - 1 messages at once, and so is the comparison of what
//! the ranks ask for, which goes along with the first step. Scratch memory is about 8 MiB, or 128 KiB for each rank where that is more; descriptors are 2(P - 1)
//! for each communicator.
//!
//! # Source
//! Reducing in parts and gathering them is the scheme of Rabenseifner; here every pair exchanges its part directly, so that the order of additions is fixed.
//! The chain is a pipeline in place of a ring for the same reason.

mod control;
pub(crate) mod decline;
pub(crate) mod intro;
pub(crate) mod join;
mod links;
mod mesh;
mod rank;
pub(crate) mod wire;

use crate::comm::Comm;
use crate::deadline::Deadline;
use crate::error::{CommError, CommErrorKind};
use crate::op::{Call, OpKind};
use crate::watch::{Look, ended};
use control::{Cause, End, World};
pub use decline::decline;
use join::Gathered;
use mesh::{Plan, Unconnected};
use rank::Rank;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, ThreadId};

/// How many ranks a world may have at most: every pair has connections of its own.
pub const MAX_RANKS: u32 = 64;

/// What a process must know to become a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// The number of this rank, below `size`.
    pub rank: u32,
    /// The number of ranks, at most [`MAX_RANKS`].
    pub size: u32,
    /// The host of rank 0, by a name or number that all ranks can reach. On a name or number of the loopback interface rank 0 listens there
    /// only, else on all interfaces.
    pub master_addr: String,
    /// The port of rank 0 there.
    pub master_port: u16,
    /// The name of the job. A process of another job that comes to the same port is sent away.
    pub job: String,
    /// What must be the same on all ranks besides the protocol: the version of the program.
    pub version: String,
    /// How long to wait for the other ranks.
    pub deadline: Deadline,
}

/// Makes this process one rank of a world. Returns when all ranks are connected.
///
/// The connections are neither encrypted nor authenticated: use it where the network is your own.
///
/// # Errors
/// On every rank that came: [`CommErrorKind::Timeout`] with the ranks that did not come within the deadline (a rank that cannot reach rank 0
/// gets [`CommErrorKind::PeerLost`] instead, a second at most later than rank 0); [`CommErrorKind::Launch`] where numbers, versions or
/// addresses do not fit together. [`CommErrorKind::Backend`] where the system refuses.
///
/// ```
/// use shardgraph_collectives::{Deadline, tcp};
///
/// let config = tcp::TcpConfig {
///     rank: 0,
///     size: 1,
///     master_addr: "localhost".into(),
///     master_port: 29500,
///     job: "example".into(),
///     version: env!("CARGO_PKG_VERSION").into(),
///     deadline: Deadline::default(),
/// };
/// assert_eq!(tcp::join(&config)?.size(), 1); // alone: no connection is made
/// # Ok::<(), shardgraph_collectives::CommError>(())
/// ```
pub fn join(config: &TcpConfig) -> Result<Comm, CommError> {
    let joined = check(config).and_then(|()| match (config.size, config.rank) {
        (1, _) => Ok(None),
        (_, 0) => {
            let listener = join::listen(config).map_err(|error| cannot_listen(config, &error))?;
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

pub(crate) fn check(config: &TcpConfig) -> Result<(), CommErrorKind> {
    let TcpConfig { rank, size, .. } = config;
    let what = match (rank, size) {
        (_, 0) => "a world has at least one rank".to_string(),
        (rank, size) if rank >= size => {
            format!(
                "this is rank {rank} of {size} ranks: ranks are numbered from 0 to {}",
                size - 1
            )
        }
        (_, size) if *size > MAX_RANKS => format!(
            "{size} ranks were asked for: tcp connects every pair of ranks and takes at most {MAX_RANKS}"
        ),
        _ => return Ok(()),
    };
    Err(CommErrorKind::Launch { what })
}

pub(crate) fn cannot_listen(config: &TcpConfig, error: &io::Error) -> CommErrorKind {
    CommErrorKind::Launch {
        what: format!(
            "rank 0 cannot listen on port {} for {}: {error} (if another rank 0 or program has the port, give this job another one)",
            config.master_port, config.master_addr
        ),
    }
}

pub(crate) fn refused(error: io::Error) -> CommErrorKind {
    CommErrorKind::Backend {
        code: error.raw_os_error().unwrap_or_default(),
        text: error.to_string(),
    }
}

/// Gathers and connects. The world is given apart, for who must tell the others of a panic.
fn member(
    config: &TcpConfig,
    listener: Option<TcpListener>,
    supervisor: Option<Arc<Supervisor>>,
) -> Result<(Arc<World>, Rank), CommErrorKind> {
    let gathered = match listener {
        Some(listener) => join::host(config, listener),
        None => join::visit(config),
    };
    let Gathered {
        world,
        whereabouts,
        joined,
    } = gathered.map_err(refused)??;
    let plan = Plan {
        world,
        rank: config.rank,
        whereabouts: &whereabouts,
        call: &Call::new(config.rank, 0, OpKind::Join),
        deadline: config.deadline,
    };
    let mesh = plan.connect(joined, &|| None).map_err(Unconnected::kind)?;
    let world = World::new(config.rank, world, mesh.controls, None, whereabouts);
    let rank = Rank::new(Arc::clone(&world), mesh.data, supervisor)?;
    Ok((world, rank))
}

/// A look at a world that keeps no connection open.
fn watch(world: &Arc<World>) -> Look {
    let world = Arc::downgrade(world);
    Arc::new(move || {
        let world = world.upgrade()?;
        let any = Call::new(world.rank, 0, OpKind::Barrier);
        let end = world.end_of(&any).filter(|end| end.cause != Cause::Left)?;
        Some(ended(end.rank, end.cause != Cause::Aborted, &end.why))
    })
}

/// The number of a group's world: the same for all its members, another for any other group. (SplitMix64's mixing.)
fn group_id(world: u64, seq: u64, first: u32) -> u64 {
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(world ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(seq)).wrapping_add(mix(u64::from(first)))
}

/// Runs `f` once per rank, each on a thread of its own that joins over the loopback interface, and returns what they return, in rank order.
///
/// It is for tests and measurements: the ranks behave as processes do, but for a panic, whose message the others get
/// once it has left `f`; of one that `f` catches itself they hear when `f` returns.
///
/// # Errors
/// As [`threads::run`](crate::threads::run), and what [`join()`] gives.
pub fn run<R: Send>(n_ranks: u32, f: impl Fn(Comm) -> R + Sync) -> Vec<Result<R, CommError>> {
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
        deadline: Deadline::default(),
    };
    let mut listener = Some(listener);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..n_ranks)
            .map(|rank| {
                let (config, listener, f) = (config(rank), listener.take(), &f);
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
fn supervise<R>(
    config: &TcpConfig,
    listener: Option<TcpListener>,
    f: impl Fn(Comm) -> R,
) -> Result<R, CommError> {
    if config.size == 1 {
        let alone = catch_unwind(AssertUnwindSafe(|| f(Comm::solo())));
        return alone.map_err(|payload| crate::threads::panicked(config.rank, &*payload));
    }
    let supervisor = Arc::new(Supervisor {
        thread: thread::current().id(),
        worlds: Mutex::default(),
    });
    let joined = member(config, listener, Some(Arc::clone(&supervisor)));
    let (world, rank) = joined.map_err(|kind| CommError::new(kind, [].iter()))?;
    supervisor.worlds().push(world);
    // Nothing of `f` is looked at after a panic but the payload.
    let result = catch_unwind(AssertUnwindSafe(|| f(Comm::over(Box::new(rank)))));
    result.map_err(|payload| {
        let error = crate::threads::panicked(config.rank, &*payload);
        for world in supervisor.worlds().iter() {
            world.tell(&End {
                cause: Cause::Panicked,
                rank: Some(world.rank),
                seq: None,
                why: error.kind().to_string(),
            });
        }
        error
    })
}

/// Catches the panics of one thread, and tells the worlds that were dropped in it why.
struct Supervisor {
    thread: ThreadId,
    worlds: Mutex<Vec<Arc<World>>>,
}

impl Supervisor {
    /// Keeps a world whose rank is dropped by a panic, if this is the thread.
    fn takes(&self, world: &Arc<World>) -> bool {
        let is_here = thread::current().id() == self.thread;
        if is_here {
            self.worlds().push(Arc::clone(world));
        }
        is_here
    }

    fn worlds(&self) -> std::sync::MutexGuard<'_, Vec<Arc<World>>> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
