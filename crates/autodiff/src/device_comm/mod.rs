//! Collective operations on device buffers: one communicator, three transports.
//!
//! Ranks that have joined a group (see [`rank_device`]) exchange through NCCL ([`group`]). Ranks that are threads with a
//! stream each on one device hand each other their buffers, which the device's own kernels read in place ([`peers`]).
//! All other ranks exchange copies in host memory through their [`Comm`] ([`host`]). The sums have the same bits.

mod group;
mod host;
mod peers;
mod setup;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Buffer, Device, DeviceKind};

pub use self::setup::{leave_group, rank_device};
use crate::Error;

/// A rank's device, its communicator, and the longest time that it waits for another rank.
///
/// ```
/// use std::sync::Arc;
/// use shardgraph_autodiff::DeviceComm;
/// use shardgraph_collectives::{Comm, Timeout};
/// use shardgraph_device::Device;
///
/// let (device, mut comm) = (Device::host(), Comm::solo());
/// let mut ranks = DeviceComm::new(&device, &mut comm, Timeout::default());
/// let own = Arc::new(device.upload(&[1.0, 2.0])?);
/// let mut sum = device.zeros(2)?;
/// ranks.all_reduce(&own, &mut sum)?;
/// assert_eq!(device.download(&sum)?, [1.0, 2.0]);
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceComm<'a> {
    device: &'a Device,
    comm: &'a mut Comm,
    deadline: Timeout,
    /// True if operands' memory is overwritten soon after the operation: peers that read later get a copy.
    is_lent: bool,
}

/// Lengths of the parts that go to each rank, and of those that come from each.
#[derive(Debug, Clone, Copy)]
pub struct PartLengths<'c> {
    /// Elements for each rank.
    pub sent: &'c [usize],
    /// Elements from each rank.
    pub received: &'c [usize],
}

/// A way to exchange device buffers. Results go to `out`, whose contents so far do not matter.
trait Transport {
    fn exact_sum(&mut self, blocks: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error>;

    fn all_gather(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error>;

    fn all_reduce(&mut self, own: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error>;

    fn reduce_scatter(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error>;
}

impl<'a> DeviceComm<'a> {
    /// The communicator of a rank on its device.
    pub fn new(device: &'a Device, comm: &'a mut Comm, deadline: Timeout) -> Self {
        Self {
            device,
            comm,
            deadline,
            is_lent: false,
        }
    }

    /// The same for operands whose memory is overwritten soon after the operation.
    pub(crate) fn lent(mut self) -> Self {
        self.is_lent = true;
        self
    }

    /// This rank's device.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// Whether kernels of the device read the buffers of all ranks in place.
    fn is_peer(&self) -> bool {
        self.device.kind() != DeviceKind::Host && self.comm.shares_memory()
    }

    fn through<R>(&mut self, work: impl FnOnce(&mut dyn Transport) -> R) -> R {
        if let Some(group) = self.device.group() {
            return work(&mut group::GroupTransport::new(group, self));
        }
        match self.is_peer() {
            true => work(&mut peers::PeerTransport::new(self)),
            false => work(&mut host::HostTransport::new(self)),
        }
    }

    /// The exact sum of all ranks' blocks, each as long as `out`.
    ///
    /// # Errors
    /// The device's and the communicator's (so below).
    pub fn exact_sum(&mut self, blocks: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let is_alone = self.device.group().is_none() && self.comm.size() == 1;
        match out.is_empty() {
            true => Ok(()),
            false if is_alone && self.is_peer() => Ok(self.device.exact_sum(blocks, out)?),
            false => self.through(|transport| transport.exact_sum(blocks, out)),
        }
    }

    /// All ranks' elements one after the other; `counts` has each rank's number of them.
    ///
    /// # Errors
    /// As [`DeviceComm::exact_sum`].
    pub fn all_gather(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.through(|transport| transport.all_gather(own, counts, out))
    }

    /// The element-wise sum over the ranks, in rank order.
    ///
    /// # Errors
    /// As [`DeviceComm::exact_sum`].
    pub fn all_reduce(&mut self, own: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        self.through(|transport| transport.all_reduce(own, out))
    }

    /// This rank's part of the element-wise sum over the ranks; `counts` has the length of each rank's part.
    ///
    /// # Errors
    /// As [`DeviceComm::exact_sum`].
    pub fn reduce_scatter(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.through(|transport| transport.reduce_scatter(own, counts, out))
    }

    /// Part i of `own` to rank i, and the part for this rank of every rank, in rank order: through host memory, as the
    /// other transports have no such operation.
    ///
    /// # Errors
    /// As [`DeviceComm::exact_sum`].
    pub fn all_to_all(
        &mut self,
        own: &Arc<Buffer>,
        parts: PartLengths<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        host::HostTransport::new(self).all_to_all(own, parts, out)
    }
}
