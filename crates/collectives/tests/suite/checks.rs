//! One check per operation. Each runs on every rank and compares with the closed form.

use crate::naive::{self, Value, data, reduced, value};
use shardgraph_collectives::{
    Comm, CommError, FLIGHT_RECORD_LEN, Op, OpKind, Outcome, Reduction, Timeout,
};

type Checked = Result<(), CommError>;

const LENGTHS: [usize; 8] = [0, 1, 3, 7, 31, 32, 33, 1000];
const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];

fn run(comm: &mut Comm, op: Op<'_>) -> Checked {
    comm.run(op, Timeout::default())
}

fn rank_and_size(comm: &Comm) -> (usize, usize) {
    (comm.rank() as usize, comm.size() as usize)
}

/// Runs a check that is generic over the element type for each type and length.
macro_rules! for_each_type_and_length {
    ($comm:expr, $check:ident) => {
        for len in LENGTHS {
            $check::<f32>($comm, len)?;
            $check::<u32>($comm, len)?;
            $check::<u64>($comm, len)?;
            $check::<i64>($comm, len)?;
            $check::<u8>($comm, len)?;
        }
    };
}

pub(crate) fn all_reduce(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, all_reduce_of);
    Ok(())
}

/// Bytes from which ranks that are threads work on each other's buffers, where they do: in all, or
/// of the mean part.
const IN_PLACE_FROM: [usize; 3] = [32 << 10, 64 << 10, 128 << 10];

/// Lengths on both sides of the borders where an all-reduce works in another way: 32 KiB between
/// threads, and those of the other back ends.
pub(crate) fn all_reduce_long(comm: &mut Comm) -> Checked {
    for len in [
        8_191, 8_192, 8_193, 32_767, 32_768, 32_769, 131_071, 131_072, 131_073, 262_145, 300_007,
    ] {
        all_reduce_of::<f32>(comm, len)?;
    }
    all_reduce_of::<i64>(comm, 65_537)?;
    all_reduce_of::<u8>(comm, 524_289)
}

fn all_reduce_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    for reduction in REDUCTIONS {
        let mut buf: Vec<T> = data(rank, len);
        run(
            comm,
            Op::AllReduce {
                buf: T::recv(&mut buf),
                reduction,
            },
        )?;
        let wanted: Vec<T> = (0..len).map(|i| reduced(n_ranks, i, reduction)).collect();
        assert_eq!(buf, wanted, "{reduction} of {len}");
    }
    Ok(())
}

pub(crate) fn all_gather(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, all_gather_of);
    long_parts(comm, all_gather_of::<f32>)
}

/// Runs a check with parts of `f32` whose length is on both sides of each border, alone and
/// together.
fn long_parts(comm: &mut Comm, check: impl Fn(&mut Comm, usize) -> Checked) -> Checked {
    for bytes in IN_PLACE_FROM {
        for n_parts in [1, comm.size() as usize] {
            let part_len = bytes / 4 / n_parts;
            check(comm, part_len - 1)?;
            check(comm, part_len + 1)?;
        }
    }
    Ok(())
}

fn all_gather_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let send: Vec<T> = data(rank, len);
    let mut recv = vec![T::of(99); len * n_ranks];
    run(
        comm,
        Op::AllGather {
            send: T::send(&send),
            recv: T::recv(&mut recv),
        },
    )?;
    let wanted: Vec<T> = (0..n_ranks).flat_map(|rank| data(rank, len)).collect();
    assert_eq!(recv, wanted);
    Ok(())
}

/// Uneven lengths, some of them zero: about `len` on average.
fn uneven(n_ranks: usize, len: usize) -> Vec<usize> {
    (0..n_ranks)
        .map(|rank| if rank % 3 == 1 { 0 } else { len + rank })
        .collect()
}

pub(crate) fn all_gather_v(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, all_gather_v_of);
    long_parts(comm, all_gather_v_of::<f32>)
}

