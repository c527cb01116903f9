//! Gathering of the ranks of a communicator: all come to rank 0, which compares what they say and
//! tells them where the others are.

use super::world::AddressTable;
use crate::codec::POLL_PAUSE;
use crate::error::{CommErrorKind, refused};
use crate::join::address::reachable;
use crate::join::attempt::join_rank_0;
use crate::join::config::TcpConfig;
use crate::join::decline;
use crate::join::hello::{Hello, JoinMismatch, Purpose, WorldKind};
use crate::join::pending::PendingPeers;
use crate::join::response::{Accepted, JoinResponse, Peer, Refusal};
use crate::timeout::Expiry;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Time for which a rank 0 whose world does not gather stays for ranks that are still starting.
const LATE_GRACE: Duration = Duration::from_secs(3);

/// Knowledge of a process once all have gathered.
pub(super) struct Gathered {
    pub(super) world: u64,
    pub(super) table: AddressTable,
    /// Rank 0: the connection of every other rank. Others: the connection to rank 0.
    pub(super) controls: Vec<Option<TcpStream>>,
}

/// A process that has come to rank 0.
struct Arrival {
    stream: TcpStream,
    address: SocketAddr,
}

/// Rank 0: waits for all others.
pub(super) fn host(config: &TcpConfig, listener: TcpListener) -> Result<Gathered, CommErrorKind> {
    let own_address = listener.local_addr().map_err(refused)?;
    let pending = PendingPeers::new(listener, config.secret.clone()).map_err(refused)?;
    let mut arrivals: Vec<Option<Arrival>> = Vec::new();
    arrivals.resize_with(config.size as usize, || None);
    let outcome = wait_for_all(config, &pending, &mut arrivals);
    let world = RandomState::new().hash_one(config.size);
    let peers = (0u32..).zip(&arrivals).filter_map(|(rank, arrival)| {
        Some(Peer {
            rank,
            generation: 0,
            address: arrival.as_ref()?.address,
        })
    });
    let peers: Vec<Peer> = peers.collect();
    let response = match &outcome {
        Ok(()) => JoinResponse::Accepted(Accepted {
            id: world,
            host: 0,
            peers: peers.clone(),
        }),
        Err(refusal) => JoinResponse::Refused(refusal.clone()),
    };
    for arrival in arrivals.iter().flatten() {
        // One that cannot be told sees the connection close.
        let _ = response.send(&arrival.stream);
    }
    if let Err(refusal @ (Refusal::Lost(_) | Refusal::Launch(_))) = &outcome {
        tell_late(config, &pending, &arrivals, refusal);
    }
    outcome.map_err(|refusal| refusal.error(config.timeout.duration()))?;
    let addresses = std::iter::once(own_address).chain(peers.iter().map(|peer| peer.address));
    Ok(Gathered {
        world,
        table: AddressTable {
            pending,
            addresses: addresses.collect(),
        },
        controls: arrivals
            .into_iter()
            .map(|arrival| arrival.map(|arrival| arrival.stream))
            .collect(),
    })
}

fn wait_for_all(
    config: &TcpConfig,
    pending: &PendingPeers,
    arrivals: &mut [Option<Arrival>],
) -> Result<(), Refusal> {
    let joins = |hello: &Hello| {
        matches!(
            hello.purpose,
            Purpose::Join { .. } | Purpose::Decline { .. }
        )
    };
    let expiry = Expiry::of(config.timeout);
    loop {
        while let Some((hello, stream)) = pending.take(joins) {
            admit(config, &hello, stream, arrivals)?;
        }
        for (rank, arrival) in (0u32..).zip(arrivals.iter()) {
            if arrival
                .as_ref()
                .is_some_and(|arrival| has_ended(&arrival.stream))
            {
                return Err(Refusal::Lost(rank));
            }
        }
        let missing = (1..config.size).filter(|&rank| arrivals[rank as usize].is_none());
        let missing: Vec<u32> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        if expiry.left().is_none() {
            return Err(Refusal::Missing(missing));
        }
        thread::sleep(POLL_PAUSE);
    }
}

/// Stays for the ranks that had not come when the gathering failed: without rank 0 they would look
/// for it until their time is over.
fn tell_late(
    config: &TcpConfig,
    pending: &PendingPeers,
    arrivals: &[Option<Arrival>],
    refusal: &Refusal,
) {
    let response = JoinResponse::Refused(refusal.clone());
    let mut has_heard: Vec<bool> = arrivals.iter().map(Option::is_some).collect();
    has_heard[0] = true;
    let expiry = Expiry::of(config.timeout).within(LATE_GRACE);
    while has_heard.contains(&false) && expiry.left().is_some() {
        while let Some((hello, stream)) = pending.take(|_| true) {
            if Hello::mismatch(config, &hello).is_none() {
                has_heard[hello.rank as usize] |= response.send(&stream).is_ok();
            }
        }
        thread::sleep(POLL_PAUSE);
    }
}

/// A process of another job is sent away and changes nothing here; one of this job that does not
/// fit ends the gathering.
fn admit(
    config: &TcpConfig,
    hello: &Hello,
    stream: TcpStream,
    arrivals: &mut [Option<Arrival>],
) -> Result<(), Refusal> {
    let refuse = |what: String| {
        // One that cannot be told sees the connection close.
        let _ = JoinResponse::refused(what.clone()).send(&stream);
        what
    };
    let mismatch = Hello::mismatch(config, hello);
    if let Some(JoinMismatch::OtherJob(what)) = mismatch {
        refuse(what);
        return Ok(());
    }
    if let Purpose::Decline { reason } = &hello.purpose {
        decline::acknowledge(&stream);
        return Err(Refusal::Launch(decline::sentence(hello.rank, reason)));
    }
    let Some(port) = port_of(hello) else {
        refuse("the ranks at this address are no mailboxes: start the same command".to_string());
        return Ok(());
    };
    if let Some(JoinMismatch::SameJob(what)) = mismatch {
        return Err(Refusal::Launch(refuse(what)));
    }
    let Ok(peer) = stream.peer_addr() else {
        return Ok(()); // it has ended already
    };
    let slot = &mut arrivals[hello.rank as usize];
    if let Some(first) = slot {
        return Err(Refusal::Launch(refuse(format!(
            "two processes say that they are rank {} (one at {}, one at {}): give each process its own number",
            hello.rank,
            first.address.ip(),
            peer.ip()
        ))));
    }
    *slot = Some(Arrival {
        stream,
        address: SocketAddr::new(peer.ip(), port),
    });
    Ok(())
}

/// Port of a process that wants to be a rank of a communicator.
fn port_of(hello: &Hello) -> Option<u16> {
    match hello.purpose {
        Purpose::Join {
            kind: WorldKind::Comm,
            port,
        } => Some(port),
        _ => None,
    }
}

/// True where the other side has closed the connection.
fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Ranks above 0: goes to rank 0 and waits for its response.
pub(super) fn visit(config: &TcpConfig) -> Result<Gathered, CommErrorKind> {
    let joined = join_rank_0(config, WorldKind::Comm)?;
    let host = joined.stream.peer_addr().map_err(refused)?;
    let mut addresses = vec![host; config.size as usize];
    for peer in &joined.accepted.peers {
        addresses[peer.rank as usize] = reachable(peer.address, Some(host));
    }
    let mut controls: Vec<Option<TcpStream>> = Vec::new();
    controls.resize_with(config.size as usize, || None);
    controls[0] = Some(joined.stream);
    Ok(Gathered {
        world: joined.accepted.id,
        table: AddressTable {
            pending: joined.pending,
            addresses,
        },
        controls,
    })
}
