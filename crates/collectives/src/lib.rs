//! Collective operations between ranks with a timeout on every wait and sums that do not depend on
//! the number of ranks.
//!
//! A world of P ranks is P values of [`Comm`], one per rank. All ranks issue the same operations in
//! the same order; each operation is one [`Op`], run by [`Comm::run`]. [`Comm::exact_sum`] adds
//! `f32` partials so that the result has the same bits for every P, every cut of the partials over
//! the ranks and every order of them.
//!
//! Back ends are [`threads`] (a rank is a thread of this process), [`tcp`] and [`mpi`] (a rank is a
//! process; [`Launch`] tells which one a launcher started). [`Comm::solo`] is a world of one, where
//! every operation is a plain copy. The code of a job takes a `Comm` and does not know which it
//! got.
//!
//! ```text
//! Launch::from_env ─> tcp::join, mpi::init_within ─┐
//! threads::run, threads::world, Comm::solo ────────┴─> Comm, one for each rank
//!     Comm::run(Op { Slice, SliceMut, Reduction }, Timeout)   one collective operation
//!     Comm::exact_sum, exact_sum_rows(SparseRows)             sums with the same bits for every P
//!     Comm::watch ─> Watch                                    a look from another thread
//!     error: CommError { CommErrorKind, class(), recent() ─> Recorded { Call, Outcome } }
//!
//! messages::Router (threads), messages::Mailbox::join (TCP) ─> Mailbox ─ send, recv ─> Event
//! ```
//!
//! ```
//! use shardgraph_collectives::{Timeout, Op, Reduction, threads};
//!
//! let sums = threads::run(3, |mut comm| {
//!     let mut buf = [comm.rank() as f32, 1.0];
//!     comm.run(Op::AllReduce { buf: buf.as_mut_slice().into(), reduction: Reduction::Sum }, Timeout::default())?;
//!     Ok::<_, shardgraph_collectives::CommError>(buf)
//! });
//! for sum in sums {
//!     assert_eq!(sum??, [3.0, 3.0]);
//! }
//! # Ok::<(), shardgraph_collectives::CommError>(())
//! ```
//!
//! # What holds on every back end
//! - Lengths and arguments are checked on entry. Ranks that call different operations, or the same
//!   one with different lengths, element types, roots or reductions, all get
//!   [`CommErrorKind::Mismatch`]; nothing is written to their buffers.
//! - Every wait has a [`Timeout`]. No call blocks for ever: it succeeds or says which ranks are
//!   missing.
//! - After an error a `Comm` answers every further operation with [`CommErrorKind::Aborted`], and
//!   so do its peers; the only legal things left are [`Comm::abort`], reading
//!   [`Comm::flight_record`], and dropping it. Ranks may differ by one in the number of operations
//!   that they completed, so a job resumes from the last step that all of them recorded.
//! - Buffers are borrowed for the call and are free when it returns, also with an error: no peer
//!   holds a reference to them.
//!
//! Parts of a job that come and go, each with a fate of its own, send each other [`messages`].
#![deny(unsafe_code)]

mod algorithm;
mod backend;
mod check;
mod codec;
mod comm;
mod dry_run;
mod element;
mod error;
mod exact;
mod flight;
mod join;
mod launch;
pub mod messages;
pub mod mpi;
mod op;
mod operations;
mod parts;
mod rank_end;
mod solo;
pub mod tcp;
pub mod threads;
mod timeout;
mod watch;

pub use algorithm::Algorithm;
pub use comm::Comm;
pub use error::{CommError, CommErrorKind};
pub use exact::{MAX_EXACT_BLOCKS, SparseRows};
pub use flight::{FLIGHT_RECORD_LEN, Outcome, Recorded};
pub use launch::{Launch, Launcher};
pub use op::{Call, DataType, Op, OpKind, Reduction, Slice, SliceMut};
pub use timeout::Timeout;
pub use watch::Watch;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
