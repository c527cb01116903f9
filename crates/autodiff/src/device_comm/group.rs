//! Exchange between ranks with a device each that have joined a group: through NCCL.

use std::sync::Arc;

use shardgraph_device::Buffer;
use shardgraph_device::nccl::Group;

use super::{DeviceComm, Transport};
use crate::Error;

pub(super) struct GroupTransport<'r, 'a> {
    group: &'a Group,
    ranks: &'r mut DeviceComm<'a>,
}

impl<'r, 'a> GroupTransport<'r, 'a> {
    pub(super) fn new(group: &'a Group, ranks: &'r mut DeviceComm<'a>) -> Self {
        Self { group, ranks }
    }

    fn put(&self, result: Buffer, out: &mut Buffer) -> Result<(), Error> {
        Ok(self.ranks.device.copy(&result, out)?)
    }
}

impl Transport for GroupTransport<'_, '_> {
    fn exact_sum(&mut self, blocks: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let wait = self.ranks.deadline.duration();
        self.put(self.group.exact_sum(blocks, out.len(), wait)?, out)
    }

    fn all_gather(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let wait = self.ranks.deadline.duration();
        self.put(self.group.all_gather(own, counts, wait)?, out)
    }

    fn all_reduce(&mut self, own: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let wait = self.ranks.deadline.duration();
        self.put(self.group.all_reduce(own, wait)?, out)
    }

    fn reduce_scatter(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let wait = self.ranks.deadline.duration();
        self.put(self.group.reduce_scatter(own, counts, wait)?, out)
    }
}
