//! cuSPARSE's product of the same matrix: the peer of the sparse kernels.

use std::ffi::c_void;
use std::ptr;

use cudarc::cusparse::result::CusparseError;
use cudarc::cusparse::sys;
use shardgraph_device::{Buffer, Device, Error, ErrorKind};

use crate::graphs::Lists;

/// A matrix of ones in cuSPARSE's form, ready to be multiplied.
pub(crate) struct Peer {
    handle: sys::cusparseHandle_t,
    matrix: sys::cusparseSpMatDescr_t,
    out: Buffer,
    workspace: Option<Buffer<u8>>,
    n_rows: i64,
    k: i64,
    buffers: (Buffer<i32>, Buffer<i32>, Buffer),
}

const ALGORITHM: sys::cusparseSpMMAlg_t = sys::cusparseSpMMAlg_t::CUSPARSE_SPMM_CSR_ALG2;
const PLAIN: sys::cusparseOperation_t = sys::cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
const F32: sys::cudaDataType = sys::cudaDataType_t::CUDA_R_32F;
static ONE: f32 = 1.0;
static ZERO: f32 = 0.0;

fn checked(call: &str, status: sys::cusparseStatus_t) -> Result<(), Error> {
    status.result().map_err(|CusparseError(code)| {
        let call = call.to_string();
        let text = format!("{code:?}");
        ErrorKind::Driver { call, text }.into()
    })
}

fn pointer<T: shardgraph_device::Scalar>(buffer: &Buffer<T>) -> *mut c_void {
    buffer.device_address().unwrap_or(0) as *mut c_void
}

impl Peer {
    /// The graph's matrix with `k` columns to multiply; nothing where there is no GPU or no cuSPARSE.
    pub(crate) fn new(device: &Device, graph: &Lists, k: usize) -> Result<Option<Self>, Error> {
        // SAFETY: this only tries to open a library by name, which must be known before any other call.
        let is_there = unsafe { sys::is_culib_present() };
        let Some(stream) = device.stream_handle().filter(|_| is_there) else {
            return Ok(None);
        };
        let row_ptr: Vec<i32> = graph.row_ptr.iter().map(|&at| at as i32).collect();
        let columns: Vec<i32> = graph.columns.iter().map(|&column| column as i32).collect();
        let buffers = (
            device.upload(&row_ptr)?,
            device.upload(&columns)?,
            device.upload(&vec![1.0; columns.len()])?,
        );
        let (n, k) = (graph.n_nodes as i64, k as i64);
        let mut peer = Self {
            handle: ptr::null_mut(),
            matrix: ptr::null_mut(),
            out: device.zeros((n * k) as usize)?,
            workspace: None,
            n_rows: n,
            k,
            buffers,
        };
        peer.create(stream)?;
        let x = device.zeros((n * k) as usize)?;
        peer.prepare(device, &x)?;
        Ok(Some(peer))
    }

    /// The handle on the device's stream, and the matrix.
    fn create(&mut self, stream: u64) -> Result<(), Error> {
        let index = sys::cusparseIndexType_t::CUSPARSE_INDEX_32I;
        let (row_ptr, columns, values) = &self.buffers;
        // SAFETY: the pointers are those of live locals and of buffers with the stated lengths, which the peer keeps.
        unsafe {
            checked("cusparseCreate", sys::cusparseCreate(&raw mut self.handle))?;
            checked(
                "cusparseSetStream",
                sys::cusparseSetStream(self.handle, stream as _),
            )?;
            let created = sys::cusparseCreateCsr(
                &raw mut self.matrix,
                self.n_rows,
                self.n_rows,
                columns.len() as i64,
                pointer(row_ptr),
                pointer(columns),
                pointer(values),
                index,
                index,
                sys::cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
                F32,
            );
            checked("cusparseCreateCsr", created)?;
        }
        Ok(())
    }

