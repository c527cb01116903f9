//! A process that takes no part tells the others, which need not look for it until their time is
//! over.

use super::address::{connect_to_rank_0, listen};
use super::attempt::{RETRY_PAUSE, ask};
use super::config::TcpConfig;
use super::hello::{Hello, Purpose};
use super::pending::PendingPeers;
use super::response::JoinResponse;
use crate::codec::POLL_PAUSE;
use crate::timeout::{Expiry, Timeout};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Time for which one attempt waits for rank 0 to hear it: others may be before it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Says to the other processes of a job that this one cannot take part, and why; true where it was
/// heard. It need not know how they meet.
///
/// Rank 0 answers all who come to its address, to [`tcp::join`](crate::tcp::join()) or as a
/// [`Mailbox`](crate::messages::Mailbox), until each other rank has come or the timeout of `config`
/// has passed; they get [`CommErrorKind::Launch`](crate::CommErrorKind::Launch) with its reason.
/// Any other rank says it to rank 0 as soon as that is there: one that waits for a world to gather
/// gives it up, with the reason on all ranks; a mailbox receives
/// [`Event::Rejected`](crate::messages::Event::Rejected). Of `config` the `version` is not compared.
///
/// ```
/// use shardgraph_collectives::{Timeout, tcp};
///
/// # let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
/// let config = |rank| tcp::TcpConfig {
///     rank,
///     size: 2,
///     master_addr: "127.0.0.1".into(),
///     master_port: free, // a free port, the same for all
///     job: "example".into(),
///     version: "1.0".into(),
///     timeout: Timeout::default(),
///     secret: None,
/// };
/// let other = std::thread::spawn({
///     let config = config(1);
///     move || tcp::join(&config).unwrap_err().to_string()
/// });
/// assert!(tcp::decline(&config(0), "there is no settings.toml"));
/// assert!(other.join().unwrap().contains("rank 0 cannot take part: there is no settings.toml"));
/// ```
pub fn decline(config: &TcpConfig, reason: &str) -> bool {
    let expiry = Expiry::of(config.timeout);
    match (config.check(), config.rank) {
        (Err(_), _) => false,
        (Ok(()), 0) => tell_all(config, reason, expiry),
        (Ok(()), _) => tell_rank_0(config, reason, expiry),
    }
}

/// Message to the others.
pub(crate) fn sentence(rank: u32, reason: &str) -> String {
    format!("rank {rank} cannot take part: {reason}")
}

/// Tells a process that declined that it was heard.
pub(crate) fn acknowledge(stream: &TcpStream) -> bool {
    JoinResponse::refused("").send(stream).is_ok()
}

/// Rank 0: true once all others have heard it.
fn tell_all(config: &TcpConfig, reason: &str, expiry: Expiry) -> bool {
    let pending =
        listen(config).and_then(|listener| PendingPeers::new(listener, config.secret.clone()));
    let Ok(pending) = pending else {
        return false;
    };
    let refusal = JoinResponse::refused(sentence(0, reason));
    let mut has_heard = vec![false; config.size as usize];
    has_heard[0] = true;
    while has_heard.contains(&false) {
        while let Some((hello, stream)) = pending.take(|_| true) {
            let is_told = hello.job == config.job && is_told(&hello, &stream, &refusal);
            if let Some(has_heard) = has_heard.get_mut(hello.rank as usize) {
                *has_heard |= is_told;
            }
        }
        if expiry.left().is_none() {
            return false;
        }
        thread::sleep(POLL_PAUSE);
    }
    true
}

fn is_told(hello: &Hello, stream: &TcpStream, refusal: &JoinResponse) -> bool {
    match hello.purpose {
        Purpose::Join { .. } => refusal.send(stream).is_ok(),
        // It ends for a reason of its own.
        Purpose::Decline { .. } => acknowledge(stream),
        _ => false,
    }
}

/// A rank above 0: true once rank 0 has heard it.
fn tell_rank_0(config: &TcpConfig, reason: &str, expiry: Expiry) -> bool {
    while expiry.left().is_some() {
        let purpose = Purpose::Decline {
            reason: reason.to_string(),
        };
        let told = connect_to_rank_0(config, expiry).and_then(|stream| {
            let patience = Expiry::of(Timeout::after(ATTEMPT_TIMEOUT));
            ask(config, &stream, purpose, patience)
        });
        if matches!(told, Ok(Some(_))) {
            return true;
        }
        thread::sleep(RETRY_PAUSE);
    }
    false
}
