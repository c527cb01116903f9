//! The device type that users hold: lengths are checked here, the work is done in a back end.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::gpu::Gpu;
use crate::host::Host;
use crate::memory::{on_host, on_host_mut};
use crate::{Adam, Binary, Buffer, Copy2d, Error, ErrorKind, Loss, MatMul, Rows, Scalar};

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

/// A place where buffers live and operations run.
///
/// Every method checks the lengths of its operands before any element is touched. Cloning is cheap; clones share one
/// stream, that is one order of work. See [`Device::new_stream`].
///
/// ```
/// use shardgraph_device::{Binary, Device};
/// let device = Device::host();
/// let (a, b) = (device.upload(&[1.0, 2.0])?, device.upload(&[10.0, 20.0])?);
/// let mut sum = device.zeros(2)?;
/// device.binary(Binary::Add, &a, &b, &mut sum)?;
/// assert_eq!(sum.as_host(), Some(&[11.0, 22.0][..]));
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) back_end: BackEnd,
}

#[derive(Debug, Clone)]
pub(crate) enum BackEnd {
    Host(Host),
    Gpu(Gpu),
}

/// The file name of the emulator, looked for beside the running program.
pub const EMULATOR_FILE: &str = "libshardgraph_emulated.so";

impl Device {
    /// The processor; always there.
    pub fn host() -> Self {
        Self {
            back_end: BackEnd::Host(Host::new()),
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
        match &self.back_end {
            BackEnd::Host(_) => DeviceKind::Host,
            BackEnd::Gpu(gpu) => gpu.kind(),
        }
    }

    /// One line about this device for records: name, size, driver.
    pub fn describe(&self) -> String {
        match &self.back_end {
            BackEnd::Host(_) => "host".to_string(),
            BackEnd::Gpu(gpu) => gpu.describe(),
        }
    }

    /// The vendor's library that large dense products go through, where it is installed.
    pub fn vendor_products(&self) -> Option<&'static str> {
        match &self.back_end {
            BackEnd::Host(_) => None,
            BackEnd::Gpu(gpu) => gpu.vendor_products(),
        }
    }

    /// The host back end, for the operations that nothing else has.
    pub(crate) fn host_back_end(&self, op: &'static str) -> Result<&Host, Error> {
        match &self.back_end {
            BackEnd::Host(host) => Ok(host),
            BackEnd::Gpu(gpu) => Err(ErrorKind::Unsupported {
                op: op.to_string(),
                device: gpu.kind().to_string(),
            }
            .into()),
        }
    }

