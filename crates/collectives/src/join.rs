//! Joining over TCP: one protocol for the ranks of a communicator and for
//! mailboxes.
//!
//! ```text
//! process                                   rank 0
//!    | -- Hello { job, version, rank, Join } --> | PendingPeers
//!    |                                           | compares (JoinMismatch)
//!    | <- JoinResponse::{Accepted, Refused} ---- | at once (mailboxes), or when all have come (a communicator)
//!    | -- Hello { Data | Control | Mailbox } --> another rank, at the address that the response names
//! ```
//! Where the job has a secret, each hello is followed by a challenge and a proof (`secret`).

pub(crate) mod address;
pub(crate) mod attempt;
pub(crate) mod config;
pub(crate) mod decline;
pub(crate) mod hello;
pub(crate) mod introduction;
pub(crate) mod pending;
pub(crate) mod response;
pub(crate) mod secret;
