//! Messages between processes over TCP: every pair of ranks has a connection, which the one that
//! joined later has opened.
//!
//! Rank 0 numbers the ranks that come (their generation) and tells each where the others are that
//! came before it. A rank takes a connection only from a generation that it has not seen yet, so
//! that nothing of an older process comes after a newer one.

use super::admission::admit;
use super::event::{Limits, Member, Message, Refusal, last_word};
use super::frame;
use super::hub::{Hub, spawn};
use super::inbox::{Inbox, Put};
use super::visit::visit;
use crate::error::{CommErrorKind, refused};
use crate::join::address::listen;
use crate::join::config::TcpConfig;
use crate::join::pending::PendingPeers;
use crate::timeout::{Expiry, Timeout};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks for processes that join.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Time for which a rank that leaves waits for its last messages to go out.
const GRACE: Duration = Duration::from_secs(1);

/// One rank's connections.
pub(super) struct TcpEndpoint {
    hub: Arc<Hub>,
}

impl TcpEndpoint {
    pub(super) fn join(config: &TcpConfig, limits: Limits) -> Result<TcpEndpoint, CommErrorKind> {
        config.check()?;
        let (hub, pending) = if config.rank > 0 {
            visit(config, limits)?
        } else {
            let listener = listen(config).map_err(|error| config.cannot_listen(&error))?;
            let pending = PendingPeers::new(listener, config.secret.clone()).map_err(refused)?;
            (Hub::new(config, limits, first_generation()), pending)
        };
        let endpoint = TcpEndpoint {
            hub: Arc::clone(&hub),
        };
        let acceptor = Arc::clone(&hub);
        let thread = spawn("messages".to_string(), move || accept(&acceptor, &pending));
        hub.keep(thread.map_err(refused)?);
        Ok(endpoint)
    }

    pub(super) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.hub.inbox)
    }

    pub(super) fn send(&self, message: Message<'_>, expiry: Expiry) -> Result<(), Refusal> {
        let hub = &self.hub;
        let Message { to, tag, bytes } = message;
        if to != hub.config.rank {
            let link = hub.link_to(to, expiry)?;
            return link.send(frame::message(tag, bytes), expiry);
        }
        let own = Member {
            rank: to,
            generation: hub.generation,
        };
        match hub.inbox.put(own, tag, bytes.to_vec(), expiry) {
            Put::Done => Ok(()),
            Put::Full { n_unread, .. } => Err(Refusal::NoRoom(format!(
                "{n_unread} bytes wait to be received here"
            ))),
            Put::Gone => Err(Refusal::Lost(last_word().to_string())),
        }
    }
}

/// The generation of a rank 0, after which it counts: larger than all that a former rank 0 in its
/// place has given, as long as their clock does not go back. (Milliseconds since 1970; ranks do not
/// join a thousand times a second.)
fn first_generation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_millis() as u64)
}

/// The body of the thread that takes in the processes that come, until the endpoint closes.
fn accept(hub: &Arc<Hub>, pending: &PendingPeers) {
    while !hub.is_closing() {
        while let Some((hello, stream)) = pending.take(|_| true) {
            admit(hub, &hello, stream);
        }
        thread::sleep(LOOK_EVERY);
    }
}

impl Drop for TcpEndpoint {
    fn drop(&mut self) {
        let (links, threads) = self.hub.close();
        links.iter().for_each(|link| link.leave(last_word()));
        let expiry = Expiry::of(Timeout::after(GRACE));
        while expiry.left().is_some() && !threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(1));
        }
        links.iter().for_each(|link| link.cut(last_word()));
        for thread in threads {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}
