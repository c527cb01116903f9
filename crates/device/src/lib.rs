//! Memory and numeric kernels behind one concrete [`Device`]; the host back end is the reference.
//!
//! A [`Buffer`] is a run of numbers (`f32` unless said otherwise) on one device. Every operation that the layers above
//! need is one method of [`Device`], which checks lengths and hands over to its back end: `host`, plain loops that are
//! the reference; `cuda`, the kernels of `cuda/` on an NVIDIA GPU through a driver that is opened at run time; and
//! `emulated`, the same kernel sources compiled for the processor, by which everything but speed is tested without a
//! GPU. A device that is not there is an [`ErrorKind::Unavailable`] with a sentence about what is missing.
//! The host kernels pick their instruction set at run time, so a published binary needs no `-march=native`.
//!
//! An [`Arena`] lends parts of one allocation at fixed places, for programs that know how long each value lives.
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

mod arena;
pub mod basis;
pub mod bits;
mod buffer;
pub mod cover;
mod device;
mod error;
mod gpu;
mod host;
mod host_memory;
mod memory;
pub mod messages;
mod neural;
mod ops;
mod pages;
mod peers;
mod resident;
pub mod segments;
pub mod sgns;
mod sparse;
mod timer;

#[cfg(test)]
mod tests;

pub use arena::{Arena, Places};
pub use buffer::{Buffer, Scalar, bytes_of, bytes_of_mut};
pub use device::{Device, DeviceKind, EMULATOR_FILE};
pub use error::{Error, ErrorKind};
pub use gpu::{Arg, Launch, nccl};
pub use host_memory::free_host_bytes;
pub use memory::Event;
pub use ops::{Adam, Adjacency, Binary, Copy2d, Loss, MatMul, Rows, SparseProduct, Unary};
pub use pages::{prefetch, zeros_vec_on_huge_pages};
pub use peers::{MAX_PEER_BLOCKS, Published};
pub use resident::{BitPath, ResidentAdjacency, ResidentIndex};
pub use sparse::MaskedProduct;
pub use timer::Timer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
