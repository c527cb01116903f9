//! The emulator's library: its functions, and the comparison of its kernels with the table.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library;

use crate::gpu::Launch;
use crate::gpu::kernels::{KERNELS, Kernel};
use crate::{DeviceKind, Error};

/// The version of the library's C interface that this file speaks.
const ABI_VERSION: u32 = 1;

/// Room for the text of an error.
const ERROR_BYTES: usize = 1024;

type LaunchFn = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    *const u32,
    u32,
    *mut *mut c_void,
    u32,
    u64,
    *mut c_char,
    usize,
) -> c_int;

/// The functions of the library.
#[derive(Debug)]
pub(super) struct Functions {
    alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    launch: LaunchFn,
    /// Never unloaded: its stacks would stay, and the next one to open it would get new ones.
    _library: ManuallyDrop<Library>,
}

impl Functions {
    /// Opens the library and compares its kernels with the table.
    pub(super) fn load(path: &Path) -> Result<Self, Error> {
        let missing = |why: String| Error::unavailable(DeviceKind::Emulated, why);
        // SAFETY: the library is the emulator's, built from this project's sources; its start-up code only fills tables.
        let library = unsafe { Library::new(path) }
            .map_err(|e| missing(format!("{}; {}", reason(&e), how_to_build(path))))?;
        Self::of(library)
            .map_err(|why| missing(format!("{}: {why}; {}", path.display(), how_to_build(path))))
    }

    /// Memory for `bytes` bytes, or nothing where there is no more.
    pub(super) fn allocate(&self, bytes: usize) -> Option<u64> {
        // SAFETY: any size is legal.
        let pointer = unsafe { (self.alloc)(bytes) };
        (!pointer.is_null()).then_some(pointer as u64)
    }

    /// # Safety
    /// The address is one of [`Functions::allocate`], given back once.
    pub(super) unsafe fn give_back(&self, address: u64) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(address as *mut c_void) }
    }

    /// Runs one kernel to its end.
    ///
    /// # Safety
    /// As [`crate::gpu::Driver::launch`].
    pub(super) unsafe fn run(
        &self,
        kernel: &Kernel,
        shape: Launch,
        values: &mut [u64],
        seed: u64,
    ) -> Result<(), Error> {
        let call = || format!("launch of `{}`", kernel.name);
        let name = CString::new(kernel.name).map_err(|e| Error::driver(call(), e))?;
        // On a little-endian machine (the emulator's only kind) a narrower value is at the start of its u64.
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| std::ptr::from_mut(value).cast())
            .collect();
        let mut text = [0 as c_char; ERROR_BYTES];
        // SAFETY: the pointers lead to as many live values; the text has the stated size; the rest is the caller's promise.
        let status = unsafe {
            (self.launch)(
                name.as_ptr(),
                shape.grid.as_ptr(),
                shape.block.as_ptr(),
                shape.shared_bytes,
                pointers.as_mut_ptr(),
                pointers.len() as u32,
                seed,
                text.as_mut_ptr(),
                text.len(),
            )
        };
        if status == 0 {
            return Ok(());
        }
        text[ERROR_BYTES - 1] = 0;
        // SAFETY: the array ends with a zero (the line above).
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        Err(Error::driver(call(), text.to_string_lossy()))
    }

    fn of(library: Library) -> Result<Self, String> {
        let text = |e: libloading::Error| e.to_string();
        // SAFETY: the names and types are those of version 1 of the interface, which is checked before anything is called.
        unsafe {
            let version: unsafe extern "C" fn() -> u32 =
                *library.get(b"cuemu_abi_version").map_err(text)?;
            let found = version();
            if found != ABI_VERSION {
                return Err(format!("interface version {found}, not {ABI_VERSION}"));
            }
            check_kernels(&library)?;
            Ok(Self {
                alloc: *library.get(b"cuemu_alloc").map_err(text)?,
                free: *library.get(b"cuemu_free").map_err(text)?,
                launch: *library.get(b"cuemu_launch").map_err(text)?,
                _library: ManuallyDrop::new(library),
            })
        }
    }
}

/// Every kernel of the library has the signature of the table: what the compiler saw is what the scan saw.
///
/// # Safety
/// The library has version 1 of the interface.
unsafe fn check_kernels(library: &Library) -> Result<(), String> {
    let text = |e: libloading::Error| e.to_string();
    // SAFETY: names and types of version 1 of the interface.
    let (n_kernels, name, signature) = unsafe {
        let n_kernels: unsafe extern "C" fn() -> u32 =
            *library.get(b"cuemu_n_kernels").map_err(text)?;
        let name: unsafe extern "C" fn(u32) -> *const c_char =
            *library.get(b"cuemu_kernel_name").map_err(text)?;
        let signature: unsafe extern "C" fn(u32) -> *const c_char =
            *library.get(b"cuemu_kernel_signature").map_err(text)?;
        (n_kernels(), name, signature)
    };
    for i in 0..n_kernels {
        // SAFETY: i is below the number of kernels, for which the library gives strings that live as long as it does.
        let (name, signature) = unsafe { (CStr::from_ptr(name(i)), CStr::from_ptr(signature(i))) };
        let (name, signature) = (name.to_string_lossy(), signature.to_string_lossy());
        let listed = KERNELS.iter().find(|kernel| kernel.name == name);
        if listed.is_some_and(|kernel| kernel.signature != signature) {
            return Err(format!("kernel `{name}` takes ({signature}) there"));
        }
    }
    Ok(())
}

/// What the system's loader said, which names the file.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn how_to_build(path: &Path) -> String {
    format!(
        "in a checkout `cargo run -p shardgraph-cuemu --bin cuemu-build plain {}` builds it, or use --device host",
        path.display()
    )
}
