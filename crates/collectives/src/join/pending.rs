//! Connections that came in and wait until a rank calls for them. Strangers among them are bounded
//! in number and in time.

use super::hello::{Hello, MAX_HELLO_BYTES};
use crate::codec::FrameReader;
use crate::timeout::{Expiry, Timeout};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections without a whole hello; of more than this many the oldest is closed.
const MAX_SILENT: usize = 128;
/// Connections with a hello that no rank has called for; of more than this many the oldest is
/// closed. Two groups of the largest world have fewer.
const MAX_WAITING: usize = 512;
/// A connection without a whole hello is closed after this time.
const SILENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A listener and the connections that came to it.
pub(crate) struct PendingPeers {
    listener: TcpListener,
    peers: Mutex<Vec<PendingPeer>>,
}

struct PendingPeer {
    stream: TcpStream,
    reader: FrameReader,
    hello: Option<Hello>,
    expiry: Expiry,
}

impl PendingPeers {
    pub(crate) fn new(listener: TcpListener) -> io::Result<PendingPeers> {
        listener.set_nonblocking(true)?;
        Ok(PendingPeers {
            listener,
            peers: Mutex::default(),
        })
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
        peers.retain_mut(PendingPeer::read);
        evict_oldest(&mut peers, MAX_SILENT, |peer| peer.hello.is_none());
        evict_oldest(&mut peers, MAX_WAITING, |peer| peer.hello.is_some());
        let is_wanted = |peer: &PendingPeer| peer.hello.as_ref().is_some_and(&wanted);
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
            expiry: Expiry::of(Timeout::after(SILENT_TIMEOUT)),
        })
    }

    /// Reads the hello, and not one byte more. False for a stranger, whose connection is closed.
    fn read(&mut self) -> bool {
        if self.hello.is_some() {
            return true;
        }
        match self.reader.poll(&self.stream, MAX_HELLO_BYTES) {
            Ok(Some(body)) => {
                self.hello = Hello::decode(&body);
                self.hello.is_some()
            }
            Ok(None) => self.expiry.left().is_some(),
            Err(_) => false,
        }
    }
}
