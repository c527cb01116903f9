//! The way of a mailbox to the others: at first, and back to another rank 0 in the place of one
//! that was lost.

use super::event::{Limits, Member};
use super::frame;
use super::hub::Hub;
use crate::error::CommErrorKind;
use crate::join::address::{connect, reachable};
use crate::join::attempt::{ask, join_rank_0};
use crate::join::config::TcpConfig;
use crate::join::hello::{Hello, Purpose, WorldKind, send_within};
use crate::join::introduction::introduce;
use crate::join::pending::PendingPeers;
use crate::join::response::{Accepted, JoinResponse, Peer};
use crate::timeout::{Expiry, Timeout};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that one rank may hold up another that joins.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time that a rank that looks for rank 0 may be held up: others that join wait meanwhile,
/// and so does its own end.
const GLANCE: Duration = Duration::from_millis(300);
/// Between two looks for a lost rank 0; twice as long each time after something that listens there
/// and takes no rank. With the longest pause and a glance a rank is back within a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Ranks above 0: comes to rank 0, and connects to the ranks that it names.
pub(super) fn visit(
    config: &TcpConfig,
    limits: Limits,
) -> Result<(Arc<Hub>, PendingPeers), CommErrorKind> {
    let expiry = Expiry::of(config.timeout);
    let joined = join_rank_0(config, WorldKind::Mailboxes)?;
    let hub = Hub::new(config, limits, joined.accepted.id);
    for peer in accept_host(&hub, joined.stream, joined.accepted) {
        if let Err(why) = dial(&hub, peer, patience(expiry)) {
            hub.not_reached(member(peer), why);
        }
    }
    Ok((hub, joined.pending))
}

fn member(peer: Peer) -> Member {
    Member {
        rank: peer.rank,
        generation: peer.generation,
    }
}

/// Takes the connection to rank 0. Gives the ranks that it names and that are not known.
fn accept_host(hub: &Arc<Hub>, stream: TcpStream, accepted: Accepted) -> Vec<Peer> {
    let at = stream.peer_addr().ok();
    // A clock that went back must not make the new rank 0 older than the one that was lost.
    let lost = hub.lost_host().map_or(0, |(_, generation)| generation);
    let host = Member {
        rank: 0,
        generation: accepted.host.max(lost + 1),
    };
    hub.connect(host, at, stream);
    let peers = accepted.peers.into_iter().map(|peer| Peer {
        address: reachable(peer.address, at),
        ..peer
    });
    peers.filter(|&peer| !hub.knows(member(peer))).collect()
}

/// Longest time that reaching one of several ranks may take: those before it may have used up the
/// time of the whole.
fn patience(expiry: Expiry) -> Duration {
    expiry.left().unwrap_or_default().clamp(GLANCE, PATIENCE)
}

/// The search for another rank 0 in the place of one that was lost.
pub(super) struct Reconnect {
    next: Expiry,
    pause: Duration,
}

impl Default for Reconnect {
    fn default() -> Reconnect {
        Reconnect {
            next: Expiry::of(Timeout::after(Duration::ZERO)),
            pause: SHORTEST_PAUSE,
        }
    }
}

impl Reconnect {
    /// Looks for another rank 0 where the lost one was, if it is time.
    pub(super) fn poll(&mut self, hub: &Arc<Hub>, pending: &PendingPeers) {
        let Some((address, _)) = hub.lost_host().filter(|_| self.next.left().is_none()) else {
            return;
        };
        let expiry = Expiry::of(Timeout::after(GLANCE));
        self.pause = match connect(&address, expiry) {
            // Nothing listens there yet.
            Err(_) => SHORTEST_PAUSE,
            Ok(stream) => match come_back(hub, pending, stream) {
                Ok(true) => SHORTEST_PAUSE,
                Ok(false) | Err(_) => LONGEST_PAUSE.min(2 * self.pause),
            },
        };
        self.next = Expiry::of(Timeout::after(self.pause));
    }
}

/// True where the rank 0 at the other end accepts this rank.
fn come_back(hub: &Arc<Hub>, pending: &PendingPeers, stream: TcpStream) -> io::Result<bool> {
    let purpose = Purpose::Join {
        kind: WorldKind::Mailboxes,
        port: pending.port()?,
        generation: Some(hub.generation),
    };
    let expiry = Expiry::of(Timeout::after(GLANCE));
    let Some(JoinResponse::Accepted(accepted)) = ask(&hub.config, &stream, purpose, expiry)? else {
        return Ok(false);
    };
    // Says to rank 0 that this rank has heard in time that it is accepted.
    send_within(&stream, &frame::keep_alive(), GLANCE)?;
    for peer in accept_host(hub, stream, accepted) {
        if hub.is_closing() {
            break;
        }
        // One that is not reached now has not been here, and is taken when it calls.
        let _ = dial(hub, peer, GLANCE);
    }
    Ok(true)
}

/// Connects to a rank that came before this one; or says why it is not reached.
fn dial(hub: &Arc<Hub>, peer: Peer, patience: Duration) -> Result<(), String> {
    let purpose = Purpose::Mailbox {
        generation: hub.generation,
        to: peer.rank,
    };
    let hello = Hello::from_config(&hub.config, purpose);
    let expiry = Expiry::of(Timeout::after(patience));
    let dialed = connect(&peer.address, expiry).and_then(|stream| {
        let secret = hub.config.secret.as_ref();
        introduce(hello, &stream, secret, expiry).map(|()| stream)
    });
    let address = peer.address;
    let stream =
        dialed.map_err(|error| format!("it is not to be reached at {address}: {error}"))?;
    hub.connect(member(peer), None, stream);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_before_do_not_use_up_the_time_of_a_dial() {
        let left = |left| patience(Expiry::of(Timeout::after(left)));
        assert_eq!(left(Duration::ZERO), GLANCE);
        assert_eq!(left(2 * PATIENCE), PATIENCE);
    }
}
