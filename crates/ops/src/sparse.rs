//! Sparse products: plain, and with the residual graph's mask, scale, bias and relu in one pass.

mod host;
mod launch;
mod tiles;

use std::borrow::Cow;

use shardgraph_device::{Buffer, Device, Error, checks};

use crate::adjacency::Storage;
use crate::functions::relu_of;
use crate::simd;
use crate::{Adjacency, ResidentAdjacency};

pub(crate) use launch::{DeviceBits, DeviceLists, FusedProduct};
pub(crate) use tiles::Tiles;

use host::{Slices, slices_product};
use tiles::{Operand, tiles_product};

/// A sparse product `y[own rows] = adjacency[own rows, all] * x[all]` with rows of `width` elements.
#[derive(Debug, Clone, Copy)]
pub struct SparseProduct<'a> {
    /// The adjacency block.
    pub adjacency: Adjacency<'a>,
    /// The number of own rows (rows of `y`).
    pub n_rows: usize,
    /// The number of all rows (rows of `x`).
    pub n_columns: usize,
    /// Elements in a row of `x` and `y`.
    pub width: usize,
}

/// The sparse product of a residual graph in several states at once, with what a layer does to its sums:
/// `out[v, b] = act(scale[b] * keep[first_row + v, b] * sum_u A[v, u] * keep[u, b] * x[u, b] + bias[v, b])`.
///
/// A node with mask zero has left the graph: its row of `x` is not read, and its own sum is zero. For a symmetric
/// adjacency the backward product is the same one, of the output's gradient behind the relu and without bias.
///
/// # Shapes
/// `x [n_columns, n_states, width]`, `out` and `bias [n_rows, n_states, width]`, `keep [n_columns, n_states]`,
/// `scale [n_states]`.
#[derive(Debug, Clone, Copy)]
pub struct MaskedProduct<'a> {
    /// The adjacency block.
    pub adjacency: Adjacency<'a>,
    /// The number of own rows.
    pub n_rows: usize,
    /// The number of all nodes.
    pub n_columns: usize,
    /// States of the graph, side by side in each row.
    pub n_states: usize,
    /// Elements of one state in a row.
    pub width: usize,
    /// The node that own row 0 is.
    pub first_row: usize,
    /// One factor for each node and state; absent means 1.
    pub keep: Option<&'a Buffer>,
    /// One factor for each state; absent means 1.
    pub scale: Option<&'a Buffer>,
    /// What is added to the scaled sums; absent means nothing.
    pub bias: Option<&'a Buffer>,
    /// Whether negative results become zero.
    pub relu: bool,
}

const SPARSE: &str = "sparse_product";
const MASKED: &str = "masked_sparse_product";

impl MaskedProduct<'_> {
    fn row_width(&self) -> usize {
        checks::elements(&[self.n_states, self.width])
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(keep) = self.keep {
            checks::len(
                MASKED,
                "keep",
                checks::elements(&[self.n_columns, self.n_states]),
                keep,
            )?;
            let end = self.first_row.saturating_add(self.n_rows);
            if end > self.n_columns {
                return Err(Error::length(MASKED, "keep rows", end, self.n_columns));
            }
        }
        if let Some(scale) = self.scale {
            checks::len(MASKED, "scale", self.n_states, scale)?;
        }
        if let Some(bias) = self.bias {
            checks::len(
                MASKED,
                "bias",
                checks::elements(&[self.n_rows, self.row_width()]),
                bias,
            )?;
        }
        Ok(())
    }
}

/// A sparse product; see [`SparseProduct`].
///
/// A block of host slices is uploaded for this call where the device is a GPU: make it resident
/// ([`ResidentAdjacency::upload`]) if it is used again.
///
/// # Errors
/// [`ErrorKind::Length`](shardgraph_device::ErrorKind::Length),
/// [`ErrorKind::OtherDevice`](shardgraph_device::ErrorKind::OtherDevice),
/// [`ErrorKind::Index`](shardgraph_device::ErrorKind::Index) for a column id that `x` does not have. `out` is unspecified
/// after an error.
/// # Complexity
/// `n_entries * width` additions; reads 4 B a list entry (a bit entry: 1/8 B a column) and `4 * width` B a gather.
/// # Determinism
/// A row's bits depend on that row, `n_columns` and the width alone, whichever rank owns it. On the host every sum runs
/// over ascending column ids, whatever the storage form; on a GPU the order is another one, and fixed.
pub fn sparse_product(
    device: &Device,
    product: SparseProduct<'_>,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let (n_rows, n_columns) = (product.n_rows, product.n_columns);
    checks::len(
        SPARSE,
        "x",
        checks::elements(&[n_columns, product.width]),
        x,
    )?;
    checks::len(
        SPARSE,
        "out",
        checks::elements(&[n_rows, product.width]),
        out,
    )?;
    product.adjacency.check(n_rows, n_columns)?;
    if device.is_host() {
        return host_product(product, x.on_host(SPARSE)?, out.on_host_mut(SPARSE)?);
    }
    let fused = FusedProduct::plain(n_rows, n_columns, product.width);
    launch_product(device, product.adjacency, &fused, x, out)
}

