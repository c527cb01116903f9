//! Dense products of the sizes that networks have, in strips of columns: a block of sums stays in registers from the first
//! term to the last. Both factors are read where they are, since packing them first, as a large product does, would take a
//! good part of the product's time; only a transposed right factor is turned, a strip at a time.

use std::mem::MaybeUninit;
use std::ops::Range;

use pulp::{MemMask, Simd, WithSimd};
use shardgraph_device::MatMul;

/// `out = op(a) * op(b)`, then what `epilogue` says, for matrices with elements.
///
/// Each element is one sum in ascending order of the inner index; of three terms or more in fused steps where the
/// processor has them, as large products do it. Its bits depend on its row and its column alone, not on the number of others.
pub(super) struct Strips<'a> {
    pub(super) shape: MatMul,
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
    pub(super) epilogue: Epilogue<'a>,
    pub(super) out: &'a mut [f32],
}

/// What becomes of a sum before it is written.
#[derive(Clone, Copy)]
pub(super) enum Epilogue<'a> {
    Nothing,
    /// The column's element of this row is added.
    Add(&'a [f32]),
    /// That, then [`crate::relu`].
    AddRelu(&'a [f32]),
}

/// The longest sums: a large product cuts longer ones into parts.
const MAX_INNER: usize = 256;
/// Rows of a matrix that is walked down by columns: longer ones fall out of the nearest cache.
const MAX_WIDTH: usize = 512;
/// Vectors of columns in a strip; where there are few registers, in the last one.
const MAX_VECTORS: usize = 3;
/// Vectors of columns in a strip of a single row.
const MAX_VECTORS_OF_ONE: usize = 12;
/// Strips of rows as wide as this or wider are copied for as many rows of the left factor: what lies that far apart falls into
/// the same few places of a cache.
const COPIED_FROM: (usize, usize) = (128, 64);
/// Rows that go through all strips before the next ones, so that they stay in a near cache.
const ROWS_AT_A_TIME: usize = 96;
/// Elements of the widest vector.
const MAX_LANES: usize = 16;

/// A strip of the right factor, turned or copied.
type Packed = [MaybeUninit<f32>; N_PACKED];
const N_PACKED: usize = MAX_INNER * MAX_VECTORS * MAX_LANES;

impl Strips<'_> {
    /// Whether a product comes here: where it is small enough, and a large product adds in the same order, so that a row's
    /// bits do not depend on the number of rows. For one column, or a few dot products of rows, it has ways of its own.
    pub(super) fn takes(shape: MatMul) -> bool {
        let MatMul {
            rows,
            inner,
            cols,
            transpose_a,
            transpose_b,
        } = shape;
        let is_small = (1..=MAX_INNER).contains(&inner) && (2..=MAX_WIDTH).contains(&cols);
        is_small
            && match (transpose_a, transpose_b) {
                (false, false) => rows > 0,
                (true, false) => (1..=MAX_WIDTH).contains(&rows),
                // Few rows are not worth turning the other factor.
                (false, true) => rows >= 8 && cols >= MAX_LANES && rows * cols > 256,
                (true, true) => false,
            }
    }
}

impl WithSimd for Strips<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let MatMul {
            rows, inner, cols, ..
        } = self.shape;
        assert!(Self::takes(self.shape) && S::F32_LANES <= MAX_LANES);
        assert_eq!(self.a.len(), rows * inner, "a has rows * inner elements");
        assert_eq!(self.b.len(), inner * cols, "b has inner * cols elements");
        assert_eq!(self.out.len(), rows * cols, "out has rows * cols elements");
        if let Epilogue::Add(row) | Epilogue::AddRelu(row) = self.epilogue {
            assert_eq!(row.len(), cols, "the row has cols elements");
        }
        let (a_row, a_step) = match self.shape.transpose_a {
            false => (inner, 1),
            true => (1, rows),
        };
        let job = Job {
            rows,
            inner,
            cols,
            a: self.a.as_ptr(),
            a_row,
            a_step,
            b: self.b.as_ptr(),
            b_step: if self.shape.transpose_b { inner } else { cols },
            is_b_turned: self.shape.transpose_b,
            is_b_copied: !self.shape.transpose_b && cols >= COPIED_FROM.0 && rows >= COPIED_FROM.1,
            epilogue: self.epilogue,
            out: self.out.as_mut_ptr(),
            is_out_turned: false,
        };
        // SAFETY: the job's places are those of the slices, whose lengths are asserted above; they stay borrowed, `out` mutably.
        unsafe { job.run(simd) }
    }
}

