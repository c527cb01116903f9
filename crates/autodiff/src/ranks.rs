//! Collective operations on device buffers: in place between ranks that share a device, through NCCL between those that have
//! joined a group, else through host memory.
//!
//! Ranks that are threads of one process with a stream each on one device (the `local` way) hand each other their
//! buffers and read them with the device's own kernels. Ranks with a device each are in a group where the job uses NCCL
//! ([`crate::rank_device`]). All other ranks exchange copies through their communicator. The sums are the same, bit for bit.

use std::borrow::Cow;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline, Op as CommOp, Reduction};
use shardgraph_device::{Buffer, Device, DeviceKind, Published};

use crate::Error;

/// A rank's device, its communicator, and how long it waits for another rank.
#[derive(Debug)]
pub(crate) struct Ranks<'a> {
    pub(crate) device: &'a Device,
    pub(crate) comm: &'a mut Comm,
    pub(crate) deadline: Deadline,
    /// Whether operands' memory is overwritten soon after the operation: what peers read later is then a copy.
    pub(crate) is_lent: bool,
}

impl Ranks<'_> {
    /// The exact sum of all ranks' blocks of `len` elements.
    pub(crate) fn exact_sum(&mut self, blocks: Arc<Buffer>, len: usize) -> Result<Buffer, Error> {
        if len == 0 {
            return Ok(self.device.zeros(0)?);
        }
        if let Some(group) = self.device.group() {
            return Ok(group.exact_sum(&blocks, len, self.deadline.duration())?);
        }
        if self.are_local() {
            let mut sum = self.device.zeros(len)?;
            self.read_peers((blocks, false), |device, parts| {
                device.peer_exact_sum(parts, &mut sum)
            })?;
            return Ok(sum);
        }
        let mut values = vec![0.0; len];
        let blocks = on_host(self.device, &blocks)?;
        self.comm.exact_sum(&blocks, &mut values, self.deadline)?;
        self.to_device(values)
    }

    /// All ranks' elements one after the other; `counts` has each rank's number of them.
    pub(crate) fn all_gather(
        &mut self,
        own: Arc<Buffer>,
        counts: &[usize],
    ) -> Result<Buffer, Error> {
        if let Some(group) = self.device.group() {
            return Ok(group.all_gather(&own, counts, self.deadline.duration())?);
        }
        let total = counts.iter().sum();
        if self.are_local() {
            let mut out = self.device.zeros(total)?;
            self.read_peers((own, self.is_lent), |device, parts| {
                device.peer_gather(parts, &mut out)
            })?;
            return Ok(out);
        }
        let mut recv = vec![0.0; total];
        self.gather_on_host(&own, counts, &mut recv)?;
        self.to_device(recv)
    }

    /// All ranks' elements one after the other into `all`, for buffers in host memory.
    pub(crate) fn gather_on_host(
        &mut self,
        own: &Buffer,
        counts: &[usize],
        all: &mut [f32],
    ) -> Result<(), Error> {
        let own = on_host(self.device, own)?;
        let op = CommOp::AllGatherV {
            send: own.as_ref().into(),
            recv: all.into(),
            counts,
        };
        Ok(self.comm.run(op, self.deadline)?)
    }

    /// The element-wise sum over the ranks, in rank order.
    pub(crate) fn all_reduce(&mut self, own: Arc<Buffer>) -> Result<Buffer, Error> {
        if let Some(group) = self.device.group() {
            return Ok(group.all_reduce(&own, self.deadline.duration())?);
        }
        if self.are_local() {
            let mut out = self.device.zeros(own.len())?;
            self.read_peers((own, self.is_lent), |device, parts| {
                device.peer_sum(parts, 0, &mut out)
            })?;
            return Ok(out);
        }
        let mut values = on_host(self.device, &own)?.into_owned();
        let op = CommOp::AllReduce {
            buf: (&mut values[..]).into(),
            reduction: Reduction::Sum,
        };
        self.comm.run(op, self.deadline)?;
        self.to_device(values)
    }

    /// This rank's part of the element-wise sum over the ranks; `counts` has the length of each rank's part.
    pub(crate) fn reduce_scatter(
        &mut self,
        own: Arc<Buffer>,
        counts: &[usize],
    ) -> Result<Buffer, Error> {
        if let Some(group) = self.device.group() {
            return Ok(group.reduce_scatter(&own, counts, self.deadline.duration())?);
        }
        let rank = self.comm.rank() as usize;
        if self.are_local() {
            let first = counts[..rank].iter().sum();
            let mut out = self.device.zeros(counts[rank])?;
            self.read_peers((own, self.is_lent), |device, parts| {
                device.peer_sum(parts, first, &mut out)
            })?;
            return Ok(out);
        }
        let mut recv = vec![0.0; counts[rank]];
        let own = on_host(self.device, &own)?;
        let op = CommOp::ReduceScatterV {
            send: own.as_ref().into(),
            recv: (&mut recv[..]).into(),
            counts,
            reduction: Reduction::Sum,
        };
        self.comm.run(op, self.deadline)?;
        self.to_device(recv)
    }

    /// Part i of `own` to rank i, and part r of every rank here, in rank order; through host memory on every device. The two lists have the
    /// lengths of the parts that go and that come.
    pub(crate) fn all_to_all(
        &mut self,
        own: &Buffer,
        (send_counts, recv_counts): (&[usize], &[usize]),
    ) -> Result<Buffer, Error> {
        let mut recv = vec![0.0; recv_counts.iter().sum()];
        let own = on_host(self.device, own)?;
        let op = CommOp::AllToAllV {
            send: own.as_ref().into(),
            send_counts,
            recv: (&mut recv[..]).into(),
            recv_counts,
        };
        self.comm.run(op, self.deadline)?;
        self.to_device(recv)
    }

    /// Whether buffers need not pass through host memory.
    fn are_local(&self) -> bool {
        self.device.kind() != DeviceKind::Host && self.comm.shares_memory()
    }

    fn to_device(&self, values: Vec<f32>) -> Result<Buffer, Error> {
        match self.device.kind() {
            DeviceKind::Host => Ok(values.into()),
            _ => Ok(self.device.upload(&values)?),
        }
    }

    /// Shows `own` (a copy of it where it `is_lent`) to all ranks and reads theirs, which have the same lengths wherever `read` needs it.
    fn read_peers(
        &mut self,
        (own, is_lent): (Arc<Buffer>, bool),
        read: impl FnOnce(&Device, &[Published]) -> Result<(), shardgraph_device::Error>,
    ) -> Result<(), Error> {
        let own = match is_lent {
            false => own,
            true => {
                let mut copy = self.device.zeros(own.len())?;
                self.device.copy(&own, &mut copy)?;
                Arc::new(copy)
            }
        };
        let mine = Arc::new(self.device.publish(own)?);
        let parts = self.comm.exchange(mine, self.deadline)?;
        let parts: Vec<Published> = parts.iter().map(|part| (**part).clone()).collect();
        Ok(read(self.device, &parts)?)
    }
}

