//! What each algorithm moves.

use super::Network;
use shardgraph_collectives::{Algorithm, OpKind};

/// What processors have to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Messages sent and received.
    pub(crate) messages: f64,
    /// Bytes sent and received.
    pub(crate) bytes: f64,
    /// Bytes added to others.
    pub(crate) reduced_bytes: f64,
}

/// What one operation moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Times that some rank waits for what another can only send then.
    pub(crate) steps: f64,
    /// Of the busiest rank.
    pub(crate) rank: Load,
    /// Of all ranks of the busiest machine together.
    pub(crate) node: Load,
    /// Through the busiest connection of a machine, in one direction.
    pub(crate) wire_bytes: f64,
}

/// The numbers that all formulas need.
#[derive(Clone, Copy)]
struct World {
    /// P.
    ranks: f64,
    /// Ranks of a machine.
    local: f64,
}

impl World {
    fn new(n_ranks: u32, network: &Network) -> World {
        let local = network.ranks_per_node.clamp(1, n_ranks);
        World {
            ranks: f64::from(n_ranks),
            local: f64::from(local),
        }
    }

    fn others(self) -> f64 {
        self.ranks - 1.0
    }

    /// Ranks on other machines.
    fn far(self) -> f64 {
        self.ranks - self.local
    }

    /// Every rank does the same.
    fn equal(self, steps: f64, rank: Load, wire_bytes: f64) -> Work {
        let times = |x: f64| x * self.local;
        Work {
            steps,
            rank,
            node: Load {
                messages: times(rank.messages),
                bytes: times(rank.bytes),
                reduced_bytes: times(rank.reduced_bytes),
            },
            wire_bytes,
        }
    }
}

impl Work {
    /// What an operation does with `bytes` in the longer buffer of each of `n_ranks` ranks that lie
    /// on machines as `network` says. `None` for operations that have no formula. With one rank
    /// there is nothing to do.
    ///
    /// Operations that go directly from each rank to each other take no notice of `algorithm`.
    pub(crate) fn of(
        op: OpKind,
        algorithm: Algorithm,
        bytes: usize,
        n_ranks: u32,
        network: &Network,
    ) -> Option<Work> {
        if n_ranks < 2 {
            return Some(Work::default());
        }
        let world = World::new(n_ranks, network);
        let n = bytes as f64;
        Some(match op {
            OpKind::AllReduce => all_reduce(algorithm, n, world),
            OpKind::Broadcast => broadcast(algorithm, n, world),
            OpKind::AllGather | OpKind::AllGatherV | OpKind::AllToAllV => direct(n, 0.0, world),
            OpKind::ReduceScatterV => direct(n, n * world.others() / world.ranks, world),
            OpKind::Barrier => direct(0.0, 0.0, world),
            _ => return None,
        })
    }
}

/// One step in which each pair exchanges a part of n/P bytes.
fn direct(n: f64, reduced_bytes: f64, world: World) -> Work {
    let load = Load {
        messages: 2.0 * world.others(),
        bytes: 2.0 * n * world.others() / world.ranks,
        reduced_bytes,
    };
    world.equal(1.0, load, world.local * world.far() * n / world.ranks)
}

fn all_reduce(algorithm: Algorithm, n: f64, world: World) -> Work {
    let calls = 2.0 * world.others();
    match algorithm {
        Algorithm::Direct => {
            let load = Load {
                messages: calls,
                bytes: 2.0 * n * world.others(),
                reduced_bytes: n * world.others(),
            };
            world.equal(1.0, load, world.local * world.far() * n)
        }
        Algorithm::ReduceScatterAllGather => {
            let load = Load {
                messages: 2.0 * calls,
                bytes: 4.0 * n * world.others() / world.ranks,
                reduced_bytes: n * world.others() / world.ranks,
            };
            world.equal(2.0, load, 2.0 * world.local * world.far() * n / world.ranks)
        }
    }
}

fn broadcast(algorithm: Algorithm, n: f64, world: World) -> Work {
    let calls = 2.0 * world.others();
    match algorithm {
        Algorithm::Direct => Work {
            steps: 1.0,
            rank: Load {
                messages: calls,
                bytes: n * world.others(),
                reduced_bytes: 0.0,
            },
            node: Load {
                messages: calls * world.local,
                bytes: n * world.others() + n * (world.local - 1.0),
                reduced_bytes: 0.0,
            },
            wire_bytes: n * world.far(),
        },
        Algorithm::ReduceScatterAllGather => broadcast_in_parts(n, world),
    }
}

/// Each rank gets a part from the root, and all exchange their parts.
fn broadcast_in_parts(n: f64, world: World) -> Work {
    let share = direct(n, 0.0, world);
    let from_root = n * world.others() / world.ranks;
    Work {
        steps: 2.0,
        rank: Load {
            messages: 4.0 * world.others(),
            bytes: from_root + share.rank.bytes,
            reduced_bytes: 0.0,
        },
        node: Load {
            messages: 4.0 * world.others() * world.local,
            bytes: from_root + n * (world.local - 1.0) / world.ranks + share.node.bytes,
            reduced_bytes: 0.0,
        },
        wire_bytes: n * world.far() / world.ranks + share.wire_bytes,
    }
}
