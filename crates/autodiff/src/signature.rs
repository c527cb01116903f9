//! When two recorded operations are the same.

use std::sync::Arc;

use shardgraph_device::{Binary, Loss, Unary};

use crate::{Axis, BatchLayout, Op, Propagation, Var};

/// An operation's name, operands and numbers, and the addresses of what it refers to.
pub(crate) type Signature = (&'static str, Vec<u64>);

/// What a program hands over with an operation and may change from run to run.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    Index(Arc<[u32]>),
    Layout(Arc<BatchLayout>),
    Graphs(Arc<Propagation>),
}

impl Payload {
    /// The same for all clones of one `Arc`, and for nothing else that is alive.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Index(index) => Arc::as_ptr(index).cast::<u8>().addr(),
            Self::Layout(layout) => Arc::as_ptr(layout).addr(),
            Self::Graphs(graphs) => Arc::as_ptr(graphs).addr(),
        }
    }
}

/// What an operation refers to, inputs' values left out.
pub(crate) fn payload(op: &Op) -> Option<Payload> {
    match op {
        Op::Gather { index, .. } | Op::Scatter { index, .. } => {
            Some(Payload::Index(Arc::clone(index)))
        }
        Op::ShardMatMul { layout, .. }
        | Op::ShardOuter { layout, .. }
        | Op::StateSum { layout, .. }
        | Op::StateBroadcast { layout, .. } => Some(Payload::Layout(Arc::clone(layout))),
        Op::Propagate { graphs, .. } => Some(Payload::Graphs(Arc::clone(graphs))),
        _ => None,
    }
}

/// Puts another payload of the same kind into an operation; says whether it was of that kind.
pub(crate) fn set_payload(op: &mut Op, payload: &Payload) -> bool {
    match (op, payload) {
        (Op::Gather { index, .. } | Op::Scatter { index, .. }, Payload::Index(new)) => {
            *index = Arc::clone(new);
        }
        (
            Op::ShardMatMul { layout, .. }
            | Op::ShardOuter { layout, .. }
            | Op::StateSum { layout, .. }
            | Op::StateBroadcast { layout, .. },
            Payload::Layout(new),
        ) => *layout = Arc::clone(new),
        (Op::Propagate { graphs, .. }, Payload::Graphs(new)) => *graphs = Arc::clone(new),
        _ => return false,
    }
    true
}

/// Equal for operations that give the same value: the payload's address is a part of it.
pub(crate) fn signature(op: &Op, operand: impl Fn(Var) -> u32) -> Signature {
    let (name, mut numbers) = form(op, operand);
    numbers.extend(payload(op).map(|payload| payload.address() as u64));
    (name, numbers)
}

/// The same without the payload: equal for operations of two recordings of one program.
pub(crate) fn form(op: &Op, operand: impl Fn(Var) -> u32) -> Signature {
    let mut numbers: Vec<u64> = Vec::with_capacity(6);
    numbers.extend(op.operands().into_iter().map(|var| u64::from(operand(var))));
    let along = |axis: Axis| match axis {
        Axis::Rows => 0,
        Axis::Cols => 1,
    };
    match op {
        Op::Param(id) => numbers.push(u64::from(id.0)),
        Op::MatMul {
            transpose_a,
            transpose_b,
            ..
        } => numbers.extend([u64::from(*transpose_a), u64::from(*transpose_b)]),
        Op::ShardMatMul { transpose_w, .. } => numbers.push(u64::from(*transpose_w)),
        Op::Linear { relu, .. } => numbers.push(u64::from(*relu)),
        Op::Unary {
            op: Unary::Clamp { low, high },
            ..
        }
        | Op::Binary {
            op: Binary::WhereInside { low, high },
            ..
        } => numbers.extend([low, high].map(|bound| u64::from(bound.to_bits()))),
        Op::Scale { factor, .. } => numbers.push(u64::from(factor.to_bits())),
        Op::Concat { axis, .. } => numbers.push(along(*axis)),
        Op::Slice {
            axis, start, len, ..
        } => numbers.extend([along(*axis), *start as u64, *len as u64]),
        Op::Pad {
            axis, start, total, ..
        } => numbers.extend([along(*axis), *start as u64, *total as u64]),
        Op::Scatter { n_rows, .. } | Op::RepeatRow { n_rows, .. } => numbers.push(*n_rows as u64),
        Op::AllGather { counts, .. } | Op::ReduceScatter { counts, .. } => {
            numbers.extend(counts.iter().map(|&n| n as u64));
        }
        Op::Loss { loss, .. } | Op::LossGrad { loss, .. } => match loss {
            Loss::Mse => numbers.push(u64::MAX),
            Loss::Huber { delta } => numbers.push(u64::from(delta.to_bits())),
        },
        // Nothing beside operands and payload; an element-wise operation's name says which it is.
        Op::Input(_)
        | Op::ShardOuter { .. }
        | Op::Unary {
            op: Unary::Exp | Unary::Log | Unary::Tanh | Unary::Sigmoid,
            ..
        }
        | Op::Binary {
            op: Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::WherePositive,
            ..
        }
        | Op::Relu { .. }
        | Op::LogSoftmax { .. }
        | Op::ArgmaxRows { .. }
        | Op::Detach { .. }
        | Op::Gather { .. }
        | Op::SumRows { .. }
        | Op::StateSum { .. }
        | Op::StateBroadcast { .. }
        | Op::Propagate { .. }
        | Op::AllReduce { .. }
        | Op::Enter { .. } => {}
    }
    (op.name(), numbers)
}
