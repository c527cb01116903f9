//! The way of a process to rank 0.

use super::address::{connect_to_rank_0, listen_beside};
use super::config::TcpConfig;
use super::hello::{Hello, Purpose, WorldKind};
use super::introduction::introduce;
use super::pending::PendingPeers;
use super::response::{Accepted, JoinResponse, MAX_RESPONSE_BYTES, NO_GENERATION, Peer, Refusal};
use crate::codec::{self, FrameReader};
use crate::error::CommErrorKind;
use crate::op::OpKind;
use crate::timeout::{Expiry, Timeout};
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Between two attempts to reach rank 0.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Time that the others wait longer than rank 0 for its response.
const RESPONSE_GRACE: Duration = Duration::from_secs(1);
/// A rank 0 that closed the connection of a process that waits for its world, and cannot be reached
/// any more for this long, is lost.
const CLOSED_GRACE: Duration = Duration::from_millis(500);

/// A process that rank 0 has accepted.
pub(crate) struct Joined {
    /// The connection to rank 0.
    pub(crate) stream: TcpStream,
    /// Where the other ranks come to.
    pub(crate) pending: PendingPeers,
    pub(crate) accepted: Accepted,
}

/// Joins the world of rank 0: tries again until rank 0 answers or the time is over.
pub(crate) fn join_rank_0(config: &TcpConfig, kind: WorldKind) -> Result<Joined, CommErrorKind> {
    let after = config.timeout.duration();
    let expiry = Expiry::of(config.timeout);
    let mut last = "no attempt was made".to_string();
    let mut closed: Option<Expiry> = None;
    while expiry.left().is_some() && closed.is_none_or(|grace| grace.left().is_some()) {
        match attempt(config, kind, expiry) {
            Ok(Some(Ok(joined))) => return Ok(joined),
            Ok(Some(Err(refusal))) => return Err(refusal.error(after)),
            Ok(None) => {
                last = "it closed the connection".to_string();
                // Mailboxes wait for another rank 0 in its place.
                closed =
                    (kind == WorldKind::Comm).then(|| Expiry::of(Timeout::after(CLOSED_GRACE)));
            }
            Err(error) => last = error.to_string(),
        }
        thread::sleep(RETRY_PAUSE);
    }
    let (address, port) = (&config.master_addr, config.master_port);
    let why = match closed {
        Some(_) if expiry.left().is_some() => {
            format!("its process ended while ranks were gathering at {address}:{port}")
        }
        _ => format!("it was not to be reached at {address}:{port} within {after:?}: {last}"),
    };
    Err(CommErrorKind::PeerLost {
        rank: Some(0),
        op: OpKind::Join,
        seq: 0,
        why,
    })
}

/// `None` if the connection closed before the response.
fn attempt(
    config: &TcpConfig,
    kind: WorldKind,
    expiry: Expiry,
) -> io::Result<Option<Result<Joined, Refusal>>> {
    let stream = connect_to_rank_0(config, expiry)?;
    let pending = PendingPeers::new(listen_beside(config, &stream)?, config.secret.clone())?;
    let purpose = Purpose::Join {
        kind,
        port: pending.port()?,
    };
    // Rank 0 began to wait before this connection, and ends within its own time.
    let response_expiry = Expiry::of(Timeout::after(config.timeout.duration() + RESPONSE_GRACE));
    match ask(config, &stream, purpose, response_expiry)? {
        None => Ok(None),
        Some(JoinResponse::Accepted(accepted)) => Ok(Some(Ok(Joined {
            stream,
            pending,
            accepted,
        }))),
        Some(JoinResponse::Refused(refusal)) => Ok(Some(Err(refusal))),
        Some(JoinResponse::Challenge(_)) => Err(io::Error::other("something else listens there")),
    }
}

/// Says hello to rank 0 and waits for its response; `None` if the connection closes before.
pub(crate) fn ask(
    config: &TcpConfig,
    stream: &TcpStream,
    purpose: Purpose,
    expiry: Expiry,
) -> io::Result<Option<JoinResponse>> {
    let hello = Hello::from_config(config, purpose);
    match introduce(hello, stream, config.secret.as_ref(), expiry) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let why = format!("rank 0 at this address: {error}");
            return Ok(Some(JoinResponse::refused(why)));
        }
        Err(error) => return Err(error),
    }
    let stranger = || io::Error::other("something else listens there");
    match FrameReader::default().wait(stream, MAX_RESPONSE_BYTES, expiry) {
        Ok(body) => {
            let response = codec::decode(&body);
            let response = response.filter(|response| is_possible(config, response));
            response.map(Some).ok_or_else(stranger)
        }
        Err(error) => match error.kind() {
            io::ErrorKind::TimedOut => Err(io::Error::other("it did not answer in time")),
            io::ErrorKind::InvalidData => Err(stranger()),
            _ => Ok(None),
        },
    }
}

/// True for a response that a rank 0 of this world can have given.
fn is_possible(config: &TcpConfig, response: &JoinResponse) -> bool {
    match response {
        JoinResponse::Accepted(accepted) => {
            let is_rank = |peer: &Peer| peer.rank < config.size && peer.generation < NO_GENERATION;
            accepted.host < NO_GENERATION && accepted.peers.iter().all(is_rank)
        }
        JoinResponse::Refused(_) => true,
        JoinResponse::Challenge(_) => false,
    }
}
