//! Memory and numeric kernels behind one concrete [`Device`]; the host back end is the reference.
//!
//! A [`Buffer`] is a run of `f32` on one device. Every operation that the layers above need is one method of
//! [`Device`], which checks lengths and hands over to its back end. Today there is one back end, the host; `emulated`
//! and `cuda` take the same seam ([`DeviceKind`] already names them, and asking for one is an error that says so).
//! The host kernels pick their instruction set at run time, so a published binary needs no `-march=native`.
//!
//! Beside the dense kernels, [`bits`] holds the bit-matrix kernels that the solver's incremental path stands on, and
//! [`Timer`] is the one clock of the workspace.
//!
//! ```
//! use shardgraph_device::{Device, MatMul};
//!
//! let device = Device::host();
//! let a = device.upload(&[1.0, 2.0, 3.0, 4.0])?;
//! let b = device.upload(&[1.0, 0.0, 0.0, 1.0])?;
//! let mut out = device.zeros(4)?;
//! let product = MatMul { rows: 2, inner: 2, cols: 2, transpose_a: false, transpose_b: false };
//! device.matmul(product, &a, &b, &mut out)?;
//! assert_eq!(device.download(&out)?, vec![1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

pub mod bits;
mod buffer;
mod device;
mod error;
mod host;
mod ops;
mod timer;

#[cfg(test)]
mod tests;

pub use buffer::Buffer;
pub use device::{Device, DeviceKind};
pub use error::{Error, ErrorKind};
pub use ops::{Adam, Adjacency, Binary, Copy2d, Loss, MatMul, Rows, SparseProduct};
pub use timer::Timer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
