//! What can go wrong on a device.

use std::fmt;

use crate::DeviceKind;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name that is no device kind; the payload is the name.
    UnknownDevice(String),
    /// A device that this build or machine does not have.
    Unavailable {
        /// The wanted device.
        device: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A buffer of the wrong length: operation, operand, length wanted, length given.
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
    Index {
        /// The operation that was called.
        op: &'static str,
        /// The offending index.
        index: u64,
        /// The number of rows that exist.
        n_rows: u64,
    },
    /// Settings or lists that contradict themselves; the message says what would have been right.
    Invalid {
        /// The operation that was called.
        op: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The device's memory does not hold the wanted bytes.
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes free when they were wanted.
        free: u64,
    },
    /// A buffer of one device (or stream) was given to an operation of another.
    OtherDevice {
        /// The operation or kernel.
        op: String,
        /// The device that should have run it.
        device: String,
    },
    /// Arguments that do not fit the kernel's parameters; both as signatures (see [`crate::Arg`]).
    Arguments {
        /// The kernel.
        kernel: String,
        /// Its parameters.
        wanted: String,
        /// What was given.
        given: String,
    },
    /// An operation that this device does not have; the message names what to use.
    Unsupported {
        /// The operation.
        op: String,
        /// The device.
        device: String,
    },
    /// A wait for the device passed its deadline.
    Timeout {
        /// The device.
        device: String,
        /// Seconds waited.
        seconds: u64,
    },
    /// An operation of a group of ranks cannot complete; the group has ended.
    Collective {
        /// The operation, with its place in this rank's order.
        op: String,
        /// Why not.
        why: String,
    },
    /// The driver, or the emulator, refused or failed.
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

    /// Whether the wanted device is missing (exit code 3 of the command line).
    pub fn is_missing_device(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable { .. })
    }

    /// Whether another rank did not do its part (exit code 4 of the command line).
    pub fn is_lost_rank(&self) -> bool {
        matches!(self.kind, ErrorKind::Collective { .. })
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.message())
    }
}

impl ErrorKind {
    fn message(&self) -> String {
        match self {
            Self::UnknownDevice(name) => {
                format!("unknown device `{name}`: expected host, emulated, cuda, cuda:N or auto")
            }
            Self::Unavailable { device, why } => {
                format!("device `{device}` is not available: {why}")
            }
            Self::Length {
                op,
                operand,
                wanted,
                given,
            } => format!("{op}: operand `{operand}` has {given} elements, {wanted} are needed"),
            Self::Index { op, index, n_rows } => {
                format!("{op}: row {index} is outside a table of {n_rows} rows")
            }
            Self::Invalid { op, why } => format!("{op}: {why}"),
            other => other.message_of_device(),
        }
    }

    /// What a device or its driver said no to.
    fn message_of_device(&self) -> String {
        match self {
            Self::OutOfMemory {
                device,
                wanted,
                free,
            } => {
                let instead = match device.as_str() {
                    "host" => "use less of it",
                    _ => "use a smaller batch, or host",
                };
                format!(
                    "device `{device}` has no room for {wanted} more bytes ({free} are free): {instead}"
                )
            }
            Self::OtherDevice { op, device } => format!(
                "{op}: a buffer does not belong to device `{device}`: download and upload it first"
            ),
            Self::Arguments {
                kernel,
                wanted,
                given,
            } => format!("kernel `{kernel}` takes ({wanted}), was given ({given})"),
            Self::Unsupported { op, device } => {
                format!("device `{device}` does not have `{op}`: use host")
            }
            Self::Timeout { device, seconds } => {
                format!("device `{device}` did not finish within {seconds} s")
            }
            Self::Collective { op, why } => format!("{op}: {why}"),
            Self::Driver { call, text } => format!("{call}: {text}"),
            other => format!("{other:?}"),
        }
    }
}

impl std::error::Error for Error {}
