//! Properties of every back end that is here, against plain loops in f64.

mod neural;
mod ops;
mod resident;
mod sparse;
mod tiles;
mod values;

use proptest::test_runner::TestCaseError;
use shardgraph_device::Device;

/// Every back end that is here.
pub(crate) fn devices() -> Vec<Device> {
    std::iter::once(Device::host()).chain(gpus()).collect()
}

/// The devices that launch kernels and are here.
pub(crate) fn gpus() -> Vec<Device> {
    shardgraph_cuemu::devices("operations")
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
