//! Relational graph convolution (R-GCN) that never builds its weight matrices `W_r`.
//!
//! The edges (source, relation, destination) of a [`Relational`] graph are grouped into *pairs*: the distinct (source,
//! relation) that occur, in order of the source. A layer makes one message row for each pair and sums the rows into
//! destinations with [`Device::gather_sum`] over [`Relational::incoming`], whose weights are the normaliser `1 / c`;
//! [`Relational::outgoing`] is the adjoint. Two ways to make the rows:
//!
//! - one-hot features with basis decomposition, `pair[p] = sum_b a[r, b] * V[s, b]`: [`Relational::basis_pairs`] reads
//!   the block `V[s]` once for all relations of `s`. Work and memory follow the pairs, not sources times relations;
//! - dense features, `pair[p] = W_r^T x[s]` with `W_r` a sum of bases or block-diagonal: [`Relational::transform`].
//!
//! Without decomposition the rows of the pairs are the parameters themselves: gather them.
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_device::basis::{BasisShape, Edges, Relational, inverse_counts};
//!
//! let device = Device::host();
//! let (sources, relations, destinations) = ([0, 1, 1], [0, 0, 1], [2, 2, 0]);
//! let edges = Edges {
//!     n_sources: 3, n_destinations: 3, n_relations: 2,
//!     sources: &sources, relations: &relations, destinations: &destinations,
//!     weights: &inverse_counts(&relations, &destinations),
//! };
//! let graph = Relational::upload(&device, &edges, &[0, 3])?;
//! let shape = BasisShape { n_bases: 1, width: 1 };
//! let (bases, coefficients) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[1.0, 10.0])?);
//! let (mut pairs, mut out) = (device.zeros(graph.n_pairs())?, device.zeros(3)?);
//! graph.basis_pairs(shape, &bases, &coefficients, &mut pairs)?;
//! device.gather_sum(graph.incoming(), 1, &pairs, &mut out)?;
//! assert_eq!(device.download(&out)?, [20.0, 0.0, 1.5]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod dense;
mod host;
mod layout;
#[cfg(test)]
mod tests;

use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::segments::{Gather, Segments};
use crate::{Arg, Buffer, Copy2d, Device, Error, Launch};

pub use dense::{BlockShape, Weights};
pub use layout::{Edges, inverse_counts};

/// Threads of a block of the kernels that give each source a warp.
const BLOCK: u32 = 128;
/// The largest tile of a source's bases that a warp keeps: as in the kernels.
const BASES_AT_ONCE: usize = 64;
const COLUMNS_AT_ONCE: usize = 32;

const OP: &str = "basis";

/// A relational graph in device memory, grouped by (source, relation).
#[derive(Debug)]
pub struct Relational {
    device: Device,
    n_sources: usize,
    n_relations: usize,
    n_pairs: usize,
    /// The pairs of each source.
    by_source: Segments,
    pair_relations: Buffer<u32>,
    pair_sources: Buffer<u32>,
    /// The place of each pair among those of its range, sorted by relation.
    ranks: Buffer<u32>,
    ranges: Vec<Range>,
    incoming: Gather,
    outgoing: Gather,
    pieces: Pieces,
}

/// A run of sources whose gradients of shared parameters are summed apart.
#[derive(Debug)]
struct Range {
    first_source: u32,
    n_sources: u32,
    n_pairs: usize,
    /// The pairs of each relation, by rank.
    by_relation: Segments,
}

/// Runs of pairs of one range and relation, cut to a bounded length.
#[derive(Debug)]
struct Pieces {
    n_pieces: usize,
    relations: Buffer<u32>,
    offsets: Buffer<u64>,
    /// Pairs, sorted by range and relation.
    order: Buffer<u32>,
    /// The pieces of each range and relation.
    by_relation: Segments,
}

/// The sizes of a basis decomposition of one-hot features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasisShape {
    /// Bases that all relations share.
    pub n_bases: usize,
    /// Columns of a message.
    pub width: usize,
}

/// Plain gradient descent with weight decay: `v -= rate * (gradient + decay * v)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// The learning rate.
    pub rate: f32,
    /// The factor of the L2 penalty `decay / 2 * v^2`.
    pub decay: f32,
}

/// What the backward pass of [`Relational::basis_pairs`] leaves for the coefficients.
#[derive(Debug)]
pub struct CoefficientGradient<'a> {
    /// `[n_ranges, n_relations, n_bases]`: the gradient that each range of sources contributes.
    pub by_range: &'a mut Buffer,
    /// Working memory of [`Relational::scratch`].
    pub scratch: &'a mut Scratch,
}

/// Working memory of the backward passes over bases.
#[derive(Debug)]
pub struct Scratch {
    /// The dot products of a range's pairs with the bases of their source.
    dots: Buffer,
    /// The coefficients' gradient of one range.
    of_range: Buffer,
}

impl Relational {
    /// The number of distinct (source, relation) that occur.
    pub fn n_pairs(&self) -> usize {
        self.n_pairs
    }

