//! Relational convolution of dense features: one product for each (source, relation), sorted by relation.

use super::{OP, Relational};
use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::{Arg, Buffer, Error, Launch, MatMul};

/// Threads of a block: what the kernels declare.
const BLOCK: u32 = 256;
/// Shared memory that a tile of weights may take.
const TILE_BYTES: usize = 32 << 10;

/// The weights between `n_blocks * rows` inputs and `n_blocks * cols` outputs, block-diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// Blocks on the diagonal; 1 for a whole matrix.
    pub n_blocks: usize,
    /// Inputs of a block.
    pub rows: usize,
    /// Outputs of a block.
    pub cols: usize,
}

impl BlockShape {
    /// The width of the input.
    pub fn in_width(&self) -> usize {
        self.n_blocks * self.rows
    }

    /// The width of the output.
    pub fn out_width(&self) -> usize {
        self.n_blocks * self.cols
    }

    /// Weights of one relation.
    pub fn n_weights(&self) -> usize {
        self.n_blocks * self.rows * self.cols
    }
}

/// The weights `W_r` of all relations, in the form in which they are learned.
#[derive(Debug, Clone, Copy)]
pub enum Weights<'a> {
    /// `W_r = sum_b coefficients[r, b] * bases[b]`, for one block.
    Bases {
        /// `[n_bases, rows, cols]`.
        bases: &'a Buffer,
        /// `[n_relations, n_bases]`.
        coefficients: &'a Buffer,
    },
    /// Block-diagonal: `[n_relations, n_blocks, rows, cols]`.
    Blocks(&'a Buffer),
}

/// Weights as plain numbers: bases (or blocks), coefficients, and the number of bases (0 for blocks).
type Operands<'a> = (&'a Buffer, &'a Buffer, usize);

impl Relational {
    /// `pairs[p, :] = W_{r_p}^T x[s_p, :]`.
    ///
    /// # Shapes
    /// `x [n_sources, in_width]`, `pairs [n_pairs, out_width]`.
    /// # Errors
    /// [`crate::ErrorKind::Length`]; [`crate::ErrorKind::Invalid`] for bases with more than one block, or a block whose
    /// column (or row) of weights passes 32 KiB.
    /// # Complexity
    /// `2 * n_pairs * n_blocks * rows * cols` FLOP, and `n_bases` products a weight for each run of 512 pairs; reads
    /// `4 * n_pairs * in_width` B at random and writes `4 * n_pairs * out_width` B.
    /// # Determinism
    /// A row's bits depend on its own pair only.
    /// # Source
    /// Schlichtkrull et al. (2018), equations 3 and 4.
    pub fn transform(
        &self,
        shape: BlockShape,
        weights: Weights<'_>,
        x: &Buffer,
        pairs: &mut Buffer,
    ) -> Result<(), Error> {
        let operands = self.operands(shape, weights)?;
        check(OP, "x", elements(&[self.n_sources, shape.in_width()]), x)?;
        check(
            OP,
            "pairs",
            elements(&[self.n_pairs, shape.out_width()]),
            pairs,
        )?;
        if let BackEnd::Host(_) = &self.device.back_end {
            let sources = on_host(OP, &self.pair_sources)?;
            let (x, pairs) = (on_host(OP, x)?, on_host_mut(OP, pairs)?);
            return self.host_products(shape, operands, |pair, w| {
                let from = &x[sources[pair] as usize * shape.in_width()..][..shape.in_width()];
                forward(
                    shape,
                    w,
                    from,
                    &mut pairs[pair * shape.out_width()..][..shape.out_width()],
                );
            });
        }
        self.launch_transform("relation_transform_fwd", shape, operands, x, pairs)
    }

