//! A GPU: how it is found, its context, and the kernels that are loaded into it.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::result::{
    self, DriverError, ctx, device, function, mem_pool, module, primary_ctx,
};
use cudarc::driver::sys;

use super::Handle;
use super::lookup::Lookup;
use crate::gpu::Timeout;
use crate::gpu::kernels::{KERNELS, Kernel};
#[cfg(not(test))]
use crate::gpu::kernels::{KERNELS_MISSING, MODULES};
use crate::{DeviceKind, Error, ErrorKind};

/// The oldest driver interface that is called here (CUDA 12.0, drivers from 525 on).
const OLDEST_DRIVER: c_int = 12000;

/// From here on (CUDA 13.0, drivers from 580 on) a driver loads kernels of every nvcc that `cargo xtask kernels` takes; below, those that
/// were assembled by CUDA 12, which is what it does unless told otherwise.
const KERNELS_DRIVER: c_int = 13000;

/// The primary context of one GPU, shared by its streams.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) ordinal: u32,
    device: sys::CUdevice,
    context: Handle<sys::CUctx_st>,
    /// Whether memory comes from a pool in the order of a stream; else from the device at once.
    pub(super) has_pools: bool,
    /// The fat binaries, by file.
    images: Images,
    modules: Mutex<BTreeMap<&'static str, Handle<sys::CUmod_st>>>,
    /// Loaded kernels, by [`Kernel::index`].
    functions: Box<[OnceLock<Function>]>,
    /// The error that ended the context; see [`Context::failed`].
    dead: OnceLock<Error>,
    /// The first error of a call that had nobody to return it to; see [`Context::keep`].
    kept: Mutex<Option<Error>>,
    pub(super) timeout: Timeout,
    /// Functions that old drivers lack.
    pub(super) lookup: Lookup,
}

/// Of each source file its stem and its fat binary.
pub(super) type Images = &'static [(&'static str, &'static [u8])];

#[derive(Debug)]
struct Function {
    handle: Handle<sys::CUfunc_st>,
    /// Dynamic shared memory that it may have.
    shared_bytes: AtomicU32,
}

/// The error of a call of the driver, before there is a context.
fn failed(call: &str, error: DriverError) -> Error {
    let text = |found: Result<&std::ffi::CStr, _>| match found {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", error.0 as u32),
    };
    let (name, string) = (text(error.error_name()), text(error.error_string()));
    Error::driver(call, format!("{string} ({name})"))
}

/// Whether a context that has answered this answers it to every later call.
fn ends_context(status: sys::CUresult) -> bool {
    use sys::CUresult as R;
    matches!(
        status,
        R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | R::CUDA_ERROR_CONTAINED
            | R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_TENSOR_MEMORY_LEAK
    )
}

/// The version of the driver's interface, or why there is none; asked once in a process.
fn find_driver() -> Result<c_int, String> {
    static FOUND: OnceLock<Result<c_int, String>> = OnceLock::new();
    FOUND.get_or_init(start_driver).clone()
}

fn start_driver() -> Result<c_int, String> {
    // SAFETY: this only tries to open a library by name. It comes first, since all other calls panic without the library.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver (libcuda.so) is installed: use --device host".to_string());
    }
    result::init().map_err(|e| {
        let error = failed("cuInit", e);
        format!("the CUDA driver does not start: {error}: is there a GPU, and does `nvidia-smi` show it?")
    })?;
    let mut version = 0;
    // SAFETY: the pointer is that of a live integer.
    let answer = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    answer
        .result()
        .map_err(|e| failed("cuDriverGetVersion", e).to_string())?;
    if version < OLDEST_DRIVER {
        return Err(format!(
            "the CUDA driver is for CUDA {}, this program needs {} (driver 525 or newer): update the driver",
            dotted(version),
            dotted(OLDEST_DRIVER)
        ));
    }
    Ok(version)
}

/// Why a driver that is older than the kernels' compiler does not load them.
fn too_old(version: c_int, error: &Error) -> String {
    format!(
        "the CUDA driver is for CUDA {} and does not load these kernels ({error}): update it to 580 or newer, or compile them by \
         `cargo xtask kernels` without --nvcc, where PyPI is within reach",
        dotted(version)
    )
}