    /// Asks for the working memory and lets cuSPARSE look at the matrix, as its users do once.
    fn prepare(&mut self, device: &Device, x: &Buffer) -> Result<(), Error> {
        let mut bytes = 0usize;
        self.with_dense(x, |this, x, out| {
            // SAFETY: the descriptors are alive; the size goes to a live local.
            let status = unsafe {
                sys::cusparseSpMM_bufferSize(
                    this.handle,
                    PLAIN,
                    PLAIN,
                    (&raw const ONE).cast(),
                    this.matrix as _,
                    x as _,
                    (&raw const ZERO).cast(),
                    out,
                    F32,
                    ALGORITHM,
                    &raw mut bytes,
                )
            };
            checked("cusparseSpMM_bufferSize", status)
        })?;
        self.workspace = Some(device.zeros(bytes.max(1))?);
        self.with_dense(x, |this, x, out| {
            // SAFETY: as above, with the workspace of the size that was asked for.
            let status = unsafe {
                sys::cusparseSpMM_preprocess(
                    this.handle,
                    PLAIN,
                    PLAIN,
                    (&raw const ONE).cast(),
                    this.matrix as _,
                    x as _,
                    (&raw const ZERO).cast(),
                    out,
                    F32,
                    ALGORITHM,
                    this.workspace.as_ref().map_or(ptr::null_mut(), pointer),
                )
            };
            checked("cusparseSpMM_preprocess", status)
        })
    }

    /// `out = matrix x`.
    pub(crate) fn multiply(&mut self, x: &Buffer) -> Result<(), Error> {
        self.with_dense(x, |this, x, out| {
            // SAFETY: the descriptors are alive and the workspace has the size that was asked for.
            let status = unsafe {
                sys::cusparseSpMM(
                    this.handle,
                    PLAIN,
                    PLAIN,
                    (&raw const ONE).cast(),
                    this.matrix as _,
                    x as _,
                    (&raw const ZERO).cast(),
                    out,
                    F32,
                    ALGORITHM,
                    this.workspace.as_ref().map_or(ptr::null_mut(), pointer),
                )
            };
            checked("cusparseSpMM", status)
        })
    }

    /// Both products are the same numbers up to rounding.
    pub(crate) fn check(&self, device: &Device, ours: &Buffer) -> Result<(), Error> {
        let (ours, theirs) = (device.download(ours)?, device.download(&self.out)?);
        let scale = theirs.iter().fold(1.0f32, |m, x| m.max(x.abs()));
        let apart = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4 * scale;
        assert!(
            !ours.iter().zip(&theirs).any(apart),
            "cuSPARSE gives other numbers"
        );
        Ok(())
    }

    /// Runs `f` with descriptors of `x` and of the result.
    fn with_dense(
        &mut self,
        x: &Buffer,
        f: impl FnOnce(
            &mut Self,
            sys::cusparseDnMatDescr_t,
            sys::cusparseDnMatDescr_t,
        ) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let row = sys::cusparseOrder_t::CUSPARSE_ORDER_ROW;
        let mut dense = [ptr::null_mut(); 2];
        for (descriptor, values) in dense.iter_mut().zip([pointer(x), pointer(&self.out)]) {
            // SAFETY: both matrices have n_rows * k elements, row-major.
            let status = unsafe {
                sys::cusparseCreateDnMat(descriptor, self.n_rows, self.k, self.k, values, F32, row)
            };
            checked("cusparseCreateDnMat", status)?;
        }
        let outcome = f(self, dense[0], dense[1]);
        for descriptor in dense {
            // SAFETY: made above, destroyed once.
            let status = unsafe { sys::cusparseDestroyDnMat(descriptor as _) };
            checked("cusparseDestroyDnMat", status)?;
        }
        outcome
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: both were made in `new` (or are null, which the calls refuse) and are destroyed once. A bench that ends has
        // nobody to tell of a failure.
        unsafe {
            let _ = sys::cusparseDestroySpMat(self.matrix as _);
            let _ = sys::cusparseDestroy(self.handle);
        }
    }
}
