//! Dense products through cuBLAS, where it is installed.

use std::sync::OnceLock;

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys;
use cudarc::driver::sys::CUstream;

use crate::{Error, MatMul};

/// A cuBLAS handle bound to one stream.
#[derive(Debug)]
pub(super) struct Blas {
    handle: sys::cublasHandle_t,
}

// SAFETY: a cuBLAS handle may move to another thread as long as one at a time uses it, which `&mut self` sees to.
unsafe impl Send for Blas {}

fn failed(call: &str, error: CublasError) -> Error {
    Error::driver(call, format!("{:?}", error.0))
}

impl Blas {
    pub(super) fn is_installed() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        // SAFETY: this only tries to open a library by name; it comes before all other calls, which panic without it.
        *FOUND.get_or_init(|| unsafe { sys::is_culib_present() })
    }

    /// A handle for the stream, or "unavailable" where cuBLAS is not installed.
    pub(super) fn open(stream: CUstream) -> Result<Self, Error> {
        if !Self::is_installed() {
            return Err(Error::unavailable(
                "cublas",
                "libcublas.so is not installed",
            ));
        }
        let handle = result::create_handle().map_err(|e| failed("cublasCreate", e))?;
        let blas = Self { handle };
        // SAFETY: handle and stream are alive; CUDA's two stream types are one.
        unsafe { result::set_stream(handle, stream.cast()) }
            .map_err(|e| failed("cublasSetStream", e))?;
        Ok(blas)
    }

    /// The product, or nothing for dimensions that cuBLAS cannot take.
    ///
    /// cuBLAS is column-major, where our row-major matrices are their transposes: `out^T = op(b)^T op(a)^T`.
    ///
    /// # Safety
    /// The addresses (a, b, out) hold matrices of this shape.
    pub(super) unsafe fn matmul(
        &mut self,
        shape: MatMul,
        [a, b, out]: [u64; 3],
    ) -> Option<Result<(), Error>> {
        let MatMul {
            rows, inner, cols, ..
        } = shape;
        if rows == 0 || inner == 0 || cols == 0 {
            return None; // a sum of nothing is zero, which cuBLAS leaves to its caller
        }
        let int = |n: usize| i32::try_from(n).ok();
        let [m, k, n] = [int(rows)?, int(inner)?, int(cols)?];
        let operation = |transposed: bool| match transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let a_stride = if shape.transpose_a { m } else { k };
        let b_stride = if shape.transpose_b { k } else { n };
        // SAFETY: the handle is alive; the strides are the row lengths of the stored matrices; the rest is the caller's promise.
        let done = unsafe {
            result::sgemm(
                self.handle,
                operation(shape.transpose_b),
                operation(shape.transpose_a),
                n,
                m,
                k,
                &1.0,
                b as *const f32,
                b_stride,
                a as *const f32,
                a_stride,
                &0.0,
                out as *mut f32,
                n,
            )
        };
        Some(done.map_err(|e| failed("cublasSgemm", e)))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle was made in `open` and is destroyed once. A failure has nobody to be told to: the stream's own
        // errors come back from the next wait.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}
