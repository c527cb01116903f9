//! Exchange of rows between the devices of ranks, through NCCL.

use shardgraph_device::Device;
use shardgraph_device::nccl::Transfer;

use super::rank_devices::{RankDevices, TIMEOUT};
use super::rows::PartRows;
use super::scalar::Scalar;
use super::worker_pool::panicked;
use crate::Error;

/// Rows that go from one rank's device to another's.
#[derive(Debug)]
pub(super) struct Moving<'m, T: Scalar> {
    pub(super) rows: &'m mut PartRows<T>,
    pub(super) to: usize,
}

/// Sends rows to the devices that they are to be on, all at once, where ranks are of a group; gives the bytes that went.
///
/// Without one, each goes when its job begins: [`PartRows::move_to`].
///
/// # Errors
/// The devices'; of several ranks that of the first.
pub(super) fn exchange<T: Scalar>(
    devices: &RankDevices,
    all: Vec<Moving<'_, T>>,
) -> Result<u64, Error> {
    if !devices.are_joined {
        return Ok(0);
    }
    let (mut moving, mut froms) = (Vec::new(), Vec::new());
    for of in all {
        let is_there = |device: &Device| device.is_beside(&of.rows.device);
        let from = devices.each().iter().position(is_there);
        if let Some(from) = from.filter(|&from| from != of.to && !of.rows.values.is_empty()) {
            devices.each()[from].adopt(&mut of.rows.values)?;
            moving.push(of);
            froms.push(from);
        }
    }
    if moving.is_empty() {
        return Ok(0);
    }
    let plan = || moving.iter().zip(&froms);
    let received = devices.on_each(|rank, device| {
        let transfers = plan().map(|(of, &from)| Transfer {
            from: from as u32,
            to: of.to as u32,
            len: of.rows.values.len(),
            own: (from == rank).then_some(&of.rows.values),
        });
        let transfers: Vec<Transfer<'_, T>> = transfers.collect();
        let group = device.group().ok_or_else(panicked)?;
        let received = group.transfer(&transfers, TIMEOUT)?;
        device.synchronize()?;
        Ok(received.into_iter())
    });
    let (mut received, mut bytes) = (received?, 0);
    for of in moving {
        of.rows.values = received[of.to].next().ok_or_else(panicked)?;
        of.rows.device = devices.each()[of.to].clone();
        bytes += of.rows.bytes();
    }
    Ok(bytes)
}
