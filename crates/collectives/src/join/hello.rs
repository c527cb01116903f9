//! The first message on every connection, and the check that two processes fit together.

use super::config::TcpConfig;
use super::secret::Nonce;
use crate::codec;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Changes whenever bytes on the wire change their meaning.
pub(crate) const PROTOCOL: u32 = 6;

pub(crate) const MAX_HELLO_BYTES: usize = 8 << 10;

const MAGIC: [u8; 8] = *b"shrdgrph";

/// First message of a process on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    magic: [u8; 8],
    pub(crate) protocol: u32,
    /// The version of the program.
    #[serde(serialize_with = "codec::short_text")]
    pub(crate) version: String,
    #[serde(serialize_with = "codec::short_text")]
    pub(crate) job: String,
    /// The rank in the world of its purpose, or among the mailboxes.
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) purpose: Purpose,
    /// Of a process that has a secret.
    pub(crate) nonce: Option<Nonce>,
}

/// Purpose of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To rank 0: to join. `port` is where the process listens itself.
    Join { kind: WorldKind, port: u16 },
    /// To rank 0: the process takes no part.
    Decline {
        #[serde(serialize_with = "codec::short_text")]
        reason: String,
    },
    /// To another rank of a world.
    Data { world: u64 },
    /// To another rank of a world.
    Control { world: u64 },
    /// To another mailbox: the generation of the one that calls, and the rank that is meant, as its
    /// port may have another owner by now.
    Mailbox { generation: u64, to: u32 },
}

/// Kinds of worlds that processes join at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorldKind {
    /// Ranks of a communicator, which all come before any goes on.
    Comm,
    /// Mailboxes, which come and go.
    Mailboxes,
}

/// Reason for which a process cannot be one of these ranks.
#[derive(Debug)]
pub(crate) enum JoinMismatch {
    /// It belongs elsewhere, and changes nothing here.
    OtherJob(String),
    /// It was meant to be one of them.
    SameJob(String),
}

impl Hello {
    pub(crate) fn from_config(config: &TcpConfig, purpose: Purpose) -> Hello {
        Hello {
            version: config.version.clone(),
            job: config.job.clone(),
            ..Hello::in_world(config.rank, config.size, purpose)
        }
    }

    /// To a rank of the same world, of which the purpose says enough.
    pub(crate) fn in_world(rank: u32, size: u32, purpose: Purpose) -> Hello {
        Hello {
            magic: MAGIC,
            protocol: PROTOCOL,
            version: String::new(),
            job: String::new(),
            rank,
            size,
            purpose,
            nonce: None,
        }
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Hello> {
        codec::decode(body).filter(|hello: &Hello| hello.magic == MAGIC)
    }

    /// The mismatch of the process that says `theirs` with this one's world, if there is one.
    pub(crate) fn mismatch(config: &TcpConfig, theirs: &Hello) -> Option<JoinMismatch> {
        let (rank, size) = (theirs.rank, config.size);
        if theirs.job != config.job {
            return Some(JoinMismatch::OtherJob(format!(
                "rank 0 at this address belongs to job `{}`, this process to job `{}`: give each job an address and port of its own",
                config.job, theirs.job
            )));
        }
        if (theirs.protocol, &theirs.version) != (PROTOCOL, &config.version) {
            return Some(JoinMismatch::SameJob(format!(
                "rank 0 runs version {} (protocol {PROTOCOL}), rank {rank} version {} (protocol {}): start the same program everywhere",
                config.version, theirs.version, theirs.protocol
            )));
        }
        if theirs.nonce.is_some() && config.secret.is_none() {
            let why = "rank 0 has no secret: give all ranks the same SHARDGRAPH_SECRET, or none";
            return Some(JoinMismatch::SameJob(why.to_string()));
        }
        (theirs.size != size || rank == 0 || rank >= size).then(|| {
            JoinMismatch::SameJob(format!(
                "a process says that it is rank {rank} of {} ranks, rank 0 counts {size} ranks: give each process a number of its own from 1 to {}",
                theirs.size,
                size - 1
            ))
        })
    }
}

/// Writes a short message, for which a new connection has room, and lets the socket block no more.
pub(crate) fn send_within(
    mut stream: &TcpStream,
    bytes: &[u8],
    timeout: Duration,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_come_back_and_prefixes_do_not() {
        for purpose in [
            Purpose::Join {
                kind: WorldKind::Mailboxes,
                port: u16::MAX,
            },
            Purpose::Decline {
                reason: "no GPU".to_string(),
            },
            Purpose::Data { world: u64::MAX },
            Purpose::Control { world: 0 },
            Purpose::Mailbox {
                generation: 1 << 40,
                to: 63,
            },
        ] {
            let hello = Hello::in_world(5, 64, purpose);
            let body = codec::encode(&hello);
            assert_eq!(Hello::decode(&body), Some(hello));
            for len in 0..body.len() {
                assert_eq!(Hello::decode(&body[..len]), None, "{len}");
            }
        }
    }
}
