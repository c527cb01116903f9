//! Properties of every back end that is here, against plain loops in f64.

mod neural;
mod ops;
mod resident;
mod sparse;
mod tiles;
mod values;

use std::sync::Once;

use proptest::test_runner::TestCaseError;
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
                "SKIPPED: properties of shardgraph-ops: device `emulated` is not available: {why}"
            );
        }
        if let Err(error) = &cuda {
            assert!(error.is_missing_device(), "{error}"); // a device that is there and fails is no skip
            println!("SKIPPED: properties of shardgraph-ops: {error}");
        }
    });
    emulated.into_iter().chain(cuda).collect()
}

/// Whether results are right to 1e-5 of the largest of them.
pub(crate) fn close(got: &[f32], want: &[f64]) -> Result<(), TestCaseError> {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1.0, |m: f64, w| m.max(w.abs()));
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(g) - w).abs();
        if off.is_nan() || off > 1e-5 * scale {
            return Err(TestCaseError::fail(format!(
                "element {i}: {g} instead of {w}"
            )));
        }
    }
    Ok(())
}
