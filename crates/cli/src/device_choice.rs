//! The device that `--device` names.

use std::path::Path;

use shardgraph_device::{Device, DeviceKind, Error};

use crate::report::ReportArgs;

/// What an NVIDIA driver makes on Linux: where it is, a GPU that `auto` cannot take is worth a warning.
const DRIVER_FILE: &str = "/dev/nvidiactl";

/// Opens the device; `auto` says why it takes the host, if it does.
pub(crate) fn open_device(kind: DeviceKind, report: &ReportArgs) -> Result<Device, Error> {
    if kind != DeviceKind::Auto {
        return Device::open(kind);
    }
    match Device::open(DeviceKind::Cuda(0)) {
        Err(error) if error.is_missing_device() => {
            let text = format!("computing on the host: {error}");
            match Path::new(DRIVER_FILE).exists() {
                true => report.warning(&text),
                false => report.note(&text),
            }
            Ok(Device::host())
        }
        found => found,
    }
}
