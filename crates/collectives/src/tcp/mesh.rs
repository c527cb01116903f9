//! The connections of a world: every pair of ranks has one for data and one for control.

use super::control::Whereabouts;
use super::intro::{Intro, PROTOCOL, Purpose, introduce};
use super::join::PAUSE;
use crate::deadline::{Deadline, Expiry};
use crate::error::CommErrorKind;
use crate::op::Call;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// A world in the making.
pub(super) struct Plan<'a> {
    pub(super) world: u64,
    pub(super) rank: u32,
    pub(super) whereabouts: &'a Whereabouts,
    /// What waits for this world, for the error.
    pub(super) call: &'a Call,
    pub(super) deadline: Deadline,
}

/// The connections to each rank; none to the own.
pub(super) struct Mesh {
    pub(super) data: Vec<Option<TcpStream>>,
    pub(super) controls: Vec<Option<TcpStream>>,
}

/// Why there are no connections.
pub(super) enum Unconnected {
    /// A failure with ranks in the numbers of the world to be connected.
    Failed(CommErrorKind),
    /// What ended the wait from outside.
    Interrupted(CommErrorKind),
}

impl Unconnected {
    /// For those who know the ranks by these numbers.
    pub(super) fn kind(self) -> CommErrorKind {
        match self {
            Unconnected::Failed(kind) | Unconnected::Interrupted(kind) => kind,
        }
    }

    /// The same for those who know the ranks as `members`.
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

impl Plan<'_> {
    /// Connects to the lower ranks, then waits for the higher ones. `controls` holds the connections that are there already; `interrupted` says
    /// that a rank has ended.
    pub(super) fn connect(
        &self,
        controls: Vec<Option<TcpStream>>,
        interrupted: &dyn Fn() -> Option<CommErrorKind>,
    ) -> Result<Mesh, Unconnected> {
        let n_ranks = self.whereabouts.addresses.len() as u32;
        let mut data: Vec<Option<TcpStream>> = Vec::new();
        data.resize_with(n_ranks as usize, || None);
        let mut mesh = Mesh { data, controls };
        let expiry = Expiry::of(self.deadline);
        let world = self.world;
        let (data_of, control_of) = (Purpose::Data { world }, Purpose::Control { world });
        for rank in 0..self.rank {
            mesh.data[rank as usize] = Some(self.dial(rank, data_of, expiry, interrupted)?);
            let control = &mut mesh.controls[rank as usize];
            if control.is_none() {
                *control = Some(self.dial(rank, control_of, expiry, interrupted)?);
            }
        }
        while mesh.take_guests(self) {
            if let Some(kind) = interrupted() {
                return Err(Unconnected::Interrupted(kind));
            }
            if expiry.left().is_none() {
                return Err(self.timeout(mesh.missing(self.rank)));
            }
            thread::sleep(PAUSE);
        }
        Ok(mesh)
    }

    /// The lobby of a rank may be full for a moment: tries again for a while.
    fn dial(
        &self,
        rank: u32,
        purpose: Purpose,
        expiry: Expiry,
        interrupted: &dyn Fn() -> Option<CommErrorKind>,
    ) -> Result<TcpStream, Unconnected> {
        let address = self.whereabouts.addresses[rank as usize];
        let intro = Intro {
            protocol: PROTOCOL,
            version: String::new(),
            job: String::new(),
            purpose,
            rank: self.rank,
            size: self.whereabouts.addresses.len() as u32,
        };
        loop {
            let patience = expiry.left().ok_or_else(|| self.timeout(vec![rank]))?;
            let patience = patience.min(Duration::from_secs(5));
            let error = match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) if !is_itself(&stream) => match introduce(&stream, &intro, expiry) {
                    Ok(()) => return Ok(stream),
                    Err(error) => error,
                },
                Ok(_) => std::io::ErrorKind::ConnectionRefused.into(),
                Err(error) => error,
            };
            if let Some(kind) = interrupted() {
                return Err(Unconnected::Interrupted(kind));
            }
            // It has listened before it said where: now it listens no more.
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                return Err(Unconnected::Failed(CommErrorKind::PeerLost {
                    rank: Some(rank),
                    op: self.call.op,
                    seq: self.call.seq,
                    why: format!("it is not to be reached at {address}: {error}"),
                }));
            }
            thread::sleep(PAUSE);
        }
    }

    fn timeout(&self, missing: Vec<u32>) -> Unconnected {
        Unconnected::Failed(CommErrorKind::Timeout {
            op: self.call.op,
            seq: self.call.seq,
            after: self.deadline.duration(),
            missing,
        })
    }
}

impl Mesh {
    /// Takes the connections of this world out of the lobby. Whether some are still missing.
    fn take_guests(&mut self, plan: &Plan<'_>) -> bool {
        let is_ours = |intro: &Intro| {
            let world = match intro.purpose {
                Purpose::Data { world } | Purpose::Control { world } => Some(world),
                _ => None,
            };
            world == Some(plan.world)
                && intro.rank > plan.rank
                && (intro.rank as usize) < plan.whereabouts.addresses.len()
        };
        while let Some((intro, stream)) = plan.whereabouts.lobby.take(is_ours) {
            let places = match intro.purpose {
                Purpose::Data { .. } => &mut self.data,
                _ => &mut self.controls,
            };
            places[intro.rank as usize].get_or_insert(stream);
        }
        !self.missing(plan.rank).is_empty()
    }

    fn missing(&self, own: u32) -> Vec<u32> {
        let places = (0u32..).zip(self.data.iter().zip(&self.controls));
        places
            .filter(|(rank, (data, control))| *rank != own && (data.is_none() || control.is_none()))
            .map(|(rank, _)| rank)
            .collect()
    }
}

/// Whether a connection to a free port of this machine has met itself, which TCP allows.
pub(super) fn is_itself(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local == peer,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;

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
        // Those who were interrupted know the rank by that world's number already.
        assert_eq!(Unconnected::Interrupted(lost(1)).among(&group), lost(1));
    }
}
