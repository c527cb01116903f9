//! Sums over runs of rows, and over gathered rows: the reduction of every irregular layer.
//!
//! A [`Segments`] cuts the rows of a matrix into consecutive runs; [`Device::segment_sum`] adds each run up and
//! [`Device::segment_sum_grad`] is its adjoint. A [`Gather`] is a list of (row, weight) for each output row, which is
//! what messages along edges are once their source rows exist; its adjoint is the gather over [`GatherLists::transpose`].
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_device::segments::Segments;
//!
//! let device = Device::host();
//! let segments = Segments::upload(&device, &[0, 2, 2, 3])?; // rows 0 and 1, none, row 2
//! let x = device.upload(&[1.0, 2.0, 10.0, 20.0, 100.0, 200.0])?;
//! let mut out = device.zeros(6)?;
//! device.segment_sum(&segments, 2, &x, &mut out)?;
//! assert_eq!(device.download(&out)?, [11.0, 22.0, 0.0, 0.0, 100.0, 200.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod host;
#[cfg(test)]
mod tests;

use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::{Arg, Buffer, Device, Error, ErrorKind, Launch};

/// Segments of at least this many items are summed by a whole block of threads on a GPU.
pub const LONG_SEGMENT: u64 = 512;

/// Threads of a block: what the kernels declare.
const BLOCK: u32 = 256;
const WARPS_PER_BLOCK: usize = BLOCK as usize / 32;

/// Consecutive runs of rows, in device memory.
#[derive(Debug)]
pub struct Segments {
    offsets: Buffer<u64>,
    /// The segments of at least [`LONG_SEGMENT`] items.
    long: Buffer<u32>,
    n_segments: usize,
    n_items: usize,
}

impl Segments {
    /// Segment `s` holds the items `offsets[s]..offsets[s + 1]`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] unless the offsets start at 0, never fall, and number at most 2^32 - 1 segments; what the
    /// upload fails with.
    pub fn upload(device: &Device, offsets: &[u64]) -> Result<Self, Error> {
        check_offsets("segments", offsets)?;
        let is_long = |pair: &[u64]| pair[1] - pair[0] >= LONG_SEGMENT;
        let long: Vec<u32> = (0u32..)
            .zip(offsets.windows(2))
            .filter_map(|(segment, pair)| is_long(pair).then_some(segment))
            .collect();
        Ok(Self {
            offsets: device.upload(offsets)?,
            long: device.upload(&long)?,
            n_segments: offsets.len() - 1,
            n_items: offsets[offsets.len() - 1] as usize,
        })
    }

    /// The number of segments.
    pub fn n_segments(&self) -> usize {
        self.n_segments
    }

    /// The number of items in all segments together.
    pub fn n_items(&self) -> usize {
        self.n_items
    }

    /// The offsets, on the device.
    pub fn offsets(&self) -> &Buffer<u64> {
        &self.offsets
    }
}

/// Weighted lists of rows on the host; see [`Gather`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GatherLists {
    /// Where each list starts, and the end of the last.
    pub offsets: Vec<u64>,
    /// The row of each item.
    pub index: Vec<u32>,
    /// The weight of each item; absent means 1.
    pub weights: Option<Vec<f32>>,
}

