//! The driver that runs the kernels on the processor, in a library that the emulator's crate builds.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use libloading::Library;

use super::kernels::{KERNELS, Kernel};
use super::{Driver, Launch};
use crate::{DeviceKind, Error, ErrorKind, Timer};

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
struct Functions {
    alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    launch: LaunchFn,
    /// Never unloaded: its stacks would stay, and the next one to open it would get new ones.
    _library: ManuallyDrop<Library>,
}

/// One stream of the emulated device; every call is done when it returns.
#[derive(Debug)]
pub(crate) struct Emulated {
    functions: Arc<Functions>,
    state: Mutex<State>,
    clock: Arc<Timer>,
}

#[derive(Debug, Default)]
struct State {
    /// The seed of the next launch's order of blocks, warps and lanes.
    n_launches: u64,
    capture: Option<Vec<Recorded>>,
    graphs: Vec<Option<Arc<Vec<Recorded>>>>,
}

#[derive(Debug)]
struct Recorded {
    kernel: &'static Kernel,
    shape: Launch,
    values: Vec<u64>,
}

impl Emulated {
    /// Opens the library and compares its kernels with the table.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let missing = |why: String| Error::unavailable(DeviceKind::Emulated, why);
        // SAFETY: the library is the emulator's, built from this project's sources; its start-up code only fills tables.
        let library = unsafe { Library::new(path) }
            .map_err(|e| missing(format!("{}; {}", reason(&e), how_to_build(path))))?;
        let functions = Functions::of(library)
            .map_err(|why| missing(format!("{}: {why}; {}", path.display(), how_to_build(path))))?;
        Ok(Self {
            functions: Arc::new(functions),
            state: Mutex::default(),
            clock: Arc::new(Timer::wall()),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn run(
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
            (self.functions.launch)(
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

impl Functions {
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

impl Driver for Emulated {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Emulated
    }

    fn device_id(&self) -> u64 {
        Arc::as_ptr(&self.functions) as u64
    }

    fn describe(&self) -> String {
        "CUDA kernels emulated on the processor".to_string()
    }

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        // SAFETY: any size is legal.
        let pointer = unsafe { (self.functions.alloc)(bytes) };
        if pointer.is_null() {
            return Err(ErrorKind::OutOfMemory {
                device: self.kind().to_string(),
                wanted: bytes as u64,
                free: 0,
            }
            .into());
        }
        Ok(pointer as u64)
    }

    fn free(&self, address: u64) {
        // SAFETY: the address is one of `allocate`, given back once (by the drop of its owner).
        unsafe { (self.functions.free)(address as *mut c_void) }
    }

    unsafe fn clear(&self, address: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        Ok(())
    }

    unsafe fn upload(&self, source: &[u8], target: u64) -> Result<(), Error> {
        // SAFETY: the caller's promise; a slice of the host never overlaps memory of the emulator.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target as *mut u8, source.len()) };
        Ok(())
    }

    unsafe fn download(&self, source: u64, target: &mut [u8]) -> Result<(), Error> {
        let len = target.len();
        // SAFETY: as in `upload`.
        unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target.as_mut_ptr(), len) };
        Ok(())
    }

    unsafe fn copy(&self, source: u64, target: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: Launch,
        values: &mut [u64],
    ) -> Result<(), Error> {
        let seed = {
            let mut state = self.state();
            if let Some(capture) = &mut state.capture {
                capture.push(Recorded {
                    kernel,
                    shape,
                    values: values.to_vec(),
                });
                return Ok(());
            }
            state.n_launches += 1;
            state.n_launches
        };
        // SAFETY: the caller's promise.
        unsafe { self.run(kernel, shape, values, seed) }
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(()) // every call is done when it returns
    }

    fn new_stream(&self) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self {
            functions: Arc::clone(&self.functions),
            state: Mutex::default(),
            clock: Arc::clone(&self.clock),
        }))
    }

    fn record(&self) -> Result<u64, Error> {
        Ok(self.clock.elapsed().as_nanos() as u64)
    }

    fn wait(&self, _event: u64) -> Result<(), Error> {
        Ok(())
    }

    fn elapsed_ms(&self, first: u64, last: u64) -> Result<f64, Error> {
        Ok((last as f64 - first as f64) / 1e6)
    }

    fn destroy_event(&self, _event: u64) {}

    fn begin_capture(&self) -> Result<(), Error> {
        self.state().capture = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&self) -> Result<u64, Error> {
        let mut state = self.state();
        let recorded = state.capture.take().unwrap_or_default();
        state.graphs.push(Some(Arc::new(recorded)));
        Ok(state.graphs.len() as u64 - 1)
    }

    unsafe fn launch_graph(&self, graph: u64) -> Result<(), Error> {
        let recorded = self.state().graphs[graph as usize].clone();
        for one in recorded.iter().flat_map(|recorded| recorded.iter()) {
            // SAFETY: the values fitted when they were recorded, and their memory still exists (the caller's promise).
            unsafe { self.launch(one.kernel, one.shape, &mut one.values.clone())? };
        }
        Ok(())
    }

    fn destroy_graph(&self, graph: u64) {
        self.state().graphs[graph as usize] = None;
    }
}