fn all_gather_v_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let counts = uneven(n_ranks, len);
    let send: Vec<T> = data(rank, counts[rank]);
    let mut recv = vec![T::of(99); counts.iter().sum()];
    run(
        comm,
        Op::AllGatherV {
            send: T::send(&send),
            recv: T::recv(&mut recv),
            counts: &counts,
        },
    )?;
    let wanted: Vec<T> = (0..n_ranks)
        .flat_map(|rank| data(rank, counts[rank]))
        .collect();
    assert_eq!(recv, wanted);
    Ok(())
}

pub(crate) fn reduce_scatter_v(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, reduce_scatter_v_of);
    long_parts(comm, reduce_scatter_v_of::<f32>)
}

fn reduce_scatter_v_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let counts = uneven(n_ranks, len);
    let start: usize = counts[..rank].iter().sum();
    for reduction in REDUCTIONS {
        let send: Vec<T> = data(rank, counts.iter().sum());
        let mut recv = vec![T::of(99); counts[rank]];
        let op = Op::ReduceScatterV {
            send: T::send(&send),
            recv: T::recv(&mut recv),
            counts: &counts,
            reduction,
        };
        run(comm, op)?;
        let wanted: Vec<T> = (0..counts[rank])
            .map(|i| reduced(n_ranks, start + i, reduction))
            .collect();
        assert_eq!(recv, wanted);
    }
    Ok(())
}

pub(crate) fn broadcast(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, broadcast_of);
    for bytes in IN_PLACE_FROM {
        broadcast_of::<f32>(comm, bytes / 4 - 1)?;
        broadcast_of::<f32>(comm, bytes / 4)?;
    }
    Ok(())
}

fn broadcast_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    for root in 0..n_ranks {
        let mut buf: Vec<T> = data(rank, len);
        run(
            comm,
            Op::Broadcast {
                buf: T::recv(&mut buf),
                root: root as u32,
            },
        )?;
        assert_eq!(buf, data::<T>(root, len));
    }
    Ok(())
}

pub(crate) fn all_to_all_v(comm: &mut Comm) -> Checked {
    for_each_type_and_length!(comm, all_to_all_v_of);
    Ok(())
}

/// How much rank `from` sends to rank `to`: unlike in the two directions, sometimes nothing.
fn part_len(from: usize, to: usize, len: usize) -> usize {
    if (from + to) % 4 == 3 {
        0
    } else {
        len + 2 * from + to
    }
}

fn all_to_all_v_of<T: Value>(comm: &mut Comm, len: usize) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let part = |from: usize, to: usize| -> Vec<T> {
        (0..part_len(from, to, len))
            .map(|i| value(from, 1000 * to + i))
            .collect()
    };
    let send_counts: Vec<usize> = (0..n_ranks).map(|to| part_len(rank, to, len)).collect();
    let recv_counts: Vec<usize> = (0..n_ranks).map(|from| part_len(from, rank, len)).collect();
    let send: Vec<T> = (0..n_ranks).flat_map(|to| part(rank, to)).collect();
    let mut recv = vec![T::of(99); recv_counts.iter().sum()];
    let op = Op::AllToAllV {
        send: T::send(&send),
        send_counts: &send_counts,
        recv: T::recv(&mut recv),
        recv_counts: &recv_counts,
    };
    run(comm, op)?;
    let wanted: Vec<T> = (0..n_ranks).flat_map(|from| part(from, rank)).collect();
    assert_eq!(recv, wanted);
    Ok(())
}

pub(crate) fn barrier(comm: &mut Comm) -> Checked {
    for _ in 0..100 {
        run(comm, Op::Barrier)?;
    }
    Ok(())
}

/// NaN wins, -0.0 is below +0.0, infinities are ordinary.
pub(crate) fn max_min_f32(comm: &mut Comm) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let last = rank + 1 == n_ranks;
    let own = [
        if last { f32::NAN } else { 1.0 },
        if last { -f32::NAN } else { 1.0 },
        if last { -0.0 } else { 0.0 },
        if last {
            f32::NEG_INFINITY
        } else {
            f32::INFINITY
        },
    ];
    let alone = n_ranks == 1;
    let (mut max, mut min) = (own, own);
    run(
        comm,
        Op::AllReduce {
            buf: (&mut max).into(),
            reduction: Reduction::Max,
        },
    )?;
    run(
        comm,
        Op::AllReduce {
            buf: (&mut min).into(),
            reduction: Reduction::Min,
        },
    )?;
    assert!(max[..2].iter().chain(&min[..2]).all(|x| x.is_nan()));
    let bits = |x: [f32; 4]| [x[2].to_bits(), x[3].to_bits()];
    let larger = if alone {
        own
    } else {
        [0.0, 0.0, 0.0, f32::INFINITY]
    };
    assert_eq!(bits(max), bits(larger));
    assert_eq!(bits(min), bits([0.0, 0.0, -0.0, f32::NEG_INFINITY]));
    Ok(())
}

