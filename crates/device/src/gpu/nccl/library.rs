//! NCCL's C interface, opened at run time: the functions that a [`super::Group`] uses, their status codes as text.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use crate::{DeviceKind, Error};

/// The name under which the system's loader looks for NCCL.
const FILE: &str = "libnccl.so.2";

/// The oldest NCCL that is taken: non-blocking communicators came with 2.14 and are in use everywhere since 2.18.
const OLDEST: c_int = 21800;

/// A function that the library for emulated devices has, and no other; its answer is not 0.
const EMULATED: &str = "shardgraph_emulated_collectives";

/// A communicator as NCCL hands it out.
pub(super) type RawComm = *mut c_void;

pub(super) const SUCCESS: c_int = 0;
pub(super) const IN_PROGRESS: c_int = 7;

pub(super) const UINT8: c_int = 1;
pub(super) const UINT64: c_int = 5;
pub(super) const FLOAT32: c_int = 7;

pub(super) const SUM: c_int = 0;
pub(super) const MAX: c_int = 2;

/// What names one group to all its ranks: made by one of them, carried to the others by whatever they have.
///
/// ```
/// use shardgraph_device::nccl::UniqueId;
/// let id = UniqueId::from_bytes([7; UniqueId::BYTES]);
/// assert_eq!(id.to_bytes()[127], 7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId {
    bytes: [u8; 128],
}

impl UniqueId {
    /// How long it is.
    pub const BYTES: usize = 128;

    /// What another rank has sent.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self { bytes }
    }

    /// What to send to the other ranks.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.bytes
    }
}

/// The beginning of `ncclConfig_t`, which every version since 2.14 takes: it copies `size` bytes over its own defaults and
/// leaves out what `version` did not have yet.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    /// In later versions a setting, which they leave out here; NCCL's number for "not set".
    _next: c_int,
}

impl Config {
    pub(super) fn non_blocking() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: 21400,
            blocking: 0,
            _next: c_int::MIN,
        }
    }
}

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of one opened library.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            is_emulated: bool,
            /// Never unloaded: it has threads of its own.
            _library: ManuallyDrop<libloading::Library>,
        }

        impl Functions {
            fn of(library: libloading::Library) -> Result<Self, String> {
                // SAFETY: names and types are those of nccl.h, the same in all versions of NCCL 2 that have them;
                // enumerations are C integers there. What only the emulated library has is of this type in nccl.cpp, and can
                // be called at any time.
                unsafe {
                    Ok(Self {
                        $($field: symbol(&library, $name)?,)*
                        is_emulated: symbol::<unsafe extern "C" fn() -> c_int>(&library, EMULATED)
                            .is_ok_and(|answer| answer() != 0),
                        _library: ManuallyDrop::new(library),
                    })
                }
            }
        }
    };
}
functions! {
    get_version = "ncclGetVersion"(*mut c_int) -> c_int;
    get_unique_id = "ncclGetUniqueId"(*mut UniqueId) -> c_int;
    error_string = "ncclGetErrorString"(c_int) -> *const c_char;
    last_error = "ncclGetLastError"(RawComm) -> *const c_char;
    init_rank_config = "ncclCommInitRankConfig"(
        *mut RawComm, c_int, UniqueId, c_int, *mut Config
    ) -> c_int;
    get_async_error = "ncclCommGetAsyncError"(RawComm, *mut c_int) -> c_int;
    finalize = "ncclCommFinalize"(RawComm) -> c_int;
    destroy = "ncclCommDestroy"(RawComm) -> c_int;
    abort = "ncclCommAbort"(RawComm) -> c_int;
    group_start = "ncclGroupStart"() -> c_int;
    group_end = "ncclGroupEnd"() -> c_int;
    all_reduce = "ncclAllReduce"(
        *const c_void, *mut c_void, usize, c_int, c_int, RawComm, *mut c_void
    ) -> c_int;
    all_gather = "ncclAllGather"(
        *const c_void, *mut c_void, usize, c_int, RawComm, *mut c_void
    ) -> c_int;
    broadcast = "ncclBroadcast"(
        *const c_void, *mut c_void, usize, c_int, c_int, RawComm, *mut c_void
    ) -> c_int;
    send = "ncclSend"(*const c_void, usize, c_int, c_int, RawComm, *mut c_void) -> c_int;
    recv = "ncclRecv"(*mut c_void, usize, c_int, c_int, RawComm, *mut c_void) -> c_int;
}

impl Functions {
    fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: the pointer is that of a live integer.
        let status = unsafe { (self.get_version)(&raw mut version) };
        self.check("ncclGetVersion", status, std::ptr::null_mut())?;
        Ok(version)
    }

    /// Success or "in progress", or what the status means: its text, its number, and NCCL's last words about it.
    pub(super) fn check(&self, call: &str, status: c_int, comm: RawComm) -> Result<(), String> {
        match status {
            SUCCESS | IN_PROGRESS => Ok(()),
            failed => Err(format!("{call}: {}", self.text(failed, comm))),
        }
    }

    /// What a status means.
    pub(super) fn text(&self, status: c_int, comm: RawComm) -> String {
        // SAFETY: any number is legal, the communicator is alive or null, and both answer with a string that stays, or with null.
        let [meaning, last] = unsafe { [(self.error_string)(status), (self.last_error)(comm)] }
            .map(|text| match text.is_null() {
                true => String::new(),
                // SAFETY: not null, and ended by a zero as C strings are.
                false => unsafe { CStr::from_ptr(text) }
                    .to_string_lossy()
                    .into_owned(),
            });
        match last.is_empty() {
            true => format!("{meaning} (status {status})"),
            false => format!("{meaning} (status {status}): {last}"),
        }
    }

    /// Whether a communicator has become ready, or has got an operation into its stream; an error it has met in the meantime.
    ///
    /// # Safety
    /// The communicator is alive.
    pub(super) unsafe fn is_settled(&self, comm: RawComm) -> Result<bool, String> {
        let mut state = SUCCESS;
        // SAFETY: the caller's promise; the pointer is that of a live integer.
        let status = unsafe { (self.get_async_error)(comm, &raw mut state) };
        self.check("ncclCommGetAsyncError", status, comm)?;
        match state {
            SUCCESS => Ok(true),
            IN_PROGRESS => Ok(false),
            failed => Err(self.text(failed, comm)),
        }
    }
}

