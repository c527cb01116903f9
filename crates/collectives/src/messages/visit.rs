//! The way of a mailbox to the others: to rank 0, and to the ranks that it names.

use super::event::{Limits, Member};
use super::hub::Hub;
use crate::error::CommErrorKind;
use crate::join::address::{connect, reachable};
use crate::join::attempt::join_rank_0;
use crate::join::config::TcpConfig;
use crate::join::hello::{Hello, Purpose, WorldKind};
use crate::join::introduction::introduce;
use crate::join::pending::PendingPeers;
use crate::join::response::Peer;
use crate::timeout::{Expiry, Timeout};
use std::sync::Arc;
use std::time::Duration;

/// Bounds of the time that one rank may hold up another that joins.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(300);
const LONGEST_PATIENCE: Duration = Duration::from_secs(5);

/// Ranks above 0: comes to rank 0, and connects to the ranks that it names.
pub(super) fn visit(
    config: &TcpConfig,
    limits: Limits,
) -> Result<(Arc<Hub>, PendingPeers), CommErrorKind> {
    let expiry = Expiry::of(config.timeout);
    let joined = join_rank_0(config, WorldKind::Mailboxes)?;
    let host_address = joined.stream.peer_addr().ok();
    let hub = Hub::new(config, limits, joined.accepted.id);
    let host = Member {
        rank: 0,
        generation: joined.accepted.host,
    };
    hub.connect(host, joined.stream);
    for mut peer in joined.accepted.peers {
        peer.address = reachable(peer.address, host_address);
        dial(&hub, peer, patience(expiry));
    }
    Ok((hub, joined.pending))
}

/// Longest time that reaching one of several ranks may take: those before it may have used up the
/// time of the whole.
fn patience(expiry: Expiry) -> Duration {
    let left = expiry.left().unwrap_or_default();
    left.clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE)
}

/// Connects to a rank that came before this one, or reports that it is not reached.
fn dial(hub: &Arc<Hub>, peer: Peer, patience: Duration) {
    let Peer {
        rank,
        generation,
        address,
    } = peer;
    let member = Member { rank, generation };
    let purpose = Purpose::Mailbox {
        generation: hub.generation,
        to: rank,
    };
    let hello = Hello::from_config(&hub.config, purpose);
    let expiry = Expiry::of(Timeout::after(patience));
    let dialed = connect(&address, expiry).and_then(|stream| {
        let secret = hub.config.secret.as_ref();
        introduce(hello, &stream, secret, expiry).map(|()| stream)
    });
    match dialed {
        Ok(stream) => hub.connect(member, stream),
        Err(error) => {
            let why = format!("it is not to be reached at {address}: {error}");
            hub.not_reached(member, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_before_do_not_use_up_the_time_of_a_dial() {
        let left = |left| patience(Expiry::of(Timeout::after(left)));
        assert_eq!(left(Duration::ZERO), SHORTEST_PATIENCE);
        assert_eq!(left(2 * LONGEST_PATIENCE), LONGEST_PATIENCE);
    }
}
