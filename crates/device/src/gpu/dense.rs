//! Launches of the dense product kernels; lengths and bounds have been checked by [`crate::Device`].

use super::Gpu;
use super::ops::BLOCK;
use crate::{Arg, Buffer, Error, Launch, MatMul};

/// Products of more multiplications than this go to the vendor's library, where the device has one.
const VENDOR_WORK: usize = 1 << 20;

/// Inner indices that one block sums, where the result has too few tiles to fill a GPU.
const SPLIT: usize = 1024;

/// Tiles of a result that fill a GPU without a split of the inner dimension.
const ENOUGH_TILES: usize = 256;

/// Rows of a block that one part of an outer product sums (counted from the block's start).
const PART_ROWS: usize = 512;

/// The tile that `tile_product.cuh` makes for a number of columns: its height and width.
fn tile(cols: usize) -> (usize, usize) {
    if cols <= 32 { (128, 32) } else { (64, 64) }
}

/// A grid of blocks; a dimension that is too large is left to the driver to refuse.
pub(super) fn grid(x: usize, y: usize, z: usize) -> Launch {
    Launch {
        grid: [x, y, z].map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        block: [BLOCK, 1, 1],
        shared_bytes: 0,
    }
}

impl Gpu {
    pub(crate) fn matmul(
        &self,
        shape: MatMul,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if shape.inner == 0 {
            return self.clear(out);
        }
        if out.is_empty() {
            return Ok(());
        }
        let work = shape.rows * shape.cols * shape.inner;
        if work > VENDOR_WORK
            && let Some(done) = self.vendor_matmul(shape, (a, b, &mut *out))
        {
            return done;
        }
        self.tiled_matmul(shape, a, b, out)
    }

    /// The project's own product, for shapes with elements and an inner dimension.
    pub(crate) fn tiled_matmul(
        &self,
        shape: MatMul,
        a: &Buffer,
        b: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (height, width) = tile(shape.cols);
        let n_tiles = shape.rows.div_ceil(height) * shape.cols.div_ceil(width);
        let n_splits = match n_tiles {
            n if n < ENOUGH_TILES => shape.inner.div_ceil(SPLIT),
            _ => 1,
        };
        if n_splits == 1 {
            return self.matmul_parts(shape, shape.inner, (a, b), out);
        }
        let n = out.len();
        let mut partials = self.allocate(n_splits * n)?;
        self.matmul_parts(shape, SPLIT, (a, b), &mut partials)?;
        let args = [
            Arg::read(&partials),
            Arg::write(out),
            Arg::u64(n as u64),
            Arg::u32(n_splits as u32),
        ];
        // SAFETY: partials holds n_splits runs of n elements, out holds one.
        unsafe { self.launch("matmul_sum_fwd", Launch::threads(n, BLOCK), &args) }
    }

    /// One product for each `split` inner indices, one behind the other in `out`.
    fn matmul_parts(
        &self,
        shape: MatMul,
        split: usize,
        (a, b): (&Buffer, &Buffer),
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (height, width) = tile(shape.cols);
        let launch = grid(
            shape.rows.div_ceil(height),
            shape.cols.div_ceil(width),
            shape.inner.div_ceil(split),
        );
        let mut args = vec![Arg::read(a), Arg::read(b), Arg::write(out)];
        args.extend([shape.rows, shape.inner, shape.cols, split].map(|n| Arg::u64(n as u64)));
        args.extend(
            [shape.transpose_a, shape.transpose_b, width == 32].map(|on| Arg::u32(on.into())),
        );
        // SAFETY: a and b have the elements of the shape (checked by `Device`), and out has rows * cols elements for each
        // of the inner.div_ceil(split) parts of the grid: the callers allocate it so.
        unsafe { self.launch("matmul_fwd", launch, &args) }
    }

    /// The bounds are not needed: the kernel's rows do not depend on each other at all.
    pub(crate) fn block_matmul(
        &self,
        shape: MatMul,
        x: &Buffer,
        w: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let (height, width) = tile(shape.cols);
        let launch = grid(shape.rows.div_ceil(height), shape.cols.div_ceil(width), 1);
        let mut args = vec![Arg::read(x), Arg::read(w), Arg::write(out)];
        args.extend([shape.rows, shape.inner, shape.cols].map(|n| Arg::u64(n as u64)));
        args.extend([shape.transpose_b, width == 32].map(|on| Arg::u32(on.into())));
        // SAFETY: x, w and out have the elements of the shape (checked by `Device`).
        unsafe { self.launch("block_matmul_fwd", launch, &args) }
    }

    pub(crate) fn block_outer(
        &self,
        shape: MatMul,
        bounds: &[usize],
        (x, y): (&Buffer, &Buffer),
        out: &mut Buffer,
    ) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let n_blocks = bounds.len() - 1;
        let longest = bounds.windows(2).map(|block| block[1] - block[0]).max();
        let n_parts = longest.unwrap_or(0).div_ceil(PART_ROWS).max(1);
        let bounds: Vec<u64> = bounds.iter().map(|&row| row as u64).collect();
        let bounds = self.upload(&bounds)?;
        if n_parts == 1 {
            return self.outer_parts(shape, &bounds, 1, (x, y), out);
        }
        let n = out.len();
        let mut partials = self.allocate(n_parts * n)?;
        self.outer_parts(shape, &bounds, n_parts, (x, y), &mut partials)?;
        let args = [
            Arg::read(&bounds),
            Arg::read(&partials),
            Arg::write(out),
            Arg::u64((shape.rows * shape.cols) as u64),
            Arg::u32(n_blocks as u32),
            Arg::u32(n_parts as u32),
            Arg::u32(PART_ROWS as u32),
        ];
        // SAFETY: out holds n_blocks runs of rows * cols, partials n_parts for each block, bounds n_blocks + 1 elements;
        // a block has at most n_parts parts.
        unsafe { self.launch("block_outer_sum_fwd", Launch::threads(n, BLOCK), &args) }
    }

    /// The product of each part of each block; parts behind a block's end are zeros.
    fn outer_parts(
        &self,
        shape: MatMul,
        bounds: &Buffer<u64>,
        n_parts: usize,
        (x, y): (&Buffer, &Buffer),
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let n_blocks = bounds.len() - 1;
        let n_tiles = shape.rows.div_ceil(64) * shape.cols.div_ceil(64);
        let args = [
            Arg::read(bounds),
            Arg::read(x),
            Arg::read(y),
            Arg::write(out),
            Arg::u64(shape.rows as u64),
            Arg::u64(shape.cols as u64),
            Arg::u32(n_parts as u32),
            Arg::u32(PART_ROWS as u32),
        ];
        // SAFETY: bounds ascend from 0 to the rows of x and y (checked by `Device`), and out has rows * cols elements
        // for each of the n_blocks * n_parts parts.
        unsafe {
            self.launch(
                "block_outer_fwd",
                grid(n_blocks * n_parts, n_tiles, 1),
                &args,
            )
        }
    }
}
