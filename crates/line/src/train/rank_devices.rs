//! Devices of the ranks of a run, and which of them works on a job.

use std::thread::{self, Builder};
use std::time::Duration;

use shardgraph_device::Device;
use shardgraph_device::nccl::{Member, Probe};

use super::worker_pool::{panicked, spawn};
use crate::schedule::Job;
use crate::{Config, Error};

/// Longest wait for a rank in an exchange.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

/// The device of each rank; one for the host.
#[derive(Debug)]
pub(super) struct RankDevices {
    each: Vec<Device>,
    /// True: they are ranks of a group of NCCL.
    pub(super) are_joined: bool,
}

impl RankDevices {
    /// The run's device and those behind it; where it is to use NCCL, as ranks of a group.
    ///
    /// # Errors
    /// Where there are not so many; NCCL's.
    pub(super) fn open(device: &Device, config: &Config) -> Result<RankDevices, Error> {
        let others = (1..config.ranks).map(|rank| device.of_rank(rank));
        let each: Result<Vec<Device>, _> =
            std::iter::once(Ok(device.clone())).chain(others).collect();
        let devices = RankDevices {
            each: each?,
            are_joined: false,
        };
        let Some(library) = device.nccl().filter(|_| config.ranks > 1) else {
            return Ok(devices);
        };
        let (id, size) = (library.unique_id()?, config.ranks);
        let joined = devices.on_each(|rank, device| {
            let rank = rank as u32;
            let member = Member { rank, size };
            Ok(device.join(library, id, member, TIMEOUT, Probe::default())?)
        });
        Ok(RankDevices {
            each: joined?,
            are_joined: true,
        })
    }

    pub(super) fn each(&self) -> &[Device] {
        &self.each
    }

    /// That of the run.
    pub(super) fn first(&self) -> &Device {
        &self.each[0]
    }

    /// The rank that works on a job, of tables in `n_parts` parts.
    ///
    /// Ranks have equal runs of vertex parts, which stay with them; contexts go around. A pair of parts of one table is
    /// that of its smaller part or of its larger one, by turns.
    pub(super) fn rank_of(&self, job: &Job, n_parts: u32) -> usize {
        let first = job.vertex_parts.first().copied().unwrap_or(0);
        let part = match (job.order, job.context_part) {
            (1, Some(second)) if (first + second) % 2 == 0 => first.min(second),
            (1, Some(second)) => first.max(second),
            _ => first,
        };
        (u64::from(part) * self.each.len() as u64 / u64::from(n_parts.max(1))) as usize
    }

    /// Leaves the group, once all ranks are done.
    ///
    /// # Errors
    /// NCCL's.
    pub(super) fn close(&self) -> Result<(), Error> {
        let close = |_, device: &Device| match device.group() {
            Some(group) => Ok(group.close(TIMEOUT)?),
            None => Ok(()),
        };
        self.on_each(close).map(drop)
    }

    /// Works on each rank's device on a thread of its own; with one rank on this one.
    pub(super) fn on_each<R: Send>(
        &self,
        work: impl Fn(usize, &Device) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        if let [device] = &self.each[..] {
            return Ok(vec![work(0, device)?]);
        }
        let work = &work;
        thread::scope(|scope| {
            let ranks = self.each.iter().enumerate();
            let ranks = ranks
                .map(|(rank, device)| spawn(Builder::new(), scope, move || work(rank, device)));
            let ranks: Vec<_> = ranks.collect::<Result<_, Error>>()?;
            let results = ranks.into_iter();
            // All of them end: a rank that fails ends its group.
            let results: Vec<_> = results
                .map(|rank| rank.join().unwrap_or_else(|_| Err(panicked())))
                .collect();
            results.into_iter().collect()
        })
    }
}
