//! The answer of rank 0 to a process that wants to join.

use crate::codec;
use crate::error::CommErrorKind;
use crate::op::OpKind;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::hello::send_within;
use super::secret::Challenge;

pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// No clock gives generations from here on, and none is accepted: there is room above every other
/// one for all ranks that will ever join.
pub(crate) const NO_GENERATION: u64 = 1 << 62;

/// A new connection has room for a response; a process that reads nothing holds up rank 0 no longer
/// than this.
const SEND_TIMEOUT: Duration = Duration::from_millis(300);

/// Answer of rank 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JoinResponse {
    Accepted(Accepted),
    Refused(Refusal),
    /// To a hello with a nonce, before anything else.
    Challenge(Challenge),
}

/// Facts that a process needs to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    /// The number of the world, or the generation of the mailbox.
    pub(crate) id: u64,
    /// Generation of rank 0 among mailboxes.
    pub(crate) host: u64,
    /// The other ranks that rank 0 knows.
    pub(crate) peers: Vec<Peer>,
}

/// A rank that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) rank: u32,
    pub(crate) generation: u64,
    pub(crate) address: SocketAddr,
}

/// Reason for which a process does not join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// What does not fit, or a process that takes no part.
    Launch(#[serde(serialize_with = "codec::short_text")] String),
    /// Ranks that did not come in time.
    Missing(Vec<u32>),
    /// A rank whose process ended while others were still coming.
    Lost(u32),
}

impl JoinResponse {
    pub(crate) fn refused(what: impl Into<String>) -> JoinResponse {
        JoinResponse::Refused(Refusal::Launch(what.into()))
    }

    /// A process that cannot be told sees its connection close.
    pub(crate) fn send(&self, stream: &TcpStream) -> io::Result<()> {
        send_within(stream, &codec::frame(self), SEND_TIMEOUT)
    }
}

impl Refusal {
    /// The error of joining, after a wait of `after` at most.
    pub(crate) fn error(self, after: Duration) -> CommErrorKind {
        let (op, seq) = (OpKind::Join, 0);
        match self {
            Refusal::Launch(what) => CommErrorKind::Launch { what },
            Refusal::Missing(missing) => CommErrorKind::Timeout {
                op,
                seq,
                after,
                missing,
            },
            Refusal::Lost(rank) => CommErrorKind::PeerLost {
                rank: Some(rank),
                op,
                seq,
                why: "its process ended while ranks were gathering".to_string(),
            },
        }
    }
}
