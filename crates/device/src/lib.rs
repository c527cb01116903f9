//! Memory, order of work and kernel launches behind one concrete [`Device`]; three back ends: host, emulated, cuda.
//!
//! A [`Buffer`] is a run of numbers (`f32` unless said otherwise) on one device. The operations on buffers are functions of
//! `shardgraph-ops` and of the crates that own a kernel: each checks lengths ([`checks`]), then runs a plain loop where
//! [`Device::is_host`], the reference, or launches kernels of `cuda/` by name ([`Device::launch`]). The back end `cuda`
//! runs them on an NVIDIA GPU through a driver that is opened at run time; `emulated` runs the same sources compiled for
//! the processor, by which everything but speed is tested without a GPU. A device that is not there is an
//! [`ErrorKind::Unavailable`] with a sentence about what is missing.
//!
//! ```text
//! Device --+-- Buffer<T>      memory: zeros, upload, download, copy
//!          +-- Arena, Places  parts of one allocation, lent out at fixed offsets
//!          +-- Event          order between streams (new_stream, record, wait)
//!          +-- Launch, Arg    a kernel by name, checked against its declaration
//!          +-- Graph          recorded launches (capture)
//!          +-- Published      buffers that other ranks on the same device read (peer_*)
//!          +-- nccl           collective operations between devices
//!          +-- Timer          the one clock of the workspace
//! ```
//!
//! ```
//! use shardgraph_device::Device;
//!
//! let device = Device::host();
//! let a = device.upload(&[1.0, 2.0])?;
//! let mut b = device.zeros(2)?;
//! device.copy(&a, &mut b)?;
//! assert_eq!(device.download(&b)?, vec![1.0, 2.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod arena;
mod between;
mod buffer;
pub mod checks;
mod dense;
mod device;
mod error;
mod gpu;
mod host_memory;
mod host_part;
mod memory;
mod owner;
mod pages;
mod peers;
mod timer;

#[cfg(test)]
mod tests;

pub use arena::{Arena, Places};
pub use buffer::{Buffer, Scalar, bytes_of, bytes_of_mut};
pub use dense::MatMul;
pub use device::{Device, DeviceKind, EMULATOR_FILE};
pub use error::{Error, ErrorKind};
pub use gpu::{Arg, Graph, KeptBytes, Launch, Traffic, nccl};
pub use host_memory::free_host_bytes;
pub use memory::Event;
pub use pages::{prefetch_line, zeros_vec_on_huge_pages};
pub use peers::{MAX_PEER_BLOCKS, Published};
pub use timer::Timer;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
