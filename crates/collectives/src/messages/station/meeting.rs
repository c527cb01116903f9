//! How a process joins: what it says to rank 0 and what rank 0 answers.

use super::{Hub, Station};
use crate::bytes::{Reader, put_text};
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::messages::inbox::Inbox;
use crate::messages::{Limits, frame};
use crate::op::OpKind;
use crate::tcp::TcpConfig;
use crate::tcp::decline;
use crate::tcp::intro::{Intro, Lobby, PROTOCOL, Purpose, introduce};
use crate::tcp::join::{self, RETRY_PAUSE, read_exact};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long one process that joins may hold up rank 0, or another one it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a rank that looks for rank 0 may be held up: others that join wait meanwhile, and so does its own end.
const GLANCE: Duration = Duration::from_millis(300);
/// How long rank 0 waits until one that comes back has heard that it is welcome.
const ASSENT_PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks for a lost rank 0; twice as long each time after something that listens there and takes nobody. With the longest and a glance
/// a rank is back within a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// No clock gives generations from here on, and none is accepted: there is room above every other one for all that will ever join.
const NO_GENERATION: u64 = 1 << 62;
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// What rank 0 answers.
enum Answer {
    Welcome {
        generation: u64,
        /// That of rank 0.
        host: u64,
        others: Vec<(u32, u64, SocketAddr)>,
    },
    Refused(String),
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Answer::Welcome {
                generation,
                host,
                others,
            } => {
                body.push(0);
                body.extend(generation.to_le_bytes());
                body.extend(host.to_le_bytes());
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
                let (generation, host, n) = (reader.u64()?, reader.u64()?, reader.u32()?);
                let mut other =
                    || Some((reader.u32()?, reader.u64()?, reader.text()?.parse().ok()?));
                let others = (0..n).map(|_| other()).collect::<Option<_>>()?;
                Some(Answer::Welcome {
                    generation,
                    host,
                    others,
                })
            }
            1 => reader.text().map(Answer::Refused),
            _ => None,
        }
    }
}

/// Rank 0: answers a process that wants to join, or to come back with the generation that an older rank 0 has given it.
pub(super) fn receive(
    hub: &Arc<Hub>,
    intro: &Intro,
    (known, port): (Option<u64>, u16),
    stream: TcpStream,
) {
    let (rank, Ok(peer)) = (intro.rank, stream.peer_addr()) else {
        return;
    };
    if let Some(why) = disagreement(&hub.config, intro) {
        // Who cannot be told sees the connection close.
        let _ = answer(&stream, &Answer::Refused(why.clone()));
        if is_of_this_job(&hub.config, intro) {
            hub.absent(rank, why);
        }
        return;
    }
    let (generation, welcome) = match hub.welcome(rank, known) {
        Ok(welcome) => welcome,
        Err(why) => {
            let _ = answer(&stream, &Answer::Refused(why));
            return;
        }
    };
    // Of those who come back only who is sure to be there: its generation is used up with that.
    if answer(&stream, &welcome).is_ok() && (known.is_none() || is_assenting(&stream)) {
        let address = SocketAddr::new(peer.ip(), port);
        hub.connect((rank, generation), Some(address), stream);
    }
}

/// Rank 0: hears why a process cannot take part.
pub(super) fn excuse(hub: &Arc<Hub>, intro: &Intro, stream: &TcpStream) {
    let why = format!("it cannot take part: {}", decline::hear(stream));
    if is_of_this_job(&hub.config, intro) {
        hub.absent(intro.rank, why);
    }
}

/// Whether it is meant to be one of these ranks, whatever else does not fit.
fn is_of_this_job(own: &TcpConfig, intro: &Intro) -> bool {
    (&intro.job, intro.size) == (&own.job, own.size) && (1..own.size).contains(&intro.rank)
}