impl GatherLists {
    /// The lists of the adjoint: list `r` names the lists that name row `r`, in ascending order.
    ///
    /// # Panics
    /// For lists that [`Gather::upload`] refuses.
    /// # Complexity
    /// A counting sort: `O(items + n_rows)`.
    pub fn transpose(&self, n_rows: usize) -> GatherLists {
        let mut offsets = vec![0u64; n_rows + 1];
        for &row in &self.index {
            offsets[row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut index = vec![0u32; self.index.len()];
        let mut weights = self.weights.as_ref().map(|w| vec![0.0f32; w.len()]);
        for (list, pair) in (0u32..).zip(self.offsets.windows(2)) {
            for item in pair[0] as usize..pair[1] as usize {
                let at = &mut next[self.index[item] as usize];
                index[*at as usize] = list;
                if let (Some(to), Some(from)) = (&mut weights, &self.weights) {
                    to[*at as usize] = from[item];
                }
                *at += 1;
            }
        }
        GatherLists {
            offsets,
            index,
            weights,
        }
    }
}

/// Weighted lists of rows in device memory: `out[s] = sum of weight[i] * x[index[i]]` over the items `i` of list `s`.
#[derive(Debug)]
pub struct Gather {
    segments: Segments,
    index: Buffer<u32>,
    weights: Option<Buffer<f32>>,
    n_rows: usize,
}

impl Gather {
    /// Lists over the rows of a matrix with `n_rows` rows.
    ///
    /// # Errors
    /// As [`Segments::upload`]; [`ErrorKind::Length`] unless index, weights and the last offset agree;
    /// [`ErrorKind::Index`] for a row that the matrix does not have.
    pub fn upload(device: &Device, lists: &GatherLists, n_rows: usize) -> Result<Self, Error> {
        let segments = Segments::upload(device, &lists.offsets)?;
        let n_items = segments.n_items;
        check_len("gather", "index", n_items, lists.index.len())?;
        if let Some(weights) = &lists.weights {
            check_len("gather", "weights", n_items, weights.len())?;
        }
        check_rows("gather", &lists.index, n_rows)?;
        let weights = lists.weights.as_ref();
        Ok(Self {
            segments,
            index: device.upload(&lists.index)?,
            weights: weights.map(|w| device.upload(w)).transpose()?,
            n_rows,
        })
    }

    /// The number of lists, which is the number of output rows.
    pub fn n_lists(&self) -> usize {
        self.segments.n_segments
    }

    /// The number of rows that the lists choose from.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The number of items in all lists together.
    pub fn n_items(&self) -> usize {
        self.segments.n_items
    }
}

impl Device {
    /// `out[s, :] = sum of x[i, :]` over the items of each segment.
    ///
    /// # Shapes
    /// `x [n_items, width]`, `out [n_segments, width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    /// # Complexity
    /// Reads `4 * width * n_items + 8 * n_segments` B and writes `4 * width * n_segments` B.
    /// # Determinism
    /// No atomics: the order of a sum depends on its own length and the width only, so a segment has the same bits
    /// whichever segments stand beside it. Back ends differ from one another in the last bits.
    pub fn segment_sum(
        &self,
        segments: &Segments,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        const OP: &str = "segment_sum";
        check(OP, "x", elements(&[segments.n_items, width]), x)?;
        self.segment_sum_of_first(segments, width, x, out)
    }

    /// As [`Device::segment_sum`], of the first rows of a longer `x`.
    pub(crate) fn segment_sum_of_first(
        &self,
        segments: &Segments,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        const OP: &str = "segment_sum";
        if x.len() < segments.n_items * width {
            check(OP, "x", elements(&[segments.n_items, width]), x)?;
        }
        check(OP, "out", elements(&[segments.n_segments, width]), out)?;
        let items = Items {
            segments,
            index: None,
            weights: None,
        };
        self.sum_items(OP, items, width, x, out)
    }

    /// The adjoint of [`Device::segment_sum`]: each item gets the gradient of its segment.
    ///
    /// # Shapes
    /// `grad_out [n_segments, width]`, `grad_x [n_items, width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    pub fn segment_sum_grad(
        &self,
        segments: &Segments,
        width: usize,
        grad_out: &Buffer,
        grad_x: &mut Buffer,
    ) -> Result<(), Error> {
        const OP: &str = "segment_sum_grad";
        check(
            OP,
            "grad_out",
            elements(&[segments.n_segments, width]),
            grad_out,
        )?;
        check(OP, "grad_x", elements(&[segments.n_items, width]), grad_x)?;
        if let BackEnd::Host(_) = &self.back_end {
            let offsets = on_host(OP, &segments.offsets)?;
            host::spread(
                offsets,
                width,
                on_host(OP, grad_out)?,
                on_host_mut(OP, grad_x)?,
            );
            return Ok(());
        }
        let n_elements = grad_x.len();
        // SAFETY: one thread an element of grad_x; the segment it finds exists, and grad_out has its row.
        unsafe {
            self.launch(
                "segment_sum_bwd",
                Launch::threads(n_elements, BLOCK),
                &[
                    Arg::read(&segments.offsets),
                    Arg::read(grad_out),
                    Arg::u32(segments.n_segments as u32),
                    Arg::u32(width as u32),
                    Arg::u64(n_elements as u64),
                    Arg::write(grad_x),
                ],
            )
        }
    }

    /// `out[s, :] = sum of weight[i] * x[index[i], :]` over the items of each list.
    ///
    /// # Shapes
    /// `x [n_rows, width]`, `out [n_lists, width]`.
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`].
    /// # Complexity
    /// Reads `(4 * width + 4 + 4 * weighted) * n_items` B, the rows at random, and writes `4 * width * n_lists` B.
    /// # Determinism
    /// As [`Device::segment_sum`].
    pub fn gather_sum(
        &self,
        gather: &Gather,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        const OP: &str = "gather_sum";
        let segments = &gather.segments;
        check(OP, "x", elements(&[gather.n_rows, width]), x)?;
        check(OP, "out", elements(&[segments.n_segments, width]), out)?;
        let items = Items {
            segments,
            index: Some(&gather.index),
            weights: gather.weights.as_ref(),
        };
        self.sum_items(OP, items, width, x, out)
    }

    fn sum_items(
        &self,
        op: &'static str,
        items: Items<'_>,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        match &self.back_end {
            BackEnd::Host(_) => {
                let lists = host::Lists {
                    offsets: on_host(op, &items.segments.offsets)?,
                    index: items.index.map(|i| on_host(op, i)).transpose()?,
                    weights: items.weights.map(|w| on_host(op, w)).transpose()?,
                };
                host::sum(lists, width, on_host(op, x)?, on_host_mut(op, out)?);
                Ok(())
            }
            BackEnd::Gpu(_) => self.launch_sums(items, width, x, out),
        }
    }

    fn launch_sums(
        &self,
        items: Items<'_>,
        width: usize,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let segments = items.segments;
        let (short, long) = segments.launches(width);
        let (n_segments, width) = (segments.n_segments as u32, width as u32);
        let mut args = vec![Arg::read(&segments.offsets)];
        args.extend(items.args(x));
        args.extend([Arg::u32(n_segments), Arg::u32(width)]);
        args.extend([Arg::u32(LONG_SEGMENT as u32), Arg::write(out)]);
        // SAFETY: offsets, index and weights were checked against one another and the rows at upload, x and out by the
        // caller.
        unsafe { self.launch("segment_sum_fwd", short, &args)? };
        let mut args = vec![Arg::read(&segments.offsets), Arg::read(&segments.long)];
        args.extend(items.args(x));
        args.extend([Arg::u32(width), Arg::write(out)]);
        // SAFETY: as above; `long` lists segments that exist.
        unsafe { self.launch("segment_sum_long_fwd", long, &args) }
    }
}

/// The items to sum: all rows in order, or listed ones.
#[derive(Debug, Clone, Copy)]
struct Items<'a> {
    segments: &'a Segments,
    index: Option<&'a Buffer<u32>>,
    weights: Option<&'a Buffer>,
}

impl<'a> Items<'a> {
    /// Index, weights, and which of them are there; what is absent is not read, but the kernel wants an address.
    fn args(&self, x: &'a Buffer) -> [Arg<'a>; 5] {
        [
            Arg::read(self.index.unwrap_or(&self.segments.long)),
            Arg::u32(self.index.is_some().into()),
            Arg::read(self.weights.unwrap_or(x)),
            Arg::u32(self.weights.is_some().into()),
            Arg::read(x),
        ]
    }
}

impl Segments {
    /// A warp for each segment, and a block for each long one; nothing for rows without columns.
    fn launches(&self, width: usize) -> (Launch, Launch) {
        let any = usize::from(width > 0);
        (
            Launch::blocks(any * self.n_segments.div_ceil(WARPS_PER_BLOCK), BLOCK),
            Launch::blocks(any * self.long.len(), BLOCK),
        )
    }
}

/// Offsets start at 0, never fall, and cut at most 2^32 - 1 runs.
pub(crate) fn check_offsets(op: &'static str, offsets: &[u64]) -> Result<(), Error> {
    if offsets.first() != Some(&0) {
        return Err(Error::invalid(op, "the offsets must start with 0"));
    }
    if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let (before, after) = (offsets[at], offsets[at + 1]);
        let why = format!("offsets must not fall: entry {at} is {before}, the next {after}");
        return Err(Error::invalid(op, why));
    }
    if offsets.len() - 1 > u32::MAX as usize {
        return Err(Error::invalid(op, "at most 2^32 - 1 segments"));
    }
    Ok(())
}

pub(crate) fn check_len(
    op: &'static str,
    operand: &'static str,
    wanted: usize,
    given: usize,
) -> Result<(), Error> {
    match wanted == given {
        true => Ok(()),
        false => Err(crate::device::length(op, operand, wanted, given)),
    }
}

/// Every row number is below `n_rows`.
pub(crate) fn check_rows(op: &'static str, index: &[u32], n_rows: usize) -> Result<(), Error> {
    match index.iter().find(|&&row| row as usize >= n_rows) {
        None => Ok(()),
        Some(&row) => Err(ErrorKind::Index {
            op,
            index: u64::from(row),
            n_rows: n_rows as u64,
        }
        .into()),
    }
}
