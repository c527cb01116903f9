//! Sparse products of a [`Device`]: plain, and with the residual graph's mask, scale, bias and relu in one pass.

use std::borrow::Cow;

#[cfg(doc)]
use crate::ErrorKind;
use crate::device::{BackEnd, check, elements, length};
use crate::gpu::{FusedProduct, Gpu};
use crate::host::{Host, Operand};
use crate::memory::{on_host, on_host_mut, other_device};
use crate::resident::{Form, check_lists, check_words};
use crate::{Adjacency, Buffer, Device, Error, SparseProduct};

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
        elements(&[self.n_states, self.width])
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(keep) = self.keep {
            check(
                MASKED,
                "keep",
                elements(&[self.n_columns, self.n_states]),
                keep,
            )?;
            let end = self.first_row.saturating_add(self.n_rows);
            if end > self.n_columns {
                return Err(length(MASKED, "keep rows", end, self.n_columns));
            }
        }
        if let Some(scale) = self.scale {
            check(MASKED, "scale", self.n_states, scale)?;
        }
        if let Some(bias) = self.bias {
            check(
                MASKED,
                "bias",
                elements(&[self.n_rows, self.row_width()]),
                bias,
            )?;
        }
        Ok(())
    }
}

impl Device {
    /// A sparse product; see [`SparseProduct`].
    ///
    /// A block of host slices is uploaded for this call where the device is a GPU: make it resident
    /// ([`Device::resident`]) if it is used again.
    ///
    /// # Errors
    /// [`ErrorKind::Length`], [`ErrorKind::OtherDevice`]; [`ErrorKind::Index`] for a column id of a resident block (or
    /// of any block on a GPU) that `x` does not have.
    /// # Panics
    /// On the host, for a column id of a slice that `x` does not have: ids are checked where they are used, not in a pass
    /// of their own.
    /// # Complexity
    /// `n_entries * width` additions; reads 4 B a list entry (a bit entry: 1/8 B a column) and `4 * width` B a gather.
    /// # Determinism
    /// A row's bits depend on that row, `n_columns` and the width alone, whoever owns it. On the host every sum runs
    /// over ascending column ids, whatever the storage form; on a GPU the order is another one, and fixed.
    pub fn sparse_product(
        &self,
        product: SparseProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        check(
            SPARSE,
            "x",
            elements(&[product.n_columns, product.width]),
            x,
        )?;
        check(
            SPARSE,
            "out",
            elements(&[product.n_rows, product.width]),
            out,
        )?;
        check_adjacency(product.adjacency, product.n_rows, product.n_columns)?;
        match &self.back_end {
            BackEnd::Host(host) => {
                let x = on_host(SPARSE, x)?;
                host_product(host, product, x, on_host_mut(SPARSE, out)?)
            }
            BackEnd::Gpu(gpu) => {
                let (n_rows, n_columns) = (product.n_rows, product.n_columns);
                let fused = FusedProduct::plain(n_rows, n_columns, product.width);
                self.gpu_product(gpu, product.adjacency, &fused, x, out)
            }
        }
    }

    /// A sparse product under a mask; see [`MaskedProduct`].
    ///
    /// # Errors
    /// As [`Device::sparse_product`].
    /// # Panics
    /// As [`Device::sparse_product`].
    /// # Complexity
    /// As the plain product; a masked row costs nothing, a masked entry its id and its mask. One pass writes `out`.
    /// # Determinism
    /// As [`Device::sparse_product`].
    pub fn masked_sparse_product(
        &self,
        product: MaskedProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let row_width = product.row_width();
        check(MASKED, "x", elements(&[product.n_columns, row_width]), x)?;
        check(MASKED, "out", elements(&[product.n_rows, row_width]), out)?;
        product.check()?;
        check_adjacency(product.adjacency, product.n_rows, product.n_columns)?;
        match &self.back_end {
            BackEnd::Host(host) => host_masked_product(host, product, x, out),
            BackEnd::Gpu(gpu) => {
                let fused = FusedProduct {
                    n_rows: product.n_rows,
                    n_columns: product.n_columns,
                    width: row_width,
                    n_states: product.n_states,
                    first_row: product.first_row,
                    keep: product.keep,
                    scale: product.scale,
                    bias: product.bias,
                    relu: product.relu,
                };
                self.gpu_product(gpu, product.adjacency, &fused, x, out)
            }
        }
    }

