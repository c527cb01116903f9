//! Properties of every back end that is here, against plain loops in f64.

mod seam;

use std::sync::Once;

use crate::{Arg, Buffer, Device, DeviceKind, Error, Launch};

/// Every back end that is here; one that is absent is printed, once in a run of the tests.
pub(crate) fn devices() -> Vec<Device> {
    static ABSENT: Once = Once::new();
    let candidates = [
        Ok(Device::host()),
        emulated(),
        Device::open(DeviceKind::Cuda(0)),
    ];
    ABSENT.call_once(|| {
        for error in candidates.iter().filter_map(|found| found.as_ref().err()) {
            assert!(error.is_missing_device(), "{error}"); // a device that is there and fails is no skip
            println!("SKIPPED: properties of shardgraph-device: {error}");
        }
    });
    candidates.into_iter().flatten().collect()
}

/// The back ends that launch kernels.
pub(crate) fn gpus() -> Vec<Device> {
    let mut devices = devices();
    devices.retain(|device| device.kind() != DeviceKind::Host);
    devices
}

fn emulated() -> Result<Device, Error> {
    match shardgraph_cuemu::library() {
        Some(library) => Device::emulated(&library),
        None => Err(Error::unavailable(
            DeviceKind::Emulated,
            shardgraph_cuemu::SKIP_REASON,
        )),
    }
}

/// `y = factor * x` by a kernel of the project, for buffers of one length.
pub(crate) fn scale(device: &Device, factor: f32, x: &Buffer, y: &mut Buffer) -> Result<(), Error> {
    assert_eq!(x.len(), y.len());
    let n = x.len();
    let args = [
        Arg::u64(n as u64),
        Arg::f32(factor),
        Arg::read(x),
        Arg::write(y),
    ];
    // SAFETY: the kernel touches the first n elements of both, and both have n.
    unsafe { device.launch("scale_fwd", Launch::threads(n, 256), &args) }
}
