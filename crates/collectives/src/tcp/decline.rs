//! A process that cannot take part says so to the others, which need not look for it until their deadlines.

use super::TcpConfig;
use super::intro::{Intro, Lobby, PROTOCOL, Purpose, introduce};
use super::join::{PAUSE, RETRY_PAUSE, connect_to_host, listen, read_exact};
use crate::bytes::{Reader, put_text};
use crate::deadline::{Deadline, Expiry};
use std::io::{self, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// How long one process may hold up another, which has more to do.
const PATIENCE: Duration = Duration::from_secs(1);
const MAX_REASON_BYTES: usize = 8 << 10;

/// Says to the other processes of a job that this one cannot take part, and why; true where it was heard. It need not know how they meet.
///
/// Rank 0 answers all who come to its address, to [`join`](super::join()) or as a [`Mailbox`](crate::messages::Mailbox), until each other rank has come or
/// the deadline of `config` has passed; they get [`CommErrorKind::Launch`](crate::CommErrorKind::Launch) with its reason. Any other rank says it to rank 0
/// as soon as that is there: one that waits for a world to gather gives it up, with the reason on all ranks; a mailbox receives
/// [`Event::Absent`](crate::messages::Event::Absent). Of `config` the `version` is not compared.
///
/// ```
/// use shardgraph_collectives::{Deadline, tcp};
///
/// # let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
/// let config = |rank| tcp::TcpConfig {
///     rank,
///     size: 2,
///     master_addr: "127.0.0.1".into(),
///     master_port: free, // a free port, the same for all
///     job: "example".into(),
///     version: "1.0".into(),
///     deadline: Deadline::default(),
/// };
/// let other = std::thread::spawn({
///     let config = config(1);
///     move || tcp::join(&config).unwrap_err().to_string()
/// });
/// assert!(tcp::decline(&config(0), "there is no settings.toml"));
/// assert!(other.join().unwrap().contains("rank 0 cannot take part: there is no settings.toml"));
/// ```
pub fn decline(config: &TcpConfig, reason: &str) -> bool {
    let expiry = Expiry::of(config.deadline);
    match (super::check(config), config.rank) {
        (Err(_), _) => false,
        (Ok(()), 0) => tell_all(config, reason, expiry),
        (Ok(()), _) => tell_host(config, reason, expiry),
    }
}

/// What the others are told.
pub(crate) fn sentence(rank: u32, reason: &str) -> String {
    format!("rank {rank} cannot take part: {reason}")
}

/// Rank 0: whether all have come.
fn tell_all(config: &TcpConfig, reason: &str, expiry: Expiry) -> bool {
    let Ok(lobby) = listen(config).and_then(Lobby::new) else {
        return false;
    };
    let refusal = refusal(&sentence(0, reason));
    let mut has_heard = vec![false; config.size as usize];
    has_heard[0] = true;
    while has_heard.contains(&false) {
        while let Some((intro, stream)) = lobby.take(|_| true) {
            let is_told = intro.job == config.job && is_told(&intro, &stream, &refusal);
            if let Some(has_heard) = has_heard.get_mut(intro.rank as usize) {
                *has_heard |= is_told;
            }
        }
        if expiry.left().is_none() {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

fn is_told(intro: &Intro, stream: &TcpStream, refusal: &[u8]) -> bool {
    match intro.purpose {
        Purpose::Join { .. } | Purpose::Visit { .. } => write(stream, refusal).is_ok(),
        // It ends for a reason of its own.
        Purpose::Decline => {
            hear(stream);
            true
        }
        // A mailbox that looks for another rank 0 goes on looking.
        _ => false,
    }
}

/// A rank above 0: whether rank 0 has heard it.
fn tell_host(config: &TcpConfig, reason: &str, expiry: Expiry) -> bool {
    while expiry.left().is_some() {
        let told = connect_to_host(config, expiry).and_then(|stream| say(config, &stream, reason));
        if matches!(told, Ok(true)) {
            return true;
        }
        thread::sleep(RETRY_PAUSE);
    }
    false
}

fn say(config: &TcpConfig, stream: &TcpStream, reason: &str) -> io::Result<bool> {
    let expiry = Expiry::of(Deadline::after(2 * PATIENCE)); // others may be before it
    let intro = Intro {
        protocol: PROTOCOL,
        version: config.version.clone(),
        job: config.job.clone(),
        purpose: Purpose::Decline,
        rank: config.rank,
        size: config.size,
    };
    introduce(stream, &intro, expiry)?;
    let mut bytes = Vec::new();
    put_text(reason, &mut bytes);
    write(stream, &bytes)?;
    Ok(read_exact(stream, 4, expiry)?.is_some())
}

/// The reason of a process that has introduced itself to decline, which hears that it was heard.
pub(crate) fn hear(stream: &TcpStream) -> String {
    let expiry = Expiry::of(Deadline::after(PATIENCE));
    let read = |n| read_exact(stream, n, expiry).ok().flatten();
    let len = read(4).and_then(|head| Reader(&head).u32());
    let len = len.map(|len| len as usize);
    let reason = len.filter(|len| *len <= MAX_REASON_BYTES).and_then(read);
    let _ = write(stream, &refusal("")); // who cannot be told sees the connection close
    match reason {
        Some(reason) => String::from_utf8_lossy(&reason).into_owned(),
        None => "it does not say why".to_string(),
    }
}

/// An answer that has the same bytes for who joins a world and who visits a mailbox.
fn refusal(why: &str) -> Vec<u8> {
    let mut body = vec![1];
    put_text(why, &mut body);
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Writes a short message, for which a new connection has room.
fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    stream.set_nonblocking(true)
}
