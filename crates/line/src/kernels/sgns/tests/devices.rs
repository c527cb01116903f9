//! The devices of the tests.

use std::sync::Once;

use shardgraph_device::{Device, DeviceKind};

/// Every back end that is here.
pub(crate) fn devices() -> Vec<Device> {
    std::iter::once(Device::host()).chain(gpus()).collect()
}

/// The back ends that launch kernels; one that is absent is printed, once in a run of the tests.
pub(crate) fn gpus() -> Vec<Device> {
    static ABSENT: Once = Once::new();
    let emulated = shardgraph_cuemu::library().map(|library| Device::emulated(&library).unwrap());
    let cuda = Device::open(DeviceKind::Cuda(0));
    ABSENT.call_once(|| {
        if emulated.is_none() {
            let why = shardgraph_cuemu::SKIP_REASON;
            println!(
                "SKIPPED: properties of shardgraph-line: device `emulated` is not available: {why}"
            );
        }
        if let Err(error) = &cuda {
            assert!(error.is_missing_device(), "{error}"); // a device that is there and fails is no skip
            println!("SKIPPED: properties of shardgraph-line: {error}");
        }
    });
    emulated.into_iter().chain(cuda).collect()
}