    /// The gradient of [`Relational::transform`] by its input: `grad_x[s, :] = sum_p W_{r_p} grad_pairs[p, :]` over the
    /// pairs of `s`.
    ///
    /// # Shapes
    /// `grad_pairs [n_pairs, out_width]`, `scratch [n_pairs, in_width]`, `grad_x [n_sources, in_width]`.
    /// # Errors
    /// As [`Relational::transform`].
    pub fn transform_grad(
        &self,
        shape: BlockShape,
        weights: Weights<'_>,
        grad_pairs: &Buffer,
        scratch: &mut Buffer,
        grad_x: &mut Buffer,
    ) -> Result<(), Error> {
        let operands = self.operands(shape, weights)?;
        check(
            OP,
            "grad_pairs",
            self.n_pairs * shape.out_width(),
            grad_pairs,
        )?;
        check(
            OP,
            "scratch",
            elements(&[self.n_pairs, shape.in_width()]),
            scratch,
        )?;
        if let BackEnd::Host(_) = &self.device.back_end {
            let (from, to) = (on_host(OP, grad_pairs)?, on_host_mut(OP, scratch)?);
            self.host_products(shape, operands, |pair, w| {
                let from = &from[pair * shape.out_width()..][..shape.out_width()];
                adjoint(
                    shape,
                    w,
                    from,
                    &mut to[pair * shape.in_width()..][..shape.in_width()],
                );
            })?;
        } else {
            self.launch_transform(
                "relation_transform_bwd",
                shape,
                operands,
                grad_pairs,
                scratch,
            )?;
        }
        self.device
            .segment_sum(&self.by_source, shape.in_width(), scratch, grad_x)
    }

    /// The gradient of [`Relational::transform`] by the weights `W_r` themselves, range by range.
    ///
    /// # Shapes
    /// `x [n_sources, in_width]`, `grad_pairs [n_pairs, out_width]`, `scratch` of [`Relational::weights_scratch_len`],
    /// `grad_weights [n_ranges, n_relations, n_blocks, rows, cols]`. For block-diagonal weights this is the gradient of
    /// the parameters; for bases see [`Relational::bases_grad`].
    /// # Errors
    /// As [`Relational::transform`].
    /// # Determinism
    /// As [`Relational::basis_pairs_grad`].
    pub fn weights_grad(
        &self,
        shape: BlockShape,
        (x, grad_pairs): (&Buffer, &Buffer),
        scratch: &mut Buffer,
        grad_weights: &mut Buffer,
    ) -> Result<(), Error> {
        check(OP, "x", elements(&[self.n_sources, shape.in_width()]), x)?;
        check(
            OP,
            "grad_pairs",
            self.n_pairs * shape.out_width(),
            grad_pairs,
        )?;
        check(OP, "scratch", self.weights_scratch_len(shape), scratch)?;
        self.check_shape(shape)?;
        match &self.device.back_end {
            BackEnd::Host(_) => self.host_weights_grad(shape, x, grad_pairs, scratch)?,
            BackEnd::Gpu(_) => self.launch_weights_grad(shape, x, grad_pairs, scratch)?,
        }
        self.device.segment_sum(
            &self.pieces.by_relation,
            shape.n_weights(),
            scratch,
            grad_weights,
        )
    }

    /// Elements of the working memory of [`Relational::weights_grad`]: the weights of one relation for each run of at
    /// most 512 pairs of one range and relation.
    pub fn weights_scratch_len(&self, shape: BlockShape) -> usize {
        self.pieces.n_pieces * shape.n_weights()
    }

    /// From the gradient by `W_r`, summed over ranges, to the gradients by bases and coefficients.
    ///
    /// # Shapes
    /// `grad_weights [n_relations, rows, cols]`, `grad_bases [n_bases, rows, cols]`,
    /// `grad_coefficients [n_relations, n_bases]`.
    /// # Errors
    /// [`crate::ErrorKind::Length`].
    pub fn bases_grad(
        &self,
        shape: BlockShape,
        (bases, coefficients): (&Buffer, &Buffer),
        grad_weights: &Buffer,
        grad_bases: &mut Buffer,
        grad_coefficients: &mut Buffer,
    ) -> Result<(), Error> {
        let n_weights = shape.n_weights();
        let n_bases = coefficients.len() / self.n_relations.max(1);
        self.operands(
            shape,
            Weights::Bases {
                bases,
                coefficients,
            },
        )?;
        let of_bases = MatMul {
            rows: n_bases,
            inner: self.n_relations,
            cols: n_weights,
            transpose_a: true,
            transpose_b: false,
        };
        self.device
            .matmul(of_bases, coefficients, grad_weights, grad_bases)?;
        let of_coefficients = MatMul {
            rows: self.n_relations,
            inner: n_weights,
            cols: n_bases,
            transpose_a: false,
            transpose_b: true,
        };
        self.device
            .matmul(of_coefficients, grad_weights, bases, grad_coefficients)
    }