impl Hub {
    /// The generation of one that comes, and what it is told; or why it cannot come back.
    fn welcome(&self, rank: u32, known: Option<u64>) -> Result<(u64, Answer), String> {
        let mut places = self.lock();
        let generation = known.unwrap_or(places.newest + 1);
        if known.is_some() && !is_possible(generation) {
            return Err(format!(
                "rank {rank} says that it has generation {generation}, which no rank 0 gives"
            ));
        }
        // Its connection broke, or another one came under its number.
        if generation <= places.ranks[rank as usize].generation {
            return Err(format!(
                "rank {rank} is lost to rank 0, which goes on without it"
            ));
        }
        places.newest = places.newest.max(generation);
        let others = (0u32..)
            .zip(&places.ranks)
            .filter(|(other, place)| *other != rank && place.link.is_some());
        let others =
            others.filter_map(|(other, place)| Some((other, place.generation, place.address?)));
        let welcome = Answer::Welcome {
            generation,
            host: self.generation,
            others: others.collect(),
        };
        Ok((generation, welcome))
    }
}

/// Whether a rank 0 can have given it.
pub(super) fn is_possible(generation: u64) -> bool {
    generation < NO_GENERATION
}

/// Rank 0: whether one that comes back has heard that it is welcome. What it said stays to be read: a greeting, which means nothing on its connection.
fn is_assenting(stream: &TcpStream) -> bool {
    let is_patient = stream.set_read_timeout(Some(ASSENT_PATIENCE)).is_ok();
    is_patient && matches!(stream.peek(&mut [0]), Ok(1))
}

