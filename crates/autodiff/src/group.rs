//! How a rank comes to its device, and into the group of ranks that exchange device buffers through NCCL.

use shardgraph_collectives::{Comm, Deadline, Op};
use shardgraph_device::Device;
use shardgraph_device::nccl::{Library, Seat, UniqueId};

use crate::{Error, ErrorKind};

/// The device on which one rank of a job computes: a stream of its own on the job's device.
///
/// Where the job's device [uses NCCL](Device::using_nccl), the ranks' devices are in one group from here on, and collective
/// operations on their buffers go through it. Ranks that are threads take a GPU each, counted from the job's; ranks that are
/// processes take the one that they were given. All ranks of `comm` call this together, and [`leave_group`] in the end.
///
/// # Errors
/// The device's error; [`ErrorKind::Usage`] where ranks have different versions of NCCL; [`ErrorKind::Comm`] where another
/// rank could not join, with its reason.
///
/// ```
/// use shardgraph_autodiff::{leave_group, rank_device};
/// use shardgraph_collectives::{Comm, Deadline};
/// use shardgraph_device::Device;
///
/// let (mut comm, deadline) = (Comm::solo(), Deadline::default());
/// let device = rank_device(&Device::host(), &mut comm, deadline)?;
/// assert!(device.group().is_none());
/// leave_group(&device, deadline)?;
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
pub fn rank_device(device: &Device, comm: &mut Comm, deadline: Deadline) -> Result<Device, Error> {
    let Some(library) = device.nccl() else {
        return Ok(device.new_stream()?);
    };
    let own = own_device(device, comm).and_then(|own| {
        let id = agree(library, comm, deadline)?;
        let seat = Seat {
            rank: comm.rank(),
            size: comm.size(),
        };
        Ok(own.join(library, id, seat, deadline.duration())?)
    });
    // Ranks that wait in `comm` need not wait for the deadline; those that wait inside NCCL do.
    own.inspect_err(|error| comm.abort(&error.to_string()))
}

/// Ends the device's part of its group in order, once its results have come; nothing for a device without one.
///
/// # Errors
/// The group's error, or that a rank has not come before the deadline.
pub fn leave_group(device: &Device, deadline: Deadline) -> Result<(), Error> {
    match device.group() {
        Some(group) => Ok(group.close(deadline.duration())?),
        None => Ok(()),
    }
}

fn own_device(device: &Device, comm: &Comm) -> Result<Device, Error> {
    Ok(match comm.shares_memory() {
        true => device.of_rank(comm.rank())?,
        false => device.new_stream()?,
    })
}

/// All ranks have the same NCCL, and get the name of the group from the first.
fn agree(library: &Library, comm: &mut Comm, deadline: Deadline) -> Result<UniqueId, Error> {
    let own = [library.version()];
    let mut versions = vec![0u32; comm.size() as usize];
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut versions).into(),
    };
    comm.run(op, deadline)?;
    if let Some(rank) = versions.iter().position(|version| *version != versions[0]) {
        return Err(ErrorKind::Usage(format!(
            "rank 0 has NCCL {}, rank {rank} has {}: give all ranks the same (--nccl-library names one)",
            versions[0], versions[rank]
        ))
        .into());
    }
    let mut bytes = match comm.rank() {
        0 => library.unique_id()?.to_bytes(),
        _ => [0; UniqueId::BYTES],
    };
    let op = Op::Broadcast {
        buf: (&mut bytes).into(),
        root: 0,
    };
    comm.run(op, deadline)?;
    Ok(UniqueId::from_bytes(bytes))
}
