//! The device type that users hold: lengths are checked here, the work is done in a back end.

use std::fmt;
use std::str::FromStr;

use crate::host::Host;
use crate::{
    Adam, Adjacency, Binary, Buffer, Copy2d, Error, ErrorKind, Loss, MatMul, Rows, SparseProduct,
};

/// The kinds of device that the project knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor and its memory.
    Host,
    /// The CUDA kernels' own source, run on the processor.
    Emulated,
    /// An NVIDIA GPU; the payload is its ordinal.
    Cuda(u32),
}

impl FromStr for DeviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = || Error::from(ErrorKind::UnknownDevice(name.to_string()));
        match name {
            "host" => Ok(Self::Host),
            "emulated" => Ok(Self::Emulated),
            "cuda" => Ok(Self::Cuda(0)),
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
        }
    }
}

/// A place where buffers live and operations run.
///
/// Every method checks the lengths of its operands before any element is touched. Cloning is cheap.
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
    back_end: BackEnd,
}

#[derive(Debug, Clone)]
enum BackEnd {
    Host(Host),
}

impl Device {
    /// The processor; always there.
    pub fn host() -> Self {
        Self {
            back_end: BackEnd::Host(Host::new()),
        }
    }

    /// Opens a device of the wanted kind.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where this build or machine has no such device.
    pub fn open(kind: DeviceKind) -> Result<Self, Error> {
        match kind {
            DeviceKind::Host => Ok(Self::host()),
            DeviceKind::Emulated | DeviceKind::Cuda(_) => {
                Err(ErrorKind::Unavailable(kind.to_string()).into())
            }
        }
    }

    /// The kind of this device.
    pub fn kind(&self) -> DeviceKind {
        match self.back_end {
            BackEnd::Host(_) => DeviceKind::Host,
        }
    }

    /// Waits until all work given so far is done.
    pub fn synchronize(&self) {
        match self.back_end {
            BackEnd::Host(_) => {} // host operations are done when their call returns
        }
    }

    fn host_back_end(&self) -> &Host {
        match &self.back_end {
            BackEnd::Host(host) => host,
        }
    }

    /// A buffer of `len` zeros.
    ///
    /// # Errors
    /// When the device's memory does not hold `len` more elements (the host aborts instead, as Rust does).
    pub fn zeros(&self, len: usize) -> Result<Buffer, Error> {
        Ok(Buffer {
            host: vec![0.0; len],
        })
    }

    /// A buffer with the given values.
    ///
    /// # Errors
    /// As [`Device::zeros`].
    pub fn upload(&self, values: &[f32]) -> Result<Buffer, Error> {
        Ok(Buffer {
            host: values.to_vec(),
        })
    }

    /// A copy of the buffer's values.
    ///
    /// # Errors
    /// When the copy from the device fails; never on the host.
    pub fn download(&self, buffer: &Buffer) -> Result<Vec<f32>, Error> {
        Ok(buffer.host.clone())
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
        check("matmul", "a", shape.rows * shape.inner, a)?;
        check("matmul", "b", shape.inner * shape.cols, b)?;
        check("matmul", "out", shape.rows * shape.cols, out)?;
        self.host_back_end()
            .matmul(shape, &a.host, &b.host, &mut out.host);
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
        check("block_matmul", "x", shape.rows * shape.inner, x)?;
        check("block_matmul", "w", shape.inner * shape.cols, w)?;
        check("block_matmul", "out", shape.rows * shape.cols, out)?;
        check_bounds("block_matmul", bounds, shape.rows)?;
        self.host_back_end()
            .block_matmul(shape, bounds, (&x.host, &w.host), &mut out.host);
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
        check("block_outer", "x", shape.inner * shape.rows, x)?;
        check("block_outer", "y", shape.inner * shape.cols, y)?;
        check(
            "block_outer",
            "out",
            n_blocks * shape.rows * shape.cols,
            out,
        )?;
        check_bounds("block_outer", bounds, shape.inner)?;
        self.host_back_end()
            .block_outer(shape, bounds, (&x.host, &y.host), &mut out.host);
        Ok(())
    }

    /// An element-wise operation of two buffers.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] unless all three have one length.
    pub fn binary(
        &self,
        op: Binary,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("binary", "b", a.len(), b)?;
        check("binary", "out", a.len(), out)?;
        self.host_back_end()
            .binary(op, &a.host, &b.host, &mut out.host);
        Ok(())
    }

