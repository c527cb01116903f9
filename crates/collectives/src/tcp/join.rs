//! How processes become a world: all come to rank 0, which compares what they say and tells them where the others are.

use super::TcpConfig;
use super::control::Whereabouts;
use super::decline;
use super::intro::{Intro, Lobby, PROTOCOL, Purpose, introduce, read_some};
use super::mesh::is_itself;
use crate::bytes::{Reader, put_text};
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::op::OpKind;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Between two looks at sockets while processes gather.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// Between two attempts to reach rank 0.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How much longer than rank 0 the others wait for its verdict.
const VERDICT_GRACE: Duration = Duration::from_secs(1);
const MAX_VERDICT_LEN: usize = 64 << 10;

/// What a process knows once all have gathered.
pub(super) struct Gathered {
    pub(super) world: u64,
    pub(super) whereabouts: Whereabouts,
    /// Rank 0: the connection of every other rank. Others: the connection to rank 0.
    pub(super) joined: Vec<Option<TcpStream>>,
}

/// Why there will be no world, as rank 0 tells it.
#[derive(Debug)]
enum Refusal {
    Launch(String),
    Missing(Vec<u32>),
    Lost(u32),
}

impl Refusal {
    fn error(self, after: Duration) -> CommErrorKind {
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

    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Refusal::Launch(what) => {
                body.push(1);
                put_text(what, &mut body);
            }
            Refusal::Missing(ranks) => {
                body.push(2);
                body.extend((ranks.len() as u32).to_le_bytes());
                ranks
                    .iter()
                    .for_each(|rank| body.extend(rank.to_le_bytes()));
            }
            Refusal::Lost(rank) => {
                body.push(3);
                body.extend(rank.to_le_bytes());
            }
        }
        body
    }
}

/// What rank 0 answers.
type Verdict = Result<(u64, Vec<SocketAddr>), Refusal>;

