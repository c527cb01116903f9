//! How a rank comes to its device, and into the group of ranks that exchange device buffers through NCCL.

use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_device::Device;
use shardgraph_device::nccl::{Library, Member, Probe, UniqueId};

use crate::Error;

/// The device on which one rank of a job computes: a stream of its own on the job's device.
///
/// Where the job's device [uses NCCL](Device::using_nccl), the ranks' devices are in one group from here on, and collective
/// operations on their buffers go through it. Ranks that are threads take a GPU each, counted from the job's; ranks that are
/// processes take the one that they were given. All ranks of `comm` call this together, and [`leave_group`] in the end.
///
/// Ranks that wait in the group also watch `comm`: a rank that is lost or [aborts](Comm::abort) there ends their waits with an error of the device
/// that names it, and [`Comm::failure`] then has the same. So a rank that cannot go on, be it by an error of this function, aborts `comm` with
/// its reason, and the others need not wait for the deadline.
///
/// # Errors
/// The device's error; [`Error::Setup`] where NCCL does not work on this kind of device, and on all ranks where one has another NCCL than rank 0;
/// [`Error::Comm`] where another rank gave up before the ranks met, with its reason.
///
/// ```
/// use shardgraph_autodiff::{leave_group, rank_device};
/// use shardgraph_collectives::{Comm, Timeout};
/// use shardgraph_device::Device;
///
/// let (mut comm, deadline) = (Comm::solo(), Timeout::default());
/// let device = rank_device(&Device::host(), &mut comm, deadline)?;
/// assert!(device.group().is_none());
/// leave_group(&device, deadline)?;
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
pub fn rank_device(device: &Device, comm: &mut Comm, deadline: Timeout) -> Result<Device, Error> {
    let Some(library) = device.nccl() else {
        return match comm.size() {
            1 => Ok(device.clone()),
            _ => Ok(device.new_stream()?),
        };
    };
    let fits = library.check_device(device.kind());
    fits.map_err(|error| Error::Setup(error.to_string()))?;
    let own = own_device(device, comm)?;
    let id = agree(library, comm, deadline)?;
    let member = Member {
        rank: comm.rank(),
        size: comm.size(),
    };
    let watch = comm.watch();
    let probe = Probe::new(move || Some(watch.failure()?.kind().to_string()));
    Ok(own.join(library, id, member, deadline.duration(), probe)?)
}

/// Ends the device's part of its group in order, once its results have come; nothing for a device without one.
///
/// # Errors
/// The group's error, or that a rank has not come before the deadline.
pub fn leave_group(device: &Device, deadline: Timeout) -> Result<(), Error> {
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
fn agree(library: &Library, comm: &mut Comm, deadline: Timeout) -> Result<UniqueId, Error> {
    let own = described(library);
    let mut all = vec![0u8; own.len() * comm.size() as usize];
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, deadline)?;
    let (first, others) = all.split_at(own.len());
    let others = (1..).zip(others.chunks_exact(own.len()));
    if let Some((rank, theirs)) = others.into_iter().find(|(_, theirs)| *theirs != first) {
        return Err(Error::Setup(format!(
            "rank 0 has {}, rank {rank} has {}: give all ranks the same (--nccl-library names one)",
            text(first),
            text(theirs)
        )));
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

/// The description that the ranks' libraries must have in common, of one length for all.
fn described(library: &Library) -> [u8; 64] {
    let mut bytes = [b' '; 64];
    for (byte, given) in bytes.iter_mut().zip(library.describe().into_bytes()) {
        *byte = given;
    }
    bytes
}

fn text(described: &[u8]) -> String {
    String::from_utf8_lossy(described).trim_end().to_string()
}
