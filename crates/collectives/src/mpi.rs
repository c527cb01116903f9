//! Ranks as processes under an MPI launcher.
//!
//! The MPI library is opened at run time: nothing of MPI is needed to build, and its absence is an
//! error value. Any MPI with the standard binary interface of MPI 5.0 serves (`libmpi_abi.so.1`;
//! the package `mpich` of the Python index has it), and any other through the small library that
//! `cargo xtask mpi-shim` compiles with its `mpicc`. All tests pass under MPICH 5.0.2 of the Python
//! index, directly and through that library, and through it under Open MPI 4.1.4 and MPICH 4.0.2 of
//! Debian 12.
//!
//! Only non-blocking operations are used. A rank looks whether one is over, lets others have the
//! processor, and in the end sleeps between two looks; so each wait has its timeout, and more ranks
//! than cores do not hold each other up. Operations work on buffers of this module, and those that
//! were given up keep theirs for ever: MPI has no way to take a collective operation back.
//!
//! # Failures
//! Ranks tell each other of errors, panics and departures in messages beside the operations, as
//! [`threads`](crate::threads) does. A process that dies is the launcher's matter: it kills the
//! others, within a second. After a failure MPI is not ended in order; when the first process ends,
//! the launcher ends the job, ranks that hang included (under `srun` give `--kill-on-bad-exit=1`).
//!
//! When the last communicator of a process is dropped, it waits for the other processes to come to
//! the same point, for as long as the timeout of its last operation.
//!
//! # Determinism
//! The bits of every operation are those of [`threads`](crate::threads) with the same number of
//! ranks. MPI's own reductions do integers; `f32` is gathered and combined in rank order here.
//!
//! # Complexity
//! For P ranks and n bytes on each. Every operation begins with an all-gather of 64 bytes that
//! compares what the ranks ask for; a barrier is just that. An all-reduce of `f32` receives P * n
//! bytes, or in two operations about 2 * n: the [`Algorithm`](crate::Algorithm) says when. An
//! `AllToAllV` first all-gathers its counts, 16 * P bytes from each rank. Everything is copied once
//! into and once out of the module's buffers, which keep the capacity of the longest message.

#[expect(unsafe_code, reason = "the functions of MPI are C")]
pub(crate) mod ffi;
mod message;
mod rank;
mod session;

use crate::comm::Comm;
use crate::error::CommError;
use crate::timeout::Timeout;
use std::path::Path;

/// Starts MPI in this process and returns the communicator of all ranks; each rank must have come
/// within `timeout`. Without a `library` it is the one that the loader of the system finds, else
/// one with the standard interface or one that `cargo xtask mpi-shim` made.
///
/// MPI can be started once in a process, and not again after it has ended. Without a launcher this
/// is a world of one; so is each process whose library belongs to another MPI than the launcher:
/// compare [`Comm::size`] with the number that was asked for.
///
/// # Errors
/// [`CommErrorKind::MissingLibrary`](crate::CommErrorKind::MissingLibrary) where there is no such
/// library; [`CommErrorKind::Backend`](crate::CommErrorKind::Backend) where it is no MPI with the
/// standard interface, MPI has been started already, or the ranks did not come in time.
///
/// ```
/// use shardgraph_collectives::{CommErrorKind, Timeout, mpi};
/// use std::path::Path;
///
/// let absent = mpi::init_within(Some(Path::new("/no/such/libmpi_abi.so.1")), Timeout::default());
/// let error = absent.unwrap_err();
/// assert!(matches!(error.kind(), CommErrorKind::MissingLibrary { .. }));
/// assert!(error.to_string().contains("pip install mpich"));
/// ```
pub fn init_within(library: Option<&Path>, timeout: Timeout) -> Result<Comm, CommError> {
    let library = library.unwrap_or(Path::new(ffi::STANDARD_NAME));
    let started = session::start(library.to_path_buf(), timeout);
    let (session, world) = started.map_err(|kind| CommError::new(kind, [].iter()))?;
    Ok(Comm::over(Box::new(rank::Rank::new(session, world))))
}