fn verdict_bytes(verdict: &Verdict) -> Vec<u8> {
    let body = match verdict {
        Ok((world, addresses)) => {
            let mut body = vec![0];
            body.extend(world.to_le_bytes());
            body.extend((addresses.len() as u32).to_le_bytes());
            for address in addresses {
                put_text(&address.to_string(), &mut body);
            }
            body
        }
        Err(refusal) => refusal.bytes(),
    };
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

fn verdict_of(body: &[u8]) -> Option<Verdict> {
    let mut reader = Reader(body);
    Some(match reader.u8()? {
        0 => {
            let world = reader.u64()?;
            let n = reader.u32()?;
            let addresses = (0..n).map(|_| reader.text()?.parse().ok());
            Ok((world, addresses.collect::<Option<Vec<_>>>()?))
        }
        1 => Err(Refusal::Launch(reader.text()?)),
        2 => {
            let n = reader.u32()?;
            let missing = (0..n).map(|_| reader.u32()).collect::<Option<_>>();
            Err(Refusal::Missing(missing?))
        }
        3 => Err(Refusal::Lost(reader.u32()?)),
        _ => return None,
    })
}

fn own_intro(config: &TcpConfig, port: u16) -> Intro {
    Intro {
        protocol: PROTOCOL,
        version: config.version.clone(),
        job: config.job.clone(),
        purpose: Purpose::Join { port },
        rank: config.rank,
        size: config.size,
    }
}

/// What of two introductions cannot be in one world.
fn disagreement(mine: &Intro, theirs: &Intro) -> Option<String> {
    let (a, b) = (mine.rank, theirs.rank);
    if (mine.protocol, &mine.version) != (theirs.protocol, &theirs.version) {
        return Some(format!(
            "rank {a} runs version {} (protocol {}), rank {b} version {} (protocol {}): start the same program everywhere",
            mine.version, mine.protocol, theirs.version, theirs.protocol
        ));
    }
    if mine.size != theirs.size {
        return Some(format!(
            "rank {a} was told that there are {} ranks, rank {b} that there are {}: give all the same number",
            mine.size, theirs.size
        ));
    }
    (b == 0 || b >= mine.size).then(|| {
        format!(
            "a process says that it is rank {b}, but that is {}: give each process its own number below {}",
            if b == 0 { "another process" } else { "too high" },
            mine.size
        )
    })
}

/// Rank 0: waits for all others.
pub(super) fn host(
    config: &TcpConfig,
    listener: TcpListener,
) -> Result<Result<Gathered, CommErrorKind>, io::Error> {
    let own_address = listener.local_addr()?;
    let lobby = Lobby::new(listener)?;
    let mut guests: Vec<Option<(TcpStream, u16)>> = Vec::new();
    guests.resize_with(config.size as usize, || None);
    let verdict = wait_for_all(config, &lobby, &mut guests)
        .and_then(|()| addresses(own_address, &guests).map_err(Refusal::Launch))
        .map(|addresses| (RandomState::new().hash_one(config.size), addresses));
    let bytes = verdict_bytes(&verdict);
    for guest in guests.iter().flatten() {
        // Who cannot be told sees the connection close.
        let _ = (&guest.0).write_all(&bytes);
    }
    Ok(match verdict {
        Ok((world, addresses)) => Ok(Gathered {
            world,
            whereabouts: Whereabouts {
                lobby: Arc::new(lobby),
                addresses,
            },
            joined: guests
                .into_iter()
                .map(|guest| guest.map(|(stream, _)| stream))
                .collect(),
        }),
        Err(refusal) => Err(refusal.error(config.deadline.duration())),
    })
}

fn wait_for_all(
    config: &TcpConfig,
    lobby: &Lobby,
    guests: &mut [Option<(TcpStream, u16)>],
) -> Result<(), Refusal> {
    let own = own_intro(config, 0);
    let joins = |intro: &Intro| matches!(intro.purpose, Purpose::Join { .. } | Purpose::Decline);
    let expiry = Expiry::of(config.deadline);
    loop {
        while let Some((intro, stream)) = lobby.take(joins) {
            admit(&own, &intro, stream, guests)?;
        }
        for (rank, guest) in (0u32..).zip(guests.iter()) {
            if guest.as_ref().is_some_and(|(stream, _)| has_ended(stream)) {
                return Err(Refusal::Lost(rank));
            }
        }
        let missing = (1..config.size).filter(|&rank| guests[rank as usize].is_none());
        let missing: Vec<u32> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        if expiry.left().is_none() {
            return Err(Refusal::Missing(missing));
        }
        thread::sleep(PAUSE);
    }
}

/// A process of another job is sent away and changes nothing here; one of this job that does not fit ends the gathering.
fn admit(
    own: &Intro,
    intro: &Intro,
    stream: TcpStream,
    guests: &mut [Option<(TcpStream, u16)>],
) -> Result<(), Refusal> {
    let refuse = |what: &str| {
        let bytes = verdict_bytes(&Err(Refusal::Launch(what.to_string())));
        let _ = (&stream).write_all(&bytes);
    };
    if intro.job != own.job {
        refuse(&format!(
            "rank 0 at this address belongs to job `{}`, this process to job `{}`: give each job an address and port of its own",
            own.job, intro.job
        ));
        return Ok(());
    }
    let Purpose::Join { port } = intro.purpose else {
        let reason = decline::hear(&stream);
        return Err(Refusal::Launch(decline::sentence(intro.rank, &reason)));
    };
    if let Some(what) = disagreement(own, intro) {
        refuse(&what);
        return Err(Refusal::Launch(what));
    }
    let place = &mut guests[intro.rank as usize];
    if let Some((first, _)) = place {
        let name = |stream: &TcpStream| stream.peer_addr().map(|address| address.ip().to_string());
        let (first, second) = (name(first), name(&stream));
        let what = format!(
            "two processes say that they are rank {} (one at {}, one at {}): give each process its own number",
            intro.rank,
            first.unwrap_or_default(),
            second.unwrap_or_default()
        );
        refuse(&what);
        return Err(Refusal::Launch(what));
    }
    *place = Some((stream, port));
    Ok(())
}

/// Whether the other side has closed the connection.
fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

fn addresses(
    own: SocketAddr,
    guests: &[Option<(TcpStream, u16)>],
) -> Result<Vec<SocketAddr>, String> {
    let address = |guest: &Option<(TcpStream, u16)>| match guest {
        None => Ok(own),
        Some((stream, port)) => Ok(SocketAddr::new(stream.peer_addr()?.ip(), *port)),
    };
    let all: io::Result<Vec<SocketAddr>> = guests.iter().map(address).collect();
    all.map_err(|error| format!("the address of a rank is not known: {error}"))
}

/// Ranks above 0: goes to rank 0 and waits for its verdict.
pub(super) fn visit(config: &TcpConfig) -> Result<Result<Gathered, CommErrorKind>, io::Error> {
    let expiry = Expiry::of(config.deadline);
    let after = config.deadline.duration();
    let mut last_refusal = "no attempt was made".to_string();
    while expiry.left().is_some() {
        let attempt = connect_to_host(config, expiry).and_then(|stream| ask(config, stream));
        match attempt {
            Ok(Some((_, Err(refusal)))) => return Ok(Err(refusal.error(after))),
            Ok(Some((visit, Ok((world, addresses))))) => {
                return Ok(Ok(visit.gathered(config, world, addresses)));
            }
            // Rank 0 was there and has gone without a word: an older process of its number, perhaps.
            Ok(None) => last_refusal = "it closed the connection".to_string(),
            Err(error) => last_refusal = error.to_string(),
        }
        thread::sleep(RETRY_PAUSE);
    }
    Ok(Err(CommErrorKind::PeerLost {
        rank: Some(0),
        op: OpKind::Join,
        seq: 0,
        why: format!(
            "it was not to be reached at {}:{} within {after:?}: {last_refusal}",
            config.master_addr, config.master_port
        ),
    }))
}

/// A process that has been to rank 0.
struct Visit {
    stream: TcpStream,
    lobby: Lobby,
}

impl Visit {
    /// An address on the loopback interface of rank 0's host means that host, which this process may see under another address.
    fn gathered(self, config: &TcpConfig, world: u64, mut addresses: Vec<SocketAddr>) -> Gathered {
        if let Ok(host) = self.stream.peer_addr() {
            addresses[0] = host;
            for address in &mut addresses {
                if address.ip().is_loopback() || address.ip().is_unspecified() {
                    address.set_ip(host.ip());
                }
            }
        }
        let mut joined: Vec<Option<TcpStream>> = Vec::new();
        joined.resize_with(config.size as usize, || None);
        joined[0] = Some(self.stream);
        let lobby = Arc::new(self.lobby);
        Gathered {
            world,
            whereabouts: Whereabouts { lobby, addresses },
            joined,
        }
    }
}

pub(crate) fn connect_to_host(config: &TcpConfig, expiry: Expiry) -> io::Result<TcpStream> {
    let mut refusal = io::Error::other("the name has no address");
    for address in (config.master_addr.as_str(), config.master_port).to_socket_addrs()? {
        let patience = expiry.left().unwrap_or(PAUSE).min(Duration::from_secs(5));
        match connect(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// A connection to somebody else.
pub(crate) fn connect(address: &SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, patience)?;
    match is_itself(&stream) {
        true => Err(io::Error::other("nobody listens there")),
        false => Ok(stream),
    }
}

/// `None` if the connection closes before the verdict.
fn ask(config: &TcpConfig, stream: TcpStream) -> io::Result<Option<(Visit, Verdict)>> {
    let lobby = own_lobby(config, &stream)?;
    // Rank 0 began to wait before this connection, and ends within its deadline.
    let patience = Deadline::after(config.deadline.duration() + VERDICT_GRACE);
    let expiry = Expiry::of(patience);
    introduce(&stream, &own_intro(config, lobby.port()?), expiry)?;
    let visit = Visit { stream, lobby };
    let Some(head) = read_exact(&visit.stream, 4, expiry)? else {
        return Ok(None);
    };
    let len = Reader(&head).u32().unwrap_or_default() as usize;
    if len > MAX_VERDICT_LEN {
        return Err(io::Error::other("something else listens there"));
    }
    let body = read_exact(&visit.stream, len, expiry)?;
    let verdict = body.and_then(|body| verdict_of(&body));
    let fits = |verdict: &Verdict| match verdict {
        Ok((_, addresses)) => addresses.len() == config.size as usize,
        Err(_) => true,
    };
    Ok(verdict.filter(fits).map(|verdict| (visit, verdict)))
}

/// Where a rank above 0 waits for the others, of whom it will be told by rank 0 at the other end of `stream`.
pub(crate) fn own_lobby(config: &TcpConfig, stream: &TcpStream) -> io::Result<Lobby> {
    let is_ipv6 = stream.local_addr()?.is_ipv6();
    let ip = match (names_loopback(&config.master_addr), is_ipv6) {
        (true, false) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        (true, true) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        (false, false) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (false, true) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Lobby::new(TcpListener::bind((ip, 0))?)
}

/// `None` if the connection ends before `n` bytes have come.
pub(crate) fn read_exact(
    stream: &TcpStream,
    n: usize,
    expiry: Expiry,
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while bytes.len() < n {
        let wanted = n - bytes.len();
        match read_some(stream, wanted, &mut bytes) {
            Ok(true) => {}
            Ok(false) if expiry.left().is_none() => {
                return Err(io::Error::other("it did not answer in time"));
            }
            Ok(false) => thread::sleep(PAUSE),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// Where rank 0 listens: on the loopback interface if that is what its address says, else on all, because the name may lead elsewhere here
/// than on other hosts.
pub(crate) fn listen(config: &TcpConfig) -> io::Result<TcpListener> {
    let mut found = (config.master_addr.as_str(), config.master_port).to_socket_addrs()?;
    let first = found
        .next()
        .ok_or_else(|| io::Error::other("the name has no address"))?;
    let ip = match first.ip() {
        ip if names_loopback(&config.master_addr) => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    TcpListener::bind((ip, config.master_port))
}

fn names_loopback(name: &str) -> bool {
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    name == "localhost" || name.parse().is_ok_and(is_loopback)
}