    /// A dense product.
    ///
    /// # Shapes
    /// As in [`MatMul`]; all three matrices are row-major and contiguous.
    /// # Errors
    /// [`ErrorKind::Length`].
    /// # Complexity
    /// `2 * rows * inner * cols` FLOP.
    /// # Determinism
    /// Repeatable for equal dimensions; the order of the inner sum may change with them.
    pub fn matmul(
        &self,
        shape: MatMul,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("matmul", "a", elements(&[shape.rows, shape.inner]), a)?;
        check("matmul", "b", elements(&[shape.inner, shape.cols]), b)?;
        check("matmul", "out", elements(&[shape.rows, shape.cols]), out)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.matmul(shape, a, b, out);
        }
        self.host_back_end("matmul")?.matmul(
            shape,
            on_host("matmul", a)?,
            on_host("matmul", b)?,
            on_host_mut("matmul", out)?,
        );
        Ok(())
    }

    /// One dense product for each block of rows of `x`, all with the same right-hand side.
    ///
    /// # Shapes
    /// `x [rows, inner]`, `w [inner, cols]` (or `[cols, inner]` transposed), `out [rows, cols]`; block `i` holds the
    /// rows `bounds[i]..bounds[i + 1]`.
    /// # Errors
    /// [`ErrorKind::Length`].
    /// # Determinism
    /// A row's result depends on its own block only, so it is the same however the blocks are spread over ranks.
    pub fn block_matmul(
        &self,
        shape: MatMul,
        bounds: &[usize],
        x: &Buffer,
        w: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("block_matmul", "x", elements(&[shape.rows, shape.inner]), x)?;
        check("block_matmul", "w", elements(&[shape.inner, shape.cols]), w)?;
        check(
            "block_matmul",
            "out",
            elements(&[shape.rows, shape.cols]),
            out,
        )?;
        check_bounds("block_matmul", bounds, shape.rows)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.block_matmul(shape, x, w, out);
        }
        self.host_back_end("block_matmul")?.block_matmul(
            shape,
            bounds,
            (on_host("block_matmul", x)?, on_host("block_matmul", w)?),
            on_host_mut("block_matmul", out)?,
        );
        Ok(())
    }

    /// The product `x_b^T y_b` of each block of rows.
    ///
    /// # Shapes
    /// `x [rows, a]`, `y [rows, b]` with `rows = shape.inner`, `a = shape.rows`, `b = shape.cols`;
    /// `out [n_blocks, a * b]`.
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn block_outer(
        &self,
        shape: MatMul,
        bounds: &[usize],
        x: &Buffer,
        y: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let n_blocks = bounds.len().saturating_sub(1);
        check("block_outer", "x", elements(&[shape.inner, shape.rows]), x)?;
        check("block_outer", "y", elements(&[shape.inner, shape.cols]), y)?;
        check(
            "block_outer",
            "out",
            elements(&[n_blocks, shape.rows, shape.cols]),
            out,
        )?;
        check_bounds("block_outer", bounds, shape.inner)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.block_outer(shape, bounds, (x, y), out);
        }
        self.host_back_end("block_outer")?.block_outer(
            shape,
            bounds,
            (on_host("block_outer", x)?, on_host("block_outer", y)?),
            on_host_mut("block_outer", out)?,
        );
        Ok(())
    }

    /// An element-wise operation of two buffers.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] unless all three have one length; [`ErrorKind::Invalid`] for bounds that do not ascend.
    pub fn binary(
        &self,
        op: Binary,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("binary", "b", a.len(), b)?;
        check("binary", "out", a.len(), out)?;
        if let Binary::WhereInside { low, high } = op {
            crate::neural::check_bounds("binary", low, high)?;
        }
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.binary(op, a, b, out);
        }
        self.host_back_end("binary")?.binary(
            op,
            on_host("binary", a)?,
            on_host("binary", b)?,
            on_host_mut("binary", out)?,
        );
        Ok(())
    }

    /// `out = factor * x`.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn scale(&self, factor: f32, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check("scale", "out", x.len(), out)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.scale(factor, x, out);
        }
        self.host_back_end("scale")?.scale(
            factor,
            on_host("scale", x)?,
            on_host_mut("scale", out)?,
        );
        Ok(())
    }

    /// `out = max(x, 0)`; NaN stays NaN, negative zero becomes zero.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn relu(&self, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check("relu", "out", x.len(), out)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.relu(x, out);
        }
        self.host_back_end("relu")?
            .relu(on_host("relu", x)?, on_host_mut("relu", out)?);
        Ok(())
    }

    /// `out[i] = x[index[i]]` by rows; `u32::MAX` gives a row of zeros.
    ///
    /// # Shapes
    /// `x [rows.n_rows, rows.width]`, `out [index.len(), rows.width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::Index`].
    pub fn gather_rows(
        &self,
        rows: Rows,
        index: &[u32],
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("gather_rows", "x", elements(&[rows.n_rows, rows.width]), x)?;
        check(
            "gather_rows",
            "out",
            elements(&[index.len(), rows.width]),
            out,
        )?;
        check_index("gather_rows", index, rows.n_rows)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.gather_rows(rows.width, index, x, out);
        }
        self.host_back_end("gather_rows")?.gather_rows(
            rows.width,
            index,
            on_host("gather_rows", x)?,
            on_host_mut("gather_rows", out)?,
        );
        Ok(())
    }

    /// `out[index[i]] += x[i]` by rows, in order of `i`; `u32::MAX` is left out. The adjoint of a gather.
    ///
    /// # Shapes
    /// `x [index.len(), rows.width]`, `out [rows.n_rows, rows.width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::Index`].
    pub fn scatter_rows(
        &self,
        rows: Rows,
        index: &[u32],
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("scatter_rows", "x", elements(&[index.len(), rows.width]), x)?;
        check(
            "scatter_rows",
            "out",
            elements(&[rows.n_rows, rows.width]),
            out,
        )?;
        check_index("scatter_rows", index, rows.n_rows)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.scatter_rows(rows, index, x, out);
        }
        self.host_back_end("scatter_rows")?.scatter_rows(
            rows.width,
            index,
            on_host("scatter_rows", x)?,
            on_host_mut("scatter_rows", out)?,
        );
        Ok(())
    }

    /// `row[i][..] = factor[i] * row[i][..]`, in place.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn scale_rows(&self, rows: Rows, factors: &[f32], x: &mut Buffer) -> Result<(), Error> {
        check("scale_rows", "x", elements(&[rows.n_rows, rows.width]), x)?;
        if factors.len() != rows.n_rows {
            return Err(length("scale_rows", "factors", rows.n_rows, factors.len()));
        }
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.scale_rows(rows.width, factors, x);
        }
        self.host_back_end("scale_rows")?.scale_rows(
            rows.width,
            factors,
            on_host_mut("scale_rows", x)?,
        );
        Ok(())
    }

    /// Copies a rectangle of elements.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] where the rectangle leaves a buffer.
    pub fn copy_2d(&self, copy: Copy2d, source: &Buffer, target: &mut Buffer) -> Result<(), Error> {
        let source_end = copy.end(copy.source_first, copy.source_stride);
        let target_end = copy.end(copy.target_first, copy.target_stride);
        if source_end > source.len() {
            return Err(length("copy_2d", "source", source_end, source.len()));
        }
        if target_end > target.len() {
            return Err(length("copy_2d", "target", target_end, target.len()));
        }
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.copy_2d(copy, source, target);
        }
        self.host_back_end("copy_2d")?.copy_2d(
            copy,
            on_host("copy_2d", source)?,
            on_host_mut("copy_2d", target)?,
        );
        Ok(())
    }

    /// The averaged loss of a prediction, as one element.
    ///
    /// # Errors
    /// [`ErrorKind::Length`]; [`ErrorKind::Invalid`] for a delta that is not above 0.
    /// # Determinism
    /// Summed in index order in f64.
    pub fn loss(&self, loss: Loss, pred: &Buffer, target: &Buffer) -> Result<Buffer, Error> {
        loss.check("loss")?;
        check("loss", "target", pred.len(), target)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.loss(loss, pred, target);
        }
        let value = self.host_back_end("loss")?.loss(
            loss,
            on_host("loss", pred)?,
            on_host("loss", target)?,
        );
        Ok(vec![value].into())
    }

    /// The derivative of [`Device::loss`] by the prediction, times `upstream` (one element).
    ///
    /// # Errors
    /// As [`Device::loss`].
    pub fn loss_grad(
        &self,
        loss: Loss,
        pred_and_target: (&Buffer, &Buffer),
        upstream: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        loss.check("loss_grad")?;
        let (pred, target) = pred_and_target;
        check("loss_grad", "target", pred.len(), target)?;
        check("loss_grad", "upstream", 1, upstream)?;
        check("loss_grad", "out", pred.len(), out)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.loss_grad(loss, (pred, target), upstream, out);
        }
        self.host_back_end("loss_grad")?.loss_grad(
            loss,
            (on_host("loss_grad", pred)?, on_host("loss_grad", target)?),
            on_host("loss_grad", upstream)?[0],
            on_host_mut("loss_grad", out)?,
        );
        Ok(())
    }

    /// One Adam step over a flat parameter arena, in place.
    ///
    /// # Shapes
    /// `params`, `grad`, `first` and `second` moments have one length.
    /// # Errors
    /// [`ErrorKind::Length`].
    /// # Source
    /// Kingma and Ba, "Adam" (2015), algorithm 1.
    pub fn adam(
        &self,
        adam: Adam,
        params: &mut Buffer,
        grad: &Buffer,
        moments: (&mut Buffer, &mut Buffer),
    ) -> Result<(), Error> {
        let (first, second) = moments;
        check("adam", "grad", params.len(), grad)?;
        check("adam", "first", params.len(), first)?;
        check("adam", "second", params.len(), second)?;
        if let BackEnd::Gpu(gpu) = &self.back_end {
            return gpu.adam(adam, params, grad, (first, second));
        }
        self.host_back_end("adam")?.adam(
            adam,
            on_host_mut("adam", params)?,
            on_host("adam", grad)?,
            (on_host_mut("adam", first)?, on_host_mut("adam", second)?),
        );
        Ok(())
    }
}

