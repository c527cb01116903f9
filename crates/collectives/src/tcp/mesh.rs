//! The connections of a world: every pair of ranks has one for data and one for control.

use super::world::World;
use crate::codec::POLL_PAUSE;
use crate::error::CommErrorKind;
use crate::join::address::connect;
use crate::join::hello::{Hello, Purpose};
use crate::join::introduction::introduce;
use crate::operations::Context;
use crate::rank_end::{Cause, RankEnd};
use crate::timeout::Expiry;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Longest wait for the answer to one hello, where there is a secret: between two of them the wait
/// can be ended.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// A world in the making.
pub(super) struct Mesh<'a> {
    world: &'a World,
    /// The operation that waits for this world, for the error.
    context: Context<'a>,
    expiry: Expiry,
    /// The connections that are there.
    data: Vec<Option<TcpStream>>,
}

/// Connects to the lower ranks, then waits for the higher ones. Adds control connections to
/// `world`, returns those for data.
pub(super) fn connect_all(
    world: &World,
    context: Context<'_>,
) -> Result<Vec<Option<TcpStream>>, CommErrorKind> {
    let mut data = Vec::new();
    data.resize_with(world.size() as usize, || None);
    let mut mesh = Mesh {
        world,
        context,
        expiry: Expiry::of(context.timeout),
        data,
    };
    let connected = mesh.connect();
    if let Err(kind) = &connected {
        // The others hear it before the connections of this rank close.
        world.tell(&match kind {
            CommErrorKind::PeerLost { rank, why, .. } => {
                RankEnd::new(Cause::Lost, *rank, why.as_str())
            }
            kind => RankEnd::new(Cause::Aborted, Some(world.rank), kind.to_string()),
        });
    }
    connected.map(|()| mesh.data)
}

impl Mesh<'_> {
    fn connect(&mut self) -> Result<(), CommErrorKind> {
        let world = self.world.id;
        for rank in 0..self.world.rank {
            let data = self.dial(rank, Purpose::Data { world })?;
            self.data[rank as usize] = Some(data);
            if !self.world.has_control(rank) {
                let control = self.dial(rank, Purpose::Control { world })?;
                self.world.add_control(rank, control);
            }
        }
        while self.take_pending() {
            self.check()?;
            if self.expiry.left().is_none() {
                return Err(self.context.timeout(self.missing()));
            }
            thread::sleep(POLL_PAUSE);
        }
        Ok(())
    }

    /// The listener of a rank may be full for a moment: tries again for a while.
    fn dial(&self, rank: u32, purpose: Purpose) -> Result<TcpStream, CommErrorKind> {
        let address = self.world.table.addresses[rank as usize];
        let secret = self.world.table.pending.secret();
        loop {
            if self.expiry.left().is_none() {
                return Err(self.context.timeout(vec![rank]));
            }
            let hello = Hello::in_world(self.world.rank, self.world.size(), purpose.clone());
            let attempt = self.expiry.within(ATTEMPT_TIMEOUT);
            let dialed = connect(&address, self.expiry)
                .and_then(|stream| introduce(hello, &stream, secret, attempt).map(|()| stream));
            let error = match dialed {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            self.check()?;
            // It has listened before it said where: now it listens no more.
            if error.kind() == ErrorKind::ConnectionRefused {
                return Err(CommErrorKind::PeerLost {
                    rank: Some(rank),
                    op: self.context.call.op,
                    seq: self.context.call.seq,
                    why: format!("it is not to be reached at {address}: {error}"),
                });
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Looks for a rank that is gone. One that has panicked or given up had all of its connections
    /// before, and does not keep this rank from joining.
    fn check(&self) -> Result<(), CommErrorKind> {
        let end = self.world.failure();
        match end.filter(|end| end.cause == Cause::Lost) {
            None => Ok(()),
            Some(end) => Err(end.error(self.context.call)),
        }
    }

    /// Takes the connections of this world out of those that came. True while some are missing.
    fn take_pending(&mut self) -> bool {
        let (id, own, size) = (self.world.id, self.world.rank, self.world.size());
        let is_ours = |hello: &Hello| {
            let is_here = matches!(hello.purpose,
                Purpose::Data { world } | Purpose::Control { world } if world == id);
            is_here && hello.rank > own && hello.rank < size
        };
        while let Some((hello, stream)) = self.world.table.pending.take(is_ours) {
            match hello.purpose {
                Purpose::Data { .. } => {
                    self.data[hello.rank as usize].get_or_insert(stream);
                }
                _ => self.world.add_control(hello.rank, stream),
            }
        }
        !self.missing().is_empty()
    }

    fn missing(&self) -> Vec<u32> {
        let is_missing = |rank: &u32| {
            *rank != self.world.rank
                && (self.data[*rank as usize].is_none() || !self.world.has_control(*rank))
        };
        (0..self.world.size()).filter(is_missing).collect()
    }
}
