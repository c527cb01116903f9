//! What each operation computes, for the interpreters that compute: values of operands in, one result out.
//!
//! The eager interpreter and a planned program both come here, with the same device methods in the same order: that is
//! why their results have the same bits.

use std::borrow::Cow;
use std::sync::Arc;

use shardgraph_device::{Buffer, Copy2d, Device, DeviceKind, MatMul, ResidentIndex, Rows};

use crate::ranks::Ranks;
use crate::{Axis, BatchLayout, Error, Op, Propagation, Shape};

/// A value that an operation reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand<'b> {
    pub(crate) values: &'b Arc<Buffer>,
    pub(crate) shape: Shape,
}

impl Operand<'_> {
    fn rows(&self) -> Rows {
        Rows {
            n_rows: self.shape.rows,
            width: self.shape.cols,
        }
    }
}

/// Whether ranks exchange values in an operation, so that all of them have to come to it, and in one order.
pub(crate) fn is_exchange(op: &Op) -> bool {
    matches!(
        op,
        Op::ShardOuter { .. }
            | Op::StateSum { .. }
            | Op::Propagate { .. }
            | Op::AllReduce { .. }
            | Op::AllGather { .. }
            | Op::ReduceScatter { .. }
    )
}

/// Computes an operation that is an exchange ([`is_exchange`]).
pub(crate) fn exchange(
    ranks: &mut Ranks<'_>,
    op: &Op,
    operands: &[Operand<'_>],
    shape: Shape,
) -> Result<Buffer, Error> {
    let own = || Arc::clone(operands[0].values);
    match op {
        Op::ShardOuter { layout, .. } => shard_outer(ranks, operands, layout, shape),
        Op::StateSum { layout, .. } => state_sum(ranks, operands[0], layout, shape),
        Op::Propagate { graphs, .. } => propagate(ranks, operands[0], graphs),
        Op::AllReduce { .. } => ranks.all_reduce(own()),
        Op::AllGather { counts, .. } => gather_rows_of_ranks(ranks, operands[0], counts),
        Op::ReduceScatter { counts, .. } => {
            let elements: Vec<usize> = counts.iter().map(|rows| rows * shape.cols).collect();
            ranks.reduce_scatter(own(), &elements)
        }
        other => unreachable!("{} is no exchange", other.name()),
    }
}

fn shard_outer(
    ranks: &mut Ranks<'_>,
    operands: &[Operand<'_>],
    layout: &BatchLayout,
    shape: Shape,
) -> Result<Buffer, Error> {
    let dims = MatMul {
        rows: shape.rows,
        inner: layout.n_rows(),
        cols: shape.cols,
        transpose_a: true,
        transpose_b: false,
    };
    let mut blocks = ranks.device.zeros(layout.n_blocks() * shape.len())?;
    let (x, y) = (operands[0].values, operands[1].values);
    let bounds = layout.bounds();
    ranks.device.block_outer(dims, bounds, x, y, &mut blocks)?;
    ranks.exact_sum(Arc::new(blocks), shape.len())
}

fn state_sum(
    ranks: &mut Ranks<'_>,
    x: Operand<'_>,
    layout: &BatchLayout,
    shape: Shape,
) -> Result<Buffer, Error> {
    let device = ranks.device;
    let slots = layout.partials_on(device)?;
    let mut blocks = device.zeros(slots.n_rows() * shape.cols)?;
    device.scatter_rows_by(slots, shape.cols, x.values, &mut blocks)?;
    ranks.exact_sum(Arc::new(blocks), shape.len())
}

/// [`exchange`] into `out`; what ranks gather for a neighbour sum on the host comes to `gathered`, which keeps its memory.
pub(crate) fn exchange_into(
    ranks: &mut Ranks<'_>,
    op: &Op,
    operands: &[Operand<'_>],
    (out, shape): (&mut Buffer, Shape),
    gathered: &mut Vec<f32>,
) -> Result<(), Error> {
    if let Op::Propagate { graphs, .. } = op
        && !graphs.has_blocks()
    {
        let (x, width) = (operands[0], operands[0].shape.cols);
        if ranks.comm.size() == 1 {
            return graphs.apply_into(ranks.device, x.values, width, out);
        }
        if ranks.device.kind() == DeviceKind::Host {
            let counts = elements_of_ranks(x, &graphs.layout().counts());
            let mut all = std::mem::take(gathered);
            all.resize(counts.iter().sum(), 0.0);
            ranks.gather_on_host(x.values, &counts, &mut all)?;
            let all = Buffer::from(all);
            graphs.apply_into(ranks.device, &all, width, out)?;
            *gathered = all.into_host().unwrap_or_default();
            return Ok(());
        }
    }
    let result = exchange(ranks, op, operands, shape)?;
    Ok(ranks.device.copy(&result, out)?)
}

/// The elements that [`exchange_into`] gathers for an operation on the host of one of `n_ranks` ranks; `x` is the shape of its operand.
pub(crate) fn n_gathered(op: &Op, x: Shape, n_ranks: u32) -> usize {
    match op {
        Op::Propagate { graphs, .. } if n_ranks > 1 && !graphs.has_blocks() => {
            graphs.layout().counts().iter().sum::<usize>() * x.cols
        }
        _ => 0,
    }
}

fn propagate(ranks: &mut Ranks<'_>, x: Operand<'_>, graphs: &Propagation) -> Result<Buffer, Error> {
    let width = x.shape.cols;
    if let Some(sums) = graphs.apply_blocks(ranks, x.values, width)? {
        return Ok(sums);
    }
    if ranks.comm.size() == 1 {
        return graphs.apply(ranks.device, x.values, width);
    }
    let gathered = gather_rows_of_ranks(ranks, x, &graphs.layout().counts())?;
    graphs.apply(ranks.device, &gathered, width)
}

fn gather_rows_of_ranks(
    ranks: &mut Ranks<'_>,
    x: Operand<'_>,
    counts: &[usize],
) -> Result<Buffer, Error> {
    ranks.all_gather(Arc::clone(x.values), &elements_of_ranks(x, counts))
}

fn elements_of_ranks(x: Operand<'_>, counts: &[usize]) -> Vec<usize> {
    counts.iter().map(|rows| rows * x.shape.cols).collect()
}

/// Computes an operation of this rank alone into `out`, whose contents so far do not matter; `index` is what
/// [`row_index`] says, where the device has it already.
pub(crate) fn local(
    device: &Device,
    op: &Op,
    operands: &[Operand<'_>],
    index: Option<&ResidentIndex>,
    (out, shape): (&mut Buffer, Shape),
) -> Result<(), Error> {
    let values = |i: usize| operands[i].values.as_ref();
    match op {
        Op::MatMul { .. } | Op::ShardMatMul { .. } | Op::Linear { .. } => {
            product(device, op, operands, (out, shape))?;
        }
        Op::Unary { op, .. } => device.unary(*op, values(0), out)?,
        Op::LogSoftmax { .. } => device.log_softmax(operands[0].rows(), values(0), out)?,
        Op::ArgmaxRows { .. } => device.argmax_rows(operands[0].rows(), values(0), out)?,
        Op::Binary { op, .. } => device.binary(*op, values(0), values(1), out)?,
        Op::Scale { factor, .. } => device.scale(*factor, values(0), out)?,
        Op::Relu { .. } => device.relu(values(0), out)?,
        Op::Concat { .. } | Op::Slice { .. } | Op::Pad { .. } => {
            cut(device, op, operands, (out, shape))?;
        }
        Op::Gather { .. }
        | Op::RepeatRow { .. }
        | Op::StateBroadcast { .. }
        | Op::Scatter { .. }
        | Op::SumRows { .. } => by_index(device, op, operands[0], index, (out, shape))?,
        Op::Loss { loss, .. } => {
            let value = device.loss(*loss, values(0), values(1))?;
            device.copy(&value, out)?;
        }
        Op::LossGrad { loss, .. } => {
            device.loss_grad(*loss, (values(0), values(1)), values(2), out)?;
        }
        other => unreachable!("{} is computed elsewhere", other.name()),
    }
    Ok(())
}

/// Gathers and scatters of rows.
fn by_index(
    device: &Device,
    op: &Op,
    x: Operand<'_>,
    index: Option<&ResidentIndex>,
    (out, shape): (&mut Buffer, Shape),
) -> Result<(), Error> {
    let scatters = matches!(op, Op::Scatter { .. } | Op::SumRows { .. });
    match (index, scatters) {
        (Some(index), true) => device.scatter_rows_by(index, shape.cols, x.values, out)?,
        (Some(index), false) => device.gather_rows_by(index, shape.cols, x.values, out)?,
        (None, true) => {
            let rows = Rows {
                n_rows: shape.rows,
                width: shape.cols,
            };
            device.scatter_rows(rows, &row_index(op, x.shape), x.values, out)?;
        }
        (None, false) => {
            device.gather_rows(x.rows(), &row_index(op, x.shape), x.values, out)?;
        }
    }
    Ok(())
}

/// The row numbers that an operation gathers or scatters by; none for others. `x` is the shape of its operand.
pub(crate) fn row_index(op: &Op, x: Shape) -> Cow<'_, [u32]> {
    match op {
        Op::Gather { index, .. } | Op::Scatter { index, .. } => Cow::Borrowed(index),
        Op::StateBroadcast { layout, .. } => Cow::Borrowed(layout.states()),
        Op::SumRows { .. } => Cow::Owned(vec![0; x.rows]),
        Op::RepeatRow { n_rows, .. } => Cow::Owned(vec![0; *n_rows]),
        _ => Cow::Borrowed(&[]),
    }
}

/// The row numbers of an operation on the device, for [`local`]; none for an operation that needs none.
pub(crate) fn resident_index(
    device: &Device,
    op: &Op,
    (x, shape): (Shape, Shape),
) -> Result<Option<ResidentIndex>, Error> {
    let n_rows = match op {
        Op::Gather { .. } | Op::RepeatRow { .. } | Op::StateBroadcast { .. } => x.rows,
        Op::Scatter { .. } | Op::SumRows { .. } => shape.rows,
        _ => return Ok(None),
    };
    Ok(Some(device.resident_index(n_rows, &row_index(op, x))?))
}

fn product(
    device: &Device,
    op: &Op,
    operands: &[Operand<'_>],
    (out, shape): (&mut Buffer, Shape),
) -> Result<(), Error> {
    let (a, b) = (operands[0], operands[1]);
    let dims = |inner: usize, transpose_a: bool, transpose_b: bool| MatMul {
        rows: shape.rows,
        inner,
        cols: shape.cols,
        transpose_a,
        transpose_b,
    };
    match op {
        Op::MatMul {
            transpose_a,
            transpose_b,
            ..
        } => {
            let inner = if *transpose_a {
                a.shape.rows
            } else {
                a.shape.cols
            };
            let dims = dims(inner, *transpose_a, *transpose_b);
            device.matmul(dims, a.values, b.values, out)?;
        }
        Op::ShardMatMul {
            transpose_w,
            layout,
            ..
        } => {
            let dims = dims(a.shape.cols, false, *transpose_w);
            device.block_matmul(dims, layout.bounds(), a.values, b.values, out)?;
        }
        Op::Linear { relu, .. } => {
            let row = operands[2].values;
            let dims = dims(a.shape.cols, false, false);
            device.linear(dims, a.values, (b.values, row), *relu, out)?;
        }
        other => unreachable!("{} is no product", other.name()),
    }
    Ok(())
}

/// Concatenation, slices and padding are copies of rectangles.
fn cut(
    device: &Device,
    op: &Op,
    operands: &[Operand<'_>],
    (out, shape): (&mut Buffer, Shape),
) -> Result<(), Error> {
    let offset = |axis: Axis, start: usize, stride: usize| match axis {
        Axis::Rows => start * stride,
        Axis::Cols => start,
    };
    let into = |x: Shape, target_first: usize| Copy2d {
        rows: x.rows,
        width: x.cols,
        source_first: 0,
        source_stride: x.cols,
        target_first,
        target_stride: shape.cols,
    };
    let x = operands[0];
    match op {
        Op::Concat { axis, .. } => {
            let b = operands[1];
            let start = match axis {
                Axis::Rows => x.shape.rows,
                Axis::Cols => x.shape.cols,
            };
            let second = into(b.shape, offset(*axis, start, shape.cols));
            device.copy_2d(into(x.shape, 0), x.values, out)?;
            device.copy_2d(second, b.values, out)?;
        }
        Op::Pad { axis, start, .. } => {
            device.clear(out)?;
            let copy = into(x.shape, offset(*axis, *start, shape.cols));
            device.copy_2d(copy, x.values, out)?;
        }
        Op::Slice { axis, start, .. } => {
            let source_stride = x.shape.cols;
            let copy = Copy2d {
                rows: shape.rows,
                width: shape.cols,
                source_first: offset(*axis, *start, source_stride),
                source_stride,
                target_first: 0,
                target_stride: shape.cols,
            };
            device.copy_2d(copy, x.values, out)?;
        }
        other => unreachable!("{} copies no rectangle", other.name()),
    }
    Ok(())
}