pub(crate) fn length(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    given: usize,
) -> Error {
    ErrorKind::Length {
        op,
        operand,
        wanted,
        given,
    }
    .into()
}

/// The elements of an array with these dimensions; where no integer holds them, more than any buffer has.
pub(crate) fn elements(dimensions: &[usize]) -> usize {
    match dimensions.contains(&0) {
        true => 0,
        false => dimensions.iter().fold(1, |n, &d| n.saturating_mul(d)),
    }
}

pub(crate) fn check<T: Scalar>(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    buffer: &Buffer<T>,
) -> Result<(), Error> {
    if buffer.len() == wanted {
        Ok(())
    } else {
        Err(length(op, operand, wanted, buffer.len()))
    }
}

pub(crate) fn check_bounds(op: &'static str, bounds: &[usize], n_rows: usize) -> Result<(), Error> {
    let ascending = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = bounds.first().copied().unwrap_or(0);
    let last = bounds.last().copied().unwrap_or(0);
    if ascending && first == 0 && last == n_rows {
        Ok(())
    } else {
        Err(length(op, "bounds", n_rows, last))
    }
}

pub(crate) fn check_index(op: &'static str, index: &[u32], n_rows: usize) -> Result<(), Error> {
    let outside = |&&i: &&u32| i != u32::MAX && i as usize >= n_rows;
    match index.iter().find(outside) {
        None => Ok(()),
        Some(&i) => Err(ErrorKind::Index {
            op,
            index: u64::from(i),
            n_rows: n_rows as u64,
        }
        .into()),
    }
}