    fn gpu_product(
        &self,
        gpu: &Gpu,
        adjacency: Adjacency<'_>,
        fused: &FusedProduct<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let uploaded;
        let resident = match adjacency {
            Adjacency::Resident(resident) => resident,
            slices => {
                uploaded = self.resident(slices)?;
                uploaded.check(fused.n_rows, fused.n_columns)?; // now the largest column id is known too
                &uploaded
            }
        };
        match &resident.form {
            Form::Lists(lists) => gpu.lists_product(lists, fused, x, out),
            Form::Bits(bits) => gpu.bits_product(bits, fused, x, out),
            Form::HostLists { .. } | Form::HostBits { .. } | Form::HostTiles(_) => {
                Err(other_device(SPARSE, self.kind()))
            }
        }
    }
}

fn host_product(
    host: &Host,
    product: SparseProduct<'_>,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), Error> {
    let adjacency = match product.adjacency {
        Adjacency::Resident(resident) => match &resident.form {
            Form::HostTiles(tiles) => {
                host.tiles_product(tiles, Operand::plain(product.width, x), out);
                return Ok(());
            }
            _ => resident.on_host()?,
        },
        slices => slices,
    };
    let product = SparseProduct {
        adjacency,
        ..product
    };
    host.sparse_product(product, x, out);
    Ok(())
}

/// The reference: mask, plain product, mask and scale, bias, relu, one after the other.
fn host_masked_product(
    host: &Host,
    product: MaskedProduct<'_>,
    x: &Buffer,
    out: &mut Buffer,
) -> Result<(), Error> {
    let (n_states, width) = (product.n_states, product.width);
    let x = on_host(MASKED, x)?;
    let out = on_host_mut(MASKED, out)?;
    let keep = product.keep.map(|keep| on_host(MASKED, keep)).transpose()?;
    if let Adjacency::Resident(resident) = product.adjacency
        && let Form::HostTiles(tiles) = &resident.form
    {
        let operand = Operand {
            x,
            keep,
            n_states,
            width,
        };
        host.tiles_product(tiles, operand, out);
    } else {
        let x = masked(x, keep, width);
        let plain = SparseProduct {
            adjacency: product.adjacency,
            n_rows: product.n_rows,
            n_columns: product.n_columns,
            width: n_states * width,
        };
        host_product(host, plain, &x, out)?;
    }
    let scale = product.scale.map(|scale| on_host(MASKED, scale));
    let scale = scale.transpose()?;
    let factor = |i: usize| {
        let kept = keep.map_or(1.0, |keep| keep[product.first_row * n_states + i]);
        kept * scale.map_or(1.0, |scale| scale[i % n_states])
    };
    let factors: Vec<f32> = (0..product.n_rows * n_states).map(factor).collect();
    host.scale_rows(width, &factors, out);
    if let Some(bias) = product.bias {
        let bias = on_host(MASKED, bias)?;
        out.iter_mut()
            .zip(bias)
            .for_each(|(sum, bias)| *sum += bias);
    }
    if product.relu {
        let sums = out.to_vec();
        host.relu(&sums, out);
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

fn check_adjacency(adjacency: Adjacency<'_>, n_rows: usize, n_columns: usize) -> Result<(), Error> {
    match adjacency {
        Adjacency::Csr {
            row_ptr,
            columns,
            values,
        } => {
            if row_ptr.len() != n_rows + 1 {
                return Err(length(SPARSE, "row_ptr", n_rows + 1, row_ptr.len()));
            }
            check_lists(row_ptr, columns, values)
        }
        Adjacency::Bits {
            words,
            words_per_row,
        } => check_words(words.len(), words_per_row, n_rows, n_columns),
        Adjacency::Resident(resident) => resident.check(n_rows, n_columns),
    }
}
