//! The connections of a world: every pair of ranks has one for data and one for control.

use super::world::World;
use crate::end::{Cause, End};
use crate::error::CommErrorKind;
use crate::join::address::connect;
use crate::join::attempt::POLL_PAUSE;
use crate::join::hello::{Hello, Purpose};
use crate::join::introduction::introduce;
use crate::operations::Context;
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

/// Failure of making the connections.
pub(super) enum Unconnected {
    /// A failure with ranks in the numbers of the world to be connected.
    Failed(CommErrorKind),
    /// An end of the wait from outside.
    Interrupted(CommErrorKind),
}

impl Unconnected {
    /// The error for ranks with these numbers.
    pub(super) fn kind(self) -> CommErrorKind {
        match self {
            Unconnected::Failed(kind) | Unconnected::Interrupted(kind) => kind,
        }
    }

    /// The error in the numbers of the world above, where the ranks are `members`.
    pub(super) fn among(self, members: &[u32]) -> CommErrorKind {
        let mut kind = match self {
            Unconnected::Interrupted(kind) => return kind,
            Unconnected::Failed(kind) => kind,
        };
        match &mut kind {
            CommErrorKind::Timeout { missing, .. } => {
                for rank in missing {
                    *rank = members[*rank as usize];
                }
            }
            CommErrorKind::PeerLost {
                rank: Some(rank), ..
            } => *rank = members[*rank as usize],
            _ => {}
        }
        kind
    }
}

/// Connects to the lower ranks, then waits for the higher ones. Adds control connections to
/// `world`, returns those for data. `interrupted` says that something else ended the wait.
pub(super) fn connect_all(
    world: &World,
    context: Context<'_>,
    interrupted: &dyn Fn() -> Option<CommErrorKind>,
) -> Result<Vec<Option<TcpStream>>, Unconnected> {
    let mut data = Vec::new();
    data.resize_with(world.size() as usize, || None);
    let mut mesh = Mesh {
        world,
        context,
        expiry: Expiry::of(context.timeout),
        data,
    };
    let connected = mesh.connect(interrupted);
    if let Err(Unconnected::Failed(kind)) = &connected {
        // The others hear it before the connections of this rank close.
        world.tell(&match kind {
            CommErrorKind::PeerLost { rank, why, .. } => End::new(Cause::Lost, *rank, why.as_str()),
            kind => End::new(Cause::Aborted, Some(world.rank), kind.to_string()),
        });
    }
    connected.map(|()| mesh.data)
}

impl Mesh<'_> {
    fn connect(
        &mut self,
        interrupted: &dyn Fn() -> Option<CommErrorKind>,
    ) -> Result<(), Unconnected> {
        let world = self.world.id;
        for rank in 0..self.world.rank {
            let data = self.dial(rank, Purpose::Data { world }, interrupted)?;
            self.data[rank as usize] = Some(data);
            if !self.world.has_control(rank) {
                let control = self.dial(rank, Purpose::Control { world }, interrupted)?;
                self.world.add_control(rank, control);
            }
        }
        while self.take_pending() {
            self.check(interrupted)?;
            if self.expiry.left().is_none() {
                return Err(self.timeout(self.missing()));
            }
            thread::sleep(POLL_PAUSE);
        }
        Ok(())
    }

    /// The listener of a rank may be full for a moment: tries again for a while.
    fn dial(
        &self,
        rank: u32,
        purpose: Purpose,
        interrupted: &dyn Fn() -> Option<CommErrorKind>,
    ) -> Result<TcpStream, Unconnected> {
        let address = self.world.table.addresses[rank as usize];
        let secret = self.world.table.pending.secret();
        loop {
            if self.expiry.left().is_none() {
                return Err(self.timeout(vec![rank]));
            }
            let hello = Hello::in_world(self.world.rank, self.world.size(), purpose.clone());
            let attempt = self.expiry.within(ATTEMPT_TIMEOUT);
            let dialed = connect(&address, self.expiry)
                .and_then(|stream| introduce(hello, &stream, secret, attempt).map(|()| stream));
            let error = match dialed {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            self.check(interrupted)?;
            // It has listened before it said where: now it listens no more.
            if error.kind() == ErrorKind::ConnectionRefused {
                return Err(Unconnected::Failed(CommErrorKind::PeerLost {
                    rank: Some(rank),
                    op: self.context.call.op,
                    seq: self.context.call.seq,
                    why: format!("it is not to be reached at {address}: {error}"),
                }));
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Looks for a rank that is gone. One that has panicked or given up had all of its connections
    /// before, and does not keep this rank from joining.
    fn check(&self, interrupted: &dyn Fn() -> Option<CommErrorKind>) -> Result<(), Unconnected> {
        if let Some(kind) = interrupted() {
            return Err(Unconnected::Interrupted(kind));
        }
        let end = self.world.failure();
        match end.filter(|end| end.cause == Cause::Lost) {
            None => Ok(()),
            Some(end) => Err(Unconnected::Failed(end.error(self.context.call))),
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

    fn timeout(&self, missing: Vec<u32>) -> Unconnected {
        Unconnected::Failed(self.context.timeout(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;
    use std::time::Duration;

    #[test]
    fn ranks_of_a_group_are_named_as_in_the_world_that_is_split() {
        let lost = |rank| CommErrorKind::PeerLost {
            rank: Some(rank),
            op: OpKind::Split,
            seq: 3,
            why: String::new(),
        };
        let late = |missing: &[u32]| CommErrorKind::Timeout {
            op: OpKind::Split,
            seq: 3,
            after: Duration::from_secs(1),
            missing: missing.to_vec(),
        };
        let group = [5, 2, 7];
        assert_eq!(Unconnected::Failed(lost(1)).among(&group), lost(2));
        assert_eq!(
            Unconnected::Failed(late(&[0, 2])).among(&group),
            late(&[5, 7])
        );
        // An interruption names the rank by the number of the world above already.
        assert_eq!(Unconnected::Interrupted(lost(1)).among(&group), lost(1));
    }
}