/// A sparse product under a mask; see [`MaskedProduct`].
///
/// # Errors
/// As [`sparse_product`].
/// # Complexity
/// As the plain product; a masked row costs nothing, a masked entry its id and its mask. One pass writes `out`.
/// # Determinism
/// As [`sparse_product`].
pub fn masked_sparse_product(
    device: &Device,
    product: MaskedProduct<'_>,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let row_width = product.row_width();
    let (n_rows, n_columns) = (product.n_rows, product.n_columns);
    checks::len(MASKED, "x", checks::elements(&[n_columns, row_width]), x)?;
    checks::len(MASKED, "out", checks::elements(&[n_rows, row_width]), out)?;
    product.check()?;
    product.adjacency.check(n_rows, n_columns)?;
    if device.is_host() {
        return host_masked_product(product, x, out);
    }
    let fused = FusedProduct {
        n_rows,
        n_columns,
        width: row_width,
        n_states: product.n_states,
        first_row: product.first_row,
        keep: product.keep,
        scale: product.scale,
        bias: product.bias,
        relu: product.relu,
    };
    launch_product(device, product.adjacency, &fused, x, out)
}

fn launch_product(
    device: &Device,
    adjacency: Adjacency<'_>,
    fused: &FusedProduct<'_>,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let uploaded;
    let resident = match adjacency {
        Adjacency::Resident(resident) => resident,
        slices => {
            uploaded = ResidentAdjacency::upload(device, slices)?;
            uploaded.check(fused.n_rows, fused.n_columns)?; // now the largest column id is known too
            &uploaded
        }
    };
    match &resident.storage {
        Storage::Lists(lists) => lists.product(device, fused, x, out),
        Storage::Bits(bits) => bits.product(device, fused, x, out),
        Storage::Tiles(_) => Err(Error::other_device(SPARSE, device.kind())),
    }
}

fn host_product(product: SparseProduct<'_>, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let slices = match product.adjacency {
        Adjacency::Csr {
            row_ptr,
            columns,
            values,
        } => Slices::Lists {
            row_ptr,
            columns,
            values,
        },
        Adjacency::Bits {
            words,
            words_per_row,
        } => Slices::Bits {
            words,
            words_per_row,
        },
        Adjacency::Resident(resident) => match &resident.storage {
            Storage::Tiles(tiles) => {
                tiles_product(tiles, Operand::plain(product.width, x), out);
                return Ok(());
            }
            Storage::Lists(lists) => Slices::Lists {
                row_ptr: lists.row_ptr.on_host(SPARSE)?,
                columns: lists.columns.on_host(SPARSE)?,
                values: match &lists.values {
                    Some(values) => Some(values.on_host(SPARSE)?),
                    None => None,
                },
            },
            Storage::Bits(bits) => Slices::Bits {
                words: bits.words.on_host(SPARSE)?,
                words_per_row: bits.words_per_row,
            },
        },
    };
    slices_product(slices, product.n_rows, product.width, x, out)
        .map_err(|column| Error::index(SPARSE, column.into(), product.n_columns as u64))
}

/// The reference: mask, plain product, mask and scale, bias, relu, one after the other.
fn host_masked_product(
    product: MaskedProduct<'_>,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let (n_states, width) = (product.n_states, product.width);
    let x = x.on_host(MASKED)?;
    let out = out.on_host_mut(MASKED)?;
    let keep = product.keep.map(|keep| keep.on_host(MASKED)).transpose()?;
    if let Adjacency::Resident(resident) = product.adjacency
        && let Storage::Tiles(tiles) = &resident.storage
    {
        let operand = Operand {
            x,
            keep,
            n_states,
            width,
        };
        tiles_product(tiles, operand, out);
    } else {
        let x = masked(x, keep, width);
        let plain = SparseProduct {
            adjacency: product.adjacency,
            n_rows: product.n_rows,
            n_columns: product.n_columns,
            width: n_states * width,
        };
        host_product(plain, &x, out)?;
    }
    finish(product, keep, out)
}

/// What follows the sums of a masked product: the own rows' mask and scale, bias, relu.
fn finish(product: MaskedProduct<'_>, keep: Option<&[f32]>, out: &mut [f32]) -> Result<(), Error> {
    let n_states = product.n_states;
    let scale = product.scale.map(|scale| scale.on_host(MASKED));
    let scale = scale.transpose()?;
    let factor = |i: usize| {
        let kept = keep.map_or(1.0, |keep| keep[product.first_row * n_states + i]);
        kept * scale.map_or(1.0, |scale| scale[i % n_states])
    };
    let factors: Vec<f32> = (0..product.n_rows * n_states).map(factor).collect();
    simd::scale_rows(product.width, &factors, out);
    if let Some(bias) = product.bias {
        let bias = bias.on_host(MASKED)?;
        out.iter_mut()
            .zip(bias)
            .for_each(|(sum, bias)| *sum += bias);
    }
    if product.relu {
        out.iter_mut().for_each(|sum| *sum = relu_of(*sum));
    }
    Ok(())
}

/// Rows under their mask: as they are where it is 1 everywhere, which leaves all bits.
fn masked<'x>(x: &'x [f32], keep: Option<&[f32]>, width: usize) -> Cow<'x, [f32]> {
    match keep.filter(|keep| keep.iter().any(|keep| !matches!(keep, 1.0))) {
        None => Cow::Borrowed(x),
        Some(keep) => {
            let mut rows = x.to_vec();
            apply_mask(keep, width, &mut rows);
            Cow::Owned(rows)
        }
    }
}

/// Scales rows by their mask; what is masked is not even read.
fn apply_mask(keep: &[f32], width: usize, x: &mut [f32]) {
    if width == 0 {
        return;
    }
    for (row, &keep) in x.chunks_exact_mut(width).zip(keep) {
        match keep == 0.0 {
            true => row.fill(0.0),
            false => row.iter_mut().for_each(|v| *v *= keep),
        }
    }
}
