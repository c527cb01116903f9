//! Exchange through host memory: in place on the host, by copies on any other device.

use std::borrow::Cow;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Op, Reduction, Timeout};
use shardgraph_device::{Buffer, Device};

use super::{DeviceComm, PartLengths, Transport};
use crate::Error;

pub(super) struct HostTransport<'t> {
    device: &'t Device,
    comm: &'t mut Comm,
    deadline: Timeout,
}

impl<'t> HostTransport<'t> {
    pub(super) fn new(ranks: &'t mut DeviceComm<'_>) -> Self {
        Self {
            device: ranks.device,
            comm: ranks.comm,
            deadline: ranks.deadline,
        }
    }

    /// Fills `out`, in place where it is in host memory.
    fn fill(
        &mut self,
        out: &mut Buffer,
        exchange: impl FnOnce(&mut Comm, &mut [f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(values) = out.as_host_mut() {
            return exchange(self.comm, values);
        }
        let mut values = vec![0.0; out.len()];
        exchange(self.comm, &mut values)?;
        Ok(self.device.write(&values, out)?)
    }

    pub(super) fn all_to_all(
        &mut self,
        own: &Arc<Buffer>,
        parts: PartLengths<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (own, deadline) = (on_host(self.device, own)?, self.deadline);
        self.fill(out, |comm, out| {
            let op = Op::AllToAllV {
                send: own.as_ref().into(),
                send_counts: parts.sent,
                recv: out.into(),
                recv_counts: parts.received,
            };
            Ok(comm.run(op, deadline)?)
        })
    }
}

/// The buffer's values: in place on the host, a copy from any other device.
fn on_host<'b>(device: &Device, buffer: &'b Buffer) -> Result<Cow<'b, [f32]>, Error> {
    match buffer.as_host() {
        Some(values) => Ok(Cow::Borrowed(values)),
        None => Ok(Cow::Owned(device.download(buffer)?)),
    }
}

impl Transport for HostTransport<'_> {
    fn exact_sum(&mut self, blocks: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let (blocks, deadline) = (on_host(self.device, blocks)?, self.deadline);
        self.fill(out, |comm, out| Ok(comm.exact_sum(&blocks, out, deadline)?))
    }

    fn all_gather(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (own, deadline) = (on_host(self.device, own)?, self.deadline);
        self.fill(out, |comm, out| {
            let op = Op::AllGatherV {
                send: own.as_ref().into(),
                recv: out.into(),
                counts,
            };
            Ok(comm.run(op, deadline)?)
        })
    }

    fn all_reduce(&mut self, own: &Arc<Buffer>, out: &mut Buffer) -> Result<(), Error> {
        let (own, deadline) = (on_host(self.device, own)?, self.deadline);
        self.fill(out, |comm, out| {
            out.copy_from_slice(&own);
            let op = Op::AllReduce {
                buf: out.into(),
                reduction: Reduction::Sum,
            };
            Ok(comm.run(op, deadline)?)
        })
    }

    fn reduce_scatter(
        &mut self,
        own: &Arc<Buffer>,
        counts: &[usize],
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (own, deadline) = (on_host(self.device, own)?, self.deadline);
        self.fill(out, |comm, out| {
            let op = Op::ReduceScatterV {
                send: own.as_ref().into(),
                recv: out.into(),
                counts,
                reduction: Reduction::Sum,
            };
            Ok(comm.run(op, deadline)?)
        })
    }
}
