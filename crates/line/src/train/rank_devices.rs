//! Devices of the ranks of a run, and which of them works on a job.

use shardgraph_device::Device;

use crate::schedule::Job;
use crate::{Config, Error};

/// The device of each rank; one for the host.
#[derive(Debug)]
pub(super) struct RankDevices(Vec<Device>);

impl RankDevices {
    /// The run's device and those behind it.
    ///
    /// # Errors
    /// Where there are not so many.
    pub(super) fn open(device: &Device, config: &Config) -> Result<RankDevices, Error> {
        let others = (1..config.ranks).map(|rank| device.of_rank(rank));
        let devices: Result<Vec<Device>, _> =
            std::iter::once(Ok(device.clone())).chain(others).collect();
        Ok(RankDevices(devices?))
    }

    pub(super) fn each(&self) -> &[Device] {
        &self.0
    }

    /// That of the run.
    pub(super) fn first(&self) -> &Device {
        &self.0[0]
    }

    /// The rank that works on a job, of tables in `n_parts` parts.
    ///
    /// Ranks have equal runs of vertex parts, which stay with them; contexts go around. A pair of parts of one table is
    /// that of its smaller part or of its larger one, by turns.
    pub(super) fn rank_of(&self, job: &Job, order: u32, n_parts: u32) -> usize {
        let first = job.vertex_parts.first().copied().unwrap_or(0);
        let part = match (order, job.context_part) {
            (1, Some(second)) if (first + second) % 2 == 0 => first.min(second),
            (1, Some(second)) => first.max(second),
            _ => first,
        };
        (u64::from(part) * self.0.len() as u64 / u64::from(n_parts.max(1))) as usize
    }
}