/// A product, by places: `a(r, k)` is at `a + r * a_row + k * a_step`; `b(k, c)` at `b + k * b_step + c`, or if it is turned at
/// `b + c * b_step + k`; `out(r, c)` at `out + r * cols + c`, or if it is turned at `out + c * rows + r`.
#[derive(Clone, Copy)]
struct Job<'a> {
    rows: usize,
    inner: usize,
    cols: usize,
    a: *const f32,
    a_row: usize,
    a_step: usize,
    b: *const f32,
    b_step: usize,
    is_b_turned: bool,
    is_b_copied: bool,
    epilogue: Epilogue<'a>,
    out: *mut f32,
    is_out_turned: bool,
}

/// Columns of a strip: `V` vectors from `first` on, of which the last begins at `last` and may overlap the one before.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    last: usize,
}

/// A strip of the right factor: `V` vectors a row, the last of them `last` elements from the first.
#[derive(Clone, Copy)]
struct StripOfB {
    b: *const f32,
    step: usize,
    last: usize,
}

impl Job<'_> {
    /// # Safety
    /// All places of the job are inside memory that may be read, or for `out` written.
    #[inline(always)]
    unsafe fn run<S: Simd>(self, simd: S) {
        let mut packed: Packed = [const { MaybeUninit::uninit() }; N_PACKED];
        let is_narrow = self.cols < S::F32_LANES;
        let has_columns_of_a = self.a_row == 1 && self.rows >= S::F32_LANES;
        // SAFETY: the caller's promise; a flipped job has the same places, and each strip is inside of the columns.
        unsafe {
            if is_narrow && has_columns_of_a && matches!(self.epilogue, Epilogue::Nothing) {
                self.flipped().run_wide(simd, &mut packed);
            } else if is_narrow {
                let columns = Columns { first: 0, last: 0 };
                self.strip::<S, 1, true>(simd, columns, 0..self.rows, &mut packed);
            } else if self.rows == 1 && !self.is_b_turned {
                self.run_one(simd);
            } else {
                self.run_wide(simd, &mut packed);
            }
        }
    }

    /// The transposed product, for few columns of many rows that lie side by side: `out^T = b^T a`.
    #[inline(always)]
    fn flipped(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            a: self.b,
            a_row: 1,
            a_step: self.b_step,
            b: self.a,
            b_step: self.a_step,
            is_out_turned: true,
            ..self
        }
    }

    /// # Safety
    /// As [`Job::run`]; there are at least as many columns as a vector has.
    #[inline(always)]
    unsafe fn run_wide<S: Simd>(self, simd: S, packed: &mut Packed) {
        let lanes = S::F32_LANES;
        // A strip is packed once for all rows.
        let n_rows = if self.is_b_turned || self.is_b_copied {
            self.rows
        } else {
            ROWS_AT_A_TIME
        };
        for row in (0..self.rows).step_by(n_rows) {
            let rows = row..self.rows.min(row + n_rows);
            let mut first = 0;
            while first < self.cols {
                let n_vectors = vectors_of_strip::<S>((self.cols - first).div_ceil(lanes));
                let end = self.cols.min(first + n_vectors * lanes);
                let columns = Columns::between::<S>(first, end);
                // SAFETY: the caller's promise; the strip is inside of the columns.
                unsafe {
                    match n_vectors {
                        1 => self.strip::<S, 1, false>(simd, columns, rows.clone(), packed),
                        2 => self.strip::<S, 2, false>(simd, columns, rows.clone(), packed),
                        _ => self.strip::<S, 3, false>(simd, columns, rows.clone(), packed),
                    }
                }
                first = end;
            }
        }
    }

    /// A single row, in strips as wide as there are registers for.
    ///
    /// # Safety
    /// As [`Job::run_wide`]; `b` is not turned.
    #[inline(always)]
    unsafe fn run_one<S: Simd>(self, simd: S) {
        let lanes = S::F32_LANES;
        let n_strips = self.cols.div_ceil(MAX_VECTORS_OF_ONE * lanes);
        let width = self.cols.div_ceil(n_strips).next_multiple_of(lanes);
        for first in (0..self.cols).step_by(width) {
            let end = self.cols.min(first + width);
            let n_vectors = (end - first).div_ceil(lanes);
            let columns = Columns::between::<S>(first, end);
            // SAFETY: the caller's promise; the strip is inside of the columns.
            unsafe {
                match n_vectors {
                    1 => self.strip_of_one::<S, 1>(simd, columns),
                    2 => self.strip_of_one::<S, 2>(simd, columns),
                    3 => self.strip_of_one::<S, 3>(simd, columns),
                    4 => self.strip_of_one::<S, 4>(simd, columns),
                    5 => self.strip_of_one::<S, 5>(simd, columns),
                    6 => self.strip_of_one::<S, 6>(simd, columns),
                    7 => self.strip_of_one::<S, 7>(simd, columns),
                    8 => self.strip_of_one::<S, 8>(simd, columns),
                    9 => self.strip_of_one::<S, 9>(simd, columns),
                    10 => self.strip_of_one::<S, 10>(simd, columns),
                    11 => self.strip_of_one::<S, 11>(simd, columns),
                    _ => self.strip_of_one::<S, MAX_VECTORS_OF_ONE>(simd, columns),
                }
            }
        }
    }

    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns; `b` is not turned.
    #[inline(always)]
    unsafe fn strip_of_one<S: Simd, const V: usize>(&self, simd: S, columns: Columns) {
        // SAFETY: the caller's promise.
        unsafe {
            let b = self.strip_in_place(columns);
            self.blocks::<S, 1, V, false>(simd, columns, b, 0..1);
        }
    }

    /// The columns of some rows: `V` vectors, or `PART` of one.
    ///
    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns.
    #[inline(always)]
    unsafe fn strip<S: Simd, const V: usize, const PART: bool>(
        &self,
        simd: S,
        columns: Columns,
        rows: Range<usize>,
        packed: &mut Packed,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let b = match self.is_b_turned || self.is_b_copied {
                true => self.pack::<S, V>(columns, packed),
                false => self.strip_in_place(columns),
            };
            let mut rows = rows;
            // As many sums as there are registers for beside the factors; at least as many as a multiplier has under way.
            let is_short = S::REGISTER_COUNT < 32;
            rows = match V {
                2 if is_short => self.blocks::<S, 6, V, PART>(simd, columns, b, rows),
                3 if is_short => self.blocks::<S, 3, V, PART>(simd, columns, b, rows),
                _ => self.blocks::<S, 8, V, PART>(simd, columns, b, rows),
            };
            if V < 3 || !is_short {
                rows = self.blocks::<S, 4, V, PART>(simd, columns, b, rows);
            }
            rows = self.blocks::<S, 2, V, PART>(simd, columns, b, rows);
            self.blocks::<S, 1, V, PART>(simd, columns, b, rows);
        }
    }

    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns.
    #[inline(always)]
    unsafe fn strip_in_place(&self, columns: Columns) -> StripOfB {
        StripOfB {
            // SAFETY: the first column is one of b's.
            b: unsafe { self.b.add(columns.first) },
            step: self.b_step,
            last: columns.last - columns.first,
        }
    }

    /// A strip of the right factor, row by row of the product's inner index.
    ///
    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns.
    #[inline(always)]
    unsafe fn pack<S: Simd, const V: usize>(
        &self,
        columns: Columns,
        packed: &mut Packed,
    ) -> StripOfB {
        let (lanes, step) = (S::F32_LANES, V * S::F32_LANES);
        assert!(self.inner * step <= packed.len());
        let to = packed.as_mut_ptr().cast::<f32>();
        for v in 0..V {
            let column = columns.of::<S, V>(v);
            // SAFETY: inside of the assertion's length, and of the columns by the caller's promise.
            unsafe {
                let to = to.add(v * lanes);
                if self.is_b_turned {
                    for lane in 0..lanes {
                        let from = self.b.add((column + lane) * self.b_step);
                        for k in 0..self.inner {
                            *to.add(k * step + lane) = *from.add(k);
                        }
                    }
                    continue;
                }
                for k in 0..self.inner {
                    let from = self.b.add(k * self.b_step + column).cast::<S::f32s>();
                    let to = to.add(k * step).cast::<S::f32s>();
                    to.write_unaligned(from.read_unaligned());
                }
            }
        }
        StripOfB {
            b: to,
            step,
            last: step - lanes,
        }
    }

    /// Blocks of `R` rows as long as there are so many; gives the rows that are left.
    ///
    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns.
    #[inline(always)]
    unsafe fn blocks<S: Simd, const R: usize, const V: usize, const PART: bool>(
        &self,
        simd: S,
        columns: Columns,
        b: StripOfB,
        rows: Range<usize>,
    ) -> Range<usize> {
        let mut row = rows.start;
        // Eight rows are two blocks of four rather than one of six and one of two.
        while row + R <= rows.end && !(R == 6 && row + 8 == rows.end) {
            // SAFETY: the caller's promise, for rows of the job.
            unsafe {
                let sums = match self.inner {
                    1 | 2 => self.sums::<S, R, V, PART, false>(simd, b, row),
                    _ => self.sums::<S, R, V, PART, true>(simd, b, row),
                };
                let sums = self.finished::<S, R, V, PART>(simd, sums, columns);
                self.put::<S, R, V, PART>(sums, columns, row);
            }
            row += R;
        }
        row..rows.end
    }

    /// # Safety
    /// As [`Job::run`], for `R` rows from `row` on and the strip that `b` is.
    #[inline(always)]
    unsafe fn sums<S: Simd, const R: usize, const V: usize, const PART: bool, const FUSED: bool>(
        &self,
        simd: S,
        b: StripOfB,
        row: usize,
    ) -> [[S::f32s; V]; R] {
        // What the first of unfused terms is added to without a trace, whatever the sign of a zero.
        let start = simd.splat_f32s(if FUSED { 0.0 } else { -0.0 });
        let mut sums = [[start; V]; R];
        let mut columns = [simd.splat_f32s(0.0); V];
        let mask = MemMask::new(simd.mask_between_m32s(0, self.cols as u32).mask());
        // SAFETY: the caller's promise; a part of a vector is read under the mask.
        unsafe {
            let a = self.a.add(row * self.a_row);
            for k in 0..self.inner {
                let b_row = b.b.add(k * b.step);
                for (v, column) in columns.iter_mut().enumerate() {
                    let at = b_row.add(if v + 1 == V { b.last } else { v * S::F32_LANES });
                    *column = match PART {
                        true => simd.mask_load_ptr_f32s(mask, at),
                        false => at.cast::<S::f32s>().read_unaligned(),
                    };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = simd.splat_f32s(*a.add(r * self.a_row + k * self.a_step));
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = match FUSED {
                            true => simd.mul_add_e_f32s(factor, column, *sum),
                            false => simd.add_f32s(simd.mul_f32s(factor, column), *sum),
                        };
                    }
                }
            }
        }
        sums
    }

    /// # Safety
    /// As [`Job::run`], for a strip inside of the columns.
    #[inline(always)]
    unsafe fn finished<S: Simd, const R: usize, const V: usize, const PART: bool>(
        &self,
        simd: S,
        mut sums: [[S::f32s; V]; R],
        columns: Columns,
    ) -> [[S::f32s; V]; R] {
        let (row, relu) = match self.epilogue {
            Epilogue::Nothing => return sums,
            Epilogue::Add(row) => (row, false),
            Epilogue::AddRelu(row) => (row, true),
        };
        let zero = simd.splat_f32s(0.0);
        for v in 0..V {
            // SAFETY: the row has an element for each column of the strip.
            let added = unsafe {
                let at = row.as_ptr().add(columns.of::<S, V>(v));
                match PART {
                    true => simd.partial_load_f32s(row),
                    false => at.cast::<S::f32s>().read_unaligned(),
                }
            };
            for sums in &mut sums {
                sums[v] = simd.add_f32s(sums[v], added);
                if relu {
                    let is_cut = simd.less_than_or_equal_f32s(sums[v], zero);
                    sums[v] = simd.select_f32s(is_cut, zero, sums[v]);
                }
            }
        }
        sums
    }

    /// # Safety
    /// As [`Job::run`], for `R` rows from `row` on and a strip inside of the columns.
    #[inline(always)]
    unsafe fn put<S: Simd, const R: usize, const V: usize, const PART: bool>(
        &self,
        sums: [[S::f32s; V]; R],
        columns: Columns,
        row: usize,
    ) {
        for (r, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                let (row, column) = (row + r, columns.of::<S, V>(v));
                // SAFETY: the caller's promise.
                unsafe {
                    if !PART && !self.is_out_turned {
                        let at = self.out.add(row * self.cols + column);
                        at.cast::<S::f32s>().write_unaligned(sum);
                        continue;
                    }
                    let mut values = [0.0f32; MAX_LANES];
                    values.as_mut_ptr().cast::<S::f32s>().write_unaligned(sum);
                    let n = S::F32_LANES.min(self.cols - column);
                    for (lane, &value) in values[..n].iter().enumerate() {
                        let column = column + lane;
                        *match self.is_out_turned {
                            true => self.out.add(column * self.rows + row),
                            false => self.out.add(row * self.cols + column),
                        } = value;
                    }
                }
            }
        }
    }
}

/// How many of `n` vectors of columns the next strip takes.
#[inline(always)]
fn vectors_of_strip<S: Simd>(n: usize) -> usize {
    match (S::REGISTER_COUNT >= 32, n) {
        (true, 4) => 2, // rather than three and one: that one would have few sums
        (true, n) => n.min(MAX_VECTORS),
        (false, 3) => 3, // rather than two and one
        (false, n) => n.min(MAX_VECTORS - 1),
    }
}

impl Columns {
    /// The columns `first..end`, and what is before them in a vector of their last.
    #[inline(always)]
    fn between<S: Simd>(first: usize, end: usize) -> Self {
        let last = end - S::F32_LANES;
        let first = first.min(last);
        Self { first, last }
    }

    /// The first column of a vector of the strip.
    #[inline(always)]
    fn of<S: Simd, const V: usize>(self, v: usize) -> usize {
        match v + 1 == V {
            true => self.last,
            false => self.first + v * S::F32_LANES,
        }
    }
}
