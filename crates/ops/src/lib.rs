//! Numeric operations on the buffers of a [`Device`](shardgraph_device::Device): what layers are made of.
//!
//! Every operation is a free function that takes the device first: `matmul(&device, shape, &a, &b, &mut out)`. It checks
//! the lengths of its operands; then it runs its loop, the reference, where the device is the host, or launches its
//! kernel of `cuda/ops/`. One file holds all of that for an operation or a small family.
//!
//! ```text
//! elementwise   unary (exp, log, tanh, sigmoid, sqrt, clamp), binary, binary_column, scale, relu
//! rows          gather_rows, scatter_rows (RowIndex), scale_rows, row_sums, copy_2d
//! softmax       log_softmax, argmax_rows
//! loss          loss, loss_grad (mean squared error, Huber)
//! matmul        matmul, linear             blocks     block_matmul, block_outer
//! adjacency     Adjacency, ResidentAdjacency -- the matrix of
//! sparse        sparse_product, masked_sparse_product
//! optimiser     adam, rms_prop, sgd
//! ```
//!
//! The host loops pick their instruction set at run time, so a published binary needs no `-march=native`.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_ops::{MatMul, matmul};
//!
//! let device = Device::host();
//! let a = device.upload(&[1.0, 2.0, 3.0, 4.0])?;
//! let b = device.upload(&[1.0, 0.0, 0.0, 1.0])?;
//! let mut out = device.zeros(4)?;
//! let product = MatMul { rows: 2, inner: 2, cols: 2, transpose_a: false, transpose_b: false };
//! matmul(&device, product, &a, &b, &mut out)?;
//! assert_eq!(device.download(&out)?, vec![1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod adjacency;
mod blocks;
mod elementwise;
mod functions;
mod launch;
mod loss;
mod matmul;
mod optimiser;
mod rows;
mod shape;
mod simd;
mod softmax;
mod sparse;
mod step_numbers;

#[cfg(test)]
mod tests;

pub use adjacency::{Adjacency, BitPath, Block, ResidentAdjacency};
pub use blocks::{block_matmul, block_outer};
pub use elementwise::{Binary, Unary, binary, binary_column, relu, scale, unary};
pub use loss::{Loss, loss, loss_grad};
pub use matmul::{linear, matmul, matmul_of_slices};
pub use optimiser::{Adam, RmsProp, adam, rms_prop, sgd};
pub use rows::{Copy2d, RowIndex, copy_2d, gather_rows, row_sums, scale_rows, scatter_rows};
pub use shape::Rows;
pub use shardgraph_device::MatMul;
pub use softmax::{argmax_rows, log_softmax};
pub use sparse::{MaskedProduct, SparseProduct, masked_sparse_product, sparse_product};
pub use step_numbers::StepNumbers;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