/// Says to rank 0 that this rank has heard in time that it is welcome.
fn assent(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(GLANCE))?;
    let mut writer = stream;
    writer.write_all(&frame::greeting())
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
            Ok((stream, lobby, welcome)) => {
                let Answer::Welcome { generation, .. } = welcome else {
                    continue;
                };
                let hub = Hub::new(config, limits, generation);
                for (who, address) in be_welcome(&hub, stream, welcome) {
                    if let Err(why) = dial(&hub, who, address, patience(expiry)) {
                        hub.not_reached(who, why);
                    }
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

/// Takes the connection to rank 0. Those whom it names and who are not known are still to be dialed.
fn be_welcome(hub: &Arc<Hub>, stream: TcpStream, answer: Answer) -> Vec<((u32, u64), SocketAddr)> {
    let Answer::Welcome { host, others, .. } = answer else {
        return Vec::new();
    };
    let at = stream.peer_addr().ok();
    // A clock that went back must not make the new rank 0 older than the one that was lost.
    let lost = hub.lost_host().map_or(0, |(_, generation)| generation);
    hub.connect((0, host.max(lost + 1)), at, stream);
    let others = others.into_iter();
    let others = others.map(|(rank, theirs, address)| ((rank, theirs), reachable(address, at)));
    others.filter(|(who, _)| !hub.knows(*who)).collect()
}

/// How long one of several others may take to be reached: those before it may have used up the time of the whole.
fn patience(expiry: Expiry) -> Duration {
    expiry.left().unwrap_or_default().clamp(GLANCE, PATIENCE)
}

/// The way back to rank 0, whose place another process may have taken.
pub(super) struct WayBack {
    next: Expiry,
    pause: Duration,
}

impl Default for WayBack {
    fn default() -> WayBack {
        WayBack {
            next: Expiry::of(Deadline::after(Duration::ZERO)),
            pause: SHORTEST_PAUSE,
        }
    }
}

impl WayBack {
    /// Looks for another rank 0 where the lost one was, if it is time.
    pub(super) fn look(&mut self, hub: &Arc<Hub>, lobby: &Lobby) {
        let Some((address, _)) = hub.lost_host().filter(|_| self.next.left().is_none()) else {
            return;
        };
        self.pause = match join::connect(&address, GLANCE) {
            // Nobody is there yet.
            Err(_) => SHORTEST_PAUSE,
            Ok(stream) => match come_back(hub, lobby, stream) {
                Ok(true) => SHORTEST_PAUSE,
                Ok(false) | Err(_) => LONGEST_PAUSE.min(2 * self.pause),
            },
        };
        self.next = Expiry::of(Deadline::after(self.pause));
    }
}

/// Whether the rank 0 at the other end takes this rank.
fn come_back(hub: &Arc<Hub>, lobby: &Lobby, stream: TcpStream) -> io::Result<bool> {
    let expiry = Expiry::of(Deadline::after(GLANCE));
    let (generation, port) = (hub.generation, lobby.port()?);
    let purpose = Purpose::Return { generation, port };
    let answer = talk(&hub.config, &stream, purpose, expiry)?;
    if let Answer::Refused(_) = answer {
        return Ok(false);
    }
    assent(&stream)?;
    for (who, address) in be_welcome(hub, stream, answer) {
        if hub.is_closing() {
            break;
        }
        // One that is not reached now has not been here, and is taken when it calls.
        let _ = dial(hub, who, address, GLANCE);
    }
    Ok(true)
}

/// An address on the loopback interface of rank 0's host means that host.
fn reachable(mut address: SocketAddr, host: Option<SocketAddr>) -> SocketAddr {
    if let Some(host) = host.filter(|_| address.ip().is_loopback()) {
        address.set_ip(host.ip());
    }
    address
}

fn ask(config: &TcpConfig, expiry: Expiry) -> io::Result<(TcpStream, Lobby, Answer)> {
    let stream = join::connect_to_host(config, expiry)?;
    let lobby = join::own_lobby(config, &stream)?;
    let port = lobby.port()?;
    let answer = talk(config, &stream, Purpose::Visit { port }, expiry)?;
    Ok((stream, lobby, answer))
}

/// Says to rank 0 who is there, and hears its answer.
fn talk(
    config: &TcpConfig,
    stream: &TcpStream,
    purpose: Purpose,
    expiry: Expiry,
) -> io::Result<Answer> {
    introduce(stream, &intro(config, purpose), expiry)?;
    let ended = || io::Error::other("it closed the connection");
    let head = read_exact(stream, 4, expiry)?.ok_or_else(ended)?;
    let len = Reader(&head).u32().unwrap_or_default() as usize;
    if len > MAX_ANSWER_BYTES {
        return Err(io::Error::other("something else listens there"));
    }
    let body = read_exact(stream, len, expiry)?.ok_or_else(ended)?;
    let answer = Answer::of(&body).filter(|answer| match answer {
        Answer::Refused(_) => true,
        Answer::Welcome { host, others, .. } => {
            let is_one_of_us =
                |(rank, theirs, _): &(u32, u64, _)| *rank < config.size && is_possible(*theirs);
            is_possible(*host) && others.iter().all(is_one_of_us)
        }
    });
    answer.ok_or_else(|| io::Error::other("something else listens there"))
}

fn intro(config: &TcpConfig, purpose: Purpose) -> Intro {
    Intro {
        protocol: PROTOCOL,
        version: config.version.clone(),
        job: config.job.clone(),
        purpose,
        rank: config.rank,
        size: config.size,
    }
}

/// Connects to a rank that came before this one; or says why it is not reached.
fn dial(
    hub: &Arc<Hub>,
    who: (u32, u64),
    address: SocketAddr,
    patience: Duration,
) -> Result<(), String> {
    let dialed = TcpStream::connect_timeout(&address, patience).and_then(|stream| {
        let expiry = Expiry::of(Deadline::after(PATIENCE));
        let call = Purpose::Call {
            generation: hub.generation,
            to: who.0,
        };
        introduce(&stream, &intro(&hub.config, call), expiry)?;
        Ok(stream)
    });
    let stream =
        dialed.map_err(|error| format!("it is not to be reached at {address}: {error}"))?;
    hub.connect(who, None, stream);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_before_do_not_use_up_the_time_of_a_dial() {
        let left = |left| patience(Expiry::of(Deadline::after(left)));
        assert_eq!(left(Duration::ZERO), GLANCE);
        assert_eq!(left(2 * PATIENCE), PATIENCE);
    }
}
