//! Functions that old drivers lack, looked up by name: the binding ends the process where one is missing.

use std::ffi::{CStr, c_int, c_void};

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

/// `cuFuncGetParamInfo`: since CUDA 12.4.
type ParamInfo =
    unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> sys::CUresult;

/// `cuEventElapsedTime`: since CUDA 2.0; later releases gave the name to another function of the same type.
type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

/// The functions of this driver.
#[derive(Debug)]
pub(super) struct Lookup {
    param_info: Option<ParamInfo>,
    elapsed_time: Option<ElapsedTime>,
}

impl Lookup {
    /// Asks the driver, which has been started.
    pub(super) fn new() -> Self {
        let param_info = find(c"cuFuncGetParamInfo", 12040);
        let elapsed_time = find(c"cuEventElapsedTime", 12000);
        // SAFETY: the driver gave the addresses for these names and releases, whose functions have these types (cuda.h).
        unsafe {
            Self {
                param_info: param_info.map(|at| std::mem::transmute::<*mut c_void, ParamInfo>(at)),
                elapsed_time: elapsed_time
                    .map(|at| std::mem::transmute::<*mut c_void, ElapsedTime>(at)),
            }
        }
    }

    /// True if the parameters of loaded kernels can be asked for.
    pub(super) fn has_param_info(&self) -> bool {
        self.param_info.is_some()
    }

    /// Bytes of a parameter of a loaded kernel; absent past the last.
    ///
    /// # Safety
    /// The function is loaded.
    pub(super) unsafe fn param_bytes(&self, function: sys::CUfunction, i: usize) -> Option<usize> {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the caller's; the pointers are those of live integers. An index past the end is an error.
        let found = unsafe { self.param_info?(function, i, &raw mut offset, &raw mut bytes) };
        found.result().is_ok().then_some(bytes)
    }

    /// Milliseconds between two events.
    ///
    /// # Safety
    /// Both are alive and have happened.
    pub(super) unsafe fn elapsed_ms(
        &self,
        first: sys::CUevent,
        last: sys::CUevent,
    ) -> Result<f32, DriverError> {
        let missing = DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND);
        let elapsed_time = self.elapsed_time.ok_or(missing)?;
        let mut ms = 0.0;
        // SAFETY: the caller's; the pointer is that of a live number.
        let status = unsafe { elapsed_time(&raw mut ms, first, last) };
        status.result().map(|()| ms)
    }
}

/// The address of a driver's function as of a release of CUDA; absent where the driver is older.
fn find(name: &CStr, release: c_int) -> Option<*mut c_void> {
    let mut at = std::ptr::null_mut();
    let mut found = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: the name ends in a zero, and the pointers are those of live values.
    let status =
        unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut at, release, 0, &raw mut found) };
    (status.result().is_ok() && !at.is_null()).then_some(at)
}