/// The buffer's values: in place on the host, a copy from any other device.
fn on_host<'b>(device: &Device, buffer: &'b Buffer) -> Result<Cow<'b, [f32]>, Error> {
    match buffer.as_host() {
        Some(values) => Ok(Cow::Borrowed(values)),
        None => Ok(Cow::Owned(device.download(buffer)?)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_collectives::threads;

    use super::*;
    use crate::tests::{gpus, gpus_together_and_apart, on_rank_device};

    /// Numbers of every size and kind, often of one size so that sums cancel.
    fn partial() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -4.0f32..4.0,
            4 => any::<f32>(),
            1 => Just(f32::INFINITY),
            1 => Just(f32::NEG_INFINITY),
            2 => Just(-0.0),
            2 => (any::<u32>()).prop_map(|bits| f32::from_bits(bits & 0x807f_ffff)), // subnormal
        ]
    }

    /// For each rank its blocks of `len` elements.
    fn parts() -> impl Strategy<Value = (usize, Vec<Vec<f32>>)> {
        (1usize..70, prop::collection::vec(0usize..4, 1..=6)).prop_flat_map(|(len, n_blocks)| {
            let part = |n: &usize| prop::collection::vec(partial(), n * len);
            (Just(len), n_blocks.iter().map(part).collect::<Vec<_>>())
        })
    }

    /// What every rank gets from the exact sum of its part.
    fn exact_sums(device: &Device, len: usize, parts: &[Vec<f32>]) -> Vec<Vec<u32>> {
        let results = threads::run(parts.len() as u32, |mut comm| {
            on_rank_device(device, &mut comm, |device, comm| {
                let own = Arc::new(device.upload(&parts[comm.rank() as usize]).unwrap());
                let deadline = Deadline::default();
                let mut ranks = Ranks {
                    device,
                    comm,
                    deadline,
                    is_lent: false,
                };
                let sum = ranks.exact_sum(own, len).unwrap();
                device.download(&sum).unwrap()
            })
        });
        let bits = |sum: Vec<f32>| sum.into_iter().map(f32::to_bits).collect();
        results.into_iter().map(|sum| bits(sum.unwrap())).collect()
    }

    proptest! {
        /// The device's kernel and the communicator give the same bits.
        #[test]
        fn the_exact_sum_is_the_same_on_a_device((len, parts) in parts()) {
            let want = exact_sums(&Device::host(), len, &parts);
            for device in gpus_together_and_apart() {
                prop_assert_eq!(exact_sums(&device, len, &parts), want.clone());
            }
        }
    }

    /// Ranks that wait in a group on the devices hear of what their communicator knows, which then says the same.
    #[test]
    fn a_rank_that_gives_up_elsewhere_ends_the_waits_of_a_group() {
        let devices = gpus_together_and_apart();
        for device in devices.iter().filter(|device| device.nccl().is_some()) {
            let results = threads::run(3, |mut comm| {
                let deadline = Deadline::default();
                let device = crate::rank_device(device, &mut comm, deadline)?;
                if comm.rank() == 1 {
                    comm.abort("disk full");
                    return Ok(());
                }
                let own = Arc::new(device.upload(&[1.0; 8])?);
                let mut ranks = Ranks {
                    device: &device,
                    comm: &mut comm,
                    deadline,
                    is_lent: false,
                };
                let summed = ranks.exact_sum(own, 4);
                let error = summed
                    .and_then(|sum| Ok(device.download(&sum)?))
                    .unwrap_err();
                assert!(
                    error
                        .device_error()
                        .is_some_and(|error| error.is_lost_rank())
                );
                assert!(
                    error.to_string().ends_with("aborted by rank 1: disk full"),
                    "{error}"
                );
                let known = comm.failure().map(|error| error.kind().to_string());
                assert_eq!(known.unwrap(), "aborted by rank 1: disk full");
                Ok::<_, Error>(())
            });
            for result in results {
                result.unwrap().unwrap();
            }
        }
    }

    /// A rank whose device fails ends this operation or the next one for all: nobody waits for the deadline.
    #[test]
    fn a_rank_that_runs_out_of_memory_takes_nobody_with_it_into_a_wait() {
        for device in gpus() {
            for k in 0..4 {
                let results = threads::run(3, |mut comm| {
                    let mut device = device.new_stream().unwrap();
                    let own = vec![comm.rank() as f32; 8];
                    if comm.rank() == 1 {
                        device = device.failing_at_allocation(k);
                    }
                    let own = Arc::new(device.upload(&own)?);
                    let mut ranks = Ranks {
                        device: &device,
                        comm: &mut comm,
                        deadline: Deadline::default(),
                        is_lent: false,
                    };
                    ranks.exact_sum(Arc::clone(&own), 4)?;
                    let sum = ranks.exact_sum(own, 4)?;
                    Ok::<_, Error>(device.download(&sum)?)
                });
                let failed = results
                    .iter()
                    .filter(|result| matches!(result, Ok(Err(_))))
                    .count();
                assert_eq!(failed, 3, "allocation {k}: {results:?}");
                let text = results[1]
                    .as_ref()
                    .unwrap()
                    .as_ref()
                    .unwrap_err()
                    .to_string();
                assert!(text.contains("no room for"), "{text}");
            }
        }
    }
}
