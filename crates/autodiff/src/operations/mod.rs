//! The operations of this crate, a file for each family: names, shape rules, kernels and adjoints.
//!
//! [`crate::Ctx`] has a short name for each of them. What is built from them by other crates (the sharded products and
//! neighbour sums of `shardgraph-layers`) implements [`crate::Operation`] there.

mod broadcast;
mod collective;
mod constant;
mod elementwise;
mod loss;
mod matmul;
mod rows;
mod rule;
mod slices;
mod softmax;

pub use broadcast::{BroadcastColumn, RowSums};
pub use collective::{AllGather, AllReduce, CopyToRanks, ReduceScatter};
pub use constant::{ArgmaxRows, Detach};
pub use elementwise::{Elementwise, Function, Relu, Scale};
pub use loss::{AverageLoss, LossGrad};
pub use matmul::{Linear, MatMul};
pub use rows::{Gather, RepeatRow, Scatter, SumRows};
pub use slices::{Concat, Pad, Slice};
pub use softmax::LogSoftmax;
