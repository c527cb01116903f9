//! Exchange between ranks that share a device: each publishes its buffer, and kernels read the peers' in place.

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Buffer, Device, Error as DeviceError, Published};

use super::{DeviceComm, Transport};
use crate::Error;

pub(super) struct PeerTransport<'r, 'a> {
    ranks: &'r mut DeviceComm<'a>,
}

impl<'r, 'a> PeerTransport<'r, 'a> {
    pub(super) fn new(ranks: &'r mut DeviceComm<'a>) -> Self {
        Self { ranks }
    }

    fn device(&self) -> &'a Device {
        self.ranks.device
    }

    fn comm(&mut self) -> (&mut Comm, Timeout) {
        (self.ranks.comm, self.ranks.deadline)
    }

    /// The buffer that peers may read: `own`, or a copy where its memory is overwritten soon.
    fn kept(&self, own: &Arc<Buffer>) -> Result<Arc<Buffer>, Error> {
        if !self.ranks.is_lent {
            return Ok(Arc::clone(own));
        }
        let mut copy = self.device().zeros(own.len())?;
        self.device().copy(own, &mut copy)?;
        Ok(Arc::new(copy))
    }

    /// Shows `own` to all ranks and reads theirs, which have the same lengths wherever `read` needs it.
    fn read_peers(
        &mut self,
        own: Arc<Buffer>,
        read: impl FnOnce(&Device, &[Published]) -> Result<(), DeviceError>,
    ) -> Result<(), Error> {
        let device = self.device();
        let own = Arc::new(device.publish(own)?);
        let (comm, deadline) = self.comm();
        let parts = comm.exchange(own, deadline)?;
        let parts: Vec<Published> = parts.iter().map(|part| (**part).clone()).collect();
        Ok(read(device, &parts)?)
    }
}

impl Transport for PeerTransport<'_, '_> {
    fn exact_sum(&mut self, blocks: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        // The blocks are the caller's own, made for this sum: no copy is needed.
        self.read_peers(Arc::clone(blocks), |device, parts| {
            device.peer_exact_sum(parts, out)
        })
    }

    fn all_gather(
        &mut self,
        own: &Arc<Buffer>,
        _counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let own = self.kept(own)?;
        self.read_peers(own, |device, parts| device.peer_gather(parts, out))
    }

    fn all_reduce(&mut self, own: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let own = self.kept(own)?;
        self.read_peers(own, |device, parts| device.peer_sum(parts, 0, out))
    }

    fn reduce_scatter(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let rank = self.ranks.comm.rank() as usize;
        let first = counts[..rank].iter().sum();
        let own = self.kept(own)?;
        self.read_peers(own, |device, parts| device.peer_sum(parts, first, out))
    }
}
