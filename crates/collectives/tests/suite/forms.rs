//! Operations of different forms on three ranks: calls that differ in one argument each.

use crate::world::{all_reduce, patient};
use shardgraph_collectives::{Comm, CommError, Op, Reduction};

/// An operation of a fixed form for one rank of a world of three.
pub(crate) type Form = fn(&mut Comm) -> Result<(), CommError>;

fn ranks(comm: &Comm) -> usize {
    comm.size() as usize
}

pub(crate) fn reduce_forms() -> Vec<Form> {
    let sum_of_4: Form = |comm| all_reduce(comm, &mut [1.0; 4], patient());
    let sum_of_5: Form = |comm| all_reduce(comm, &mut [1.0; 5], patient());
    let max_of_4: Form = |comm| {
        comm.run(
            Op::AllReduce {
                buf: (&mut [1f32; 4]).into(),
                reduction: Reduction::Max,
            },
            patient(),
        )
    };
    let integers: Form = |comm| {
        comm.run(
            Op::AllReduce {
                buf: (&mut [1u32; 4]).into(),
                reduction: Reduction::Sum,
            },
            patient(),
        )
    };
    let scatter: Form = |comm| {
        let (send, mut recv) = (vec![1f32; 4 * ranks(comm)], [0f32; 4]);
        let op = Op::ReduceScatterV {
            send: (&send).into(),
            recv: (&mut recv).into(),
            counts: &vec![4; ranks(comm)],
            reduction: Reduction::Sum,
        };
        comm.run(op, patient())
    };
    let exact: Form = |comm| comm.exact_sum(&[1.0; 8], &mut [0.0; 4], patient());
    vec![sum_of_4, sum_of_5, max_of_4, integers, scatter, exact]
}

pub(crate) fn move_forms() -> Vec<Form> {
    let from_0: Form = |comm| {
        comm.run(
            Op::Broadcast {
                buf: (&mut [1u8; 4]).into(),
                root: 0,
            },
            patient(),
        )
    };
    let from_1: Form = |comm| {
        comm.run(
            Op::Broadcast {
                buf: (&mut [1u8; 4]).into(),
                root: 1,
            },
            patient(),
        )
    };
    let gather: Form = |comm| {
        let mut recv = vec![0u8; 4 * ranks(comm)];
        comm.run(
            Op::AllGather {
                send: (&[1u8; 4]).into(),
                recv: (&mut recv).into(),
            },
            patient(),
        )
    };
    // The total is the same in both, only the counts tell them apart.
    let gather_v: Form = |comm| gather_counts(comm, [1, 2, 3]);
    let gather_w: Form = |comm| gather_counts(comm, [2, 1, 3]);
    let scatter_v: Form = |comm| scatter_counts(comm, [1, 2, 3]);
    let scatter_w: Form = |comm| scatter_counts(comm, [2, 1, 3]);
    let to_all: Form = |comm| exchange(comm, [2, 2, 2]);
    let barrier: Form = |comm| comm.run(Op::Barrier, patient());
    vec![
        from_0, from_1, gather, gather_v, gather_w, scatter_v, scatter_w, to_all, barrier,
    ]
}

fn gather_counts(comm: &mut Comm, counts: [usize; 3]) -> Result<(), CommError> {
    let send = vec![1u64; counts[comm.rank() as usize]];
    comm.run(
        Op::AllGatherV {
            send: (&send).into(),
            recv: (&mut [0u64; 6]).into(),
            counts: &counts,
        },
        patient(),
    )
}

fn scatter_counts(comm: &mut Comm, counts: [usize; 3]) -> Result<(), CommError> {
    let mut recv = vec![0u64; counts[comm.rank() as usize]];
    let op = Op::ReduceScatterV {
        send: (&[1u64; 6]).into(),
        recv: (&mut recv).into(),
        counts: &counts,
        reduction: Reduction::Sum,
    };
    comm.run(op, patient())
}

fn exchange(comm: &mut Comm, counts: [usize; 3]) -> Result<(), CommError> {
    let mut recv = [0i64; 6];
    let op = Op::AllToAllV {
        send: (&[1i64; 6]).into(),
        send_counts: &counts,
        recv: (&mut recv).into(),
        recv_counts: &counts,
    };
    comm.run(op, patient())
}
