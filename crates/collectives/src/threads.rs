//! Ranks as threads of this process.
//!
//! A rank copies what it sends into a slot of its own, meets the others, and reads their slots;
//! waiting ranks sleep. A rank that gives up, panics or is dropped leaves nothing behind that a
//! peer could read too late. Long buffers are not copied: ranks publish where they lie and work on
//! each other's between two rounds, and one that fails leaves only when no peer is at its buffer
//! (`published` has the proof).
//!
//! # Complexity
//! For P ranks and n bytes on each: a short all-reduce copies n bytes into the slot and reads P *
//! n, in one barrier; from 32 KiB on it reads n and writes n where they lie, in two. The other
//! operations copy what they send once and what they receive once, in one barrier; long ones only
//! what they receive, in two. A slot keeps the capacity of the longest short message (any
//! `AllToAllV` counts as short), twice per rank.
//!
//! # Source
//! Ending the world at the first fault, so that no call blocks for ever after it, is the rule of
//! MPI's user-level failure mitigation (ULFM).

mod backoff;
mod barrier;
mod in_place;
mod published;
mod rank;
mod sync;
#[cfg(test)]
mod tests;
mod world;

use crate::comm::Comm;
use crate::error::{CommError, CommErrorKind};
use crate::rank_end::{Cause, RankEnd};
use published::RankHandle;
use rank::Rank;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, ThreadId};
use world::World;

/// One communicator for each of `n_ranks` ranks, in rank order; each belongs on a thread of its
/// own.
///
/// A rank that panics while it holds its communicator, or drops it, ends the operations of the
/// others with [`CommErrorKind::PeerLost`]. [`run`] also tells them the panic's message.
///
/// ```
/// use shardgraph_collectives::{Timeout, Op, threads};
///
/// let mut ranks = threads::world(2).into_iter();
/// let (mut first, mut second) = (ranks.next().unwrap(), ranks.next().unwrap());
/// let other = std::thread::spawn(move || {
///     let mut seed = [0u64];
///     second.run(Op::Broadcast { buf: (&mut seed).into(), root: 0 }, Timeout::default()).unwrap();
///     seed
/// });
/// let mut seed = [42u64];
/// first.run(Op::Broadcast { buf: (&mut seed).into(), root: 0 }, Timeout::default()).unwrap();
/// assert_eq!(other.join().unwrap(), [42]);
/// ```
pub fn world(n_ranks: u32) -> Vec<Comm> {
    if n_ranks == 1 {
        return vec![Comm::solo()];
    }
    let (world, rank_handles) = World::new(n_ranks);
    let rank_handles = rank_handles.into_iter();
    rank_handles
        .map(|handle| member(&world, handle, None))
        .collect()
}

/// Runs `f` once per rank, each on a thread of its own, and returns what they return, in rank
/// order.
///
/// A world of one runs on the calling thread. All threads have ended when this returns.
///
/// # Errors
/// A rank whose `f` panics has [`CommErrorKind::Panicked`] in its place, with the panic's message;
/// the others get [`CommErrorKind::PeerLost`] with the same message from the operation that they
/// wait in or begin next, so no rank hangs. They wait up to 0.2 s for the message; where `f` has
/// dropped its communicator by a panic and caught that itself, none comes, and they get the error
/// without it. Where the system gives no thread, the rank has [`CommErrorKind::NoThread`], and the
/// others see it as lost.
///
/// ```
/// use shardgraph_collectives::{Timeout, Op, threads};
///
/// let results = threads::run(2, |mut comm| {
///     assert_ne!(comm.rank(), 1, "disk full");
///     comm.run(Op::Barrier, Timeout::default())
/// });
/// let survivor = results[0].as_ref().unwrap().as_ref().unwrap_err();
/// assert!(survivor.to_string().contains("disk full"));
/// assert!(results[1].is_err());
/// ```
pub fn run<R: Send>(n_ranks: u32, f: impl Fn(Comm) -> R + Sync) -> Vec<Result<R, CommError>> {
    results_of(n_ranks, f, run_all)
}