/// Sums of floats that round: ((x0 + x1) + x2) + ..., on every path of the all-reduce and in the
/// reduce-scatter.
pub(crate) fn sum_in_rank_order(comm: &mut Comm) -> Checked {
    let (rank, n_ranks) = rank_and_size(comm);
    let x = |rank: usize, i: usize| 1.0 / ((rank * 7919 + i * 31) % 1009 + 1) as f32;
    for len in [5, 40_000] {
        let wanted = |i: usize| {
            let sum = (1..n_ranks).fold(x(0, i), |sum, rank| sum + x(rank, i));
            sum.to_bits()
        };
        let mut buf: Vec<f32> = (0..len).map(|i| x(rank, i)).collect();
        run(
            comm,
            Op::AllReduce {
                buf: (&mut buf).into(),
                reduction: Reduction::Sum,
            },
        )?;
        assert!((0..len).all(|i| buf[i].to_bits() == wanted(i)));
        let send: Vec<f32> = (0..len * n_ranks).map(|i| x(rank, i)).collect();
        let op = Op::ReduceScatterV {
            send: (&send).into(),
            recv: (&mut buf).into(),
            counts: &vec![len; n_ranks],
            reduction: Reduction::Sum,
        };
        run(comm, op)?;
        assert!((0..len).all(|i| buf[i].to_bits() == wanted(rank * len + i)));
    }
    Ok(())
}

/// 13 blocks of values that no order of `f32` additions would sum alike, cut over the ranks.
pub(crate) fn exact_sum(comm: &mut Comm) -> Checked {
    const N_BLOCKS: usize = 13;
    let (rank, n_ranks) = rank_and_size(comm);
    let x = |block: usize, i: usize| {
        let magnitude = 10f32.powi((block * 5 + i * 3) as i32 % 17 - 8);
        magnitude * ((block * 7919 + i * 31) % 1009) as f32 - magnitude * 500.0
    };
    for len in LENGTHS {
        let own = N_BLOCKS * rank / n_ranks..N_BLOCKS * (rank + 1) / n_ranks;
        let blocks: Vec<f32> = own
            .flat_map(|block| (0..len).map(move |i| x(block, i)))
            .collect();
        let mut out = vec![99.0; len];
        comm.exact_sum(&blocks, &mut out, Timeout::default())?;
        for (i, sum) in out.iter().enumerate() {
            let partials: Vec<f32> = (0..N_BLOCKS).map(|block| x(block, i)).collect();
            assert_eq!(sum.to_bits(), naive::exact_sum(&partials).to_bits());
        }
    }
    Ok(())
}

pub(crate) fn flight_record(comm: &mut Comm) -> Checked {
    let n_before = comm.flight_record().len();
    for i in 0..100 {
        let n_recorded = FLIGHT_RECORD_LEN.min(n_before + i);
        assert_eq!(comm.flight_record().len(), n_recorded);
        run(
            comm,
            Op::Broadcast {
                buf: (&mut [0u8; 3]).into(),
                root: 0,
            },
        )?;
    }
    let record = comm.flight_record();
    let last = record.last().expect("there are some").call.seq;
    assert!(n_before > 0 || last == 99, "{last}");
    for (entry, seq) in record.iter().rev().zip((0..=last).rev()) {
        assert_eq!((entry.call.seq, entry.outcome), (seq, Outcome::Done));
        assert_eq!(
            (entry.call.op, entry.call.len, entry.call.root),
            (OpKind::Broadcast, 3, Some(0))
        );
        assert_eq!(entry.call.rank, comm.rank());
    }
    Ok(())
}
