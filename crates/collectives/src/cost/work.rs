//! What each algorithm moves.

use super::Network;
use crate::algorithm::Algorithm;
use crate::op::OpKind;

/// What goes from rank to rank at a time in a chain.
pub const CHAIN_PIECE_BYTES: usize = 64 << 10;

/// What processors have to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Messages sent and received.
    pub messages: f64,
    /// Bytes sent and received.
    pub bytes: f64,
    /// Bytes added to others.
    pub reduced_bytes: f64,
}

/// What one operation moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Times that some rank waits for what another can only send then.
    pub steps: f64,
    /// Of the busiest rank.
    pub rank: Load,
    /// Of all ranks of the busiest machine together.
    pub node: Load,
    /// Through the busiest connection of a machine, in one direction, including the time that a pipeline needs to fill.
    pub wire_bytes: f64,
}

/// The numbers that all formulas need.
#[derive(Clone, Copy)]
struct World {
    /// P.
    ranks: f64,
    /// Machines.
    nodes: f64,
    /// Ranks of a machine.
    local: f64,
    /// Levels of a binomial tree over the ranks, and over the machines.
    levels: f64,
    node_levels: f64,
}

impl World {
    fn new(n_ranks: u32, network: &Network) -> World {
        let local = network.ranks_per_node.clamp(1, n_ranks);
        let n_nodes = n_ranks.div_ceil(local);
        let levels = |n: u32| f64::from(n.next_power_of_two().trailing_zeros());
        World {
            ranks: f64::from(n_ranks),
            nodes: f64::from(n_nodes),
            local: f64::from(local),
            levels: levels(n_ranks),
            node_levels: levels(n_nodes),
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
    /// What an operation does with `bytes` in the longer buffer of each of `n_ranks` ranks that lie on machines as `network` says. `None` for
    /// operations that have no formula. With one rank there is nothing to do.
    ///
    /// Operations that go directly from each rank to each other take no notice of `algorithm`.
    pub fn of(
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
            OpKind::ReduceScatter | OpKind::ReduceScatterV => {
                direct(n, n * world.others() / world.ranks, world)
            }
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
        Algorithm::Whole => {
            let load = Load {
                messages: calls,
                bytes: 2.0 * n * world.others(),
                reduced_bytes: n * world.others(),
            };
            world.equal(1.0, load, world.local * world.far() * n)
        }
        Algorithm::Parts => {
            let load = Load {
                messages: 2.0 * calls,
                bytes: 4.0 * n * world.others() / world.ranks,
                reduced_bytes: n * world.others() / world.ranks,
            };
            world.equal(2.0, load, 2.0 * world.local * world.far() * n / world.ranks)
        }
        Algorithm::Tree => {
            let down = down_the_tree(n, world);
            let up = n * world.others();
            Work {
                steps: 1.0 + world.levels,
                rank: Load {
                    messages: calls + down.rank.messages,
                    bytes: up + down.rank.bytes,
                    reduced_bytes: up,
                },
                node: Load {
                    messages: calls * world.local + down.node.messages,
                    bytes: up + n * (world.local - 1.0) + down.node.bytes,
                    reduced_bytes: up,
                },
                wire_bytes: n * world.far() + down.wire_bytes,
            }
        }
        Algorithm::Chain => chain(n, 2.0, world),
    }
}

fn broadcast(algorithm: Algorithm, n: f64, world: World) -> Work {
    let calls = 2.0 * world.others();
    match algorithm {
        Algorithm::Whole => Work {
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
        Algorithm::Parts => broadcast_in_parts(n, world),
        Algorithm::Tree => {
            let mut work = down_the_tree(n, world);
            // The calls of all go along with the first level.
            work.rank.messages += calls - 1.0;
            work.node.messages += calls * world.local - 1.0;
            work
        }
        Algorithm::Chain => chain(n, 1.0, world),
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

/// The root sends everything as often as the tree has levels; all ranks but the root get it once.
fn down_the_tree(n: f64, world: World) -> Work {
    let moved = world.levels + world.local - 1.0;
    Work {
        steps: world.levels,
        rank: Load {
            messages: world.levels,
            bytes: n * world.levels,
            reduced_bytes: 0.0,
        },
        node: Load {
            messages: moved,
            bytes: n * moved.max(2.0 * (world.local - 1.0)),
            reduced_bytes: 0.0,
        },
        wire_bytes: n * world.node_levels,
    }
}

/// A pipeline over all ranks and, with two directions, back. It has to fill before its ends have work, and takes a step for each piece then. With
/// more than two ranks the ones in the middle send in both directions.
fn chain(n: f64, directions: f64, world: World) -> Work {
    let piece = CHAIN_PIECE_BYTES as f64;
    let n_pieces = (n / piece).ceil().max(1.0);
    let piece = n / n_pieces;
    let fill = |n: f64| directions * (n - 1.0) - 1.0;
    let at_once = |n: f64| if n > 2.0 { directions } else { 1.0 };
    let is_sum = directions > 1.0;
    let rank = Load {
        messages: 2.0 * world.others() + 2.0 * directions * n_pieces,
        bytes: 2.0 * at_once(world.ranks) * n + fill(world.ranks) * piece,
        reduced_bytes: if is_sum {
            n + fill(world.ranks) * piece / 2.0
        } else {
            0.0
        },
    };
    // Each link of the chain has two ends, of which a machine has this many.
    let n_ends = if world.nodes > 1.0 {
        2.0 * world.local
    } else {
        2.0 * world.others()
    };
    let n_sums = if world.nodes > 1.0 {
        world.local
    } else {
        world.others()
    };
    Work {
        steps: n_pieces + fill(world.ranks),
        rank,
        node: Load {
            messages: 2.0 * world.others() * world.local + directions * n_pieces * n_ends,
            bytes: directions * n * n_ends,
            reduced_bytes: if is_sum { n * n_sums } else { 0.0 },
        },
        wire_bytes: match world.nodes > 1.0 {
            true => at_once(world.nodes) * n + fill(world.nodes) * piece,
            false => 0.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::*;

    fn work(op: OpKind, algorithm: Algorithm, bytes: usize, n_ranks: u32, local: u32) -> Work {
        let network = Network {
            ranks_per_node: local,
            cores_per_node: local,
            ..Network::default()
        };
        Work::of(op, algorithm, bytes, n_ranks, &network).unwrap()
    }

    /// Counted by hand for six ranks with one megabyte each.
    #[test]
    fn six_ranks() {
        let n = f64::from(1 << 20);
        let parts = work(OpKind::AllReduce, Parts, 1 << 20, 6, 1);
        assert_eq!((parts.steps, parts.rank.messages), (2.0, 20.0));
        assert!((parts.wire_bytes - n * 10.0 / 6.0).abs() < 1.0);
        let two_each = work(OpKind::AllReduce, Parts, 1 << 20, 6, 2);
        assert!((two_each.wire_bytes - n * 16.0 / 6.0).abs() < 1.0);
        assert!((two_each.node.bytes - 2.0 * two_each.rank.bytes).abs() < 1.0);
        let whole = work(OpKind::AllReduce, Whole, 1 << 20, 6, 1);
        assert!((whole.wire_bytes - 5.0 * n).abs() < 1.0);
        let tree = work(OpKind::Broadcast, Tree, 1 << 20, 6, 1);
        assert_eq!((tree.steps, tree.wire_bytes), (3.0, 3.0 * n));
        let chain = work(OpKind::AllReduce, Chain, 1 << 20, 6, 1);
        assert!((chain.steps - 25.0).abs() < 1e-9);
        assert!((chain.wire_bytes - (2.0 * n + 9.0 * 65536.0)).abs() < 1.0);
        let gather = work(OpKind::AllGather, Whole, 6 << 20, 6, 1);
        assert!((gather.wire_bytes - 5.0 * n).abs() < 1.0);
    }

    #[test]
    fn on_one_machine_nothing_goes_over_the_wire() {
        for op in [
            OpKind::AllReduce,
            OpKind::Broadcast,
            OpKind::AllGather,
            OpKind::Barrier,
        ] {
            for algorithm in Algorithm::ALL {
                for n_ranks in 1..=9 {
                    let work = work(op, algorithm, 100_000, n_ranks, 9);
                    assert!(work.wire_bytes.abs() < 1e-9, "{op} {algorithm} {n_ranks}");
                    let is_alone = n_ranks == 1;
                    assert_eq!(work == Work::default(), is_alone, "{op} {algorithm}");
                }
            }
        }
    }

    /// A machine has no less to do than its busiest rank, and more bytes are never less work.
    #[test]
    fn loads_grow_with_bytes() {
        for op in [OpKind::AllReduce, OpKind::Broadcast, OpKind::ReduceScatter] {
            for algorithm in Algorithm::ALL {
                for n_ranks in [2, 3, 5, 64, 1024] {
                    for local in [1, 2, 64] {
                        let of = |bytes| work(op, algorithm, bytes, n_ranks, local);
                        let (small, large) = (of(1000), of(10_000_000));
                        assert!(large.steps >= small.steps);
                        assert!(large.rank.bytes > small.rank.bytes);
                        assert!(large.node.bytes > small.node.bytes);
                        assert!(large.wire_bytes >= small.wire_bytes);
                        let busy = small.node.messages >= small.rank.messages - 1e-9;
                        assert!(busy, "{op} {algorithm} {n_ranks} {local}");
                    }
                }
            }
        }
    }
}