/// 13020 is CUDA 13.2.
fn dotted(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl Context {
    /// The GPU's context: opened once in a process and kept to its end, with the kernels that are loaded into it.
    pub(super) fn of(ordinal: u32) -> Result<Arc<Self>, Error> {
        static OPEN: Mutex<BTreeMap<u32, Arc<Context>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = open.get(&ordinal) {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Self::open(ordinal)?);
        open.insert(ordinal, Arc::clone(&context));
        Ok(context)
    }

    fn open(ordinal: u32) -> Result<Self, Error> {
        let missing = |why: String| Error::unavailable(DeviceKind::Cuda(ordinal), why);
        let version = find_driver().map_err(missing)?;
        let count = device::get_count().map_err(|e| failed("cuDeviceGetCount", e))?;
        let wanted = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if wanted >= count {
            return Err(missing(match count {
                0 => "the driver shows no GPU: use --device host".to_string(),
                n => format!("this machine has {n} GPU(s), numbered from 0"),
            }));
        }
        let images = images().map_err(missing)?;
        let device = device::get(wanted).map_err(|e| failed("cuDeviceGet", e))?;
        // SAFETY: the device is the one that the driver just gave. The driver releases it when the process ends.
        let context = unsafe { primary_ctx::retain(device) }
            .map_err(|e| failed("cuDevicePrimaryCtxRetain", e))?;
        let opened = Self {
            ordinal,
            device,
            context: Handle(context),
            has_pools: has_pools(device),
            images,
            modules: Mutex::default(),
            functions: KERNELS.iter().map(|_| OnceLock::new()).collect(),
            dead: OnceLock::new(),
            kept: Mutex::new(None),
            timeout: Timeout::default(),
            lookup: Lookup::new(),
        };
        opened.enter()?;
        if opened.has_pools {
            opened.keep_freed_memory()?;
        }
        if version < KERNELS_DRIVER {
            let loaded = opened.function(&KERNELS[0], 0);
            loaded.map_err(|error| missing(too_old(version, &error)))?;
        }
        Ok(opened)
    }

    /// Makes this the context of the calling thread; before every call of the driver. A dead context answers its first error.
    pub(super) fn enter(&self) -> Result<(), Error> {
        if let Some(first) = self.dead.get() {
            return Err(first.clone());
        }
        // SAFETY: the context is retained for as long as the process runs.
        unsafe { ctx::set_current(self.context.0) }.map_err(|e| self.failed("cuCtxSetCurrent", e))
    }

    /// The error of a call of the driver.
    ///
    /// A fault of a kernel ends the context: the driver answers it to every later call, whatever that asks. So the first such
    /// error is kept, and all later calls answer it, with the call that met it.
    pub(super) fn failed(&self, call: &str, error: DriverError) -> Error {
        let answer = failed(call, error);
        match ends_context(error.0) {
            true => self.dead.get_or_init(|| answer).clone(),
            false => answer,
        }
    }

    /// Lets the memory pool keep what is freed: by default it goes back to the system at every wait.
    fn keep_freed_memory(&self) -> Result<(), Error> {
        let mut threshold = u64::MAX;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let pool = self.pool()?;
        // SAFETY: the pool is valid, and this attribute's value is a 64-bit integer.
        unsafe { mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast()) }
            .map_err(|e| self.failed("cuMemPoolSetAttribute", e))
    }

    pub(super) fn handle(&self) -> sys::CUcontext {
        self.context.0
    }

    /// Gives what the pool keeps back to the system, once no work uses it any more.
    pub(super) fn trim_pool(&self) -> Result<(), Error> {
        // SAFETY: the pool is valid.
        unsafe { mem_pool::trim_to(self.pool()?, 0) }.map_err(|e| self.failed("cuMemPoolTrimTo", e))
    }

    fn pool(&self) -> Result<sys::CUmemoryPool, Error> {
        // SAFETY: the device is valid.
        unsafe { device::get_default_mem_pool(self.device) }
            .map_err(|e| self.failed("cuDeviceGetDefaultMemPool", e))
    }

    /// Keeps the error of a call that gives something back, for the next [`Context::take_kept`].
    pub(super) fn keep(&self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert(error);
        }
    }

    pub(super) fn take_kept(&self) -> Result<(), Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().map_or(Ok(()), Err)
    }

    /// The loaded kernel, allowed `shared_bytes` of dynamic shared memory.
    pub(super) fn function(
        &self,
        kernel: &'static Kernel,
        shared_bytes: u32,
    ) -> Result<sys::CUfunction, Error> {
        let function = match self.functions[kernel.index].get() {
            Some(function) => function,
            None => self.load(kernel)?,
        };
        if shared_bytes > function.shared_bytes.load(Ordering::Relaxed) {
            self.allow_shared(function, kernel, shared_bytes)?;
        }
        Ok(function.handle.0)
    }

    /// Loads the kernel and, before the first of its file, the file's module; once, whoever asks.
    fn load(&self, kernel: &'static Kernel) -> Result<&Function, Error> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &self.functions[kernel.index];
        if let Some(function) = slot.get() {
            return Ok(function); // another thread was first
        }
        let module = match modules.get(kernel.file) {
            Some(module) => module.0,
            None => {
                let module = self.load_module(kernel.file)?;
                modules.insert(kernel.file, Handle(module));
                module
            }
        };
        let handle = self.load_function(module, kernel)?;
        let shared_bytes = AtomicU32::new(self.shared_limit(handle)?);
        let handle = Handle(handle);
        Ok(slot.get_or_init(|| Function {
            handle,
            shared_bytes,
        }))
    }

    /// Loads every kernel.
    pub(super) fn load_all(&self) -> Result<(), Error> {
        KERNELS
            .iter()
            .try_for_each(|kernel| self.function(kernel, 0).map(drop))
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute) -> i32 {
        // SAFETY: the device is valid.
        unsafe { device::get_attribute(self.device, attribute) }.unwrap_or(0)
    }

    /// Name, compute capability, size and driver, as one line.
    pub(super) fn describe(&self) -> String {
        use sys::CUdevice_attribute as A;
        let name = device::get_name(self.device).unwrap_or_else(|_| "GPU".to_string());
        let mut version = 0;
        // SAFETY: the pointer is that of a live integer; the answer is 0 (shown as such) if the call fails.
        let _ = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
        // SAFETY: the device is valid.
        let bytes = unsafe { device::total_mem(self.device) }.unwrap_or(0);
        let unchecked = match self.lookup.has_param_info() {
            true => "",
            false => ", which cannot tell kernels' parameters",
        };
        format!(
            "{name}, compute capability {}.{}, {} multiprocessors, {} MiB, {} MHz, driver for CUDA {}{unchecked}",
            self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            self.attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            bytes >> 20,
            self.attribute(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000,
            dotted(version)
        )
    }

    fn load_module(&self, file: &'static str) -> Result<sys::CUmodule, Error> {
        let call = format!("loading the kernels of `{file}.cu`");
        let Some((_, image)) = self.images.iter().find(|(stem, _)| *stem == file) else {
            return Err(Error::driver(call, "they are not part of this build"));
        };
        // SAFETY: the image is a whole fat binary as nvcc wrote it, kept in this program.
        unsafe { module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(|e| {
            let why = self.failed(&call, e).to_string();
            let hint = match e.0 {
                sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => ": this GPU is older than sm_80",
                _ => "",
            };
            Error::driver(why, hint)
        })
    }

    fn load_function(
        &self,
        module: sys::CUmodule,
        kernel: &'static Kernel,
    ) -> Result<sys::CUfunction, Error> {
        let call = format!("loading the kernel `{}`", kernel.name);
        let name = CString::new(kernel.name).map_err(|e| Error::driver(&call, e))?;
        // SAFETY: the module is loaded and never unloaded.
        let found =
            unsafe { module::get_function(module, name) }.map_err(|e| self.failed(&call, e))?;
        self.check_parameters(found, kernel)?;
        Ok(found)
    }

    /// The loaded kernel has as many parameters as the table says, each as wide; a driver below CUDA 12.4 cannot tell.
    fn check_parameters(
        &self,
        function: sys::CUfunction,
        kernel: &'static Kernel,
    ) -> Result<(), Error> {
        if !self.lookup.has_param_info() {
            return Ok(());
        }
        let widths = kernel.widths();
        for i in 0..=widths.len() {
            // SAFETY: the function is loaded.
            let given = unsafe { self.lookup.param_bytes(function, i) };
            let wanted = widths.get(i).copied();
            if wanted != given {
                return Err(ErrorKind::Arguments {
                    kernel: kernel.name.to_string(),
                    wanted: format!("{given:?} bytes for parameter {i}"),
                    given: format!("{wanted:?} bytes: run `cargo xtask kernels`"),
                }
                .into());
            }
        }
        Ok(())
    }

    /// Dynamic shared memory that the kernel may have without asking for more: 48 KiB less its static part.
    fn shared_limit(&self, handle: sys::CUfunction) -> Result<u32, Error> {
        // SAFETY: the function is loaded.
        let bytes = unsafe { function::get_function_attribute(handle, SHARED_BYTES) }
            .map_err(|e| self.failed("cuFuncGetAttribute", e))?;
        Ok(bytes.try_into().unwrap_or(0))
    }

    fn allow_shared(&self, function: &Function, kernel: &Kernel, bytes: u32) -> Result<(), Error> {
        // One at a time, so that the limit that is kept is the one that is set.
        let _modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= function.shared_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function is loaded; the driver checks the size.
        unsafe { function::set_function_attribute(function.handle.0, SHARED_BYTES, wanted) }
            .map_err(|e| {
                let call = format!("{bytes} B of shared memory for `{}`", kernel.name);
                self.failed(&call, e)
            })?;
        function.shared_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

const SHARED_BYTES: sys::CUfunction_attribute =
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

/// Whether the device allocates in the order of a stream; virtual GPUs and some sandboxes do not.
fn has_pools(device: sys::CUdevice) -> bool {
    let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    // SAFETY: the device is valid.
    unsafe { device::get_attribute(device, attribute) }.is_ok_and(|supported| supported != 0)
}

/// The fat binaries of this build, or why there are none.
#[cfg(not(test))]
fn images() -> Result<Images, String> {
    match KERNELS_MISSING {
        Some(why) => Err(why.to_string()),
        None => Ok(MODULES),
    }
}

#[cfg(test)]
use super::tests::images;