/// A function of the library.
///
/// # Safety
/// `F` is the type of the function of this name.
unsafe fn symbol<F: Copy>(library: &libloading::Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|function| *function)
        .map_err(|_| format!("it has no {name}"))
}

/// NCCL as it is installed here. Clones share one opened library, which stays open to the end of the process.
#[derive(Clone)]
pub struct Library {
    functions: Arc<Functions>,
    version: c_int,
    is_checked: bool,
}

impl Library {
    /// Opens NCCL: `libnccl.so.2` where the system's loader finds it, or the file of this path.
    ///
    /// The library's code is trusted as this program's is.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unavailable`] if there is none, or it is older than 2.18.
    pub fn open(path: Option<&Path>) -> Result<Self, Error> {
        let path = path.unwrap_or(Path::new(FILE));
        let missing = |why: String| Error::unavailable("nccl", why);
        // SAFETY: a library of collectives, which the user has installed or named; its start-up code is part of that trust.
        let library = unsafe { libloading::Library::new(path) }.map_err(|e| {
            let why = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
            missing(format!(
                "{why}: install NCCL (the PyPI package nvidia-nccl-cu13 has it) and name its {FILE} by --nccl-library, or leave out --comm nccl"
            ))
        })?;
        let shown = path.display();
        let functions = Functions::of(library)
            .map_err(|why| missing(format!("{shown} is not NCCL 2.18 or newer: {why}")))?;
        let version = functions
            .version()
            .map_err(|why| missing(format!("{shown}: {why}")))?;
        if version < OLDEST {
            return Err(missing(format!(
                "{shown} is NCCL {}, {} or newer is needed: update it",
                dotted(version),
                dotted(OLDEST)
            )));
        }
        let functions = Arc::new(functions);
        Ok(Self {
            functions,
            version,
            is_checked: cfg!(debug_assertions),
        })
    }

    /// The same library, whose groups compare what their ranks ask for before each operation, or do not; in debug builds they
    /// do. Ranks that differ are told at once what the others want; without it they wait for the deadline, or get each
    /// other's data. A check is one more exchange of 32 bytes, and a wait for it. All ranks have to choose the same.
    #[must_use]
    pub fn with_checks(self, is_checked: bool) -> Self {
        Self { is_checked, ..self }
    }

    /// Whether groups compare what their ranks ask for.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// NCCL's own number of its version: 23003 is 2.30.3. Ranks of one group should have the same.
    pub fn version(&self) -> u32 {
        self.version.unsigned_abs() // above `OLDEST`
    }

    /// What the libraries of all ranks of a group must have in common, in words.
    pub fn describe(&self) -> String {
        let emulated = ["", " (emulated)"][usize::from(self.functions.is_emulated)];
        let checked = [", without checks", ", with checks"][usize::from(self.is_checked)];
        format!("{self:?}{emulated}{checked}")
    }

    /// A name for a new group, made by one of its ranks, whose process has to stay as long as others still join.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Driver`] with NCCL's words.
    pub fn unique_id(&self) -> Result<UniqueId, Error> {
        let mut id = UniqueId { bytes: [0; 128] };
        // SAFETY: the pointer is that of a live structure of this type.
        let status = unsafe { (self.functions.get_unique_id)(&raw mut id) };
        match status {
            SUCCESS => Ok(id),
            failed => {
                let text = self.functions.text(failed, std::ptr::null_mut());
                Err(Error::driver("ncclGetUniqueId", text))
            }
        }
    }

    /// Whether this library can work on the streams of such a device.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] with what would be right.
    pub fn check_device(&self, kind: DeviceKind) -> Result<(), Error> {
        match (kind, self.functions.is_emulated) {
            (DeviceKind::Cuda(_), false) | (DeviceKind::Emulated, true) => Ok(()),
            (_, false) => Err(Error::invalid(
                "join",
                format!("{self:?} works on GPUs only, not on device `{kind}`: use --device cuda"),
            )),
            (_, true) => Err(Error::invalid(
                "join",
                format!(
                    "this library of collectives is for emulated devices, not for `{kind}`: name NCCL's own by --nccl-library"
                ),
            )),
        }
    }

    pub(super) fn functions(&self) -> &Arc<Functions> {
        &self.functions
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {}", dotted(self.version))
    }
}

/// 23003 is 2.30.3; before 2.9 the numbers had four digits.
fn dotted(version: c_int) -> String {
    let unit = if version >= 10000 { 10000 } else { 1000 };
    format!(
        "{}.{}.{}",
        version / unit,
        version % unit / 100,
        version % 100
    )
}
