//! The device type that users hold, in front of its back ends.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::gpu::Gpu;
use crate::{Buffer, Error, ErrorKind, MatMul};

/// The kinds of device that the project knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor and its memory.
    Host,
    /// The CUDA kernels' own source, run on the processor.
    Emulated,
    /// An NVIDIA GPU; the payload is its ordinal.
    Cuda(u32),
    /// The first NVIDIA GPU if there is one, else the processor; no device that is open is of this kind.
    Auto,
}

impl DeviceKind {
    /// What decides the last bits of a result, whichever GPU it is: `host`, `emulated` or `cuda`. A run that is to be repeated bit for bit
    /// stays in one family.
    ///
    /// ```
    /// use shardgraph_device::DeviceKind;
    /// assert_eq!(DeviceKind::Cuda(0).family(), DeviceKind::Cuda(3).family());
    /// ```
    pub fn family(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Emulated => "emulated",
            Self::Cuda(_) => "cuda",
            Self::Auto => "auto",
        }
    }
}

impl FromStr for DeviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = || Error::from(ErrorKind::UnknownDevice(name.to_string()));
        match name {
            "host" => Ok(Self::Host),
            "emulated" => Ok(Self::Emulated),
            "cuda" => Ok(Self::Cuda(0)),
            "auto" => Ok(Self::Auto),
            _ => {
                let ordinal = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                Ok(Self::Cuda(ordinal.parse().map_err(|_| unknown())?))
            }
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => write!(f, "host"),
            Self::Emulated => write!(f, "emulated"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Auto => write!(f, "auto"),
        }
    }
}

/// Memory, one stream of work, and the launches of kernels.
///
/// Every method checks the lengths of its operands before any element is touched. Cloning is cheap; clones share one
/// stream, that is one order of work. See [`Device::new_stream`].
///
/// ```
/// use shardgraph_device::Device;
/// let device = Device::host();
/// let a = device.upload(&[1.0, 2.0])?;
/// let mut b = device.zeros(2)?;
/// device.copy(&a, &mut b)?;
/// assert_eq!(b.as_host(), Some(&[1.0, 2.0][..]));
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) back_end: BackEnd,
}

#[derive(Debug, Clone)]
pub(crate) enum BackEnd {
    Host,
    Gpu(Gpu),
}

/// The file name of the emulator, looked for beside the running program.
pub const EMULATOR_FILE: &str = "libshardgraph_emulated.so";

impl Device {
    /// The processor; always there.
    pub fn host() -> Self {
        Self {
            back_end: BackEnd::Host,
        }
    }

    /// Opens a device of the wanted kind; the emulator is looked for beside the running program ([`EMULATOR_FILE`]).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where this build or machine has no such device; the message says what is missing.
    pub fn open(kind: DeviceKind) -> Result<Self, Error> {
        match kind {
            DeviceKind::Host => Ok(Self::host()),
            DeviceKind::Emulated => {
                let program = std::env::current_exe()
                    .map_err(|e| Error::unavailable(kind, format!("this program's path: {e}")))?;
                Self::emulated(&program.with_file_name(EMULATOR_FILE))
            }
            DeviceKind::Cuda(ordinal) => Ok(Self {
                back_end: BackEnd::Gpu(Gpu::cuda(ordinal)?),
            }),
            DeviceKind::Auto => match Self::open(DeviceKind::Cuda(0)) {
                Err(error) if error.is_missing_device() => Ok(Self::host()),
                found => found,
            },
        }
    }

    /// The CUDA kernels' own source run on the processor, from the given library.
    ///
    /// The library is the project's own, built by `cuemu-build plain` of the emulator's crate; its code is trusted as this
    /// program's is.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if it cannot be opened or was built from other sources.
    pub fn emulated(library: &Path) -> Result<Self, Error> {
        Ok(Self {
            back_end: BackEnd::Gpu(Gpu::emulated(library)?),
        })
    }

    /// The kind of this device.
    pub fn kind(&self) -> DeviceKind {
        self.gpu().map_or(DeviceKind::Host, Gpu::kind)
    }

    /// The back end that launches kernels; none on the host.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        match &self.back_end {
            BackEnd::Host => None,
            BackEnd::Gpu(gpu) => Some(gpu),
        }
    }

    /// The same for an operation that the host does not have.
    pub(crate) fn gpu_for(&self, op: &str) -> Result<&Gpu, Error> {
        let missing = || Error::unsupported(op, self.kind());
        self.gpu().ok_or_else(missing)
    }

    /// The device with another back end that launches kernels; the host as it is.
    pub(crate) fn map_gpu(
        &self,
        f: impl FnOnce(&Gpu) -> Result<Gpu, Error>,
    ) -> Result<Device, Error> {
        let back_end = match &self.back_end {
            BackEnd::Host => BackEnd::Host,
            BackEnd::Gpu(gpu) => BackEnd::Gpu(f(gpu)?),
        };
        Ok(Device { back_end })
    }

    /// One line about this device for records: name, size, driver.
    pub fn describe(&self) -> String {
        let driver = self.gpu().map(Gpu::driver);
        driver.map_or_else(|| "host".to_string(), |driver| driver.describe())
    }

    /// The vendor's library that large dense products go through, where it is installed.
    pub fn vendor_products(&self) -> Option<&'static str> {
        self.gpu()?.driver().vendor_products()
    }

    /// True for the processor, where operations are loops over slices; elsewhere they are launches of kernels.
    #[inline]
    pub fn is_host(&self) -> bool {
        matches!(self.back_end, BackEnd::Host)
    }

    /// A dense product by the vendor's library; `None` on a device that has none, or where the library cannot take the
    /// shape.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`], the library's error.
    pub fn vendor_matmul(
        &self,
        shape: MatMul,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Option<Result<(), Error>> {
        let gpu = self.gpu()?;
        if let Err(error) = shape.check("vendor_matmul", a, b, out) {
            return Some(Err(error));
        }
        gpu.vendor_matmul(shape, a, b, out)
    }
}