    /// `out = factor * x`.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn scale(&self, factor: f32, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check("scale", "out", x.len(), out)?;
        self.host_back_end().scale(factor, &x.host, &mut out.host);
        Ok(())
    }

    /// `out = max(x, 0)`; NaN stays NaN, negative zero becomes zero.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn relu(&self, x: &Buffer, out: &mut Buffer) -> Result<(), Error> {
        check("relu", "out", x.len(), out)?;
        self.host_back_end().relu(&x.host, &mut out.host);
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
        check("gather_rows", "x", rows.n_rows * rows.width, x)?;
        check("gather_rows", "out", index.len() * rows.width, out)?;
        check_index("gather_rows", index, rows.n_rows)?;
        self.host_back_end()
            .gather_rows(rows.width, index, &x.host, &mut out.host);
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
        check("scatter_rows", "x", index.len() * rows.width, x)?;
        check("scatter_rows", "out", rows.n_rows * rows.width, out)?;
        check_index("scatter_rows", index, rows.n_rows)?;
        self.host_back_end()
            .scatter_rows(rows.width, index, &x.host, &mut out.host);
        Ok(())
    }

    /// `row[i][..] = factor[i] * row[i][..]`, in place.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn scale_rows(&self, rows: Rows, factors: &[f32], x: &mut Buffer) -> Result<(), Error> {
        check("scale_rows", "x", rows.n_rows * rows.width, x)?;
        if factors.len() != rows.n_rows {
            return Err(length("scale_rows", "factors", rows.n_rows, factors.len()));
        }
        self.host_back_end()
            .scale_rows(rows.width, factors, &mut x.host);
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
        self.host_back_end()
            .copy_2d(copy, &source.host, &mut target.host);
        Ok(())
    }

    /// A sparse product; see [`SparseProduct`].
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    /// # Panics
    /// For a column id that `x` does not have: ids are checked where they are used, not in a pass of their own.
    /// # Complexity
    /// `n_entries * width` additions; reads 4 B a list entry (a bit entry: 1/8 B a column) and `4 * width` B a gather.
    /// # Determinism
    /// Every sum runs over ascending column ids, whatever the storage form and whoever owns the row.
    pub fn sparse_product(
        &self,
        product: SparseProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check("sparse_product", "x", product.n_columns * product.width, x)?;
        check("sparse_product", "out", product.n_rows * product.width, out)?;
        check_adjacency(product)?;
        self.host_back_end()
            .sparse_product(product, &x.host, &mut out.host);
        Ok(())
    }

    /// The averaged loss of a prediction, as one element.
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    /// # Determinism
    /// Summed in index order in f64.
    pub fn loss(&self, loss: Loss, pred: &Buffer, target: &Buffer) -> Result<Buffer, Error> {
        check("loss", "target", pred.len(), target)?;
        let value = self.host_back_end().loss(loss, &pred.host, &target.host);
        Ok(Buffer { host: vec![value] })
    }

    /// The derivative of [`Device::loss`] by the prediction, times `upstream` (one element).
    ///
    /// # Errors
    /// [`ErrorKind::Length`].
    pub fn loss_grad(
        &self,
        loss: Loss,
        pred_and_target: (&Buffer, &Buffer),
        upstream: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (pred, target) = pred_and_target;
        check("loss_grad", "target", pred.len(), target)?;
        check("loss_grad", "upstream", 1, upstream)?;
        check("loss_grad", "out", pred.len(), out)?;
        self.host_back_end().loss_grad(
            loss,
            (&pred.host, &target.host),
            upstream.host[0],
            &mut out.host,
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
        self.host_back_end().adam(
            adam,
            &mut params.host,
            &grad.host,
            (&mut first.host, &mut second.host),
        );
        Ok(())
    }
}

fn length(op: &'static str, operand: &'static str, wanted: usize, given: usize) -> Error {
    ErrorKind::Length {
        op,
        operand,
        wanted,
        given,
    }
    .into()
}

fn check(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    buffer: &Buffer,
) -> Result<(), Error> {
    if buffer.len() == wanted {
        Ok(())
    } else {
        Err(length(op, operand, wanted, buffer.len()))
    }
}

fn check_bounds(op: &'static str, bounds: &[usize], n_rows: usize) -> Result<(), Error> {
    let ascending = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = bounds.first().copied().unwrap_or(0);
    let last = bounds.last().copied().unwrap_or(0);
    if ascending && first == 0 && last == n_rows {
        Ok(())
    } else {
        Err(length(op, "bounds", n_rows, last))
    }
}

fn check_index(op: &'static str, index: &[u32], n_rows: usize) -> Result<(), Error> {
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

fn check_adjacency(product: SparseProduct<'_>) -> Result<(), Error> {
    const OP: &str = "sparse_product";
    match product.adjacency {
        Adjacency::Csr {
            row_ptr,
            columns,
            values,
        } => {
            if row_ptr.len() != product.n_rows + 1 {
                return Err(length(OP, "row_ptr", product.n_rows + 1, row_ptr.len()));
            }
            let in_order = row_ptr[0] == 0 && row_ptr.windows(2).all(|pair| pair[0] <= pair[1]);
            let last = row_ptr[product.n_rows] as usize;
            if !in_order || last != columns.len() {
                return Err(length(OP, "columns", last, columns.len()));
            }
            if let Some(values) = values
                && values.len() != columns.len()
            {
                return Err(length(OP, "values", columns.len(), values.len()));
            }
            Ok(())
        }
        Adjacency::Bits {
            words,
            words_per_row,
        } => {
            if words.len() != product.n_columns * words_per_row {
                return Err(length(
                    OP,
                    "words",
                    product.n_columns * words_per_row,
                    words.len(),
                ));
            }
            if words_per_row * 64 < product.n_rows {
                return Err(length(
                    OP,
                    "words_per_row",
                    product.n_rows.div_ceil(64),
                    words_per_row,
                ));
            }
            Ok(())
        }
    }
}
