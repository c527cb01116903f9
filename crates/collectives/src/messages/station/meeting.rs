//! How a process joins: what it says to rank 0 and what rank 0 answers.

use super::{FIRST, Hub, Station};
use crate::bytes::{Reader, put_text};
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::messages::Limits;
use crate::messages::inbox::Inbox;
use crate::op::OpKind;
use crate::tcp::TcpConfig;
use crate::tcp::intro::{Intro, Lobby, PROTOCOL, Purpose, introduce};
use crate::tcp::join::{self, RETRY_PAUSE, read_exact};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long one process that joins may hold up rank 0, or another one it.
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// What rank 0 answers.
enum Answer {
    Welcome {
        generation: u64,
        others: Vec<(u32, u64, SocketAddr)>,
    },
    Refused(String),
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Answer::Welcome { generation, others } => {
                body.push(0);
                body.extend(generation.to_le_bytes());
                body.extend((others.len() as u32).to_le_bytes());
                for (rank, generation, address) in others {
                    body.extend(rank.to_le_bytes());
                    body.extend(generation.to_le_bytes());
                    put_text(&address.to_string(), &mut body);
                }
            }
            Answer::Refused(why) => {
                body.push(1);
                put_text(why, &mut body);
            }
        }
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(body);
        bytes
    }

    fn of(body: &[u8]) -> Option<Answer> {
        let mut reader = Reader(body);
        match reader.u8()? {
            0 => {
                let (generation, n) = (reader.u64()?, reader.u32()?);
                let mut other =
                    || Some((reader.u32()?, reader.u64()?, reader.text()?.parse().ok()?));
                let others = (0..n).map(|_| other()).collect::<Option<_>>()?;
                Some(Answer::Welcome { generation, others })
            }
            1 => reader.text().map(Answer::Refused),
            _ => None,
        }
    }
}

/// Rank 0: answers a process that wants to join.
pub(super) fn receive(hub: &Arc<Hub>, intro: &Intro, stream: TcpStream) {
    let (rank, Ok(peer)) = (intro.rank, stream.peer_addr()) else {
        return;
    };
    if let Some(why) = disagreement(&hub.config, intro) {
        // Who cannot be told sees the connection close.
        let _ = answer(&stream, &Answer::Refused(why));
        return;
    }
    let mut places = hub.lock();
    places.newest += 1;
    let generation = places.newest;
    let others = (0u32..)
        .zip(&places.ranks)
        .filter(|(other, place)| *other != rank && place.link.is_some());
    let others =
        others.filter_map(|(other, place)| Some((other, place.generation, place.address?)));
    let others = others.collect();
    drop(places);
    if answer(&stream, &Answer::Welcome { generation, others }).is_ok() {
        let address = SocketAddr::new(peer.ip(), intro.port);
        hub.connect((rank, generation), Some(address), stream);
    }
}

fn answer(stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = stream;
    writer.write_all(&answer.bytes())
}

/// What keeps a process from being one of these ranks.
fn disagreement(own: &TcpConfig, intro: &Intro) -> Option<String> {
    let rank = intro.rank;
    if intro.job != own.job {
        return Some(format!(
            "rank 0 at this address belongs to job `{}`, this process to job `{}`: give each job an address and port of its own",
            own.job, intro.job
        ));
    }
    if (intro.protocol, &intro.version) != (PROTOCOL, &own.version) {
        return Some(format!(
            "rank 0 runs version {} (protocol {PROTOCOL}), rank {rank} version {} (protocol {}): start the same program everywhere",
            own.version, intro.version, intro.protocol
        ));
    }
    (intro.size != own.size || rank == 0 || rank >= own.size).then(|| {
        format!(
            "a process says that it is rank {rank} of {}, rank 0 counts {} ranks: give each process a number of its own from 1 to {}",
            intro.size,
            own.size,
            own.size - 1
        )
    })
}

/// Ranks above 0: comes to rank 0, and connects to those whom it names.
pub(super) fn visit(
    config: &TcpConfig,
    limits: Limits,
) -> Result<(Station, Arc<Inbox>), CommErrorKind> {
    let expiry = Expiry::of(config.deadline);
    let mut last = "no attempt was made".to_string();
    while expiry.left().is_some() {
        match ask(config, expiry) {
            Ok((_, _, Answer::Refused(what))) => return Err(CommErrorKind::Launch { what }),
            Ok((host, lobby, Answer::Welcome { generation, others })) => {
                let hub = Hub::new(config, limits, generation);
                let at = host.peer_addr();
                hub.connect((0, FIRST), None, host);
                for (rank, theirs, address) in others {
                    dial(
                        &hub,
                        (rank, theirs),
                        reachable(address, at.as_ref().ok()),
                        expiry,
                    );
                }
                return Station::start(hub, lobby);
            }
            Err(error) => last = error.to_string(),
        }
        thread::sleep(RETRY_PAUSE);
    }
    Err(CommErrorKind::PeerLost {
        rank: Some(0),
        op: OpKind::Join,
        seq: 0,
        why: format!(
            "it was not to be reached at {}:{} within {:?}: {last}",
            config.master_addr,
            config.master_port,
            config.deadline.duration()
        ),
    })
}

/// An address on the loopback interface of rank 0's host means that host.
fn reachable(mut address: SocketAddr, host: Option<&SocketAddr>) -> SocketAddr {
    if let Some(host) = host.filter(|_| address.ip().is_loopback()) {
        address.set_ip(host.ip());
    }
    address
}

fn ask(config: &TcpConfig, expiry: Expiry) -> io::Result<(TcpStream, Lobby, Answer)> {
    let stream = join::connect_to_host(config, expiry)?;
    let lobby = join::own_lobby(config, &stream)?;
    introduce(&stream, &intro(config, 0, lobby.port()?), expiry)?;
    let ended = || io::Error::other("it closed the connection");
    let head = read_exact(&stream, 4, expiry)?.ok_or_else(ended)?;
    let len = Reader(&head).u32().unwrap_or_default() as usize;
    if len > MAX_ANSWER_BYTES {
        return Err(io::Error::other("something else listens there"));
    }
    let body = read_exact(&stream, len, expiry)?.ok_or_else(ended)?;
    let answer = Answer::of(&body).filter(|answer| match answer {
        Answer::Refused(_) => true,
        Answer::Welcome { others, .. } => others.iter().all(|(rank, ..)| *rank < config.size),
    });
    let answer = answer.ok_or_else(|| io::Error::other("something else listens there"))?;
    Ok((stream, lobby, answer))
}

fn intro(config: &TcpConfig, generation: u64, port: u16) -> Intro {
    Intro {
        protocol: PROTOCOL,
        version: config.version.clone(),
        job: config.job.clone(),
        purpose: Purpose::Message,
        world: generation,
        rank: config.rank,
        size: config.size,
        port,
    }
}

/// Connects to a rank that came before this one.
fn dial(hub: &Arc<Hub>, who: (u32, u64), address: SocketAddr, expiry: Expiry) {
    let patience = expiry
        .left()
        .unwrap_or_default()
        .clamp(Duration::from_millis(1), PATIENCE);
    let dialed = TcpStream::connect_timeout(&address, patience).and_then(|stream| {
        let expiry = Expiry::of(Deadline::after(PATIENCE));
        // The port may have another owner by now.
        let wanted = who.0 as u16;
        introduce(&stream, &intro(&hub.config, hub.generation, wanted), expiry)?;
        Ok(stream)
    });
    match dialed {
        Ok(stream) => hub.connect(who, None, stream),
        Err(error) => hub.not_reached(
            who,
            format!("it is not to be reached at {address}: {error}"),
        ),
    }
}
