//! Copies from one device of this process to another.

#[cfg(doc)]
use crate::ErrorKind;
use crate::device::BackEnd;
use crate::{Buffer, Device, Error, Scalar};

impl Device {
    /// True if both are streams of one device: then [`Device::adopt`] moves a buffer without a copy.
    pub fn is_beside(&self, other: &Device) -> bool {
        match (&self.back_end, &other.back_end) {
            (BackEnd::Host, BackEnd::Host) => true,
            (BackEnd::Gpu(gpu), BackEnd::Gpu(other)) => gpu.is_beside(other),
            _ => false,
        }
    }

    /// A copy on this device of a buffer of another one, whose work so far is waited for; complete when the call returns.
    ///
    /// Two GPUs copy from card to card, over NVLink or PCIe as the driver finds; all others go through host memory.
    ///
    /// # Errors
    /// [`ErrorKind::OtherDevice`] for a buffer that is not `source`'s; the drivers'.
    pub fn copy_from<T: Scalar>(
        &self,
        source: &Device,
        buffer: &Buffer<T>,
    ) -> Result<Buffer<T>, Error> {
        if let (BackEnd::Gpu(gpu), BackEnd::Gpu(peer)) = (&self.back_end, &source.back_end)
            && let Some(copied) = gpu.copy_from_card(peer, buffer)?
        {
            return Ok(copied);
        }
        self.upload(&source.download(buffer)?)
    }
}