/// What one rank's thread runs.
pub(crate) type Body<'a> = dyn Fn(Comm) + Sync + 'a;

/// The results of `f` where `run_all` calls it once per rank; one that does not return gives the rank's error instead. What starts
/// the threads is compiled once, not once for each `f`.
pub(crate) fn results_of<R: Send>(
    n_ranks: u32,
    f: impl Fn(Comm) -> R + Sync,
    run_all: fn(u32, &Body<'_>) -> Vec<Result<(), CommError>>,
) -> Vec<Result<R, CommError>> {
    let results: Vec<Mutex<Option<R>>> = (0..n_ranks).map(|_| Mutex::new(None)).collect();
    let slot = |rank: u32| results.get(rank as usize);
    let ends = run_all(n_ranks, &|comm| {
        let rank = comm.rank();
        let result = f(comm);
        if let Some(slot) = slot(rank) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    });
    let taken = |(rank, end): (u32, Result<(), CommError>)| {
        end.map(|()| {
            let slot = slot(rank).expect("a slot for each rank");
            let result = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            result.expect("a rank without an error has returned")
        })
    };
    (0u32..).zip(ends).map(taken).collect()
}

fn run_all(n_ranks: u32, f: &Body<'_>) -> Vec<Result<(), CommError>> {
    if n_ranks == 1 {
        return vec![caught(0, || f(Comm::solo()))];
    }
    let (world, rank_handles) = World::new(n_ranks);
    thread::scope(|scope| {
        let spawn = |handle: RankHandle| {
            let world = &world;
            let name = format!("rank {}", handle.rank());
            let body = move || supervise(world, handle, f);
            Builder::new().name(name).spawn_scoped(scope, body)
        };
        let handles: Vec<_> = (0u32..).zip(rank_handles.into_iter().map(spawn)).collect();
        // A rank without a thread is lost before anyone is joined, else the others would wait for
        // it.
        let handles: Vec<_> = handles
            .into_iter()
            .map(|(rank, handle)| {
                (
                    rank,
                    handle.map_err(|refusal| not_started(&world, rank, &refusal)),
                )
            })
            .collect();
        handles
            .into_iter()
            .map(|(rank, handle)| match handle?.join() {
                Ok(result) => result,
                Err(payload) => Err(panicked(rank, &*payload)),
            })
            .collect()
    })
}

fn member(world: &Arc<World>, handle: RankHandle, supervised: Option<ThreadId>) -> Comm {
    Comm::over(Box::new(Rank::new(Arc::clone(world), handle, supervised)))
}

/// The body of one rank's thread.
fn supervise(world: &Arc<World>, handle: RankHandle, f: &Body<'_>) -> Result<(), CommError> {
    let rank = handle.rank() as u32;
    let comm = member(world, handle, Some(thread::current().id()));
    let result = caught(rank, || f(comm));
    if let Err(error) = &result {
        let why = error.kind().to_string();
        world
            .barrier
            .end(RankEnd::new(Cause::Panicked, Some(rank), why));
    }
    result
}

fn caught(rank: u32, f: impl FnOnce()) -> Result<(), CommError> {
    // Nothing of `f` is looked at after a panic but the payload.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| panicked(rank, &*payload))
}

pub(crate) fn panicked(rank: u32, payload: &(dyn Any + Send)) -> CommError {
    let text = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_string(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_string(),
    };
    CommError::new(CommErrorKind::Panicked { rank, text }, [].iter())
}

fn not_started(world: &World, rank: u32, refusal: &std::io::Error) -> CommError {
    let text = refusal.to_string();
    let kind = CommErrorKind::NoThread { rank, text };
    let end = RankEnd::new(Cause::Panicked, Some(rank), kind.to_string());
    world.barrier.end(end);
    CommError::new(kind, [].iter())
}
