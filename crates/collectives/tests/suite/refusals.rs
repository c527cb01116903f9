//! Arguments that cannot be right are refused before anything moves, and a failed communicator
//! refuses everything.

use crate::world::{outcomes, patient};
use shardgraph_collectives::{Comm, CommError, CommErrorKind, Op, Reduction, Timeout};

/// One way to call an operation.
type Form = fn(&mut Comm) -> Result<(), CommError>;

/// Gathers `n_send` bytes of this rank into `n_recv`.
fn gather_bytes(comm: &mut Comm, n_send: usize, n_recv: usize) -> Result<(), CommError> {
    let (send, mut recv) = (vec![1u8; n_send], vec![0u8; n_recv]);
    let (send, recv) = ((&send).into(), (&mut recv).into());
    comm.run(Op::AllGather { send, recv }, patient())
}

fn gather_v_bytes(comm: &mut Comm, lens: [usize; 2], counts: &[usize]) -> Result<(), CommError> {
    let (send, mut recv) = (vec![1u8; lens[0]], vec![0u8; lens[1]]);
    let (send, recv) = ((&send).into(), (&mut recv).into());
    comm.run(Op::AllGatherV { send, recv, counts }, patient())
}

fn scatter_v_bytes(comm: &mut Comm, lens: [usize; 2], counts: &[usize]) -> Result<(), CommError> {
    let (send, mut recv) = (vec![1u8; lens[0]], vec![0u8; lens[1]]);
    let (send, recv) = ((&send).into(), (&mut recv).into());
    let reduction = Reduction::Sum;
    let op = Op::ReduceScatterV {
        send,
        recv,
        counts,
        reduction,
    };
    comm.run(op, patient())
}

fn exchange_bytes(
    comm: &mut Comm,
    lens: [usize; 2],
    counts: [[usize; 3]; 2],
) -> Result<(), CommError> {
    let (send, mut recv) = (vec![1u8; lens[0]], vec![0u8; lens[1]]);
    let op = Op::AllToAllV {
        send: (&send).into(),
        send_counts: &counts[0],
        recv: (&mut recv).into(),
        recv_counts: &counts[1],
    };
    comm.run(op, patient())
}

fn mixed_types(comm: &mut Comm) -> Result<(), CommError> {
    let (send, mut recv) = ([1u8], [0f32; 3]);
    let (send, recv) = ((&send).into(), (&mut recv).into());
    comm.run(Op::AllGather { send, recv }, patient())
}

/// What a rank asks for wrongly, it hears at once, and its peers do not wait for it.
#[test]
fn wrong_arguments_are_refused_before_anything_moves() {
    const ONES: [usize; 3] = [1; 3];
    let wrong: &[(Form, &str)] = &[
        (|c| gather_bytes(c, 2, 5), "expected 6 elements"),
        (|c| gather_bytes(c, 1, 2), "expected 3 elements"),
        (mixed_types, "recv holds f32"),
        (|c| gather_v_bytes(c, [1, 3], &[1, 2]), "2 entries"),
        (|c| gather_v_bytes(c, [2, 3], &[1; 3]), "counts[rank]"),
        (|c| gather_v_bytes(c, [1, 4], &[1; 3]), "sum of counts"),
        (|c| gather_v_bytes(c, [1, 4], &[usize::MAX; 3]), "overflows"),
        (|c| scatter_v_bytes(c, [4, 1], &[1; 3]), "sum of counts"),
        (|c| scatter_v_bytes(c, [3, 2], &[1; 3]), "counts[rank]"),
        (
            |c| exchange_bytes(c, [4, 3], [ONES, ONES]),
            "sum of send_counts",
        ),
        (
            |c| exchange_bytes(c, [3, 2], [ONES, ONES]),
            "sum of recv_counts",
        ),
        (|c| exchange_bytes(c, [3, 6], [ONES, [2; 3]]), "from itself"),
        (broadcast_from_3, "root is 3"),
        (
            |c| c.exact_sum(&[1.0; 5], &mut [0.0; 2], patient()),
            "no multiple",
        ),
    ];
    for (form, words) in wrong {
        check_refusal(form, words);
    }
}

fn broadcast_from_3(comm: &mut Comm) -> Result<(), CommError> {
    let mut bytes = [0u8];
    let buf = (&mut bytes).into();
    comm.run(Op::Broadcast { buf, root: 3 }, patient())
}

fn check_refusal(form: impl Fn(&mut Comm) -> Result<(), CommError> + Sync, words: &str) {
    let outcomes = outcomes(3, |mut comm| match comm.rank() {
        1 => form(&mut comm),
        _ => comm.run(Op::Barrier, patient()),
    });
    for (rank, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Err(CommErrorKind::Argument { seq: 0, what, .. }) => {
                assert!(rank == 1 && what.contains(words), "{what}");
            }
            Err(CommErrorKind::Aborted {
                by: Some(1), why, ..
            }) => {
                assert!(rank != 1 && why.contains(words), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// After any error: no operation, no exact sum; the record shows the failure.
#[test]
fn a_failed_communicator_refuses_everything() {
    let mut comm = Comm::solo();
    let first = comm
        .run(
            Op::Broadcast {
                buf: (&mut [0u8]).into(),
                root: 1,
            },
            Timeout::default(),
        )
        .unwrap_err();
    assert!(
        first
            .to_string()
            .contains("broadcast of 1 u8, root 1 (failed)"),
        "{first}"
    );
    assert_eq!(first.recent().len(), 1);
    let refused = [
        comm.run(Op::Barrier, Timeout::default()).unwrap_err(),
        comm.exact_sum(&[], &mut [], Timeout::default())
            .unwrap_err(),
    ];
    for error in refused {
        let CommErrorKind::Aborted {
            by: Some(0), why, ..
        } = error.kind()
        else {
            panic!("{error}")
        };
        assert!(why.contains("root is 1"));
    }
    assert_eq!(comm.flight_record().len(), 1);
}
