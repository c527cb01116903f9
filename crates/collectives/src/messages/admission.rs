//! Admission of the processes that come to a mailbox. Nothing here waits for one of them.

use super::event::Member;
use super::hub::Hub;
use crate::join::decline;
use crate::join::hello::{Hello, JoinMismatch, PROTOCOL, Purpose, WorldKind};
use crate::join::response::{JoinResponse, NO_GENERATION, Peer};
use crate::timeout::{Expiry, Timeout};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Time for which rank 0 keeps the connection of a rank that comes back until that has heard that
/// it is accepted.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// Ranks that come back at one time; of more the oldest is let go.
const MAX_RETURNING: usize = 128;

/// The acceptor's connections that are not those of ranks yet.
#[derive(Default)]
pub(super) struct Admission {
    returning: Vec<Returning>,
}

/// A rank that comes back and may not have heard yet that it is accepted.
struct Returning {
    member: Member,
    address: SocketAddr,
    stream: TcpStream,
    expiry: Expiry,
}

impl Returning {
    fn peer(&self) -> Peer {
        Peer {
            rank: self.member.rank,
            generation: self.member.generation,
            address: self.address,
        }
    }
}

impl Admission {
    pub(super) fn admit(&mut self, hub: &Arc<Hub>, hello: &Hello, stream: TcpStream) {
        let own = &hub.config;
        match &hello.purpose {
            Purpose::Join { .. } if own.rank == 0 => self.receive(hub, hello, stream),
            Purpose::Decline { reason } if own.rank == 0 => {
                decline::acknowledge(&stream);
                if is_of_this_job(hub, hello) {
                    hub.rejected(hello.rank, format!("it cannot take part: {reason}"));
                }
            }
            Purpose::Mailbox { generation, to } => {
                let is_one_of_us = (hello.protocol, &hello.version, &hello.job, hello.size)
                    == (PROTOCOL, &own.version, &own.job, own.size);
                let is_other = hello.rank < own.size && hello.rank != own.rank;
                if is_one_of_us && is_other && *to == own.rank && *generation < NO_GENERATION {
                    let member = Member {
                        rank: hello.rank,
                        generation: *generation,
                    };
                    hub.connect(member, None, stream);
                }
            }
            // A process that wants something else is let go.
            _ => {}
        }
    }

    /// Rank 0: answers a process that wants to join, or to come back with the generation that a
    /// former rank 0 has given it.
    fn receive(&mut self, hub: &Arc<Hub>, hello: &Hello, stream: TcpStream) {
        let Purpose::Join {
            kind,
            port,
            generation: known,
        } = hello.purpose
        else {
            return;
        };
        // A process that cannot be told sees its connection close.
        let refuse = |what: String| drop(JoinResponse::refused(what).send(&stream));
        if let Some(why) = mismatch(hub, hello, kind) {
            return refuse(why);
        }
        let returning: Vec<Peer> = self.returning.iter().map(Returning::peer).collect();
        let accepted = match hub.accept(hello.rank, known, &returning) {
            Ok(accepted) => accepted,
            Err(why) => return refuse(why),
        };
        let member = Member {
            rank: hello.rank,
            generation: accepted.id,
        };
        let response = JoinResponse::Accepted(accepted);
        let Ok(peer) = stream.peer_addr() else {
            return; // it has ended already
        };
        let address = SocketAddr::new(peer.ip(), port);
        if known.is_none() {
            return hub.accept_and_connect(member, address, stream, &response);
        }
        if response.send(&stream).is_err() {
            return;
        }
        // Its generation is used up once it is connected: it must be sure to be there.
        self.returning.push(Returning {
            member,
            address,
            stream,
            expiry: Expiry::of(Timeout::after(CONFIRM_TIMEOUT)),
        });
        if self.returning.len() > MAX_RETURNING {
            self.returning.remove(0);
        }
    }

    /// Connects the ranks that have heard that they are accepted. What they said stays to be read:
    /// a sign of life, which means nothing on the connection of a rank.
    pub(super) fn poll(&mut self, hub: &Arc<Hub>) {
        for returning in std::mem::take(&mut self.returning) {
            match returning.stream.peek(&mut [0]) {
                Ok(1..) => {
                    let address = Some(returning.address);
                    hub.connect(returning.member, address, returning.stream);
                }
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && returning.expiry.left().is_some() =>
                {
                    self.returning.push(returning);
                }
                Ok(0) | Err(_) => {}
            }
        }
    }
}

/// Why rank 0 refuses a process, if it does. Its owner hears of one that was meant to be a rank.
fn mismatch(hub: &Hub, hello: &Hello, kind: WorldKind) -> Option<String> {
    match Hello::mismatch(&hub.config, hello) {
        Some(JoinMismatch::OtherJob(why)) => Some(why),
        Some(JoinMismatch::SameJob(why)) => {
            if is_of_this_job(hub, hello) {
                hub.rejected(hello.rank, why.clone());
            }
            Some(why)
        }
        None => (kind != WorldKind::Mailboxes).then(|| {
            "the ranks at this address are mailboxes: start the same command everywhere".to_string()
        }),
    }
}

/// True for a process that is meant to be one of these ranks, whatever else does not fit.
fn is_of_this_job(hub: &Hub, hello: &Hello) -> bool {
    let own = &hub.config;
    (&hello.job, hello.size) == (&own.job, own.size) && (1..own.size).contains(&hello.rank)
}