    fn check_shape(&self, shape: BlockShape) -> Result<(), Error> {
        let widest = shape.rows.max(shape.cols) * size_of::<f32>();
        if shape.n_weights() == 0 {
            return Err(Error::invalid(
                OP,
                "blocks, rows and columns of W_r: at least one each",
            ));
        }
        if widest > TILE_BYTES || shape.n_weights() > i32::MAX as usize {
            return Err(Error::invalid(
                OP,
                "a block has at most 8192 rows and columns, W_r 2^31 weights",
            ));
        }
        Ok(())
    }

    fn operands<'a>(&self, shape: BlockShape, weights: Weights<'a>) -> Result<Operands<'a>, Error> {
        self.check_shape(shape)?;
        match weights {
            Weights::Blocks(blocks) => {
                check(
                    OP,
                    "blocks",
                    elements(&[self.n_relations, shape.n_weights()]),
                    blocks,
                )?;
                Ok((blocks, blocks, 0))
            }
            Weights::Bases { .. } if shape.n_blocks != 1 => Err(Error::invalid(
                OP,
                "weights that are sums of bases have one block",
            )),
            Weights::Bases {
                bases,
                coefficients,
            } => {
                let n_bases = coefficients.len() / self.n_relations.max(1);
                check(
                    OP,
                    "coefficients",
                    elements(&[self.n_relations, n_bases]),
                    coefficients,
                )?;
                check(OP, "bases", elements(&[n_bases, shape.n_weights()]), bases)?;
                if n_bases == 0 {
                    return Err(Error::invalid(OP, "at least one basis and one relation"));
                }
                Ok((bases, coefficients, n_bases))
            }
        }
    }

    /// Calls `product` for each pair with the weights of its relation, which are formed once for each piece.
    fn host_products(
        &self,
        shape: BlockShape,
        (bases, coefficients, n_bases): Operands<'_>,
        mut product: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        let (bases, coefficients) = (on_host(OP, bases)?, on_host(OP, coefficients)?);
        let n_weights = shape.n_weights();
        let mut formed = vec![0.0f32; n_weights];
        self.each_piece(|_, relation, pairs| {
            let weights = match n_bases {
                0 => &bases[relation * n_weights..][..n_weights],
                _ => {
                    formed.fill(0.0);
                    let coefficients = &coefficients[relation * n_bases..][..n_bases];
                    for (b, &a) in coefficients.iter().enumerate() {
                        let basis = &bases[b * n_weights..][..n_weights];
                        formed.iter_mut().zip(basis).for_each(|(w, &v)| *w += a * v);
                    }
                    &formed
                }
            };
            pairs
                .iter()
                .for_each(|&pair| product(pair as usize, weights));
        })
    }

    fn each_piece(&self, mut f: impl FnMut(usize, usize, &[u32])) -> Result<(), Error> {
        let (offsets, order) = (
            on_host(OP, &self.pieces.offsets)?,
            on_host(OP, &self.pieces.order)?,
        );
        let relations = on_host(OP, &self.pieces.relations)?;
        for (piece, (range, &relation)) in offsets.windows(2).zip(relations).enumerate() {
            f(
                piece,
                relation as usize,
                &order[range[0] as usize..range[1] as usize],
            );
        }
        Ok(())
    }

    fn host_weights_grad(
        &self,
        shape: BlockShape,
        x: &Buffer,
        grad_pairs: &Buffer,
        scratch: &mut Buffer,
    ) -> Result<(), Error> {
        let sources = on_host(OP, &self.pair_sources)?;
        let (x, grad_pairs) = (on_host(OP, x)?, on_host(OP, grad_pairs)?);
        let scratch = on_host_mut(OP, scratch)?;
        let n_weights = shape.n_weights();
        self.each_piece(|piece, _, pairs| {
            let sum = &mut scratch[piece * n_weights..][..n_weights];
            sum.fill(0.0);
            for &pair in pairs {
                let source = sources[pair as usize] as usize;
                let x = &x[source * shape.in_width()..][..shape.in_width()];
                let g = &grad_pairs[pair as usize * shape.out_width()..][..shape.out_width()];
                outer(shape, x, g, sum);
            }
        })
    }

    fn launch_transform(
        &self,
        kernel: &str,
        shape: BlockShape,
        (bases, coefficients, n_bases): Operands<'_>,
        x: &Buffer,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (inner, out_width) = match kernel {
            "relation_transform_fwd" => (shape.rows, shape.out_width()),
            _ => (shape.cols, shape.in_width()),
        };
        let n_columns = (TILE_BYTES / size_of::<f32>() / inner).clamp(1, out_width);
        let launch = self.pieces_by(out_width.div_ceil(n_columns))?;
        let args = [
            Arg::read(&self.pieces.relations),
            Arg::read(&self.pieces.offsets),
            Arg::read(&self.pieces.order),
            Arg::read(&self.pair_sources),
            Arg::read(bases),
            Arg::read(coefficients),
            Arg::u32(n_bases as u32),
            Arg::u32(shape.n_blocks as u32),
            Arg::u32(shape.rows as u32),
            Arg::u32(shape.cols as u32),
            Arg::read(x),
            Arg::u32(n_columns as u32),
            Arg::write(out),
        ];
        let launch = launch.with_shared(inner * n_columns * size_of::<f32>());
        // SAFETY: pieces, order and sources were made with the graph; the caller checked the lengths of the others.
        unsafe { self.device.launch(kernel, launch, &args) }
    }

    fn launch_weights_grad(
        &self,
        shape: BlockShape,
        x: &Buffer,
        grad_pairs: &Buffer,
        scratch: &mut Buffer,
    ) -> Result<(), Error> {
        let launch = self.pieces_by(shape.n_weights().div_ceil(BLOCK as usize))?;
        let args = [
            Arg::read(&self.pieces.offsets),
            Arg::read(&self.pieces.order),
            Arg::read(&self.pair_sources),
            Arg::u32(shape.n_blocks as u32),
            Arg::u32(shape.rows as u32),
            Arg::u32(shape.cols as u32),
            Arg::read(x),
            Arg::read(grad_pairs),
            Arg::write(scratch),
        ];
        // SAFETY: as in `launch_transform`; each thread writes one weight of its piece.
        unsafe { self.device.launch("relation_weights_bwd", launch, &args) }
    }

    /// A block of threads for each piece and each of `n_tiles` tiles.
    fn pieces_by(&self, n_tiles: usize) -> Result<Launch, Error> {
        let mut launch = Launch::blocks(self.pieces.n_pieces, BLOCK);
        match u16::try_from(n_tiles) {
            Ok(n) => launch.grid[1] = n.into(),
            Err(_) => {
                return Err(Error::invalid(
                    OP,
                    "too many weights in a relation: above 2^24",
                ));
            }
        }
        Ok(launch)
    }
}

