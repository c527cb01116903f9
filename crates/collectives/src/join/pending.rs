//! Connections that came in and wait until a rank calls for them. Strangers among them are bounded
//! in number and in time.

use super::hello::{Hello, MAX_HELLO_BYTES};
use super::response::JoinResponse;
use super::secret::{Nonce, Secret};
use crate::codec::FrameReader;
use crate::timeout::{Expiry, Timeout};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections without a whole hello, or without its proof; of more than this many the oldest is closed.
const MAX_SILENT: usize = 128;
/// Connections with a hello that no rank has called for; of more than this many the oldest is
/// closed. The largest world has fewer.
const MAX_WAITING: usize = 512;
/// A connection without a whole hello is closed after this time.
const SILENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A listener and the connections that came to it.
pub(crate) struct PendingPeers {
    listener: TcpListener,
    secret: Option<Secret>,
    peers: Mutex<Vec<PendingPeer>>,
}

struct PendingPeer {
    stream: TcpStream,
    reader: FrameReader,
    hello: Option<Hello>,
    /// Where there is a secret, and the hello has come: what its proof has to fit.
    challenged: Option<Challenged>,
    /// True once the hello is there, and proved where there is a secret.
    is_known: bool,
    expiry: Expiry,
}

struct Challenged {
    guest: Nonce,
    host: Nonce,
    hello: Vec<u8>,
}

impl PendingPeers {
    /// Where there is a secret, those who do not prove that they know it are strangers.
    pub(crate) fn new(listener: TcpListener, secret: Option<Secret>) -> io::Result<PendingPeers> {
        listener.set_nonblocking(true)?;
        Ok(PendingPeers {
            listener,
            secret,
            peers: Mutex::default(),
        })
    }

    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// A connection whose hello is `wanted`, if it has come. Does not wait.
    pub(crate) fn take(&self, wanted: impl Fn(&Hello) -> bool) -> Option<(Hello, TcpStream)> {
        let mut peers = self.lock();
        // A flood of strangers is met in parts, so that their descriptors are bounded too.
        let accepted = (0..MAX_SILENT).map_while(|_| self.listener.accept().ok());
        peers.extend(accepted.filter_map(|(stream, _)| PendingPeer::new(stream)));
        peers.retain_mut(|peer| peer.read(self.secret()));
        evict_oldest(&mut peers, MAX_SILENT, |peer| !peer.is_known);
        evict_oldest(&mut peers, MAX_WAITING, |peer| peer.is_known);
        let is_wanted =
            |peer: &PendingPeer| peer.is_known && peer.hello.as_ref().is_some_and(&wanted);
        let position = peers.iter().position(is_wanted)?;
        let peer = peers.remove(position);
        Some((peer.hello?, peer.stream))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PendingPeer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the newest `max` of the peers that `counts`.
fn evict_oldest(peers: &mut Vec<PendingPeer>, max: usize, counts: impl Fn(&PendingPeer) -> bool) {
    let n = peers.iter().filter(|peer| counts(peer)).count();
    let mut n_surplus = n.saturating_sub(max);
    peers.retain(|peer| {
        let goes = n_surplus > 0 && counts(peer);
        n_surplus -= usize::from(goes);
        !goes
    });
}

impl PendingPeer {
    fn new(stream: TcpStream) -> Option<PendingPeer> {
        stream.set_nonblocking(true).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(PendingPeer {
            stream,
            reader: FrameReader::default(),
            hello: None,
            challenged: None,
            is_known: false,
            expiry: Expiry::of(Timeout::after(SILENT_TIMEOUT)),
        })
    }

    /// Reads the hello and its proof, and not one byte more. False for a stranger, whose connection
    /// is closed.
    fn read(&mut self, secret: Option<&Secret>) -> bool {
        while !self.is_known {
            let goes_on = match self.reader.poll(&self.stream, MAX_HELLO_BYTES) {
                Ok(Some(body)) => self.take(body, secret),
                Ok(None) => return self.expiry.left().is_some(),
                Err(_) => false,
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Takes in the next frame: the hello, then the proof.
    fn take(&mut self, body: Vec<u8>, secret: Option<&Secret>) -> bool {
        if let (Some(secret), Some(of)) = (secret, &self.challenged) {
            self.is_known = secret.is_guest(&of.guest, &of.host, &of.hello, &body);
            return self.is_known;
        }
        let Some(hello) = Hello::decode(&body) else {
            return false;
        };
        let nonce = hello.nonce;
        self.hello = Some(hello);
        match (secret, nonce) {
            (None, _) => {
                self.is_known = true;
                true
            }
            (Some(secret), Some(guest)) => {
                let challenge = secret.challenge(&guest);
                self.challenged = Some(Challenged {
                    guest,
                    host: challenge.nonce,
                    hello: body,
                });
                JoinResponse::Challenge(challenge)
                    .send(&self.stream)
                    .is_ok()
            }
            (Some(_), None) => {
                let why = "the ranks at this address share a secret: give all of them the same SHARDGRAPH_SECRET";
                // One that cannot be told sees the connection close.
                let _ = JoinResponse::refused(why).send(&self.stream);
                false
            }
        }
    }
}
