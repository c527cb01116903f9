//! What can go wrong on a device.

use shardgraph_error::Class;

use crate::DeviceKind;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name that is no device kind; the payload is the name.
    #[error("unknown device `{0}`: expected host, emulated, cuda, cuda:N or auto")]
    UnknownDevice(String),
    /// A device that this build or machine does not have.
    #[error("device `{device}` is not available: {why}")]
    Unavailable {
        /// The wanted device.
        device: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A buffer of the wrong length: operation, operand, length wanted, length given.
    #[error("{op}: operand `{operand}` has {given} elements, {wanted} are needed")]
    Length {
        /// The operation that was called.
        op: &'static str,
        /// The operand that does not fit.
        operand: &'static str,
        /// The number of elements that the operation needs.
        wanted: usize,
        /// The number of elements that it was given.
        given: usize,
    },
    /// A row index outside the table: operation, index, rows of the table.
    #[error("{op}: row {index} is outside a table of {n_rows} rows")]
    Index {
        /// The operation that was called.
        op: &'static str,
        /// The offending index.
        index: u64,
        /// The number of rows that exist.
        n_rows: u64,
    },
    /// Settings or lists that contradict themselves; the message says what would have been right.
    #[error("{op}: {why}")]
    Invalid {
        /// The operation that was called.
        op: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The device's memory does not hold the wanted bytes.
    #[error(
        "device `{device}` has no room for {wanted} more bytes ({free} are free): {}",
        smaller(.device)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes free when they were wanted.
        free: u64,
    },
    /// A buffer of one device (or stream) was given to an operation of another.
    #[error("{op}: a buffer does not belong to device `{device}`: download and upload it first")]
    OtherDevice {
        /// The operation or kernel.
        op: String,
        /// The device that should have run it.
        device: String,
    },
    /// Arguments that do not fit the kernel's parameters; both as signatures (see [`crate::Arg`]).
    #[error("kernel `{kernel}` takes ({wanted}), was given ({given})")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// Its parameters.
        wanted: String,
        /// What was given.
        given: String,
    },
    /// An operation that this device does not have; the message names what to use.
    #[error("device `{device}` does not have `{op}`: use host")]
    Unsupported {
        /// The operation.
        op: String,
        /// The device.
        device: String,
    },
    /// A wait for the device passed its limit.
    #[error("device `{device}` did not finish within {seconds} s")]
    Timeout {
        /// The device.
        device: String,
        /// Seconds waited.
        seconds: u64,
    },
    /// An operation of a group of ranks cannot complete; the group has ended.
    #[error("{op}: {why}")]
    Collective {
        /// The operation, with its place in this rank's order.
        op: String,
        /// Why not.
        why: String,
    },
    /// The driver, or the emulator, refused or failed.
    #[error("{call}: {text}")]
    Driver {
        /// What was asked of it.
        call: String,
        /// What it answered.
        text: String,
    },
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The class of the failure: the program's exit code.
    pub fn class(&self) -> Class {
        match self.kind {
            ErrorKind::Unavailable { .. } => Class::MissingDevice,
            ErrorKind::Collective { .. } => Class::LostRank,
            ErrorKind::UnknownDevice(_) | ErrorKind::Unsupported { .. } => Class::Input,
            _ => Class::NoAnswer,
        }
    }

    /// Whether the wanted device is missing.
    pub fn is_missing_device(&self) -> bool {
        self.class() == Class::MissingDevice
    }

    /// Whether another rank did not do its part.
    pub fn is_lost_rank(&self) -> bool {
        self.class() == Class::LostRank
    }

    /// An operand of the wrong length.
    pub fn length(op: &'static str, operand: &'static str, wanted: usize, given: usize) -> Self {
        ErrorKind::Length {
            op,
            operand,
            wanted,
            given,
        }
        .into()
    }

    /// A row index outside of a table of `n_rows` rows.
    pub fn index(op: &'static str, index: u64, n_rows: u64) -> Self {
        ErrorKind::Index { op, index, n_rows }.into()
    }

    /// A buffer of another device or stream than `device`, which was to run the operation.
    pub fn other_device(op: &str, device: DeviceKind) -> Self {
        ErrorKind::OtherDevice {
            op: op.to_string(),
            device: device.to_string(),
        }
        .into()
    }

    /// An operation that `device` does not have.
    pub fn unsupported(op: &str, device: DeviceKind) -> Self {
        ErrorKind::Unsupported {
            op: op.to_string(),
            device: device.to_string(),
        }
        .into()
    }

    pub(crate) fn unavailable(device: impl ToString, why: impl ToString) -> Self {
        let (device, why) = (device.to_string(), why.to_string());
        ErrorKind::Unavailable { device, why }.into()
    }

    /// Settings or lists that contradict themselves.
    pub fn invalid(op: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        ErrorKind::Invalid { op, why }.into()
    }

    /// What the driver or a kernel answered to a call.
    pub fn driver(call: impl ToString, text: impl ToString) -> Self {
        let (call, text) = (call.to_string(), text.to_string());
        ErrorKind::Driver { call, text }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

/// What to do where the memory of `device` is full.
fn smaller(device: &str) -> &'static str {
    match device {
        "host" => "use less of it",
        _ => "use a smaller batch, or host",
    }
}
