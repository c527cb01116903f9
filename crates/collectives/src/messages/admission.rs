//! Admission of the processes that come to a mailbox. Nothing here waits for one of them.

use super::event::Member;
use super::hub::Hub;
use crate::join::decline;
use crate::join::hello::{Hello, JoinMismatch, PROTOCOL, Purpose, WorldKind};
use crate::join::response::{JoinResponse, NO_GENERATION};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// Does what a process that has introduced itself came for; one that wants something else is let go.
pub(super) fn admit(hub: &Arc<Hub>, hello: &Hello, stream: TcpStream) {
    let own = &hub.config;
    match &hello.purpose {
        Purpose::Join { kind, port } if own.rank == 0 => join(hub, hello, *kind, *port, stream),
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
                hub.connect(member, stream);
            }
        }
        _ => {}
    }
}

/// Rank 0: answers a process that wants to join, and connects it.
fn join(hub: &Arc<Hub>, hello: &Hello, kind: WorldKind, port: u16, stream: TcpStream) {
    if let Some(why) = mismatch(hub, hello, kind) {
        // A process that cannot be told sees its connection close.
        let _ = JoinResponse::refused(why).send(&stream);
        return;
    }
    let Ok(peer) = stream.peer_addr() else {
        return; // it has ended already
    };
    let accepted = hub.accept(hello.rank);
    let member = Member {
        rank: hello.rank,
        generation: accepted.id,
    };
    let address = SocketAddr::new(peer.ip(), port);
    hub.accept_and_connect(member, address, stream, &JoinResponse::Accepted(accepted));
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