/// `to = W^T from`, block by block.
fn forward(shape: BlockShape, w: &[f32], from: &[f32], to: &mut [f32]) {
    to.fill(0.0);
    for (block, w) in w.chunks_exact(shape.rows * shape.cols).enumerate() {
        let from = &from[block * shape.rows..][..shape.rows];
        let to = &mut to[block * shape.cols..][..shape.cols];
        for (&x, w) in from.iter().zip(w.chunks_exact(shape.cols)) {
            to.iter_mut().zip(w).for_each(|(t, &w)| *t += x * w);
        }
    }
}

/// `to = W from`, block by block.
fn adjoint(shape: BlockShape, w: &[f32], from: &[f32], to: &mut [f32]) {
    to.fill(0.0);
    for (block, w) in w.chunks_exact(shape.rows * shape.cols).enumerate() {
        let from = &from[block * shape.cols..][..shape.cols];
        let to = &mut to[block * shape.rows..][..shape.rows];
        for (t, w) in to.iter_mut().zip(w.chunks_exact(shape.cols)) {
            *t = w.iter().zip(from).map(|(&w, &g)| w * g).sum();
        }
    }
}

/// `sum += x outer g`, block by block.
fn outer(shape: BlockShape, x: &[f32], g: &[f32], sum: &mut [f32]) {
    for (block, sum) in sum.chunks_exact_mut(shape.rows * shape.cols).enumerate() {
        let g = &g[block * shape.cols..][..shape.cols];
        let x = &x[block * shape.rows..][..shape.rows];
        for (&x, sum) in x.iter().zip(sum.chunks_exact_mut(shape.cols)) {
            sum.iter_mut().zip(g).for_each(|(s, &g)| *s += x * g);
        }
    }
}
