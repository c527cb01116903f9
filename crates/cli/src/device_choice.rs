//! The device that `--device` names.

use std::path::Path;

use clap::Args;
use shardgraph_device::{Device, DeviceKind, Error};

use crate::report::ReportArgs;

/// What an NVIDIA driver makes on Linux: where it is, a GPU that `auto` cannot take is worth a warning.
const DRIVER_FILE: &str = "/dev/nvidiactl";

/// The device of a command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ranks and devices")]
pub(crate) struct DeviceArgs {
    /// Where to compute: host, emulated, cuda, cuda:N or auto (the first GPU if there is one)
    #[arg(id = "device", long, value_name = "DEVICE", default_value = "host")]
    pub(crate) kind: DeviceKind,
}

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
