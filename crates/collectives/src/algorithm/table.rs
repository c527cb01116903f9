//! Made by `cargo xtask bench collectives -b 8 -e 64M -f 2 -c 1 --tables`, not by hand: what was fastest, per operation, number of ranks and length.
//!
//! 2026-11-20, AMD EPYC, 2 cores (and much else at work on them), linux 6.18.44-fc-v657.

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
pub(super) const TCP: [Row; 24] = [
    row(OpKind::AllReduce, 2, 0, Whole),
    row(OpKind::AllReduce, 3, 0, Whole),
    row(OpKind::AllReduce, 3, 65536, Parts),
    row(OpKind::AllReduce, 4, 0, Whole),
    row(OpKind::AllReduce, 4, 512, Tree),
    row(OpKind::AllReduce, 4, 8192, Whole),
    row(OpKind::AllReduce, 4, 32768, Chain),
    row(OpKind::AllReduce, 6, 0, Whole),
    row(OpKind::AllReduce, 6, 64, Tree),
    row(OpKind::AllReduce, 6, 1024, Whole),
    row(OpKind::AllReduce, 6, 16384, Tree),
    row(OpKind::AllReduce, 6, 65536, Parts),
    row(OpKind::AllReduce, 6, 1048576, Chain),
    row(OpKind::Broadcast, 2, 0, Tree),
    row(OpKind::Broadcast, 3, 0, Tree),
    row(OpKind::Broadcast, 4, 0, Whole),
    row(OpKind::Broadcast, 4, 128, Tree),
    row(OpKind::Broadcast, 4, 1024, Whole),
    row(OpKind::Broadcast, 4, 1048576, Chain),
    row(OpKind::Broadcast, 4, 16777216, Tree),
    row(OpKind::Broadcast, 6, 0, Tree),
    row(OpKind::Broadcast, 6, 1048576, Whole),
    row(OpKind::Broadcast, 6, 2097152, Chain),
    row(OpKind::Broadcast, 6, 8388608, Tree),
];

#[rustfmt::skip]
pub(super) const MPI: [Row; 13] = [
    row(OpKind::AllReduce, 2, 0, Whole),
    row(OpKind::AllReduce, 2, 65536, Parts),
    row(OpKind::AllReduce, 2, 2097152, Whole),
    row(OpKind::AllReduce, 3, 0, Whole),
    row(OpKind::AllReduce, 3, 128, Parts),
    row(OpKind::AllReduce, 3, 512, Whole),
    row(OpKind::AllReduce, 3, 16384, Parts),
    row(OpKind::AllReduce, 3, 65536, Whole),
    row(OpKind::AllReduce, 3, 1048576, Parts),
    row(OpKind::AllReduce, 4, 0, Whole),
    row(OpKind::AllReduce, 4, 1048576, Parts),
    row(OpKind::AllReduce, 6, 0, Whole),
    row(OpKind::AllReduce, 6, 8192, Parts),
];
