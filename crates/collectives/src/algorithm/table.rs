//! Which algorithm was fastest, per operation, number of ranks and length up to 16 MiB.
//!
//! From the measurements of `cargo xtask bench collectives -b 8 -e 64M -f 2 -c 1 --tables` in bench-results/2026-11-20-epyc-2-cores-host-5, after that
//! command's rule for excluded algorithms had been mended. The machine did nothing else.
//!
//! 2026-11-20, AMD EPYC, 2 cores, linux 6.18.44-fc-v657.

use super::Algorithm::{Chain, Parts, Tree, Whole};
use super::{Algorithm, Row};
use crate::op::OpKind;

const fn row(op: OpKind, n_ranks: u32, from_bytes: usize, algorithm: Algorithm) -> Row {
    Row {
        op,
        n_ranks,
        from_bytes,
        algorithm,
    }
}

#[rustfmt::skip]
pub(super) const TCP: [Row; 26] = [
    row(OpKind::AllReduce, 2, 0, Whole),
    row(OpKind::AllReduce, 2, 524288, Parts),
    row(OpKind::AllReduce, 3, 0, Whole),
    row(OpKind::AllReduce, 3, 131072, Parts),
    row(OpKind::AllReduce, 4, 0, Whole),
    row(OpKind::AllReduce, 4, 65536, Tree),
    row(OpKind::AllReduce, 4, 1048576, Parts),
    row(OpKind::AllReduce, 4, 8388608, Chain),
    row(OpKind::AllReduce, 6, 0, Whole),
    row(OpKind::AllReduce, 6, 65536, Tree),
    row(OpKind::AllReduce, 6, 524288, Parts),
    row(OpKind::AllReduce, 6, 8388608, Chain),
    row(OpKind::Broadcast, 2, 0, Chain),
    row(OpKind::Broadcast, 2, 32, Tree),
    row(OpKind::Broadcast, 2, 128, Whole),
    row(OpKind::Broadcast, 2, 512, Chain),
    row(OpKind::Broadcast, 2, 131072, Whole),
    row(OpKind::Broadcast, 2, 8388608, Tree),
    row(OpKind::Broadcast, 3, 0, Whole),
    row(OpKind::Broadcast, 3, 262144, Tree),
    row(OpKind::Broadcast, 4, 0, Whole),
    row(OpKind::Broadcast, 4, 16384, Tree),
    row(OpKind::Broadcast, 6, 0, Tree),
    row(OpKind::Broadcast, 6, 32, Whole),
    row(OpKind::Broadcast, 6, 524288, Tree),
    row(OpKind::Broadcast, 6, 1048576, Parts),
];

#[rustfmt::skip]
pub(super) const MPI: [Row; 8] = [
    row(OpKind::AllReduce, 2, 0, Whole),
    row(OpKind::AllReduce, 3, 0, Parts),
    row(OpKind::AllReduce, 3, 256, Whole),
    row(OpKind::AllReduce, 3, 1048576, Parts),
    row(OpKind::AllReduce, 4, 0, Whole),
    row(OpKind::AllReduce, 4, 262144, Parts),
    row(OpKind::AllReduce, 6, 0, Whole),
    row(OpKind::AllReduce, 6, 8192, Parts),
];
