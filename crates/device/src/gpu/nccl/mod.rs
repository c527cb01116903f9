//! NCCL: collective operations between ranks with a GPU each, opened at run time.
//!
//! A device [joins](Device::join) a group once, and is then one rank of it: what [`Group`] does happens on that device's
//! stream and buffers, and waits for results also watch the group. How the ranks agree on the group's [`UniqueId`] is theirs:
//! any communicator can carry it. All sums have the bits that the host's communicator gives: floats are added in rank
//! order by the project's own kernels, NCCL itself only moves them, and reduces integers.
//!
//! ```no_run
//! use std::time::Duration;
//! use shardgraph_device::nccl::{Library, Probe, Member};
//! use shardgraph_device::{Device, DeviceKind};
//!
//! let deadline = Duration::from_secs(60);
//! let library = Library::open(None)?;
//! let id = library.unique_id()?; // on one rank, and sent to the others
//! let (device, member) = (Device::open(DeviceKind::Cuda(0))?, Member { rank: 0, size: 1 });
//! let device = device.join(&library, id, member, deadline, Probe::default())?;
//! let group = device.group().expect("it has joined one");
//! let own = device.upload(&[1.0, 2.0])?;
//! let sum = group.all_reduce(&own, deadline)?;
//! assert_eq!(device.download(&sum)?, [1.0, 2.0]);
//! group.close(deadline)?;
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod call;
mod group;
mod library;
mod ops;
#[cfg(test)]
mod tests;
mod wait;

use std::time::Duration;

pub use group::Group;
pub use library::{Library, UniqueId};
pub use ops::Transfer;
pub use wait::Probe;

use crate::device::BackEnd;
use crate::{Device, Error};

/// Which rank of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// This rank's number, below `size`.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
}

impl Device {
    /// This device and stream as a rank of the group with this name. Returns when all its ranks have joined.
    ///
    /// All waits for results on the returned device also watch the group: they end with its error if it fails, or when the
    /// probe says that the ranks' job has ended. Give up the device as it was; clones of the returned one are the same rank,
    /// other streams made from it are none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] on the host or for a rank that does not count; [`crate::ErrorKind::Collective`] with NCCL's words, with
    /// those of the probe, or when a rank has not come before the deadline.
    pub fn join(
        &self,
        library: &Library,
        id: UniqueId,
        member: Member,
        deadline: Duration,
        probe: Probe,
    ) -> Result<Device, Error> {
        library.check_device(self.kind())?;
        self.map_gpu(|gpu| gpu.join(library, id, member, deadline, probe))
    }

    /// The same device for a job whose ranks are to exchange through NCCL: their devices [join](Device::join) a group over it.
    /// Streams made from it know of it too. The host stays as it is.
    #[must_use]
    pub fn using_nccl(&self, library: &Library) -> Device {
        match &self.back_end {
            BackEnd::Gpu(gpu) => Device {
                back_end: BackEnd::Gpu(gpu.using_nccl(library)),
            },
            BackEnd::Host => self.clone(),
        }
    }

    /// The NCCL that ranks of this device's job exchange through; nothing for a job without.
    pub fn nccl(&self) -> Option<&Library> {
        self.gpu()?.nccl()
    }

    /// A device of its own for each rank of a job whose ranks are threads of this process: the GPU whose ordinal is this
    /// one's and `rank`; another machine for emulated ones; the host for all.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`] where there are not so many GPUs.
    pub fn of_rank(&self, rank: u32) -> Result<Device, Error> {
        self.map_gpu(|gpu| gpu.of_rank(rank))
    }

    /// The group that this device has joined.
    pub fn group(&self) -> Option<&Group> {
        self.gpu()?.group()
    }
}
