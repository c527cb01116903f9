//! Configuration of a process that becomes a rank over TCP.

use super::address::is_loopback_name;
use super::secret::Secret;
use crate::error::CommErrorKind;
use crate::timeout::Timeout;
use std::io;

/// Largest number of ranks of a world: every pair has connections of its own.
pub const MAX_RANKS: u32 = 64;

/// Configuration of a process that becomes a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// The number of this rank, below `size`.
    pub rank: u32,
    /// The number of ranks, at most [`MAX_RANKS`].
    pub size: u32,
    /// The host of rank 0, by a name or number that all ranks can reach. On a name or number of the
    /// loopback interface rank 0 listens there only, else on all interfaces.
    pub master_addr: String,
    /// The port of rank 0 there.
    pub master_port: u16,
    /// The name of the job. A process of another job that comes to the same port is sent away.
    pub job: String,
    /// The version of the program, which must be the same on all ranks.
    pub version: String,
    /// Longest wait for the other ranks.
    pub timeout: Timeout,
    /// Secret of the job, on all ranks or none. Without one, everybody who reaches a rank's port can
    /// come as a rank.
    pub secret: Option<Secret>,
}

impl TcpConfig {
    /// True where the ranks meet on the loopback interface, which other hosts do not reach.
    #[must_use]
    pub fn is_local(&self) -> bool {
        is_loopback_name(&self.master_addr)
    }

    /// Compares the numbers.
    pub(crate) fn check(&self) -> Result<(), CommErrorKind> {
        let what = match (self.rank, self.size) {
            (_, 0) => "a world has at least one rank".to_string(),
            (rank, size) if rank >= size => format!(
                "this is rank {rank} of {size} ranks: ranks are numbered from 0 to {}",
                size - 1
            ),
            (_, size) if size > MAX_RANKS => format!(
                "{size} ranks were asked for: tcp connects every pair of ranks and takes at most {MAX_RANKS}"
            ),
            _ => return Ok(()),
        };
        Err(CommErrorKind::Launch { what })
    }

    pub(crate) fn cannot_listen(&self, error: &io::Error) -> CommErrorKind {
        CommErrorKind::Launch {
            what: format!(
                "rank 0 cannot listen on port {} for {}: {error} (if another rank 0 or program has the port, give this job another one)",
                self.master_port, self.master_addr
            ),
        }
    }
}
