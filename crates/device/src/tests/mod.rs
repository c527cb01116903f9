//! Properties of every back end that is here, against plain loops in f64.

mod neural;
mod ops;
mod resident;
mod seam;
mod sparse;
mod tiles;

use std::sync::Once;

use proptest::test_runner::TestCaseError;

use crate::{Device, DeviceKind, Error};

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
