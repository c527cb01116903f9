//! A run of `f32` that lives on one device.

/// A run of `f32` values on one device.
///
/// Made by [`crate::Device::zeros`] and [`crate::Device::upload`]. Host buffers can be read in place; a buffer of
/// another device answers `None` and is read by [`crate::Device::download`].
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    pub(crate) host: Vec<f32>,
}

impl Buffer {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.host.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// The elements, where they are in host memory.
    pub fn as_host(&self) -> Option<&[f32]> {
        Some(&self.host)
    }

    /// The elements for writing, where they are in host memory.
    pub fn as_host_mut(&mut self) -> Option<&mut [f32]> {
        Some(&mut self.host)
    }
}
