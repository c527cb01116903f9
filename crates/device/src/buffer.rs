//! A typed run of elements that lives on one device.

use crate::gpu::memory::Memory;
use crate::host_part::HostPart;
use crate::{DeviceKind, Error};

/// What device memory is made of.
///
/// Implemented for `f32`, `u64`, `u32`, `i32`, `u16` (also the bits of an fp16 number) and `u8`, and for nothing else:
/// every bit pattern is a value, so a copy of bytes is always a valid run of elements.
pub trait Scalar: sealed::Scalar {}

pub(crate) mod sealed {
    /// The facts of a [`super::Scalar`].
    pub trait Scalar: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
        /// The letter of the type in a kernel's signature.
        const LETTER: char;
    }
}

macro_rules! scalar {
    ($($ty:ty: $letter:literal),*) => {
        $(
            impl sealed::Scalar for $ty {
                const LETTER: char = $letter;
            }
            impl Scalar for $ty {}
        )*
    };
}

scalar!(f32: 'f', u32: 'u', i32: 'i', u64: 'U', u16: 'h', u8: 'b');

/// A run of values on one device; `f32` unless another [`Scalar`] is named.
///
/// Made by [`crate::Device::zeros`] and [`crate::Device::upload`]. Host buffers can be read in place; a buffer of
/// another device answers `None` and is read by [`crate::Device::download`]. Its memory is given back when it is
/// dropped.
#[derive(Debug)]
pub struct Buffer<T: Scalar = f32> {
    pub(crate) store: Store<T>,
}

/// Where the elements are.
#[derive(Debug)]
pub(crate) enum Store<T> {
    Host(Vec<T>),
    /// In host memory too, lent out by an arena.
    Part(HostPart<T>),
    Gpu(Memory),
}

impl<T: Scalar> Buffer<T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Host(values) => values.len(),
            Store::Part(part) => part.values().len(),
            Store::Gpu(memory) => memory.bytes() / size_of::<T>(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, where they are in host memory.
    pub fn as_host(&self) -> Option<&[T]> {
        match &self.store {
            Store::Host(values) => Some(values),
            Store::Part(part) => Some(part.values()),
            Store::Gpu(_) => None,
        }
    }

    /// The elements as a vector, where they are one.
    ///
    /// ```
    /// use shardgraph_device::Buffer;
    /// assert_eq!(Buffer::from(vec![1.0, 2.0]).into_host(), Some(vec![1.0, 2.0]));
    /// # Ok::<(), shardgraph_device::Error>(())
    /// ```
    pub fn into_host(self) -> Option<Vec<T>> {
        match self.store {
            Store::Host(values) => Some(values),
            Store::Part(_) | Store::Gpu(_) => None,
        }
    }

    /// The address on the device, for libraries that take one (NCCL, cuSPARSE); nothing on the host and for no elements.
    ///
    /// What is there is valid on the buffer's stream ([`crate::Device::stream_handle`]) and as long as the buffer lives.
    pub fn device_address(&self) -> Option<u64> {
        match &self.store {
            Store::Host(_) | Store::Part(_) => None,
            Store::Gpu(memory) => Some(memory.address()).filter(|&address| address != 0),
        }
    }

    /// The elements, for an operation of the host.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OtherDevice`] for a buffer in a GPU's memory.
    #[inline]
    pub fn on_host(&self, op: &str) -> Result<&[T], Error> {
        match &self.store {
            Store::Host(values) => Ok(values),
            Store::Part(part) => Ok(part.values()),
            Store::Gpu(_) => Err(Error::other_device(op, DeviceKind::Host)),
        }
    }

    /// The elements for writing, for an operation of the host.
    ///
    /// # Errors
    /// As [`Buffer::on_host`].
    #[inline]
    pub fn on_host_mut(&mut self, op: &str) -> Result<&mut [T], Error> {
        match &mut self.store {
            Store::Host(values) => Ok(values),
            Store::Part(part) => Ok(part.values_mut()),
            Store::Gpu(_) => Err(Error::other_device(op, DeviceKind::Host)),
        }
    }

    /// The elements for writing, where they are in host memory.
    pub fn as_host_mut(&mut self) -> Option<&mut [T]> {
        match &mut self.store {
            Store::Host(values) => Some(values),
            Store::Part(part) => Some(part.values_mut()),
            Store::Gpu(_) => None,
        }
    }
}

impl<T: Scalar> From<Vec<T>> for Buffer<T> {
    /// A host buffer that takes the values over without a copy.
    fn from(values: Vec<T>) -> Self {
        Self {
            store: Store::Host(values),
        }
    }
}

/// The bytes of a run of scalars, as they lie in memory.
#[must_use]
pub fn bytes_of<T: Scalar>(values: &[T]) -> &[u8] {
    // SAFETY: a Scalar is a primitive number without padding; the length is the slice's own, and u8 needs no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of a run of scalars, for writing.
#[must_use]
pub fn bytes_of_mut<T: Scalar>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`, and every pattern of bytes is a value of a Scalar.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// The run of scalars that these bytes are.
pub(crate) fn values_of<T: Scalar>(bytes: &[u8]) -> &[T] {
    // SAFETY: every pattern of bytes is a value of a Scalar.
    let (before, values, behind) = unsafe { bytes.align_to() };
    assert!(before.is_empty() && behind.is_empty(), "whole values");
    values
}

/// As [`values_of`], for writing.
pub(crate) fn values_of_mut<T: Scalar>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as in `values_of`, and a Scalar has no padding.
    let (before, values, behind) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && behind.is_empty(), "whole values");
    values
}