    /// The number of ranges of sources, see [`Relational::upload`].
    pub fn n_ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The sums of messages: for each destination its pairs, weighted as the edges were.
    pub fn incoming(&self) -> &Gather {
        &self.incoming
    }

    /// The adjoint of [`Relational::incoming`]: for each pair its destinations.
    pub fn outgoing(&self) -> &Gather {
        &self.outgoing
    }

    /// Working memory of the backward passes: `n_bases` floats for each pair of the largest range, and for each relation.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn scratch(&self, n_bases: usize) -> Result<Scratch, Error> {
        Ok(Scratch {
            dots: self.device.zeros(self.largest_range() * n_bases)?,
            of_range: self.device.zeros(self.n_relations * n_bases)?,
        })
    }

    fn largest_range(&self) -> usize {
        let n_pairs = self.ranges.iter().map(|range| range.n_pairs);
        n_pairs.max().unwrap_or(0)
    }

    /// Bytes that [`Relational::basis_pairs`] moves, coefficients being cached: bases read once, pairs written once.
    pub fn forward_bytes(&self, shape: BasisShape) -> usize {
        let bases = self.n_sources * shape.n_bases * shape.width;
        4 * (bases + self.n_pairs * shape.width + self.n_pairs) + 8 * self.n_sources
    }

    /// Bytes that [`Relational::basis_pairs_grad`] and [`Relational::basis_pairs_step`] move: as forward, with the bases
    /// (or their gradient) written, a rank for each pair, and the dot products written and read.
    pub fn backward_bytes(&self, shape: BasisShape) -> usize {
        let bases = self.n_sources * shape.n_bases * shape.width;
        self.forward_bytes(shape) + 4 * (bases + self.n_pairs) + 8 * self.n_pairs * shape.n_bases
    }

    /// `pairs[p, :] = sum_b coefficients[r_p, b] * bases[s_p, b, :]`.
    ///
    /// # Shapes
    /// `bases [n_sources, n_bases, width]`, `coefficients [n_relations, n_bases]`, `pairs [n_pairs, width]`.
    /// # Errors
    /// [`crate::ErrorKind::Length`], [`crate::ErrorKind::OtherDevice`].
    /// # Complexity
    /// `2 * n_pairs * n_bases * width` FLOP; [`Relational::forward_bytes`].
    /// # Determinism
    /// A row's bits depend on its own pair only.
    /// # Source
    /// Schlichtkrull et al., "Modeling relational data with graph convolutional networks" (2018), equation 3.
    pub fn basis_pairs(
        &self,
        shape: BasisShape,
        bases: &Buffer,
        coefficients: &Buffer,
        pairs: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_bases(shape, bases, coefficients)?;
        check(OP, "pairs", elements(&[self.n_pairs, shape.width]), pairs)?;
        if let BackEnd::Host(_) = &self.device.back_end {
            let operands = host::Operands::new(self, shape, coefficients)?;
            host::pairs(operands, on_host(OP, bases)?, on_host_mut(OP, pairs)?);
            return Ok(());
        }
        let args = [
            Arg::read(self.by_source.offsets()),
            Arg::read(&self.pair_relations),
            Arg::read(bases),
            Arg::read(coefficients),
            Arg::u32(self.n_sources as u32),
            Arg::u32(shape.n_bases as u32),
            Arg::u32(shape.width as u32),
            Arg::write(pairs),
        ];
        let launch = warps(self.n_sources, shape);
        // SAFETY: offsets and relations were made with the graph and agree with the checked lengths of the others.
        unsafe { self.device.launch("basis_pairs_fwd", launch, &args) }
    }

    /// The gradients of [`Relational::basis_pairs`] by the bases and, range by range, by the coefficients.
    ///
    /// # Shapes
    /// `grad_pairs [n_pairs, width]`, `grad_bases` as `bases`.
    /// # Errors
    /// As [`Relational::basis_pairs`].
    /// # Complexity
    /// `4 * n_pairs * n_bases * width` FLOP; [`Relational::backward_bytes`].
    /// # Determinism
    /// Every sum has a fixed order, which for `by_range[k]` depends on the range's own pairs only: ranks that own whole
    /// ranges and add them in order agree with one rank that owns all.
    pub fn basis_pairs_grad(
        &self,
        shape: BasisShape,
        (bases, coefficients): (&Buffer, &Buffer),
        grad_pairs: &Buffer,
        grad_bases: &mut Buffer,
        grad_coefficients: CoefficientGradient<'_>,
    ) -> Result<(), Error> {
        self.check_bases(shape, bases, coefficients)?;
        check(OP, "grad_bases", bases.len(), grad_bases)?;
        self.each_range(shape, grad_pairs, grad_coefficients, |range, dots| {
            if let BackEnd::Host(_) = &self.device.back_end {
                let operands = host::Operands::new(self, shape, coefficients)?;
                let dots = on_host_mut(OP, dots)?;
                let grad_bases = on_host_mut(OP, grad_bases)?;
                let (bases, grad_pairs) = (on_host(OP, bases)?, on_host(OP, grad_pairs)?);
                host::gradients(operands, range, (bases, grad_pairs), dots, grad_bases);
                return Ok(());
            }
            let mut args = vec![
                Arg::read(self.by_source.offsets()),
                Arg::read(&self.pair_relations),
                Arg::read(&self.ranks),
                Arg::read(bases),
                Arg::read(coefficients),
                Arg::read(grad_pairs),
            ];
            args.extend(range.sizes(shape));
            args.extend([Arg::write(dots), Arg::write(grad_bases)]);
            let launch = warps(range.n_sources as usize, shape);
            // SAFETY: as in `basis_pairs`; ranks are below the range's pairs, for which `dots` has room.
            unsafe { self.device.launch("basis_pairs_bwd", launch, &args) }
        })
    }

    /// A step of gradient descent on the bases in place, in the pass that computes their gradient, which is never
    /// stored; the coefficients' gradient is that of [`Relational::basis_pairs_grad`].
    ///
    /// # Errors
    /// As [`Relational::basis_pairs_grad`], whose shapes, work and determinism it shares.
    pub fn basis_pairs_step(
        &self,
        (shape, descent): (BasisShape, Descent),
        bases: &mut Buffer,
        coefficients: &Buffer,
        grad_pairs: &Buffer,
        grad_coefficients: CoefficientGradient<'_>,
    ) -> Result<(), Error> {
        self.check_bases(shape, bases, coefficients)?;
        self.each_range(shape, grad_pairs, grad_coefficients, |range, dots| {
            if let BackEnd::Host(_) = &self.device.back_end {
                let operands = host::Operands::new(self, shape, coefficients)?;
                let dots = on_host_mut(OP, dots)?;
                let (bases, grad_pairs) = (on_host_mut(OP, bases)?, on_host(OP, grad_pairs)?);
                host::step(operands, range, descent, grad_pairs, dots, bases);
                return Ok(());
            }
            let mut args = vec![
                Arg::read(self.by_source.offsets()),
                Arg::read(&self.pair_relations),
                Arg::read(&self.ranks),
                Arg::read(coefficients),
                Arg::read(grad_pairs),
            ];
            args.extend(range.sizes(shape));
            args.extend([Arg::f32(descent.rate), Arg::f32(descent.decay)]);
            args.extend([Arg::write(dots), Arg::write(bases)]);
            let launch = warps(range.n_sources as usize, shape);
            // SAFETY: as in `basis_pairs_grad`; each warp reads and writes the bases of its own source only.
            unsafe { self.device.launch("basis_pairs_step", launch, &args) }
        })
    }

    /// Runs `backward` for each range and sums the dot products that it leaves, by relation.
    fn each_range(
        &self,
        shape: BasisShape,
        grad_pairs: &Buffer,
        grad: CoefficientGradient<'_>,
        mut backward: impl FnMut(&Range, &mut Buffer) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let len = self.n_relations * shape.n_bases;
        check(
            OP,
            "grad_pairs",
            elements(&[self.n_pairs, shape.width]),
            grad_pairs,
        )?;
        check(
            OP,
            "by_range",
            elements(&[self.ranges.len(), len]),
            grad.by_range,
        )?;
        let Scratch { dots, of_range } = grad.scratch;
        check(
            OP,
            "scratch",
            elements(&[self.largest_range(), shape.n_bases]),
            dots,
        )?;
        check(OP, "scratch", len, of_range)?;
        for (k, range) in self.ranges.iter().enumerate() {
            backward(range, dots)?;
            let by_relation = &range.by_relation;
            self.device
                .segment_sum_of_first(by_relation, shape.n_bases, dots, of_range)?;
            let copy = Copy2d {
                rows: 1,
                width: len,
                source_first: 0,
                source_stride: len,
                target_first: k * len,
                target_stride: len,
            };
            self.device.copy_2d(copy, of_range, grad.by_range)?;
        }
        Ok(())
    }

    fn check_bases(
        &self,
        shape: BasisShape,
        bases: &Buffer,
        coefficients: &Buffer,
    ) -> Result<(), Error> {
        let fits = |n: usize| (1..=1 << 24).contains(&n);
        if !fits(shape.n_bases) || !fits(shape.width) {
            return Err(Error::invalid(OP, "n_bases and width must be in 1..=2^24"));
        }
        let len = self.n_sources * shape.n_bases * shape.width;
        check(OP, "bases", len, bases)?;
        check(
            OP,
            "coefficients",
            self.n_relations * shape.n_bases,
            coefficients,
        )
    }
}

impl Range {
    fn sizes(&self, shape: BasisShape) -> [Arg<'static>; 4] {
        [
            Arg::u32(self.first_source),
            Arg::u32(self.n_sources),
            Arg::u32(shape.n_bases as u32),
            Arg::u32(shape.width as u32),
        ]
    }
}

/// A warp for each source, with shared memory for a tile of its bases.
fn warps(n_sources: usize, shape: BasisShape) -> Launch {
    let per_warp = shape.n_bases.min(BASES_AT_ONCE) * (shape.width.min(COLUMNS_AT_ONCE) | 1);
    let n_warps = BLOCK as usize / 32;
    Launch::blocks(n_sources.div_ceil(n_warps), BLOCK).with_shared(4 * per_warp * n_warps)
}
