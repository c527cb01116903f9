//! The devices of the tests.

use shardgraph_device::Device;

/// Every back end that is here.
pub(crate) fn devices() -> Vec<Device> {
    std::iter::once(Device::host()).chain(gpus()).collect()
}

/// The devices that launch kernels and are here.
pub(crate) fn gpus() -> Vec<Device> {
    shardgraph_cuemu::devices("LINE")
}
